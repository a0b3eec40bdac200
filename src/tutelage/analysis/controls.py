"""What a protocol controls: the numbers of a problem that may change in time, their bounds, budgets and segments.

To add a control, let the core take a schedule in its place (`Problem.schedules`) and add a row to `KNOBS`.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tutelage import checks, rules
from tutelage._types import Table
from tutelage.errors import InputError
from tutelage.labels import Real, Sign
from tutelage.problem import Interleave, Linear, Piecewise, Problem, Replay, SlowMomentum, Tasks

Limits: TypeAlias = tuple[float, float]

NO_BUDGET = (-np.inf, np.inf)
FEASIBLE = 1e-6  # by which a budget may be exceeded, as a share of what the control can have


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
        "sgd.weight_decay",
        lambda p: not p.sgd.spherical,
        "spherical weights have a fixed length; use spherical=False",
    ),
    "noise": Knob(
        "noise",
        lambda p: type(p.labels) is Real,
        "noise belongs to labels='real'; control 'flip' of labels='sign'",
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
FIXED = {
    "learning_rate": "its name is 'lr'",
    "batch": "batch counts samples, so it cannot change smoothly; control lr, which the batch divides in the noise",
    "momentum": "momentum only divides every rate; control lr",
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
    if shape == "smooth":
        each = tuple(Linear(edges, row) for row in rows)
    else:
        each = tuple(Piecewise(edges[1:-1], row) for row in rows)
    shares: Any = each if len(each) > 1 else next(iter(each))
    return Interleave(shares) if name == "tasks" else shares


def checked_controls(problem: Problem, controls: object) -> dict[str, Limits]:
    """The bounds of each control, every name and number checked."""
    if not isinstance(controls, Mapping) or not controls:
        raise InputError(
            f"controls is {checks.shown(controls)}; it must be a table of bounds, such as {{'lr': (0.0, 3.0)}}."
        )
    found: dict[str, Limits] = {}
    for name, pair in controls.items():
        found[name] = checked_bounds(name, pair, knob_of(problem, name).highest)
        if name == "keep" and found[name][0] == 0:
            raise InputError("the lower bound of keep is 0; some units must stay active. Use a positive one, such as 0.1.")
    if {"tasks", "replay"} <= set(found):
        raise InputError("controls has tasks and replay; both decide which task is shown. Control one of them.")
    if "tasks" in found and problem.teacher.count > 2 and found["tasks"] != (0.0, 1.0):
        raise InputError(
            f"the bounds of tasks are {found['tasks']} and there are {problem.teacher.count} tasks; use (0, 1) for more than "
            "two."
        )
    return found


def knob_of(problem: Problem, name: str) -> Knob:
    """A knob that the problem has."""
    if name in FIXED:
        raise InputError(f"controls has {name!r}, which is not a control: {FIXED[name]}.")
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


def checked_budgets(budgets: object, bounds: dict[str, Limits], t_max: float) -> dict[str, Limits]:
    """(smallest, largest) integral of each control that has a budget."""
    if not isinstance(budgets, Mapping):
        raise InputError(f"budgets is {checks.shown(budgets)}; it must be a table of limits, such as {{'tasks': 20.0}}.")
    found: dict[str, Limits] = {}
    for name, given in budgets.items():
        low, high = bounds[checks.known("the name of a budget", name, bounds)]
        pair = (None, given) if np.ndim(np.asarray(given, dtype=object)) == 0 else tuple(given)
        if len(pair) != 2:
            raise InputError(f"the budget of {name} is {checks.shown(given)}; it must be a number or (smallest, largest).")
        least, most = (open_ if x is None else float(x) for x, open_ in zip(pair, NO_BUDGET, strict=True))
        slack = FEASIBLE * t_max * (high - low)
        if not (least <= most and most >= t_max * low - slack and least <= t_max * high + slack):
            raise InputError(
                f"the budget of {name} is {least:g} to {most:g}; its bounds allow integrals from {t_max * low:g} to "
                f"{t_max * high:g}. Change the budget or the bounds."
            )
        found[name] = (least, most)
    return found


def checked_baselines(problem: Problem, baselines: object) -> dict[str, Table]:
    """Protocols to compare with: numbers or schedules by the names of controls."""
    if not isinstance(baselines, Mapping):
        raise InputError(
            f"baselines is {checks.shown(baselines)}; it must be a table, such as {{'half': {{'tasks': 0.5}}}}."
        )
    for name, given in baselines.items():
        if not isinstance(given, Mapping):
            raise InputError(
                f"the baseline {name!r} is {checks.shown(given)}; it must be a table, such as {{'tasks': 0.5}}."
            )
        for control in given:
            knob_of(problem, control)
    return {name: dict(given) for name, given in baselines.items()}


def checked_edges(segments: ArrayLike, t_max: float) -> np.ndarray:
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
