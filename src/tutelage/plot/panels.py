"""Panels and what surrounds their curves: layout, title, legends, scales and marks.

A drawing function is decorated with `figure_of`, makes its panels with `column` (one
below another) or `panel_grid`, draws, and returns `finish`, which adds names, legends
and title.
"""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from matplotlib import figure
from matplotlib.axes import Axes

from tutelage.errors import InputError, kind_of, require_fields
from tutelage.plot.style import (
    ALARM,
    FAINT,
    INK,
    PHASE_COLORS,
    Look,
    color_at,
    is_log_spaced,
    render_figure,
    style,
    wants_log,
)

# Inches: width of a figure, and room above its first panel with and without a title.
WIDTH = 7.4
HEAD = 0.9
NO_HEAD = 0.35
GRID_HEAD = 0.6

TITLE_SIZE = 11
SMALL_SIZE = 8.5
TITLE: Look = {"fontsize": TITLE_SIZE, "fontweight": "bold"}
SMALL_PRINT: Look = {"fontsize": SMALL_SIZE}
OUTCOME: Look = {"fontsize": SMALL_SIZE, "fontweight": "bold"}

LARGE = (
    30.0  # overlaps beyond this are drawn linearly up to one, logarithmically beyond
)

DASHED = (0, (4, 2))

Drawing = TypeVar("Drawing", bound=Callable[..., Any])


class Figure(figure.Figure):
    """A figure that a notebook shows without pyplot, which would have to be set up.

    It contains its picture itself.
    """

    def _repr_png_(self) -> bytes:
        """The picture, by the display protocol of IPython.

        `%matplotlib inline` replaces it by its own.
        """
        return render_figure(self, ".png", dpi="figure")


def figure_of(source: str, *fields: str) -> Callable[[Drawing], Drawing]:
    """Decorate a drawing function: check its result, and use our style.

    The result must have these fields; source names its origin for the message. A
    function that takes `ax` returns it if it is given; the title is then that of the
    axes.
    """

    def decorate(draw: Drawing) -> Drawing:
        @wraps(draw)
        def checked(result: object, *args: Any, **options: Any) -> Any:
            require_fields(draw.__name__, result, fields, source)
            with style():
                if options.get("ax") is None:
                    return draw(result, *args, **options)
                return draw_into_axes(result, *args, **options)

        def draw_into_axes(
            result: object,
            *args: Any,
            ax: Axes,
            title: str | None = None,
            **options: Any,
        ) -> Axes:
            # The head of our figures would not fit above the user's axes.
            draw(result, *args, ax=ax, title="", **options)
            if title is not None:
                ax.set_title(title)
            return ax

        return cast("Drawing", checked)

    return decorate


def column(
    heights: Sequence[float],
    title: str | None = None,
    *,
    width: float = WIDTH,
    sharex: bool = True,
    ax: Axes | None = None,
) -> list[Axes]:
    """The axes of a new figure of panels one below another, from top to bottom.

    heights: of the panels, in inches. title: as for `finish`; "" leaves no room for it.
    ax: the user's axes, in place of a new figure of one panel.
    """
    if ax is not None:
        if not isinstance(ax, Axes):
            raise InputError(
                f"ax is {kind_of(ax)}; it must be Matplotlib axes, "
                "such as those of plt.subplots()."
            )
        return [ax]
    head = HEAD
    if title == "":
        head = NO_HEAD
    new_figure = Figure(figsize=(width, head + sum(heights)), layout="constrained")
    grid = new_figure.subplots(
        nrows=len(heights),
        ncols=1,
        sharex=sharex,
        squeeze=False,
        height_ratios=heights,
    )
    return list(grid[:, 0])


def figure_around(axes: Axes) -> Any:
    """The figure that contains the axes: ours, or the user's."""
    return axes.get_figure(root=True)


def panel_grid(
    rows: int,
    columns: int,
    title: str,
    small: str = "",
    *,
    height: float = 2.6,
    width: float = 9.0,
    **grid: Any,
) -> tuple[Figure, np.ndarray]:
    """A figure of rows x columns panels below a title and a line of small print.

    Returns the figure and its axes as a 2-d array. height: of one row, in inches;
    width: of the figure. grid: for Figure.subplots (sharex, sharey, width_ratios, ...).
    """
    total_height = GRID_HEAD + rows * height
    new_figure = Figure(figsize=(width, total_height), layout="constrained")
    below_head = (0.0, 0.0, 1.0, 1.0 - GRID_HEAD / total_height)
    new_figure.set_layout_engine("constrained", rect=below_head)
    new_figure.text(0.01, 1.0 - 0.1 / total_height, title, va="top", **TITLE)
    new_figure.text(0.01, 1.0 - 0.35 / total_height, small, va="top", **SMALL_PRINT)
    return new_figure, new_figure.subplots(rows, columns, squeeze=False, **grid)


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
    """Name the common x axis, put legends outside, align y labels, and add the head.

    Returns the figure. The head is title, conditions in `small` print and outcome in
    bold, wrapped to the width of the first panel. title: of the user; None is
    `default`, and "" leaves the whole head out. alarm: the outcome is bad news. line:
    characters of small print per line. legend: the title of the legends.
    """
    panels[-1].set_xlabel(xlabel)
    for axes in panels:
        outside_legend(axes, legend)
    whole_figure = figure_around(panels[0])
    whole_figure.align_ylabels(list(panels))
    if title == "":
        return whole_figure

    outcomes = outcome
    if isinstance(outcome, str):
        outcomes = [outcome]
    outcome_look = OUTCOME
    if alarm:
        outcome_look = OUTCOME | {"color": ALARM}
    paragraphs = [(title or default, TITLE), (small, SMALL_PRINT)]
    paragraphs += [(text, outcome_look) for text in outcomes]
    _write_head(panels[0], paragraphs, line)
    return whole_figure


def _write_head(
    axes: Axes, paragraphs: Sequence[tuple[str, Look]], characters: int
) -> None:
    """Write wrapped paragraphs above the axes, from the lowest up.

    characters: of small print per line.
    """
    height = 8.0  # points above the panel
    for text, look in reversed(paragraphs):
        size = look["fontsize"]
        line_length = int(characters * SMALL_SIZE / size)
        if "fontweight" in look:
            line_length -= 6  # bold letters are wider
        lines = textwrap.wrap(text, line_length)
        if lines:
            axes.annotate(
                "\n".join(lines),
                xy=(0, 1),
                xycoords="axes fraction",
                xytext=(0, height),
                textcoords="offset points",
                ha="left",
                va="bottom",
                linespacing=1.2,
                **look,
            )
            height += len(lines) * size * 1.35 + 2.0


def label_panel(axes: Axes, text: str) -> None:
    """Write the contents of a panel in small letters above it, to the left."""
    axes.set_title(text, loc="left", fontsize=9.0)


def outside_legend(axes: Axes, title: str | None = None) -> None:
    """Put the legend to the right of the panel, if anything in it has a name.

    In the user's axes it stays inside.
    """
    handles, _ = axes.get_legend_handles_labels()
    if not handles:
        return
    place: Look = {}
    if isinstance(figure_around(axes), Figure):
        place = {
            "loc": "upper left",
            "bbox_to_anchor": (1.01, 1.02),
            "borderaxespad": 0.0,
        }
    axes.legend(title=title, alignment="left", **place)


def shown_times(times: np.ndarray) -> np.ndarray:
    """A mask of the times that are drawn.

    It is true for all on a linear axis, for those beyond zero on a logarithmic one.
    """
    if is_log_spaced(times):
        return times > 0
    return np.ones(times.size, bool)


def scale_time(axes: Axes, times: np.ndarray) -> None:
    """Make the time axis logarithmic if the times are evenly spaced in the logarithm.

    It then begins at the first positive time.
    """
    if is_log_spaced(times):
        axes.set_xscale("log")
        axes.set_xlim(left=times[times > 0][0], auto=True)


def scale_error(axes: Axes, errors: np.ndarray, label: str | None = None) -> None:
    """Make the axis logarithmic for a learning curve that needs it.

    Otherwise it goes down to zero, so that heights can be compared.
    """
    if wants_log(errors):
        axes.set_yscale("log", nonpositive="mask")
    elif np.all(errors[np.isfinite(errors)] >= 0):
        axes.set_ylim(bottom=0.0)
    if label is not None:
        axes.set_ylabel(label)


def scale_overlaps(axes: Axes, values: np.ndarray, label: str) -> None:
    """Make the axis linear, unless some overlap is very large."""
    axes.set_ylabel(label)
    finite = values[np.isfinite(values)]
    if np.max(np.abs(finite), initial=0.0) > LARGE:
        axes.set_yscale("symlog", linthresh=1.0)


def plain_dots(place: int = 0, size: float = 4.5, marker: str = "o") -> Look:
    """Line properties of open marks without a line, in the color of this place."""
    return {
        "marker": marker,
        "markersize": size,
        "markerfacecolor": "white",
        "linestyle": "none",
        "color": color_at(place),
    }


def spread_marks(
    times: np.ndarray, place: int, count: int, marks: int = 6
) -> list[int] | None:
    """The indices at which a curve has marks, for `markevery`.

    The marks of `count` curves lie next to each other. With few times there is a mark
    at each of them.
    """
    last = len(times) - 1
    if last <= 12:
        return None
    positions = (np.arange(marks) + (place + 0.5) / count) / marks
    return sorted({int(round(last * position)) for position in positions})


def fill_band(
    axes: Axes,
    x: np.ndarray,
    middle: np.ndarray,
    half: np.ndarray,
    color: str,
    *,
    positive: bool = False,
    **look: Any,
) -> None:
    """Color the band within `half` of the middle.

    positive: stay above zero, so that a logarithmic axis shows all of it. look: for
    Axes.fill_between, such as label and alpha (0.25).
    """
    low = middle - half
    if positive:
        low = np.maximum(low, 1e-3 * middle)
    usual_look = {"color": color, "alpha": 0.25, "linewidth": 0}
    axes.fill_between(x, low, middle + half, **(usual_look | look))


def shade(
    axes: Axes,
    start: float,
    end: float,
    color: str,
    label: str | None = None,
    alpha: float = 0.16,
) -> None:
    """Shade an interval of the x axis."""
    axes.axvspan(
        start, end, color=color, alpha=alpha, linewidth=0, label=label, zorder=0
    )


def mark_time(axes: Axes, time: float, label: str | None = None) -> None:
    """Draw a dashed vertical line at this time."""
    axes.axvline(
        time, color=FAINT, linewidth=1.0, linestyle=DASHED, label=label, zorder=0.5
    )


def draw_phases(grid: Iterable[Axes], intervals: Iterable[Any]) -> None:
    """Shade every panel by phase; the legend of the first panel names each phase once.

    intervals: the phases, each with name, start and end.
    """
    named: set[str] = set()
    for phase in intervals:
        color = PHASE_COLORS.get(phase.name, FAINT)
        for place, axes in enumerate(grid):
            label = None
            if place == 0 and phase.name not in named:
                label = phase.name
            shade(axes, phase.start, phase.end, color, label, alpha=0.2)
            axes.axvline(phase.start, color=INK, linewidth=0.6, alpha=0.5)
        named.add(phase.name)
