"""Run the missing chunks of a sweep: an executor computes them, the store keeps them.

An executor is this process, processes next to it, or a Dask cluster. All have one
signature and give the same numbers:

    execute(compute, waiting) -> (task, its chunk or a WorkerLost), as they are finished

compute: a function of a module, from a task to its chunk. waiting: the tasks, to which
a lost one is given back. An error of the computation itself is not tried again; it
gives a chunk without numbers.
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
OUR_SCHEDULER = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
}
SECONDS_TO_CONNECT = 20
SECONDS_TO_START = 120
MOST_SHOWN = 5  # different errors; all are kept with their points

Compute = Callable[[Task], Chunk]
Keep = Callable[[Task, Chunk], None]
# It is closed when nobody waits for the rest.
Results = Generator[tuple[Task, Chunk | BaseException], None, None]
Execute = Callable[[Compute, deque[Task]], Results]


class Progress:
    """Messages of a run, and its progress bar on a terminal.

    shown: print the bar, the notices and the first few errors, each in its own line.
    """

    def __init__(self, shown: bool = False):
        self.shown = shown
        self.notices: list[str] = []
        self._errors: Counter[str] = Counter()

    def over(self, points: int, kept: int) -> AbstractContextManager[Any]:
        """Return the context of a run, with its bar. kept: points of earlier runs."""
        self._bar = progress_bar(
            points,
            "sweeping",
            unit=" points",
            initial=kept,
            disable=None if self.shown else True,  # None: unless it is a terminal
            delay=0,
        )
        return self._bar

    def done(self, task: Task, chunk: Chunk) -> None:
        """Count a chunk that has been kept, and its errors."""
        _, errors = chunk["failure"]
        for error in errors:
            if not error:
                continue
            if error not in self._errors and len(self._errors) < MOST_SHOWN:
                self._write(f"points fail: {error}")
            self._errors[error] += 1
        if self._errors:
            self._bar.set_postfix_str(f"{self._errors.total()} failed", refresh=False)
        self._bar.update(len(task.points))

    def notice(self, message: str) -> None:
        """Record an event that does not stop the sweep."""
        self.notices.append(message)
        self._write(message)

    def _write(self, message: str) -> None:
        if self.shown:
            tqdm.write(f"note: {message}", file=sys.stderr)


@dataclass(frozen=True)
class Report:
    """The chunks of a run and its notices.

    computed: chunks of this run. kept: chunks of earlier ones.
    """

    computed: int
    kept: int
    notices: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.computed} computed, {self.kept} already computed"


def run(
    store: Store,
    compute: Compute,
    tasks: Sequence[Task],
    execute: Execute,
    progress: Progress,
    retry: bool = False,
) -> Report:
    """Compute the tasks that the store lacks, and keep them there, whatever ends it.

    retry: compute chunks in which points failed again.
    """
    with store.writing():
        if store.version != __version__:
            progress.notice(
                f"the sweep was begun with tutelage {store.version} "
                f"and goes on with {__version__}."
            )
        for name in store.remove_damaged():
            progress.notice(
                f"{name} does not match its hash; its chunk is computed again."
            )
        done = store.done - store.failed if retry else store.done
        pending = [task for task in tasks if task.index not in done]
        try:
            execute_all(execute, compute, pending, store.put, progress, store.points)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{len(store.done)} of {store.chunks} chunks are kept in "
                f"{store.folder}; run the same sweep again to resume."
            ) from None
    return Report(
        computed=len(pending),
        kept=len(tasks) - len(pending),
        notices=tuple(progress.notices),
    )


def execute_all(
    execute: Execute,
    compute: Compute,
    tasks: Sequence[Task],
    keep: Keep,
    progress: Progress,
    points: int,
) -> None:
    """Compute these tasks, keep each chunk as it comes, and then announce it.

    points: their number in the whole sweep.
    """
    if not tasks:
        return
    waiting = deque(tasks)
    losses: Counter[int] = Counter()
    before = points - sum(len(task.points) for task in tasks)
    outcomes = execute(compute, waiting)
    with (
        progress.over(points, before),
        closing(outcomes),
        ThreadPoolExecutor(1) as saver,
    ):
        for task, result in outcomes:
            if isinstance(result, WorkerLost):
                losses[task.index] += 1
                if losses[task.index] < TRIES:
                    progress.notice(
                        f"a worker {result} during chunk {task.index}, "
                        "which is given to another."
                    )
                    waiting.append(task)
                    continue
                chunk = without_numbers(
                    task,
                    f"lost with its workers {TRIES} times "
                    f"(the last one {result}; out of memory?)",
                )
            elif isinstance(result, BaseException):
                raise result
            else:
                chunk = result
            # Ctrl-C does not reach another thread: it comes when this is kept
            saver.submit(keep, task, chunk).result()
            progress.done(task, chunk)


def executor_of(
    name: str,
    workers: int | None = None,
    cluster: Mapping[str, object] | None = None,
) -> Execute:
    """Return the executor of this name, or of the Dask scheduler at this address.

    name: one of `NAMES`, tcp://host:port, or the scheduler file (.json) of a cluster.
    workers: their number, None for all there are. cluster: for "slurm", the arguments
    of dask_jobqueue.SLURMCluster.
    """
    if cluster and name != "slurm":
        raise InputError(
            f"cluster options are given for the executor {name!r}; "
            "only 'slurm' takes them."
        )
    if name == "serial":
        return serial
    if name == "processes":
        return partial(processes, workers)
    if name not in NAMES and "://" not in name and not name.endswith(".json"):
        names = ", ".join(repr(known) for known in NAMES)
        raise InputError(
            f"executor is {name!r}; it must be one of {names}, or the address of a "
            "Dask scheduler such as 'tcp://10.0.0.1:8786'."
        )
    if name == "slurm":
        _dask("dask_jobqueue", name)
    else:
        _dask("distributed", name)
    if name == "slurm" and workers is None:
        raise InputError(
            "executor is 'slurm' and workers is not given; "
            "say how many workers SLURM is to start."
        )
    if name == "slurm" and shutil.which("sbatch") is None:
        raise InputError(
            "executor is 'slurm' and there is no sbatch here; "
            "run this on a login node of the cluster."
        )
    if name not in NAMES and workers is not None:
        raise InputError(
            f"workers is {workers}; the cluster at {name} has its own number. "
            "Leave it out."
        )
    return partial(dask, name, workers, dict(cluster or {}))


def serial(compute: Compute, waiting: deque[Task]) -> Results:
    """Compute in this process, chunk after chunk: for small sweeps and a debugger."""
    for task in waiting:
        yield task, attempt(compute, task)


def processes(workers: int | None, compute: Compute, waiting: deque[Task]) -> Results:
    """Compute in processes of this machine with one core each.

    workers: their number; None for as many as there are cores.
    """
    count = min(workers or cores(), len(waiting))
    return results(partial(attempt, compute), waiting, count, one_core())


def dask(
    where: str,
    workers: int | None,
    options: dict[str, Any],
    compute: Compute,
    waiting: deque[Task],
) -> Results:
    """Compute on a Dask cluster.

    where: "dask", "slurm", an address, or a scheduler file. options: of the SLURM
    cluster.
    """
    settings = _dask("dask", where).config.set(OUR_SCHEDULER)
    with settings, _cluster(where, workers, options) as place:
        try:
            client = _dask("distributed", where).Client(
                **place, timeout=SECONDS_TO_CONNECT, set_as_default=False
            )
        except (OSError, ValueError):
            raise InputError(
                f"no Dask scheduler responds at {where}; start one, or fix the address."
            ) from None
        with client:
            try:
                if where == "dask":
                    client.wait_for_workers(1, timeout=SECONDS_TO_START)
                yield from _dask_results(client, compute, waiting)
            except (CancelledError, OSError):
                raise InputError(
                    "the Dask scheduler has ended or has no workers; finished work is "
                    "saved. Start them and run the sweep again to resume."
                ) from None


def attempt(compute: Compute, task: Task, version: str | None = None) -> Chunk:
    """Return the chunk of one task; an error is that of all of its points.

    version: of the sweep, for workers that come later.
    """
    if version not in (None, __version__):
        raise ImportError(
            f"a worker has tutelage {__version__}, and the sweep {version}"
        )
    try:
        return compute(task)
    except Exception as error:
        return without_numbers(task, message_of(error))


def without_numbers(task: Task, error: str) -> Chunk:
    """Return a chunk that could not be computed, with the error at all its points."""
    return {"failure": ((), np.full(len(task.points), error, dtype=object))}


def message_of(error: BaseException) -> str:
    """Return the message, with the kind of error unless it is one of ours."""
    message = " ".join(str(error).split())
    if isinstance(error, InputError):
        return message
    return f"{type(error).__name__}: {message}".rstrip(": ")


def _dask(module: str, where: str) -> ModuleType:
    """Import a module of Dask.

    dask_jobqueue makes Ctrl-C end the whole process. We restore the handler, so that an
    interrupted sweep can say which work is finished.
    """
    usual = signal.getsignal(signal.SIGINT)
    try:
        return import_module(module)
    except ImportError:
        raise InputError(
            f"executor {where!r} needs Dask; "
            'install it by: pip install "tutelage[cluster]".'
        ) from None
    finally:
        if signal.getsignal(signal.SIGINT) is not usual:
            signal.signal(signal.SIGINT, usual)


@contextmanager
def _cluster(
    where: str, workers: int | None, options: dict[str, Any]
) -> Iterator[dict[str, str | Cluster]]:
    """Make a cluster or name an existing one; yields arguments of `Client`.

    A cluster of ours has its scheduler in this process and ends with this context.
    """
    if where == "dask":
        with _local_cluster(where, workers) as cluster:
            yield {"address": cluster}
    elif where == "slurm":
        with _slurm_cluster(where, options) as cluster:
            cluster.scale(workers)
            yield {"address": cluster}
    elif where.endswith(".json"):
        yield {"scheduler_file": where}
    else:
        yield {"address": where}


@contextmanager
def _local_cluster(where: str, workers: int | None) -> Iterator[Cluster]:
    """Make a scheduler in this process, with workers in processes of this machine."""
    distributed = _dask("distributed", where)
    with distributed.LocalCluster(
        n_workers=0, dashboard_address="127.0.0.1:0"
    ) as cluster:
        count = str(workers or cores())
        options = ["--nworkers", count, "--nthreads", "1", "--no-dashboard"]
        arguments = [cluster.scheduler_address, *options]
        keeper = Child(target=_keep_workers, args=(arguments,))
        keeper.start()
        try:
            yield cluster
        finally:
            keeper.terminate()
            keeper.join()


def _slurm_cluster(where: str, options: dict[str, Any]) -> Any:
    """Return a cluster whose workers are SLURM jobs of one core."""
    exports = []
    for name, value in one_core().items():
        exports.append(f"export {name}={shlex.quote(value)}")
    usual = {
        "cores": 1,
        "processes": 1,
        "scheduler_options": {"dashboard_address": ":0"},
    }
    ours = {
        "job_script_prologue": [*exports, *options.get("job_script_prologue", ())],
    }
    try:
        return _dask("dask_jobqueue", where).SLURMCluster(**usual | options | ours)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"the cluster options {options} are not valid ({reason}); "
            "fix the [cluster] table."
        ) from None


def _keep_workers(arguments: list[str]) -> None:
    """Run Dask's program that looks after workers.

    By itself it would wait for the scheduler forever, but it is our child.
    """
    begin(one_core() | {"DASK_LOGGING__DISTRIBUTED": "critical"})
    import_module("distributed.cli.dask_worker").main(arguments)


def _dask_results(client: Client, compute: Compute, waiting: deque[Task]) -> Results:
    """Yield tasks with their chunks as they come.

    The scheduler gets as many tasks as there are cores: one that waits for a worker is
    blamed for its loss.
    """
    from distributed import KilledWorker, as_completed

    finished = as_completed(loop=client.loop)
    under_way = {}
    while True:
        # its types are those of asynchronous use
        cores_now: dict[str, int] = client.ncores()  # type: ignore[assignment]
        free_cores = max(1, sum(cores_now.values())) - len(under_way)
        for _ in range(min(free_cores, len(waiting))):
            task = waiting.popleft()
            future = client.submit(
                attempt, compute, task, __version__, pure=False, retries=0
            )
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
            raise InputError(
                f"the Dask workers cannot compute ({reason}); "
                "fix them and run the sweep again."
            ) from None
        yield under_way.pop(future), result
