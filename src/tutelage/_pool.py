"""Processes that compute for this one: sweeps, the explorer and the figures of papers share them.

A `Worker` is a pool of pebble's with one process. Workers share no channel: a process that is killed in the middle of a
message (the system is out of memory) takes nothing of the others with it, and it is known which task it had. A worker never
gets the Ctrl-C of the terminal, and it ends with this process, however this one ends.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from types import ModuleType
from typing import Any, TypeVar

from tutelage.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
TRIES = 3  # processes that may end before they are ready, one after the other
SECONDS_BETWEEN_LOOKS = 1.0  # at processes that nothing is heard of
_SPAWN = multiprocessing.get_context("spawn")
_STARTING = threading.Lock()


class WorkerLost(Exception):
    """The process that had a task has ended; the message says how."""


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_core() -> dict[str, str]:
    """The environment of a process that uses one core, and of a GPU only the memory that it needs. XLA reads NPROC."""
    libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return dict.fromkeys(libraries, "1") | {"XLA_FLAGS": flags, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class Child(_SPAWN.Process):
    """A process that does not run the user's script again, as those of `multiprocessing` do, nor gets Ctrl-C."""

    terminate = _SPAWN.Process.kill  # a compilation hears no request to stop: pebble would wait for three seconds

    def start(self) -> None:
        with _STARTING:
            script, masks = sys.modules["__main__"], hasattr(signal, "pthread_sigmask")
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()  # inherited
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = script
                if masks:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin(environment: Mapping[str, str], prepare: Callable[[], None] | None = None) -> None:
    """What a child does first: it takes this environment, and from now on ends with its parent."""
    os.environ.update(environment)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Context(type(_SPAWN)):
    """What pebble starts processes with; it remembers the newest."""

    process = Child()

    def Process(self, *args: Any, **options: Any) -> Child:  # type: ignore[override]
        self.process = Child(*args, **options)
        return self.process


class Worker:
    """One process for one task at a time, started now; `ready` is done when it can begin. prepare: called before the first.

    The future of a task can be canceled at any time, and ends the process if it works on that task already; so does a
    timeout. Another process follows. If a process ends by itself, discard the worker (`end`).
    """

    def __init__(self, environment: Mapping[str, str] | None = None, prepare: Callable[[], None] | None = None):
        from pebble import ProcessPool

        self._context = _Context()
        self._pool = ProcessPool(1, initializer=begin, initargs=(environment or {}, prepare), context=self._context)
        self.ready = self.submit(int)  # nothing to do

    def submit(self, function: Callable, *args: object, timeout: float | None = None) -> Future:
        """Compute this; `is_lost` tells whether it was lost with its process."""
        try:
            future = self._pool.schedule(function, args, timeout=timeout)
        except RuntimeError as error:  # the process has ended while it had nothing to do
            future = Future()
            future.set_exception(BrokenExecutor(str(error)))
        self.process = self._context.process  # that has it; another one follows a cancellation
        return future

    def end(self) -> str:
        """End the process, if it has not ended; how it did, in words."""
        self._pool.stop()
        self._pool.join()
        if self.process.pid is not None:  # else the system has refused to start it
            self.process.join()
        code = self.process.exitcode or 0
        return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


def is_lost(future: Future) -> bool:
    """Whether a task has ended with its process, rather than by itself."""
    from pebble import ProcessExpired

    return not future.cancelled() and isinstance(future.exception(), ProcessExpired | BrokenExecutor)


def results(
    function: Callable[[Item], Result], waiting: deque[Item], workers: int, environment: Mapping[str, str] | None = None
) -> Generator[tuple[Item, Result | BaseException], None, None]:
    """Each item with what `function` gives for it, as they are finished; an exception is given, not raised.

    function: of a module. waiting: the items, which are taken from its left. An item that was lost with its process comes
    with a `WorkerLost`, and can be put back into `waiting`. Close the generator to end all processes.
    """
    under_way: dict[Future, tuple[Worker, Item | None]] = {}  # None: the process starts
    idle: list[Worker] = []
    unborn = 0
    try:
        while True:
            while idle and waiting:
                worker, item = idle.pop(), waiting.popleft()
                under_way[worker.submit(function, item)] = (worker, item)
            while waiting and len(under_way) < workers:
                worker = Worker(environment)
                under_way[worker.ready] = (worker, None)
            if not waiting and all(item is None for _, item in under_way.values()):
                return
            done = wait(under_way, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED).done
            silent = [future for future, (worker, _) in under_way.items() if not worker.process.is_alive()]  # without a word
            for future in done or silent:
                worker, item = under_way.pop(future)
                lost = not future.done() or is_lost(future)
                how = worker.end() if lost else ""
                if not lost:
                    idle.append(worker)
                if item is not None:
                    yield item, WorkerLost(how) if lost else future.exception() or future.result()
                elif lost and (unborn := unborn + 1) == TRIES:
                    raise InputError(f"no worker process can be started (the last one {how}); finished work is saved.")
                elif not lost:
                    unborn = 0
    finally:
        end_all([*idle, *(worker for worker, _ in under_way.values())])


def end_all(workers: Sequence[Worker]) -> None:
    """End them at the same time."""
    for worker in workers:
        worker._pool.stop()
    for worker in workers:
        worker.end()
