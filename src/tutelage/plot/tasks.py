"""Figures of several tasks: forgetting, transfer, savings, similarity, replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.heat_maps import heat_map
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import DASHES, FAINT, INK, color_at, line_look, marker_at
from tutelage.plot.trajectory import mark_switches


@figure_of("what forgetting returned", "left", "amount", "learned", "trajectory")
def plot_forgetting(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the error of each task, and an arrow of the length of its forgetting.

    A mark shows where the task was left.
    """
    (axes,) = column([3.0], title, ax=ax)
    outcomes = []
    for task, error in enumerate(result.error.T):
        label = f"task {task + 1}"
        axes.plot(result.times, error, label=label, **line_look(task))
        if result.left[task] < result.times[-1]:
            _draw_forgetting_arrow(axes, result, task)
            outcomes.append(f"Forgetting of {label}: {result.amount[task]:.4g}")
    if not outcomes:
        outcomes = ["No task is left"]
    mark_switches(axes, result.trajectory)
    axes.set_ylabel(text.ERROR_IN_TWO_LINES)
    axes.set_ylim(bottom=0.0)
    heading, conditions = text.title_and_conditions(result.trajectory)
    outcome = ", ".join(outcomes)
    return finish([axes], text.TIME, title, heading, conditions, outcome)


def _draw_forgetting_arrow(axes: Axes, result: Any, task: int) -> None:
    """Draw an arrow, at the end, from the error when the task was left to the last."""
    end = result.times[-1]
    learned = result.learned[task]
    final = result.final[task]
    color = color_at(task)
    left = result.left[task]
    axes.plot([left], [learned], marker_at(task), color=color, markersize=6)
    axes.axhline(learned, color=color, linewidth=0.7, linestyle=DASHES[2])
    arrow = {"arrowstyle": "<->", "color": color, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (end, learned), (end, final), arrowprops=arrow)


class _TaskCurve(NamedTuple):
    """A learning curve of one task, with times that count from its beginning.

    reached: the time at which it reaches the target, or None.
    """

    name: str
    times: np.ndarray
    error: np.ndarray
    reached: float | None


@figure_of("what transfer returned", "after", "scratch", "theory", "alone")
def plot_transfer(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the error of a task against the time since it began.

    One curve is after other tasks, the other one from scratch.
    """
    times = np.asarray(result.theory.times)
    error = np.asarray(result.theory.error)[:, result.task]
    begun = times >= result.begin
    after_others = _TaskCurve(
        name="after the other tasks",
        times=times[begun] - result.begin,
        error=error[begun],
        reached=result.after,
    )
    from_scratch = _TaskCurve(
        name="from scratch",
        times=np.asarray(result.alone.times),
        error=np.asarray(result.alone.error),
        reached=result.scratch,
    )
    curves = (after_others, from_scratch)
    return _draw_task_curves(result, curves, title, result.theory, ax)


@figure_of("what savings returned", "first", "again", "begins", "trajectory")
def plot_savings(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the error of a task against the time since it began, twice.

    One curve is at first, the other one when the task returns.
    """
    times = result.times
    error = result.error[:, result.task]
    first_begin, second_begin = result.begins
    # Both curves have the same length.
    duration = times[-1] - second_begin
    at_first = (times >= first_begin) & (times <= first_begin + duration)
    returned = times >= second_begin
    second_curve = _TaskCurve(
        name="when it returns",
        times=times[returned] - second_begin,
        error=error[returned],
        reached=result.again,
    )
    first_curve = _TaskCurve(
        name="at first",
        times=times[at_first] - first_begin,
        error=error[at_first],
        reached=result.first,
    )
    curves = (second_curve, first_curve)
    return _draw_task_curves(result, curves, title, result.trajectory, ax)


def _draw_task_curves(
    result: Any,
    curves: Sequence[_TaskCurve],
    title: str | None,
    trajectory: Any,
    ax: Axes | None,
) -> Figure:
    """Draw learning curves of one task, and the times at which they reach the target.

    Each curve begins with its own beginning of the task.
    """
    (axes,) = column([3.0], title, ax=ax)
    for place, curve in enumerate(curves):
        axes.plot(curve.times, curve.error, label=curve.name, **line_look(place))
        if curve.reached is not None:
            axes.plot(
                [curve.reached],
                [result.target],
                marker_at(place),
                color=color_at(place),
                markersize=6,
            )
    axes.axhline(
        result.target,
        color=FAINT,
        linewidth=0.9,
        linestyle=DASHES[2],
        label=f"target {result.target:.3g}",
    )
    end = max(curve.times[-1] for curve in curves if curve.times.size)
    reached = [curve.reached for curve in curves if curve.reached is not None]
    last_reached = max(reached, default=0.0)
    if last_reached > 0:
        end = min(end, 3 * last_reached)
    axes.set_xlim(0.0, end)
    errors = np.concatenate([curve.error for curve in curves])
    panels.scale_error(axes, errors, text.ERROR_IN_TWO_LINES)
    heading, conditions = text.title_and_conditions(trajectory)
    xlabel = r"time $\alpha$ since the task began"
    outcome = text.capital(str(result))
    return finish([axes], xlabel, title, heading, conditions, outcome)


@figure_of("what interference returned", "similarity", "forgetting", "left")
def plot_interference(result: Any, *, title: str | None = None) -> Figure:
    """Draw forgetting, and the final errors, against the similarity of the tasks."""
    above, below = column([2.6, 2.0], title)
    for task in range(result.final.shape[1]):
        label = f"task {task + 1}"
        look = line_look(task)
        final_error = result.final[:, task]
        below.plot(result.similarity, final_error, label=label, **look)
        if result.left[task] < result.times[-1]:
            forgotten = result.forgetting[:, task]
            above.plot(result.similarity, forgotten, label=label, **look)
            similarity, amount = result.worst(task)
            above.plot(
                [similarity],
                [amount],
                marker_at(task),
                color=look["color"],
                markersize=6,
            )
    above.set_ylabel(r"forgetting, $\Delta\epsilon_g$")
    above.axhline(0.0, color=FAINT, linewidth=0.8)
    panels.scale_error(below, result.final, "final error")
    heading, conditions = text.problem_in_words(result.problem, without=("similarity",))
    _, *sentences = str(result).splitlines()
    return finish(
        [above, below],
        "similarity $V$ of the tasks",
        title,
        heading,
        conditions,
        outcome=[text.capital(sentence) for sentence in sentences],
    )


@figure_of("what best_replay returned", "fractions", "final", "values", "fraction")
def plot_best_replay(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the final errors against the replay fraction, and the best fraction."""
    (axes,) = column([3.0], title, ax=ax)
    for task in range(result.final.shape[1]):
        final_error = result.final[:, task]
        label = f"task {task + 1}"
        axes.plot(result.fractions, final_error, label=label, **line_look(task))
    axes.plot(
        result.fractions,
        result.values,
        color=INK,
        linewidth=1.4,
        linestyle=DASHES[3],
        label="mean",
    )
    axes.plot(
        [result.fraction], [result.value], "o", color=INK, markersize=6, label="best"
    )
    errors = np.concatenate([result.final.ravel(), result.values])
    panels.scale_error(axes, errors, "final error")
    heading, conditions = text.problem_in_words(result.problem, without=("replay",))
    outcome = text.capital(str(result))
    return finish([axes], "replay fraction", title, heading, conditions, outcome)


@figure_of("what node_reuse returned", "importance", "shares", "reuse", "times")
def plot_node_reuse(result: Any, *, title: str | None = None) -> Figure:
    """Draw the share of each unit in each task, and the re-use of each pair of tasks.

    Both are heat maps.
    """
    tasks, units = result.shares.shape
    task_names = [f"task {task + 1}" for task in range(tasks)]
    unit_names = [f"unit {unit + 1}" for unit in range(units)]
    moments = [
        f"{name}, $\\alpha={time:g}$"
        for name, time in zip(task_names, result.times, strict=True)
    ]
    heading = "Which units serve which task"
    if title is not None:
        heading = title
    small = (
        "Share of a unit: the rise of the task's error if the unit is cut off. "
        "Re-use: 1 for the same units, 0 for others."
    )
    figure, ((left, right),) = panels.panel_grid(
        1, 2, heading, small, height=0.8 + 0.55 * tasks, width=8.4
    )
    heat_map(left, result.shares, moments, unit_names)
    heat_map(right, result.reuse, task_names, task_names)
    panels.label_panel(left, "shares of the units")
    panels.label_panel(right, "re-use")
    return figure
