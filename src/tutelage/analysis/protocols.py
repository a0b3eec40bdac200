"""`optimize` and `greedy`: how should one teach a network? The best learning rates, tasks, noise and other numbers in time.

A protocol is a point. It holds one number for each segment of each control (or for each knot of a smooth one), from 0 at
the lower bound to 1 at the upper one. More than two tasks have one number each, whose softmax are the probabilities. A point
with one number for each row is a constant protocol. docs/how-to/protocols.md says how the best point is searched for.

The derivative is taken in forward mode, one tangent for each number: for 24 segments of two controls that is as fast as
reverse mode and compiles in a quarter of the time. Values, times and initial condition are data to the compiled program, so
that searches of equal shape share it. Values without a derivative come from the program of `solve`, which costs a small
part of that: they choose the protocols from which descents begin. To add a control, let the core take a schedule in its
place (`Problem.schedules`) and add a row to `KNOBS`.

The maximum over tasks bends where two tasks are equal. A descent first follows a smooth maximum and then minimizes s
subject to e_task <= s, for all tasks. An integral over time is a variable of the differential equations. The time to a
level is read off a solve, and its derivative from two times next to it.

The drift of the overlaps is a quadratic in the rate, and so is the change of the error along it. So the greedy rate is known:
    d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u),    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own. A readout or bias that shares lr adds its |gradient|^2 to a and nothing to b. Only
the next moment counts: on a plateau a -> 0, the rate follows and the escape is delayed. `optimize` and D. Saad and M. Rattray,
Phys. Rev. Lett. 79, 2578 (1997), optimize over the whole time instead.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import (
    NonlinearConstraint,
    OptimizeResult,
    approx_fprime,
    linprog,
    minimize,
)
from scipy.special import logsumexp, softmax
from scipy.stats import qmc

from tutelage import checks
from tutelage._solve import assemble, keeps_blocks, prepare, sampled_rtol, solve
from tutelage._types import Array, ArrayLike, NumpyOrJax, Table
from tutelage.analysis.noise import states_of
from tutelage.analysis.result import AnalysisResult, first_time_at
from tutelage.dynamics import OrderParameters, Overlaps, initial_overlaps
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, TutelageWarning, explained
from tutelage.integrate.program import Options, integrate, run, tolerances
from tutelage.labels import Real
from tutelage.moments import Moments, moments_for
from tutelage.moments.averages import array_module
from tutelage.problem import Interleave, Interpolated, Linear, Piecewise, Problem, Replay, Start, Tasks
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import CLOSED, MIXTURES, TASKS
from tutelage.progress import progress_bar
from tutelage.simulation import simulate
from tutelage.trajectory import Trajectory

Objective: TypeAlias = str | Callable[[Trajectory], ArrayLike]
Limits: TypeAlias = tuple[float, float]

FEASIBLE = 1e-6  # of the range: by which the mean of a control may exceed its budget
LOGIT = 8.0  # largest logit of a task's probability
SHARPNESS = 20.0  # of the smooth maximum over tasks, which the first part of a descent follows
ACTIVE = 1e-4  # tasks whose error is this close to the largest, relatively, decide
PER_SEGMENT = 8  # intervals of the recorded times in each segment
LOOKS = 33  # recorded times in an interval in which the level is reached
ZOOMS = 2  # how often such an interval is divided by so many times
BESIDE = 1e-4  # of the time to a level: how far from it the curve is read for its derivative
SCANNED = 16  # constant protocols that are tried for each control
CORNERS = 16  # protocols between extreme values that are tried
PHASES = 8  # of the greedy protocol from which a descent may begin, at most
LEVELS = 5  # values of each control that are tried in each of these phases
SHORT = 10  # iterations of the first descents, after which the best ones go on
MORE = 3  # of these first descents than of those that go on
FAILED = 50.0  # the value, in logarithms, of a protocol that diverges
REACHES = (1.0, 0.2, 0.05, 1.0)  # of the range: how far from the best point a descent goes, one after the other
CONVERGED = 1e-3  # a slope that is small enough
AT_BOUND = 1e-6  # of the range: a control this close to a bound lies on it
APART = 0.15  # of the range: protocols this far apart are different starts
SMALLEST = 1e-12  # errors below this are not solved to a digit
GREEDY_TIMES = 128  # at which the greedy rate is kept, dense at both ends
NUDGE = 0.05  # of the range of a control: the change whose cost `sensitivity` tells


class Knob(NamedTuple):
    """A control. path: where its schedule stands. has: does a problem have it? fix: what to do if not."""

    path: str
    has: Callable[[Problem], bool]
    fix: str
    highest: float = np.inf


KNOBS: dict[str, Knob] = {
    "lr": Knob(
        "sgd.lr", lambda p: getattr(p.sgd.momentum, "k", None) is None, "k of SlowMomentum moves the first layer; omit k"
    ),
    "readout_lr": Knob("sgd.readout_lr", lambda p: p.student.train_readout, "the readout is fixed; use train_readout=True"),
    "bias_lr": Knob("sgd.bias_lr", lambda p: p.student.train_bias, "the biases are fixed; use train_bias=True"),
    "weight_decay": Knob("sgd.weight_decay", lambda p: not p.sgd.spherical, "the length is fixed; use spherical=False"),
    "noise": Knob("noise", lambda p: type(p.labels) is Real, "only labels='real' have noise; control 'flip' instead"),
    "flip": Knob("labels.flip", lambda p: hasattr(p.labels, "flip"), "use labels='sign', or control 'noise'", 1.0),
    "keep": Knob("rule.keep", lambda p: hasattr(p.rule, "keep"), "no unit is dropped; use rule=rules.Dropout(0.8)", 1.0),
    "feedback": Knob("rule.strength", lambda p: hasattr(p.rule, "strength"), "use rule=tu.rules.FeedbackAlignment(...)"),
    "tasks": Knob(
        "teacher.schedule.shares", lambda p: isinstance(p.teacher, Tasks), "use several teachers, tu.Tasks([...])", 1.0
    ),
    "replay": Knob(
        "teacher.schedule.fraction",
        lambda p: isinstance(getattr(p.teacher, "schedule", None), Replay),
        "its tasks are not replayed; use Tasks(..., schedule=tu.Replay(0.2, after=60.0))",
        1.0,
    ),
}


def changed(problem: Problem, controls: Mapping[str, Any]) -> Problem:
    """The problem under numbers or schedules of its controls; of tasks also what `Tasks(schedule=...)` takes."""
    changes = {KNOBS[name].path: value for name, value in controls.items()}
    if "tasks" in controls:
        shares = changes.pop(KNOBS["tasks"].path)
        changes["teacher.schedule"] = shares if callable(shares) or hasattr(shares, "probabilities") else Interleave(shares)
    return problem.replace(**changes) if changes else problem


def schedule_of(name: str, shape: str, edges: np.ndarray, rows: np.ndarray) -> Any:
    """The schedule of a control with these values, (rows, segments); of tasks an `Interleave`."""
    each = tuple(Linear(edges, row) if shape == "smooth" else Piecewise(edges[1:-1], row) for row in rows)
    shares: Any = each if len(each) > 1 else next(iter(each))
    return Interleave(shares) if name == "tasks" else shares


class AccumulatedError(OrderParameters):
    """The dynamics of a problem next to the integral of its error over time.

    A state is a pair: the overlaps, and the integral of the mean error over tasks. The
    tolerance of the integral guides the steps, not the error itself.
    """

    def drift_and_error_rate(self, t: ArrayLike, state: Any) -> tuple[Any, Array]:
        """The drift of both; no rate of the error."""
        overlaps = state[0]
        error = self.error_and_loss(OrderParameters.observe(self, overlaps), t)[0]
        drift = OrderParameters.drift(self, t, overlaps)
        return (drift, jnp.mean(error)), jnp.zeros_like(error)

    def observe(self, state: Any) -> dict[str, Array]:
        """What is recorded of the overlaps, and the integral."""
        overlaps, integral = state
        return OrderParameters.observe(self, overlaps) | {"integral": integral}


PROGRAM = Options(gradient_flow=False, solver="explicit", keep=False)


def integrated_error(problem: Problem, start: Start, times: Any, moments: Moments, steps: Any) -> Any:
    """The integral of the mean error over tasks, up to each of the times; NaN after a divergence."""
    overlaps, t = initial_overlaps(problem, start)
    system = AccumulatedError(problem, t, gradient_flow=False, keep_blocks=False, moments=moments)
    initial = (overlaps, np.zeros(()))
    return integrate(system, moments, initial, times, steps, PROGRAM).variables["integral"]


def over_tasks(error: Any) -> Any:
    """The mean error over tasks, at each time."""
    return error.mean(axis=1) if error.ndim > 1 else error


def time_to_level(level: float, times: np.ndarray, error_at: Callable[[np.ndarray], np.ndarray]) -> float:
    """When an error first falls to a level; infinite if it does not up to the last time.

    error_at(times) solves. The interval in which the level is reached is solved again at
    more times, so that nothing is interpolated over more than a thousandth of it.
    """
    error = error_at(times)
    for _ in range(ZOOMS):
        below = np.flatnonzero(error <= level)
        if not below.size:
            return np.inf
        first = below[0]
        if first == 0:
            return float(times[0])
        times = np.linspace(times[first - 1], times[first], LOOKS)
        error = error_at(times)
    return float(first_time_at(level, times, error))


class Search(eqx.Module):
    """What a search minimizes. problem: with a schedule in place of each control, whose values a point replaces.

    level: to reach, for the objective "time". times: at which its program records. grid: recorded times of a solve.
    reached: is the level reached between the two times of the objective "time"? bounds: (control, 2), of values.
    budgets: (control, 2), of means over time, 0 at the lower bound and 1 at the upper one. shares: of the time that each
    segment or knot rules. rows: schedules of each control, several for more than two tasks.
    """

    problem: Problem
    start: Start
    moments: Moments
    steps: Any  # arrays here and below
    level: Any
    times: Any
    reached: Any
    bounds: Any
    budgets: Any
    shares: Any
    grid: np.ndarray
    edges: np.ndarray
    objective: Objective = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        limits: dict[str, Limits],
        *,
        start: Start,
        edges: np.ndarray,
        shape: str,
        objective: Objective,
        level: float,
        budgets: dict[str, Limits],
    ):
        """Of protocols of a problem within limits of its controls, of this shape between the edges."""
        lengths = np.diff(edges)
        self.edges = edges
        self.grid = recorded_times(edges)
        self.shares = (lengths if shape == "piecewise" else np.convolve(lengths, [0.5, 0.5])) / edges[-1]
        self.names, self.objective, self.level = tuple(limits), objective, np.array(level)
        many = problem.teacher.count if "tasks" in limits and problem.teacher.count > 2 else 1
        self.rows = tuple(many if name == "tasks" else 1 for name in limits)
        self.bounds = np.array(list(limits.values()))
        middle = self.values(np.full(self.size, 0.5))
        controlled = changed(problem, {name: schedule_of(name, shape, edges, rows) for name, rows in middle.items()})
        prepare(controlled, start, self.grid)
        self.problem, self.start, self.moments = as_arrays(controlled), as_arrays(start), moments_for(controlled)
        self.steps = tolerances(sampled_rtol(self.moments))
        self.times = self.grid if callable(objective) else self.grid[-1:]
        if objective == "time":
            self.times = np.array([1 - BESIDE, 1.0]) * edges[-1]
        self.reached = np.array(False)
        integrals = np.array([budgets.get(name, (-np.inf, np.inf)) for name in limits])
        self.budgets = (integrals / edges[-1] - self.bounds[:, :1]) / np.diff(self.bounds)

    @property
    def size(self) -> int:
        """Numbers in a point."""
        return sum(self.rows) * self.shares.shape[0]

    def by_control(self, numbers: Any) -> dict[str, Any]:
        """The numbers of a point by control, (rows, segments)."""
        last = np.cumsum(self.rows)
        table = numbers.reshape(last[-1], -1)
        return {name: table[b - rows : b] for name, rows, b in zip(self.names, self.rows, last, strict=True)}

    def values(self, point: NumpyOrJax) -> dict[str, Any]:
        """The values of each control, (rows, segments)."""
        found, exp = {}, array_module(point).exp
        for (name, own), (low, high) in zip(self.by_control(point).items(), self.bounds, strict=True):
            weights = exp(2 * LOGIT * own)
            found[name] = low + own * (high - low) if len(own) == 1 else weights / weights.sum(axis=0)
        return found

    def spent(self, point: np.ndarray) -> np.ndarray:
        """The mean of each control over time (of the first task's probability), as `budgets` limit it."""
        means = [np.sum(self.shares * rows[0]) for rows in self.values(point).values()]
        return (np.array(means) - self.bounds[:, 0]) / np.ptp(self.bounds, axis=1)

    def keeps_budgets(self, point: np.ndarray) -> bool:
        """Is a point within the budgets?"""
        spent = self.spent(point)
        least, most = self.budgets.T
        return bool(np.all((spent > least - FEASIBLE) & (spent < most + FEASIBLE)))

    def whole(self, point: np.ndarray) -> np.ndarray:
        """The point of all segments that one with fewer numbers for each row stands for."""
        rows = sum(self.rows)
        phases = point.size // rows
        places = np.arange(self.size // rows) * phases // (self.size // rows)
        return point.reshape(rows, phases)[:, places].ravel()

    def problem_at(self, point: NumpyOrJax) -> Problem:
        """The problem under the protocol of a point."""

        def controlled(problem: Problem) -> list[Any]:
            """The numbers of all schedules that are controlled; more than two tasks have one each."""
            found: list[Any] = [attrgetter(KNOBS[name].path)(problem) for name in self.names]
            return [schedule.values for each in found for schedule in (each if isinstance(each, tuple) else (each,))]

        rows = [row for values in self.values(point).values() for row in values]
        return eqx.tree_at(controlled, self.problem, rows)

    def measure(self, point: Array) -> Array:
        """The objective under the protocol of a point; of "worst" the error of each task."""
        problem = self.problem_at(point)
        if self.objective == "integrated":
            integral = integrated_error(problem, self.start, self.times, self.moments, self.steps)
            return integral[-1:]
        raw = integrate(problem, self.moments, initial_overlaps(problem, self.start), self.times, self.steps, PROGRAM)
        if callable(self.objective):
            return self.of_function(assemble(raw, self.times, problem, self.start, ()))[None]
        if self.objective == "worst":
            return jnp.ravel(raw.error[-1])
        mean = over_tasks(raw.error)
        if self.objective == "final":
            return mean[-1:]
        above = jnp.log(jnp.maximum(mean, jnp.finfo(float).tiny) / self.level)
        fall = jnp.where(self.reached, above[0] - above[1], 1.0)
        found = self.times[0] + (self.times[1] - self.times[0]) * above[0] / fall
        late = self.times[1] * (1 + above[1])  # no level is reached: the lower the error is, the earlier
        return jnp.atleast_1d(jnp.where(self.reached, found, late))

    def of_function(self, trajectory: Trajectory) -> Array:
        """What a custom objective returns."""
        assert callable(self.objective)
        return jnp.asarray(self.objective(trajectory))

    def value_at(self, point: np.ndarray, end: float | None = None) -> float:
        """What is minimized, without a derivative: FAILED if the protocol diverges. end: of the time, if not the last one."""
        end = float(self.edges[-1] if end is None else end)
        problem = self.problem_at(self.whole(point))
        if self.objective == "integrated":
            integral = integrated_error(problem, self.start, np.array([end]), self.moments, self.steps)
            return self.as_value(float(integral[-1]))
        if self.objective == "time":
            time = self.time_to_level(problem, end)
            if np.isfinite(time):
                return self.as_value(time)
            last = over_tasks(self.solved(problem, np.array([end])).error)[-1]
            return self.as_value(end * (1 + np.log(last / self.level)))
        times = self.grid[self.grid < end] if callable(self.objective) else np.zeros(0)
        trajectory = self.solved(problem, np.append(times, end))
        if trajectory.times.size <= times.size:
            return FAILED
        return self.as_value(self.value(trajectory))

    def as_value(self, measured: float) -> float:
        """What descents follow: the logarithm of an objective; a custom one itself."""
        if not np.isfinite(measured):
            return FAILED
        return float(measured) if callable(self.objective) else float(np.log(max(measured, np.finfo(float).tiny)))

    def solved(self, problem: Problem, times: np.ndarray) -> Trajectory:
        """A solve of a problem as it is integrated for the search."""
        options = PROGRAM._replace(keep=keeps_blocks(problem, None))
        raw = run(problem, self.moments, initial_overlaps(problem, self.start), times, self.steps, options)
        return assemble(raw, times, problem, self.start, ())

    def time_to_level(self, problem: Problem, end: float) -> float:
        """When the error first falls to the level, up to an end; infinite if it does not."""
        return time_to_level(
            float(self.level),
            np.append(self.grid[self.grid < end], end),
            lambda times: over_tasks(self.solved(problem, times).error),
        )

    def at_its_time(self, point: np.ndarray) -> "Search":
        """The search whose two recorded times enclose the time at which the level is reached, if it is."""
        end = self.edges[-1]
        time = self.time_to_level(self.problem_at(point), end)
        reached = np.isfinite(time)
        middle = time if reached else end
        beside = BESIDE * middle * np.array([-1.0, 1.0 if reached else 0.0])
        changes = middle + beside, np.array(reached)
        return eqx.tree_at(lambda search: (search.times, search.reached), self, changes)

    def value(self, trajectory: Trajectory) -> float:
        """The objective of a trajectory: "final", "worst" or a custom one."""
        if callable(self.objective):
            return float(self.of_function(trajectory))
        last = trajectory.error[-1]
        return float(np.max(last) if self.objective == "worst" else np.mean(last))


@eqx.filter_jit
def value_and_slope(search: Search, point: Array) -> tuple[Array, Array]:
    """ln(objective), or a custom objective itself, and its derivative: (parts,) and (parts, size).

    Only "worst" has several parts, one for each task.
    """

    def value(at: Array) -> tuple[Array, Array]:
        measured = search.measure(at)
        found = measured if callable(search.objective) else jnp.log(jnp.maximum(measured, jnp.finfo(float).tiny))
        return found, found

    slope, found = jax.jacfwd(value, has_aux=True)(point)
    return found, slope


class Tried(NamedTuple):
    """A point, the parts of its value (of "worst" one for each task), and their slopes (parts, size)."""

    point: np.ndarray
    parts: np.ndarray
    slopes: np.ndarray

    @property
    def value(self) -> float:
        """What is minimized: FAILED where the protocol diverges."""
        return float(np.max(self.parts))

    @property
    def smooth(self) -> tuple[float, np.ndarray]:
        """A maximum of the parts that has a derivative everywhere, and this derivative."""
        value = logsumexp(SHARPNESS * self.parts, b=1 / self.parts.size) / SHARPNESS
        return float(value), softmax(SHARPNESS * self.parts) @ self.slopes


VALUE = attrgetter("value")


def evaluate(search: Search, point: np.ndarray) -> Tried:
    """Value and slopes of a point, which may have fewer numbers than there are segments."""
    whole = search.whole(point)
    if search.objective == "time":
        search = search.at_its_time(whole)
    parts, slopes = map(np.asarray, value_and_slope(search, jnp.asarray(whole)))
    if not (np.all(np.isfinite(parts)) and np.all(np.isfinite(slopes))):
        return Tried(point.copy(), np.full(parts.shape, FAILED), np.zeros((parts.size, point.size)))
    spread = np.eye(point.size)  # which segments each number stands for
    members = np.stack([search.whole(row) for row in spread])
    return Tried(point.copy(), parts, slopes @ members.T)


def descend(
    search: Search, point: np.ndarray, iterations: int, kept: list[Tried], tick: Callable[[], object] = lambda: None
) -> None:
    """Go down from a point; keep what is met within bounds and budgets. tick: called after each iteration."""
    first = len(kept)
    latest: list[Tried] = []

    def tried_at(at: np.ndarray) -> Tried:
        """Value and slopes, which are asked for separately."""
        if latest and np.array_equal(latest[0].point, at):
            return latest[0]
        tried = evaluate(search, np.clip(at, 0.0, 1.0))
        latest[:] = [tried]
        if tried.value < FAILED and search.keeps_budgets(search.whole(tried.point)):
            kept.append(tried)
        return tried

    def best() -> Tried:
        return min(kept[first:], key=VALUE)

    limited = np.isfinite(search.budgets).any(axis=1)
    budgets: list[Any] = []
    if limited.any():
        least, most = search.budgets[limited].T
        spent = lambda at: search.spent(search.whole(at))[limited]  # noqa: E731
        budgets = [NonlinearConstraint(spent, least, most)]
    taken = 0
    for reach in REACHES:  # a first step that is too long ends where everything diverges: then look nearby
        near = best().point if kept[first:] else point
        bounds = np.clip(np.stack([near - reach, near + reach], axis=1), 0.0, 1.0)
        done: OptimizeResult = minimize(
            lambda at: tried_at(at).smooth,
            near,
            jac=True,
            method="SLSQP" if budgets else "L-BFGS-B",
            bounds=bounds,
            constraints=budgets,
            callback=lambda _: tick(),
            options={"maxiter": max(iterations - taken, 1), "ftol": 1e-9},
        )
        taken += done.nit
        if taken >= iterations or (kept[first:] and free_slope(search, best()) < CONVERGED):
            break
    if iterations > SHORT and kept[first:] and best().parts.size > 1:
        lower_the_largest(best(), tried_at, budgets, iterations)


def lower_the_largest(best: Tried, tried_at: Callable[[np.ndarray], Tried], budgets: list[Any], iterations: int) -> None:
    """Go on from a point to the least maximum of the parts: minimize s subject to parts <= s.

    The smooth maximum is lowest elsewhere, and the maximum bends where two parts are equal.
    """
    size = best.point.size
    last = np.eye(size + 1)[-1]

    def below(at: np.ndarray) -> np.ndarray:
        return at[-1] - tried_at(at[:-1]).parts

    def slopes_below(at: np.ndarray) -> np.ndarray:
        slopes = tried_at(at[:-1]).slopes
        return np.concatenate([-slopes, np.ones((len(slopes), 1))], axis=1)

    constraints: list[Any] = [{"type": "ineq", "fun": below, "jac": slopes_below}]
    for budget in budgets:
        spent: Any = budget.fun
        constraints.append(NonlinearConstraint(lambda at, spent=spent: spent(at[:-1]), budget.lb, budget.ub))
    minimize(
        lambda at: (at[-1], last),
        np.append(best.point, best.value),
        jac=True,
        method="SLSQP",
        bounds=[*[(0.0, 1.0)] * size, (best.value - 5.0, best.value + 5.0)],
        constraints=constraints,
        options={"maxiter": iterations, "ftol": 1e-10},
    )


def free_slope(search: Search, tried: Tried) -> float:
    """The largest slope at a point that bounds, budgets and equal parts leave free: 0 at an optimum.

    By the multipliers of Karush, Kuhn and Tucker that make it smallest, a linear program:
    of the parts that are largest (zero or more, with the sum one), and of the budgets that
    are used up (of the sign that their side has).
    """
    z = tried.point
    spent = search.spent(search.whole(z))
    used: Any = approx_fprime(z, lambda at: search.spent(search.whole(at)))
    rows = np.atleast_2d(used)
    sides = [(search.budgets[:, 1] - spent, 1.0), (spent - search.budgets[:, 0], -1.0)]
    limits = [sign * rows[left < 10 * FEASIBLE] for left, sign in sides]
    largest = tried.slopes[tried.parts >= tried.value - ACTIVE]
    slopes = np.concatenate([largest, *limits])
    falling = slopes[:, z < 1 - AT_BOUND]  # may still be raised: -slope <= t
    rising = slopes[:, z > AT_BOUND]  # may still be lowered: slope <= t
    if len(slopes) == 1:
        return float(np.max(np.append(-falling[0], rising[0]), initial=0.0))
    table = np.concatenate([-falling.T, rising.T])
    found = linprog(
        np.append(np.zeros(len(slopes)), 1.0),
        A_ub=np.concatenate([table, -np.ones((len(table), 1))], axis=1),
        b_ub=np.zeros(len(table)),
        A_eq=[np.append(np.arange(len(slopes)) < len(largest), 0.0)],
        b_eq=[1.0],
        bounds=(0.0, None),
    )
    return float(found.fun) if found.success else float(np.max(np.abs(largest)))


def recorded_times(edges: np.ndarray) -> np.ndarray:
    """Times that are even in each segment."""
    places = np.arange(edges.size)
    return np.interp(np.linspace(0.0, places[-1], PER_SEGMENT * places[-1] + 1), places, edges)


def require_number(search: Search) -> None:
    """Raise InputError unless a custom objective is one number of a trajectory."""
    if not callable(search.objective):
        return
    name = checks.name_of(search.objective)
    with explained(f"the objective {name!r} fails", "write it with jax.numpy, as a function of the trajectory."):
        found = jax.eval_shape(search.measure, jnp.full(search.size, 0.5))
    if found.shape != (1,) or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InputError(f"the objective {name!r} is {found.dtype} of shape {found.shape[1:]}; it must be one number.")


class Candidate(NamedTuple):
    """A protocol from which a descent may begin, and its value."""

    point: np.ndarray
    value: float


def candidate(search: Search, point: np.ndarray) -> Candidate:
    """A candidate at a point."""
    return Candidate(point, search.value_at(point))


def best_constants(search: Search) -> tuple[Tried, list[Candidate]]:
    """The best constant protocol, and all that were tried and stay finite, best first."""
    size = sum(search.rows)
    points = np.vstack([np.full(size, 0.5), qmc.Halton(size, scramble=False).random(SCANNED * size + 1)[1:]])
    tried = [candidate(search, point) for point in points]
    tried = sorted((one for one in tried if one.value < FAILED), key=VALUE)
    kept: list[Tried] = []
    for point in _apart(tried, 2):
        descend(search, point, 100, kept)
    if not kept:
        raise InputError(f"no constant protocol stays finite up to t_max = {search.edges[-1]:g}; give lower bounds.")
    best = min(kept, key=VALUE)
    if not callable(search.objective) and np.exp(best.value) < SMALLEST:
        raise InputError(f"a constant protocol reaches {np.exp(best.value):.1g}, mere rounding; shorten t_max or add noise.")
    return best, tried


def within_budgets(search: Search, point: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The last point on the way from one that keeps the budgets to another one."""
    for share in np.linspace(1.0, 0.0, 21):
        mixed = inside + share * (point - inside)
        if search.keeps_budgets(mixed):
            return mixed
    return inside


def corner_protocols(search: Search) -> list[np.ndarray]:
    """Protocols whose controls jump between their bounds, a few of them: the constant ones are left out."""
    rows = sum(search.rows)
    phases = min(search.shares.size, 3 if rows == 1 else 2)
    size = rows * phases
    if size <= np.log2(CORNERS):
        corners = np.array(list(np.ndindex(*[2] * size)), float)
    else:
        corners = np.unique(np.round(qmc.Halton(size, scramble=False).random(CORNERS)), axis=0)
    changing = np.ptp(corners.reshape(-1, rows, phases), axis=2).max(axis=1) > 0
    return [search.whole(corner) for corner in corners[changing]]


def greedy_protocol(search: Search) -> np.ndarray:
    """The protocol that makes the objective smallest at the end of each phase, one phase after the other."""
    rows = sum(search.rows)
    segments = search.shares.size
    phases = min(segments, PHASES)
    table = np.full((rows, phases), 0.5)
    ends = search.edges[-1] * np.arange(1, phases + 1) / phases
    for phase, end in enumerate(ends):
        for row in range(rows):
            tried = []
            for level in np.linspace(0.0, 1.0, LEVELS):
                table[row, phase:] = level
                tried.append((search.value_at(table.ravel(), end), level))
            table[row, phase:] = min(tried)[1]
    return search.whole(table.ravel())


def first_points(search: Search, constant: Tried, constants: list[Candidate], count: int) -> list[np.ndarray]:
    """The points from which descents begin.

    These are the best constant protocol, the middle, the greedy protocol and then the best
    ones of all constants and corners that differ from those before them.
    """
    inside = search.whole(constant.point)
    middle = search.whole(np.full(sum(search.rows), 0.5))
    first = [inside, middle]
    more = [search.whole(one.point) for one in constants]
    if not callable(search.objective):
        first.append(greedy_protocol(search))
    if search.shares.size > 1:
        more += corner_protocols(search)
    fixed = [Candidate(within_budgets(search, point, inside), -np.inf) for point in first]
    rest = [candidate(search, within_budgets(search, point, inside)) for point in more]
    rest = sorted((one for one in rest if one.value < FAILED), key=VALUE)
    return _apart([*fixed, *rest], count)


def _apart(tried: list[Candidate], count: int) -> list[np.ndarray]:
    """The first points that differ from each other; fewer if there are no more."""
    found: list[np.ndarray] = []
    for one in tried:
        if all(np.max(np.abs(one.point - other)) >= APART for other in found):
            found.append(one.point)
    return found[:count]


@dataclass(frozen=True)
class Baseline:
    """Another protocol for comparison. controls: numbers and schedules by name. value: its objective."""

    controls: Table
    trajectory: Trajectory
    value: float


@dataclass(frozen=True, repr=False)
class OptimalProtocol(AnalysisResult, figure="plot_protocol"):
    """What `optimize` found.

    problem: with the protocol in it, as `solve`, `simulate` and files take it. schedules: of each control by name; of "tasks"
    what `Tasks(schedule=...)` takes. value: the objective under the protocol; infinite for a level that is not reached.
    trajectory: the theory under the protocol. baselines: other protocols by name; the first is "best constant".
    starts: the objective that each descent reached, best first. first: the objectives after the first, short descents, of
    which the best ones went on. slope: the largest d ln(objective) / d control that bounds, budgets and tasks of equal
    error leave free, the control in units of its range; 0 at an optimum. sensitivity: by how much the objective grows, as
    a share of itself, if one segment of a control moves by 5% of its range. totals: the integral of each control over
    time. notes: on bounds that are met, or an interruption.
    """

    problem: Problem
    start: Start
    objective: Objective
    bounds: dict[str, Limits]
    schedules: Table
    value: float
    trajectory: Trajectory
    baselines: dict[str, Baseline]
    starts: np.ndarray
    first: np.ndarray
    slope: float
    sensitivity: dict[str, np.ndarray]
    totals: dict[str, float]
    notes: tuple[str, ...]

    @property
    def schedule(self) -> Any:
        """The schedule of the first control."""
        return next(iter(self.schedules.values()))

    @property
    def best_constant(self) -> Baseline:
        """The best protocol that does not change in time."""
        return self.baselines["best constant"]

    @property
    def gain(self) -> float:
        """How many times smaller the objective is than under the best constant protocol."""
        return self.gains["best constant"]

    @property
    def gains(self) -> dict[str, float]:
        """The same for each baseline; NaN where neither reaches the level."""
        with np.errstate(invalid="ignore"):
            return {name: float(np.divide(one.value, self.value)) for name, one in self.baselines.items()}

    @property
    def spread(self) -> float:
        """The worst of `starts` in units of the best, less one: 0 if all descents ended at one value."""
        with np.errstate(invalid="ignore"):
            return float(np.ptp(self.starts) / np.abs(np.min(self.starts)))

    def simulate(self, dim: int, runs: int = 20, *, seed: int = 0, **options: Any) -> Trajectory:
        """Networks of finite size under the protocol, at the times of the trajectory. Options: those of `tu.simulate`."""
        return simulate(self.problem, self.start, dim=dim, times=self.trajectory.times, runs=runs, seed=seed, **options)

    def __str__(self) -> str:
        end, custom = float(self.trajectory.times[-1]), callable(self.objective)
        what = "objective" if custom else {"time": "time to the level"}.get(str(self.objective), f"{self.objective} error")
        names = " and ".join(self.schedules)
        lines = [f"protocol of {names} for the smallest {what} up to alpha = {end:g}: {self._shown(self.value)}"]
        for name, one in self.baselines.items():
            words = ", ".join(f"{which} {_in_words(value)}" for which, value in one.controls.items())
            times = f", {self.gains[name]:.4g} times as much" if np.isfinite(self.gains[name]) else ""
            lines.append(f"  {name}: {self._shown(one.value)}{times} ({words})")
        for name, total in self.totals.items():
            lines.append(f"  {name}: {_in_words(self.schedules[name])}; mean {total / end:.4g}")
        ends = ", ".join(self._shown(value) for value in self.starts)
        spread = f" (spread {100 * self.spread:.2g}%)" if self.starts.size > 1 and np.isfinite(self.spread) else ""
        lines.append(f"descents ended at {ends}{spread}; largest free slope {self.slope:.1e}")
        if self.first.size > 1:
            least, most = self._shown(self.first.min()), self._shown(self.first.max())
            lines.append(f"chosen from {self.first.size} short descents, which reached {least} to {most}")
        return "\n".join([*lines, *self.notes])

    def _shown(self, value: float) -> str:
        """A value of the objective; words for a level that is not reached."""
        if self.objective == "time" and np.isinf(value):
            return f"not reached within {float(self.trajectory.times[-1]):g}"
        return f"{value:.4g}"


def _in_words(value: Any) -> str:
    value = value.shares if isinstance(value, Interleave) else value
    if isinstance(value, tuple | list):
        return " / ".join(map(_in_words, value))
    if hasattr(value, "values"):
        numbers = np.asarray(value.values)
        return f"from {numbers[0]:.3g} to {numbers[-1]:.3g}, within [{numbers.min():.3g}, {numbers.max():.3g}]"
    return checks.shown(value) if hasattr(value, "probabilities") or callable(value) else f"{float(value):.4g}"


def optimize(
    problem: Problem,
    start: Start,
    t_max: float,
    controls: Mapping[str, tuple[float, float]],
    objective: Objective = "final",
    *,
    level: float | None = None,
    segments: ArrayLike = 24,
    shape: str = "piecewise",
    budgets: Mapping[str, Any] | None = None,
    baselines: Mapping[str, Mapping[str, Any]] | None = None,
    starts: int = 2,
    iterations: int = 200,
    progress: bool = False,
) -> OptimalProtocol:
    """The protocol on [0, t_max] that makes an objective smallest, in the limit of large N.

    Parameters
    ----------
    problem : Problem
        A number or schedule of it that is controlled only has to exist; the protocol replaces it.
    start, t_max : Start, float
        The initial condition, and the last time.
    controls : dict of (low, high)
        Bounds of each control by name: "lr", "readout_lr", "bias_lr", "weight_decay", "noise" and "flip" (of labels), "keep"
        (dropout), "feedback" (strength of feedback alignment), "tasks" (probability of the first of two tasks; of more tasks
        the probabilities of all, bounds (0, 1)), "replay". A readout_lr that is None follows lr.
    objective : str or callable
        "final", the error at t_max; "integrated", its integral over time; "worst", the final error of the worst task;
        "time", the time at which the error first falls to `level`, infinite if it does not (then the search lowers the final
        error); or a JAX function of the trajectory that returns one number.
        The error is the mean over tasks.
    level : float, optional
        The error to reach, for "time".
    segments : int or list of float
        Number of segments of equal length, or the times at which they begin and end.
    shape : str
        "piecewise", constant on each segment; "smooth", straight between the ends of segments.
    budgets : dict, optional
        Limits on the integral of a control over time: the largest, or (smallest, largest); None: no limit.
    baselines : dict of dict, optional
        Protocols to compare with, as {"half": {"tasks": 0.5}}: numbers or schedules. Others are constants, chosen best.
    starts : int
        Descents that are followed to their end. They are the best ones of short descents from the best constant protocol, the
        middle of the bounds, the greedy protocol, and protocols between extreme values.
    iterations : int
        The most of each descent.
    progress : bool
        Show a progress bar after two seconds. Ctrl-C returns the best protocol found so far.

    Returns
    -------
    OptimalProtocol

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), sgd=tu.SGD(lr=0.5), noise=0.1)
    >>> found = tu.schedules.optimize(problem, tu.Start([[0.0]], [[0.0]]), 20.0, {"lr": (0.0, 1.0)}, segments=4)
    >>> found.gain > 1.2
    True
    """
    problem = require_problem(problem, "optimize", needs=("differentiable", TASKS, MIXTURES))
    checks.require_untraced("start", "optimize", require_start(start))
    t_max, limits = checks.as_positive("t_max", t_max), checked_controls(problem, controls)
    others, edges = _checked_baselines(problem, baselines or {}), _checked_edges(segments, t_max)
    if not callable(objective):
        objective = checks.known("objective", objective, ("final", "integrated", "worst", "time"))
    if (objective == "time") != (level is not None):
        given = f"objective is {checks.shown(objective)} and level is {checks.shown(level)}"
        raise InputError(f"{given}; 'time' needs a level, the error to reach, and no other objective has one.")
    shape = checks.known("shape", shape, ("piecewise", "smooth"))
    level = 1.0 if level is None else checks.as_positive("level", level)
    integrals = _checked_budgets(budgets or {}, limits, t_max)
    starts, iterations = checks.as_count("starts", starts), checks.as_count("iterations", iterations)
    shown = checks.as_flag("progress", progress)
    searching = partial(Search, start=start, edges=edges, shape=shape, objective=objective, level=level, budgets=integrals)
    search = searching(problem, limits)
    require_number(search)
    require_work_for_time(search)
    interrupted = False
    first: list[list[Tried]] = []
    followed: list[list[Tried]] = []

    def judged(controls: Table, solved: Table | None = None) -> Baseline:
        """The theory under controls, and its objective; infinite if it does not reach the end.

        solved: the same as schedules, if a program for these is compiled anyway.
        """
        under = changed(problem, controls if solved is None else solved)
        theory = solve(under, start, search.grid, gradient="forward", accuracy=None)
        value = objective_of(search, under, start, theory)
        return Baseline(controls, replace(theory, problem=changed(problem, controls)), value)

    def schedules_at(point: np.ndarray) -> Table:
        """The schedules of all controls."""
        values = search.values(search.whole(point))
        return {name: schedule_of(name, shape, edges, np.asarray(rows)) for name, rows in values.items()}

    longest = (starts + MORE) * min(SHORT, iterations) + starts * iterations
    with progress_bar(longest, "optimizing", shown) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # a trial may diverge; the final choice warns
        constant, tried = best_constants(search)
        compared = {"best constant": judged(_numbers(search, constant), schedules_at(constant.point))}
        for name, given in others.items():  # controls that a baseline leaves out are constants, chosen best
            free = {control: pair for control, pair in limits.items() if control not in given}
            rest = searching(changed(problem, given), free) if free else None
            compared[name] = judged(given if rest is None else given | _numbers(rest, best_constants(rest)[0]))
        try:
            for point in first_points(search, constant, tried, starts + MORE):
                first.append([])
                descend(search, point, min(SHORT, iterations), first[-1], bar.update)
            begun = sorted((min(kept, key=VALUE) for kept in first if kept), key=VALUE)
            for one in begun[:starts]:
                followed.append([one])
                descend(search, one.point, iterations, followed[-1], bar.update)
        except KeyboardInterrupt:
            interrupted = True
    begun = [min(kept, key=VALUE) for kept in first if kept]
    ended = sorted((min(kept, key=VALUE) for kept in followed or first if kept), key=VALUE)
    if not ended:
        raise InputError("cannot optimize: no finite derivative at the best constant protocol. Narrow the bounds.")
    best = ended[0]
    chosen = {name: np.asarray(rows) for name, rows in search.values(best.point).items()}
    schedules = schedules_at(best.point)
    own = judged(schedules)
    return OptimalProtocol(
        problem=changed(problem, schedules),
        start=start,
        objective=objective,
        bounds=limits,
        schedules=schedules,
        value=own.value,
        trajectory=own.trajectory,
        baselines=compared,
        starts=_objectives(search, ended),
        first=_objectives(search, begun),
        slope=free_slope(search, best),
        sensitivity=_sensitivity(search, best, interrupted),
        totals={name: t_max * float(rows[0] @ search.shares) for name, rows in chosen.items()},
        notes=(*_bound_notes(search, best.point), *["interrupted: the best protocol so far"] * interrupted),
    )


def require_work_for_time(search: Search) -> None:
    """Raise InputError if the level of the objective "time" is reached at time 0."""
    if search.objective != "time":
        return
    problem = search.problem_at(np.full(search.size, 0.5))
    begins = over_tasks(search.solved(problem, search.grid[:2]).error)[0]
    if begins <= search.level:
        raise InputError(f"level is {search.level:g}; the error is {begins:.4g} already at time 0. Give a smaller level.")


def objective_of(search: Search, problem: Problem, start: Start, theory: Trajectory) -> float:
    """The objective of a search for a problem with any schedules, and its solve; infinite where that does not reach the end."""
    end = search.grid[-1:]
    if not theory.finished:
        return np.inf
    if search.objective == "integrated":
        moments = moments_for(problem)
        steps = tolerances(sampled_rtol(moments))
        return float(integrated_error(as_arrays(problem), as_arrays(start), end, moments, steps)[-1])
    if search.objective == "time":
        error_at = lambda times: over_tasks(solve(problem, start, times, gradient="forward", accuracy=None).error)  # noqa: E731
        return time_to_level(float(search.level), search.grid, error_at)
    return search.value(theory)


def _objectives(search: Search, tried: list[Tried]) -> np.ndarray:
    """The objectives of points, increasing; infinite where a level is not reached."""
    values = np.sort([one.value for one in tried])
    if callable(search.objective):
        return values
    values = np.exp(values)
    late = search.objective == "time"
    return np.where(late & (values > search.edges[-1]), np.inf, values)


def _numbers(search: Search, constant: Tried) -> Table:
    """The values of a constant protocol by name; lists for more than two tasks."""
    values = {name: np.ravel(rows).tolist() for name, rows in search.values(constant.point).items()}
    return {name: each if len(each) > 1 else each[0] for name, each in values.items()}


def _sensitivity(search: Search, best: Tried, interrupted: bool) -> dict[str, np.ndarray]:
    """The growth of the objective when one number of the point moves by NUDGE towards the middle of its range."""
    growth = np.full(search.size, np.nan)
    value = search.value_at(best.point)
    for i, z in enumerate(best.point if not interrupted else ()):
        moved = best.point.copy()
        moved[i] += NUDGE if z < 0.5 else -NUDGE
        growth[i] = search.value_at(moved) - value
    growth = growth / abs(value) if callable(search.objective) else np.expm1(growth)
    return {name: rows[0] if len(rows) == 1 else rows for name, rows in search.by_control(growth).items()}


def _bound_notes(search: Search, point: np.ndarray) -> list[str]:
    """Where a control lies on a bound that could be another one."""
    notes = []
    for (name, own), pair in zip(search.by_control(point).items(), search.bounds, strict=True):
        for word, bound, met in zip(("lower", "upper"), pair, (own < AT_BOUND, own > 1 - AT_BOUND), strict=True):
            if met.any() and bound not in (0.0, KNOBS[name].highest):
                places = f"{met.sum()} of {own.size} places"
                notes.append(f"{name} lies at its {word} bound {bound:g} at {places}; other bounds may gain more")
    return notes


# Checks of what `optimize` is given


def _as_table(name: str, value: object, example: str, least: int = 0) -> Table:
    if not isinstance(value, Mapping) or len(value) < least:
        raise InputError(f"{name} is {checks.shown(value)}; it must be a table, such as {example}.")
    return dict(value)


def checked_controls(problem: Problem, controls: object) -> dict[str, Limits]:
    """The bounds of each control, every name and number checked."""
    given = _as_table("controls", controls, "{'lr': (0.0, 3.0)}", least=1)
    found = {name: checked_bounds(name, pair, _known_control(problem, name).highest) for name, pair in given.items()}
    if found.get("keep", (1.0, 1.0))[0] == 0:
        raise InputError("the lower bound of keep is 0; some units must stay active. Use a positive one, such as 0.1.")
    if {"tasks", "replay"} <= set(found):
        raise InputError("controls has tasks and replay; both decide which task is shown. Control one of them.")
    if "tasks" in found and problem.teacher.count > 2 and found["tasks"] != (0.0, 1.0):
        raise InputError(f"the bounds of tasks are {found['tasks']}; they must be (0, 1) for more than two tasks.")
    return found


def _known_control(problem: Problem, name: str) -> Knob:
    """A control that the problem has."""
    knob = KNOBS[checks.known("the name of a control", name, KNOBS)]
    if not knob.has(problem):
        raise InputError(f"controls has {name!r}, which this problem does not have: {knob.fix}.")
    return knob


def checked_bounds(name: str, given: object, highest: float = np.inf) -> Limits:
    """The lowest and the highest value of a control."""
    pair = checks.as_array(f"the bounds of {name}", given, shapes=[(2,)], fix="The lowest and the highest value.")
    low, high = float(pair[0]), float(pair[1])
    if not (0 <= low < high <= highest and np.isfinite(high)):
        most = "finite" if np.isinf(highest) else f"at most {highest:g}"
        rule = f"the first must be zero or more and below the second, the second {most}"
        raise InputError(f"the bounds of {name} are {low:g} and {high:g}; {rule}.")
    return low, high


def _checked_budgets(budgets: object, bounds: dict[str, Limits], t_max: float) -> dict[str, Limits]:
    """(smallest, largest) integral of each control that has a budget."""
    found: dict[str, Limits] = {}
    for name, given in _as_table("budgets", budgets, "{'tasks': 20.0}").items():
        low, high = t_max * np.array(bounds[checks.known("the name of a budget", name, bounds)])
        pair = (None, given) if np.ndim(np.asarray(given, dtype=object)) == 0 else tuple(given)
        if len(pair) != 2:
            raise InputError(f"the budget of {name} is {checks.shown(given)}; it must be a number or (smallest, largest).")
        least = -np.inf if pair[0] is None else float(checks.as_number(f"the budget of {name}", pair[0]))
        most = np.inf if pair[1] is None else float(checks.as_number(f"the budget of {name}", pair[1]))
        slack = FEASIBLE * (high - low)
        if not (least <= most and most >= low - slack and least <= high + slack):
            allowed = f"its bounds allow integrals from {low:g} to {high:g}"
            raise InputError(f"the budget of {name} is {least:g} to {most:g}; {allowed}. Change one of them.")
        found[name] = (least, most)
    return found


def _checked_baselines(problem: Problem, baselines: object) -> dict[str, Table]:
    """Protocols to compare with: numbers or schedules by the names of controls."""
    given = _as_table("baselines", baselines, "{'half': {'tasks': 0.5}}")
    found = {name: _as_table(f"the baseline {name!r}", table, "{'tasks': 0.5}") for name, table in given.items()}
    for control in (control for table in found.values() for control in table):
        _known_control(problem, control)
    return found


def _checked_edges(segments: ArrayLike, t_max: float) -> np.ndarray:
    """The times at which segments begin and end."""
    if np.ndim(segments) == 0:
        return np.linspace(0.0, t_max, checks.as_count("segments", segments) + 1)
    edges = checks.as_array("segments", segments, checks.require_increasing)
    if edges[0] != 0 or edges[-1] != t_max:
        raise InputError(f"segments run from {edges[0]:g} to {edges[-1]:g}; they must run from 0 to t_max = {t_max:g}.")
    return edges


# The greedy learning rate


def greedy(problem: Problem, start: Start, t_max: float, bounds: tuple[float, float] = (1e-3, 1e2)) -> Interpolated:
    """The learning rate that lowers the error fastest at every moment up to t_max, as a schedule.

    Parameters
    ----------
    problem : Problem
        Its learning rate is ignored.
    start, t_max : Start, float
        The initial condition, and the last time.
    bounds : (float, float)
        The lowest and the highest rate.

    Returns
    -------
    Interpolated
        For `SGD(lr=...)`, or as a baseline of `optimize`.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), sgd=tu.SGD(lr=0.5), noise=1.0)
    >>> rate = tu.schedules.greedy(problem, tu.Start([[0.0]], [[0.0]]), t_max=10.0)
    >>> round(float(rate(0.0)), 4)                     # e_g / (e_g + noise^2 / 2), with e_g = 1/2
    0.5
    """
    require_problem(problem, "greedy", needs=(*CLOSED, "fixed momentum"))
    checks.require_untraced("start", "greedy", require_start(start))
    t_max, limits = checks.as_positive("t_max", t_max), np.array(checked_bounds("lr", bounds))
    times = t_max * (1 - np.cos(np.pi * np.arange(GREEDY_TIMES + 1) / GREEDY_TIMES)) / 2
    state, t = initial_overlaps(problem, start)
    dynamics = GreedyDynamics(problem, t, limits)
    options = Options(gradient_flow=False, solver="explicit", keep=True)
    path = integrate(dynamics, None, state, times, tolerances(), options)
    rate_at = eqx.filter_jit(eqx.filter_vmap(GreedyDynamics.rate, in_axes=(None, 0, 0)))
    rates = np.asarray(rate_at(dynamics, times, states_of(path.variables, state)))
    if not np.all(np.isfinite(rates) & np.isfinite(path.error)):
        raise InputError(f"the greedy rate diverges before t_max = {t_max:g}; lower t_max or the upper bound.")
    return Interpolated(times, rates)


def drift_at_rate(system: OrderParameters, eta: Array, t: ArrayLike, state: Overlaps) -> tuple[Overlaps, Array]:
    """The drift of a system, and the change of its error, at this learning rate."""
    return OrderParameters.drift_and_error_rate(eqx.tree_at(lambda s: s.problem.sgd.lr, system, eta), t, state)


def rate_expansion(system: OrderParameters, t: ArrayLike, state: Overlaps) -> tuple[Array, Array]:
    """Coefficients of eta and eta^2 in d error / d alpha: exact, since it is quadratic in eta."""
    slope = jax.jacfwd(lambda eta: drift_at_rate(system, eta, t, state)[1])
    linear, twice = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
    return linear, twice / 2


def steepest_rate(linear: Array, quadratic: Array, bounds: tuple[ArrayLike, ArrayLike]) -> Array:
    """The eta within bounds that makes eta * linear + eta^2 * quadratic (a change of the error) smallest."""
    low, high = map(jnp.asarray, bounds)
    a, b = -linear, quadratic
    inside = jnp.where(b > 0, a / jnp.where(b > 0, 2 * b, 1.0), jnp.where(a > b * (low + high), high, low))
    return jnp.clip(inside, low, high)


class GreedyDynamics(OrderParameters):
    """The dynamics of a problem whose learning rate is the greedy one, within bounds (2,)."""

    bounds: Any

    def __init__(self, problem: Problem, t: Any, bounds: np.ndarray):
        super().__init__(as_arrays(problem.replace(lr=bounds[0])), t, keep_blocks=True)
        self.bounds = bounds

    def rate(self, t: ArrayLike, state: Overlaps) -> Array:
        """The greedy rate at a state."""
        return steepest_rate(*rate_expansion(self, t, state), self.bounds)

    def drift_and_error_rate(self, t: ArrayLike, state: Overlaps) -> tuple[Overlaps, Array]:
        return drift_at_rate(self, self.rate(t, state), t, state)

    def drift(self, t: ArrayLike, state: Overlaps) -> Overlaps:
        return self.drift_and_error_rate(t, state)[0]
