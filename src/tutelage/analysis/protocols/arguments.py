"""Checks of the arguments of `optimize` and `greedy`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._types import ArrayLike, Table
from tutelage.analysis.protocols.controls import CONTROLS, Control, Limits
from tutelage.analysis.protocols.objectives import OBJECTIVES, Objective
from tutelage.analysis.protocols.search import FEASIBLE
from tutelage.errors import InputError
from tutelage.problem import Problem

SHAPES = ("piecewise", "smooth")


def checked_objective(objective: Objective, level: float | None) -> Objective:
    """Return the objective; "time" needs a level, and no other one may have it."""
    if not callable(objective):
        objective = checks.known("objective", objective, OBJECTIVES)
    if (objective == "time") != (level is not None):
        raise InputError(
            f"objective is {checks.shown(objective)} and level is "
            f"{checks.shown(level)}; 'time' needs a level, the error to reach, "
            "and no other objective has one."
        )
    return objective


def _as_table(name: str, value: object, example: str, least: int = 0) -> Table:
    if not isinstance(value, Mapping) or len(value) < least:
        raise InputError(
            f"{name} is {checks.shown(value)}; it must be a table, such as {example}."
        )
    return dict(value)


def checked_controls(problem: Problem, controls: object) -> dict[str, Limits]:
    """Return the bounds of each control, every name and number checked."""
    table = _as_table("controls", controls, "{'lr': (0.0, 3.0)}", least=1)
    limits = {}
    for name, pair in table.items():
        control = _known_control(problem, name)
        limits[name] = checked_bounds(name, pair, control.highest)
    if "keep" in limits and limits["keep"][0] == 0:
        raise InputError(
            "the lower bound of keep is 0; some units must stay active. "
            "Use a positive one, such as 0.1."
        )
    if {"tasks", "replay"} <= set(limits):
        raise InputError(
            "controls has tasks and replay; both decide which task is shown. "
            "Control one of them."
        )
    tasks = problem.several_tasks
    has_many_tasks = "tasks" in limits and tasks is not None and tasks.count > 2
    if has_many_tasks and limits["tasks"] != (0.0, 1.0):
        raise InputError(
            f"the bounds of tasks are {limits['tasks']}; "
            "they must be (0, 1) for more than two tasks."
        )
    return limits


def _known_control(problem: Problem, name: str) -> Control:
    """Return a control that the problem has; refuse others."""
    control = CONTROLS[checks.known("the name of a control", name, CONTROLS)]
    if not control.has(problem):
        raise InputError(
            f"controls has {name!r}, which this problem does not have: {control.fix}."
        )
    return control


def checked_bounds(name: str, bounds: object, highest: float = np.inf) -> Limits:
    """Return the lowest and the highest value of a control."""
    pair = checks.as_array(
        f"the bounds of {name}",
        bounds,
        shapes=[(2,)],
        fix="The lowest and the highest value.",
    )
    low = float(pair[0])
    high = float(pair[1])
    if not (0 <= low < high <= highest and np.isfinite(high)):
        most = "finite" if np.isinf(highest) else f"at most {highest:g}"
        raise InputError(
            f"the bounds of {name} are {low:g} and {high:g}; the first must be zero or "
            f"more and below the second, the second {most}."
        )
    return low, high


def checked_budgets(
    budgets: object, bounds: dict[str, Limits], t_max: float
) -> dict[str, Limits]:
    """Return (smallest, largest) integral of each control that has a budget."""
    limits: dict[str, Limits] = {}
    for name, budget in _as_table("budgets", budgets, "{'tasks': 20.0}").items():
        pair_of_bounds = bounds[checks.known("the name of a budget", name, bounds)]
        low, high = t_max * np.array(pair_of_bounds)
        least, most = _smallest_and_largest(name, budget)
        slack = FEASIBLE * (high - low)
        if not (least <= most and most >= low - slack and least <= high + slack):
            raise InputError(
                f"the budget of {name} is {least:g} to {most:g}; its bounds allow "
                f"integrals from {low:g} to {high:g}. Change one of them."
            )
        limits[name] = (least, most)
    return limits


def _smallest_and_largest(name: str, budget: Any) -> Limits:
    """Return a budget as two numbers; infinite where there is no limit."""
    is_number = np.ndim(np.asarray(budget, dtype=object)) == 0
    pair = (None, budget) if is_number else tuple(budget)
    if len(pair) != 2:
        raise InputError(
            f"the budget of {name} is {checks.shown(budget)}; "
            "it must be a number or (smallest, largest)."
        )
    title = f"the budget of {name}"
    smallest, largest = pair
    least = -np.inf
    if smallest is not None:
        least = float(checks.as_number(title, smallest))
    most = np.inf
    if largest is not None:
        most = float(checks.as_number(title, largest))
    return least, most


def checked_baselines(problem: Problem, baselines: object) -> dict[str, Table]:
    """Return protocols to compare with: numbers or schedules by control."""
    tables = {}
    outer = _as_table("baselines", baselines, "{'half': {'tasks': 0.5}}")
    for name, table in outer.items():
        tables[name] = _as_table(f"the baseline {name!r}", table, "{'tasks': 0.5}")
    for table in tables.values():
        for control in table:
            _known_control(problem, control)
    return tables


def checked_edges(segments: ArrayLike, t_max: float) -> np.ndarray:
    """Return the times at which segments begin and end."""
    if np.ndim(segments) == 0:
        return np.linspace(0.0, t_max, checks.as_count("segments", segments) + 1)
    edges = checks.as_array("segments", segments, checks.require_increasing)
    if edges[0] != 0 or edges[-1] != t_max:
        raise InputError(
            f"segments run from {edges[0]:g} to {edges[-1]:g}; "
            f"they must run from 0 to t_max = {t_max:g}."
        )
    return edges
