"""Who computes: this process, processes beside it, or a Dask cluster. One signature, the same numbers.

    execute(compute, tasks, workers, notice) -> (task, Outcome or WorkerError), as they are finished

compute: a function of a module (not of a script), from a task's payload to its Outcome. workers: how many, None for all
there are. notice: called with one sentence when something happened that the user should know. A worker that is lost takes
nothing with it: its task is given out again, TRIES times in all. An error of the computation itself is not tried again.
"""

from collections.abc import Mapping
from typing import Any

from tutelage._errors import InputError
from tutelage.sweeps.executors.attempt import Execute
from tutelage.sweeps.executors.one_by_one import serial
from tutelage.sweeps.executors.team import processes

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
        from tutelage.sweeps.executors.dask import Dask

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
