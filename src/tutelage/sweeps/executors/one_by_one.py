"""Everything in this process, one chunk after the other: for small sweeps and for a debugger."""

from collections.abc import Iterable

from tutelage.sweeps.executors.attempt import Compute, Notice, Results, attempt
from tutelage.sweeps.outcome import Task


def serial(compute: Compute, tasks: Iterable[Task], workers: int | None, notice: Notice) -> Results:
    for task in tasks:
        yield task, attempt(compute, task.payload)
