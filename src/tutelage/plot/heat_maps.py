"""Heat maps: the overlaps R and Q at one time, and other small matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from tutelage.errors import InputError
from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.panels import Figure, figure_of
from tutelage.plot.style import INK

if TYPE_CHECKING:
    from tutelage.problem import Problem
    from tutelage.result.trajectory import Trajectory

NUMBERED = 8  # rows or columns of a heat map up to which its cells have numbers
NAMED_ROWS = 16  # rows or columns of a heat map up to which they have names


@figure_of("a Trajectory", "times", "variables", "error")
def plot_overlaps(
    trajectory: Trajectory,
    time: float | None = None,
    *,
    run: int = 0,
    title: str | None = None,
) -> Figure:
    """Draw R and Q at one time as heat maps.

    The columns of R are teacher units, units of tasks, or means of a mixture.

    Parameters
    ----------
    time
        The nearest recorded time is drawn. Default: the last.
    run
        The run of a simulation, counted from 0.
    """
    if "R" not in trajectory.variables:
        raise InputError(
            "this trajectory has no overlaps R and Q; plot_overlaps needs one of a "
            "Problem."
        )
    R = np.asarray(trajectory.variables["R"], dtype=float)
    Q = np.asarray(trajectory.variables["Q"], dtype=float)
    if R.ndim == 4:
        if not 0 <= run < len(R):
            last_run = len(R) - 1
            raise InputError(f"run is {run}; this trajectory has runs 0 to {last_run}.")
        R = R[run]
        Q = Q[run]
    times = np.asarray(trajectory.times, dtype=float)
    place = times.size - 1
    if time is not None:
        place = int(np.argmin(np.abs(times - float(time))))

    heading, conditions = text.title_and_conditions(trajectory)
    if title is not None:
        heading = title
    small = rf"at $\alpha={times[place]:g}$"
    if conditions:
        small = f"{conditions}, {small}"
    if title == "":
        small = ""
    units, columns = R.shape[1:]
    figure, (pair,) = panels.panel_grid(
        1,
        2,
        heading,
        small,
        height=1.0 + 0.45 * units,
        width_ratios=[columns, units],
    )
    image = draw_overlaps(pair, R[place], Q[place], trajectory.problem)
    figure.colorbar(image, ax=list(pair), shrink=0.8)
    return figure


def draw_overlaps(
    pair: Sequence[Axes], R: np.ndarray, Q: np.ndarray, problem: Problem | None
) -> AxesImage:
    """Draw heat maps of R and Q in two panels, with one range of colors.

    A line separates the units of two tasks.
    """
    left, right = pair
    largest_R = float(np.max(np.abs(R)))
    largest_Q = float(np.max(np.abs(Q)))
    bound = max(largest_R, largest_Q, 1e-12)
    kind, columns = text.columns_of_R(problem, R.shape[1])
    students = [str(k + 1) for k in range(len(Q))]
    heat_map(left, R, students, columns, low=-bound)
    image = heat_map(right, Q, students, students, low=-bound)
    for axes, name in ((left, "R"), (right, "Q")):
        label = text.quantity_label(name, problem)
        panels.label_panel(axes, label.replace("\n", " "))
    xlabel = kind
    if kind == "teacher":
        xlabel = "teacher unit"
    left.set(xlabel=xlabel, ylabel="student unit")
    right.set_xlabel("student unit")
    if kind.startswith("task"):
        _separate_tasks(left, columns)
    return image


def _separate_tasks(axes: Axes, columns: Sequence[str]) -> None:
    """Draw a line between columns, "task.unit" or "task", of two tasks."""
    tasks = [label.split(".")[0] for label in columns]
    for place, (task, next_task) in enumerate(pairwise(tasks)):
        if task != next_task:
            axes.axvline(place + 0.5, color=INK, linewidth=1.6)


def heat_map(
    axes: Axes,
    values: np.ndarray,
    rows: list[str],
    columns: list[str],
    low: float = 0.0,
) -> AxesImage:
    """Draw a heat map with the names of few rows and columns.

    Its cells have numbers where they fit. low: the end of the colors, which run from
    low to -low; 0 for shares, which run from 0 to 1.
    """
    high = 1.0
    colormap = "Blues"
    if low < 0:
        high = -low
        colormap = "RdBu_r"
    image = axes.imshow(values, vmin=low, vmax=high, cmap=colormap, aspect="auto")
    for set_ticks, names in ((axes.set_xticks, columns), (axes.set_yticks, rows)):
        shown_names = names
        if len(names) > NAMED_ROWS:
            shown_names = []
        set_ticks(range(len(shown_names)), shown_names)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    if max(values.shape) <= NUMBERED:
        _write_numbers(axes, values, low, high)
    return image


def _write_numbers(axes: Axes, values: np.ndarray, low: float, high: float) -> None:
    """Write the number of each cell into it."""
    for (row, place), value in np.ndenumerate(values):
        number = f"{value:.2f}"
        if low < 0:
            rounded = np.round(value, 3) + 0.0  # the sum turns -0.0 into 0.0
            number = f"{rounded:.3f}"
        color = INK
        if abs(value) > 0.6 * high:  # a dark cell
            color = "white"
        axes.text(
            place, row, number, ha="center", va="center", color=color, fontsize=8.0
        )
