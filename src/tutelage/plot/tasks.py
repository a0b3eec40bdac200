"""Figures of several tasks: forgetting, transfer, savings, interference, replay, node re-use."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot.axes import Figure, column, figure_of, finish, label_panel, panel_grid, scale_error
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, capital, problem_in_words, title_and_conditions
from tutelage.plot.overlaps import heat_map
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, MARKERS, Look
from tutelage.plot.trajectory import mark_switches


def _look(task: int) -> Look:
    return {"color": COLORS[task % len(COLORS)], "linestyle": DASHES[task % len(DASHES)], "linewidth": 1.8}


@figure_of("what forgetting returned", "left", "amount", "learned", "trajectory")
def plot_forgetting(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the error of each task, a mark where the task was left, and an arrow of the length of its forgetting."""
    (axes,) = column([3.0], title, ax=ax)
    times, end = result.times, result.times[-1]
    for task, curve in enumerate(result.error.T):
        axes.plot(times, curve, label=f"task {task + 1}", **_look(task))
        if result.left[task] < end:
            color = COLORS[task % len(COLORS)]
            axes.plot([result.left[task]], [result.learned[task]], MARKERS[task % len(MARKERS)], color=color, markersize=6)
            axes.axhline(result.learned[task], color=color, linewidth=0.7, linestyle=DASHES[2])
            arrow = {"arrowstyle": "<->", "color": color, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (end, result.learned[task]), (end, result.final[task]), arrowprops=arrow)
    mark_switches(axes, result.trajectory)
    axes.set_ylabel(ERROR_IN_TWO_LINES)
    axes.set_ylim(bottom=0.0)
    gone = [s for s, t in enumerate(result.left) if t < end]
    outcome = [f"Forgetting of task {s + 1}: {result.amount[s]:.4g}" for s in gone] or ["No task is left"]
    return finish([axes], TIME, title, *title_and_conditions(result.trajectory), ", ".join(outcome))


@figure_of("what transfer returned", "after", "scratch", "theory", "alone")
def plot_transfer(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the error of a task against the time since it began, after other tasks and from scratch."""
    times, curves = np.asarray(result.theory.times), np.asarray(result.theory.error)[:, result.task]
    later = times >= result.begin
    pairs = (
        ("after the other tasks", times[later] - result.begin, curves[later], result.after),
        ("from scratch", np.asarray(result.alone.times), np.asarray(result.alone.error), result.scratch),
    )
    return _draw_race(result, pairs, title, result.theory, ax)


@figure_of("what savings returned", "first", "again", "begins", "trajectory")
def plot_savings(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the error of a task against the time since it began, at first and when it returns."""
    first, last = result.begins
    error = result.error[:, result.task]
    left = result.times[-1] - last
    early, late = (result.times >= first) & (result.times <= first + left), result.times >= last
    pairs = (
        ("when it returns", result.times[late] - last, error[late], result.again),
        ("at first", result.times[early] - first, error[early], result.first),
    )
    return _draw_race(result, pairs, title, result.trajectory, ax)


def _draw_race(result: Any, pairs: Any, title: str | None, trajectory: Any, ax: Axes | None) -> Figure:
    """Two learning curves of one task from their own beginnings, with the times at which they reach the target."""
    (axes,) = column([3.0], title, ax=ax)
    end = max(x[-1] for _, x, _, reached in pairs if x.size)
    reached = [r for *_, r in pairs if r is not None]
    for i, (name, x, y, time) in enumerate(pairs):
        axes.plot(x, y, label=name, **_look(i))
        if time is not None:
            axes.plot([time], [result.target], MARKERS[i], color=COLORS[i], markersize=6)
    axes.axhline(result.target, color=FAINT, linewidth=0.9, linestyle=DASHES[2], label=f"target {result.target:.3g}")
    axes.set_xlim(0.0, min(end, 3 * max(reached)) if reached and max(reached) > 0 else end)
    axes.set_ylabel(ERROR_IN_TWO_LINES)
    scale_error(axes, np.concatenate([y for _, _, y, _ in pairs]))
    time = r"time $\alpha$ since the task began"
    return finish([axes], time, title, *title_and_conditions(trajectory), capital(str(result)))


@figure_of("what interference returned", "similarity", "forgetting", "left")
def plot_interference(result: Any, *, title: str | None = None) -> Figure:
    """Draw forgetting, and the final errors, against the similarity of the tasks."""
    above, below = column([2.6, 2.0], title)
    for task in np.flatnonzero(result.left < result.times[-1]):
        above.plot(result.similarity, result.forgetting[:, task], label=f"task {task + 1}", **_look(int(task)))
        V, amount = result.worst(int(task))
        above.plot([V], [amount], MARKERS[task % len(MARKERS)], color=COLORS[task % len(COLORS)], markersize=6)
    for task in range(result.final.shape[1]):
        below.plot(result.similarity, result.final[:, task], label=f"task {task + 1}", **_look(task))
    above.set_ylabel(r"forgetting, $\Delta\epsilon_g$")
    below.set_ylabel("final error")
    above.axhline(0.0, color=FAINT, linewidth=0.8)
    scale_error(below, result.final.ravel())
    who, how = problem_in_words(result.problem)
    how = ", ".join(words for words in how.split(", ") if not words.startswith("similarity"))
    lines = [capital(line) for line in str(result).splitlines()[1:]]
    return finish([above, below], "similarity $V$ of the tasks", title, who, how, lines)


@figure_of("what best_replay returned", "fractions", "final", "values", "fraction")
def plot_best_replay(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the final errors against the replay fraction, and their mean with its minimum."""
    (axes,) = column([3.0], title, ax=ax)
    for task in range(result.final.shape[1]):
        axes.plot(result.fractions, result.final[:, task], label=f"task {task + 1}", **_look(task))
    axes.plot(result.fractions, result.values, color=INK, linewidth=1.4, linestyle=DASHES[3], label="mean")
    axes.plot([result.fraction], [result.value], "o", color=INK, markersize=6, label="best")
    axes.set_ylabel("final error")
    scale_error(axes, np.concatenate([result.final.ravel(), result.values]))
    who, how = problem_in_words(result.problem)
    given = f" with replay {float(result.problem.teacher.schedule.fraction):g}"
    return finish([axes], "replay fraction", title, who, how.replace(given, ""), capital(str(result)))


@figure_of("what node_reuse returned", "importance", "shares", "reuse", "times")
def plot_node_reuse(result: Any, *, title: str | None = None) -> Figure:
    """Draw the share of each unit in each task, and the re-use of each pair of tasks, as heat maps."""
    tasks, units = result.shares.shape
    names = [f"task {s + 1}" for s in range(tasks)]
    moments = [f"task {s + 1}, $\\alpha={t:g}$" for s, t in enumerate(result.times)]
    small = (
        "Share of a unit: the rise of the task's error if the unit is cut off. Re-use: 1 for the same units, 0 for others."
    )
    heading = "Which units serve which task" if title is None else title
    figure, ((left, right),) = panel_grid(1, 2, heading, small, height=0.8 + 0.55 * tasks, width=8.4)
    heat_map(left, result.shares, moments, [f"unit {k + 1}" for k in range(units)])
    heat_map(right, result.reuse, names, names)
    label_panel(left, "shares of the units")
    label_panel(right, "re-use")
    return figure
