"""The figure of specialization: the index above, each student's cosine with its own teacher below."""

from typing import TYPE_CHECKING, Any

from tutelage._errors import require_fields
from tutelage.plot.curve_parts import draw_error, finish, frame, mark_time, sentence
from tutelage.plot.labels import outside_legend
from tutelage.plot.panels import FEW, spread_marks
from tutelage.plot.style import COLORS, FAINT, stroke, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_specialization(result: Any, *, title: str | None = None) -> "Figure":
    """Learning curve, specialization index and the cosines of assigned pairs. title: "" leaves the head out."""
    require_fields("plot_specialization", result, ("index", "own", "permutation"), "what specialization returned")
    times, when = result.times, result.transition_time
    with style():
        figure, grid = frame(2, title != "")
        draw_error(grid[0], result.curve)
        grid[1].plot(times, result.index, color=COLORS[2], linewidth=2.0, label="index")
        grid[1].axhline(0.5, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)), label="one half")
        grid[1].set_ylim(-0.03, 1.03)
        grid[1].set_ylabel("specialization\nindex")
        pairs = [(k, m) for k, m in enumerate(result.permutation) if m >= 0]
        for i, (k, m) in enumerate(pairs):
            marks = {"markevery": spread_marks(times, i, len(pairs))}
            few = stroke(k, i) | marks if len(pairs) <= FEW else {"color": COLORS[k % len(COLORS)], "linewidth": 1.0}
            sign = "−" if result.signs[k] < 0 else ""
            grid[2].plot(times, result.own[:, i], label=f"student {k + 1}, teacher {sign}{m + 1}", **few)
        grid[2].set_ylabel("cosine with\nits own teacher")
        if when is not None:
            for axes in grid:
                mark_time(axes, when, f"transition, {when:.4g}" if axes is grid[0] else None)
        for axes in grid:
            outside_legend(axes)
        finish(figure, grid, result.curve, title, sentence(str(result).split("\n")[0]))
    return figure
