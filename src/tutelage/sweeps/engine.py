"""Runs what is missing of a sweep: looks into the store, gives the rest to an executor, keeps each chunk as it comes.

A chunk is announced when it is on the disk, not before; however the run ends, what was announced is kept.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tutelage import checks
from tutelage._version import __version__
from tutelage.sweeps.executors import executor as named_executor
from tutelage.sweeps.executors.attempt import Compute, Results
from tutelage.sweeps.outcome import Task, WorkerError
from tutelage.sweeps.progress import Progress, Silent
from tutelage.sweeps.status import StoreStatus, counted
from tutelage.sweeps.store import Store


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
    watched = _Noting(progress or Silent())
    with store.writing():
        if store.version != __version__:
            watched.notice(f"the sweep was begun with tutelage {store.version} and goes on with {__version__}.")
        for name in store.set_aside_damaged():
            watched.notice(f"{name} does not match its hash; it is set aside and its chunk computed again.")
        done = store.done - store.failed if retry else store.done
        pending = [task for task in tasks if task.index not in done]
        watched.begin(store.points, store.points - sum(len(task.points) for task in pending))
        try:
            if pending:
                with closing(execute(compute, pending, workers, watched.notice)) as results:
                    _keep(results, store, watched)
        except KeyboardInterrupt:
            kept = f"{len(store.done)} of {store.chunks} chunks are kept in {store.folder}"
            raise KeyboardInterrupt(f"{kept}; run the same sweep again to go on.") from None
        finally:
            watched.end()
    return Report(len(pending), len(tasks) - len(pending), tuple(watched.notices), store.status())


def _keep(results: Results, store: Store, progress: Progress) -> None:
    for task, result in results:
        outcome = result.outcome(len(task.points)) if isinstance(result, WorkerError) else result
        store.put(task, outcome)
        progress.done(task, outcome)


class _Noting:
    """Passes everything on, and keeps the notices for the report."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self.begin, self.done, self.end = progress.begin, progress.done, progress.end
        self.notices: list[str] = []

    def notice(self, sentence: str) -> None:
        self.notices.append(sentence)
        self._progress.notice(sentence)
