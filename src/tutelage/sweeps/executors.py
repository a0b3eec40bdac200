"""Who computes: this process, processes next to it, or a Dask cluster. One signature, the same numbers.

    execute(compute, tasks, workers, notice) -> (task, Outcome or WorkerError), as they are finished

compute: a function of a module (not of a script), from a task's payload to its Outcome. workers: how many, None for all
there are. notice: called with one sentence when something happened that the user should know. A worker that is lost takes
nothing with it: its task is given out again, TRIES times in all. An error of the computation itself is not tried again.
"""

import pickle
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from typing import Any

from tutelage._errors import InputError
from tutelage._pool import WorkerLost, cores, one_core, results
from tutelage.sweeps.tasks import TRIES, Compute, Execute, Notice, Outcome, Results, Task, WorkerError, attempt, in_one_line

NAMES = ("serial", "processes", "dask", "slurm")


def executor(name: str, cluster: Mapping[str, Any] | None = None) -> Execute:
    """The executor of this name, or of the Dask scheduler at this address (tcp://host:port, or its scheduler file .json).

    cluster: for "slurm", what dask_jobqueue.SLURMCluster is to be told (queue, account, walltime, memory, ...).
    """
    if cluster and name != "slurm":
        raise InputError(f"cluster options are given for the executor {name!r}; only 'slurm' takes them.")
    if name == "serial":
        return serial
    if name == "processes":
        return processes
    if name in ("dask", "slurm") or "://" in name or name.endswith(".json"):
        from tutelage.sweeps.dask_cluster import Dask

        return Dask(name, dict(cluster or {}))
    raise InputError(
        f"executor is {name!r}; it must be one of {', '.join(map(repr, NAMES))}, "
        "or the address of a Dask scheduler such as 'tcp://10.0.0.1:8786'."
    )


def require(execute: Execute, workers: int | None) -> None:
    """Refuse an executor that cannot begin, such as an address at which nobody answers, before a folder is made."""
    check = getattr(execute, "require", None)  # of a cluster; this machine is always there
    if check is not None:
        check(workers)


def serial(compute: Compute, tasks: Iterable[Task], workers: int | None, notice: Notice) -> Results:
    """Everything in this process, one chunk after the other: for small sweeps and for a debugger."""
    for task in tasks:
        yield task, attempt(compute, task.payload)


def processes(compute: Compute, tasks: Iterable[Task], workers: int | None, notice: Notice) -> Results:
    """Processes of this machine with one core each: as many as there are cores, or `workers`."""
    waiting = deque(tasks)
    found = results(
        _attempt_pickled,
        lambda: waiting.popleft() if waiting else None,
        lambda task: pickle.dumps((compute, task.payload)),
        min(cores() if workers is None else workers, len(waiting)),
        one_core(),
    )
    lost = f"lost with {TRIES} workers, one after the other (the last one {{how}}; out of memory?)"
    yield from with_retries(found, waiting, TRIES, lost, notice)


def with_retries(found: Generator, waiting: deque[Task], tries: int, lost: str, notice: Notice) -> Results:
    """Give the tasks that were lost with their workers back to `waiting`; after so many tries they have failed."""
    losses: Counter[int] = Counter()
    with closing(found):
        for task, result in found:
            losses[task.index] += isinstance(result, WorkerLost)
            if not isinstance(result, BaseException):
                yield task, result
            elif not isinstance(result, WorkerLost):
                raise result
            elif losses[task.index] == tries:
                yield task, WorkerError(lost.format(how=result))
            else:
                notice(f"a worker {result} during chunk {task.index}, which is given to another.")
                waiting.append(task)


def _attempt_pickled(pickled: bytes) -> Outcome | WorkerError:
    """In a worker. A function that cannot be imported fails here, where the reason can be told."""
    try:
        compute, payload = pickle.loads(pickled)
    except Exception as error:
        reason = in_one_line(error)
        raise InputError(f"the workers do not find what to compute ({reason}); it must be a function of a module.") from None
    return attempt(compute, payload)
