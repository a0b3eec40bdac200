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
from tutelage.analysis.result import AnalysisResult, curve_of
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
    V = _increasing("similarity", np.linspace(0.0, 0.98, SIMILARITIES) if similarity is None else similarity)
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
    array = checks.as_array(name, values)
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

    def __str__(self) -> str:
        lines = []
        for s, (row, t) in enumerate(zip(self.shares, self.times, strict=True)):
            units = ", ".join(f"unit {k + 1} ({100 * row[k]:.0f}%)" for k in np.argsort(-row) if row[k] >= SERVES)
            lines.append(f"task {s + 1} at {t:.4g}: {units or 'no unit'}")
        pairs = [(s, t) for s in range(len(self.shares)) for t in range(s + 1, len(self.shares))]
        lines += [f"re-use of tasks {s + 1} and {t + 1}: {self.reuse[s, t]:.3f}" for s, t in pairs]
        return "\n".join(lines)


def node_reuse(trajectory: Trajectory, run: int | None = None) -> NodeReuse:
    """Which units serve which task, by cutting each unit off from a task's head and computing that task's error again.

    This is measured at the recorded time next to when the task was left.

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
    >>> tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(60.0), similarity=0.0)
    >>> problem = tu.Problem(tu.Network(2, "erf", train_readout=True), tasks, sgd=tu.SGD(lr=1.0))
    >>> start = tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]], readout=[[0.3, 0.1], [0.2, -0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(120, 13))
    >>> tu.analysis.node_reuse(theory).shares.shape
    (2, 2)
    """
    tasks, recorded, _ = read_tasks(trajectory, "node_reuse")
    found = [_importance(trajectory, s, t, run) for s, t in enumerate(task_left(tasks, float(recorded[-1])))]
    measured, importance = (np.array(part) for part in zip(*found, strict=True))
    positive = np.maximum(importance, 0.0)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    reuse = np.minimum(shares[:, None], shares[None]).sum(axis=-1)
    return NodeReuse(importance=importance, shares=shares, times=measured, reuse=reuse)


def _importance(trajectory: Trajectory, task: int, time: float, run: int | None) -> tuple[float, Float[np.ndarray, " K"]]:
    """The recorded time next to a time, and there the rise of a task's error without each of the units."""
    assert trajectory.problem is not None
    problem, curve = trajectory.problem.task(task), curve_of(trajectory.task(task), run, "node_reuse")
    nearest = int(np.argmin(np.abs(curve.times - time)))
    now = {"T": curve.T, "readout": problem.student.readout, "bias": None}
    now |= {name: values[nearest] for name, values in curve.variables.items()}

    def error(active: np.ndarray) -> float:
        readout = np.asarray(now["readout"]) * active
        return float(generalization_error(problem, now["R"], now["Q"], now["T"], readout, now["bias"]))

    units = np.ones(problem.student.hidden)
    without = np.array([error(row) for row in np.diag(-units) + 1])
    return float(curve.times[nearest]), without - error(units)
