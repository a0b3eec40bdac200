"""A Dask cluster: the one at an address, one of this machine, or jobs of SLURM.

On a cluster that we start, Dask reports every lost worker, and we give its task to another, TRIES times in all. A scheduler
that is there already does so itself a number of times (distributed.scheduler.allowed-failures); when it gives up we try once
more, for it blames all tasks that waited for a lost worker.
"""

import os
import shlex
import shutil
import signal
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from tutelage._cores import cores
from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.sweeps.errors import StoreError
from tutelage.sweeps.executors.attempt import TRIES, Compute, Notice, Results, attempt, in_words
from tutelage.sweeps.executors.children import one_core, start
from tutelage.sweeps.outcome import Outcome, Task, WorkerError

if TYPE_CHECKING:
    from distributed import Client, Future

OUR_SCHEDULER = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
TRIES_ELSEWHERE = 2
KEEPER = "tutelage.sweeps.executors.keeper"
SECONDS_TO_CONNECT, SECONDS_TO_START = 20, 120


@dataclass(frozen=True)
class Dask:
    """An executor. where: "dask", "slurm", an address, or a scheduler file; options: of the SLURM cluster."""

    where: str
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, compute: Compute, tasks: Iterable[Task], workers: int | None, notice: Notice) -> Results:
        with self._client(workers) as client:
            if self.where == "dask":
                _require_a_worker(client)
            elif not client.ncores():
                notice(f"no worker has come to the cluster ({self.where}) yet; the sweep begins when one does.")
            try:
                yield from _results(client, compute, iter(tasks), TRIES if self.ours else TRIES_ELSEWHERE, notice)
            except (CancelledError, OSError):
                sentence = "the Dask scheduler has ended; finished work is kept. Start it and run the sweep again to go on."
                raise StoreError(sentence) from None

    def require(self, workers: int | None) -> None:
        """Refuse what cannot begin, before a sweep is: no Dask, nobody at the address, no SLURM here."""
        if self.where == "dask":
            _require_dask(self.where)
        elif self.where == "slurm":
            _require_slurm(workers)
        else:
            with self._client(workers):
                pass

    @property
    def ours(self) -> bool:
        """Whether we start the cluster, and end it."""
        return self.where in ("dask", "slurm")

    @contextmanager
    def _client(self, workers: int | None) -> "Iterator[Client]":
        """Connected to the cluster, which is ended afterwards if it is ours."""
        _require_dask(self.where)
        import dask
        from distributed import Client

        if not self.ours and workers is not None:
            raise InputError(f"workers is {workers}; the cluster at {self.where} has its own number. Leave it out.")
        with dask.config.set(OUR_SCHEDULER), self._cluster(workers) as where:
            try:
                client = Client(**where, timeout=SECONDS_TO_CONNECT, set_as_default=False)
            except (OSError, TimeoutError, ValueError):
                raise InputError(f"no Dask scheduler answers at {self.where}; start one, or mend the address.") from None
            with client:
                yield client

    def _cluster(self, workers: int | None) -> AbstractContextManager[dict[str, Any]]:
        """What `Client` is to be told."""
        if self.where == "dask":
            return _local_cluster(cores() if workers is None else workers)
        if self.where == "slurm":
            return _slurm_cluster(workers, self.options)
        return nullcontext({"scheduler_file" if self.where.endswith(".json") else "address": self.where})


@contextmanager
def _local_cluster(workers: int) -> Iterator[dict[str, Any]]:
    """A scheduler in this process, and one that looks after the workers."""
    from distributed import LocalCluster

    cluster: Any  # LocalCluster's types are those of its asynchronous use
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        arguments = [cluster.scheduler_address, "--nworkers", str(workers), "--nthreads", "1", "--no-dashboard"]
        theirs, ours = os.pipe()
        keeper = start(KEEPER, [str(theirs), *arguments], pass_fds=[theirs], DASK_LOGGING__DISTRIBUTED="critical")
        os.close(theirs)
        try:
            yield {"address": cluster}
        finally:
            keeper.terminate()
            keeper.wait()
            os.close(ours)


def _require_slurm(workers: int | None) -> Any:
    """The class of the cluster, if this is a place to start one."""
    SLURMCluster = _slurm_class()
    if workers is None:
        raise InputError("executor is 'slurm' and workers is not given; say how many workers SLURM is to start.")
    if shutil.which("sbatch") is None:
        raise InputError("executor is 'slurm' and there is no sbatch here; run this on a login node of the cluster.")
    return SLURMCluster


def _slurm_class() -> Any:
    """dask_jobqueue's; its import makes Ctrl-C end the whole process, which is put back: finished work must be told of."""
    usual = signal.getsignal(signal.SIGINT)
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise _missing("slurm") from None
    if signal.getsignal(signal.SIGINT) is not usual:
        signal.signal(signal.SIGINT, usual)
    return SLURMCluster


@contextmanager
def _slurm_cluster(workers: int | None, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A scheduler in this process, and as many jobs as it takes to have these workers."""
    SLURMCluster = _require_slurm(workers)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in one_core().items()]
    asked: dict[str, Any] = {"cores": 1, "processes": 1, "scheduler_options": {"dashboard_address": ":0"}} | options
    asked["job_script_prologue"] = [*exports, *asked.get("job_script_prologue", ())]
    try:
        cluster = SLURMCluster(**asked)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"the cluster options {options} are refused ({reason}); mend the [cluster] table.") from None
    with cluster:
        cluster.scale(workers)
        yield {"address": cluster}


def _results(client: Any, compute: Compute, tasks: Iterator[Task], tries: int, notice: Notice) -> Results:
    """As they come. The scheduler knows of as many tasks as there are cores: one that waits for the same worker as a task
    that kills it would be blamed, too."""
    from distributed import as_completed

    finished, under_way, losses = as_completed(loop=client.loop), {}, Counter()
    again: deque[Task] = deque()
    while True:
        room = max(1, sum(client.ncores().values())) - len(under_way)
        for task in islice(_first(again, tasks), max(room, 0)):
            future = client.submit(attempt_there, __version__, compute, task.payload, pure=False, retries=0)
            under_way[future] = task
            finished.add(future)
        if not under_way:
            return
        future = next(finished)
        task, result = under_way.pop(future), _result(future)
        losses[task.index] += result is None
        if result is not None:
            yield task, result
        elif losses[task.index] == tries:
            yield task, WorkerError("lost with its workers again and again (out of memory?)")
        else:
            notice(f"a worker was lost during chunk {task.index}, which is given to another.")
            again.append(task)


def _first(again: deque[Task], tasks: Iterator[Task]) -> Iterator[Task]:
    while again:
        yield again.popleft()
    yield from tasks


def _result(future: "Future") -> Outcome | WorkerError | None:
    """The result of a finished task, or None: lost. If only the result was lost, Dask computes it again."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        return None
    except (CancelledError, OSError):  # of the scheduler
        raise
    except Exception as error:  # not of the computation: `attempt` catches those
        reason = in_words(error.__cause__ or error)
        raise StoreError(f"the Dask workers cannot compute ({reason}); mend them and run the sweep again.") from None


def _require_a_worker(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_START)
    except TimeoutError:
        raise StoreError(f"no Dask worker has started within {SECONDS_TO_START} s; use the executor 'processes'.") from None


def attempt_there(version: str, compute: Compute, payload: dict[str, Any]) -> Outcome | WorkerError:
    """Run on the workers, which may have come long after the sweep began: other versions would mix numbers."""
    if version != __version__:
        raise ImportError(f"a worker has tutelage {__version__}, and the sweep {version}")
    return attempt(compute, payload)


def _require_dask(where: str) -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise _missing(where) from None


def _missing(where: str) -> InputError:
    return InputError(f'executor {where!r} needs Dask; install it by: pip install "tutelage[cluster]".')
