"""Figures of a sweep: curves over one axis, a heat map with contours over two, and the lines of theory on it.

A variable is an xarray DataArray whose dims are axes of the sweep, `start`, `run` and `time`, as a sweep labels it. Random
initial conditions are drawn as their median with the range of their middle half, runs as their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps, patheffects
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tutelage.errors import InputError, Status
from tutelage.plot.labels import capital, measure_label, parameter_label, problem_in_words
from tutelage.plot.panels import Figure, column, figure_around, figure_of, finish
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK, MARKERS, Look, is_log_spaced, line_look, wants_log

if TYPE_CHECKING:
    from xarray import DataArray

    from tutelage.problem import Problem

CURVES = 7  # values of an axis that get a curve and a line of the legend each
DEPTH = 1e-6  # of the largest value: how far down the colors tell values apart
EMPTY = "#E4E4E4"  # cells without a number


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
    """Draw one variable of a sweep. status: how the solves ended, or None; base: the problem that was changed.

    lines: boundaries as (label, x, y), for two axes; level: a contour to be drawn with them. ax: draw into these axes.
    """
    axes_of = [str(dim) for dim in values.dims if dim not in ("start", "run")]
    at_time = []
    if "time" in axes_of and len(axes_of) > 2:  # one axis too many: the last time counts, and the small print says so
        at_time = [rf"at $\alpha={float(values['time'][-1]):g}$"]
        values = values.isel(time=-1)
        axes_of.remove("time")
    if len(axes_of) > 2 or not axes_of:
        raise InputError(f"{values.name} has the axes {', '.join(axes_of)}; a figure has one or two. Hold others with at=.")
    (panel,) = column([3.7], title, width=7.2, ax=ax)
    middle, low, high = values.mean("run") if "run" in values.dims else values, None, None
    if "start" in middle.dims:
        quartiles = middle.quantile([0.25, 0.5, 0.75], "start", skipna=False)
        low, middle, high = (quartiles.isel(quantile=i, drop=True) for i in range(3))
    split = None if lines else _axis_of_curves(middle)
    if len(axes_of) == 2 and split is None:
        _draw_heat_map(panel, middle, status, lines, level)
    else:
        _draw_curves(panel, middle, low, high, split)
    changed = {"lr": ("learning rate",), "noise": ("label noise", "no label noise")}
    who, how = problem_in_words(base, without=sum((changed.get(name, ()) for name in axes_of), ()))
    starts = [f"median of {values.sizes['start']} starts"] if "start" in values.dims else []
    small = f"{who}; {', '.join([how, *starts, *at_time])}"
    what = f"{measure_label(values)} over {' and '.join(parameter_label(a).split(' $')[0] for a in axes_of)}"
    legend = None if split is None else parameter_label(split)
    return finish([panel], panel.get_xlabel(), title, capital(what), small, legend=legend)


def _axis_of_curves(values: DataArray) -> str | None:
    """Of two axes, the one whose values get a curve each; None where both are long, or there is only one."""
    dims = [str(dim) for dim in values.dims]
    if len(dims) < 2:
        return None
    if "time" in dims:
        return next(dim for dim in dims if dim != "time")
    words = [dim for dim in dims if not _is_numeric(values[dim].values)]
    short = sorted((dim for dim in dims if values.sizes[dim] <= CURVES), key=lambda dim: values.sizes[dim])
    return (words or short or [None])[0]


def _is_numeric(values: np.ndarray) -> bool:
    """Numbers have places on an axis; words stand side by side."""
    return values.dtype.kind in "if"


def _scale(panel: Axes, name: str, points: np.ndarray) -> bool:
    """Make the x or y axis of a parameter logarithmic if its values are, with plain numbers (0.02, 0.05); returns if it is."""
    logarithmic = bool(points.min() > 0) and is_log_spaced(points, decades=0.0)
    if logarithmic:
        panel.set(**{f"{name}scale": "log"})
        axis = getattr(panel, f"{name}axis")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    return logarithmic


def _draw_curves(panel: Axes, middle: DataArray, low: DataArray | None, high: DataArray | None, split: str | None) -> None:
    """The median and its range along one axis; split: the axis whose values get a curve each."""
    along = next(str(dim) for dim in middle.dims if dim != split)
    x = middle[along].values
    places = x if _is_numeric(x) else np.arange(x.size)
    members = [None] if split is None else list(middle[split].values)
    named = np.linspace(0, len(members) - 1, min(CURVES, len(members))).round()  # the ends and some in between
    for i, value in enumerate(members):
        part = {} if split is None else {split: value}
        if len(members) > CURVES:  # many run through a scale of colors; few differ in everything
            color = colormaps["viridis"](0.92 * i / (len(members) - 1))
            look: Look = {"color": color, "linestyle": "solid", "linewidth": 1.1}
        else:
            marks = {"marker": MARKERS[i % len(MARKERS)], "markersize": 4, "markerfacecolor": "white"}
            look = line_look(i, 1.6) | (marks if along != "time" else {})
        label = None if value is None else f"{value:g}" if _is_numeric(np.asarray(value)) else str(value)
        panel.plot(places, middle.sel(part).values, label=label if i in named else None, **look)
        if low is not None and high is not None:
            edges = low.sel(part).values, high.sel(part).values
            panel.fill_between(places, *edges, color=look["color"], alpha=0.2, linewidth=0)
    if not _is_numeric(x):
        panel.set_xticks(places, [str(value) for value in x])
    else:
        _scale(panel, "x", x)
    if wants_log(middle.values):
        panel.set_yscale("log", nonpositive="mask")
    panel.set(xlabel=parameter_label(along), ylabel=measure_label(middle))


def _draw_heat_map(
    panel: Axes, middle: DataArray, status: DataArray | None, lines: Sequence[Any], level: float | None
) -> None:
    """The median as colors, with contours, what diverged, the lines of theory and a legend below."""
    x_name, y_name = (str(dim) for dim in middle.dims)
    x, y, z = middle[x_name].values.astype(float), middle[y_name].values.astype(float), middle.values.T
    if not np.any(np.isfinite(z)):
        raise InputError(f"{middle.name} has no number on these axes; there is nothing to draw. See .failures and .notes.")
    logarithmic, lowest = wants_log(z), np.nanmin(z)
    if logarithmic:  # what is smaller than DEPTH of the largest, rounding among it, has the lowest color
        lowest = max(float(np.nanmin(z[z > 0])), DEPTH * float(np.nanmax(z)))
        z = np.where(np.isnan(z), np.nan, np.maximum(z, lowest))
    norm = (LogNorm if logarithmic else Normalize)(lowest, np.nanmax(z))
    panel.grid(False)
    panel.set_facecolor(EMPTY)
    edges = [cell_edges(points, _scale(panel, name, points)) for name, points in (("x", x), ("y", y))]
    mesh = panel.pcolormesh(*edges, z, norm=norm, cmap="viridis", rasterized=True)
    cut = logarithmic and float(np.nanmin(middle.values)) < lowest
    bar = figure_around(panel).colorbar(mesh, ax=panel, pad=0.02, extend="min" if cut else "neither")
    bar.set_label(measure_label(middle))
    bar.outline.set_linewidth(0.5)
    contours = [tick for tick in bar.get_ticks() if norm.vmin < tick < norm.vmax]
    if contours and min(z.shape) >= 3:  # thin lines of equal value, their values on the scale of colors
        panel.contour(x, y, z, levels=contours, colors="white", linewidths=0.6, alpha=0.8)
    handles: list[Artist] = []
    diverged = np.zeros(z.shape, bool)
    if status is not None:  # the solve of every initial condition diverged
        gone = status == Status.DIVERGED
        diverged = (gone.all("start") if "start" in gone.dims else gone).transpose(*middle.dims).values.T
    if diverged.any():
        shown = np.ma.masked_where(~diverged, np.ones(z.shape))
        clear = ListedColormap(["none"])  # only hatches
        panel.pcolor(*edges, shown, cmap=clear, hatch="////", edgecolor=FAINT, linewidth=0.0)
        handles.append(Patch(facecolor=EMPTY, edgecolor=FAINT, hatch="////", label="diverged"))
    if np.any(~np.isfinite(z) & ~diverged):
        handles.append(Patch(facecolor=EMPTY, label="no number (see .notes, .failures)"))
    if level is not None and np.nanmin(z) < level < np.nanmax(z):
        panel.contour(x, y, z, levels=[level], colors="white", linewidths=2.2)
        panel.contour(x, y, z, levels=[level], colors=INK, linewidths=1.2)
        handles.append(Line2D([], [], color=INK, linewidth=1.4, label=f"computed: {level:g}"))
    for i, (label, x_line, y_line) in enumerate(lines):
        color, under = ((ALARM, "#FFFFFF"), ("#FFFFFF", INK), (COLORS[3], "#FFFFFF"))[i % 3]
        outline = [patheffects.withStroke(linewidth=3.0, foreground=under)]
        look: Look = {"color": color, "linestyle": DASHES[1 + i % 3], "linewidth": 1.8, "path_effects": outline}
        panel.plot(x_line, y_line, **look)
        handles.append(Line2D([], [], **look, label=label))
    panel.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]])
    panel.set(xlabel=parameter_label(x_name), ylabel=parameter_label(y_name))
    figure = figure_around(panel)
    if handles and isinstance(figure, Figure):
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    elif handles:  # the user's axes
        panel.legend(handles=handles, ncols=2)


def cell_edges(points: np.ndarray, logarithmic: bool) -> np.ndarray:
    """Edges of the cells around the points, halfway between them on a linear or logarithmic axis."""
    if points.size == 1:
        return points[0] + np.array([-0.5, 0.5])
    p = np.log(points) if logarithmic else points
    middle = (p[1:] + p[:-1]) / 2
    edges = np.concatenate([[2 * p[0] - middle[0]], middle, [2 * p[-1] - middle[-1]]])
    return np.exp(edges) if logarithmic else edges
