"""Continual learning: what a student forgets, transfers, relearns and shares when tasks follow each other.

A task *begins* where its probability rises, and it is *left* where its probability falls. A gradual fall, or one in several
steps, counts from the time at which half of it has passed; so does the gradual rise of a task that never begins by a jump.
A fall ends where the probability rises again. Between recorded times errors are
interpolated linearly, and the time at which an error falls to a target in the logarithm of the error. Arguments and arrays
count tasks and units from 0; words and figures count them from one.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve import solve, solve_batch
from tutelage._types import Numbers
from tutelage.analysis.result import AnalysisResult, curve_of, first_time_at
from tutelage.dynamics.order_parameters import generalization_error
from tutelage.errors import InputError, require_fields
from tutelage.problem import Interleave, Problem, Replay, Start, Tasks
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import TASKS
from tutelage.trajectory import Trajectory

ASIDE, LEAST_JUMP = 1e-6, 1e-3  # where probabilities are compared around a jump, relative to the end; smaller ones are none
SMOOTH_POINTS = 201  # at which schedules are looked at between their jumps
SERVES = 0.1  # a unit with at least this share of a task is said to serve it
FRACTIONS, ROUNDS = 21, 3  # of `best_replay`: the grid, and how often it is laid closer around the best fraction


def _require_tasks(problem: object, function: str) -> Tasks:
    """The tasks of a problem that has some."""
    tasks = require_problem(problem, function, needs=(TASKS,)).teacher
    if not isinstance(tasks, Tasks):
        raise InputError(f"{function} compares tasks; this problem has one teacher. Use Tasks([...], Switch(60.0)) instead.")
    return tasks


def _begins_and_left(tasks: Tasks, end: float) -> tuple[list[np.ndarray], Float[np.ndarray, " tasks"]]:
    """When each task begins, at 0 too, and when it is left for the first time (at the end: never).

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
    begins, left = [], []
    for task in range(tasks.count):
        begun = jumps[after[:, task] - before[:, task] > LEAST_JUMP]
        if not begun.size:
            begun = _middle_of_first_fall(times, -shares[:, task])
        fallen = _middle_of_first_fall(times, shares[:, task])
        begins.append(_at_jumps(begun, jumps, aside))
        left.append(_at_jumps(np.append(fallen, end), jumps, aside)[0])
    return begins, np.array(left)


def _middle_of_first_fall(times: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The time at which half of the first fall of a curve has passed; none if it never falls."""
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
    """The times, those that lie at a jump exactly."""
    nearest = jumps[np.argmin(np.abs(times[:, None] - jumps), axis=1)]
    return np.where(np.abs(times - nearest) <= 2 * aside, nearest, times)


def _read_tasks(trajectory: Any, function: str) -> tuple[Tasks, np.ndarray, np.ndarray]:
    """Tasks, times and errors (run, time, task) of a trajectory; runs that did not reach the end are left out."""
    require_fields(function, trajectory, ("times", "error", "problem", "tasks"), "what solve or simulate returned")
    if trajectory.problem is None or trajectory.tasks is None:
        raise InputError(f"{function} needs a trajectory of several tasks; solve or simulate a Problem with Tasks.")
    tasks = _require_tasks(trajectory.problem, function)
    checks.require_untraced("the trajectory", function, trajectory.error)
    error, times = np.asarray(trajectory.error, dtype=float), np.asarray(trajectory.times, dtype=float)
    if times.ndim > 1 or error.ndim > 3 or (error.ndim == 3 and trajectory.kind != "simulation"):
        raise InputError(f"{function} takes one solution or one simulation; this trajectory has {error.shape[0]} problems.")
    error = error.reshape(-1, *error.shape[-2:])
    whole = np.all(np.isfinite(error), axis=(1, 2))
    if times.size < 2 or not whole.any():
        raise InputError(f"{function} needs at least two recorded times, and a run that did not diverge.")
    return tasks, times, error[whole]


def _errors_at(times: np.ndarray, error: np.ndarray, when: np.ndarray) -> Float[np.ndarray, "curve task"]:
    """Errors (curve, time, task) at one time for each task."""
    return np.array([[np.interp(t, times, curve[:, s]) for s, t in enumerate(when)] for curve in error])


def _time_below(times: np.ndarray, error: np.ndarray, target: float, begin: float = 0.0) -> float | None:
    """How long after `begin` the error first is at the target or below it; None if it never is."""
    t = np.concatenate([[begin], times[times > begin]])
    found = float(first_time_at(target, t, np.interp(t, times, error)))
    return found - begin if found <= t[-1] else None


def _shown(time: float | None) -> str:
    return "not reached" if time is None else f"{time:.4g}"


def _increasing(name: str, values: Any) -> np.ndarray:
    """At least two finite numbers in increasing order."""
    array = checks.as_array(name, values)
    if array.ndim != 1 or array.size < 2 or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
        raise InputError(f"{name} is {checks.shown(array)}; it must be a list of at least two increasing numbers.")
    return array


@dataclass(frozen=True, repr=False)
class Forgetting(AnalysisResult, figure="plot_forgetting"):
    """How much of each task is lost after the student has left it.

    left: (task,), when each task was left: the middle of the first fall of its probability; the end for a task that is
    never left.
    learned, final: (task,), the error at that time and at the end. amount: (task,), final - learned: the forgetting; zero for a
    task that is never left. standard_error: (task,), of the amount, from the runs of a simulation; zero for theory.
    times, error: (time,) and (time, task): the curves, the mean over runs for a simulation.
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
        lines, end = [], self.times[-1]
        for s, t in enumerate(self.left):
            if t >= end:
                lines.append(f"task {s + 1}: not left up to {end:.4g}; error {self.final[s]:.4g}")
                continue
            sure = f" ± {self.standard_error[s]:.2g}" if self.standard_error[s] > 0 else ""
            now = f"at {end:.4g} the error is {self.final[s]:.4g}: forgetting {self.amount[s]:.4g}{sure}"
            lines.append(f"task {s + 1}: left at {t:.4g} with error {self.learned[s]:.4g}; {now}")
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
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> theory = tu.solve(problem, times=tu.linear_times(120, 13))
    >>> print(tu.analysis.forgetting(theory))
    task 1: left at 60 with error 0.002716; at 120 the error is 0.1981: forgetting 0.1954
    task 2: not left up to 120; error 0.001406
    """
    tasks, times, errors = _read_tasks(trajectory, "forgetting")
    left = _begins_and_left(tasks, float(times[-1]))[1]
    learned = _errors_at(times, errors, left)
    amounts, mean = errors[:, -1] - learned, errors.mean(axis=0)
    spread = amounts.std(axis=0, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.zeros(tasks.count)
    return Forgetting(left, learned.mean(axis=0), mean[-1], amounts.mean(axis=0), spread, times, mean, trajectory)


@dataclass(frozen=True, repr=False)
class Transfer(AnalysisResult, figure="plot_transfer"):
    """How fast a task is learned after other tasks, compared with learning it from scratch.

    task, target: the task, counted from 0, and the error that it must reach. begin: when the task begins. after, scratch: the
    time to the target from there on, and from the initial condition with this task alone; None: not reached.
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
        """Time from scratch over time after the other tasks: above 1 if they help, NaN if a target was not reached."""
        if self.after is None or self.scratch is None:
            return float("nan")
        return self.scratch / self.after if self.after > 0 else float("inf")

    def __str__(self) -> str:
        words = "transfer cannot be judged: a target was not reached"
        if self.gain == self.gain:
            kind = "positive" if self.gain > 1 else "negative" if self.gain < 1 else "no"
            words = f"{kind} transfer, {self.gain:.4g} times as fast"
        times = f"{_shown(self.after)} after the other tasks, {_shown(self.scratch)} from scratch"
        return f"task {self.task + 1} to the error {self.target:.4g}: {times}: {words}"


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
    problem, start, times, options
        As for `solve`. The task must begin after time 0 (`Switch`, `Replay`).
    task, target
        The task, counted from 0, and the error to reach. Default: a tenth of its first error from scratch.

    Returns
    -------
    A `Transfer`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.8)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> print(tu.analysis.transfer(problem, times=tu.linear_times(90, 361), target=0.01))
    task 2 to the error 0.01: 3.174 after the other tasks, 4.469 from scratch: positive transfer, 1.408 times as fast
    """
    tasks = _require_tasks(problem, "transfer")
    task, times = checks.as_count("task", task, least=0, most=tasks.count - 1), checks.as_times(times)
    begins = _begins_and_left(tasks, float(times[-1]))[0][task]
    if not begins.size or begins[0] <= 0:
        when = "at time 0" if begins.size else f"not before {times[-1]:g}"
        fix = "transfer needs one that begins after another, as in Switch(60.0)"
        raise InputError(f"task {task + 1} (index {task}) begins {when}; {fix}.")
    theory = solve(problem, start, times, **options)
    only = problem.replace(schedule=Interleave(np.eye(tasks.count)[task]))  # no other task is ever shown
    alone = solve(only, start, times, **options).task(task)
    level, begin = checks.as_positive("target", 0.1 * alone.error[0] if target is None else target), float(begins[0])
    after = _time_below(theory.times, theory.error[:, task], level, begin)
    scratch = _time_below(alone.times, alone.error, level)
    return Transfer(task, level, begin, after, scratch, theory, alone)


@dataclass(frozen=True, repr=False)
class Savings(AnalysisResult, figure="plot_savings"):
    """How much faster a task is learned again.

    task, target: the task, counted from 0, and the error that it must reach. begins: when it began for the first and for the last
    time. first, again: the time to the target from there on; None: not reached.
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
        """1 - again / first: the share of time that is saved; negative if relearning is slower, NaN if not reached."""
        if self.first is None or self.again is None or self.first == 0:
            return float("nan")
        return 1 - self.again / self.first

    def __str__(self) -> str:
        saved = "" if self.fraction != self.fraction else f"; savings {100 * self.fraction:.3g}%"
        times = f"{_shown(self.first)} at first, {_shown(self.again)} when it returns at {self.begins[1]:.4g}"
        return f"task {self.task + 1} to the error {self.target:.4g}: {times}{saved}"


def savings(trajectory: Trajectory, target: float | None = None, task: int = 0) -> Savings:
    """The time to relearn a task that returns, compared with the time to learn it at first (Ebbinghaus's savings).

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned (runs are averaged) for a schedule that returns to the task, such as
        `Switch([60.0, 120.0], order=[0, 1, 0])`.
    target, task
        The error to reach (default: a tenth of the first error), and the task, counted from 0.

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
    tasks, times, errors = _read_tasks(trajectory, "savings")
    task, error = checks.as_count("task", task, least=0, most=tasks.count - 1), errors.mean(axis=0)
    begins = _begins_and_left(tasks, float(times[-1]))[0][task]
    if begins.size < 2:
        fix = "savings needs a task that returns, as in Switch([60.0, 120.0], order=[0, 1, 0])"
        raise InputError(f"task {task + 1} (index {task}) does not return up to {times[-1]:g}; {fix}.")
    level = checks.as_positive("target", 0.1 * error[0, task] if target is None else target)
    ends = float(begins[0]), float(begins[-1])
    first, again = (_time_below(times, error[:, task], level, begin) for begin in ends)
    if first is not None and first > begins[1] - begins[0]:
        first = None  # reached only after the task had come back
    return Savings(task, level, ends, first, again, times, error, trajectory)


@dataclass(frozen=True, repr=False)
class Interference(AnalysisResult, figure="plot_interference"):
    """Forgetting against the similarity of the tasks.

    similarity: (V,), the overlaps between the units of different teachers. forgetting: (V, task), final error minus the error
    when the task was left. final: (V, task), the errors at the end. left: (task,), when each task was left.
    times, error: (time,) and (V, time, task): all curves.
    """

    similarity: np.ndarray
    forgetting: np.ndarray
    final: np.ndarray
    left: np.ndarray
    times: np.ndarray
    error: np.ndarray
    problem: Problem

    def worst(self, task: int = 0) -> tuple[float, float]:
        """The similarity with the largest forgetting of a task, and that forgetting; a parabola through three points."""
        values = self.forgetting[:, task]
        i = int(np.argmax(values))
        if not 0 < i < values.size - 1:
            return float(self.similarity[i]), float(values[i])
        near = slice(i - 1, i + 2)
        a, b, c = np.polyfit(self.similarity[near] - self.similarity[i], values[near], 2)
        shift = -b / (2 * a) if a < 0 else 0.0
        return float(self.similarity[i] + shift), float(c + b * shift + a * shift**2)

    def time_to(self, target: float, task: int = 1) -> Float[np.ndarray, " V"]:
        """The time from the beginning of a task to an error, for each similarity; NaN where it is not reached."""
        level, tasks = checks.as_positive("target", target), self.problem.teacher
        task = checks.as_count("task", task, least=0, most=tasks.count - 1)
        begins = _begins_and_left(tasks, float(self.times[-1]))[0][task]
        if not begins.size:
            raise InputError(f"task {task + 1} (index {task}) does not begin before {self.times[-1]:g}.")
        found = [_time_below(self.times, curve[:, task], level, float(begins[0])) for curve in self.error]
        return np.array(found, dtype=float)  # None becomes NaN

    def __str__(self) -> str:
        lines = [f"{self.similarity.size} similarities from {self.similarity[0]:.4g} to {self.similarity[-1]:.4g}"]
        for s in np.flatnonzero(self.left < self.times[-1]):
            V, amount = self.worst(int(s))
            ends = f"{self.forgetting[0, s]:.4g} and {self.forgetting[-1, s]:.4g} at the ends"
            lines.append(f"task {s + 1}: forgetting is largest, {amount:.4g}, at similarity {V:.3g}; {ends}")
        return "\n".join(lines)


def interference(
    problem: Problem, start: Start | None = None, times: Any = 100.0, similarity: Numbers | None = None, **options: Any
) -> Interference:
    """Forgetting of each task against the similarity of the teachers: the whole curve, by one `solve_batch`.

    Parameters
    ----------
    problem, start, times, options
        As for `solve_batch`. `similarity` of the problem's `Tasks` is replaced; its teachers must not have a `gram`.
    similarity
        Increasing overlaps between unit m of one teacher and unit m of every other one. Default: 50 from 0 to 0.98.
        The initial overlaps must belong to vectors at each of them.

    Returns
    -------
    An `Interference`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Switch(60.0), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> found = tu.analysis.interference(problem, times=tu.linear_times(120, 13), similarity=[0.2, 0.3, 0.4, 0.5])
    >>> found.forgetting[:, 0].round(4)
    array([0.3176, 0.2766, 0.2359, 0.1954])
    """
    tasks = _require_tasks(problem, "interference")
    if tasks.given_gram is not None:
        raise InputError("the tasks have a gram; interference varies the similarity. Use Tasks(similarity=0.5) instead.")
    V = _increasing("similarity", np.linspace(0.0, 0.98, 50) if similarity is None else similarity)
    times = checks.as_times(times)
    error = np.asarray(solve_batch(problem, {"similarity": V}, start, times, **options).error)
    left, final = _begins_and_left(tasks, float(times[-1]))[1], error[:, -1]
    return Interference(V, final - _errors_at(times, error, left), final, left, times, error, problem)


@dataclass(frozen=True, repr=False)
class BestReplay(AnalysisResult, figure="plot_best_replay"):
    """The fraction of replayed samples with the smallest error at the end.

    fraction, value: the best fraction, and the mean of the final errors there. fractions: (F,), all fractions that were solved,
    increasing. final, forgetting: (F, task), the errors at the end, and those minus the errors when each task was left.
    values: (F,), the mean of the final errors.
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
        """The value at the smallest fraction over the best value: by what factor replay is better."""
        return float(self.values[0] / self.value) if self.value > 0 else 1.0

    def __str__(self) -> str:
        better = f"{self.gain:.4g} times below that at {self.fractions[0]:.4g}"
        return f"best replay fraction {self.fraction:.4g}: mean final error {self.value:.4g}, {better}"


def best_replay(
    problem: Problem, start: Start | None = None, times: Any = 100.0, fractions: Numbers | None = None, **options: Any
) -> BestReplay:
    """The replay fraction that makes the mean of the final errors smallest.

    Parameters
    ----------
    problem, start, times, options
        As for `solve_batch`, with the schedule `Replay(fraction, after)`. Its fraction is replaced.
    fractions
        The first grid, increasing, between 0 and 1. Default: 21 from 0 to 1. Two more rounds look closer at the best one.

    Returns
    -------
    A `BestReplay`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf")] * 2, tu.Replay(0.0, after=60.0), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> bool(tu.analysis.best_replay(problem, times=tu.linear_times(120, 13)).gain > 10)
    True
    """
    tasks = _require_tasks(problem, "best_replay")
    if not isinstance(tasks.schedule, Replay):
        kind = type(tasks.schedule).__name__
        raise InputError(f"the schedule is a {kind}; best_replay varies the fraction of Replay(0.1, after=60.0).")
    grid = _increasing("fractions", np.linspace(0, 1, FRACTIONS) if fractions is None else fractions)
    times = checks.as_times(times)
    left = _begins_and_left(problem.replace(**{"schedule.fraction": 0.5}).teacher, float(times[-1]))[1]
    tried, error, best = np.empty(0), np.empty((0, times.size, tasks.count)), 0
    for _ in range(ROUNDS):
        solved = solve_batch(problem, {"schedule.fraction": grid}, start, times, **options).error
        tried, first = np.unique(np.append(tried, grid), return_index=True)
        error = np.concatenate([error, solved])[first]
        best = int(np.argmin(error[:, -1].mean(axis=1)))
        grid = np.linspace(tried[max(best - 1, 0)], tried[min(best + 1, tried.size - 1)], grid.size)
    final, values = error[:, -1], error[:, -1].mean(axis=1)
    lost = final - _errors_at(times, error, left)
    return BestReplay(float(tried[best]), float(values[best]), tried, final, lost, values, problem)


@dataclass(frozen=True, repr=False)
class NodeReuse(AnalysisResult, figure="plot_node_reuse"):
    """Which student units serve which task.

    importance: (task, K), the rise of the task's error if the unit is cut off from its head. shares: (task, K), the same as shares
    of each task's sum; negative importance counts as zero. times: (task,), when it was measured: the recorded time next to when
    the task was left. reuse: (task, task), sum_k min(share_sk, share_tk): 1 if two tasks use the same units, 0 for different ones.
    """

    importance: np.ndarray
    shares: np.ndarray
    times: np.ndarray
    reuse: np.ndarray

    def __str__(self) -> str:
        lines = []
        for s, (row, t) in enumerate(zip(self.shares, self.times, strict=True)):
            units = ", ".join(f"unit {k + 1} ({100 * row[k]:.0f}%)" for k in np.argsort(-row) if row[k] >= SERVES)
            lines.append(f"task {s + 1} at {t:.4g}: {units or 'no unit'}")
        pairs = zip(*np.triu_indices(len(self.shares), 1), strict=True)
        return "\n".join([*lines, *(f"re-use of tasks {s + 1} and {t + 1}: {self.reuse[s, t]:.3f}" for s, t in pairs)])


def node_reuse(trajectory: Trajectory, run: int | None = None) -> NodeReuse:
    """Which units serve which task, by cutting each unit off from a task's head and computing that task's error again.

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
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> theory = tu.solve(problem, times=tu.linear_times(120, 13))
    >>> tu.analysis.node_reuse(theory).shares.shape
    (2, 2)
    """
    tasks, recorded, _ = _read_tasks(trajectory, "node_reuse")
    assert trajectory.problem is not None
    measured, importance = [], []
    for task, left in enumerate(_begins_and_left(tasks, float(recorded[-1]))[1]):
        curve = curve_of(trajectory.task(task), run, "node_reuse")
        problem, nearest = trajectory.problem.task(task), int(np.argmin(np.abs(curve.times - left)))
        now = {name: values[nearest] for name, values in curve.variables.items()}
        head, bias, units = now.get("readout", problem.student.readout), now.get("bias"), np.ones(problem.student.hidden)
        heads = np.asarray(head) * [units, *(1 - np.diag(units))]  # the whole, and without each unit
        whole, *without = (float(generalization_error(problem, now["R"], now["Q"], curve.T, v, bias)) for v in heads)
        measured.append(curve.times[nearest])
        importance.append(np.array(without) - whole)
    positive = np.maximum(importance, 0.0)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    reuse = np.minimum(shares[:, None], shares[None]).sum(axis=-1)
    return NodeReuse(np.array(importance), shares, np.array(measured), reuse)
