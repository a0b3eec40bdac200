"""Overlaps at one time as heat maps, and the heat maps of other figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from tutelage.errors import InputError
from tutelage.plot.axes import Figure, figure_of, label_panel, panel_grid
from tutelage.plot.labels import columns_of_R, quantity_label, title_and_conditions
from tutelage.plot.style import INK

if TYPE_CHECKING:
    from tutelage.problem import Problem
    from tutelage.trajectory import Trajectory

NUMBERED = 8  # rows or columns of a heat map up to which its numbers are written into it
NAMED = 16  # rows or columns up to which they are named
DARK = 0.6  # share of the color range beyond which a number in a cell is white


@figure_of("a Trajectory", "times", "variables", "error")
def plot_overlaps(trajectory: Trajectory, time: float | None = None, *, run: int = 0, title: str | None = None) -> Figure:
    """Draw R and Q at one time as heat maps; the columns of R are teacher units, units of tasks, or means of a mixture.

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
    R, Q = (np.asarray(trajectory.variables[name], dtype=float) for name in ("R", "Q"))
    if R.ndim == 4:
        if not 0 <= run < len(R):
            raise InputError(f"run is {run}; this trajectory has runs 0 to {len(R) - 1}.")
        R, Q = R[run], Q[run]
    times = np.asarray(trajectory.times, dtype=float)
    place = times.size - 1 if time is None else int(np.argmin(np.abs(times - float(time))))
    who, how = title_and_conditions(trajectory)
    K, M = R.shape[1:]
    heading = who if title is None else title
    small = "" if title == "" else ", ".join(part for part in (how, rf"at $\alpha={times[place]:g}$") if part)
    figure, (panels,) = panel_grid(1, 2, heading, small, height=1.0 + 0.45 * K, width_ratios=[M, K])
    image = draw_overlaps(panels, R[place], Q[place], trajectory.problem)
    figure.colorbar(image, ax=list(panels), shrink=0.8)
    return figure


def draw_overlaps(panels: Sequence[Axes], R: np.ndarray, Q: np.ndarray, problem: Problem | None) -> AxesImage:
    """Heat maps of R and Q in two panels, with one range of colors and a line between the units of two tasks."""
    bound = max(float(np.max(np.abs(R))), float(np.max(np.abs(Q))), 1e-12)
    kind, columns = columns_of_R(problem, R.shape[1])
    students = [str(k + 1) for k in range(len(Q))]
    for axes, name, values, labels in ((panels[0], "R", R, columns), (panels[1], "Q", Q, students)):
        image = heat_map(axes, values, students, labels, -bound)
        label_panel(axes, quantity_label(name, problem).replace("\n", " "))
    panels[0].set(xlabel="teacher unit" if kind == "teacher" else kind, ylabel="student unit")
    panels[1].set_xlabel("student unit")
    if kind.startswith("task"):
        own = [label.split(".")[0] for label in columns]
        for edge in range(1, len(own)):
            if own[edge - 1] != own[edge]:
                panels[0].axvline(edge - 0.5, color=INK, linewidth=1.6)
    return image


def heat_map(axes: Axes, values: np.ndarray, rows: list[str], columns: list[str], low: float = 0.0) -> AxesImage:
    """A heat map with the names of few rows and columns, and its numbers where they fit.

    low: the end of the colors, which run from low to -low; 0 for shares, which run from 0 to 1.
    """
    high = -low or 1.0
    image = axes.imshow(values, vmin=low, vmax=high, cmap="RdBu_r" if low < 0 else "Blues", aspect="auto")
    for set_ticks, names in ((axes.set_xticks, columns), (axes.set_yticks, rows)):
        set_ticks(range(len(names)) if len(names) <= NAMED else [], names if len(names) <= NAMED else [])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(values) if max(values.shape) <= NUMBERED else ():
        color = "white" if abs(value) > DARK * high else INK
        text = f"{np.round(value, 3) + 0.0:.3f}" if low < 0 else f"{value:.2f}"
        axes.text(j, i, text, ha="center", va="center", color=color, fontsize=8.0)
    return image
