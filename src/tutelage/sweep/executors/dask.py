"""A Dask cluster: the one at an address, one of this machine, or jobs of SLURM.

Dask itself gives the task of a lost worker to another one. On a cluster that we start, a task may be lost TRIES times;
a scheduler that is there already has its own number (distributed.scheduler.allowed-failures).
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from tutelage._cores import cores
from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.sweep.errors import StoreError
from tutelage.sweep.executors.attempt import TRIES, Compute, Notice, Results, attempt, one_thread
from tutelage.sweep.outcome import Outcome, Task, WorkerError

if TYPE_CHECKING:
    from distributed import Client, Future

PER_CORE, AT_LEAST = 3, 16  # tasks that the scheduler knows of at a time
SECONDS_TO_CONNECT = 20


@dataclass(frozen=True)
class Dask:
    """An executor. where: "dask", "slurm", an address, or a scheduler file; options: of the SLURM cluster."""

    where: str
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, compute: Compute, tasks: Iterable[Task], workers: int | None, notice: Notice) -> Results:
        with self._client(workers) as client:
            if self.where != "slurm":  # whose workers are yet to come
                _require_same_version(client)
            yield from _results(client, compute, iter(tasks))

    @contextmanager
    def _client(self, workers: int | None) -> "Iterator[Client]":
        try:
            import dask
            from distributed import Client
        except ImportError:
            raise _missing(self.where) from None
        allowed = {"distributed.scheduler.allowed-failures": TRIES - 1}
        with ExitStack() as stack, dask.config.set(allowed):
            cluster = self._cluster(workers)
            if cluster is not None:
                stack.enter_context(cluster)
            elif workers is not None:
                raise InputError(f"workers is {workers}; the cluster at {self.where} has its own number. Leave it out.")
            yield stack.enter_context(self._connect(Client, cluster))

    def _connect(self, client: Any, cluster: Any) -> "Client":
        where = {"scheduler_file": self.where} if self.where.endswith(".json") else {"address": cluster or self.where}
        try:
            return client(**where, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, TimeoutError, ValueError):
            raise InputError(f"no Dask scheduler answers at {self.where}; start one, or mend the address.") from None

    def _cluster(self, workers: int | None) -> Any:
        if self.where == "dask":
            from distributed import LocalCluster

            count = cores() if workers is None else workers
            local: Any = LocalCluster
            return local(n_workers=count, threads_per_worker=1, dashboard_address=None, env=one_thread())
        if self.where == "slurm":
            return self._slurm(1 if workers is None else workers)
        return None

    def _slurm(self, workers: int) -> Any:
        try:
            from dask_jobqueue import SLURMCluster
        except ImportError:
            raise _missing(self.where) from None
        exports = [f"export {name}={value!r}" for name, value in one_thread().items()]
        options: dict[str, Any] = {"cores": 1, "processes": 1} | self.options
        options["job_script_prologue"] = [*exports, *options.get("job_script_prologue", ())]
        try:
            cluster = SLURMCluster(**options)
        except (TypeError, ValueError) as error:
            raise InputError(f"the cluster options {self.options} are refused: {error}; mend the [cluster] table.") from None
        cluster.scale(workers)
        return cluster


def _results(client: Any, compute: Compute, tasks: Iterator[Task]) -> Results:
    """As they come; the scheduler has enough to do but never all tasks at once."""
    from distributed import as_completed

    under_way: dict[Future, Task] = {}
    finished = as_completed()
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
