"""The figure of one answer per run: all learning curves, and on each the times that its answer marks."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.curve_parts import finish, frame
from tutelage.plot.labels import ERROR_IN_TWO_LINES, outside_legend
from tutelage.plot.scales import scale_error
from tutelage.plot.style import COLORS, FAINT, MARKERS, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 40  # runs drawn


def plot_per_run(result: Any, *, title: str | None = None) -> "Figure":
    """Learning curves of the runs with their marks, one color per kind of mark. title: "" leaves the head out."""
    require_fields("plot_per_run", result, ("answers", "marks"), "the answers of several runs")
    curves = [answer.curve for answer in result.answers[:SHOWN]]
    with style():
        figure, grid = frame(0, title != "")
        for i, curve in enumerate(curves):
            grid[0].plot(curve.times, curve.error, color=FAINT, linewidth=0.7, label="runs" if i == 0 else None)
        for place, (name, times) in enumerate(result.marks.items()):
            _draw_marks(grid[0], curves, times[:SHOWN], name, place)
        grid[0].set_ylabel(ERROR_IN_TWO_LINES)
        scale_error(grid[0], np.concatenate([curve.error for curve in curves]))
        outside_legend(grid[0])
        finish(figure, grid, curves[0], title, f"{len(result)} runs: " + ", ".join(_times(result.marks)[:3]))
    return figure


def _times(marks: dict[str, np.ndarray]) -> list[str]:
    """Mean and standard deviation of each mark over the runs that have it."""
    found = {name: times[np.isfinite(times)] for name, times in marks.items()}
    return [f"{name} at {t.mean():.4g}" + (f" ± {t.std(ddof=1):.2g}" if t.size > 1 else "") for name, t in found.items()]


def _draw_marks(axes: Any, curves: list[Any], times: np.ndarray, name: str, place: int) -> None:
    found = [(t, np.interp(t, c.times, c.error)) for t, c in zip(times, curves, strict=True) if np.isfinite(t)]
    if found:
        t, heights = zip(*found, strict=True)
        look = {"color": COLORS[place % len(COLORS)], "marker": MARKERS[place % len(MARKERS)], "linestyle": "none"}
        axes.plot(t, heights, markersize=4.5, markerfacecolor="white", zorder=3, label=name, **look)
