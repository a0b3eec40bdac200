"""A Dask cluster: the one at an address, one of this machine, or jobs of SLURM.

Dask itself gives the task of a lost worker to another one. On a cluster that we start, a task may be lost TRIES times;
a scheduler that is there already has its own number (distributed.scheduler.allowed-failures).
"""

import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from tutelage._cores import cores
from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.sweep.errors import StoreError
from tutelage.sweep.executors.attempt import TRIES, Compute, Notice, Results, attempt
from tutelage.sweep.executors.children import one_core, start
from tutelage.sweep.outcome import Outcome, Task, WorkerError

if TYPE_CHECKING:
    from distributed import Client, Future

PER_CORE, AT_LEAST = 3, 16  # tasks that the scheduler knows of at a time
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
            _require_same_version(client)
            yield from _results(client, compute, iter(tasks))

    @contextmanager
    def _client(self, workers: int | None) -> "Iterator[Client]":
        """Connected to the cluster, which is ended afterwards if it is ours."""
        try:
            import dask
            from distributed import Client
        except ImportError:
            raise _missing(self.where) from None
        if self.where not in ("dask", "slurm") and workers is not None:
            raise InputError(f"workers is {workers}; the cluster at {self.where} has its own number. Leave it out.")
        with dask.config.set({"distributed.scheduler.allowed-failures": TRIES - 1}), self._cluster(workers) as where:
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
        nannies = start("distributed.cli.dask_worker", arguments, DASK_LOGGING__DISTRIBUTED="critical")
        try:
            yield {"address": cluster}
        finally:
            nannies.terminate()
            nannies.wait()


@contextmanager
def _slurm_cluster(workers: int | None, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A scheduler in this process, and as many jobs as it takes to have these workers."""
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise _missing("slurm") from None
    if workers is None:
        raise InputError("executor is 'slurm' and workers is not given; say how many workers SLURM is to start.")
    if shutil.which("sbatch") is None:
        raise InputError("executor is 'slurm' and there is no sbatch here; run this on a login node of the cluster.")
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


def _results(client: Any, compute: Compute, tasks: Iterator[Task]) -> Results:
    """As they come; the scheduler has enough to do but never all tasks at once."""
    from distributed import as_completed

    under_way: dict[Future, Task] = {}
    finished = as_completed(loop=client.loop)
    while True:
        room = max(AT_LEAST, PER_CORE * sum(client.ncores().values())) - len(under_way)
        for task in islice(tasks, max(room, 0)):
            future = client.submit(attempt, compute, task.payload, pure=False, retries=0)
            under_way[future] = task
            finished.add(future)
        if not under_way:
            return
        future = next(finished)
        yield under_way.pop(future), _result(client, future)


def _result(client: "Client", future: "Future") -> Outcome | WorkerError:
    from distributed import KilledWorker

    if future.status == "finished":
        return future.result()
    if future.status == "cancelled":
        raise StoreError("the Dask scheduler has ended; finished work is kept. Start it and run the sweep again to go on.")
    error = future.exception()
    if isinstance(error, KilledWorker):
        return WorkerError(f"lost with {error.allowed_failures + 1} workers, one after the other (out of memory?)")
    return WorkerError(f"{type(error).__name__}: {error}")


def _require_a_worker(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_START)
    except TimeoutError:
        raise StoreError(f"no Dask worker has started within {SECONDS_TO_START} s; use the executor 'processes'.") from None


def _require_same_version(client: Any) -> None:
    """Workers that cannot import this library, or have another version of it, would fail or mix numbers."""
    try:
        found = set(client.run(version_here).values())
    except Exception as error:
        sentence = (
            f"the Dask workers cannot import tutelage ({type(error).__name__}: {error}); start them where it is installed."
        )
        raise InputError(sentence) from None
    if found - {__version__}:
        others = ", ".join(sorted(found - {__version__}))
        raise InputError(f"there are Dask workers with tutelage {others}, and here it is {__version__}; install the same.")


def version_here() -> str:
    """Run on the workers."""
    return __version__


def _missing(where: str) -> InputError:
    return InputError(f'executor {where!r} needs Dask; install it by: pip install "tutelage[cluster]".')
