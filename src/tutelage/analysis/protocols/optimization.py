"""`optimize`: the best learning rates, tasks and other numbers in time.

docs/how-to/protocols.md says how the best point is searched for. D. Saad and M.
Rattray, Phys. Rev. Lett. 79, 2578 (1997), optimize the learning rate over the whole
time; here any control may be optimized.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._solve import solve
from tutelage._types import ArrayLike, Table
from tutelage.analysis.protocols.arguments import (
    SHAPES,
    checked_baselines,
    checked_budgets,
    checked_controls,
    checked_edges,
    checked_objective,
)
from tutelage.analysis.protocols.candidates import (
    Candidate,
    best_constants,
    first_points,
)
from tutelage.analysis.protocols.controls import CONTROLS, changed, schedule_of
from tutelage.analysis.protocols.descents import AT_BOUND, SHORT, descend, free_slope
from tutelage.analysis.protocols.evaluation import Evaluation, by_value
from tutelage.analysis.protocols.objectives import Objective
from tutelage.analysis.protocols.result import Baseline, OptimalProtocol
from tutelage.analysis.protocols.search import (
    Search,
    objective_of,
    require_number,
    require_work_for_time,
)
from tutelage.errors import InputError, TutelageWarning
from tutelage.problem import Problem, Start
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_start
from tutelage.problem.traits import MIXTURES, TASKS
from tutelage.progress import progress_bar

NUDGE = 0.05  # of the range of a control: the change whose cost `sensitivity` tells
MORE = 3  # of these first descents than of those that go on


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
    """Return the protocol on [0, t_max] that makes an objective smallest at large N.

    Parameters
    ----------
    problem : Problem
        A number or schedule of it that is controlled only has to exist; the protocol
        replaces it.
    start, t_max : Start, float
        The initial condition, and the last time.
    controls : dict of (low, high)
        Bounds of each control by name: "lr", "readout_lr", "bias_lr", "weight_decay",
        "noise" and "flip" (of labels), "keep" (dropout), "feedback" (strength of
        feedback alignment), "tasks" (probability of the first of two tasks; of more
        tasks the probabilities of all, bounds (0, 1)), "replay". A readout_lr that is
        None follows lr.
    objective : str or callable
        "final", the error at t_max; "integrated", its integral over time; "worst", the
        final error of the worst task; "time", the time at which the error first falls
        to `level`, infinite if it does not (then the search lowers the final error); or
        a JAX function of the trajectory that returns one number. The error is the mean
        over tasks.
    level : float, optional
        The error to reach, for "time".
    segments : int or list of float
        Number of segments of equal length, or the times at which they begin and end.
    shape : str
        "piecewise", constant on each segment; "smooth", straight between the ends of
        segments.
    budgets : dict, optional
        Limits on the integral of a control over time: the largest, or (smallest,
        largest); None: no limit.
    baselines : dict of dict, optional
        Protocols to compare with, as {"half": {"tasks": 0.5}}: numbers or schedules.
        Others are constants, chosen best.
    starts : int
        Descents that are followed to their end. They are the best ones of short
        descents from the best constant protocol, the middle of the bounds, the greedy
        protocol, and protocols between extreme values.
    iterations : int
        The most of each descent.
    progress : bool
        Show a progress bar after two seconds. Ctrl-C returns the best protocol found so
        far.

    Returns
    -------
    OptimalProtocol

    Examples
    --------
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> problem = tu.Problem(unit, unit, optimizer=tu.SGD(lr=0.5), noise=0.1)
    >>> start = tu.Start([[0.0]], [[0.0]])
    >>> bounds = {"lr": (0.0, 1.0)}
    >>> best = tu.schedules.optimize(problem, start, 20.0, bounds, segments=4)
    >>> best.gain > 1.2
    True
    """
    problem = require_problem(
        problem, "optimize", needs=("differentiable", TASKS, MIXTURES)
    )
    checks.require_untraced("start", "optimize", require_start(start))
    t_max = checks.as_positive("t_max", t_max)
    limits = checked_controls(problem, controls)
    other_controls = checked_baselines(problem, baselines or {})
    edges = checked_edges(segments, t_max)
    objective = checked_objective(objective, level)
    shape = checks.known("shape", shape, SHAPES)
    level = 1.0 if level is None else checks.as_positive("level", level)
    integrals = checked_budgets(budgets or {}, limits, t_max)
    starts = checks.as_count("starts", starts)
    iterations = checks.as_count("iterations", iterations)
    progress = checks.as_flag("progress", progress)
    make_search = partial(
        Search,
        start=start,
        edges=edges,
        shape=shape,
        objective=objective,
        level=level,
        budgets=integrals,
    )
    search = make_search(problem, limits)
    require_number(search)
    require_work_for_time(search)

    schedules_at = partial(_schedules_at, search, shape)
    judged = partial(_judged, search, problem, start)

    short = min(SHORT, iterations)
    longest = (starts + MORE) * short + starts * iterations
    with (
        progress_bar(longest, "optimizing", progress) as bar,
        warnings.catch_warnings(),
    ):
        # a trial may diverge; the final choice warns
        warnings.simplefilter("ignore", TutelageWarning)
        constant, candidates = best_constants(search)
        best_constant = judged(_numbers(search, constant), schedules_at(constant.point))
        compared = {"best constant": best_constant}
        for name, fixed in other_controls.items():
            # controls that a baseline leaves out are constants, chosen best
            free = {key: pair for key, pair in limits.items() if key not in fixed}
            chosen: Table = {}
            if free:
                rest = make_search(changed(problem, fixed), free)
                chosen = _numbers(rest, best_constants(rest)[0])
            compared[name] = judged(fixed | chosen)
        descents = run_descents(
            search, constant, candidates, starts, iterations, bar.update
        )
    first = _best_of_each(descents.short)
    ended = _sorted_ends(descents)
    best = ended[0]
    notes = _bound_notes(search, best.point)
    if descents.interrupted:
        notes.append("interrupted: the best protocol so far")
    schedules = schedules_at(best.point)
    solution = judged(schedules)
    return OptimalProtocol(
        problem=changed(problem, schedules),
        start=start,
        objective=objective,
        bounds=limits,
        schedules=schedules,
        value=solution.value,
        trajectory=solution.trajectory,
        baselines=compared,
        starts=_objectives(search, ended),
        first=_objectives(search, first),
        slope=free_slope(search, best),
        sensitivity=_sensitivity(search, best, descents.interrupted),
        totals=_totals(search, best.point, t_max),
        notes=tuple(notes),
    )


def _schedules_at(search: Search, shape: str, point: np.ndarray) -> Table:
    """Return the schedules of all controls under the protocol of a point."""
    schedules = {}
    for name, rows in search.values(search.whole(point)).items():
        schedules[name] = schedule_of(name, shape, search.edges, np.asarray(rows))
    return schedules


def _judged(
    search: Search,
    problem: Problem,
    start: Start,
    controls: Table,
    solved: Table | None = None,
) -> Baseline:
    """Solve the theory under controls, and return its objective.

    The objective is infinite if the theory does not reach the end. solved: the same
    controls as schedules, if a program for these is compiled anyway.
    """
    if solved is None:
        solved = controls
    under = changed(problem, solved)
    theory = solve(under, start, search.grid, gradient="forward", accuracy=None)
    return Baseline(
        controls=controls,
        trajectory=replace(theory, problem=changed(problem, controls)),
        value=objective_of(search, under, start, theory),
    )


def _totals(search: Search, point: np.ndarray, t_max: float) -> dict[str, float]:
    """Return the integral of each control over time."""
    totals = {}
    for name, rows in search.values(point).items():
        totals[name] = t_max * float(np.asarray(rows)[0] @ search.shares)
    return totals


def _sorted_ends(descents: "Descents") -> list[Evaluation]:
    """Return the best point of each descent, of the full ones if there are any."""
    ended = sorted(_best_of_each(descents.full or descents.short), key=by_value)
    if not ended:
        raise InputError(
            "cannot optimize: no finite derivative at the best constant protocol. "
            "Narrow the bounds."
        )
    return ended


@dataclass
class Descents:
    """All that was kept of each descent. short: of the first, short ones."""

    short: list[list[Evaluation]]
    full: list[list[Evaluation]]
    interrupted: bool = False


def _best_of_each(descents: list[list[Evaluation]]) -> list[Evaluation]:
    """Return the best point of each descent that kept one."""
    return [min(kept, key=by_value) for kept in descents if kept]


def run_descents(
    search: Search,
    constant: Evaluation,
    candidates: list[Candidate],
    starts: int,
    iterations: int,
    tick: Callable[[], object],
) -> Descents:
    """Descend shortly from several points, and follow the best descents to their end.

    A keyboard interrupt ends the search; what was kept up to then is returned.
    """
    descents = Descents(short=[], full=[])
    try:
        for point in first_points(search, constant, candidates, starts + MORE):
            descents.short.append([])
            short = min(SHORT, iterations)
            descend(search, point, short, descents.short[-1], tick)
        begun = sorted(_best_of_each(descents.short), key=by_value)
        for evaluation in begun[:starts]:
            descents.full.append([evaluation])
            descend(search, evaluation.point, iterations, descents.full[-1], tick)
    except KeyboardInterrupt:
        descents.interrupted = True
    return descents


def _objectives(search: Search, evaluations: list[Evaluation]) -> np.ndarray:
    """Return the objectives of points, increasing.

    They are infinite where a level is not reached.
    """
    values = np.sort([evaluation.value for evaluation in evaluations])
    if callable(search.objective):
        return values
    values = np.exp(values)
    late = search.objective == "time"
    return np.where(late & (values > search.edges[-1]), np.inf, values)


def _numbers(search: Search, constant: Evaluation) -> Table:
    """Return the values of a constant protocol by name.

    Those of more than two tasks are lists.
    """
    by_name: Table = {}
    for name, rows in search.values(constant.point).items():
        numbers = np.ravel(rows).tolist()
        by_name[name] = numbers if len(numbers) > 1 else numbers[0]
    return by_name


def _sensitivity(
    search: Search, best: Evaluation, interrupted: bool
) -> dict[str, np.ndarray]:
    """Return the growth of the objective for a change of each number of the point.

    The number moves by NUDGE towards the middle of its range. An interrupted search
    skips this: all values are NaN.
    """
    growth = np.full(search.size, np.nan)
    value = search.value_at(best.point)
    if not interrupted:
        for i, z in enumerate(best.point):
            moved = best.point.copy()
            moved[i] += NUDGE if z < 0.5 else -NUDGE
            growth[i] = search.value_at(moved) - value
    if callable(search.objective):
        growth = growth / abs(value)
    else:
        growth = np.expm1(growth)
    sensitivity = {}
    for name, rows in search.by_control(growth).items():
        sensitivity[name] = rows[0] if len(rows) == 1 else rows
    return sensitivity


def _bound_notes(search: Search, point: np.ndarray) -> list[str]:
    """Return a note for each control on a bound that could be another one."""
    notes = []
    controls = search.by_control(point).items()
    for (name, numbers), (low, high) in zip(controls, search.bounds, strict=True):
        sides = (
            ("lower", low, numbers < AT_BOUND),
            ("upper", high, numbers > 1 - AT_BOUND),
        )
        for word, bound, met in sides:
            if met.any() and bound not in (0.0, CONTROLS[name].highest):
                notes.append(
                    f"{name} lies at its {word} bound {bound:g} at {met.sum()} of "
                    f"{numbers.size} places; other bounds may gain more"
                )
    return notes
