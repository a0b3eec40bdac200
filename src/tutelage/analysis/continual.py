"""Continual learning: what a student forgets, transfers, relearns and shares when tasks follow each other.

All of these analyses read the error of each task, e_s(alpha). The schedule gives the times: a task *begins* where its
probability rises, and it is *left* where its probability falls. Between recorded times errors are interpolated linearly, and
the time at which an error falls to a target is interpolated in the logarithm of the error. Record the switches themselves.
Arguments and arrays count tasks and units from 0; words and figures count them from one.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve import solve
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError, require_fields
from tutelage.problem import Problem, Start, Tasks, random_start
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import TASKS
from tutelage.times import check_times
from tutelage.trajectory import Trajectory

ASIDE, LEAST_JUMP = 1e-6, 1e-3  # where probabilities are compared around a jump, relative to the end; smaller ones are none
SMOOTH_POINTS = 201  # at which a schedule that is a function of time is looked at


# Times that the schedule gives, and curves.


def require_tasks(problem: object, function: str) -> Tasks:
    """The tasks of a problem that has some."""
    tasks = require_problem(problem, function, needs=(TASKS,)).teacher
    if not isinstance(tasks, Tasks):
        raise InputError(
            f"{function} compares tasks, and this problem has one teacher. Use Problem(student, Tasks([...], Switch(60.0)))."
        )
    return tasks


def as_task(task: object, tasks: Tasks) -> int:
    number = checks.as_count("task", task, least=0)
    if number >= tasks.count:
        raise InputError(f"task is {number}; there are {tasks.count} tasks, counted from 0.")
    return number


def _jumps(tasks: Tasks, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Times up to `end` at which probabilities jump, and by how much, (jump, task); the first is time 0."""
    known = tasks.switches(end)
    times = np.unique([] if known is None else np.asarray(known, dtype=float))
    times = np.concatenate([[0.0], times[(times > 0) & (times < end)]])
    aside = ASIDE * end  # a jump of a function is known up to less than this
    after = np.array([tasks.probabilities(t + aside) for t in times])
    before = np.array([np.zeros(tasks.count), *(tasks.probabilities(t - aside) for t in times[1:])])
    change = after - before
    return times, np.where(np.abs(change) > LEAST_JUMP, change, 0.0)


def task_begins(tasks: Tasks, task: int, end: float) -> Float[np.ndarray, " S"]:
    """The times at which the probability of a task rises; time 0 is one of them if the task is shown from there on."""
    times, change = _jumps(tasks, end)
    return times[change[:, task] > 0]


def task_left(tasks: Tasks, end: float) -> Float[np.ndarray, " tasks"]:
    """The first time at which the probability of each task falls; the end for a task that is never left.

    A probability that falls smoothly, as a function of time may, counts from the last time at which it is largest.
    """
    times, change = _jumps(tasks, end)
    grid = np.linspace(0.0, end, SMOOTH_POINTS)
    smooth = np.array([tasks.probabilities(t) for t in grid]) if not hasattr(tasks.schedule, "switches") else None
    left = []
    for s in range(tasks.count):
        falls = times[change[:, s] < 0]
        if smooth is not None and not falls.size and smooth[-1, s] < smooth[:, s].max() - 1e-9:
            falls = grid[smooth[:, s] >= smooth[:, s].max() - 1e-9][-1:]
        left.append(falls[0] if falls.size else end)
    return np.array(left)


def read_tasks(trajectory: Any, function: str) -> tuple[Tasks, np.ndarray, np.ndarray]:
    """Tasks, times and errors (run, time, task) of a trajectory; runs that did not reach the end are left out."""
    require_fields(function, trajectory, ("times", "error", "problem", "tasks"), "what solve or simulate returned")
    if trajectory.problem is None or trajectory.tasks is None:
        raise InputError(f"{function} needs a trajectory of several tasks; solve or simulate a Problem with Tasks.")
    tasks = require_tasks(trajectory.problem, function)
    checks.require_untraced("the trajectory", function, trajectory.error)
    error, times = np.asarray(trajectory.error, dtype=float), np.asarray(trajectory.times, dtype=float)
    if times.ndim > 1 or error.ndim > 3 or (error.ndim == 3 and trajectory.kind != "simulation"):
        raise InputError(f"{function} takes one solution or one simulation; this trajectory has {error.shape[0]} problems.")
    error = error.reshape(-1, *error.shape[-2:])
    whole = np.all(np.isfinite(error), axis=(1, 2))
    if times.size < 2 or not whole.any():
        raise InputError(f"{function} needs at least two recorded times, and a run that did not diverge.")
    return tasks, times, error[whole]


def errors_at(times: np.ndarray, error: np.ndarray, when: np.ndarray) -> Float[np.ndarray, "curve task"]:
    """Errors (curve, time, task) at one time for each task."""
    return np.array([[np.interp(t, times, curve[:, s]) for s, t in enumerate(when)] for curve in error])


def time_below(times: np.ndarray, error: np.ndarray, target: float, begin: float = 0.0) -> float | None:
    """How long after `begin` the error first is at the target or below it; None if it never is."""
    later = times > begin
    t = np.concatenate([[begin], times[later]])
    e = np.concatenate([[np.interp(begin, times, error)], error[later]])
    if not np.any(e <= target):
        return None
    i = int(np.argmax(e <= target))
    if i == 0:
        return 0.0
    tiny = np.finfo(float).tiny
    high, low, level = (np.log(max(x, tiny)) for x in (e[i - 1], e[i], target))
    return float(t[i - 1] + (t[i] - t[i - 1]) * (high - level) / (high - low) - begin)


def _target(target: object, errors: np.ndarray) -> float:
    """The target as a positive number; by default a tenth of the first error."""
    return float(0.1 * errors[0]) if target is None else checks.as_positive("target", target)


def _shown(time: float | None) -> str:
    return "not reached" if time is None else f"{time:.4g}"


# Forgetting


@dataclass(frozen=True)
class Forgetting(AnalysisResult, figure="plot_forgetting"):
    """How much of each task is lost after the student has left it.

    Attributes
    ----------
    left
        (task,), when each task was left: its probability falls for the first time; the end for a task that is never left.
    learned, final
        (task,), the error at that time and at the end.
    amount
        (task,), final - learned: the forgetting. It is zero for a task that is never left.
    standard_error
        (task,), of the amount, from the runs of a simulation; zero for theory.
    times, error
        (time,) and (time, task): the curves, the mean over runs for a simulation.
    """

    left: np.ndarray
    learned: np.ndarray
    final: np.ndarray
    amount: np.ndarray
    standard_error: np.ndarray
    times: np.ndarray = field(repr=False)
    error: np.ndarray = field(repr=False)
    trajectory: Trajectory = field(repr=False)

    @property
    def mean(self) -> float:
        """The mean amount over the tasks that were left; zero if none was."""
        gone = self.left < self.times[-1]
        return float(self.amount[gone].mean()) if gone.any() else 0.0

    def __str__(self) -> str:
        lines, end = [], self.times[-1]
        for s, t in enumerate(self.left):
            if t >= end:
                lines.append(f"task {s + 1}: not left up to {end:.4g}; error {self.final[s]:.4g}")
                continue
            sure = f" ± {self.standard_error[s]:.2g}" if self.standard_error[s] > 0 else ""
            lines.append(
                f"task {s + 1}: left at {t:.4g} with error {self.learned[s]:.4g}; at {end:.4g} the error is "
                f"{self.final[s]:.4g}: forgetting {self.amount[s]:.4g}{sure}"
            )
        return "\n".join(lines)


def forgetting(trajectory: Trajectory) -> Forgetting:
    """The rise of each task's error after the student has turned to other tasks.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned for a problem with `Tasks`. Runs of a simulation are averaged.

    Returns
    -------
    A `Forgetting`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(60.0), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> start = tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]], readout=[[0.3, 0.1], [0.2, -0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(120, 13))
    >>> print(tu.analysis.forgetting(theory))
    task 1: left at 60 with error 0.000139; at 120 the error is 0.1551: forgetting 0.1549
    task 2: not left up to 120; error 0.0001146
    """
    tasks, times, errors = read_tasks(trajectory, "forgetting")
    left = task_left(tasks, float(times[-1]))
    learned = errors_at(times, errors, left)
    amounts = errors[:, -1] - learned
    mean = errors.mean(axis=0)
    spread = amounts.std(axis=0, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.zeros(tasks.count)
    return Forgetting(
        left=left,
        learned=learned.mean(axis=0),
        final=mean[-1],
        amount=amounts.mean(axis=0),
        standard_error=spread,
        times=times,
        error=mean,
        trajectory=trajectory,
    )


# Transfer


@dataclass(frozen=True)
class Transfer(AnalysisResult, figure="plot_transfer"):
    """How fast a task is learned after other tasks, compared with learning it from scratch.

    Attributes
    ----------
    task, target
        The task, counted from 0, and the error that it must reach.
    begin
        When the task begins.
    after, scratch
        The time to the target from there on, and from the initial condition with this task alone; None: not reached.
    """

    task: int
    target: float
    begin: float
    after: float | None
    scratch: float | None
    theory: Trajectory = field(repr=False)
    alone: Trajectory = field(repr=False)

    @property
    def gain(self) -> float:
        """Time from scratch over time after the other tasks: above 1 if they help, NaN if a target was not reached."""
        if self.after is None or self.scratch is None:
            return float("nan")
        return self.scratch / self.after if self.after > 0 else float("inf")

    def __str__(self) -> str:
        words = "transfer cannot be judged: a target was not reached"
        if self.gain == self.gain:
            kind = "positive" if self.gain > 1 else "negative" if self.gain < 1 else "no"
            words = f"{kind} transfer, {self.gain:.4g} times as fast"
        return (
            f"task {self.task + 1} to the error {self.target:.4g}: {_shown(self.after)} after the other tasks, "
            f"{_shown(self.scratch)} from scratch: {words}"
        )


def transfer(
    problem: Problem,
    start: Start | None = None,
    times: Any = 100.0,
    task: int = 1,
    target: float | None = None,
    **options: Any,
) -> Transfer:
    """The time to learn a task after other tasks, and the time to learn it from scratch.

    From scratch means: the same student with the same initial overlaps and head, trained on this task alone.

    Parameters
    ----------
    problem, start, times
        As for `solve`. The task must begin after time 0 (`Switch`, `Replay`).
    task
        Counted from 0.
    target
        The error to reach. Default: a tenth of the task's first error from scratch.
    options
        Of both solves (rtol, solver, ...).

    Returns
    -------
    A `Transfer`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(60.0), similarity=0.8)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> start = tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]], readout=[[0.3, 0.1], [0.2, -0.1]])
    >>> print(tu.analysis.transfer(problem, start, tu.linear_times(90, 361), target=0.01))
    task 2 to the error 0.01: 7.042 after the other tasks, 10.43 from scratch: positive transfer, 1.481 times as fast
    """
    tasks = require_tasks(problem, "transfer")
    task, times = as_task(task, tasks), check_times(times)
    begins = task_begins(tasks, task, float(times[-1]))
    if not begins.size or begins[0] <= 0:
        when = "at time 0" if begins.size else f"not before {times[-1]:g}"
        raise InputError(
            f"task {task} (counted from 0) begins {when}; transfer needs a task that begins after another. Use Switch(60.0), "
            "or choose another task or later times."
        )
    begin, start = float(begins[0]), known_start(problem, start)
    theory = solve(problem, start, times, **options)
    alone = solve(problem.task(task), _start_alone(problem, start, task), times, **options)
    error, scratch = np.asarray(theory.error)[:, task], np.asarray(alone.error)
    level = _target(target, scratch)
    return Transfer(
        task=task,
        target=level,
        begin=begin,
        after=time_below(np.asarray(theory.times), error, level, begin),
        scratch=time_below(np.asarray(alone.times), scratch, level),
        theory=theory,
        alone=alone,
    )


def known_start(problem: Problem, start: Start | None) -> Start:
    return random_start(problem, dim=problem.inputs.usual_dim) if start is None else start


def _start_alone(problem: Problem, start: Start, task: int) -> Start:
    """The initial condition of one task: its columns of R, its teacher's overlaps, its head."""
    tasks = problem.teacher
    assert isinstance(tasks, Tasks)
    units, T = tasks.units(task), start.T if start.T is not None else tasks.gram
    own = None if T is None else np.asarray(T)[..., units, units]
    head = tasks.head(np.asarray(start.readout_of(problem)), task)
    return Start(np.asarray(start.R)[..., units], start.Q, own, head, start.bias, dim=start.dim)


# Savings


@dataclass(frozen=True)
class Savings(AnalysisResult, figure="plot_savings"):
    """How much faster a task is learned again.

    Attributes
    ----------
    task, target
        The task, counted from 0, and the error that it must reach.
    begins
        When it began for the first and for the last time.
    first, again
        The time to the target from there on; None: not reached.
    """

    task: int
    target: float
    begins: tuple[float, float]
    first: float | None
    again: float | None
    times: np.ndarray = field(repr=False)
    error: np.ndarray = field(repr=False)
    trajectory: Trajectory = field(repr=False)

    @property
    def fraction(self) -> float:
        """1 - again / first: the share of time that is saved; negative if relearning is slower, NaN if not reached."""
        if self.first is None or self.again is None or self.first == 0:
            return float("nan")
        return 1 - self.again / self.first

    def __str__(self) -> str:
        saved = "" if self.fraction != self.fraction else f"; savings {100 * self.fraction:.3g}%"
        return (
            f"task {self.task + 1} to the error {self.target:.4g}: {_shown(self.first)} at first, "
            f"{_shown(self.again)} when it returns at {self.begins[1]:.4g}{saved}"
        )


def savings(trajectory: Trajectory, target: float | None = None, task: int = 0) -> Savings:
    """The time to relearn a task that returns, compared with the time to learn it at first (Ebbinghaus's savings).

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned (runs are averaged) for a schedule that returns to the task, such as
        `Switch([60.0, 120.0], order=[0, 1, 0])`.
    target
        The error to reach. Default: a tenth of the task's first error.
    task
        Counted from 0.

    Returns
    -------
    A `Savings`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch([60.0, 120.0], order=[0, 1, 0]), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> start = tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]], readout=[[0.3, 0.1], [0.2, -0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(180, 721))
    >>> round(tu.analysis.savings(theory, target=0.01).fraction, 2)
    0.32
    """
    tasks, times, errors = read_tasks(trajectory, "savings")
    task, error = as_task(task, tasks), errors.mean(axis=0)
    begins = task_begins(tasks, task, float(times[-1]))
    if begins.size < 2:
        raise InputError(
            f"task {task} (counted from 0) begins {begins.size} time{'s' * (begins.size != 1)} up to {times[-1]:g}; savings "
            "needs a task that returns. Use Switch([60.0, 120.0], order=[0, 1, 0])."
        )
    level = _target(target, error[:, task])
    first = time_below(times, error[:, task], level, float(begins[0]))
    if first is not None and first > begins[1] - begins[0]:
        first = None  # reached only after the task had come back
    return Savings(
        task=task,
        target=level,
        begins=(float(begins[0]), float(begins[-1])),
        first=first,
        again=time_below(times, error[:, task], level, float(begins[-1])),
        times=times,
        error=error,
        trajectory=trajectory,
    )
