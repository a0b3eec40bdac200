"""The time to learn a task: `transfer` from other tasks, `savings` at its return."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._solve import solve
from tutelage.analysis.continual.task_curves import (
    begins_and_left,
    read_tasks,
    require_tasks,
    time_below,
)
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError
from tutelage.problem import Interleave, Problem, Start
from tutelage.result.trajectory import Trajectory


def _shown(time: float | None) -> str:
    return "not reached" if time is None else f"{time:.4g}"


@dataclass(frozen=True, repr=False)
class Transfer(AnalysisResult, figure="plot_transfer"):
    """The time to learn a task after other tasks, and from scratch.

    task, target: the task, counted from 0, and the error that it must reach. begin: the
    time at which the task begins. after, scratch: the time to the target from there on,
    and from the initial condition with this task alone; None: not reached.
    """

    task: int
    target: float
    begin: float
    after: float | None
    scratch: float | None
    theory: Trajectory
    alone: Trajectory

    @property
    def gain(self) -> float:
        """Time from scratch over time after the other tasks.

        It is above 1 if they help, NaN if a target was not reached.
        """
        if self.after is None or self.scratch is None:
            return float("nan")
        return self.scratch / self.after if self.after > 0 else float("inf")

    def __str__(self) -> str:
        times = (
            f"{_shown(self.after)} after the other tasks, "
            f"{_shown(self.scratch)} from scratch"
        )
        return (
            f"task {self.task + 1} to the error {self.target:.4g}: "
            f"{times}: {self._verdict()}"
        )

    def _verdict(self) -> str:
        if np.isnan(self.gain):
            return "transfer cannot be judged: a target was not reached"
        kind = "no"
        if self.gain > 1:
            kind = "positive"
        elif self.gain < 1:
            kind = "negative"
        return f"{kind} transfer, {self.gain:.4g} times as fast"


def transfer(
    problem: Problem,
    start: Start | None = None,
    times: Any = 100.0,
    task: int = 1,
    target: float | None = None,
    **options: Any,
) -> Transfer:
    """Return the time to learn a task after other tasks, and from scratch.

    From scratch means: the same student with the same initial overlaps and head,
    trained on this task alone.

    Parameters
    ----------
    problem, start, times, options
        As for `solve`. The task must begin after time 0 (`Switch`, `Replay`).
    task, target
        The task, counted from 0, and the error to reach. Default: a tenth of its first
        error from scratch.

    Returns
    -------
    A `Transfer`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.8)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> times = tu.linear_times(90, 361)
    >>> result = tu.analysis.transfer(problem, times=times, target=0.01)
    >>> round(result.after, 3), round(result.scratch, 3), round(result.gain, 3)
    (3.174, 4.469, 1.408)
    """
    tasks = require_tasks(problem, "transfer")
    task = checks.as_count("task", task, least=0, most=tasks.count - 1)
    times = checks.as_times(times)
    begins = begins_and_left(tasks, float(times[-1])).begins[task]
    if not begins.size or begins[0] <= 0:
        when = "at time 0" if begins.size else f"not before {times[-1]:g}"
        raise InputError(
            f"task {task + 1} (index {task}) begins {when}; "
            "transfer needs one that begins after another, as in Switch(60.0)."
        )
    begin = float(begins[0])
    theory = solve(problem, start, times, **options)
    # no other task is ever shown
    only = problem.replace(schedule=Interleave(np.eye(tasks.count)[task]))
    alone = solve(only, start, times, **options).task(task)
    if target is None:
        target = 0.1 * alone.error[0]
    level = checks.as_positive("target", target)
    return Transfer(
        task=task,
        target=level,
        begin=begin,
        after=time_below(theory.times, theory.error[:, task], level, begin),
        scratch=time_below(alone.times, alone.error, level),
        theory=theory,
        alone=alone,
    )


@dataclass(frozen=True, repr=False)
class Savings(AnalysisResult, figure="plot_savings"):
    """The time to learn a task, and to learn it again.

    task, target: the task, counted from 0, and the error that it must reach. begins:
    the first and the last time at which it begins. first, again: the time to the target
    from there on; None: not reached.
    """

    task: int
    target: float
    begins: tuple[float, float]
    first: float | None
    again: float | None
    times: np.ndarray
    error: np.ndarray
    trajectory: Trajectory

    @property
    def fraction(self) -> float:
        """1 - again / first, the share of time that is saved.

        It is negative if relearning is slower, NaN if the target is not reached.
        """
        if self.first is None or self.again is None or self.first == 0:
            return float("nan")
        return 1 - self.again / self.first

    def __str__(self) -> str:
        text = (
            f"task {self.task + 1} to the error {self.target:.4g}: "
            f"{_shown(self.first)} at first, "
            f"{_shown(self.again)} when it returns at {self.begins[1]:.4g}"
        )
        if np.isnan(self.fraction):
            return text
        return f"{text}; savings {100 * self.fraction:.3g}%"


def savings(
    trajectory: Trajectory, target: float | None = None, task: int = 0
) -> Savings:
    """Return the time to relearn a task that returns, and the time to learn it first.

    Their ratio gives Ebbinghaus's savings.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned (runs are averaged) for a schedule that
        returns to the task, such as `Switch([60.0, 120.0], order=[0, 1, 0])`.
    target, task
        The error to reach (default: a tenth of the first error), and the task, counted
        from 0.

    Returns
    -------
    A `Savings`.

    Examples
    --------
    >>> import tutelage as tu
    >>> schedule = tu.Switch([60.0, 120.0], order=[0, 1, 0])
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, schedule, similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> start = tu.Start(
    ...     R=[[0.05, 0.02], [-0.01, 0.03]],
    ...     Q=[[0.3, 0.02], [0.02, 0.2]],
    ...     readout=[[0.3, 0.1], [0.2, -0.1]],
    ... )
    >>> theory = tu.solve(problem, start, times=tu.linear_times(180, 721))
    >>> round(tu.analysis.savings(theory, target=0.01).fraction, 2)
    0.32
    """
    tasks, times, errors = read_tasks(trajectory, "savings")
    task = checks.as_count("task", task, least=0, most=tasks.count - 1)
    error = errors.mean(axis=0)
    begins = begins_and_left(tasks, float(times[-1])).begins[task]
    if begins.size < 2:
        raise InputError(
            f"task {task + 1} (index {task}) does not return up to {times[-1]:g}; "
            "savings needs a task that returns, "
            "as in Switch([60.0, 120.0], order=[0, 1, 0])."
        )
    if target is None:
        target = 0.1 * error[0, task]
    level = checks.as_positive("target", target)
    begin = float(begins[0])
    returns = float(begins[-1])
    first = time_below(times, error[:, task], level, begin)
    if first is not None and first > begins[1] - begins[0]:
        first = None  # reached only after the task had come back
    return Savings(
        task=task,
        target=level,
        begins=(begin, returns),
        first=first,
        again=time_below(times, error[:, task], level, returns),
        times=times,
        error=error,
        trajectory=trajectory,
    )
