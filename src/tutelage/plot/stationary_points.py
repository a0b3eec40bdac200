"""The figure of all critical points: how high they lie, and how many ways lead down from them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, outside_legend
from tutelage.plot.style import COLORS, DASHES, MARKERS, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (7.0, 4.2)


def plot_critical_points(points: Any, *, title: str | None = None) -> "Figure":
    """e_g against the share of directions that lead down; one line for each number s of aligned directions, r along it."""
    require_fields("plot_critical_points", points, ("points", "dim"), "what critical_points returned")
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        for s in sorted({c.aligned for c in points}):
            _draw_row(axes, s, sorted((c for c in points if c.aligned == s), key=lambda c: c.orthogonal))
        axes.set_xlabel("share of directions that lead down")
        axes.set_ylabel(ERROR_IN_TWO_LINES)
        axes.margins(0.06)
        outside_legend(axes)
        who, _ = problem_in_words(points.problem)
        how = f"{who}, $N = {points.dim}$; at the marks: $r$ orthogonal"
        write_head(axes, [(title or "All critical points", TITLE), (how, SMALL)], wrap=86)
    return figure


def _draw_row(axes: Any, s: int, row: list[Any]) -> None:
    shares, errors = np.array([c.index / c.parameters for c in row]), np.array([c.error for c in row])
    look = {"color": COLORS[s % len(COLORS)], "linestyle": DASHES[s % len(DASHES)], "marker": MARKERS[s % len(MARKERS)]}
    axes.plot(shares, errors, **look, markersize=5, linewidth=1.0, label=f"$s = {s}$ aligned")
    if len(row) > 1:
        for c, x, y in zip(row, shares, errors, strict=True):
            axes.annotate(f"{c.orthogonal}", (x, y), (0, 6), textcoords="offset points", ha="center", fontsize=7.5)
