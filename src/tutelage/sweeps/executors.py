"""Who computes: this process, processes next to it, or a Dask cluster. One signature, the same numbers.

    execute(compute, tasks, notice) -> (task, chunk), as they are finished

compute: a function of a module (not of a script), from a task to its chunk. notice: called with one sentence when something
happened that the user should know. A worker that is lost takes nothing with it: its task is given out again, TRIES times in
all. An error of the computation itself is not tried again. Either way, a task that fails gives a chunk without numbers, whose
`failure` says why.

On a cluster that we start, Dask reports every lost worker. A scheduler that is there already tries a number of times itself
(distributed.scheduler.allowed-failures); when it gives up we try once more, for it blames all tasks that waited for a lost
worker.
"""

import shlex
import shutil
import signal
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from tutelage import checks
from tutelage._pool import Child, WorkerLost, cores, one_core, results
from tutelage._types import Table
from tutelage._version import __version__
from tutelage.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.deploy import Cluster

NAMES = ("serial", "processes", "dask", "slurm")
TRIES, TRIES_ELSEWHERE = 3, 2  # workers that a task may lose before it counts as failed; on a scheduler that retries
OUR_SCHEDULER = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
SECONDS_TO_CONNECT, SECONDS_TO_START = 20, 120


@dataclass(frozen=True)
class Task:
    """One chunk to compute.

    index: its number, which names its file. points: the numbers of its points in the sweep; each point is in exactly one
    chunk. payload: what else `compute` needs, the same on every executor.
    """

    index: int
    points: tuple[int, ...]
    payload: Table


# Variables by name: dims after the first, which is `point`, and values. "failure" is always there: the error of each point,
# "" where it has numbers.
Chunk = dict[str, tuple[tuple[str, ...], np.ndarray]]
Compute = Callable[[Task], Chunk]
Notice = Callable[[str], None]
Results = Generator[tuple[Task, Chunk], None, None]  # closed when nobody waits for the rest
Execute = Callable[[Compute, Iterable[Task], Notice], Results]
Found = Generator[tuple[Task, Chunk | BaseException], None, None]  # also with lost workers


def executor(name: str, workers: int | None = None, cluster: Mapping[str, object] | None = None) -> Execute:
    """The executor of this name, or of the Dask scheduler at this address (tcp://host:port, or its scheduler file .json).

    workers: how many, None for all there are. cluster: for "slurm", what dask_jobqueue.SLURMCluster is to be told (queue,
    account, walltime, memory, ...).
    """
    workers = None if workers is None else checks.as_count("workers", workers)
    if cluster and name != "slurm":
        raise InputError(f"cluster options are given for the executor {name!r}; only 'slurm' takes them.")
    if name in ("serial", "processes"):
        return serial if name == "serial" else partial(processes, workers)
    if name in NAMES or "://" in name or name.endswith(".json"):
        return Dask(name, workers, dict(cluster or {}))
    raise InputError(
        f"executor is {name!r}; it must be one of {', '.join(map(repr, NAMES))}, "
        "or the address of a Dask scheduler such as 'tcp://10.0.0.1:8786'."
    )


def serial(compute: Compute, tasks: Iterable[Task], notice: Notice) -> Results:
    """Everything in this process, one chunk after the other: for small sweeps and for a debugger."""
    for task in tasks:
        yield task, attempt(compute, task)


def processes(workers: int | None, compute: Compute, tasks: Iterable[Task], notice: Notice) -> Results:
    """Processes of this machine with one core each: as many as there are cores, or `workers`."""
    waiting = deque(tasks)
    count = min(cores() if workers is None else workers, len(waiting))
    found = results(partial(attempt, compute), waiting, count, one_core())
    lost = f"lost with {TRIES} workers, one after the other (the last one {{how}}; out of memory?)"
    yield from _with_retries(found, waiting, TRIES, lost, notice)


def _with_retries(found: Found, waiting: deque[Task], tries: int, lost: str, notice: Notice) -> Results:
    """Give the tasks that were lost with their workers back to `waiting`; after so many tries they have failed."""
    losses: Counter[int] = Counter()
    with closing(found):
        for task, result in found:
            if not isinstance(result, BaseException):
                yield task, result
                continue
            if not isinstance(result, WorkerLost):
                raise result
            losses[task.index] += 1
            if losses[task.index] == tries:
                yield task, without_numbers(task, lost.format(how=result))
            else:
                notice(f"a worker {result} during chunk {task.index}, which is given to another.")
                waiting.append(task)


def attempt(compute: Compute, task: Task) -> Chunk:
    """The chunk of one task; an error of the computation is that of all of its points."""
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


@dataclass(frozen=True)
class Dask:
    """An executor. where: "dask", "slurm", an address, or a scheduler file; options: of the SLURM cluster."""

    where: str
    workers: int | None
    options: Table

    def __post_init__(self):
        _dask("dask_jobqueue" if self.where == "slurm" else "distributed", self.where)
        if self.where == "slurm" and self.workers is None:
            raise InputError("executor is 'slurm' and workers is not given; say how many workers SLURM is to start.")
        if self.where == "slurm" and shutil.which("sbatch") is None:
            raise InputError("executor is 'slurm' and there is no sbatch here; run this on a login node of the cluster.")
        if self.where not in NAMES and self.workers is not None:
            raise InputError(f"workers is {self.workers}; the cluster at {self.where} has its own number. Leave it out.")

    def __call__(self, compute: Compute, tasks: Iterable[Task], notice: Notice) -> Results:
        with self._client() as client:
            if self.where == "dask":
                try:
                    client.wait_for_workers(1, timeout=SECONDS_TO_START)
                except TimeoutError:
                    late = f"no Dask worker has started within {SECONDS_TO_START} s; use the executor 'processes'."
                    raise InputError(late) from None
            elif not client.ncores():
                notice(f"no worker has come to the cluster ({self.where}) yet; the sweep begins when one does.")
            waiting, tries = deque(tasks), TRIES if self.where in NAMES else TRIES_ELSEWHERE
            lost = "lost with its workers again and again (out of memory?)"
            try:
                yield from _with_retries(_dask_results(client, compute, waiting), waiting, tries, lost, notice)
            except (CancelledError, OSError):
                ended = "the Dask scheduler has ended; finished work is saved. Start it and run the sweep again to resume."
                raise InputError(ended) from None

    @contextmanager
    def _client(self) -> "Iterator[Client]":
        """Connected to the cluster, which is ended afterwards if it is ours."""
        with _dask("dask", self.where).config.set(OUR_SCHEDULER), self._cluster() as where:
            try:
                client = _dask("distributed", self.where).Client(**where, timeout=SECONDS_TO_CONNECT, set_as_default=False)
            except (OSError, TimeoutError, ValueError):
                raise InputError(f"no Dask scheduler responds at {self.where}; start one, or fix the address.") from None
            with client:
                yield client

    @contextmanager
    def _cluster(self) -> "Iterator[dict[str, str | Cluster]]":
        """What `Client` is to be told. For a cluster of ours the scheduler is in this process."""
        if self.where == "dask":
            with _dask("distributed", self.where).LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
                count = str(cores() if self.workers is None else self.workers)
                arguments = [cluster.scheduler_address, "--nworkers", count, "--nthreads", "1", "--no-dashboard"]
                environment = one_core() | {"DASK_LOGGING__DISTRIBUTED": "critical"}
                keeper = Child(target=_keep_workers, args=(arguments,), environment=environment)
                keeper.start()
                try:
                    yield {"address": cluster}
                finally:
                    keeper.terminate()
                    keeper.join()
        elif self.where == "slurm":
            exports = [f"export {name}={shlex.quote(value)}" for name, value in one_core().items()]
            usual: Table = {"cores": 1, "processes": 1, "scheduler_options": {"dashboard_address": ":0"}}
            prologue = [*exports, *self.options.get("job_script_prologue", ())]
            try:
                options = usual | self.options | {"job_script_prologue": prologue}
                cluster = _dask("dask_jobqueue", self.where).SLURMCluster(**options)
            except (TypeError, ValueError) as error:
                reason = " ".join(str(error).split())
                invalid = f"the cluster options {self.options} are not valid ({reason}); fix the [cluster] table."
                raise InputError(invalid) from None
            with cluster:
                cluster.scale(self.workers)
                yield {"address": cluster}
        else:
            yield {"scheduler_file" if self.where.endswith(".json") else "address": self.where}


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


def _keep_workers(arguments: list[str]) -> None:
    """Dask's program that looks after workers; by itself it would wait for the scheduler forever, but it is our child."""
    import_module("distributed.cli.dask_worker").main(arguments)


def _dask_results(client: "Client", compute: Compute, waiting: deque[Task]) -> Found:
    """As they come. The scheduler knows of as many tasks as there are cores: one that waits for the same worker as a task
    that kills it would be blamed, too."""
    from distributed import as_completed

    finished, under_way = as_completed(loop=client.loop), {}
    while True:
        cores_now: dict[str, int] = client.ncores()  # type: ignore[assignment]  (its types are those of asynchronous use)
        room = max(1, sum(cores_now.values())) - len(under_way)
        for task in [waiting.popleft() for _ in range(min(room, len(waiting)))]:
            future = client.submit(attempt_there, __version__, compute, task, pure=False, retries=0)
            under_way[future] = task
            finished.add(future)
        if not under_way:
            return
        future = next(finished)
        yield under_way.pop(future), _dask_result(future)


def _dask_result(future: "Future") -> Chunk | WorkerLost:
    """The result of a finished task. If only the result was lost, Dask computes it again."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        return WorkerLost("was lost")
    except (CancelledError, OSError):  # of the scheduler
        raise
    except Exception as error:  # not of the computation: `attempt` catches those
        reason = message_of(error.__cause__ or error)
        raise InputError(f"the Dask workers cannot compute ({reason}); fix them and run the sweep again.") from None


def attempt_there(version: str, compute: Compute, task: Task) -> Chunk:
    """Run on the workers, which may have come long after the sweep began: other versions would mix numbers."""
    if version != __version__:
        raise ImportError(f"a worker has tutelage {__version__}, and the sweep {version}")
    return attempt(compute, task)
