"""Runs what is missing of a sweep: gives it to an executor and keeps each chunk as it comes.

An executor is this process, processes next to it, or a Dask cluster. All have one signature and give the same numbers:

    execute(compute, waiting) -> (task, its chunk or a WorkerLost), as they are finished

compute: a function of a module, from a task to its chunk. waiting: the tasks, to which a lost one is given back. An error of
the computation itself is not tried again; it gives a chunk without numbers.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from tutelage._pool import Child, WorkerLost, begin, cores, one_core, results
from tutelage._version import __version__
from tutelage.errors import InputError
from tutelage.progress import progress_bar
from tutelage.sweeps.store import Chunk, Store, Task

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy import Cluster

NAMES = ("serial", "processes", "dask", "slurm")
TRIES = 3  # workers that a task may lose before it counts as failed
OUR_SCHEDULER = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
SECONDS_TO_CONNECT, SECONDS_TO_START = 20, 120
MOST_SHOWN = 5  # different errors; all are kept with their points

Compute = Callable[[Task], Chunk]
Keep = Callable[[Task, Chunk], None]
Found = Generator[tuple[Task, Chunk | BaseException], None, None]  # closed when nobody waits for the rest
Execute = Callable[[Compute, deque[Task]], Found]


class Progress:
    """What is seen of a run, if `shown`: a bar on a terminal, and `notices` and the first few errors in lines of their own."""

    def __init__(self, shown: bool = False):
        self.shown = shown
        self.notices: list[str] = []
        self._errors: Counter[str] = Counter()

    def over(self, points: int, kept: int) -> AbstractContextManager[Any]:
        """Inside, the run goes on. kept: points of earlier runs."""
        disable = None if self.shown else True  # None: unless it is a terminal
        self._bar = progress_bar(points, "sweeping", unit=" points", initial=kept, disable=disable, delay=0)
        return self._bar

    def done(self, task: Task, chunk: Chunk) -> None:
        """This chunk is on the disk."""
        for error in filter(None, chunk["failure"][1]):
            if error not in self._errors and len(self._errors) < MOST_SHOWN:
                self._write(f"points fail: {error}")
            self._errors[error] += 1
        if self._errors:
            self._bar.set_postfix_str(f"{self._errors.total()} failed", refresh=False)
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
    """What a run did. computed: chunks of this run; kept: of earlier ones; notices: on the way."""

    computed: int
    kept: int
    notices: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.computed} computed, {self.kept} already computed"


def run(
    store: Store, compute: Compute, tasks: Sequence[Task], execute: Execute, progress: Progress, retry: bool = False
) -> Report:
    """Compute the tasks that the store lacks (retry: or in which points failed), and keep them there, whatever ends it."""
    with store.writing():
        if store.version != __version__:
            progress.notice(f"the sweep was begun with tutelage {store.version} and goes on with {__version__}.")
        for name in store.remove_damaged():
            progress.notice(f"{name} does not match its hash; its chunk is computed again.")
        done = store.done - store.failed if retry else store.done
        pending = [task for task in tasks if task.index not in done]
        try:
            execute_all(execute, compute, pending, store.put, progress, store.points)
        except KeyboardInterrupt:
            kept = f"{len(store.done)} of {store.chunks} chunks are kept in {store.folder}"
            raise KeyboardInterrupt(f"{kept}; run the same sweep again to resume.") from None
    return Report(len(pending), len(tasks) - len(pending), tuple(progress.notices))


def execute_all(
    execute: Execute, compute: Compute, tasks: Sequence[Task], keep: Keep, progress: Progress, points: int
) -> None:
    """Compute these tasks of a sweep of so many points, keep each chunk as it comes, and announce it when it is kept."""
    if not tasks:
        return
    waiting, losses = deque(tasks), Counter[int]()
    before = points - sum(len(task.points) for task in tasks)
    found = execute(compute, waiting)
    with progress.over(points, before), closing(found), ThreadPoolExecutor(1) as saver:
        for task, result in found:
            if isinstance(result, WorkerLost):
                losses[task.index] += 1
                if losses[task.index] < TRIES:
                    progress.notice(f"a worker {result} during chunk {task.index}, which is given to another.")
                    waiting.append(task)
                    continue
                lost = f"lost with its workers {TRIES} times (the last one {result}; out of memory?)"
                result = without_numbers(task, lost)
            elif isinstance(result, BaseException):
                raise result
            saver.submit(keep, task, result).result()  # Ctrl-C does not reach another thread: it comes when this is kept
            progress.done(task, result)


def executor_of(name: str, workers: int | None = None, cluster: Mapping[str, object] | None = None) -> Execute:
    """The executor of this name, or of the Dask scheduler at this address (tcp://host:port, or its scheduler file .json).

    workers: how many, None for all there are. cluster: for "slurm", the arguments of dask_jobqueue.SLURMCluster.
    """
    if cluster and name != "slurm":
        raise InputError(f"cluster options are given for the executor {name!r}; only 'slurm' takes them.")
    if name in ("serial", "processes"):
        return serial if name == "serial" else partial(processes, workers)
    if name not in NAMES and "://" not in name and not name.endswith(".json"):
        allowed = f"one of {', '.join(map(repr, NAMES))}, or the address of a Dask scheduler such as 'tcp://10.0.0.1:8786'"
        raise InputError(f"executor is {name!r}; it must be {allowed}.")
    _dask("dask_jobqueue" if name == "slurm" else "distributed", name)
    if name == "slurm" and workers is None:
        raise InputError("executor is 'slurm' and workers is not given; say how many workers SLURM is to start.")
    if name == "slurm" and shutil.which("sbatch") is None:
        raise InputError("executor is 'slurm' and there is no sbatch here; run this on a login node of the cluster.")
    if name not in NAMES and workers is not None:
        raise InputError(f"workers is {workers}; the cluster at {name} has its own number. Leave it out.")
    return partial(dask, name, workers, dict(cluster or {}))


def serial(compute: Compute, waiting: deque[Task]) -> Found:
    """Everything in this process, one chunk after the other: for small sweeps and for a debugger."""
    for task in waiting:
        yield task, attempt(compute, task)


def processes(workers: int | None, compute: Compute, waiting: deque[Task]) -> Found:
    """Processes of this machine with one core each: as many as there are cores, or `workers`."""
    return results(partial(attempt, compute), waiting, min(workers or cores(), len(waiting)), one_core())


def dask(where: str, workers: int | None, options: dict[str, Any], compute: Compute, waiting: deque[Task]) -> Found:
    """A Dask cluster. where: "dask", "slurm", an address, or a scheduler file; options: of the SLURM cluster."""
    with _dask("dask", where).config.set(OUR_SCHEDULER), _cluster(where, workers, options) as place:
        try:
            client = _dask("distributed", where).Client(**place, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError):
            raise InputError(f"no Dask scheduler responds at {where}; start one, or fix the address.") from None
        with client:
            try:
                if where == "dask":
                    client.wait_for_workers(1, timeout=SECONDS_TO_START)
                yield from _dask_results(client, compute, waiting)
            except (CancelledError, OSError):
                ended = "the Dask scheduler has ended or has no workers; finished work is saved."
                raise InputError(f"{ended} Start them and run the sweep again to resume.") from None


def attempt(compute: Compute, task: Task, version: str | None = None) -> Chunk:
    """The chunk of one task; an error is that of all of its points. version: of the sweep, for workers that come later."""
    if version not in (None, __version__):
        raise ImportError(f"a worker has tutelage {__version__}, and the sweep {version}")
    try:
        return compute(task)
    except Exception as error:
        return without_numbers(task, message_of(error))


def without_numbers(task: Task, error: str) -> Chunk:
    """A chunk that could not be computed."""
    return {"failure": ((), np.full(len(task.points), error, dtype=object))}


def message_of(error: BaseException) -> str:
    """The message; with the kind of error, unless it is one of ours."""
    message = " ".join(str(error).split())
    return message if isinstance(error, InputError) else f"{type(error).__name__}: {message}".rstrip(": ")


def _dask(module: str, where: str) -> ModuleType:
    """A module of Dask. dask_jobqueue makes Ctrl-C end the whole process; we put it back, to tell of finished work."""
    usual = signal.getsignal(signal.SIGINT)
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f'executor {where!r} needs Dask; install it by: pip install "tutelage[cluster]".') from None
    finally:
        if signal.getsignal(signal.SIGINT) is not usual:
            signal.signal(signal.SIGINT, usual)


@contextmanager
def _cluster(where: str, workers: int | None, options: dict[str, Any]) -> Iterator[dict[str, str | Cluster]]:
    """What `Client` is to be told. A cluster of ours has its scheduler in this process and ends with this context."""
    if where == "dask":
        with _dask("distributed", where).LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
            count = str(workers or cores())
            arguments = [cluster.scheduler_address, "--nworkers", count, "--nthreads", "1", "--no-dashboard"]
            keeper = Child(target=_keep_workers, args=(arguments,))
            keeper.start()
            try:
                yield {"address": cluster}
            finally:
                keeper.terminate()
                keeper.join()
    elif where == "slurm":
        exports = [f"export {name}={shlex.quote(value)}" for name, value in one_core().items()]
        usual = {"cores": 1, "processes": 1, "scheduler_options": {"dashboard_address": ":0"}}
        ours = {"job_script_prologue": [*exports, *options.get("job_script_prologue", ())]}
        try:
            cluster = _dask("dask_jobqueue", where).SLURMCluster(**usual | options | ours)
        except (TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"the cluster options {options} are not valid ({reason}); fix the [cluster] table.") from None
        with cluster:
            cluster.scale(workers)
            yield {"address": cluster}
    else:
        yield {"scheduler_file" if where.endswith(".json") else "address": where}


def _keep_workers(arguments: list[str]) -> None:
    """Dask's program that looks after workers; by itself it would wait for the scheduler forever, but it is our child."""
    begin(one_core() | {"DASK_LOGGING__DISTRIBUTED": "critical"})
    import_module("distributed.cli.dask_worker").main(arguments)


def _dask_results(client: Client, compute: Compute, waiting: deque[Task]) -> Found:
    """As they come. The scheduler gets as many tasks as there are cores: one that waits for a worker is blamed for its loss."""
    from distributed import KilledWorker, as_completed

    finished, under_way = as_completed(loop=client.loop), {}
    while True:
        cores_now: dict[str, int] = client.ncores()  # type: ignore[assignment]  (its types are those of asynchronous use)
        room = max(1, sum(cores_now.values())) - len(under_way)
        for task in [waiting.popleft() for _ in range(min(room, len(waiting)))]:
            future = client.submit(attempt, compute, task, __version__, pure=False, retries=0)
            under_way[future] = task
            finished.add(future)
        if not under_way:
            return
        future = next(finished)
        try:
            result = future.result()
        except KilledWorker:
            result = WorkerLost("was lost")
        except (CancelledError, OSError):  # of the scheduler
            raise
        except Exception as error:  # not of the computation: `attempt` catches those
            reason = message_of(error.__cause__ or error)
            raise InputError(f"the Dask workers cannot compute ({reason}); fix them and run the sweep again.") from None
        yield under_way.pop(future), result
