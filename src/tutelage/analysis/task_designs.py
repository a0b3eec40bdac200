"""Designs of tasks: interference against similarity, the best replay fraction, and the units that serve each task."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._solve_batch import solve_batch
from tutelage._types import Numbers
from tutelage.analysis.continual import (
    as_task,
    errors_at,
    known_start,
    read_tasks,
    require_tasks,
    task_begins,
    task_left,
    time_below,
)
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics.error import generalization_error
from tutelage.errors import InputError
from tutelage.problem import Problem, Replay, Start, Tasks
from tutelage.times import check_times
from tutelage.trajectory import Trajectory

SERVES = 0.1  # a unit with at least this share of a task serves it
SIMILARITIES = 50  # of the default grid of `interference`
FRACTIONS = 21  # of the grid of `best_replay`, in every round
ROUNDS = 3  # of `best_replay`: each looks closer at the best fraction so far


# Interference


@dataclass(frozen=True)
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
        (task,), when each task was left.
    times, error
        (time,) and (V, time, task): all curves.
    """

    similarity: np.ndarray = field(repr=False)
    forgetting: np.ndarray = field(repr=False)
    final: np.ndarray = field(repr=False)
    left: np.ndarray
    times: np.ndarray = field(repr=False)
    error: np.ndarray = field(repr=False)
    problem: Problem = field(repr=False)

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
        assert isinstance(tasks, Tasks)
        begins = task_begins(tasks, as_task(task, tasks), float(self.times[-1]))
        if not begins.size:
            raise InputError(f"task {task} (counted from 0) does not begin before {self.times[-1]:g}.")
        found = [time_below(self.times, curve[:, task], level, float(begins[0])) for curve in self.error]
        return np.array([np.nan if t is None else t for t in found])

    def __str__(self) -> str:
        lines = [f"{self.similarity.size} similarities from {self.similarity[0]:.4g} to {self.similarity[-1]:.4g}"]
        for s in np.flatnonzero(self.left < self.times[-1]):
            V, amount = self.worst(int(s))
            ends = self.forgetting[[0, -1], s]
            lines.append(
                f"task {s + 1}: forgetting is largest, {amount:.4g}, at similarity {V:.3g}; "
                f"{ends[0]:.4g} and {ends[1]:.4g} at the ends"
            )
        return "\n".join(lines)


def interference(
    problem: Problem, start: Start | None = None, times: Any = 100.0, similarity: Numbers | None = None, **options: Any
) -> Interference:
    """Forgetting of each task against the similarity of the teachers: the whole curve, by one `solve_batch`.

    Parameters
    ----------
    problem, start, times
        As for `solve`. `similarity` of the problem's `Tasks` is replaced; its teachers must not have a `gram`.
    similarity
        Increasing overlaps between unit m of one teacher and unit m of every other one. Default: 50 from 0 to 0.98.
        The initial overlaps must belong to vectors at each of them.
    options
        Of `solve_batch` (rtol, solver, ...).

    Returns
    -------
    An `Interference`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(60.0), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> start = tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]], readout=[[0.3, 0.1], [0.2, -0.1]])
    >>> found = tu.analysis.interference(problem, start, tu.linear_times(120, 13), similarity=[0.2, 0.3, 0.4, 0.5])
    >>> found.forgetting[:, 0].round(4)
    array([0.1535, 0.1645, 0.163 , 0.1549])
    """
    tasks = require_tasks(problem, "interference")
    if tasks.given_gram is not None:
        raise InputError("the tasks have a gram; interference varies the similarity. Use Tasks(similarity=0.5) instead.")
    V = np.linspace(0.0, 0.98, SIMILARITIES) if similarity is None else checks.as_array("similarity", similarity)
    V = _increasing("similarity", V)
    times = check_times(times)
    curves = solve_batch(problem, {"similarity": V}, start, times, **options)
    error = np.asarray(curves.error)
    left = task_left(tasks, float(times[-1]))
    return Interference(
        similarity=V,
        forgetting=error[:, -1] - errors_at(times, error, left),
        final=error[:, -1],
        left=left,
        times=times,
        error=error,
        problem=problem,
    )


def _increasing(name: str, values: Any) -> np.ndarray:
    """At least two finite numbers in increasing order."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size < 2 or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
        raise InputError(f"{name} is {checks.shown(array)}; it must be a list of at least two increasing numbers.")
    return array


# Replay


@dataclass(frozen=True)
class BestReplay(AnalysisResult, figure="plot_best_replay"):
    """The fraction of replayed samples with the smallest error at the end.

    Attributes
    ----------
    fraction, value
        The best fraction, and the weighted mean of the final errors there.
    fractions
        (F,), all fractions that were solved, increasing.
    final, forgetting
        (F, task), the errors at the end, and those minus the errors when each task was left.
    values
        (F,), the weighted mean of the final errors.
    weights
        (task,), of the tasks in that mean, with sum 1.
    """

    fraction: float
    value: float
    fractions: np.ndarray = field(repr=False)
    final: np.ndarray = field(repr=False)
    forgetting: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    weights: np.ndarray
    problem: Problem = field(repr=False)

    @property
    def gain(self) -> float:
        """The value at the smallest fraction over the best value: by what factor replay is better."""
        return float(self.values[0] / self.value) if self.value > 0 else 1.0

    def __str__(self) -> str:
        return (
            f"best replay fraction {self.fraction:.4g}: mean final error {self.value:.4g}, {self.gain:.4g} times below that "
            f"at {self.fractions[0]:.4g}"
        )


def best_replay(
    problem: Problem,
    start: Start | None = None,
    times: Any = 100.0,
    fractions: Numbers | None = None,
    weights: Numbers | None = None,
    **options: Any,
) -> BestReplay:
    """The replay fraction that makes the mean of the final errors smallest.

    The fractions are solved together (`solve_batch`); two more rounds look closer at the best one.

    Parameters
    ----------
    problem, start, times
        As for `solve`, with the schedule `Replay(fraction, after)`. Its fraction is replaced.
    fractions
        The first grid, increasing, between 0 and 1. Default: 21 from 0 to 1.
    weights
        Of the tasks in the mean, one each. Default: equal.
    options
        Of `solve_batch` (rtol, solver, ...).

    Returns
    -------
    A `BestReplay`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Replay(0.0, after=60.0), similarity=0.5)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> start = tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]], readout=[[0.3, 0.1], [0.2, -0.1]])
    >>> found = tu.analysis.best_replay(problem, start, tu.linear_times(120, 13))
    >>> bool(0.2 < found.fraction < 0.8), bool(found.gain > 10)
    (True, True)
    """
    tasks = require_tasks(problem, "best_replay")
    if not isinstance(tasks.schedule, Replay):
        raise InputError(
            f"the schedule is a {type(tasks.schedule).__name__}; best_replay varies the fraction of Replay(0.1, after=60.0)."
        )
    grid = _increasing("fractions", np.linspace(0, 1, FRACTIONS) if fractions is None else fractions)
    share = _task_weights(weights, tasks.count)
    times, start = check_times(times), known_start(problem, start)
    left = task_left(problem.replace(**{"schedule.fraction": 0.5}).teacher, float(times[-1]))
    known: dict[float, np.ndarray] = {}
    tried = grid
    for _ in range(ROUNDS):
        error = np.asarray(solve_batch(problem, {"schedule.fraction": grid}, start, times, **options).error)
        for fraction, row in zip(grid, np.stack([error[:, -1], errors_at(times, error, left)], axis=1), strict=True):
            known[float(fraction)] = row
        tried = np.array(sorted(known))
        i = int(np.argmin([known[f][0] @ share for f in tried]))
        grid = np.linspace(tried[max(i - 1, 0)], tried[min(i + 1, tried.size - 1)], grid.size)
    final, learned = np.stack([known[f] for f in tried], axis=1)
    values = final @ share
    best = int(np.argmin(values))
    return BestReplay(
        fraction=float(tried[best]),
        value=float(values[best]),
        fractions=tried,
        final=final,
        forgetting=final - learned,
        values=values,
        weights=share,
        problem=problem,
    )


def _task_weights(weights: Numbers | None, count: int) -> np.ndarray:
    if weights is None:
        return np.full(count, 1 / count)
    array = np.asarray(checks.as_array("weights", weights), dtype=float)
    checks.require_shape("weights", array, (count,), fix="One for each task.")
    checks.require_nonnegative("weights", array)
    if array.sum() <= 0:
        raise InputError("weights are all zero; give at least one task a positive weight.")
    return array / array.sum()


# Which units serve which task


@dataclass(frozen=True)
class NodeReuse(AnalysisResult, figure="plot_node_reuse"):
    """Which student units serve which task.

    Attributes
    ----------
    importance
        (task, K), the rise of the task's error if the unit is cut off from its head.
    shares
        (task, K), the same as shares of each task's sum; negative importance counts as zero.
    times
        (task,), when it was measured: when the task was left, or at the end.
    reuse
        (task, task), sum_k min(share_sk, share_tk): 1 if two tasks use the same units, 0 if they use different ones.
    """

    importance: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)
    times: np.ndarray
    reuse: np.ndarray

    @property
    def serves(self) -> np.ndarray:
        """(task, K), does the unit have at least a tenth of the task?"""
        return self.shares >= SERVES

    @property
    def shared_units(self) -> list[int]:
        """Units that serve more than one task, counted from 0."""
        return np.flatnonzero(self.serves.sum(axis=0) > 1).tolist()

    @property
    def idle_units(self) -> list[int]:
        """Units that serve no task, counted from 0."""
        return np.flatnonzero(self.serves.sum(axis=0) == 0).tolist()

    def __str__(self) -> str:
        lines = []
        for s, (row, t) in enumerate(zip(self.shares, self.times, strict=True)):
            units = ", ".join(f"unit {k + 1} ({100 * row[k]:.0f}%)" for k in np.argsort(-row) if row[k] >= SERVES)
            lines.append(f"task {s + 1} at {t:.4g}: {units or 'no unit'}")
        pairs = [(s, t) for s in range(len(self.shares)) for t in range(s + 1, len(self.shares))]
        lines += [f"re-use of tasks {s + 1} and {t + 1}: {self.reuse[s, t]:.3f}" for s, t in pairs]
        return "\n".join(lines)


def node_reuse(trajectory: Trajectory, times: Numbers | None = None, run: int | None = None) -> NodeReuse:
    """Which units serve which task, by cutting each unit off from a task's head and computing that task's error again.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned for a problem with `Tasks`.
    times
        When to measure, one time or one for each task; the nearest recorded times are used. Default: when the task was left,
        or the end.
    run
        The run of a simulation, counted from 0.

    Returns
    -------
    A `NodeReuse`.

    Examples
    --------
    >>> import tutelage as tu
    >>> tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(60.0), similarity=0.0)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> start = tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]], readout=[[0.3, 0.1], [0.2, -0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(120, 13))
    >>> tu.analysis.node_reuse(theory).shares.shape
    (2, 2)
    """
    tasks, recorded, _ = read_tasks(trajectory, "node_reuse")
    problem, lead = trajectory.problem, np.ndim(trajectory.error) - 2
    assert problem is not None
    if lead and run is None:
        raise InputError(f"the trajectory has {len(trajectory.error)} runs; node_reuse looks at one. Choose run=0.")
    if run is not None and (not lead or checks.as_count("run", run, least=0) >= len(trajectory.error)):
        raise InputError(
            f"run is {checks.shown(run)}; " + (f"there are {len(trajectory.error)} runs." if lead else "leave it out.")
        )
    when = task_left(tasks, float(recorded[-1])) if times is None else checks.as_array("times", times)
    checks.require_shape("times", when, (), (tasks.count,), fix="One time, or one for each task.")
    places = [int(np.argmin(np.abs(recorded - t))) for t in np.broadcast_to(when, (tasks.count,))]
    one = {
        name: np.asarray(x, dtype=float)[run] if lead else np.asarray(x, dtype=float)
        for name, x in trajectory.variables.items()
    }
    importance = np.array([_cut(problem, tasks, one, trajectory.T, run, i, s) for s, i in enumerate(places)])
    positive = np.maximum(importance, 0.0)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    reuse = np.minimum(shares[:, None], shares[None]).sum(axis=-1)
    return NodeReuse(importance=importance, shares=shares, times=recorded[places], reuse=reuse)


def _cut(
    problem: Problem, tasks: Tasks, one: dict[str, np.ndarray], T: Any, run: int | None, i: int, task: int
) -> Float[np.ndarray, " K"]:
    """The rise of a task's error at recorded time i without each of the units."""
    units = tasks.units(task)
    if "T" in one:  # teachers that drift in a finite network
        T = one["T"][i]
    elif T is None:
        T = np.eye(tasks.hidden) if tasks.gram is None else tasks.gram
    elif np.ndim(T) == 3:
        T = np.asarray(T)[run]
    head = tasks.head(one["readout"][i] if "readout" in one else np.asarray(problem.student.readout), task)
    bias = one["bias"][i] if "bias" in one else None
    R, Q, own = one["R"][i][:, units], one["Q"][i], np.asarray(T)[..., units, units]

    def error(readout: np.ndarray) -> float:
        return float(generalization_error(problem.task(task), R, Q, own, readout, bias))

    kept = np.ones((head.shape[-1], head.shape[-1])) - np.eye(head.shape[-1])
    return np.array([error(head * row) for row in kept]) - error(head)
