"""`optimize` and `greedy`: how should one teach a network? The best learning rates, tasks, noise and other numbers in time.

A protocol is a point. It holds one number for each segment of each control (or for each knot of a smooth one), from 0 at
the lower bound to 1 at the upper one. More than two tasks have one number each, whose softmax are the probabilities. A point
with one number for each row is a constant protocol. docs/how-to/protocols.md says how the best point is searched for.

The derivative is taken in forward mode, one tangent for each number: for 24 segments of two controls that is as fast as
reverse mode and compiles in a quarter of the time. Values, times and initial condition are data to the compiled program, so
that searches of equal shape share it. To add a control, let the core take a schedule in its place (`Problem.schedules`) and
add a row to `KNOBS`.

The drift of the overlaps is a quadratic in the rate, and so is the change of the error along it. So the greedy rate is known:
    d e_g / dalpha = c(u) - eta a(u) + eta^2 b(u),    eta*(u) = a(u) / (2 b(u))
c holds what moves at a rate of its own. A readout or bias that shares lr adds its |gradient|^2 to a and nothing to b. Only
the next moment counts: on a plateau a -> 0, the rate follows and the escape is delayed. `optimize` and D. Saad and M. Rattray,
Phys. Rev. Lett. 79, 2578 (1997), optimize over the whole time instead.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import simpson
from scipy.optimize import NonlinearConstraint, approx_fprime, minimize
from scipy.stats import qmc

from tutelage import checks
from tutelage._solve import assemble, prepare, sampled_rtol, solve
from tutelage._types import Array, ArrayLike, NumpyOrJax, Table
from tutelage.analysis.noise import states_of
from tutelage.analysis.result import AnalysisResult, first_time_at
from tutelage.dynamics import OrderParameters, Overlaps, initial_overlaps
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, TutelageWarning, explained
from tutelage.integrate.program import Options, integrate, tolerances
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
SHARPNESS = 20.0  # of the smooth maximum over tasks
PER_SEGMENT = 8  # intervals of the recorded times in each segment, at which integrals are taken (Simpson's rule)
SCANNED = 16  # constant protocols that are tried for each control
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


class Search(eqx.Module):
    """What a search minimizes. problem: with a schedule in place of each control, whose values a point replaces.

    level: to reach, for the objective "time". weights: of integrals over the recorded times. bounds: (control, 2), of values.
    budgets: (control, 2), of means over time, 0 at the lower bound and 1 at the upper one. shares: of the time that each
    segment or knot rules. rows: schedules of each control, several for more than two tasks.
    """

    problem: Problem
    start: Start
    moments: Moments
    steps: Any  # arrays here and below
    level: Any
    times: Any
    weights: Any
    bounds: Any
    budgets: Any
    shares: Any
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
        lengths, times = np.diff(edges), recorded_times(edges)
        self.shares = (lengths if shape == "piecewise" else np.convolve(lengths, [0.5, 0.5])) / edges[-1]
        self.names, self.objective, self.level = tuple(limits), objective, np.array(level)
        many = problem.teacher.count if "tasks" in limits and problem.teacher.count > 2 else 1
        self.rows = tuple(many if name == "tasks" else 1 for name in limits)
        self.bounds = np.array(list(limits.values()))
        middle = self.values(np.full(self.size, 0.5))
        controlled = changed(problem, {name: schedule_of(name, shape, edges, rows) for name, rows in middle.items()})
        prepare(controlled, start, times)
        self.problem, self.start, self.moments = as_arrays(controlled), as_arrays(start), moments_for(controlled)
        self.steps = tolerances(sampled_rtol(self.moments))
        needed = slice(-1, None) if objective in ("final", "worst") else slice(None)  # one time is solved faster
        self.times, self.weights = times[needed], np.asarray(simpson(np.eye(times.size), x=times))[needed]
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

    def measure(self, point: Array) -> Array:
        """The objective under the protocol of a point."""

        def controlled(problem: Problem) -> list[Any]:
            """The numbers of all schedules that are controlled; more than two tasks have one each."""
            found: list[Any] = [attrgetter(KNOBS[name].path)(problem) for name in self.names]
            return [schedule.values for each in found for schedule in (each if isinstance(each, tuple) else (each,))]

        rows = [row for values in self.values(point).values() for row in values]
        problem = eqx.tree_at(controlled, self.problem, rows)
        options = Options(gradient_flow=False, solver="explicit", keep=False)
        raw = integrate(problem, self.moments, initial_overlaps(problem, self.start), self.times, self.steps, options)
        return self.value(assemble(raw, self.times, problem, self.start, ()), smooth=True)

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
            return first_time_at(self.level, self.times, mean)
        last = jnp.ravel(error[-1])
        worst = jnp.max(last)
        return worst * jnp.mean((last / worst) ** SHARPNESS) ** (1 / SHARPNESS) if smooth else worst


@eqx.filter_jit
def value_and_slope(search: Search, point: Array) -> tuple[Array, Array]:
    """What a descent follows, and its derivative: ln(objective), or a custom objective itself."""

    def value(at: Array) -> tuple[Array, Array]:
        measured = search.measure(at)
        found = measured if callable(search.objective) else jnp.log(jnp.maximum(measured, jnp.finfo(float).tiny))
        return found, found

    slope, found = jax.jacfwd(value, has_aux=True)(point)
    return found, slope


class Tried(NamedTuple):
    """A point, its value (FAILED where the protocol diverges), and the slope there."""

    point: np.ndarray
    value: float
    slope: np.ndarray


VALUE = attrgetter("value")


def evaluate(search: Search, point: np.ndarray) -> Tried:
    """Value and slope of a point."""
    whole = jnp.repeat(jnp.asarray(point), search.size // point.size)
    value, slope = map(np.asarray, value_and_slope(search, whole))
    if not (np.isfinite(value) and np.all(np.isfinite(slope))):
        return Tried(point.copy(), FAILED, np.zeros(point.size))
    return Tried(point.copy(), float(value), slope.reshape(point.size, -1).sum(axis=1))


def descend(
    search: Search, point: np.ndarray, iterations: int, kept: list[Tried], tick: Callable[[], object] = lambda: None
) -> None:
    """Go down from a point; keep what is met within bounds and budgets. tick: called after each iteration."""
    first, (least, most) = len(kept), search.budgets.T

    def value(at: np.ndarray) -> tuple[float, np.ndarray]:
        tried, spent = evaluate(search, at), search.spent(at)
        if tried.value < FAILED and np.all((spent > least - FEASIBLE) & (spent < most + FEASIBLE)):
            kept.append(tried)
        return tried.value, tried.slope

    taken = 0
    how: Table = {"method": "L-BFGS-B"}
    if np.isfinite(search.budgets).any():
        how = {"method": "SLSQP", "constraints": NonlinearConstraint(search.spent, least, most)}
    for reach in REACHES:  # a first step that is too long ends where everything diverges: then look nearby
        near = min(kept[first:], key=VALUE).point if kept[first:] else point
        how["bounds"] = np.clip(np.stack([near - reach, near + reach], axis=1), 0.0, 1.0)
        how["options"] = {"maxiter": max(iterations - taken, 1), "ftol": 1e-9}
        taken += minimize(value, near, jac=True, callback=lambda _: tick(), **how).nit
        if taken >= iterations or (kept[first:] and free_slope(search, min(kept[first:], key=VALUE)) < CONVERGED):
            return


def free_slope(search: Search, tried: Tried) -> float:
    """Largest slope at a point in a direction that bounds and budgets leave free: 0 at an optimum."""
    z, _, slope = tried
    exhausted = np.any(np.abs(search.spent(z)[:, None] - search.budgets) < 10 * FEASIBLE, axis=1)
    rows: Any = approx_fprime(z, search.spent)
    active, inside = np.atleast_2d(rows)[exhausted], (z > AT_BOUND) & (z < 1 - AT_BOUND)
    slope = slope - active.T @ np.linalg.lstsq(active[:, inside].T, slope[inside], rcond=None)[0]
    free = ~(((z <= AT_BOUND) & (slope > 0)) | ((z >= 1 - AT_BOUND) & (slope < 0)))
    return float(np.max(np.abs(slope[free]), initial=0.0))


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
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InputError(f"the objective {name!r} is {found.dtype} of shape {found.shape}; it must be one number.")


def best_constants(search: Search) -> tuple[Tried, list[Tried]]:
    """The best constant protocol, and all that were tried and stay finite, best first."""
    size = sum(search.rows)
    points = np.vstack([np.full(size, 0.5), qmc.Halton(size, scramble=False).random(SCANNED * size + 1)[1:]])
    tried = [evaluate(search, point) for point in points]
    tried, kept = sorted((one for one in tried if one.value < FAILED), key=VALUE), []
    for point in _apart(tried, 2):
        descend(search, point, 100, kept)
    if not kept:
        raise InputError(f"no constant protocol stays finite up to t_max = {search.times[-1]:g}; give lower bounds.")
    best = min(kept, key=VALUE)
    if not callable(search.objective) and np.exp(best.value) < SMALLEST:
        raise InputError(f"a constant protocol reaches {np.exp(best.value):.1g}, mere rounding; shorten t_max or add noise.")
    return best, tried


def _apart(tried: list[Tried], count: int) -> list[np.ndarray]:
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
    what `Tasks(schedule=...)` takes. value: the objective under the protocol. trajectory: the theory under the protocol.
    baselines: other protocols by name; the first is "best constant". starts: the objective that the descent from each start
    reached. slope: the largest d ln(objective) / d control that bounds and budgets leave free, the control in units of its
    range; 0 at an optimum. sensitivity: by how much the objective grows, as a share of itself, if one segment of a control
    moves by 5% of its range. totals: the integral of each control over time. notes: on bounds that are met, or an interruption.
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
        """The same for each baseline."""
        return {name: one.value / self.value for name, one in self.baselines.items()}

    def simulate(self, dim: int, runs: int = 20, *, seed: int = 0, **options: Any) -> Trajectory:
        """Networks of finite size under the protocol, at the times of the trajectory. Options: those of `tu.simulate`."""
        return simulate(self.problem, self.start, dim=dim, times=self.trajectory.times, runs=runs, seed=seed, **options)

    def __str__(self) -> str:
        end, custom = float(self.trajectory.times[-1]), callable(self.objective)
        what = "objective" if custom else {"time": "time to the level"}.get(str(self.objective), f"{self.objective} error")
        names = " and ".join(self.schedules)
        lines = [f"protocol of {names} for the smallest {what} up to alpha = {end:g}: {self.value:.4g}"]
        for name, one in self.baselines.items():
            words = ", ".join(f"{which} {_in_words(value)}" for which, value in one.controls.items())
            lines.append(f"  {name}: {one.value:.4g}, {one.value / self.value:.4g} times as much ({words})")
        for name, total in self.totals.items():
            lines.append(f"  {name}: {_in_words(self.schedules[name])}; mean {total / end:.4g}")
        ends = ", ".join(f"{value:.4g}" for value in self.starts)
        lines.append(f"starts ended at {ends}; largest free slope {self.slope:.1e}")
        return "\n".join([*lines, *self.notes])


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
        "time", the time at which the error reaches `level`; or a JAX function of the trajectory that returns one number.
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
        Descents: from the best constant protocol, from the middle of the bounds, then from the best constant ones that differ.
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
    search, times, descents, interrupted = searching(problem, limits), recorded_times(edges), [], False
    require_number(search)

    def judged(controls: Table) -> Baseline:
        """The theory under controls, and its objective; infinite if it does not reach the end."""
        theory = solve(changed(problem, controls), start, times, gradient="forward", accuracy=None)
        return Baseline(controls, theory, float(search.value(theory)) if theory.finished else np.inf)

    with progress_bar(starts * iterations, "optimizing", shown) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # a trial may diverge; the final choice warns
        constant, tried = best_constants(search)
        compared = {"best constant": judged(_numbers(search, constant))}
        for name, given in others.items():  # controls that a baseline leaves out are constants, chosen best
            free = {control: pair for control, pair in limits.items() if control not in given}
            rest = searching(changed(problem, given), free) if free else None
            compared[name] = judged(given if rest is None else given | _numbers(rest, best_constants(rest)[0]))
        try:
            middle = [one for one in tried if np.all(one.point == 0.5)]
            for point in _apart([constant, *middle, *tried], starts):
                descents.append([])
                descend(search, np.repeat(point, search.shares.size), iterations, descents[-1], bar.update)
        except KeyboardInterrupt:
            interrupted = True
    ended = [min(kept, key=VALUE) for kept in descents if kept]
    if not ended:
        raise InputError("cannot optimize: no finite derivative at the best constant protocol. Narrow the bounds.")
    best = min(ended, key=VALUE)
    chosen = {name: np.asarray(rows) for name, rows in search.values(best.point).items()}
    schedules = {name: schedule_of(name, shape, edges, rows) for name, rows in chosen.items()}
    own, values = judged(schedules), np.array([one.value for one in ended])
    return OptimalProtocol(
        problem=changed(problem, schedules),
        start=start,
        objective=objective,
        bounds=limits,
        schedules=schedules,
        value=own.value,
        trajectory=own.trajectory,
        baselines=compared,
        starts=values if callable(objective) else np.exp(values),
        slope=free_slope(search, best),
        sensitivity=_sensitivity(search, best, interrupted),
        totals={name: t_max * float(rows[0] @ search.shares) for name, rows in chosen.items()},
        notes=(*_bound_notes(search, best.point), *["interrupted: the best protocol so far"] * interrupted),
    )


def _numbers(search: Search, constant: Tried) -> Table:
    """The values of a constant protocol by name; lists for more than two tasks."""
    values = {name: np.ravel(rows).tolist() for name, rows in search.values(constant.point).items()}
    return {name: each if len(each) > 1 else each[0] for name, each in values.items()}


def _sensitivity(search: Search, best: Tried, interrupted: bool) -> dict[str, np.ndarray]:
    """The growth of the objective when one number of the point moves by NUDGE towards the middle of its range."""
    growth = np.full(search.size, np.nan)
    for i, z in enumerate(best.point if not interrupted else ()):
        moved = best.point.copy()
        moved[i] += NUDGE if z < 0.5 else -NUDGE
        growth[i] = evaluate(search, moved).value - best.value
    growth = growth / abs(best.value) if callable(search.objective) else np.expm1(growth)
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
