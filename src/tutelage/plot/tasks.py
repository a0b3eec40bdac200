"""Figures of several tasks: forgetting, transfer, savings, interference, replay, node re-use; and overlaps as heat maps."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.errors import InputError
from tutelage.plot.axes import column, figure_of, finish, label_panel, panel_grid, scale_error, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, problem_in_words, title_and_conditions
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, MARKERS
from tutelage.plot.trajectory import mark_switches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 8  # rows or columns of a heat map up to which its numbers are written into it
DARK = 0.6  # share of the color range beyond which a number in a cell is white


def _look(task: int) -> dict[str, Any]:
    return {"color": COLORS[task % len(COLORS)], "linestyle": DASHES[task % len(DASHES)], "linewidth": 1.8}


@figure_of("what forgetting returned", "left", "amount", "learned", "trajectory")
def plot_forgetting(result: Any, *, ax: Axes | None = None, title: str | None = None) -> "Figure":
    """Draw the error of each task, a mark where the task was left, and an arrow of the length of its forgetting.

    ax: draw into these axes. title: "" leaves the head out.
    """
    figure, (axes,) = column([3.0], title, ax=ax)
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
    finish(figure, [axes], TIME)
    who, how = title_and_conditions(result.trajectory)
    gone = [s for s, t in enumerate(result.left) if t < end]
    outcome = [f"Forgetting of task {s + 1}: {result.amount[s]:.4g}" for s in gone] or ["No task is left"]
    write_head(axes, title, who, how, ", ".join(outcome))
    return figure


@figure_of("what transfer returned", "after", "scratch", "theory", "alone")
def plot_transfer(result: Any, *, ax: Axes | None = None, title: str | None = None) -> "Figure":
    """Draw the error of a task against the time since it began, after other tasks and from scratch.

    ax: draw into these axes. title: "" leaves the head out.
    """
    times, curves = np.asarray(result.theory.times), np.asarray(result.theory.error)[:, result.task]
    later = times >= result.begin
    pairs = (
        ("after the other tasks", times[later] - result.begin, curves[later], result.after),
        ("from scratch", np.asarray(result.alone.times), np.asarray(result.alone.error), result.scratch),
    )
    return _race(result, pairs, title, str(result), result.theory, ax)


@figure_of("what savings returned", "first", "again", "begins", "trajectory")
def plot_savings(result: Any, *, ax: Axes | None = None, title: str | None = None) -> "Figure":
    """Draw the error of a task against the time since it began, at first and when it returns.

    ax: draw into these axes. title: "" leaves the head out.
    """
    first, last = result.begins
    error = result.error[:, result.task]
    left = result.times[-1] - last
    early, late = (result.times >= first) & (result.times <= first + left), result.times >= last
    pairs = (
        ("when it returns", result.times[late] - last, error[late], result.again),
        ("at first", result.times[early] - first, error[early], result.first),
    )
    return _race(result, pairs, title, str(result), result.trajectory, ax)


def _race(result: Any, pairs: Any, title: str | None, words: str, trajectory: Any, ax: Axes | None) -> "Figure":
    """Two learning curves of one task from their own beginnings, with the times at which they reach the target."""
    figure, (axes,) = column([3.0], title, ax=ax)
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
    finish(figure, [axes], r"time $\alpha$ since the task began")
    who, how = title_and_conditions(trajectory)
    write_head(axes, title, who, how, words[:1].upper() + words[1:])
    return figure


@figure_of("what interference returned", "similarity", "forgetting", "left")
def plot_interference(result: Any, *, title: str | None = None) -> "Figure":
    """Draw forgetting, and the final errors, against the similarity of the tasks. title: "" leaves the head out."""
    figure, (above, below) = column([2.6, 2.0], title)
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
    finish(figure, [above, below], "similarity $V$ of the tasks")
    who, how = problem_in_words(result.problem)
    how = ", ".join(words for words in how.split(", ") if not words.startswith("similarity"))
    lines = [line[:1].upper() + line[1:] for line in str(result).splitlines()[1:]]
    write_head(above, title, who, how, lines)
    return figure


@figure_of("what best_replay returned", "fractions", "final", "values", "fraction")
def plot_best_replay(result: Any, *, ax: Axes | None = None, title: str | None = None) -> "Figure":
    """Draw the final errors against the replay fraction, and their mean with its minimum.

    ax: draw into these axes. title: "" leaves the head out.
    """
    figure, (axes,) = column([3.0], title, ax=ax)
    for task in range(result.final.shape[1]):
        axes.plot(result.fractions, result.final[:, task], label=f"task {task + 1}", **_look(task))
    axes.plot(result.fractions, result.values, color=INK, linewidth=1.4, linestyle=DASHES[3], label="mean")
    axes.plot([result.fraction], [result.value], "o", color=INK, markersize=6, label="best")
    axes.set_ylabel("final error")
    scale_error(axes, np.concatenate([result.final.ravel(), result.values]))
    finish(figure, [axes], "replay fraction")
    who, how = problem_in_words(result.problem)
    given = f" with replay {float(result.problem.teacher.schedule.fraction):g}"
    how, words = how.replace(given, ""), str(result)
    write_head(axes, title, who, how, words[:1].upper() + words[1:])
    return figure


@figure_of("what node_reuse returned", "importance", "shares", "reuse", "times")
def plot_node_reuse(result: Any, *, title: str | None = None) -> "Figure":
    """Draw the share of each unit in each task, and the re-use of each pair of tasks, as heat maps."""
    tasks, units = result.shares.shape
    names = [f"task {s + 1}" for s in range(tasks)]
    moments = [f"task {s + 1}, $\\alpha={t:g}$" for s, t in enumerate(result.times)]
    small = (
        "Share of a unit: the rise of the task's error if the unit is cut off. Re-use: 1 for the same units, 0 for others."
    )
    heading = "Which units serve which task" if title is None else title
    figure, ((left, right),) = panel_grid(1, 2, heading, small, height=0.8 + 0.55 * tasks, width=8.4)
    _heat(left, result.shares, moments, [f"unit {k + 1}" for k in range(units)], 0.0, 1.0, "{:.2f}")
    _heat(right, result.reuse, names, names, 0.0, 1.0, "{:.2f}")
    label_panel(left, "shares of the units")
    label_panel(right, "re-use")
    return figure


@figure_of("a Trajectory", "times", "variables", "error")
def plot_overlaps(trajectory: Any, time: float | None = None, *, run: int = 0, title: str | None = None) -> "Figure":
    """Draw R and Q at one time as heat maps; the columns of R are labeled by task and unit.

    Parameters
    ----------
    trajectory
        What `solve` or `simulate` returned for a `Problem`.
    time
        The nearest recorded time is drawn. Default: the last.
    run
        The run of a simulation, counted from 0.
    title
        Replaces the problem in words; "" leaves the head out.
    """
    if "R" not in trajectory.variables:
        raise InputError("this trajectory has no overlaps R and Q; plot_overlaps needs one of a Problem.")
    times, tasks = np.asarray(trajectory.times, dtype=float), getattr(trajectory, "tasks", None)
    lead = np.ndim(trajectory.error) - (1 if tasks is None else 2)
    R, Q = (np.asarray(trajectory.variables[name], dtype=float) for name in ("R", "Q"))
    if lead:
        if not 0 <= run < len(R):
            raise InputError(f"run is {run}; this trajectory has runs 0 to {len(R) - 1}.")
        R, Q = R[run], Q[run]
    place = times.size - 1 if time is None else int(np.argmin(np.abs(times - float(time))))
    K, M = R.shape[1:]
    students = [f"{k + 1}" for k in range(K)]
    who, how = ("Order parameters", "") if trajectory.problem is None else problem_in_words(trajectory.problem)
    small = f"{how}, at $\\alpha={times[place]:g}$" if how else f"at $\\alpha={times[place]:g}$"
    bound = max(float(np.max(np.abs(np.concatenate([R[place].ravel(), Q[place].ravel()])))), 1e-12)
    figure, ((left, right),) = panel_grid(
        1, 2, who if title is None else title, "" if title == "" else small, height=1.0 + 0.45 * K, width_ratios=[M, K]
    )
    image = _heat(left, R[place], students, teacher_names(trajectory, M), -bound, bound, "{:.3f}")
    _heat(right, Q[place], students, students, -bound, bound, "{:.3f}")
    label_panel(left, "student–teacher overlaps $R$")
    label_panel(right, "student–student overlaps $Q$")
    left.set(ylabel="student unit")
    figure.colorbar(image, ax=[left, right], shrink=0.8)
    if tasks is not None and trajectory.problem is not None:
        own = trajectory.problem.teacher.task_of_units
        for edge in np.flatnonzero(np.diff(own)):
            left.axvline(edge + 0.5, color=INK, linewidth=1.6)
    return figure


def teacher_names(trajectory: Any, count: int) -> list[str]:
    """Names of the columns of R: the unit, and the task that it belongs to."""
    from tutelage.problem import Tasks

    teacher = getattr(trajectory.problem, "teacher", None)
    if not isinstance(teacher, Tasks):
        return [f"teacher {m + 1}" for m in range(count)]
    own = teacher.task_of_units
    if len(set(own.tolist())) == count:
        return [f"task {s + 1}" for s in own]
    return [f"task {s + 1}\nunit {np.sum(own[:m] == s) + 1}" for m, s in enumerate(own)]


def _heat(axes: Any, values: np.ndarray, rows: list[str], columns: list[str], low: float, high: float, form: str) -> Any:
    """A heat map with its names, and its numbers where they fit."""
    colors = "RdBu_r" if low < 0 else "Blues"
    image = axes.imshow(values, vmin=low, vmax=high, cmap=colors, aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.grid(False)
    for side in axes.spines.values():
        side.set_visible(False)
    if max(values.shape) <= CELLS:
        for (i, j), value in np.ndenumerate(values):
            dark = abs(value) / max(abs(low), abs(high)) > DARK
            axes.text(j, i, form.format(value), ha="center", va="center", color="white" if dark else INK, fontsize=8.0)
    return image
