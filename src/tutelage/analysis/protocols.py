"""`optimize`: how should one teach a network? The best course in time of learning rates, tasks, noise and other numbers.

The theory predicts what every protocol costs, so a protocol is found by following the gradient of the solved theory. A point
of the search holds one number for each segment of each control (or for each knot of a smooth one), from 0 at the lower bound
to 1 at the upper one. More than two tasks have one number each, whose softmax are the probabilities.

The derivative is taken in forward mode, one tangent for each number: for 24 segments of two controls that is as fast as
reverse mode and compiles in a quarter of the time. Values, times and initial condition are data to the compiled program, so
that searches of equal shape share it. L-BFGS-B keeps the bounds; SLSQP also keeps budgets (limits on integrals over time).
The search is local, from several starts; one of them is the best constant protocol, so that the result is never worse.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.stats import qmc
from tqdm.auto import tqdm

from tutelage import checks
from tutelage._solve import assemble, prepare, sampled_rtol, solve
from tutelage._types import Array, Table
from tutelage.analysis.controls import (
    FEASIBLE,
    KNOBS,
    Limits,
    changed,
    checked_budgets,
    checked_controls,
    checked_edges,
    knob_of,
    schedule_of,
)
from tutelage.analysis.result import AnalysisResult
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import InputError, TutelageWarning, cause
from tutelage.integrate.program import Options, anonymous, integrate, tolerances
from tutelage.moments import Moments, moments_for
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Interleave, Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import MIXTURES, TASKS
from tutelage.progress import SILENT_SECONDS
from tutelage.simulation import simulate
from tutelage.trajectory import Trajectory

Objective: TypeAlias = str | Callable[[Trajectory], ArrayLike]

OBJECTIVES = ("final", "integrated", "worst", "time")
SHAPES = ("piecewise", "smooth")
LOGIT = 8.0  # largest logit of a task's probability
SHARPNESS = 20.0  # of the smooth maximum over tasks
PER_SEGMENT = 8  # intervals of the recorded times in each segment, at which integrals are taken (Simpson's rule)
SCANNED = 16  # constant protocols that are tried for each control
FAILED = 50.0  # the value, in logarithms, of a protocol that diverges
REACHES = (1.0, 0.2, 0.05, 1.0)  # of the range: how far from the best point a descent goes, one after the other
CONVERGED = 1e-3  # a slope that is small enough
AT_BOUND = 1e-6  # of the range: a control this close to a bound lies on it
APART = 0.15  # of the range: protocols this far apart are different starts
NUDGE = 0.05  # of the range of a control: the change whose cost `sensitivity` tells
SMALLEST = 1e-12  # errors below this are not solved to a digit


class Search(eqx.Module):
    """What a search minimizes. problem: with a schedule in place of each control, whose values a point replaces.

    knots: where schedules switch or bend. times: where the error is recorded. weights: of the integral over them.
    bounds: (control, 2). rows: schedules of each control, several for more than two tasks.
    """

    problem: Problem
    start: Start
    moments: Moments
    times: Any  # arrays here and below
    weights: Any
    steps: Any
    bounds: Any
    level: Any
    shares: Any  # of the time that each segment or knot rules
    names: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    options: Options = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Numbers in a point."""
        return sum(self.rows) * self.shares.shape[0]

    def values(self, point: Array) -> list[Array]:
        """The values of each control, (rows, segments)."""
        table, out, first = point.reshape(sum(self.rows), -1), [], 0
        for (low, high), rows in zip(self.bounds, self.rows, strict=True):
            own, first = table[first : first + rows], first + rows
            out.append(low + own * (high - low) if rows == 1 else jax.nn.softmax(LOGIT * (2 * own - 1), axis=0))
        return out

    def problem_at(self, point: Array) -> Problem:
        """The problem under the protocol of a point."""
        places = partial(_places, names=self.names)
        return eqx.tree_at(places, self.problem, [row for values in self.values(point) for row in values])

    def integrals(self, point: Array) -> Array:
        """The integral of each control over time (of the first task's probability)."""
        return self.times[-1] * jnp.stack([values[0] @ self.shares for values in self.values(point)])

    def measure(self, problem: Problem) -> Array:
        """The objective."""
        raw = integrate(problem, self.moments, self.start, self.times, self.steps, self.options)
        if callable(self.objective):
            return jnp.asarray(self.objective(assemble(raw, self.times, problem, self.start, ())))
        return self.of_error(raw.error)

    def of_error(self, error: Array) -> Array:
        """The objective as a function of the error, (time,) or (time, task)."""
        if self.objective == "worst":
            last = jnp.ravel(error[-1])
            return jnp.max(last) * jnp.mean((last / jnp.max(last)) ** SHARPNESS) ** (1 / SHARPNESS)
        mean = error.mean(axis=1) if error.ndim > 1 else error
        if self.objective == "final":
            return mean[-1]
        return self.weights @ mean if self.objective == "integrated" else _time_to(self.level, self.times, mean)


def _places(problem: Problem, names: tuple[str, ...]) -> list[Any]:
    """The numbers of all schedules that are controlled."""
    return [schedule.values for name in names for schedule in KNOBS[name].schedules(problem)]


def _time_to(level: Array, times: Array, error: Array) -> Array:
    """When ln error, linear between recorded times, falls to the level; later than all times if it does not."""
    above = jnp.log(error / level)
    late = times[-1] * (1 + above[-1])
    after = jnp.clip(jnp.argmax(above <= 0), 1)
    (t0, y0), (t1, y1) = ((times[i], above[i]) for i in (after - 1, after))
    gap = jnp.where(y0 > y1, y0 - y1, 1.0)
    found = jnp.where(above[0] <= 0, times[0], t0 + (t1 - t0) * y0 / gap)
    return jnp.where(jnp.any(above <= 0), found, late)


@eqx.filter_jit
def value_and_slope(search: Search, point: Array) -> tuple[Array, Array]:
    """What a descent follows, and its derivative: ln(objective), or a custom objective itself."""

    def value(at: Array) -> Array:
        measured = search.measure(search.problem_at(at))
        return measured if callable(search.objective) else jnp.log(jnp.maximum(measured, jnp.finfo(float).tiny))

    along = lambda direction: jax.jvp(value, (point,), (direction,))  # noqa: E731
    return jax.vmap(along, out_axes=(None, 0))(jnp.eye(point.size))


@eqx.filter_jit
def _integrals(search: Search, point: Array) -> tuple[Array, Array]:
    return search.integrals(point), jax.jacfwd(search.integrals)(point)


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: point, value and slope there, and the value after each iteration."""

    point: np.ndarray
    value: float
    slope: np.ndarray
    history: tuple[float, ...] = ()


@dataclass
class Descender:
    """Follows the slope down within the bounds and budgets; keeps the best point met, also when it is interrupted.

    constant: a point has one number for each row, the same for all segments.
    """

    search: Search
    budgets: dict[str, Limits]
    constant: bool = False
    tick: Callable[[], object] = lambda: None
    interrupted: bool = False

    @property
    def repeats(self) -> int:
        """How often each number of a point stands in that of the search."""
        return self.search.shares.shape[0] if self.constant else 1

    def evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and slope; those of a protocol that diverges are large and zero."""
        value, slope = map(np.asarray, value_and_slope(self.search, jnp.repeat(jnp.asarray(point), self.repeats)))
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return FAILED, np.zeros(point.size)
        return float(value), slope.reshape(point.size, -1).sum(axis=1)

    def excess(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each budget leaves (negative: exceeded), as a share of what the control can have, and its slope."""
        totals, slopes = map(np.asarray, _integrals(self.search, jnp.repeat(jnp.asarray(point), self.repeats)))
        slopes = slopes.reshape(len(totals), point.size, -1).sum(axis=2)
        left, rows = [], []
        for name, limits in self.budgets.items():
            i = self.search.names.index(name)
            unit = float(self.search.times[-1]) * float(np.ptp(self.search.bounds[i]))
            for sign, limit in zip((1.0, -1.0), limits, strict=True):
                if np.isfinite(limit):
                    left.append(sign * (totals[i] - limit) / unit)
                    rows.append(sign * slopes[i] / unit)
        return np.array(left), np.array(rows).reshape(len(left), point.size)

    def from_point(self, point: np.ndarray, iterations: int) -> Descent | None:
        """The best point met on the way down; None if there is no finite one within the budgets."""
        best: list[Descent] = []
        history: list[float] = []

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self.evaluate(x)
            better = value < FAILED and (not best or value < best[-1].value)
            if better and (not self.budgets or self.excess(x)[0].min() > -FEASIBLE):
                best.append(Descent(x.copy(), value, slope))
            return value, slope

        def record(_: object) -> None:
            history.append(best[-1].value if best else np.nan)
            self.tick()

        method: Table = {"method": "L-BFGS-B"}
        if self.budgets:
            limit = {"type": "ineq", "fun": lambda x: self.excess(x)[0], "jac": lambda x: self.excess(x)[1]}
            method = {"method": "SLSQP", "constraints": [limit]}
        try:
            for reach in REACHES:  # a first step that is too long ends where everything diverges: then look nearby
                near = best[-1].point if best else point
                bounds = np.clip(np.stack([near - reach, near + reach], axis=1), 0.0, 1.0)
                how = {"maxiter": max(iterations - len(history), 1), "ftol": 1e-9}
                minimize(evaluate, near, jac=True, bounds=bounds, callback=record, options=how, **method)
                if len(history) >= iterations or (best and self.slope_left(best[-1]) < CONVERGED):
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        return replace(best[-1], history=(best[0].value, *history)) if best else None

    def slope_left(self, found: Descent) -> float:
        """Largest slope in a direction that bounds and budgets leave free: 0 at an optimum."""
        z, slope = found.point, found.slope
        if self.budgets:
            left, rows = self.excess(z)
            active, inside = rows[left < 10 * FEASIBLE], (z > AT_BOUND) & (z < 1 - AT_BOUND)
            slope = slope - active.T @ np.linalg.lstsq(active[:, inside].T, slope[inside], rcond=None)[0]
        free = ~(((z <= AT_BOUND) & (slope > 0)) | ((z >= 1 - AT_BOUND) & (slope < 0)))
        return float(np.max(np.abs(slope[free]), initial=0.0))


@dataclass(frozen=True)
class Baseline:
    """Another protocol for comparison. controls: numbers and schedules by name. value: its objective."""

    controls: Table
    trajectory: Trajectory
    value: float


@dataclass(frozen=True, repr=False)
class OptimalProtocol(AnalysisResult, figure="plot_protocol"):
    """What `optimize` found.

    Attributes
    ----------
    problem : Problem
        With the protocol in it, as `solve`, `simulate` and files take it.
    schedules : dict
        The schedule of each control by name; of "tasks" what `Tasks(schedule=...)` takes.
    value : float
        The objective under the protocol.
    trajectory : Trajectory
        The theory under the protocol.
    baselines : dict of Baseline
        Other protocols by name; the first is "best constant".
    starts : ndarray
        The objective that the descent from each start reached.
    slope : float
        Largest d ln(objective) / d control that bounds and budgets leave free, the control in units of its range; 0 at an
        optimum.
    sensitivity : dict of ndarray
        By how much the objective grows, as a share of itself, if one segment of a control moves by 5% of its range.
    totals : dict of float
        The integral of each control over time.
    history : ndarray
        The objective after each iteration of the best descent.
    notes : tuple of str
        What belongs to the numbers: bounds that are met, an interruption.
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
    sensitivity: dict[str, np.ndarray] = field(repr=False)
    totals: dict[str, float]
    history: np.ndarray = field(repr=False)
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

    @property
    def spread(self) -> float:
        """How much worse the worst start ended than the best, as a share."""
        return float(np.ptp(self.starts) / abs(np.min(self.starts)))

    def simulate(self, dim: int, runs: int = 20, *, seed: int = 0, **options: Any) -> Trajectory:
        """Networks of finite size under the protocol, at the times of the trajectory. Options: those of `tu.simulate`."""
        return simulate(self.problem, self.start, dim=dim, times=self.trajectory.times, runs=runs, seed=seed, **options)

    def __str__(self) -> str:
        end, custom = float(self.trajectory.times[-1]), callable(self.objective)
        what = "objective" if custom else {"time": "time to the level"}.get(str(self.objective), f"{self.objective} error")
        lines = [
            f"protocol of {' and '.join(self.schedules)} for the smallest {what} up to alpha = {end:g}: {self.value:.4g}"
        ]
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
    quadrature: Quadrature | None = None,
    progress: bool = False,
) -> OptimalProtocol:
    """The protocol on [0, t_max] that makes an objective smallest, in the limit of large N.

    Parameters
    ----------
    problem : Problem
        A number or schedule of it that is controlled only has to exist; the protocol replaces it.
    start : Start
        The initial condition.
    t_max : float
        The last time.
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
        Protocols to compare with, as {"half": {"tasks": 0.5}}: numbers or schedules. Controls left out are constants, chosen
        best.
    starts : int
        Descents: from the best constant protocol, from the middle of the bounds, then from the best constant ones that differ.
    iterations : int
        The most of each descent.
    quadrature : Quadrature, optional
        As in `solve`.
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
    edges = checked_edges(segments, t_max)
    if not callable(objective):
        objective = checks.known("objective", objective, OBJECTIVES)
    if (objective == "time") != (level is not None):
        raise InputError(
            f"objective is {checks.shown(objective)} and level is {checks.shown(level)}; 'time' needs a level, the error to "
            "reach, and no other objective has one."
        )
    target = 1.0 if level is None else checks.as_positive("level", level)
    checks.known("shape", shape, SHAPES)
    starts, iterations = checks.as_count("starts", starts), checks.as_count("iterations", iterations)
    limited = checked_budgets(budgets or {}, limits, t_max)
    make = partial(_search, start=start, edges=edges, objective=objective, level=target, quadrature=quadrature)
    search = make(problem, limits, shape=shape)
    _require_number(search)
    judge = partial(_judged, start=start, edges=edges, objective=objective, level=target, quadrature=quadrature)
    bar = tqdm(
        total=starts * iterations,
        desc="optimizing",
        delay=SILENT_SECONDS,
        leave=False,
        disable=not checks.as_flag("progress", progress),
    )
    with bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # a trial may diverge; the final choice warns
        constant, tried = _best_constants(Descender(search, limited, constant=True))
        compared = {"best constant": judge(problem, _numbers(search, constant.point))}
        for name, given in (baselines or {}).items():
            compared[name] = judge(problem, _completed(make, problem, limits, limited, name, given))
        descender, found = Descender(search, limited, tick=bar.update), []
        for point in _starts(constant, tried, starts):
            found.append(descender.from_point(np.repeat(point, search.shares.size), iterations))
            if descender.interrupted:
                break
    ended = [one for one in found if one is not None]
    if not ended:
        raise InputError(
            "cannot optimize: the derivative of the objective is not finite at the best constant protocol. "
            "Narrow the bounds."
        )
    best = min(ended, key=lambda one: one.value)
    values = [np.asarray(rows) for rows in search.values(jnp.asarray(best.point))]
    schedules = {name: schedule_of(name, shape, edges, rows) for name, rows in zip(limits, values, strict=True)}
    own = judge(problem, schedules)
    finish = (lambda x: x) if callable(objective) else np.exp
    return OptimalProtocol(
        problem=changed(problem, schedules),
        start=start,
        objective=objective,
        bounds=limits,
        schedules=schedules,
        value=own.value,
        trajectory=own.trajectory,
        baselines=compared,
        starts=finish(np.array([one.value for one in ended])),
        slope=descender.slope_left(best),
        sensitivity=_sensitivity(descender, best),
        totals=dict(zip(limits, np.asarray(search.integrals(jnp.asarray(best.point))).tolist(), strict=True)),
        history=finish(np.array(best.history)),
        notes=(
            *_bound_notes(search, best.point, limits),
            *["interrupted: the best protocol so far"] * descender.interrupted,
        ),
    )


def _judged(
    problem: Problem,
    controls: Table,
    *,
    start: Start,
    edges: np.ndarray,
    objective: Objective,
    level: float,
    quadrature: Quadrature | None,
) -> Baseline:
    """The theory under controls, and its objective; infinite if it does not reach the end."""
    times, weights = _grid(edges)
    trajectory = solve(changed(problem, controls), start, times, gradient="forward", quadrature=quadrature)
    error = np.asarray(trajectory.error)
    if not trajectory.finished:
        value = np.inf
    elif callable(objective):
        value = float(np.asarray(objective(trajectory)))
    else:
        mean = error if error.ndim == 1 else error.mean(axis=1)
        value = {
            "final": lambda: mean[-1],
            "integrated": lambda: weights @ mean,
            "worst": lambda: np.max(error[-1]),
            "time": lambda: _time_to(jnp.asarray(level), jnp.asarray(times), jnp.asarray(mean)),
        }[objective]()
    return Baseline(controls, trajectory, float(value))


def _numbers(search: Search, point: np.ndarray) -> Table:
    """The values of a constant protocol by name; lists for more than two tasks."""
    rows = [np.asarray(values)[:, 0].tolist() for values in search.values(jnp.asarray(point))]
    return {name: row if len(row) > 1 else row[0] for name, row in zip(search.names, rows, strict=True)}


def _completed(
    make: Callable[..., Search],
    problem: Problem,
    limits: dict[str, Limits],
    budgets: dict[str, Limits],
    name: str,
    given: object,
) -> Table:
    """The controls of a baseline; those that are left out are constants, chosen best."""
    if not isinstance(given, Mapping):
        raise InputError(f"the baseline {name!r} is {checks.shown(given)}; it must be a table, such as {{'tasks': 0.5}}.")
    for knob in given:
        knob_of(problem, knob)
    rest = {knob: pair for knob, pair in limits.items() if knob not in given}
    if not rest:
        return dict(given)
    search = make(changed(problem, given), rest, shape="constant")
    found, _ = _best_constants(
        Descender(search, {knob: pair for knob, pair in budgets.items() if knob in rest}, constant=True)
    )
    return dict(given) | _numbers(search, found.point)


def _sensitivity(descender: Descender, found: Descent) -> dict[str, np.ndarray]:
    """The growth of the objective when one number of the point moves by NUDGE towards the middle of its range."""
    search, custom, growth = descender.search, callable(descender.search.objective), []
    for i, z in enumerate(found.point):
        moved = found.point.copy()
        moved[i] += NUDGE if z < 0.5 else -NUDGE
        value = descender.evaluate(moved)[0] if not descender.interrupted else np.nan
        growth.append((value - found.value) / abs(found.value) if custom else np.expm1(value - found.value))
    table, edges = np.array(growth).reshape(sum(search.rows), -1), np.cumsum([0, *search.rows])
    return {
        name: np.squeeze(table[a:b], 0) if b - a == 1 else table[a:b]
        for name, a, b in zip(search.names, edges, edges[1:], strict=False)
    }


def _bound_notes(search: Search, point: np.ndarray, limits: dict[str, Limits]) -> list[str]:
    """Where a control lies on a bound that could be another one."""
    notes, edges = [], np.cumsum([0, *search.rows])
    for (name, pair), a, b in zip(limits.items(), edges, edges[1:], strict=False):
        own = point.reshape(sum(search.rows), -1)[a:b]
        for word, bound, met in zip(("lower", "upper"), pair, (own < AT_BOUND, own > 1 - AT_BOUND), strict=True):
            if met.any() and bound not in (0.0, KNOBS[name].highest):
                places = f"{met.sum()} of {own.size} places"
                notes.append(f"{name} lies at its {word} bound {bound:g} at {places}; other bounds may gain more")
    return notes


def _search(
    problem: Problem,
    limits: dict[str, Limits],
    *,
    start: Start,
    edges: np.ndarray,
    objective: Objective,
    level: float,
    quadrature: Quadrature | None,
    shape: str,
) -> Search:
    lengths = np.diff(edges)
    shares = {"piecewise": lengths, "smooth": np.convolve(lengths, [0.5, 0.5]), "constant": edges[-1:]}[shape] / edges[-1]
    rows = {name: problem.teacher.count if name == "tasks" and problem.teacher.count > 2 else 1 for name in limits}
    initial = {
        name: np.full((rows[name], shares.size), np.mean(pair) if rows[name] == 1 else 1 / rows[name])
        for name, pair in limits.items()
    }
    controlled = changed(problem, {name: schedule_of(name, shape, edges, rows) for name, rows in initial.items()})
    moments = moments_for(controlled, quadrature)
    times, weights = _grid(edges)
    last = objective in ("final", "worst")
    prepare(controlled, start, times)
    return Search(
        problem=as_arrays(controlled),
        start=as_arrays(anonymous(start)),
        moments=moments,
        times=times[-1:] if last else times,
        weights=weights[-1:] if last else weights,
        steps=tolerances(sampled_rtol(moments)),
        bounds=np.array(list(limits.values())).reshape(-1, 2),
        level=np.array(level),
        shares=shares,
        names=tuple(limits),
        rows=tuple(rows.values()),
        objective=objective,
        options=Options(gradient_flow=False, solver="explicit", keep=False),
    )


def _grid(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Recorded times, even in each segment, and the weights of Simpson's rule."""
    shares = np.arange(PER_SEGMENT) / PER_SEGMENT
    times = np.append((edges[:-1, None] + np.diff(edges)[:, None] * shares).ravel(), edges[-1])
    weights, rule = np.zeros(times.size), np.array([1.0, *[4.0, 2.0] * (PER_SEGMENT // 2 - 1), 4.0, 1.0]) / 3 / PER_SEGMENT
    for i, length in enumerate(np.diff(edges)):
        weights[i * PER_SEGMENT : (i + 1) * PER_SEGMENT + 1] += length * rule
    return times, weights


def _require_number(search: Search) -> None:
    """A custom objective must return one real number."""
    if not callable(search.objective):
        return
    name = getattr(search.objective, "__name__", "objective")
    try:
        found = jax.eval_shape(lambda: search.measure(search.problem))
    except Exception as error:
        raise InputError(
            f"the objective {name!r} fails ({cause(error)}); write it with jax.numpy, as a function of the trajectory."
        ) from None
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InputError(f"the objective {name!r} returns {found.dtype} of shape {found.shape}; it must return one number.")


def _best_constants(descender: Descender) -> tuple[Descent, list[Descent]]:
    """The best constant protocol, and all that were tried and stay finite, best first."""
    search, size = descender.search, sum(descender.search.rows)
    points = np.vstack([np.full(size, 0.5), qmc.Halton(size, scramble=False).random(SCANNED * size + 1)[1:]])
    tried = [Descent(point, *descender.evaluate(point)) for point in points]
    tried = sorted((one for one in tried if one.value < FAILED), key=lambda one: one.value)
    found = [one for point in _apart(tried, 2) if (one := descender.from_point(point, 100)) is not None]
    if not found:
        raise InputError(
            f"no constant protocol within the bounds stays finite up to t_max = {float(search.times[-1]):g}; one must. "
            "Give lower bounds for the rates."
        )
    best = min(found, key=lambda one: one.value)
    if not callable(search.objective) and np.exp(best.value) < SMALLEST:
        raise InputError(
            f"the best constant protocol already brings the objective to {np.exp(best.value):.1g}, where rounding begins; "
            "there must be more to gain. Shorten t_max or add noise."
        )
    return best, tried


def _apart(tried: list[Descent], count: int, chosen: tuple[np.ndarray, ...] = ()) -> list[np.ndarray]:
    """The best points that differ from each other and from those chosen already; fewer if there are no more."""
    found: list[np.ndarray] = []
    for one in tried:
        if len(found) < count and all(np.max(np.abs(one.point - other)) >= APART for other in (*chosen, *found)):
            found.append(one.point)
    return found


def _starts(best: Descent, tried: list[Descent], count: int) -> list[np.ndarray]:
    """Constant protocols to start from: the best, the middle of the bounds, then the best ones that differ from these."""
    chosen = [best.point, *(one.point for one in tried if np.all(one.point == 0.5))][:count]
    return [*chosen, *_apart(tried, count - len(chosen), tuple(chosen))]
