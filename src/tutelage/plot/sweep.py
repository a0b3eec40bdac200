"""Figures of a sweep: curves over one axis, a heat map with contours over two.

Lines of theory can be drawn on a heat map. A variable is an xarray DataArray whose dims
are axes of the sweep, `start`, `run` and `time`, as a sweep labels it. Random initial
conditions are drawn as their median with the range of their middle half, runs as their
mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import colormaps, patheffects
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tutelage.errors import InputError, Status
from tutelage.plot.labels import (
    capital,
    measure_label,
    parameter_label,
    problem_in_words,
)
from tutelage.plot.panels import Figure, column, figure_around, figure_of, finish
from tutelage.plot.style import (
    ALARM,
    COLORS,
    DASHES,
    FAINT,
    INK,
    Look,
    is_log_spaced,
    line_look,
    marker_at,
    wants_log,
)

if TYPE_CHECKING:
    from xarray import DataArray

    from tutelage.problem import Problem

CURVES = 7  # values of an axis that get a curve and a line of the legend each
DEPTH = 1e-6  # of the largest value: how far down the colors tell values apart
EMPTY = "#E4E4E4"  # cells without a number
WHITE = "#FFFFFF"
HATCH = "////"  # cells of solves that diverged

# Colors of the lines of theory on a heat map, each with that of its outline.
OUTLINED_COLORS = ((ALARM, WHITE), (WHITE, INK), (COLORS[3], WHITE))

# Beginnings of the conditions that an axis varies, and which the title leaves out.
CONDITIONS_OF_AXIS = {
    "lr": ("learning rate",),
    "noise": ("label noise", "no label noise"),
}


class Range(NamedTuple):
    """A variable over initial conditions: median, and lower and upper quartile.

    Without several initial conditions there is only the value itself, as the median.
    """

    median: DataArray
    low: DataArray | None = None
    high: DataArray | None = None


class Cells(NamedTuple):
    """The cells of a heat map.

    x, y: values of the two axes. values: (y, x), as they are drawn. norm: of the
    colors. cut: some values lie below the lowest color. x_edges, y_edges: see
    `cell_edges`.
    """

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    norm: Normalize
    cut: bool
    x_edges: np.ndarray
    y_edges: np.ndarray


@figure_of("a variable of a Sweep", "dims", "name")
def plot_sweep(
    values: DataArray,
    status: DataArray | None,
    base: Problem,
    *,
    lines: Sequence[Any] = (),
    level: float | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one variable of a sweep.

    status: how the solves ended, or None; base: the problem that was changed. lines:
    boundaries as (label, x, y), for two axes; level: a contour to be drawn with them.
    ax: draw into these axes.
    """
    axis_names = [str(dim) for dim in values.dims if dim not in ("start", "run")]
    notes = []
    if "start" in values.dims:
        notes.append(f"median of {values.sizes['start']} starts")
    if "time" in axis_names and len(axis_names) > 2:
        # One axis too many: the last time counts, and the small print says so.
        last_time = float(values["time"][-1])
        notes.append(rf"at $\alpha={last_time:g}$")
        values = values.isel(time=-1)
        axis_names.remove("time")
    if len(axis_names) not in (1, 2):
        raise InputError(
            f"{values.name} has the axes {', '.join(axis_names)}; a figure has one or "
            "two. Hold others with at=."
        )

    (panel,) = column([3.7], title, width=7.2, ax=ax)
    summary = _over_starts(values)
    curve_axis = None
    if not lines:
        curve_axis = _axis_of_curves(summary.median)
    if len(axis_names) == 2 and curve_axis is None:
        _draw_heat_map(panel, summary.median, status, lines, level)
    else:
        _draw_curves(panel, summary, curve_axis)

    varied: list[str] = []
    for name in axis_names:
        varied += CONDITIONS_OF_AXIS.get(name, ())
    problem, conditions = problem_in_words(base, without=tuple(varied))
    # The letter of a parameter, in mathematics, follows its words.
    parameters = [parameter_label(name).split(" $")[0] for name in axis_names]
    heading = f"{measure_label(values)} over {' and '.join(parameters)}"
    legend_title = None
    if curve_axis is not None:
        legend_title = parameter_label(curve_axis)
    return finish(
        [panel],
        panel.get_xlabel(),
        title,
        capital(heading),
        f"{problem}; {', '.join([conditions, *notes])}",
        legend=legend_title,
    )


def _over_starts(values: DataArray) -> Range:
    """The median and the middle half over initial conditions, of the mean over runs."""
    mean = values
    if "run" in values.dims:
        mean = values.mean("run")
    if "start" not in mean.dims:
        return Range(mean)
    quartiles = mean.quantile([0.25, 0.5, 0.75], "start", skipna=False)
    return Range(
        low=quartiles.isel(quantile=0, drop=True),
        median=quartiles.isel(quantile=1, drop=True),
        high=quartiles.isel(quantile=2, drop=True),
    )


def _axis_of_curves(values: DataArray) -> str | None:
    """The one of two axes whose values get a curve each.

    None if both axes are long, or there is only one.
    """
    dims = [str(dim) for dim in values.dims]
    if len(dims) < 2:
        return None
    if "time" in dims:
        return next(dim for dim in dims if dim != "time")
    for dim in dims:
        if not _is_numeric(values[dim].values):
            return dim
    shortest = min(dims, key=lambda dim: values.sizes[dim])
    if values.sizes[shortest] <= CURVES:
        return shortest
    return None


def _is_numeric(values: np.ndarray) -> bool:
    """Return True for numbers, which have places on an axis.

    Words stand side by side.
    """
    return values.dtype.kind in "if"


def _scale(panel: Axes, name: str, points: np.ndarray) -> bool:
    """Make the x or y axis of a parameter logarithmic if its values are so spaced.

    Its ticks are plain numbers (0.02, 0.05). Returns True if it is logarithmic.
    """
    if points.min() <= 0 or not is_log_spaced(points, decades=0.0):
        return False
    panel.set(**{f"{name}scale": "log"})
    axis = getattr(panel, f"{name}axis")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(_plain_number))
    axis.set_minor_formatter(NullFormatter())
    return True


def _plain_number(value: float, position: int | None) -> str:
    """Format a tick, as FuncFormatter calls it."""
    return f"{value:g}"


# Curves


def _draw_curves(panel: Axes, summary: Range, curve_axis: str | None) -> None:
    """Draw the median and its range along one axis.

    curve_axis: the axis whose values get a curve each.
    """
    median = summary.median
    x_name = next(str(dim) for dim in median.dims if dim != curve_axis)
    x = median[x_name].values
    places = x
    if not _is_numeric(x):
        places = np.arange(x.size)

    members: list[Any] = [None]
    if curve_axis is not None:
        members = list(median[curve_axis].values)
    # The legend names the first and the last curve, and some in between.
    named_count = min(CURVES, len(members))
    named = np.linspace(0, len(members) - 1, named_count).round()
    for place, member in enumerate(members):
        selection = {}
        if curve_axis is not None:
            selection = {curve_axis: member}
        look = _look_of_member(place, len(members), with_marks=x_name != "time")
        label = None
        if place in named:
            label = _member_label(member)
        panel.plot(places, median.sel(selection).values, label=label, **look)
        if summary.low is not None and summary.high is not None:
            low = summary.low.sel(selection).values
            high = summary.high.sel(selection).values
            color = look["color"]
            panel.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0)

    if _is_numeric(x):
        _scale(panel, "x", x)
    else:
        panel.set_xticks(places, [str(value) for value in x])
    if wants_log(median.values):
        panel.set_yscale("log", nonpositive="mask")
    panel.set(xlabel=parameter_label(x_name), ylabel=measure_label(median))


def _look_of_member(place: int, count: int, with_marks: bool) -> Look:
    """Line properties of one of `count` curves.

    Many run through a scale of colors; few differ in color, dashes and marks.
    """
    if count > CURVES:
        # The end of the scale is a yellow that is faint on white.
        color = colormaps["viridis"](0.92 * place / (count - 1))
        return {"color": color, "linestyle": "solid", "linewidth": 1.1}
    look = line_look(place, width=1.6)
    if with_marks:
        look |= {
            "marker": marker_at(place),
            "markersize": 4,
            "markerfacecolor": "white",
        }
    return look


def _member_label(member: Any) -> str | None:
    """The value of a curve in the legend; the only curve has none."""
    if member is None:
        return None
    if _is_numeric(np.asarray(member)):
        return f"{member:g}"
    return str(member)


# A heat map


def _draw_heat_map(
    panel: Axes,
    median: DataArray,
    status: DataArray | None,
    lines: Sequence[Any],
    level: float | None,
) -> None:
    """Draw the median as colors with contours, and a legend below.

    Cells that diverged are hatched, and lines of theory lie above the colors.
    """
    panel.grid(False)
    panel.set_facecolor(EMPTY)
    cells = _cells_of(panel, median)
    _draw_colors(panel, cells, measure_label(median))
    handles = _draw_empty_cells(panel, cells, _diverged_cells(median, status))
    if level is not None:
        handles += _draw_level(panel, cells, level)
    for place, (label, x_line, y_line) in enumerate(lines):
        look = _look_of_boundary(place)
        panel.plot(x_line, y_line, **look)
        handles.append(Line2D([], [], **look, label=label))
    x_name, y_name = (str(dim) for dim in median.dims)
    panel.set(xlim=cells.x_edges[[0, -1]], ylim=cells.y_edges[[0, -1]])
    panel.set(xlabel=parameter_label(x_name), ylabel=parameter_label(y_name))
    if not handles:
        return
    figure = figure_around(panel)
    if isinstance(figure, Figure):
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    else:  # the user's axes
        panel.legend(handles=handles, ncols=2)


def _cells_of(panel: Axes, median: DataArray) -> Cells:
    """The cells of a variable, and logarithmic axes of the panel where they fit."""
    x_name, y_name = (str(dim) for dim in median.dims)
    x = median[x_name].values.astype(float)
    y = median[y_name].values.astype(float)
    values = median.values.T
    if not np.any(np.isfinite(values)):
        raise InputError(
            f"{median.name} has no number on these axes; there is nothing to draw. "
            "See .failures and .notes."
        )
    cut = False
    if wants_log(values):
        # What is smaller than DEPTH of the largest value, such as rounding errors,
        # has the lowest color.
        smallest = float(np.nanmin(values))
        smallest_positive = float(np.nanmin(values[values > 0]))
        lowest = max(smallest_positive, DEPTH * float(np.nanmax(values)))
        cut = smallest < lowest
        values = np.where(np.isnan(values), np.nan, np.maximum(values, lowest))
        norm = LogNorm(lowest, np.nanmax(values))
    else:
        norm = Normalize(np.nanmin(values), np.nanmax(values))
    return Cells(
        x=x,
        y=y,
        values=values,
        norm=norm,
        cut=cut,
        x_edges=cell_edges(x, _scale(panel, "x", x)),
        y_edges=cell_edges(y, _scale(panel, "y", y)),
    )


def _draw_colors(panel: Axes, cells: Cells, label: str) -> None:
    """Draw the cells, their scale of colors, and thin contours at its ticks."""
    mesh = panel.pcolormesh(
        cells.x_edges,
        cells.y_edges,
        cells.values,
        norm=cells.norm,
        cmap="viridis",
        rasterized=True,
    )
    extend = "neither"
    if cells.cut:
        extend = "min"
    bar = figure_around(panel).colorbar(mesh, ax=panel, pad=0.02, extend=extend)
    bar.set_label(label)
    bar.outline.set_linewidth(0.5)
    lowest = cells.norm.vmin
    highest = cells.norm.vmax
    levels = [tick for tick in bar.get_ticks() if lowest < tick < highest]
    if levels and min(cells.values.shape) >= 3:
        _draw_contours(panel, cells, levels, "white", width=0.6, alpha=0.8)


def _draw_contours(
    panel: Axes,
    cells: Cells,
    levels: list[float],
    color: str,
    *,
    width: float,
    alpha: float | None = None,
) -> None:
    panel.contour(
        cells.x,
        cells.y,
        cells.values,
        levels=levels,
        colors=color,
        linewidths=width,
        alpha=alpha,
    )


def _diverged_cells(median: DataArray, status: DataArray | None) -> np.ndarray:
    """A mask (y, x) of the cells in which every initial condition diverged."""
    if status is None:
        return np.zeros(median.values.T.shape, bool)
    diverged = status == Status.DIVERGED
    if "start" in diverged.dims:
        diverged = diverged.all("start")
    return diverged.transpose(*median.dims).values.T


def _draw_empty_cells(panel: Axes, cells: Cells, diverged: np.ndarray) -> list[Artist]:
    """Hatch the cells that diverged.

    Returns the handles of the legend for them and for other cells without a number.
    """
    handles: list[Artist] = []
    if diverged.any():
        hatched = np.ma.masked_where(~diverged, np.ones(diverged.shape))
        panel.pcolor(
            cells.x_edges,
            cells.y_edges,
            hatched,
            cmap=ListedColormap(["none"]),  # only hatches
            hatch=HATCH,
            edgecolor=FAINT,
            linewidth=0.0,
        )
        patch = Patch(facecolor=EMPTY, edgecolor=FAINT, hatch=HATCH, label="diverged")
        handles.append(patch)
    if np.any(~np.isfinite(cells.values) & ~diverged):
        label = "no number (see .notes, .failures)"
        handles.append(Patch(facecolor=EMPTY, label=label))
    return handles


def _draw_level(panel: Axes, cells: Cells, level: float) -> list[Artist]:
    """Draw the contour at a level, dark with a white outline, if the values cross it.

    Returns its handle of the legend.
    """
    if not np.nanmin(cells.values) < level < np.nanmax(cells.values):
        return []
    _draw_contours(panel, cells, [level], "white", width=2.2)
    _draw_contours(panel, cells, [level], INK, width=1.2)
    return [Line2D([], [], color=INK, linewidth=1.4, label=f"computed: {level:g}")]


def _look_of_boundary(place: int) -> Look:
    """Line properties of a line of theory that is visible on all colors."""
    color, outline_color = OUTLINED_COLORS[place % len(OUTLINED_COLORS)]
    outline = patheffects.withStroke(linewidth=3.0, foreground=outline_color)
    return {
        "color": color,
        "linestyle": DASHES[1 + place % 3],
        "linewidth": 1.8,
        "path_effects": [outline],
    }


def cell_edges(points: np.ndarray, logarithmic: bool) -> np.ndarray:
    """Edges of the cells around the points.

    They lie halfway between the points on a linear or logarithmic axis.
    """
    if points.size == 1:
        return points[0] + np.array([-0.5, 0.5])
    centers = points
    if logarithmic:
        centers = np.log(points)
    inner_edges = (centers[1:] + centers[:-1]) / 2
    first_edge = 2 * centers[0] - inner_edges[0]
    last_edge = 2 * centers[-1] - inner_edges[-1]
    edges = np.concatenate([[first_edge], inner_edges, [last_edge]])
    if logarithmic:
        return np.exp(edges)
    return edges
