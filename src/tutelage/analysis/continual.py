"""Continual learning: forgetting, transfer, relearning and shared units.

Tasks follow each other. A task *begins* where its probability rises, and it is *left*
where its probability falls. A gradual fall, or one in several steps, counts from the
time at which half of it has passed; so does the gradual rise of a task that never
begins by a jump. A fall ends where the probability rises again. Between recorded times
errors are interpolated linearly, and the time at which an error falls to a target in
the logarithm of the error. Arguments and arrays count tasks and units from 0; words and
figures count them from one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve import solve, solve_batch
from tutelage._types import Numbers
from tutelage.analysis.result import AnalysisResult, curve_of, first_time_at
from tutelage.errors import InputError, require_fields
from tutelage.problem import Interleave, Problem, Replay, Start, Tasks
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import TASKS
from tutelage.result.trajectory import Trajectory
from tutelage.stream.order_parameters import generalization_error

# Relative to the end: the distance from a jump at which probabilities are compared.
ASIDE = 1e-6
LEAST_JUMP = 1e-3  # of a probability; a smaller one is none
SMOOTH_POINTS = 201  # at which schedules are looked at between their jumps
SERVES = 0.1  # a unit with at least this share of a task is said to serve it
FRACTIONS = 21  # of the grid of `best_replay`
ROUNDS = 3  # grids of `best_replay`, each closer around the best fraction


def _require_tasks(problem: object, function: str) -> Tasks:
    """Return the tasks of a problem; refuse one that has none."""
    tasks = require_problem(problem, function, needs=(TASKS,)).several_tasks
    if tasks is None:
        raise InputError(
            f"{function} compares tasks; this problem has one teacher. "
            "Use Tasks([...], Switch(60.0)) instead."
        )
    return tasks


class TaskTimes(NamedTuple):
    """The times at which each task begins, at 0 too, and is left for the first time.

    left: (tasks,); the end for a task that is never left.
    """

    begins: list[np.ndarray]
    left: Float[np.ndarray, " tasks"]


def _begins_and_left(tasks: Tasks, end: float) -> TaskTimes:
    """Return the times at which each task begins, and is left for the first time.

    Gradual changes count from their middle.
    """
    known = tasks.switches(end)
    aside = ASIDE * end  # a jump of a function is known up to less than this
    jumps = np.unique(np.append(0.0, [] if known is None else known))
    jumps = jumps[(jumps >= 0) & (jumps < end)]
    shares_at = jax.vmap(tasks.probabilities)
    before = np.array(shares_at(jumps - aside))
    before[0] = 0.0
    after = np.array(shares_at(jumps + aside))
    late = jumps[1:]
    grid = np.linspace(0.0, end, SMOOTH_POINTS)
    times = np.unique(np.concatenate([grid, late - aside, late, late + aside]))
    shares = np.array(shares_at(times))
    begins = []
    left = []
    for task in range(tasks.count):
        begun = jumps[after[:, task] - before[:, task] > LEAST_JUMP]
        if not begun.size:
            begun = _middle_of_first_fall(times, -shares[:, task])
        fallen = _middle_of_first_fall(times, shares[:, task])
        begins.append(_at_jumps(begun, jumps, aside))
        left.append(_at_jumps(np.append(fallen, end), jumps, aside)[0])
    return TaskTimes(begins, np.array(left))


def _middle_of_first_fall(times: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the time at which half of the first fall of a curve has passed.

    The array is empty if the curve never falls.
    """
    fallen = np.maximum.accumulate(share) - share > LEAST_JUMP
    if not fallen.any():
        return np.empty(0)
    begin = int(np.argmax(fallen))
    risen = share[begin:] - np.minimum.accumulate(share[begin:]) > LEAST_JUMP
    stop = begin + int(np.argmax(risen)) if risen.any() else share.size
    highest = share[:begin].max()
    middle = (highest + share[begin:stop].min()) / 2
    last = int(np.flatnonzero(share[:begin] == highest)[-1])
    below = last + int(np.argmax(share[last:stop] <= middle))
    around = slice(below - 1, below + 1)
    return np.array([np.interp(-middle, -share[around], times[around])])


def _at_jumps(times: np.ndarray, jumps: np.ndarray, aside: float) -> np.ndarray:
    """Return the times, those near a jump moved onto it."""
    nearest = jumps[np.argmin(np.abs(times[:, None] - jumps), axis=1)]
    return np.where(np.abs(times - nearest) <= 2 * aside, nearest, times)


class TaskCurves(NamedTuple):
    """The tasks of a trajectory, and its errors (run, time, task)."""

    tasks: Tasks
    times: np.ndarray
    errors: np.ndarray


def _read_tasks(trajectory: Any, function: str) -> TaskCurves:
    """Return the tasks, times and errors of a trajectory.

    Runs that did not reach the end are left out.
    """
    fields = ("times", "error", "problem", "tasks")
    require_fields(function, trajectory, fields, "what solve or simulate returned")
    if trajectory.problem is None or trajectory.tasks is None:
        raise InputError(
            f"{function} needs a trajectory of several tasks; "
            "solve or simulate a Problem with Tasks."
        )
    tasks = _require_tasks(trajectory.problem, function)
    checks.require_untraced("the trajectory", function, trajectory.error)
    error = np.asarray(trajectory.error, dtype=float)
    times = np.asarray(trajectory.times, dtype=float)
    is_batch = error.ndim == 3 and trajectory.kind != "simulation"
    if times.ndim > 1 or error.ndim > 3 or is_batch:
        raise InputError(
            f"{function} takes one solution or one simulation; "
            f"this trajectory has {error.shape[0]} problems."
        )
    errors = error.reshape(-1, *error.shape[-2:])
    whole = np.all(np.isfinite(errors), axis=(1, 2))
    if times.size < 2 or not whole.any():
        raise InputError(
            f"{function} needs at least two recorded times, "
            "and a run that did not diverge."
        )
    return TaskCurves(tasks, times, errors[whole])


def _errors_at(
    times: np.ndarray, error: np.ndarray, when: np.ndarray
) -> Float[np.ndarray, "curve task"]:
    """Return errors (curve, time, task) at one time for each task."""
    rows = []
    for curve in error:
        rows.append([np.interp(t, times, curve[:, s]) for s, t in enumerate(when)])
    return np.array(rows)


def _time_below(
    times: np.ndarray, error: np.ndarray, target: float, begin: float = 0.0
) -> float | None:
    """Return the time from `begin` until the error is at the target or below it.

    It is None if the error never is.
    """
    t = np.concatenate([[begin], times[times > begin]])
    reached = float(first_time_at(target, t, np.interp(t, times, error)))
    return reached - begin if reached <= t[-1] else None


def _shown(time: float | None) -> str:
    return "not reached" if time is None else f"{time:.4g}"


def _increasing(name: str, values: Any) -> np.ndarray:
    """Return at least two finite numbers in increasing order; refuse others."""
    array = checks.as_array(name, values)
    is_list = array.ndim == 1 and array.size >= 2
    if not is_list or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
        raise InputError(
            f"{name} is {checks.shown(array)}; "
            "it must be a list of at least two increasing numbers."
        )
    return array


@dataclass(frozen=True, repr=False)
class Forgetting(AnalysisResult, figure="plot_forgetting"):
    """The loss of each task after the student has left it.

    Attributes
    ----------
    left
        (task,), the time at which each task was left: the middle of the first fall of
        its probability; the end for a task that is never left.
    learned, final
        (task,), the error at that time and at the end.
    amount
        (task,), final - learned: the forgetting; zero for a task that is never left.
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
    times: np.ndarray
    error: np.ndarray
    trajectory: Trajectory

    def __str__(self) -> str:
        lines = []
        end = self.times[-1]
        for s, t in enumerate(self.left):
            if t >= end:
                lines.append(
                    f"task {s + 1}: not left up to {end:.4g}; error {self.final[s]:.4g}"
                )
                continue
            uncertainty = ""
            if self.standard_error[s] > 0:
                uncertainty = f" ± {self.standard_error[s]:.2g}"
            lines.append(
                f"task {s + 1}: left at {t:.4g} with error {self.learned[s]:.4g}; "
                f"at {end:.4g} the error is {self.final[s]:.4g}: "
                f"forgetting {self.amount[s]:.4g}{uncertainty}"
            )
        return "\n".join(lines)


def forgetting(trajectory: Trajectory) -> Forgetting:
    """Return the rise of each task's error after the student has turned to others.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned for a problem with `Tasks`. Runs of a
        simulation are averaged.

    Returns
    -------
    A `Forgetting`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> theory = tu.solve(problem, times=tu.linear_times(120, 13))
    >>> print(tu.analysis.forgetting(theory))
    task 1: left at 60 with error 0.002716; at 120 the error is 0.1981: forgetting 0.1954
    task 2: not left up to 120; error 0.001406
    """
    tasks, times, errors = _read_tasks(trajectory, "forgetting")
    left = _begins_and_left(tasks, float(times[-1])).left
    learned = _errors_at(times, errors, left)
    amounts = errors[:, -1] - learned
    standard_error = np.zeros(tasks.count)
    if len(errors) > 1:
        standard_error = amounts.std(axis=0, ddof=1) / np.sqrt(len(errors))
    mean = errors.mean(axis=0)
    return Forgetting(
        left=left,
        learned=learned.mean(axis=0),
        final=mean[-1],
        amount=amounts.mean(axis=0),
        standard_error=standard_error,
        times=times,
        error=mean,
        trajectory=trajectory,
    )


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
    tasks = _require_tasks(problem, "transfer")
    task = checks.as_count("task", task, least=0, most=tasks.count - 1)
    times = checks.as_times(times)
    begins = _begins_and_left(tasks, float(times[-1])).begins[task]
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
        after=_time_below(theory.times, theory.error[:, task], level, begin),
        scratch=_time_below(alone.times, alone.error, level),
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
    tasks, times, errors = _read_tasks(trajectory, "savings")
    task = checks.as_count("task", task, least=0, most=tasks.count - 1)
    error = errors.mean(axis=0)
    begins = _begins_and_left(tasks, float(times[-1])).begins[task]
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
    first = _time_below(times, error[:, task], level, begin)
    if first is not None and first > begins[1] - begins[0]:
        first = None  # reached only after the task had come back
    return Savings(
        task=task,
        target=level,
        begins=(begin, returns),
        first=first,
        again=_time_below(times, error[:, task], level, returns),
        times=times,
        error=error,
        trajectory=trajectory,
    )


@dataclass(frozen=True, repr=False)
class Interference(AnalysisResult, figure="plot_interference"):
    """Forgetting against the similarity of the tasks.

    Attributes
    ----------
    similarity
        (V,), the overlaps between the units of different teachers.
    forgetting
        (V, task), final error minus the error when the task was left.
    final
        (V, task), the errors at the end.
    left
        (task,), the time at which each task was left.
    times, error
        (time,) and (V, time, task): all curves.
    """

    similarity: np.ndarray
    forgetting: np.ndarray
    final: np.ndarray
    left: np.ndarray
    times: np.ndarray
    error: np.ndarray
    problem: Problem

    def worst(self, task: int = 0) -> tuple[float, float]:
        """Return the similarity with the largest forgetting of a task, and the latter.

        They are those of a parabola through three points.
        """
        values = self.forgetting[:, task]
        i = int(np.argmax(values))
        if not 0 < i < values.size - 1:
            return float(self.similarity[i]), float(values[i])
        near = slice(i - 1, i + 2)
        distance = self.similarity[near] - self.similarity[i]
        a, b, c = np.polyfit(distance, values[near], 2)
        shift = -b / (2 * a) if a < 0 else 0.0
        largest = c + b * shift + a * shift**2
        return float(self.similarity[i] + shift), float(largest)

    def time_to(self, target: float, task: int = 1) -> Float[np.ndarray, " V"]:
        """Return the time from the beginning of a task to an error, by similarity.

        It is NaN where the error is not reached.
        """
        level = checks.as_positive("target", target)
        tasks = self.problem.several_tasks
        assert tasks is not None
        task = checks.as_count("task", task, least=0, most=tasks.count - 1)
        begins = _begins_and_left(tasks, float(self.times[-1])).begins[task]
        if not begins.size:
            raise InputError(
                f"task {task + 1} (index {task}) does not begin before "
                f"{self.times[-1]:g}."
            )
        begin = float(begins[0])
        durations = []
        for curve in self.error:
            durations.append(_time_below(self.times, curve[:, task], level, begin))
        return np.array(durations, dtype=float)  # None becomes NaN

    def __str__(self) -> str:
        lines = [
            f"{self.similarity.size} similarities from {self.similarity[0]:.4g} "
            f"to {self.similarity[-1]:.4g}"
        ]
        for s in np.flatnonzero(self.left < self.times[-1]):
            V, amount = self.worst(int(s))
            lines.append(
                f"task {s + 1}: forgetting is largest, {amount:.4g}, "
                f"at similarity {V:.3g}; {self.forgetting[0, s]:.4g} and "
                f"{self.forgetting[-1, s]:.4g} at the ends"
            )
        return "\n".join(lines)


def interference(
    problem: Problem,
    start: Start | None = None,
    times: Any = 100.0,
    similarity: Numbers | None = None,
    **options: Any,
) -> Interference:
    """Return the forgetting of each task against the similarity of the teachers.

    One `solve_batch` computes the whole curve.

    Parameters
    ----------
    problem, start, times, options
        As for `solve_batch`. `similarity` of the problem's `Tasks` is replaced; its
        teachers must not have a `gram`.
    similarity
        Increasing overlaps between unit m of one teacher and unit m of every other one.
        Default: 50 from 0 to 0.98. The initial overlaps must belong to vectors at each
        of them.

    Returns
    -------
    An `Interference`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> times = tu.linear_times(120, 13)
    >>> V = [0.2, 0.3, 0.4, 0.5]
    >>> curve = tu.analysis.interference(problem, times=times, similarity=V)
    >>> curve.forgetting[:, 0].round(4)
    array([0.3176, 0.2766, 0.2359, 0.1954])
    """
    tasks = _require_tasks(problem, "interference")
    if tasks.given_gram is not None:
        raise InputError(
            "the tasks have a gram; interference varies the similarity. "
            "Use Tasks(similarity=0.5) instead."
        )
    if similarity is None:
        similarity = np.linspace(0.0, 0.98, 50)
    V = _increasing("similarity", similarity)
    times = checks.as_times(times)
    solved = solve_batch(problem, {"similarity": V}, start, times, **options)
    error = np.asarray(solved.error)
    left = _begins_and_left(tasks, float(times[-1])).left
    final = error[:, -1]
    return Interference(
        similarity=V,
        forgetting=final - _errors_at(times, error, left),
        final=final,
        left=left,
        times=times,
        error=error,
        problem=problem,
    )


@dataclass(frozen=True, repr=False)
class BestReplay(AnalysisResult, figure="plot_best_replay"):
    """The fraction of replayed samples with the smallest error at the end.

    Attributes
    ----------
    fraction, value
        The best fraction, and the mean of the final errors there.
    fractions
        (F,), all fractions that were solved, increasing.
    final, forgetting
        (F, task), the errors at the end, and those minus the errors when each task was
        left.
    values
        (F,), the mean of the final errors.
    """

    fraction: float
    value: float
    fractions: np.ndarray
    final: np.ndarray
    forgetting: np.ndarray
    values: np.ndarray
    problem: Problem

    @property
    def gain(self) -> float:
        """The value at the smallest fraction over the best value."""
        return float(self.values[0] / self.value) if self.value > 0 else 1.0

    def __str__(self) -> str:
        return (
            f"best replay fraction {self.fraction:.4g}: mean final error "
            f"{self.value:.4g}, {self.gain:.4g} times below that at "
            f"{self.fractions[0]:.4g}"
        )


def best_replay(
    problem: Problem,
    start: Start | None = None,
    times: Any = 100.0,
    fractions: Numbers | None = None,
    **options: Any,
) -> BestReplay:
    """Return the replay fraction that makes the mean of the final errors smallest.

    Parameters
    ----------
    problem, start, times, options
        As for `solve_batch`, with the schedule `Replay(fraction, after)`. Its fraction
        is replaced.
    fractions
        The first grid, increasing, between 0 and 1. Default: 21 from 0 to 1. Two more
        rounds look closer at the best one.

    Returns
    -------
    A `BestReplay`.

    Examples
    --------
    >>> import tutelage as tu
    >>> schedule = tu.Replay(0.0, after=60.0)
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, schedule, similarity=0.5)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> best = tu.analysis.best_replay(problem, times=tu.linear_times(120, 13))
    >>> bool(best.gain > 10)
    True
    """
    tasks = _require_tasks(problem, "best_replay")
    if not isinstance(tasks.schedule, Replay):
        kind = type(tasks.schedule).__name__
        raise InputError(
            f"the schedule is a {kind}; "
            "best_replay varies the fraction of Replay(0.1, after=60.0)."
        )
    if fractions is None:
        fractions = np.linspace(0, 1, FRACTIONS)
    grid = _increasing("fractions", fractions)
    times = checks.as_times(times)
    replayed = problem.replace(**{"schedule.fraction": 0.5}).several_tasks
    assert replayed is not None
    left = _begins_and_left(replayed, float(times[-1])).left
    solved = np.empty(0)
    error = np.empty((0, times.size, tasks.count))
    best = 0
    for _ in range(ROUNDS):
        batch = solve_batch(
            problem, {"schedule.fraction": grid}, start, times, **options
        )
        solved, first = np.unique(np.append(solved, grid), return_index=True)
        error = np.concatenate([error, batch.error])[first]
        best = int(np.argmin(error[:, -1].mean(axis=1)))
        low = solved[max(best - 1, 0)]
        high = solved[min(best + 1, solved.size - 1)]
        grid = np.linspace(low, high, grid.size)
    final = error[:, -1]
    values = final.mean(axis=1)
    return BestReplay(
        fraction=float(solved[best]),
        value=float(values[best]),
        fractions=solved,
        final=final,
        forgetting=final - _errors_at(times, error, left),
        values=values,
        problem=problem,
    )


@dataclass(frozen=True, repr=False)
class NodeReuse(AnalysisResult, figure="plot_node_reuse"):
    """The student units that serve each task.

    Attributes
    ----------
    importance
        (task, K), the rise of the task's error if the unit is cut off from its head.
    shares
        (task, K), the importance as shares of each task's sum; negative importance
        counts as zero.
    times
        (task,), the time of the measurement: the recorded time next to when the task
        was left.
    reuse
        (task, task), sum_k min(share_sk, share_tk): 1 if two tasks use the same units,
        0 for different ones.
    """

    importance: np.ndarray
    shares: np.ndarray
    times: np.ndarray
    reuse: np.ndarray

    def __str__(self) -> str:
        lines = []
        for s, t in enumerate(self.times):
            lines.append(f"task {s + 1} at {t:.4g}: {self._units_of(s) or 'no unit'}")
        tasks = len(self.shares)
        for s in range(tasks):
            for t in range(s + 1, tasks):
                overlap = self.reuse[s, t]
                lines.append(f"re-use of tasks {s + 1} and {t + 1}: {overlap:.3f}")
        return "\n".join(lines)

    def _units_of(self, task: int) -> str:
        """Return the units that serve a task, the most important first."""
        shares = self.shares[task]
        units = []
        for k in np.argsort(-shares):
            if shares[k] >= SERVES:
                units.append(f"unit {k + 1} ({100 * shares[k]:.0f}%)")
        return ", ".join(units)


def node_reuse(trajectory: Trajectory, run: int | None = None) -> NodeReuse:
    """Return the importance of each unit for each task.

    Each unit is cut off from a task's head in turn, and the error of the task computed
    again.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned for a problem with `Tasks`.
    run
        The run of a simulation, counted from 0.

    Returns
    -------
    A `NodeReuse`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.0)
    >>> student = tu.Network(2, "erf", train_readout=True)
    >>> problem = tu.Problem(student, tasks, optimizer=tu.SGD(lr=1.0))
    >>> theory = tu.solve(problem, times=tu.linear_times(120, 13))
    >>> tu.analysis.node_reuse(theory).shares.shape
    (2, 2)
    """
    tasks, recorded, _ = _read_tasks(trajectory, "node_reuse")
    assert trajectory.problem is not None
    measured = []
    importance = []
    for task, left in enumerate(_begins_and_left(tasks, float(recorded[-1])).left):
        problem = trajectory.problem.task(task)
        curve = curve_of(trajectory.task(task), run, "node_reuse")
        nearest = int(np.argmin(np.abs(curve.times - left)))
        variables = {name: values[nearest] for name, values in curve.variables.items()}
        measured.append(curve.times[nearest])
        importance.append(_importance(problem, variables, curve.T))
    positive = np.maximum(importance, 0.0)
    sums = positive.sum(axis=1, keepdims=True)
    shares = positive / np.maximum(sums, np.finfo(float).tiny)
    reuse = np.minimum(shares[:, None], shares[None]).sum(axis=-1)
    return NodeReuse(
        importance=np.array(importance),
        shares=shares,
        times=np.array(measured),
        reuse=reuse,
    )


def _importance(
    problem: Problem, variables: dict[str, np.ndarray], T: Any
) -> Float[np.ndarray, " K"]:
    """Return the rise of the error of one task without each of the units."""
    units = np.ones(problem.student.hidden)
    kept = np.vstack([units, 1 - np.diag(units)])  # all units, and all but one
    head = np.asarray(variables.get("readout", problem.student.readout))
    bias = variables.get("bias")
    R = variables["R"]
    Q = variables["Q"]
    errors = []
    for v in head * kept:
        errors.append(float(generalization_error(problem, R, Q, T, v, bias)))
    return np.array(errors[1:]) - errors[0]
