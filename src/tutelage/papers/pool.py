"""Many figures at once: one process each, as many as there are cores, because compiling programs uses one core only.

The processes leave their results in the folder, where they are found like those of any earlier run; numbers do not depend on
how many there are.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tutelage._cores import cores
from tutelage.papers.registry import Replica
from tutelage.papers.run import Result, is_kept, run

MOST = 4  # a process holds a whole JAX

Around = Callable[[str], AbstractContextManager[Any]]


def run_all(
    figures: Sequence[Replica],
    folder: Path,
    *,
    quick: bool = False,
    formats: tuple[str, ...] = ("png",),
    workers: int | None = None,
    around: Around = nullcontext,
    waiting: Around = nullcontext,
    inside: Around = nullcontext,
) -> Iterator[Result]:
    """The results, in the order of the figures; each is kept in the folder as soon as it is there.

    workers: processes (default: the cores, up to four; 1: this process). Contexts, called with the id: around, in which this
    process computes; waiting, in which it waits for another; inside, in which another computes (it must be picklable).
    """
    missing = [figure for figure in figures if not is_kept(figure, folder, quick)]
    count = min(len(missing), min(cores(), MOST) if workers is None else workers)
    if count <= 1:
        for figure in figures:
            yield run(figure, folder, quick=quick, formats=formats, around=around)
        return
    with _processes(count) as pool:
        tasks = {figure.id: pool.submit(_run_beside, figure, folder, quick, formats, inside) for figure in missing}
        for figure in figures:
            if figure.id in tasks:
                with waiting(figure.id):
                    tasks[figure.id].result()
            result = run(figure, folder, quick=quick, formats=formats)
            yield replace(result, computed=figure.id in tasks)


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes end with it, also when it is left by an error or by Ctrl-C."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _leave_with_parent)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _run_beside(figure: Replica, folder: Path, quick: bool, formats: tuple[str, ...], inside: Around) -> None:
    run(figure, folder, quick=quick, formats=formats, around=inside)


def _leave_with_parent() -> None:
    """Ctrl-C ends a worker without a word, and none outlives the process that asked for it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
