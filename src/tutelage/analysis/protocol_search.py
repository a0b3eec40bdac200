"""The search behind `optimize`: what can be controlled, and a descent along the gradient of the solved theory.

To add a control, let the core take a schedule in its place (`Problem.schedules`) and add a row to `KNOBS`.

A protocol is a point. It holds one number for each segment of each control (or for each knot of a smooth one), from 0 at the
lower bound to 1 at the upper one. More than two tasks have one number each, whose softmax are the probabilities. A point with
one number for each row is a constant protocol.

The derivative is taken in forward mode, one tangent for each number: for 24 segments of two controls that is as fast as
reverse mode and compiles in a quarter of the time. Values, times and initial condition are data to the compiled program, so
that searches of equal shape share it. L-BFGS-B keeps the bounds; SLSQP also keeps budgets (limits on integrals over time).
The search is local, from several starts; one of them is the best constant protocol, so that the result is never worse.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import simpson
from scipy.optimize import minimize
from scipy.stats import qmc

from tutelage import rules
from tutelage._solve import assemble, prepare, sampled_rtol
from tutelage._types import Array
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, explained
from tutelage.integrate.program import Options, anonymous, integrate, tolerances
from tutelage.labels import Real, Sign
from tutelage.moments import Moments, moments_for
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Interleave, Linear, Piecewise, Problem, Replay, SlowMomentum, Start, Tasks
from tutelage.trajectory import Trajectory

Objective: TypeAlias = str | Callable[[Trajectory], ArrayLike]
Limits: TypeAlias = tuple[float, float]

NO_BUDGET = (-np.inf, np.inf)
FEASIBLE = 1e-6  # by which a budget may be exceeded, as a share of what the control can have
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


class Knob(NamedTuple):
    """A control. path: where its schedule stands. has: does a problem have it? fix: what to do if not."""

    path: str
    has: Callable[[Problem], bool]
    fix: str
    highest: float = np.inf

    def schedules(self, problem: Problem) -> tuple[Any, ...]:
        """Its schedule in a problem; of more than two tasks, one for each."""
        found = reduce(getattr, self.path.split("."), problem)
        return found if isinstance(found, tuple) else (found,)


KNOBS: dict[str, Knob] = {
    "lr": Knob(
        "sgd.lr",
        lambda p: not isinstance(p.sgd.momentum, SlowMomentum) or p.sgd.momentum.k is None,
        "the momentum has its own force k, so lr does not move the first layer; use SlowMomentum(gamma)",
    ),
    "readout_lr": Knob(
        "sgd.readout_lr",
        lambda p: p.student.train_readout,
        "the readout is not trained; use Network(..., train_readout=True)",
    ),
    "bias_lr": Knob(
        "sgd.bias_lr", lambda p: p.student.train_bias, "the biases are not trained; use Network(..., train_bias=True)"
    ),
    "weight_decay": Knob(
        "sgd.weight_decay", lambda p: not p.sgd.spherical, "spherical weights have a fixed length; use spherical=False"
    ),
    "noise": Knob(
        "noise", lambda p: type(p.labels) is Real, "noise belongs to labels='real'; control 'flip' of labels='sign'"
    ),
    "flip": Knob(
        "labels.flip",
        lambda p: isinstance(p.labels, Sign),
        "only labels='sign' are flipped; control 'noise' of labels='real'",
        1.0,
    ),
    "keep": Knob(
        "rule.keep",
        lambda p: isinstance(p.rule, rules.Dropout),
        "the rule drops no units; use rule=tu.rules.Dropout(0.8)",
        1.0,
    ),
    "feedback": Knob(
        "rule.strength",
        lambda p: isinstance(p.rule, rules.FeedbackAlignment),
        "the rule has no feedback weights; use rule=tu.rules.FeedbackAlignment(...)",
    ),
    "tasks": Knob(
        "teacher.schedule.shares",
        lambda p: isinstance(p.teacher, Tasks),
        "it has one teacher; give several, tu.Tasks([...])",
        1.0,
    ),
    "replay": Knob(
        "teacher.schedule.fraction",
        lambda p: isinstance(p.teacher, Tasks) and isinstance(p.teacher.schedule, Replay),
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
    shares: Any = each if len(each) > 1 else each[0]
    return Interleave(shares) if name == "tasks" else shares


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
        return self.goal.times[-1] * jnp.stack([values[0] @ self.shares for values in self.values(point).values()])

    def left(self, point: Array) -> Array:
        """What the budgets leave (negative: exceeded), as a share of what the control can have, (control, 2)."""
        ranges = self.goal.times[-1] * (self.bounds[:, 1] - self.bounds[:, 0])
        return jnp.array([1.0, -1.0]) * (self.integrals(point)[:, None] - self.budgets) / ranges[:, None]


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


class Tried(NamedTuple):
    """A point, its value, and the slope there."""

    point: np.ndarray
    value: float
    slope: np.ndarray


def evaluate(search: Search, point: np.ndarray) -> Tried:
    """Value and slope of a point; those of a protocol that diverges are large and zero."""
    whole = jnp.repeat(jnp.asarray(point), search.size // point.size)
    value, slope = map(np.asarray, value_and_slope(search, whole))
    if not (np.isfinite(value) and np.all(np.isfinite(slope))):
        return Tried(point.copy(), FAILED, np.zeros(point.size))
    return Tried(point.copy(), float(value), slope.reshape(point.size, -1).sum(axis=1))


@eqx.filter_jit
def _left_and_slopes(search: Search, point: Array) -> tuple[Array, Array]:
    def left(at: Array) -> Array:
        return search.left(jnp.repeat(at, search.size // point.size))

    return left(point), jax.jacfwd(left)(point)


def budgets_left(search: Search, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each budget that has a limit leaves, (budget,), and its slope, (budget, number)."""
    left, slopes = map(np.asarray, _left_and_slopes(search, point))
    limited = np.isfinite(search.budgets)
    return left[limited], slopes[limited]


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
        taken, how = 0, {"method": "L-BFGS-B", "jac": True, "callback": lambda _: tick()}
        if self.limited:
            left = partial(budgets_left, self.search)
            limits = {"type": "ineq", "fun": lambda x: left(x)[0], "jac": lambda x: left(x)[1]}
            how |= {"method": "SLSQP", "constraints": [limits]}
        for reach in REACHES:  # a first step that is too long ends where everything diverges: then look nearby
            near = point if self.best is None else self.best.point
            bounds = np.clip(np.stack([near - reach, near + reach], axis=1), 0.0, 1.0)
            options = {"maxiter": max(iterations - taken, 1), "ftol": 1e-9}
            taken += minimize(self._evaluate, near, bounds=bounds, options=options, **how).nit
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


def new_search(
    problem: Problem,
    limits: dict[str, Limits],
    *,
    start: Start,
    edges: np.ndarray,
    shape: str,
    goal: Goal,
    budgets: dict[str, Limits],
    quadrature: Quadrature | None,
) -> Search:
    """The search for the best protocol of a problem within limits of its controls, of this shape between the edges."""
    lengths, rows, initial = np.diff(edges), [], {}
    shares = (lengths if shape == "piecewise" else np.convolve(lengths, [0.5, 0.5])) / edges[-1]
    for name, pair in limits.items():
        rows.append(problem.teacher.count if name == "tasks" and problem.teacher.count > 2 else 1)
        middle = np.mean(pair) if rows[-1] == 1 else 1 / rows[-1]
        initial[name] = schedule_of(name, shape, edges, np.full((rows[-1], shares.size), middle))
    controlled = changed(problem, initial)
    moments = moments_for(controlled, quadrature)
    prepare(controlled, start, goal.times)
    if goal.objective in ("final", "worst"):  # the last time is enough, and solved faster
        goal = Goal(goal.objective, goal.level, goal.times[-1:], goal.weights[-1:])
    search = Search(
        problem=as_arrays(controlled),
        start=as_arrays(anonymous(start)),
        moments=moments,
        goal=goal,
        steps=tolerances(sampled_rtol(moments)),
        bounds=np.array(list(limits.values())),
        budgets=np.array([budgets.get(name, NO_BUDGET) for name in limits]),
        shares=shares,
        names=tuple(limits),
        rows=tuple(rows),
    )
    if callable(goal.objective):
        name = getattr(goal.objective, "__name__", "objective")
        with explained(f"the objective {name!r} fails", "write it with jax.numpy, as a function of the trajectory."):
            found = jax.eval_shape(search.measure, jnp.full(search.size, 0.5))
        if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
            raise InputError(
                f"the objective {name!r} returns {found.dtype} of shape {found.shape}; it must return one number."
            )
    return search


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
            f"no constant protocol within the bounds stays finite up to t_max = {search.goal.times[-1]:g}; one must. "
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
