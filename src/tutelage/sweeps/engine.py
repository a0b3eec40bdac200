"""Runs what is missing of a sweep: looks into the store, gives the rest to an executor, keeps each chunk as it comes.

A chunk is announced when it is on the disk, not before; however the run ends, what was announced is kept. A run is silent
unless it is given a `Bar`, which shows the rate, the time left and the failures so far.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from tutelage import checks
from tutelage._version import __version__
from tutelage.sweeps.executors import executor as named_executor
from tutelage.sweeps.store import Store, StoreStatus, counted
from tutelage.sweeps.tasks import Compute, Execute, Outcome, Task, WorkerError

SECONDS_BETWEEN_TICKS = 1.0
MOST_SHOWN = 5  # different errors; all are kept with their points


class Progress:
    """Called in this order: begin, any number of `done` and `notice`, end. This one shows nothing."""

    def begin(self, points: int, kept: int) -> None:
        """points: of the sweep; kept: those of earlier runs."""

    def done(self, task: Task, outcome: Outcome) -> None:
        """This chunk is on the disk."""

    def notice(self, message: str) -> None:
        """Something happened that does not stop the sweep."""

    def end(self) -> None:
        """Nothing more comes."""


class Bar(Progress):
    """A bar on standard error where that is a terminal; notices, and the first few errors, in lines of their own."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._ended = threading.Event()
        self._failed = 0
        self._errors: set[str] = set()

    def begin(self, points: int, kept: int) -> None:
        from tqdm import tqdm

        clock = "[{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
        self._bar = tqdm(
            total=points,
            initial=kept,
            desc="sweeping",
            bar_format=f"{{desc}}: {{percentage:3.0f}}% |{{bar}}| {{n_fmt}}/{{total_fmt}} points {clock}",
            unit=" points",
            smoothing=0.1,
            leave=False,
            disable=None,
        )
        self._clock = threading.Thread(target=self._tick, daemon=True)
        self._clock.start()

    def _tick(self) -> None:
        """The clock goes on while nothing comes: the first chunk of a shape waits for its compilation."""
        while not self._ended.wait(SECONDS_BETWEEN_TICKS):
            self._bar.refresh()

    def done(self, task: Task, outcome: Outcome) -> None:
        for failure in outcome.failures:
            if failure.error not in self._errors and len(self._errors) < MOST_SHOWN:
                self._errors.add(failure.error)
                self.notice(f"points fail: {failure.error}")
        self._failed += len(outcome.failures)
        if self._failed:
            self._bar.set_postfix_str(f"{self._failed} failed", refresh=False)
        self._bar.update(len(task.points))

    def notice(self, message: str) -> None:
        from tqdm import tqdm

        tqdm.write(f"note: {message}", file=sys.stderr)

    def end(self) -> None:
        self._ended.set()
        self._clock.join()
        self._bar.close()


@dataclass(frozen=True)
class Report:
    """What a run did. computed: chunks of this run; kept: of earlier ones; notices: on the way; status: after it."""

    computed: int
    kept: int
    notices: tuple[str, ...]
    status: StoreStatus

    def __str__(self) -> str:
        lines = [f"{counted(self.computed, 'chunk')} computed, {self.kept} kept from before", str(self.status)]
        return "\n".join([*lines, *(f"  note: {notice}" for notice in self.notices)])


def run(
    store: Store,
    tasks: Sequence[Task],
    compute: Compute,
    executor: str = "processes",
    *,
    workers: int | None = None,
    cluster: Mapping[str, Any] | None = None,
    retry: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Compute the tasks that the store lacks, and keep them there.

    retry: also those in which points have failed. Ctrl-C passes through, with the finished work kept; a disk that is full
    is a StoreError, with the store intact.
    """
    execute = named_executor(executor, cluster)
    workers = None if workers is None else checks.as_count("workers", workers)
    shown, notices = progress or Progress(), []

    def notice(message: str) -> None:
        notices.append(message)
        shown.notice(message)

    with store.writing():
        if store.version != __version__:
            notice(f"the sweep was begun with tutelage {store.version} and goes on with {__version__}.")
        for name in store.set_aside_damaged():
            notice(f"{name} does not match its hash; it is set aside and its chunk computed again.")
        done = store.done - store.failed if retry else store.done
        pending = [task for task in tasks if task.index not in done]
        shown.begin(store.points, store.points - sum(len(task.points) for task in pending))
        try:
            if pending:
                execute_all(execute, compute, pending, workers, store.put, shown, notice)
        except KeyboardInterrupt:
            kept = f"{len(store.done)} of {store.chunks} chunks are kept in {store.folder}"
            raise KeyboardInterrupt(f"{kept}; run the same sweep again to go on.") from None
        finally:
            shown.end()
    return Report(len(pending), len(tasks) - len(pending), tuple(notices), store.status())


def execute_all(
    execute: Execute,
    compute: Compute,
    tasks: Sequence[Task],
    workers: int | None,
    keep: Callable[[Task, Outcome], Any],
    progress: Progress,
    notice: Callable[[str], None],
) -> None:
    """Compute these tasks, keep each outcome as it comes, and announce it when it is kept."""
    with closing(execute(compute, tasks, workers, notice)) as results:
        for task, result in results:
            outcome = result.outcome(len(task.points)) if isinstance(result, WorkerError) else result
            with _interrupts_deferred():
                keep(task, outcome)
                progress.done(task, outcome)


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Ctrl-C waits until a finished chunk is kept. Python also ignores one inside a callback, of which HDF5 has many."""
    if threading.current_thread() is not threading.main_thread() or not callable(usual := signal.getsignal(signal.SIGINT)):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *signal_and_frame: came.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            usual(*came[0])
