"""The search behind `optimize`: a protocol is a point, and a descent follows the gradient of the solved theory.

A point holds one number for each segment of each control (or for each knot of a smooth one), from 0 at the lower bound to 1
at the upper one. More than two tasks have one number each, whose softmax are the probabilities.

The derivative is taken in forward mode, one tangent for each number: for 24 segments of two controls that is as fast as
reverse mode and compiles in a quarter of the time. Values, times and initial condition are data to the compiled program, so
that searches of equal shape share it. L-BFGS-B keeps the bounds; SLSQP also keeps budgets (limits on integrals over time).
The search is local, from several starts; one of them is the best constant protocol, so that the result is never worse.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import simpson
from scipy.optimize import minimize
from scipy.stats import qmc

from tutelage._solve import assemble, prepare, sampled_rtol
from tutelage._types import Array, Table
from tutelage.analysis.controls import FEASIBLE, KNOBS, NO_BUDGET, Limits, changed, schedule_of
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, cause
from tutelage.integrate.program import Options, anonymous, integrate, tolerances
from tutelage.moments import Moments, moments_for
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Problem, Start
from tutelage.trajectory import Trajectory

Objective: TypeAlias = str | Callable[[Trajectory], ArrayLike]

LOGIT = 8.0  # largest logit of a task's probability
SHARPNESS = 20.0  # of the smooth maximum over tasks
PER_SEGMENT = 8  # intervals of the recorded times in each segment, at which integrals are taken (Simpson's rule)
SCANNED = 16  # constant protocols that are tried for each control
FAILED = 50.0  # the value, in logarithms, of a protocol that diverges
REACHES = (1.0, 0.2, 0.05, 1.0)  # of the range: how far from the best point a descent goes, one after the other
CONVERGED = 1e-3  # a slope that is small enough
AT_BOUND = 1e-6  # of the range: a control this close to a bound lies on it
APART = 0.15  # of the range: protocols this far apart are different starts
SMALLEST = 1e-12  # errors below this are not solved to a digit


class Goal(eqx.Module):
    """What is minimized: the objective, and for "time" the level to reach. times, weights: of integrals over time."""

    objective: Objective = eqx.field(static=True)
    level: Any  # arrays here and below
    times: Any
    weights: Any

    @classmethod
    def on(cls, edges: np.ndarray, objective: Objective, level: float) -> "Goal":
        """Recorded at times that are even in each segment, with the weights of Simpson's rule."""
        shares = np.arange(PER_SEGMENT) / PER_SEGMENT
        times = np.append((edges[:-1, None] + np.diff(edges)[:, None] * shares).ravel(), edges[-1])
        weights = simpson(np.eye(times.size), x=times)
        return cls(objective, np.array(level), times, weights)

    def shortened(self) -> "Goal":
        """With the last time alone where the objective needs no more: fewer times are solved faster."""
        if self.objective in ("final", "worst"):
            return Goal(self.objective, self.level, self.times[-1:], self.weights[-1:])
        return self

    def value(self, trajectory: Trajectory, *, smooth: bool = False) -> Any:
        """The objective of a trajectory that is recorded at the times. smooth: one that has a derivative everywhere."""
        if callable(self.objective):
            return jnp.asarray(self.objective(trajectory))
        error: Any = trajectory.error
        mean = error.mean(axis=1) if error.ndim > 1 else error
        if self.objective == "final":
            return mean[-1]
        if self.objective == "integrated":
            return self.weights @ mean
        if self.objective == "time":
            return _time_to(self.level, self.times, jnp.asarray(mean))
        last = jnp.ravel(error[-1])
        worst = jnp.max(last)
        return worst * jnp.mean((last / worst) ** SHARPNESS) ** (1 / SHARPNESS) if smooth else worst


def _time_to(level: Array, times: Array, error: Array) -> Array:
    """When ln error, linear between recorded times, falls to the level; later than all times if it does not."""
    above = jnp.log(error / level)
    late = times[-1] * (1 + above[-1])
    after = jnp.clip(jnp.argmax(above <= 0), 1)
    times = jnp.asarray(times)
    (t0, y0), (t1, y1) = ((times[i], above[i]) for i in (after - 1, after))
    gap = jnp.where(y0 > y1, y0 - y1, 1.0)
    found = jnp.where(above[0] <= 0, times[0], t0 + (t1 - t0) * y0 / gap)
    return jnp.where(jnp.any(above <= 0), found, late)


class Search(eqx.Module):
    """What a search minimizes. problem: with a schedule in place of each control, whose values a point replaces.

    bounds, budgets: (control, 2), of values and of their integrals. shares: of the time that each segment or knot rules.
    rows: schedules of each control, several for more than two tasks.
    """

    problem: Problem
    start: Start
    moments: Moments
    goal: Goal
    steps: Any  # arrays here and below
    bounds: Any
    budgets: Any
    shares: Any
    names: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Numbers in a point."""
        return sum(self.rows) * self.shares.shape[0]

    @property
    def end(self) -> Any:
        """The last time."""
        return self.goal.times[-1]

    def by_control(self, numbers: Any) -> dict[str, Any]:
        """The numbers of a point by control, (rows, segments)."""
        last = np.cumsum(self.rows)
        table = numbers.reshape(last[-1], -1)
        return {name: table[b - rows : b] for name, rows, b in zip(self.names, self.rows, last, strict=True)}

    def values(self, point: Array) -> dict[str, Array]:
        """The values of each control, (rows, segments)."""
        found = {}
        for (name, own), (low, high) in zip(self.by_control(point).items(), self.bounds, strict=True):
            single = len(own) == 1
            found[name] = low + own * (high - low) if single else jax.nn.softmax(LOGIT * (2 * own - 1), axis=0)
        return found

    def measure(self, point: Array) -> Array:
        """The objective under the protocol of a point."""
        rows = [row for values in self.values(point).values() for row in values]
        problem = eqx.tree_at(partial(_places, names=self.names), self.problem, rows)
        options = Options(gradient_flow=False, solver="explicit", keep=False)
        raw = integrate(problem, self.moments, self.start, self.goal.times, self.steps, options)
        return self.goal.value(assemble(raw, self.goal.times, problem, self.start, ()), smooth=True)

    def integrals(self, point: Array) -> Array:
        """The integral of each control over time (of the first task's probability)."""
        return self.end * jnp.stack([values[0] @ self.shares for values in self.values(point).values()])

    def left(self, point: Array) -> Array:
        """What the budgets leave (negative: exceeded), as a share of what the control can have, (control, 2)."""
        ranges = self.end * (self.bounds[:, 1] - self.bounds[:, 0])
        signs = jnp.array([1.0, -1.0])
        return signs * (self.integrals(point)[:, None] - self.budgets) / ranges[:, None]


def _places(problem: Problem, names: tuple[str, ...]) -> list[Any]:
    """The numbers of all schedules that are controlled."""
    return [schedule.values for name in names for schedule in KNOBS[name].schedules(problem)]


@eqx.filter_jit
def value_and_slope(search: Search, point: Array) -> tuple[Array, Array]:
    """What a descent follows, and its derivative: ln(objective), or a custom objective itself."""

    def value(at: Array) -> Array:
        measured = search.measure(at)
        return measured if callable(search.goal.objective) else jnp.log(jnp.maximum(measured, jnp.finfo(float).tiny))

    along = lambda direction: jax.jvp(value, (point,), (direction,))  # noqa: E731
    return jax.vmap(along, out_axes=(None, 0))(jnp.eye(point.size))


@eqx.filter_jit
def _left_and_slopes(search: Search, point: Array) -> tuple[Array, Array]:
    return search.left(point), jax.jacfwd(search.left)(point)


class Tried(NamedTuple):
    """A point, its value, and the slope there."""

    point: np.ndarray
    value: float
    slope: np.ndarray


def evaluate(search: Search, point: np.ndarray) -> Tried:
    """Value and slope of a point; those of a protocol that diverges are large and zero.

    A point with one number for each row is a constant protocol, here and below.
    """
    value, slope = map(np.asarray, value_and_slope(search, _whole(search, point)))
    if not (np.isfinite(value) and np.all(np.isfinite(slope))):
        return Tried(point.copy(), FAILED, np.zeros(point.size))
    return Tried(point.copy(), float(value), slope.reshape(point.size, -1).sum(axis=1))


def budgets_left(search: Search, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each budget that has a limit leaves, (budget,), and its slope, (budget, number)."""
    left, slopes = map(np.asarray, _left_and_slopes(search, _whole(search, point)))
    limited = np.isfinite(search.budgets)
    return left[limited], slopes[limited].reshape(limited.sum(), point.size, -1).sum(axis=2)


def _whole(search: Search, point: np.ndarray) -> Array:
    return jnp.repeat(jnp.asarray(point), search.size // point.size)


@dataclass
class Descent:
    """A descent within the bounds and budgets. best: the best point met so far that is finite and keeps the budgets."""

    search: Search
    best: Tried | None = None

    @property
    def limited(self) -> bool:
        """Are there budgets?"""
        return bool(np.isfinite(self.search.budgets).any())

    def run(self, point: np.ndarray, iterations: int, tick: Callable[[], object] = lambda: None) -> None:
        """Go down from a point. tick: called after each iteration."""
        taken = 0

        def count(_: object) -> None:
            nonlocal taken
            taken += 1
            tick()

        method: Table = {"method": "L-BFGS-B"}
        if self.limited:
            left = partial(budgets_left, self.search)
            limits = {"type": "ineq", "fun": lambda x: left(x)[0], "jac": lambda x: left(x)[1]}
            method = {"method": "SLSQP", "constraints": [limits]}
        for reach in REACHES:  # a first step that is too long ends where everything diverges: then look nearby
            near = point if self.best is None else self.best.point
            bounds = np.clip(np.stack([near - reach, near + reach], axis=1), 0.0, 1.0)
            options = {"maxiter": max(iterations - taken, 1), "ftol": 1e-9}
            minimize(self._evaluate, near, jac=True, bounds=bounds, callback=count, options=options, **method)
            if taken >= iterations or (self.best is not None and self.free_slope() < CONVERGED):
                break

    def _evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and slope, and keep the point if it is the best."""
        tried = evaluate(self.search, point)
        better = tried.value < (FAILED if self.best is None else self.best.value)
        if better and (not self.limited or budgets_left(self.search, point)[0].min() > -FEASIBLE):
            self.best = tried
        return tried.value, tried.slope

    def free_slope(self) -> float:
        """Largest slope at the best point in a direction that bounds and budgets leave free: 0 at an optimum."""
        assert self.best is not None
        z, _, slope = self.best
        if self.limited:
            left, rows = budgets_left(self.search, z)
            active, inside = rows[left < 10 * FEASIBLE], (z > AT_BOUND) & (z < 1 - AT_BOUND)
            slope = slope - active.T @ np.linalg.lstsq(active[:, inside].T, slope[inside], rcond=None)[0]
        free = ~(((z <= AT_BOUND) & (slope > 0)) | ((z >= 1 - AT_BOUND) & (slope < 0)))
        return float(np.max(np.abs(slope[free]), initial=0.0))


@dataclass(frozen=True)
class ControlProblem:
    """An optimal-control problem: bounds (`limits`) and budgets of the controls, their shape on segments, and a goal."""

    problem: Problem
    start: Start
    edges: np.ndarray
    shape: str
    goal: Goal
    limits: dict[str, Limits]
    budgets: dict[str, Limits]
    quadrature: Quadrature | None

    def given(self, controls: Table) -> "ControlProblem":
        """What is left to optimize if some controls are given."""
        return replace(
            self,
            problem=changed(self.problem, controls),
            limits={name: pair for name, pair in self.limits.items() if name not in controls},
            budgets={name: pair for name, pair in self.budgets.items() if name not in controls},
        )

    def search(self) -> Search:
        """The search for the best protocol."""
        lengths, rows, initial = np.diff(self.edges), [], {}
        shares = (lengths if self.shape == "piecewise" else np.convolve(lengths, [0.5, 0.5])) / self.edges[-1]
        for name, pair in self.limits.items():
            rows.append(self.problem.teacher.count if name == "tasks" and self.problem.teacher.count > 2 else 1)
            middle = np.mean(pair) if rows[-1] == 1 else 1 / rows[-1]
            initial[name] = schedule_of(name, self.shape, self.edges, np.full((rows[-1], shares.size), middle))
        controlled = changed(self.problem, initial)
        moments = moments_for(controlled, self.quadrature)
        prepare(controlled, self.start, self.goal.times)
        return Search(
            problem=as_arrays(controlled),
            start=as_arrays(anonymous(self.start)),
            moments=moments,
            goal=self.goal.shortened(),
            steps=tolerances(sampled_rtol(moments)),
            bounds=np.array(list(self.limits.values())),
            budgets=np.array([self.budgets.get(name, NO_BUDGET) for name in self.limits]),
            shares=shares,
            names=tuple(self.limits),
            rows=tuple(rows),
        )


def require_number(search: Search) -> None:
    """A custom objective must return one real number."""
    objective = search.goal.objective
    if not callable(objective):
        return
    name = getattr(objective, "__name__", "objective")
    try:
        found = jax.eval_shape(search.measure, jnp.full(search.size, 0.5))
    except Exception as error:
        raise InputError(
            f"the objective {name!r} fails ({cause(error)}); write it with jax.numpy, as a function of the trajectory."
        ) from None
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InputError(f"the objective {name!r} returns {found.dtype} of shape {found.shape}; it must return one number.")


def best_constants(search: Search) -> tuple[Tried, list[Tried]]:
    """The best constant protocol, and all that were tried and stay finite, best first."""
    size = sum(search.rows)
    points = np.vstack([np.full(size, 0.5), qmc.Halton(size, scramble=False).random(SCANNED * size + 1)[1:]])
    tried = [evaluate(search, point) for point in points]
    tried = sorted((one for one in tried if one.value < FAILED), key=lambda one: one.value)
    found = []
    for point in _apart(tried, 2):
        descent = Descent(search)
        descent.run(point, 100)
        found += [descent.best] if descent.best else []
    if not found:
        raise InputError(
            f"no constant protocol within the bounds stays finite up to t_max = {search.end:g}; one must. "
            "Give lower bounds for the rates."
        )
    best = min(found, key=lambda one: one.value)
    if not callable(search.goal.objective) and np.exp(best.value) < SMALLEST:
        raise InputError(
            f"the best constant protocol already brings the objective to {np.exp(best.value):.1g}, where rounding begins; "
            "there must be more to gain. Shorten t_max or add noise."
        )
    return best, tried


def starting_points(best: Tried, tried: list[Tried], count: int) -> list[np.ndarray]:
    """Constant protocols to start from: the best, the middle of the bounds, then the best ones that differ from these."""
    chosen = [best.point, *(one.point for one in tried if np.all(one.point == 0.5))][:count]
    return [*chosen, *_apart(tried, count - len(chosen), chosen)]


def _apart(tried: list[Tried], count: int, chosen: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
    """The best points that differ from each other and from those chosen already; fewer if there are no more."""
    found: list[np.ndarray] = []
    for one in tried:
        if len(found) < count and all(np.max(np.abs(one.point - other)) >= APART for other in (*chosen, *found)):
            found.append(one.point)
    return found
