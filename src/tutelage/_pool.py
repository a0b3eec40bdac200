"""Processes that compute for sweeps, the explorer and `tutelage replicate`.

A `Worker` is a pool of pebble's with one process. Workers share no channel: a process
that is killed in the middle of a message (the system is out of memory) takes nothing of
the others with it, and it is known which task it had. A worker never gets the Ctrl-C of
the terminal, and it ends with this process, however this one ends.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

from tutelage.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
TRIES = 3  # processes that may end before they are ready, one after the other
SECONDS_BETWEEN_LOOKS = 1.0  # at processes that nothing is heard of
# Variables by which libraries count threads. XLA reads NPROC.
THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NPROC",
)
_SPAWN = multiprocessing.get_context("spawn")
_STARTING = threading.Lock()


class WorkerLost(Exception):
    """The process that had a task has ended; the message says how."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_core() -> dict[str, str]:
    """Return the environment of a process that uses one core.

    Of a GPU it takes only the memory that it needs.
    """
    environment: dict[str, str] = {}
    for name in THREAD_COUNTS:
        environment[name] = "1"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    environment["XLA_FLAGS"] = flags.strip()
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    return environment


class Child(_SPAWN.Process):
    """A process that does not run the user's script again, nor gets Ctrl-C.

    Those of `multiprocessing` import the script that started them.
    """

    # a compilation hears no request to stop: pebble would wait for three seconds
    terminate = _SPAWN.Process.kill

    def start(self) -> None:
        """Start the process, with an empty script and without Ctrl-C."""
        with _STARTING:
            script = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                with _interrupts_blocked():
                    super().start()
            finally:
                sys.modules["__main__"] = script


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in this thread; a process that starts meanwhile inherits it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def begin(
    environment: Mapping[str, str], prepare: Callable[[], None] | None = None
) -> None:
    """Begin a child process: take this environment, and end with the parent.

    prepare: called last.
    """
    os.environ.update(environment)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _leave_with_parent() -> None:
    """Wait for the end of the parent process, and end this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Context(type(_SPAWN)):
    """The context in which pebble starts processes; it remembers the newest."""

    process = Child()

    def Process(self, *args: Any, **options: Any) -> Child:  # type: ignore[override]
        self.process = Child(*args, **options)
        return self.process


class Worker:
    """One process for one task at a time, started now.

    `ready` is done when it can begin. prepare: called before the first task.

    The future of a task can be canceled at any time, and ends the process if it works
    on that task already; so does a timeout. Another process follows. If a process ends
    by itself, discard the worker (`end`).
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ):
        from pebble import ProcessPool

        self._context = _Context()
        self._pool = ProcessPool(
            1,
            initializer=begin,
            initargs=(environment or {}, prepare),
            context=self._context,
        )
        self.ready = self.submit(int)  # nothing to do

    def submit(
        self, function: Callable, *args: object, timeout: float | None = None
    ) -> Future:
        """Compute a function of these arguments in the process.

        `is_lost` tells whether the task was lost with its process.
        """
        try:
            future = self._pool.schedule(function, args, timeout=timeout)
        except RuntimeError as error:
            # the process has ended while it had nothing to do
            future = Future()
            future.set_exception(BrokenExecutor(str(error)))
        # the process that has the task; another one follows a cancellation
        self.process = self._context.process
        return future

    def end(self) -> str:
        """End the process, if it has not ended, and say how it ended."""
        self._pool.stop()
        self._pool.join()
        if self.process.pid is not None:  # else the system has refused to start it
            self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


def is_lost(future: Future) -> bool:
    """Return True if a task has ended with its process, rather than by itself."""
    from pebble import ProcessExpired

    if future.cancelled():
        return False
    return isinstance(future.exception(), ProcessExpired | BrokenExecutor)


class _Task(NamedTuple, Generic[Item]):
    """A worker under way, and the item that it computes; None while it starts."""

    worker: Worker
    item: Item | None


def results(
    function: Callable[[Item], Result],
    waiting: deque[Item],
    workers: int,
    environment: Mapping[str, str] | None = None,
) -> Generator[tuple[Item, Result | BaseException], None, None]:
    """Yield each item with what `function` returns for it, as they are finished.

    An exception is yielded, not raised. An item that was lost with its process comes
    with a `WorkerLost`, and can be put back into `waiting`. Close the generator to end
    all processes.

    function: of a module. waiting: the items, which are taken from its left.
    """
    tasks: dict[Future, _Task[Item]] = {}
    idle: list[Worker] = []
    failed_starts = 0  # one after the other
    try:
        while True:
            while idle and waiting:
                worker = idle.pop()
                item = waiting.popleft()
                tasks[worker.submit(function, item)] = _Task(worker, item)
            while waiting and len(tasks) < workers:
                worker = Worker(environment)
                tasks[worker.ready] = _Task(worker, None)
            if not waiting and all(task.item is None for task in tasks.values()):
                return
            for future in _ended(tasks):
                worker, item = tasks.pop(future)
                if future.done() and not is_lost(future):
                    idle.append(worker)
                    if item is None:
                        failed_starts = 0
                    else:
                        yield item, future.exception() or future.result()
                    continue
                # the task was lost, perhaps without a word
                reason = worker.end()
                if item is not None:
                    yield item, WorkerLost(reason)
                    continue
                failed_starts += 1
                if failed_starts == TRIES:
                    raise InputError(
                        "no worker process can be started "
                        f"(the last one {reason}); finished work is saved."
                    )
    finally:
        end_all([*idle, *(task.worker for task in tasks.values())])


def _ended(tasks: Mapping[Future, _Task]) -> list[Future]:
    """Wait a little for tasks that end; else return those whose process has died."""
    done = wait(tasks, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED).done
    silent = [
        future for future, task in tasks.items() if not task.worker.process.is_alive()
    ]
    return list(done) or silent


def end_all(workers: Sequence[Worker]) -> None:
    """End several workers at the same time."""
    for worker in workers:
        worker._pool.stop()
    for worker in workers:
        worker.end()
