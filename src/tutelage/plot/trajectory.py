"""The standard figure of a trajectory: the learning curve above, what the network has learned below, one time axis.

There is one panel for each kind of quantity. Few lines (up to `NAMED`) are named one by one; more share a look by student
unit; many share one color.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from tutelage.errors import InputError
from tutelage.plot.axes import (
    Figure,
    column,
    figure_of,
    finish,
    mark_time,
    scale_error,
    scale_overlaps,
    scale_time,
    shown_times,
    spread_marks,
)
from tutelage.plot.labels import (
    Recorded,
    columns_of_R,
    error_label,
    quantity_label,
    settings_in_words,
    time_label,
    title_and_conditions,
)
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, Look, stroke

if TYPE_CHECKING:
    from tutelage.problem import Problem
    from tutelage.trajectory import Trajectory

WIDTH, CURVE_HEIGHT, PANEL_HEIGHT = 7.0, 2.3, 1.75
SINGLE_RUNS = 40  # drawn thin behind their mean
NAMED = 9  # lines of a panel that are named one by one
VARIABLES = {"R": (2,), "Q": (2,), "readout": (1, 2), "bias": (1,)}  # known variables: numbers of axes beside time
LETTERS = {"readout": "v", "bias": "b"}


@dataclass(frozen=True)
class Line:
    """values: (run, time). unit, partner: see `style.stroke`. group: its name where curves are too many to name."""

    values: np.ndarray
    label: str
    unit: int
    partner: int = 0
    group: str = ""


@figure_of("a Trajectory", "times", "variables", "error", "status")
def plot_trajectory(trajectory: Trajectory, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw error, overlaps and trained readouts against time.

    The error axis is logarithmic if the error spans more than a decade and a half, the time axis if the recorded times are
    evenly spaced in the logarithm. Several runs are drawn thin with their mean. The title says if a run diverged or stopped.

    Parameters
    ----------
    trajectory
        What `solve`, `simulate` or `load` returns, also for custom `Equations`.
    ax
        Matplotlib axes: draw only the learning curve into them.
    title
        Replaces the problem in words; "" leaves the head out.

    Returns
    -------
    A Matplotlib figure (see `save_figure`), or `ax` if it was given.
    """
    times = np.asarray(trajectory.times, dtype=float)
    times = times.reshape(-1, times.shape[-1])[0]
    if times.size == 0:
        raise InputError("this trajectory has no recorded times; there is nothing to draw.")
    shown = shown_times(times)
    panels = panels_of(trajectory) if ax is None else {}
    grid = column([CURVE_HEIGHT] + [PANEL_HEIGHT] * len(panels), title, width=WIDTH, ax=ax)
    _draw_error(grid[0], times, trajectory, shown)
    for axes, (label, lines) in zip(grid[1:], panels.items(), strict=True):
        mark_switches(axes, trajectory)
        draw_lines(axes, times, lines, label, shown)
    outcome = ""
    if not trajectory.finished:
        outcome = f"The {'solve' if trajectory.kind != 'simulation' else 'run'} {trajectory.status}"
        for axes in grid:
            for end in np.unique(np.atleast_1d(trajectory.end_time)):
                axes.axvline(float(end), color=ALARM, linewidth=1.0, linestyle=(0, (2, 2)))
    who, how = title_and_conditions(trajectory)
    if trajectory.problem is None:
        how = f"variables {', '.join(trajectory.variables)}"
    small = ", ".join([how, *settings_in_words(trajectory)])
    return finish(grid, time_label(trajectory), title, who, small, outcome, alarm=True)


def _draw_error(axes: Axes, times: np.ndarray, trajectory: Trajectory, shown: np.ndarray) -> None:
    errors, t = np.asarray(trajectory.error, dtype=float), times[shown]
    errors = errors[..., None] if getattr(trajectory, "tasks", None) is None else errors
    errors = np.moveaxis(errors.reshape(-1, *errors.shape[-2:]), -1, 0)[:, :, shown]  # (task, run, time)
    others = 1 if axes.lines else 0  # the user's axes may hold another trajectory, which has the first color
    for runs in errors:
        for run in runs[:SINGLE_RUNS] if len(runs) > 1 else ():
            axes.plot(t, run, color=FAINT, linewidth=0.6, alpha=0.6)
    for task, runs in enumerate(errors):
        look = {"color": COLORS[(task + others) % len(COLORS)], "linewidth": 2.0, "marker": "o" if t.size == 1 else None}
        axes.plot(t, runs.mean(axis=0), label=f"task {task + 1}" if len(errors) > 1 else None, **look)
    axes.set_ylabel(error_label(trajectory))
    mark_switches(axes, trajectory)
    scale_error(axes, errors.reshape(-1, t.size))
    scale_time(axes, times)


def mark_switches(axes: Axes, trajectory: Trajectory) -> None:
    """Vertical lines where the probabilities of tasks jump, or a head stops to learn."""
    from tutelage.problem import Tasks

    teacher, end = getattr(trajectory.problem, "teacher", None), np.max(trajectory.times)
    times = teacher.switches(end) if isinstance(teacher, Tasks) and not callable(teacher.schedule) else None
    for time in [] if times is None else np.unique(np.asarray(times)):
        if time < end:
            mark_time(axes, float(time))


def panels_of(curve: Recorded) -> dict[str, list[Line]]:
    """The lines of each panel by its name: R and Q, readouts and biases that learn; the variables of custom equations."""
    lead = np.ndim(curve.error) - (1 if getattr(curve, "tasks", None) is None else 2)
    arrays = {name: np.asarray(value, dtype=float) for name, value in curve.variables.items()}
    runs = {name: array.reshape(-1, *array.shape[lead:]) for name, array in arrays.items()}  # (run, time, ...)
    known = [n for n, axes in VARIABLES.items() if n in runs and runs[n].ndim - 2 in axes]
    if known and curve.kind != "equations":
        shown = [n for n in known if n in ("R", "Q") or np.ptp(runs[n], axis=1).max() > 1e-12]
        return {quantity_label(n, curve.problem): lines_of(n, runs[n], curve.problem) for n in shown}
    scalars = [Line(v, n, i, i) for i, (n, v) in enumerate((n, v) for n, v in runs.items() if v.ndim == 2)]
    others = {n: lines_of(n, v) for n, v in runs.items() if v.ndim > 2}
    return ({", ".join(line.label for line in scalars): scalars} if scalars else {}) | others


def lines_of(name: str, values: np.ndarray, problem: Problem | None = None) -> list[Line]:
    """The lines of one variable, (run, time, ...): color from its first index (the unit), dashes from its last.

    Lines of R name the task of their column, or whether it is a teacher unit or a mean; those of separate heads their task.
    """
    if values.ndim == 2:
        return [Line(values, name, 0)]
    if name == "Q" and values.ndim == 4:
        return _gram(values)
    letter, columns = LETTERS.get(name, name), [""] * values.shape[-1]
    heads = name == "readout" and values.ndim == 4 and getattr(getattr(problem, "teacher", None), "heads", "") == "separate"
    if heads:
        values = np.swapaxes(values, 2, 3)  # (run, time, unit, task)
        columns = [f", task {task + 1}" for task in range(values.shape[3])]
    elif name == "R":
        kind, labels = columns_of_R(problem, len(columns))
        if kind not in ("teacher", "mean"):
            columns = [f", {'task ' if kind else ''}{label}" for label in labels]
    lines = []
    for index in np.ndindex(values.shape[2:]):
        below = _subscript(index[:1] if heads else index, values.shape[2:])
        label = f"${letter}_{{{below}}}$" if len(letter) == 1 else f"{letter} {below}"
        unit, column = index[0], index[-1]
        lines.append(Line(values[(..., *index)], label + columns[column], unit, column, f"unit {unit + 1}"))
    return lines


def _subscript(index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    return ("" if max(shape) < 10 else ",").join(str(i + 1) for i in index)


def _gram(values: np.ndarray) -> list[Line]:
    """The norms as solid lines, then the overlaps between different units, dashed; each pair once."""
    K = values.shape[-1]
    norms = [Line(values[..., k, k], f"$Q_{{{_subscript((k, k), (K,))}}}$", k, 0, "norms $Q_{kk}$") for k in range(K)]
    pairs = [(k, l) for k in range(K) for l in range(k + 1, K)]
    return norms + [
        Line(values[..., k, l], f"$Q_{{{_subscript((k, l), (K,))}}}$", K + i, 1 + i % (len(DASHES) - 1), "pairs $Q_{kl}$")
        for i, (k, l) in enumerate(pairs)
    ]


def draw_lines(
    axes: Axes, times: np.ndarray, lines: list[Line], label: str, shown: np.ndarray | slice = slice(None)
) -> None:
    """All lines (the mean over runs, where there are several) at the shown times, their name and scale."""
    for i, (line, look, name) in enumerate(with_looks(lines)):
        marks: Look = {"markevery": spread_marks(times[shown], i, len(lines))} if "marker" in look else {}
        axes.plot(times[shown], np.mean(line.values, axis=0)[shown], label=name, **look, **marks)
    axes.set_ylabel(label)
    scale_overlaps(axes, np.stack([line.values for line in lines]))


def with_looks(lines: list[Line], marks: bool = True) -> Iterator[tuple[Line, Look, str]]:
    """Each line with its properties and its label; "_" hides a label whose group is named already.

    marks: also those of its marker, where lines are few.
    """
    groups, seen = list(dict.fromkeys(line.group for line in lines)), set()
    for line in lines:
        look, label = stroke(line.unit, line.partner), line.label
        look = look if marks else {name: value for name, value in look.items() if not name.startswith("mark")}
        if len(lines) > NAMED:
            place = groups.index(line.group)
            look = {"color": FAINT, "linewidth": 0.7, "alpha": 0.7}
            if len(groups) <= len(COLORS):
                dashes = DASHES[place % len(DASHES)]
                look = {"color": COLORS[place], "linestyle": dashes, "linewidth": 1.0, "alpha": 0.8}
            label = f"_{label}" if line.group in seen or len(groups) > len(COLORS) else line.group
            seen.add(line.group)
        yield line, look, label
