"""Runs what is missing of a sweep: looks into the store, gives the rest to an executor, keeps each chunk as it comes.

A chunk is announced when it is on the disk, not before; however the run ends, what was announced is kept.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import FrameType

from tqdm.auto import tqdm

from tutelage._version import __version__
from tutelage.sweeps.executors import Chunk, Compute, Execute, Task
from tutelage.sweeps.store import Store, StoreStatus, counted

SECONDS_BETWEEN_TICKS = 1.0
MOST_SHOWN = 5  # different errors; all are kept with their points


class Progress:
    """What is seen of a run. `notices` are sentences about what happened on the way and did not stop the sweep.

    shown: a bar on standard error where that is a terminal, with the rate, the time left and the failures so far; notices,
    and the first few errors, in lines of their own. Otherwise nothing is printed.
    """

    def __init__(self, shown: bool = False):
        self.shown = shown
        self.notices: list[str] = []
        self._failed, self._errors = 0, set()

    @contextmanager
    def over(self, points: int, kept: int) -> Iterator[None]:
        """Inside, the run goes on. points: of the sweep; kept: those of earlier runs.

        The clock goes on while nothing comes: the first chunk of a shape waits for its compilation.
        """
        clock = "[{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
        self._bar = tqdm(
            total=points,
            initial=kept,
            desc="sweeping",
            bar_format=f"{{desc}}: {{percentage:3.0f}}% |{{bar}}| {{n_fmt}}/{{total_fmt}} points {clock}",
            unit=" points",
            smoothing=0.1,
            leave=False,
            disable=None if self.shown else True,
        )
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(SECONDS_BETWEEN_TICKS):
                self._bar.refresh()

        ticking = threading.Thread(target=tick, daemon=True)
        ticking.start()
        try:
            yield
        finally:
            ended.set()
            ticking.join()
            self._bar.close()

    def done(self, task: Task, chunk: Chunk) -> None:
        """This chunk is on the disk."""
        errors = [error for error in chunk["failure"][1] if error]
        for error in dict.fromkeys(errors):
            if error not in self._errors and len(self._errors) < MOST_SHOWN:
                self._errors.add(error)
                self._write(f"points fail: {error}")
        self._failed += len(errors)
        if self._failed:
            self._bar.set_postfix_str(f"{self._failed} failed", refresh=False)
        self._bar.update(len(task.points))

    def notice(self, message: str) -> None:
        """Something happened that does not stop the sweep."""
        self.notices.append(message)
        self._write(message)

    def _write(self, message: str) -> None:
        if self.shown:
            tqdm.write(f"note: {message}", file=sys.stderr)


@dataclass(frozen=True)
class Report:
    """What a run did. computed: chunks of this run; kept: of earlier ones; notices: on the way; status: after it."""

    computed: int
    kept: int
    notices: tuple[str, ...]
    status: StoreStatus

    def __str__(self) -> str:
        lines = [f"{counted(self.computed, 'chunk')} computed, {self.kept} already computed", str(self.status)]
        return "\n".join([*lines, *(f"  note: {notice}" for notice in self.notices)])


def run(
    store: Store,
    tasks: Sequence[Task],
    compute: Compute,
    execute: Execute,
    *,
    retry: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Compute the tasks that the store lacks, and keep them there.

    retry: also those in which points have failed. Ctrl-C passes through, with the finished work kept; a disk that is full
    is an InputError, with the store intact.
    """
    progress = progress or Progress()
    with store.writing():
        if store.version != __version__:
            progress.notice(f"the sweep was begun with tutelage {store.version} and goes on with {__version__}.")
        for name in store.set_aside_damaged():
            progress.notice(f"{name} does not match its hash; it is set aside and its chunk computed again.")
        done = store.done - store.failed if retry else store.done
        pending = [task for task in tasks if task.index not in done]
        with progress.over(store.points, store.points - sum(len(task.points) for task in pending)):
            try:
                execute_all(execute, pending, compute, store.put, progress)
            except KeyboardInterrupt:
                kept = f"{len(store.done)} of {store.chunks} chunks are kept in {store.folder}"
                raise KeyboardInterrupt(f"{kept}; run the same sweep again to resume.") from None
    return Report(len(pending), len(tasks) - len(pending), tuple(progress.notices), store.status())


def execute_all(
    execute: Execute,
    tasks: Sequence[Task],
    compute: Compute,
    keep: Callable[[Task, Chunk], None],
    progress: Progress,
) -> None:
    """Compute these tasks, keep each chunk as it comes, and announce it when it is kept."""
    if not tasks:
        return
    with closing(execute(compute, tasks, progress.notice)) as results:
        for task, chunk in results:
            with _interrupts_deferred():
                keep(task, chunk)
                progress.done(task, chunk)


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Ctrl-C waits until a finished chunk is kept. Python also ignores one inside a callback, of which HDF5 has many."""
    if threading.current_thread() is not threading.main_thread() or not callable(usual := signal.getsignal(signal.SIGINT)):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            usual(*came[0])
