"""A Dask cluster: the one at an address, one of this machine, or jobs of SLURM.

On a cluster that we start, Dask reports every lost worker, and we give its task to another, TRIES times in all. A scheduler
that is there already does so itself a number of times (distributed.scheduler.allowed-failures); when it gives up we try once
more, for it blames all tasks that waited for a lost worker.
"""

import shlex
import shutil
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tutelage._errors import InputError
from tutelage._pool import Child, WorkerLost, cores, one_core
from tutelage._version import __version__
from tutelage.sweeps.executors import with_retries
from tutelage.sweeps.tasks import (
    TRIES,
    Compute,
    Notice,
    Outcome,
    Results,
    StoreError,
    Task,
    WorkerError,
    attempt,
    in_one_line,
)

if TYPE_CHECKING:
    from distributed import Client, Future

OUR_SCHEDULER = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
TRIES_ELSEWHERE = 2
LOST = "lost with its workers again and again (out of memory?)"
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
                waiting, tries = deque(tasks), TRIES if self.ours else TRIES_ELSEWHERE
                yield from with_retries(_results(client, compute, waiting), waiting, tries, LOST, notice)
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
                raise InputError(f"no Dask scheduler answers at {self.where}; start one, or fix the address.") from None
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
        environment = one_core() | {"DASK_LOGGING__DISTRIBUTED": "critical"}
        keeper = Child(target=_keep_workers, args=(arguments,), environment=environment)
        keeper.start()
        try:
            yield {"address": cluster}
        finally:
            keeper.terminate()
            keeper.join()


def _keep_workers(arguments: list[str]) -> None:
    """Dask's program that looks after workers; by itself it would wait for the scheduler forever, but it is our child."""
    from distributed.cli.dask_worker import main

    main(arguments)


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
        raise InputError(f"the cluster options {options} are refused ({reason}); fix the [cluster] table.") from None
    with cluster:
        cluster.scale(workers)
        yield {"address": cluster}


def _results(client: Any, compute: Compute, waiting: deque[Task]) -> Generator[tuple[Task, Any], None, None]:
    """As they come. The scheduler knows of as many tasks as there are cores: one that waits for the same worker as a task
    that kills it would be blamed, too."""
    from distributed import as_completed

    finished, under_way = as_completed(loop=client.loop), {}
    while True:
        room = max(1, sum(client.ncores().values())) - len(under_way)
        for task in [waiting.popleft() for _ in range(min(room, len(waiting)))]:
            future = client.submit(attempt_there, __version__, compute, task.payload, pure=False, retries=0)
            under_way[future] = task
            finished.add(future)
        if not under_way:
            return
        future = next(finished)
        yield under_way.pop(future), _result(future)


def _result(future: "Future") -> Outcome | WorkerError | WorkerLost:
    """The result of a finished task. If only the result was lost, Dask computes it again."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker:
        return WorkerLost("was lost")
    except (CancelledError, OSError):  # of the scheduler
        raise
    except Exception as error:  # not of the computation: `attempt` catches those
        reason = in_one_line(error.__cause__ or error)
        raise StoreError(f"the Dask workers cannot compute ({reason}); fix them and run the sweep again.") from None


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
