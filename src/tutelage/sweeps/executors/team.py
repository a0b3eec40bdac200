"""Processes of this machine, each with one core, one task at a time and a pipe of its own.

When one is lost it is known which task it had. They end with this process, however it ends.
"""

import pickle
import signal
import socket
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from tutelage._cores import cores
from tutelage.sweeps.errors import StoreError
from tutelage.sweeps.executors.attempt import TRIES, Compute, Notice, Results
from tutelage.sweeps.executors.children import start
from tutelage.sweeps.outcome import Outcome, Task, WorkerError

WORKER = "tutelage.sweeps.executors.worker"


def processes(compute: Compute, tasks: Iterable[Task], workers: int | None, notice: Notice) -> Results:
    """As many as there are cores, or `workers`; started when there is something to do for them."""
    team = _Team(compute, cores() if workers is None else workers, notice)
    try:
        yield from team.results(iter(tasks))
    finally:
        team.dismiss()


class _Worker:
    """A process, this end of its pipe, and the task that it has."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = start(WORKER, [str(theirs.fileno())], pass_fds=[theirs.fileno()])
        self.pipe = Connection(ours.detach())
        self.ready = False  # until it has said so
        self.task: Task | None = None

    def give(self, compute: Compute, task: Task) -> None:
        self.task = task
        with suppress(OSError):  # it has just ended; its pipe will say so
            self.pipe.send_bytes(pickle.dumps((compute, task.payload)))

    def end(self) -> str:
        """End it, if it has not ended; how it did, in words."""
        self.process.kill()
        self.pipe.close()
        code = self.process.wait()
        return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


class _Team:
    """The workers, the tasks to be given out again, and how often each was lost."""

    def __init__(self, compute: Compute, size: int, notice: Notice):
        self._compute, self._size, self._notice = compute, size, notice
        self._workers: list[_Worker] = []
        self._again: deque[Task] = deque()
        self._losses: Counter[int] = Counter()
        self._stillborn = 0

    def results(self, tasks: Iterator[Task]) -> Results:
        while self._give_out(tasks):
            for pipe in wait([worker.pipe for worker in self._workers]):
                worker = next(worker for worker in self._workers if worker.pipe is pipe)
                try:
                    message = worker.pipe.recv()
                except (EOFError, OSError):
                    yield from self._lost(worker)
                else:
                    yield from self._received(worker, message)

    def dismiss(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _give_out(self, tasks: Iterator[Task]) -> bool:
        """Something to do for everybody, as far as there is; whether anything is under way."""
        idle = [worker for worker in self._workers if worker.task is None]
        while idle or len(self._workers) < self._size:
            task = self._again.popleft() if self._again else next(tasks, None)
            if task is None:
                break
            if not idle:
                self._workers.append(_Worker())
                idle.append(self._workers[-1])
            idle.pop().give(self._compute, task)
        return any(worker.task is not None for worker in self._workers)

    def _received(self, worker: _Worker, message: Outcome | WorkerError | bool | str) -> Results:
        if isinstance(message, str):
            raise StoreError(f"the workers do not find what to compute ({message}); it must be a function of a module.")
        if isinstance(message, bool):
            worker.ready, self._stillborn = True, 0
        elif worker.task is not None:
            task, worker.task = worker.task, None
            yield task, message

    def _lost(self, worker: _Worker) -> Results:
        """Its task is given to another, unless it has cost too many workers already."""
        self._workers.remove(worker)
        task, end = worker.task, worker.end()
        if not worker.ready:
            self._stillborn += 1
            if self._stillborn == TRIES:
                raise StoreError(f"no worker process can be started (the last one {end}); finished work is kept.")
        if task is None:
            return
        self._losses[task.index] += worker.ready
        if self._losses[task.index] == TRIES:
            yield task, WorkerError(f"lost with {TRIES} workers, one after the other (the last one {end}; out of memory?)")
        else:
            self._notice(f"a worker {end} during chunk {task.index}, which is given to another.")
            self._again.append(task)
