"""`optimize`: how should one teach a network? The best course in time of learning rates, tasks, noise and other numbers.

The theory predicts what every protocol costs, so the best one is found by following the gradient of the solved theory
(protocol_search.py). controls.py has what can be controlled.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from tqdm.auto import tqdm

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import Table
from tutelage.analysis.controls import (
    KNOBS,
    Limits,
    changed,
    checked_baselines,
    checked_budgets,
    checked_controls,
    checked_edges,
    schedule_of,
)
from tutelage.analysis.protocol_search import (
    AT_BOUND,
    ControlProblem,
    Descent,
    Goal,
    Objective,
    Search,
    Tried,
    best_constants,
    evaluate,
    require_number,
    starting_points,
)
from tutelage.analysis.result import AnalysisResult
from tutelage.errors import InputError, TutelageWarning
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Interleave, Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import MIXTURES, TASKS
from tutelage.progress import SILENT_SECONDS
from tutelage.simulation import simulate
from tutelage.trajectory import Trajectory

OBJECTIVES = ("final", "integrated", "worst", "time")
SHAPES = ("piecewise", "smooth")
NUDGE = 0.05  # of the range of a control: the change whose cost `sensitivity` tells


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
    others = checked_baselines(problem, baselines or {})
    edges = checked_edges(segments, t_max)
    if not callable(objective):
        objective = checks.known("objective", objective, OBJECTIVES)
    if (objective == "time") != (level is not None):
        raise InputError(
            f"objective is {checks.shown(objective)} and level is {checks.shown(level)}; 'time' needs a level, the error to "
            "reach, and no other objective has one."
        )
    starts, iterations = checks.as_count("starts", starts), checks.as_count("iterations", iterations)
    control = ControlProblem(
        problem=problem,
        start=start,
        edges=edges,
        shape=checks.known("shape", shape, SHAPES),
        goal=Goal.on(edges, objective, 1.0 if level is None else checks.as_positive("level", level)),
        limits=limits,
        budgets=checked_budgets(budgets or {}, limits, t_max),
        quadrature=quadrature,
    )
    search = control.search()
    require_number(search)
    bar = tqdm(
        total=starts * iterations,
        desc="optimizing",
        delay=SILENT_SECONDS,
        leave=False,
        disable=not checks.as_flag("progress", progress),
    )
    descents, interrupted = [], False
    with bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # a trial may diverge; the final choice warns
        constant, tried = best_constants(search)
        compared = {"best constant": _judged(control, _numbers(search, constant))}
        for name, given in others.items():
            compared[name] = _judged(control, _completed(control, given))
        try:
            for point in starting_points(constant, tried, starts):
                descents.append(Descent(search))
                descents[-1].run(np.repeat(point, search.shares.size), iterations, bar.update)
        except KeyboardInterrupt:
            interrupted = True
    ended = [(descent, descent.best) for descent in descents if descent.best is not None]
    if not ended:
        raise InputError(
            "cannot optimize: the derivative of the objective is not finite at the best constant protocol. "
            "Narrow the bounds."
        )
    descent, best = min(ended, key=lambda one: one[1].value)
    point = jnp.asarray(best.point)
    schedules = {name: schedule_of(name, shape, edges, np.asarray(rows)) for name, rows in search.values(point).items()}
    own, values = _judged(control, schedules), np.array([tried.value for _, tried in ended])
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
        slope=descent.free_slope(),
        sensitivity=_sensitivity(search, best, interrupted),
        totals=dict(zip(limits, np.asarray(search.integrals(point)).tolist(), strict=True)),
        notes=(*_bound_notes(search, best.point), *["interrupted: the best protocol so far"] * interrupted),
    )


def _judged(control: ControlProblem, controls: Table) -> Baseline:
    """The theory under controls, and its objective; infinite if it does not reach the end."""
    problem, goal = changed(control.problem, controls), control.goal
    trajectory = solve(problem, control.start, goal.times, gradient="forward", quadrature=control.quadrature)
    return Baseline(controls, trajectory, float(goal.value(trajectory)) if trajectory.finished else np.inf)


def _numbers(search: Search, constant: Tried) -> Table:
    """The values of a constant protocol by name; lists for more than two tasks."""
    values = {name: np.ravel(rows).tolist() for name, rows in search.values(jnp.asarray(constant.point)).items()}
    return {name: each if len(each) > 1 else each[0] for name, each in values.items()}


def _completed(control: ControlProblem, given: Table) -> Table:
    """The controls of a baseline; those that are left out are constants, chosen best."""
    rest = control.given(given)
    if not rest.limits:
        return given
    search = rest.search()
    return given | _numbers(search, best_constants(search)[0])


def _sensitivity(search: Search, best: Tried, interrupted: bool) -> dict[str, np.ndarray]:
    """The growth of the objective when one number of the point moves by NUDGE towards the middle of its range."""
    growth = np.full(search.size, np.nan)
    for i, z in enumerate(best.point if not interrupted else ()):
        moved = best.point.copy()
        moved[i] += NUDGE if z < 0.5 else -NUDGE
        growth[i] = evaluate(search, moved).value - best.value
    growth = growth / abs(best.value) if callable(search.goal.objective) else np.expm1(growth)
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
