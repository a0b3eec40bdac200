"""The standard figure of a trajectory: the learning curve above, what the network has learned below, one time axis.

There is one panel for each kind of quantity. Few lines (up to `NAMED`) are named one by one; more share a look by student
unit; many share one color.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from tutelage.errors import InputError
from tutelage.plot.axes import (
    Figure,
    column,
    figure_of,
    finish,
    outside_legend,
    scale_error,
    scale_overlaps,
    scale_time,
    shown_times,
    spread_marks,
    write_head,
)
from tutelage.plot.labels import Recorded, error_label, settings_in_words, time_label, title_and_conditions
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, Look, stroke

if TYPE_CHECKING:
    from tutelage.trajectory import Trajectory

WIDTH, CURVE_HEIGHT, PANEL_HEIGHT = 7.0, 2.3, 1.75
SINGLE_RUNS = 40  # drawn thin behind their mean
NAMED = 9  # lines of a panel that are named one by one
VARIABLES = {"R": (2,), "Q": (2,), "readout": (1, 2), "bias": (1,)}  # known variables: numbers of axes beside time
QUANTITIES = {
    "R": "student–teacher\noverlaps $R_{km}$",
    "Q": "student–student\noverlaps $Q_{kl}$",
    "readout": "readouts $v_k$",
    "bias": "biases $b_k$",
}
LETTERS = {"readout": "v", "bias": "b"}


@dataclass(frozen=True)
class Line:
    """values: (run, time). unit, partner: see `style.stroke`. group: its name where curves are too many to name."""

    values: np.ndarray
    label: str
    unit: int
    partner: int = 0
    group: str = ""


@dataclass(frozen=True)
class Panel:
    """The lines of one kind of quantity, and its name."""

    label: str
    lines: list[Line]

    @property
    def values(self) -> np.ndarray:
        """All values: (line, run, time)."""
        return np.stack([line.values for line in self.lines])


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
    panels = panels_of(trajectory) if ax is None else []
    figure, grid = column([CURVE_HEIGHT] + [PANEL_HEIGHT] * len(panels), title, width=WIDTH, ax=ax)
    _draw_error(grid[0], times, trajectory, shown)
    for axes, panel in zip(grid[1:], panels, strict=True):
        mark_switches(axes, trajectory)
        lines = [replace(line, values=line.values[:, shown]) for line in panel.lines]
        draw_panel(axes, times[shown], Panel(panel.label, lines))
    finish(figure, grid, time_label(trajectory))
    _head(grid, trajectory, title)
    return figure


def _draw_error(axes: Axes, times: np.ndarray, trajectory: Trajectory, shown: np.ndarray) -> None:
    errors, t = error_by_task(trajectory)[:, :, shown], times[shown]
    others = 1 if axes.lines else 0  # the user's axes may hold another trajectory, which has the first color
    for runs in errors:
        for run in runs[:SINGLE_RUNS] if len(runs) > 1 else ():
            axes.plot(t, run, color=FAINT, linewidth=0.6, alpha=0.6)
    for task, runs in enumerate(errors):
        look = {"color": COLORS[(task + others) % len(COLORS)], "linewidth": 2.0, "marker": "o" if t.size == 1 else None}
        axes.plot(t, runs.mean(axis=0), label=f"task {task + 1}" if len(errors) > 1 else None, **look)
    axes.set_ylabel(error_label(trajectory))
    mark_switches(axes, trajectory)
    if len(errors) > 1:
        outside_legend(axes)
    scale_error(axes, errors.reshape(-1, t.size))
    scale_time(axes, times)


def error_by_task(trajectory: Trajectory) -> np.ndarray:
    """The errors as (task, run, time); without tasks there is one."""
    errors = np.asarray(trajectory.error, dtype=float)
    errors = errors[..., None] if getattr(trajectory, "tasks", None) is None else errors
    return np.moveaxis(errors.reshape(-1, *errors.shape[-2:]), -1, 0)


def mark_switches(axes: Axes, trajectory: Trajectory) -> None:
    """Vertical lines where the probabilities of tasks jump, or a head stops to learn."""
    from tutelage.problem import Tasks

    teacher, end = getattr(trajectory.problem, "teacher", None), np.max(trajectory.times)
    times = teacher.switches(end) if isinstance(teacher, Tasks) and not callable(teacher.schedule) else None
    for time in [] if times is None else np.unique(np.asarray(times)):
        if time < end:
            axes.axvline(float(time), color=FAINT, linewidth=1.0, linestyle=(0, (4, 2)), zorder=0.5)


def _head(grid: list[Axes], trajectory: Trajectory, title: str | None) -> None:
    """The problem and its conditions, and what happened to a run that did not finish, marked in every panel."""
    outcome = ""
    if not trajectory.finished:
        outcome = f"The {'solve' if trajectory.kind != 'simulation' else 'run'} {trajectory.status}"
        for axes in grid:
            for end in np.unique(np.atleast_1d(trajectory.end_time)):
                axes.axvline(float(end), color=ALARM, linewidth=1.0, linestyle=(0, (2, 2)))
    who, how = title_and_conditions(trajectory)
    if trajectory.problem is None:
        who = who if trajectory.kind == "equations" else "Order parameters"
        how = f"variables {', '.join(trajectory.variables)}"
    else:
        how = ", ".join([how, *settings_in_words(trajectory)])
    write_head(grid[0], title, who, how, outcome, alarm=True)


def panels_of(curve: Recorded) -> list[Panel]:
    """R and Q, readouts and biases that learn; the variables of custom equations."""
    lead = np.ndim(curve.error) - (1 if getattr(curve, "tasks", None) is None else 2)
    arrays = {name: np.asarray(value, dtype=float) for name, value in curve.variables.items()}
    runs = {name: array.reshape(-1, *array.shape[lead:]) for name, array in arrays.items()}  # (run, time, ...)
    known = [n for n, axes in VARIABLES.items() if n in runs and runs[n].ndim - 2 in axes]
    if known and curve.kind != "equations":
        shown = [n for n in known if n in ("R", "Q") or _moves(runs[n])]
        return [Panel(QUANTITIES[n], task_lines(curve, n, runs[n]) or lines_of(n, runs[n])) for n in shown]
    scalars = [Line(v, n, i, i) for i, (n, v) in enumerate((n, v) for n, v in runs.items() if v.ndim == 2)]
    others = [Panel(n, _entries(n, v)) for n, v in runs.items() if v.ndim > 2]
    return ([Panel(", ".join(line.label for line in scalars), scalars)] if scalars else []) + others


def task_lines(trajectory: Recorded, name: str, values: np.ndarray) -> list[Line] | None:
    """R and separate heads named by unit and task: color from the unit, dashes from the task; None for anything else."""
    from tutelage.problem import Tasks

    teacher = getattr(trajectory.problem, "teacher", None)
    if not isinstance(teacher, Tasks) or teacher.count == 1:
        return None
    if name == "R":
        own, K = teacher.task_of_units, values.shape[2]
        return [
            Line(values[..., k, m], f"$R_{{{_subscript((k, m), values.shape[2:])}}}$, task {s + 1}", k, m, f"unit {k + 1}")
            for k in range(K)
            for m, s in enumerate(own)
        ]
    if name == "readout" and teacher.heads == "separate" and values.ndim == 4:
        return [
            Line(values[..., s, k], f"$v_{{{k + 1}}}$, task {s + 1}", k, s, f"unit {k + 1}")
            for k in range(values.shape[3])
            for s in range(values.shape[2])
        ]
    return None


def _moves(values: np.ndarray) -> bool:
    return bool(np.any(np.abs(values - values[:, :1]) > 1e-12))


def lines_of(name: str, values: np.ndarray) -> list[Line]:
    """The lines of one variable, (run, time, ...)."""
    if values.ndim == 2:
        return [Line(values, name, 0)]
    if values.ndim - 2 not in VARIABLES.get(name, ()) or name == "R":
        return _entries(name, values)
    if name == "Q":
        return _gram(values)
    if values.ndim > 3:  # readouts of several outputs
        return _entries(LETTERS[name], values)
    return [Line(values[..., k], f"${LETTERS[name]}_{{{k + 1}}}$", k, k, f"unit {k + 1}") for k in range(values.shape[-1])]


def _entries(name: str, values: np.ndarray) -> list[Line]:
    """One line per entry: color from its first index, dashes from its last."""
    lines = []
    for index in np.ndindex(values.shape[2:]):
        below = _subscript(index, values.shape[2:])
        label = f"${name}_{{{below}}}$" if len(name) == 1 else f"{name} {below}"
        lines.append(Line(values[(..., *index)], label, index[0], index[-1], f"unit {index[0] + 1}"))
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


def draw_panel(axes: Axes, times: np.ndarray, panel: Panel) -> None:
    """All lines (the mean over runs, where there are several), their scale, and a legend outside."""
    for i, (line, look, label) in enumerate(with_looks(panel.lines)):
        marks: Look = {"markevery": spread_marks(times, i, len(panel.lines))} if "marker" in look else {}
        axes.plot(times, np.mean(line.values, axis=0), label=label, **look, **marks)
    axes.set_ylabel(panel.label)
    scale_overlaps(axes, panel.values)
    outside_legend(axes)


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
