"""The numbers of a problem that a protocol may control, and their bounds.

To add a control, let the core take a schedule in its place (`Problem.schedules`) and
add a row to `CONTROLS`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tutelage.problem import Interleave, Linear, Piecewise, Problem, Replay
from tutelage.problem.labels import Real

Limits: TypeAlias = tuple[float, float]


class Control(NamedTuple):
    """A control.

    path: the name of its schedule in the problem. has: true for problems that have it.
    fix: advice for the others. highest: the largest value that makes sense.
    """

    path: str
    has: Callable[[Problem], bool]
    fix: str
    highest: float = np.inf


def _moves_first_layer_with_lr(problem: Problem) -> bool:
    return getattr(problem.optimizer.momentum, "k", None) is None


def _replays(problem: Problem) -> bool:
    return isinstance(getattr(problem.teacher, "schedule", None), Replay)


CONTROLS: dict[str, Control] = {
    "lr": Control(
        path="optimizer.lr",
        has=_moves_first_layer_with_lr,
        fix="k of SlowMomentum moves the first layer; omit k",
    ),
    "readout_lr": Control(
        path="optimizer.readout_lr",
        has=lambda problem: problem.student.train_readout,
        fix="the readout is fixed; use train_readout=True",
    ),
    "bias_lr": Control(
        path="optimizer.bias_lr",
        has=lambda problem: problem.student.train_bias,
        fix="the biases are fixed; use train_bias=True",
    ),
    "weight_decay": Control(
        path="optimizer.weight_decay",
        has=lambda problem: not problem.optimizer.spherical,
        fix="the length is fixed; use spherical=False",
    ),
    "noise": Control(
        path="noise",
        has=lambda problem: type(problem.labels) is Real,
        fix="only labels='real' have noise; control 'flip' instead",
    ),
    "flip": Control(
        path="labels.flip",
        has=lambda problem: hasattr(problem.labels, "flip"),
        fix="use labels='sign', or control 'noise'",
        highest=1.0,
    ),
    "keep": Control(
        path="rule.keep",
        has=lambda problem: hasattr(problem.rule, "keep"),
        fix="no unit is dropped; use rule=rules.Dropout(0.8)",
        highest=1.0,
    ),
    "feedback": Control(
        path="rule.strength",
        has=lambda problem: hasattr(problem.rule, "strength"),
        fix="use rule=tu.rules.FeedbackAlignment(...)",
    ),
    "tasks": Control(
        path="teacher.schedule.shares",
        has=lambda problem: problem.several_tasks is not None,
        fix="use several teachers, tu.Tasks([...])",
        highest=1.0,
    ),
    "replay": Control(
        path="teacher.schedule.fraction",
        has=_replays,
        fix=(
            "its tasks are not replayed; "
            "use Tasks(..., schedule=tu.Replay(0.2, after=60.0))"
        ),
        highest=1.0,
    ),
}


def changed(problem: Problem, controls: Mapping[str, Any]) -> Problem:
    """Return the problem under numbers or schedules of its controls.

    Tasks may also have a law of their own, which `Tasks(schedule=...)` takes.
    """
    changes = {CONTROLS[name].path: value for name, value in controls.items()}
    if "tasks" in controls:
        shares = changes.pop(CONTROLS["tasks"].path)
        is_schedule = callable(shares) or hasattr(shares, "probabilities")
        changes["teacher.schedule"] = shares if is_schedule else Interleave(shares)
    if not changes:
        return problem
    return problem.replace(**changes)


def schedule_of(name: str, shape: str, edges: np.ndarray, rows: np.ndarray) -> Any:
    """Return the schedule of a control with values (rows, segments).

    That of tasks is an `Interleave`.
    """
    schedules: list[Any] = []
    for row in rows:
        if shape == "smooth":
            schedules.append(Linear(edges, row))
        else:
            schedules.append(Piecewise(edges[1:-1], row))
    # a tuple for more than two tasks
    shares = tuple(schedules) if len(schedules) > 1 else schedules[0]
    if name == "tasks":
        return Interleave(shares)
    return shares
