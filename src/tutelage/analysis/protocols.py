"""`optimize`: how should one teach a network? The best course in time of learning rates, tasks, noise and other numbers.

The theory predicts what every protocol costs, so the best one is found by following the gradient of the solved theory
(protocol_search.py, which also lists what can be controlled).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from tqdm.auto import tqdm

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import Table
from tutelage.analysis import protocol_search as ps
from tutelage.analysis.protocol_search import KNOBS, Goal, Limits, Objective, Search, Tried, changed, schedule_of
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

NUDGE = 0.05  # of the range of a control: the change whose cost `sensitivity` tells
NO_CONTROLS = {
    "learning_rate": "its name is 'lr'",
    "batch": "batch counts samples, so it cannot change smoothly; control lr, which the batch divides in the noise",
    "momentum": "momentum only divides every rate; control lr",
}


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
    moves by 5% of its range. totals: the integral of each control over time. notes: what belongs to the numbers: bounds that
    are met, an interruption.
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
    others, edges = _checked_baselines(problem, baselines or {}), _checked_edges(segments, t_max)
    if not callable(objective):
        objective = checks.known("objective", objective, ("final", "integrated", "worst", "time"))
    if (objective == "time") != (level is not None):
        raise InputError(
            f"objective is {checks.shown(objective)} and level is {checks.shown(level)}; 'time' needs a level, the error to "
            "reach, and no other objective has one."
        )
    shape = checks.known("shape", shape, ("piecewise", "smooth"))
    goal = Goal.on(edges, objective, 1.0 if level is None else checks.as_positive("level", level))
    integrals = _checked_budgets(budgets or {}, limits, t_max)
    starts, iterations = checks.as_count("starts", starts), checks.as_count("iterations", iterations)
    hidden = not checks.as_flag("progress", progress)
    new_search = partial(
        ps.new_search, start=start, edges=edges, shape=shape, goal=goal, budgets=integrals, quadrature=quadrature
    )

    def judged(controls: Table) -> Baseline:
        """The theory under controls, and its objective; infinite if it does not reach the end."""
        theory = solve(changed(problem, controls), start, goal.times, gradient="forward", quadrature=quadrature)
        return Baseline(controls, theory, float(goal.value(theory)) if theory.finished else np.inf)

    search, descents, interrupted = new_search(problem, limits), [], False
    bar = tqdm(total=starts * iterations, desc="optimizing", delay=SILENT_SECONDS, leave=False, disable=hidden)
    with bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # a trial may diverge; the final choice warns
        constant, tried = ps.best_constants(search)
        compared = {"best constant": judged(_numbers(search, constant))}
        for name, given in others.items():  # controls that a baseline leaves out are constants, chosen best
            free = {control: pair for control, pair in limits.items() if control not in given}
            rest = new_search(changed(problem, given), free) if free else None
            compared[name] = judged(given if rest is None else given | _numbers(rest, ps.best_constants(rest)[0]))
        try:
            for point in ps.starting_points(constant, tried, starts):
                descents.append(ps.Descent(search))
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
    own, values = judged(schedules), np.array([tried.value for _, tried in ended])
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


def _numbers(search: Search, constant: Tried) -> Table:
    """The values of a constant protocol by name; lists for more than two tasks."""
    values = {name: np.ravel(rows).tolist() for name, rows in search.values(jnp.asarray(constant.point)).items()}
    return {name: each if len(each) > 1 else each[0] for name, each in values.items()}


def _sensitivity(search: Search, best: Tried, interrupted: bool) -> dict[str, np.ndarray]:
    """The growth of the objective when one number of the point moves by NUDGE towards the middle of its range."""
    growth = np.full(search.size, np.nan)
    for i, z in enumerate(best.point if not interrupted else ()):
        moved = best.point.copy()
        moved[i] += NUDGE if z < 0.5 else -NUDGE
        growth[i] = ps.evaluate(search, moved).value - best.value
    growth = growth / abs(best.value) if callable(search.goal.objective) else np.expm1(growth)
    return {name: rows[0] if len(rows) == 1 else rows for name, rows in search.by_control(growth).items()}


def _bound_notes(search: Search, point: np.ndarray) -> list[str]:
    """Where a control lies on a bound that could be another one."""
    notes = []
    for (name, own), pair in zip(search.by_control(point).items(), search.bounds, strict=True):
        for word, bound, met in zip(("lower", "upper"), pair, (own < ps.AT_BOUND, own > 1 - ps.AT_BOUND), strict=True):
            if met.any() and bound not in (0.0, KNOBS[name].highest):
                places = f"{met.sum()} of {own.size} places"
                notes.append(f"{name} lies at its {word} bound {bound:g} at {places}; other bounds may gain more")
    return notes


# Checks of what `optimize` is given


def _as_table(name: str, value: object, example: str) -> Table:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is {checks.shown(value)}; it must be a table, such as {example}.")
    return dict(value)


def checked_controls(problem: Problem, controls: object) -> dict[str, Limits]:
    """The bounds of each control, every name and number checked."""
    example = "{'lr': (0.0, 3.0)}"
    given = _as_table("controls", controls, example)
    if not given:
        raise InputError(f"controls is empty; it must hold bounds of one number or more, such as {example}.")
    found = {name: checked_bounds(name, pair, _known_control(problem, name).highest) for name, pair in given.items()}
    if found.get("keep", (1.0, 1.0))[0] == 0:
        raise InputError("the lower bound of keep is 0; some units must stay active. Use a positive one, such as 0.1.")
    if {"tasks", "replay"} <= set(found):
        raise InputError("controls has tasks and replay; both decide which task is shown. Control one of them.")
    if "tasks" in found and problem.teacher.count > 2 and found["tasks"] != (0.0, 1.0):
        raise InputError(
            f"the bounds of tasks are {found['tasks']} and there are {problem.teacher.count} tasks; use (0, 1) for more than "
            "two."
        )
    return found


def _known_control(problem: Problem, name: str) -> ps.Knob:
    """A control that the problem has."""
    if name in NO_CONTROLS:
        raise InputError(f"controls has {name!r}, which is not a control: {NO_CONTROLS[name]}.")
    knob = KNOBS[checks.known("the name of a control", name, KNOBS)]
    if not knob.has(problem):
        raise InputError(f"controls has {name!r}, which this problem does not have: {knob.fix}.")
    return knob


def checked_bounds(name: str, given: object, highest: float = np.inf) -> Limits:
    """The lowest and the highest value of a control."""
    pair = checks.as_array(f"the bounds of {name}", given)
    checks.require_shape(f"the bounds of {name}", pair, (2,), fix="The lowest and the highest value.")
    low, high = float(pair[0]), float(pair[1])
    if not (0 <= low < high <= highest and np.isfinite(high)):
        most = "finite" if np.isinf(highest) else f"at most {highest:g}"
        raise InputError(
            f"the bounds of {name} are {low:g} and {high:g}; the first must be zero or more and below the second, and "
            f"the second {most}."
        )
    return low, high


def _checked_budgets(budgets: object, bounds: dict[str, Limits], t_max: float) -> dict[str, Limits]:
    """(smallest, largest) integral of each control that has a budget."""
    found: dict[str, Limits] = {}
    for name, given in _as_table("budgets", budgets, "{'tasks': 20.0}").items():
        low, high = bounds[checks.known("the name of a budget", name, bounds)]
        pair = (None, given) if np.ndim(np.asarray(given, dtype=object)) == 0 else tuple(given)
        if len(pair) != 2:
            raise InputError(f"the budget of {name} is {checks.shown(given)}; it must be a number or (smallest, largest).")
        least, most = (open_ if x is None else float(x) for x, open_ in zip(pair, ps.NO_BUDGET, strict=True))
        slack = ps.FEASIBLE * t_max * (high - low)
        if not (least <= most and most >= t_max * low - slack and least <= t_max * high + slack):
            raise InputError(
                f"the budget of {name} is {least:g} to {most:g}; its bounds allow integrals from {t_max * low:g} to "
                f"{t_max * high:g}. Change the budget or the bounds."
            )
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
    edges = checks.as_array("segments", segments)
    if edges.ndim != 1 or edges.size < 2 or np.any(np.diff(edges) <= 0) or edges[0] != 0 or edges[-1] != t_max:
        raise InputError(
            f"segments are {checks.shown(edges)}; times must be two or more that increase from 0 to t_max = {t_max:g}. "
            "Or give their number."
        )
    return edges
