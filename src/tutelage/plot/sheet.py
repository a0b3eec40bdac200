"""Sheets of several panels, and what panels of different figures have in common: bands of runs, legends, labels."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot.heads import SMALL, TITLE
from tutelage.plot.panels import spread_marks
from tutelage.plot.style import COLORS, DASHES, FAINT, MARKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT, TOP = 9.0, 2.6, 0.6
MARKS = 10


def sheet(
    rows: int, columns: int, title: str, small: str = "", *, height: float = HEIGHT, width: float = WIDTH, **grid: Any
) -> "tuple[Figure, Any]":
    """A figure of rows x columns panels below a title and a line in small print, and its axes as a 2-d array.

    height: of one row, in inches; width: of the figure. grid: for Figure.subplots (sharex, sharey, width_ratios, ...).
    """
    from tutelage.plot.figure import Figure

    total = TOP + rows * height
    figure = Figure(figsize=(width, total), layout="constrained")
    figure.set_layout_engine("constrained", rect=(0.0, 0.0, 1.0, 1.0 - TOP / total))
    figure.text(0.01, 1.0 - 0.1 / total, title, va="top", fontsize=TITLE["fontsize"], fontweight="bold")
    figure.text(0.01, 1.0 - 0.35 / total, small, va="top", fontsize=SMALL["fontsize"])
    return figure, figure.subplots(rows, columns, squeeze=False, **grid)


def label_panel(axes: Any, text: str) -> None:
    """What this panel shows, in small letters above it, to the left."""
    axes.set_title(text, loc="left", fontsize=9.0)


def draw_band(
    axes: Any,
    times: np.ndarray,
    theory: Any,
    mean: Any,
    error: Any,
    *,
    look: int = 0,
    dashes: int | None = None,
    label: str | None = None,
    place: int | None = None,
) -> None:
    """Theory as a line, the mean over runs as marks on a band of two standard errors to either side.

    look: index of color and marker, and of the dashes unless they are given. place: shifts the marks (default: look), so
    that those of several curves lie side by side.
    """
    color = COLORS[look % len(COLORS)]
    theory, mean, error = (np.asarray(x, dtype=float) for x in (theory, mean, error))
    axes.fill_between(times, mean - 2 * error, mean + 2 * error, color=color, alpha=0.3, linewidth=0)
    axes.plot(
        times,
        theory,
        color=color,
        linestyle=DASHES[(look if dashes is None else dashes) % len(DASHES)],
        linewidth=1.5,
        label=label,
    )
    axes.plot(
        times,
        mean,
        linestyle="none",
        color=color,
        marker=MARKERS[look % len(MARKERS)],
        markersize=3.8,
        markerfacecolor="white",
        markevery=spread_marks(times, (look if place is None else place) % 5, 5, MARKS) or None,
        zorder=3,
    )


def draw_power(axes: Any, x: Any, first: float, exponent: float, label: str, dashes: int = 2) -> None:
    """A faint straight line of a given exponent through (x[0], first), on logarithmic axes: a guide to the eye.

    dashes: index of the dashes, to tell two such lines apart.
    """
    x = np.asarray(x, dtype=float)
    axes.plot(x, first * (x / x[0]) ** exponent, color=FAINT, linestyle=DASHES[dashes], linewidth=1.2, label=label)
