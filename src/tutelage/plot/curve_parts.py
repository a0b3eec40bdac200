"""What figures of one learning curve share: the frame, the curve, its overlaps, the head, shaded intervals.

A curve is anything with times, error, variables, kind and problem, as the answers of the analysis verbs carry it.
"""

from typing import TYPE_CHECKING, Any

from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, time_label
from tutelage.plot.panels import Panel, draw_panel, panels_of
from tutelage.plot.scales import is_log_spaced, scale_error, scale_overlaps
from tutelage.plot.style import COLORS, FAINT
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, TITLE_HEIGHT, CURVE_HEIGHT, PANEL_HEIGHT = 7.4, 0.9, 2.5, 1.8


def frame(panels: int, titled: bool = True) -> tuple["Figure", Any]:
    """A figure with a learning curve above and this many panels below, one time axis."""
    from tutelage.plot.figure import Figure

    heights = [CURVE_HEIGHT, *[PANEL_HEIGHT] * panels]
    figure = Figure(figsize=(WIDTH, (TITLE_HEIGHT if titled else 0.3) + sum(heights)), layout="constrained")
    return figure, figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]


def finish(figure: "Figure", grid: Any, curve: Any, title: str | None, outcome: str) -> None:
    """Scale and name the time axis, align the labels, write the head; title: "" leaves the head out."""
    if is_log_spaced(curve.times):
        grid[0].set_xscale("log")
        grid[0].set_xlim(left=curve.times[curve.times > 0][0])
    grid[-1].set_xlabel(time_label(curve))
    figure.align_ylabels(list(grid))
    if title != "":
        who, how = ("A system of one's own", "") if curve.problem is None else problem_in_words(curve.problem)
        write_head(grid[0], [(title or who, TITLE), (how, SMALL), (outcome, SMALL | {"fontweight": "bold"})])


def sentence(words: str) -> str:
    """With a capital."""
    return words[:1].upper() + words[1:]


def draw_error(axes: Any, curve: Any, label: str | None = None) -> None:
    """The learning curve on the axis it asks for."""
    light = curve.kind == "simulation"
    axes.plot(curve.times, curve.error, color=COLORS[0], linewidth=1.0 if light else 2.0, label=label)
    axes.set_ylabel(ERROR_IN_TWO_LINES if curve.kind != "equations" else "error")
    scale_error(axes, curve.error)


def overlap_panel(curve: Any) -> Panel | None:
    """The student-teacher overlaps, or the first panel of a system of one's own."""
    panels = panels_of(curve)
    return panels[0] if panels else None


def draw_overlaps(axes: Any, curve: Any, panel: Panel) -> None:
    """The curves of a panel."""
    draw_panel(axes, curve.times, panel)
    scale_overlaps(axes, panel.values)


def shade(axes: Any, start: float, end: float, color: str, label: str | None = None, alpha: float = 0.16) -> None:
    """An interval of time."""
    axes.axvspan(start, end, color=color, alpha=alpha, linewidth=0, label=label, zorder=0)


def mark_time(axes: Any, time: float, label: str | None = None, color: str = FAINT) -> None:
    """A moment."""
    axes.axvline(time, color=color, linewidth=1.0, linestyle=(0, (4, 2)), label=label)
