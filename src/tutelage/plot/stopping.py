"""The figure of early stopping: the learning curve, its minimum, and what is lost by the end."""

from typing import TYPE_CHECKING, Any

from tutelage._errors import require_fields
from tutelage.plot.curve_parts import draw_error, finish, frame, mark_time, sentence, shade
from tutelage.plot.labels import outside_legend
from tutelage.plot.style import ALARM, COLORS, INK, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_early_stopping(result: Any, *, title: str | None = None) -> "Figure":
    """The learning curve with the smallest error and the error at the end marked. title: "" leaves the head out."""
    require_fields("plot_early_stopping", result, ("bracket", "gain", "curve"), "what early_stopping returned")
    with style():
        figure, grid = frame(0, title != "")
        axes = grid[0]
        draw_error(axes, result.curve)
        axes.plot([result.time], [result.value], "o", color=COLORS[2], markersize=7, label=f"smallest, {result.value:.4g}")
        if result.inside:
            name = f"at the end, {result.end_value:.4g}"
            axes.plot([result.end_time], [result.end_value], "s", color=ALARM, markersize=6, label=name)
            axes.axhline(result.value, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
            mark_time(axes, result.time, f"stop at {result.time:.4g}")
            shade(axes, result.time, result.end_time, ALARM, "error grows again", 0.08)
        outside_legend(axes)
        finish(figure, grid, result.curve, title, sentence(str(result)))
    return figure
