"""Panels and what surrounds their curves: layout, title, legends, scales, ticks, and marks that several figures share.

A drawing function is decorated with `figure_of`, makes its panels with `column` (one below another) or `panel_grid`, draws,
and returns `finish`, which adds names, legends and title.
"""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from matplotlib import figure
from matplotlib.axes import Axes

from tutelage.errors import InputError, kind_of, require_fields
from tutelage.plot.style import ALARM, FAINT, INK, PHASE_COLORS, Look, color_at, drawn, is_log_spaced, style, wants_log

WIDTH, HEAD, NO_HEAD = 7.4, 0.9, 0.35  # inches: of a figure; above its first panel, with and without a title
GRID_HEAD = 0.6
TITLE_SIZE, SMALL_SIZE = 11, 8.5
LARGE = 30.0  # overlaps beyond this are drawn linearly up to one and logarithmically beyond

Drawing = TypeVar("Drawing", bound=Callable[..., Any])


class Figure(figure.Figure):
    """A figure that a notebook shows without pyplot, which would have to be set up: it carries its picture itself."""

    def _repr_png_(self) -> bytes:
        """The picture, by the display protocol of IPython; `%matplotlib inline` replaces it by its own."""
        return drawn(self, ".png", dpi="figure")


def figure_of(source: str, *fields: str) -> Callable[[Drawing], Drawing]:
    """Decorate a drawing function: require these fields of its result (of `source`, for the message), and use our style.

    A function that takes `ax` returns it if it is given; the title is then that of the axes.
    """

    def decorate(draw: Drawing) -> Drawing:
        @wraps(draw)
        def checked(result: object, *args: Any, **options: Any) -> Any:
            require_fields(draw.__name__, result, fields, source)
            ax, title = options.get("ax"), options.get("title")
            with style():
                if ax is None:
                    return draw(result, *args, **options)
                draw(result, *args, **options | {"title": ""})
                if title is not None:
                    ax.set_title(title)
                return ax

        return cast("Drawing", checked)

    return decorate


def column(
    heights: Sequence[float], title: str | None = None, *, width: float = WIDTH, sharex: bool = True, ax: Axes | None = None
) -> list[Axes]:
    """The axes of a new figure of panels one below another, from top to bottom.

    heights: of the panels, in inches. title: as for `finish`; "" leaves no room for it. ax: the user's axes, in place of a new
    figure of one panel.
    """
    if ax is not None:
        if not isinstance(ax, Axes):
            raise InputError(f"ax is {kind_of(ax)}; it must be Matplotlib axes, such as those of plt.subplots().")
        return [ax]
    ours = Figure(figsize=(width, (NO_HEAD if title == "" else HEAD) + sum(heights)), layout="constrained")
    return list(ours.subplots(len(heights), 1, sharex=sharex, squeeze=False, height_ratios=heights)[:, 0])


def figure_around(axes: Axes) -> Any:
    """The figure that holds the axes: ours, or the user's."""
    return axes.get_figure(root=True)


def panel_grid(
    rows: int, columns: int, title: str, small: str = "", *, height: float = 2.6, width: float = 9.0, **grid: Any
) -> tuple[Figure, np.ndarray]:
    """A figure of rows x columns panels below a title and a line of small print, and its axes as a 2-d array.

    height: of one row, in inches; width: of the figure. grid: for Figure.subplots (sharex, sharey, width_ratios, ...).
    """
    total = GRID_HEAD + rows * height
    figure = Figure(figsize=(width, total), layout="constrained")
    figure.set_layout_engine("constrained", rect=(0.0, 0.0, 1.0, 1.0 - GRID_HEAD / total))
    figure.text(0.01, 1.0 - 0.1 / total, title, va="top", fontsize=TITLE_SIZE, fontweight="bold")
    figure.text(0.01, 1.0 - 0.35 / total, small, va="top", fontsize=SMALL_SIZE)
    return figure, figure.subplots(rows, columns, squeeze=False, **grid)


def finish(
    panels: Sequence[Axes],
    xlabel: str,
    title: str | None,
    default: str,
    small: str = "",
    outcome: str | Sequence[str] = "",
    *,
    alarm: bool = False,
    line: int = 94,
    legend: str | None = None,
) -> Figure:
    """Name the common x axis, put the legends outside, align the y labels and write the head. Returns the figure.

    The head is title, conditions in `small` print and outcome in bold, wrapped to the width of the first panel. title: of the
    user; None is `default`, and "" leaves the whole head out. alarm: the outcome is bad news. line: characters of small print
    per line. legend: the title of the legends.
    """
    panels[-1].set_xlabel(xlabel)
    for axes in panels:
        outside_legend(axes, legend)
    figure = figure_around(panels[0])
    figure.align_ylabels(list(panels))
    if title == "":
        return figure
    outcomes = [outcome] if isinstance(outcome, str) else outcome
    bold: Look = {"fontsize": SMALL_SIZE, "fontweight": "bold"} | ({"color": ALARM} if alarm else {})
    parts = [(title or default, {"fontsize": TITLE_SIZE, "fontweight": "bold"}), (small, {"fontsize": SMALL_SIZE})]
    parts += [(text, bold) for text in outcomes]
    height = 8.0  # points above the panel
    for text, look in reversed(parts):
        lines = textwrap.wrap(text, int(line * SMALL_SIZE / look["fontsize"]) - 6 * ("fontweight" in look))
        if lines:
            place: Look = {"xy": (0, 1), "xycoords": "axes fraction", "xytext": (0, height), "textcoords": "offset points"}
            panels[0].annotate("\n".join(lines), **place, ha="left", va="bottom", linespacing=1.2, **look)
            height += len(lines) * look["fontsize"] * 1.35 + 2.0
    return figure


def label_panel(axes: Axes, text: str) -> None:
    """What this panel shows, in small letters above it, to the left."""
    axes.set_title(text, loc="left", fontsize=9.0)


def outside_legend(axes: Axes, title: str | None = None) -> None:
    """The legend to the right of the panel, if anything in it has a name; inside the user's axes."""
    if axes.get_legend_handles_labels()[0]:
        ours = isinstance(figure_around(axes), Figure)
        place: Look = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "borderaxespad": 0.0} if ours else {}
        axes.legend(title=title, alignment="left", **place)


def shown_times(times: np.ndarray) -> np.ndarray:
    """Which of the times are drawn, as a mask: all on a linear axis, those beyond zero on a logarithmic one."""
    return times > 0 if is_log_spaced(times) else np.ones(times.size, bool)


def scale_time(axes: Axes, times: np.ndarray) -> None:
    """A logarithmic axis, from the first positive time on, for times that are so spaced."""
    if is_log_spaced(times):
        axes.set_xscale("log")
        axes.set_xlim(left=times[times > 0][0], auto=True)


def scale_error(axes: Axes, errors: np.ndarray, label: str | None = None) -> None:
    """A logarithmic axis for a learning curve that needs one; otherwise down to zero, so that heights compare."""
    if wants_log(errors):
        axes.set_yscale("log", nonpositive="mask")
    elif np.all(errors[np.isfinite(errors)] >= 0):
        axes.set_ylim(bottom=0.0)
    if label is not None:
        axes.set_ylabel(label)


def scale_overlaps(axes: Axes, values: np.ndarray, label: str) -> None:
    """A linear axis, unless some overlap is very large."""
    axes.set_ylabel(label)
    if np.max(np.abs(values[np.isfinite(values)]), initial=0.0) > LARGE:
        axes.set_yscale("symlog", linthresh=1.0)


def plain_dots(place: int = 0, size: float = 4.5, marker: str = "o") -> Look:
    """Line properties of open marks without a line, in the color of this place."""
    color = color_at(place)
    return {"marker": marker, "markersize": size, "markerfacecolor": "white", "linestyle": "none", "color": color}


def spread_marks(times: np.ndarray, place: int, count: int, marks: int = 6) -> list[int] | None:
    """Where a curve has marks, for `markevery`: those of `count` curves lie side by side. Few times: everywhere."""
    last = len(times) - 1
    wanted = (np.arange(marks) + (place + 0.5) / count) / marks
    return sorted({int(round(last * w)) for w in wanted}) if last > 12 else None


def fill_band(
    axes: Axes, x: np.ndarray, middle: np.ndarray, half: np.ndarray, color: str, *, positive: bool = False, **look: Any
) -> None:
    """Color what is within `half` of the middle. positive: stay above zero, so that a logarithmic axis shows all of it.

    look: for Axes.fill_between, such as label and alpha (0.25).
    """
    low = np.maximum(middle - half, 1e-3 * middle) if positive else middle - half
    axes.fill_between(x, low, middle + half, **{"color": color, "alpha": 0.25, "linewidth": 0} | look)


def shade(axes: Axes, start: float, end: float, color: str, label: str | None = None, alpha: float = 0.16) -> None:
    """Shade an interval of the x axis."""
    axes.axvspan(start, end, color=color, alpha=alpha, linewidth=0, label=label, zorder=0)


def mark_time(axes: Axes, time: float, label: str | None = None) -> None:
    """A dashed vertical line at this time."""
    axes.axvline(time, color=FAINT, linewidth=1.0, linestyle=(0, (4, 2)), label=label, zorder=0.5)


def draw_phases(grid: Iterable[Axes], intervals: Iterable[Any]) -> None:
    """Shade every axes by phase, an interval with name, start and end; the first one names them."""
    seen: set[str] = set()
    for phase in intervals:
        color = PHASE_COLORS.get(phase.name, FAINT)
        for i, axes in enumerate(grid):
            shade(axes, phase.start, phase.end, color, phase.name if i == 0 and phase.name not in seen else None, 0.2)
            axes.axvline(phase.start, color=INK, linewidth=0.6, alpha=0.5)
        seen.add(phase.name)
