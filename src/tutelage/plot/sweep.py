"""Figures of a sweep: curves over one axis, a heat map with contours over two, and the lines of theory on it.

A variable is an xarray DataArray whose dims are axes of the sweep, `start`, `run` and `time`, as a sweep labels it. Random
starts are drawn as their median with the range of their middle half, runs as their mean.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import TIME
from tutelage.plot.scales import wants_log
from tutelage.plot.style import ALARM, COLOURS, DASHES, FAINT, INK, MARKERS, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (7.2, 4.6)
FEW = 7  # values of an axis that get a curve and a line of the legend each
DIVERGED = 1  # the status code
DEPTH = 1e-6  # of the largest value: how far down the colours tell values apart
LABELS = {
    "lr": r"learning rate $\eta$",
    "sgd.lr": r"learning rate $\eta$",
    "noise": r"label noise $\sigma$",
    "student.hidden": "student units $K$",
    "teacher.hidden": "teacher units $M$",
    "student.hidden, teacher.hidden": "units $K=M$",
    "dim": "input dimension $N$",
    "scale": "size of the first weights",
    "batch": "batch",
    "weight_decay": r"weight decay $\kappa$",
    "inputs.beta": r"exponent $\beta$ of the spectrum",
    "inputs.levels": "levels $L$ of the spectrum",
    "time": TIME,
    "point": "number of the point",
}
WORDS = {
    "e_g + noise^2/2": r"$\epsilon_g+\sigma^2/2$",
    "error e_g": r"error $\epsilon_g$",
}


def plot_sweep(
    values: Any, status: Any, base: Any, *, lines: Any = (), level: float | None = None, title: str | None = None
) -> "Figure":
    """The figure of one variable of a sweep. status: how the solves ended, or None; base: the problem that was changed.

    lines: boundaries with label, x and y, for two axes; level: a contour to be drawn with them.
    """
    from matplotlib.figure import Figure

    values, small = _at_last_time(values)
    axes_of = [str(dim) for dim in values.dims if dim not in ("start", "run")]
    if len(axes_of) > 2 or not axes_of:
        raise InputError(f"{values.name} has the axes {', '.join(axes_of)}; a figure has one or two. Hold others with at=.")
    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        panel = figure.subplots()
        middle, low, high = _spread(values)
        split = None if lines else _axis_of_curves(middle)
        if len(axes_of) == 2 and split is None:
            _heat_map(figure, panel, middle, status, lines, level)
        else:
            _curves(panel, middle, low, high, split)
        _head(panel, values, base, axes_of, small, title)
    return figure


def _at_last_time(values: Any) -> tuple[Any, list[str]]:
    """Two axes and times are one too many: the last time counts, and the small print says so."""
    axes = [dim for dim in values.dims if dim not in ("start", "run")]
    if "time" in axes and len(axes) > 2:
        end = float(values["time"][-1])
        return values.isel(time=-1), [rf"at $\alpha={end:g}$"]
    return values, []


def _spread(values: Any) -> tuple[Any, Any, Any]:
    """The middle over starts and the range of their middle half; runs are averaged."""
    if "run" in values.dims:
        values = values.mean("run")
    if "start" not in values.dims:
        return values, None, None
    low, middle, high = (values.quantile(share, "start", skipna=False).drop_vars("quantile") for share in (0.25, 0.5, 0.75))
    return middle, low, high


def _axis_of_curves(values: Any) -> str | None:
    """Of two axes, the one whose values get a curve each; None where both are long, or there is only one."""
    dims = [str(dim) for dim in values.dims]
    if len(dims) < 2:
        return None
    if "time" in dims:
        return next(dim for dim in dims if dim != "time")
    words = [dim for dim in dims if not _is_numeric(values[dim].values)]
    short = sorted((dim for dim in dims if values.sizes[dim] <= FEW), key=lambda dim: values.sizes[dim])
    return (words or short or [None])[0]


def _is_numeric(values: np.ndarray) -> bool:
    return values.dtype.kind in "if"


# Curves.


def _curves(panel: Any, middle: Any, low: Any, high: Any, split: str | None) -> None:
    along = next(str(dim) for dim in middle.dims if dim != split)
    x = middle[along].values
    places = x if _is_numeric(x) else np.arange(x.size)
    members = [(None, middle, low, high)] if split is None else _members(middle, low, high, split)
    marked = along != "time"
    for i, (label, y, below, above) in enumerate(members):
        look = _look(i, len(members), marked)
        panel.plot(places, y.values, label=label, **look)
        if below is not None:
            panel.fill_between(places, below.values, above.values, color=look["color"], alpha=0.2, linewidth=0)
    if not _is_numeric(x):
        panel.set_xticks(places, [str(value) for value in x])
    elif _is_log_spaced(x):
        panel.set_xscale("log")
        _label_in_plain_numbers(panel.xaxis)
    if wants_log(middle.values):
        panel.set_yscale("log", nonpositive="mask")
    panel.set(xlabel=_axis_label(along), ylabel=_value_label(middle))
    if split is not None:
        _legend_of_curves(panel, split)


def _members(middle: Any, low: Any, high: Any, split: str) -> list[tuple[str, Any, Any, Any]]:
    found = []
    for value in middle[split].values:
        where = {split: value}
        bands = (None, None) if low is None else (low.sel(where), high.sel(where))
        found.append((f"{value:g}" if _is_numeric(np.asarray(value)) else str(value), middle.sel(where), *bands))
    return found


def _look(i: int, count: int, marked: bool) -> dict[str, Any]:
    """Few curves differ in everything; many run through a scale of colours."""
    if count <= FEW:
        look = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}
    else:
        look = {"color": _colour(i / (count - 1)), "linestyle": "solid", "linewidth": 1.1}
    marks = {"marker": MARKERS[i % len(MARKERS)], "markersize": 4, "markerfacecolor": "white"}
    return look | (marks if marked and count <= FEW else {})


def _colour(share: float) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](0.92 * share)


def _legend_of_curves(panel: Any, split: str) -> None:
    handles, labels = panel.get_legend_handles_labels()
    if len(labels) > FEW:  # the ends and some in between
        kept = np.unique(np.linspace(0, len(labels) - 1, FEW).round().astype(int))
        handles, labels = [handles[i] for i in kept], [labels[i] for i in kept]
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "borderaxespad": 0.0}
    panel.legend(handles, labels, title=_axis_label(split), alignment="left", **place)


# Two axes.


def _heat_map(figure: Any, panel: Any, middle: Any, status: Any, lines: Any, level: float | None) -> None:
    from matplotlib.colors import LogNorm, Normalize

    x_name, y_name = (str(dim) for dim in middle.dims)
    x, y, z = middle[x_name].values.astype(float), middle[y_name].values.astype(float), middle.values.T
    if not np.any(np.isfinite(z)):
        raise InputError(f"{middle.name} has no number on these axes; there is nothing to draw. See .failures and .notes.")
    logarithmic = wants_log(z)
    lowest = np.nanmin(z)
    if logarithmic:  # what is smaller than DEPTH of the largest, rounding among it, has the lowest colour
        lowest = max(float(np.nanmin(z[z > 0])), DEPTH * float(np.nanmax(z)))
        z = np.where(np.isnan(z), np.nan, np.maximum(z, lowest))
    norm = (LogNorm if logarithmic else Normalize)(lowest, np.nanmax(z))
    panel.grid(False)
    panel.set_facecolor("#E4E4E4")
    for points, scale, axis in ((x, panel.set_xscale, panel.xaxis), (y, panel.set_yscale, panel.yaxis)):
        if _is_log_spaced(points):
            scale("log")
            _label_in_plain_numbers(axis)
    edges = _edges(x), _edges(y)
    mesh = panel.pcolormesh(*edges, z, norm=norm, cmap="viridis", rasterized=True)
    cut = logarithmic and float(np.nanmin(middle.values)) < lowest
    bar = figure.colorbar(mesh, ax=panel, pad=0.02, extend="min" if cut else "neither")
    bar.set_label(_value_label(middle))
    bar.outline.set_linewidth(0.5)
    _contours(panel, bar, x, y, z, norm)
    handles = _hatched(panel, edges, z, None if status is None else _diverged(status, middle))
    handles += _boundaries(panel, x, y, z, lines, level)
    panel.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]], xlabel=_axis_label(x_name), ylabel=_axis_label(y_name))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _edges(points: np.ndarray) -> np.ndarray:
    """Cells around the points, halfway between them on the axis that they ask for."""
    if points.size == 1:
        return points[0] + np.array([-0.5, 0.5])
    logarithmic = _is_log_spaced(points)
    p = np.log(points) if logarithmic else points
    middle = (p[1:] + p[:-1]) / 2
    edges = np.concatenate([[2 * p[0] - middle[0]], middle, [2 * p[-1] - middle[-1]]])
    return np.exp(edges) if logarithmic else edges


def _label_in_plain_numbers(axis: Any) -> None:
    """0.02, 0.05, 0.1, ...: the values of a parameter seldom span many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _is_log_spaced(points: np.ndarray) -> bool:
    """Do the values of an axis lie evenly in the logarithm, rather than evenly?"""
    if points.size < 4 or points.min() <= 0:
        return False
    even, log = (np.ptp(np.diff(p)) / np.abs(np.mean(np.diff(p))) for p in (points, np.log(points)))
    return bool(log < even)


def _contours(panel: Any, bar: Any, x: Any, y: Any, z: np.ndarray, norm: Any) -> None:
    """Thin lines of equal value, with their values on the scale of colours."""
    if min(z.shape) < 3:
        return
    levels = [tick for tick in bar.get_ticks() if norm.vmin < tick < norm.vmax]
    if levels:
        panel.contour(x, y, z, levels=levels, colors="white", linewidths=0.6, alpha=0.8)


def _diverged(status: Any, middle: Any) -> np.ndarray:
    """Where every start's solve diverged."""
    gone = status == DIVERGED
    gone = gone.all("start") if "start" in gone.dims else gone
    return gone.transpose(*middle.dims).values.T


def _hatched(panel: Any, edges: Any, z: np.ndarray, diverged: np.ndarray | None) -> list[Any]:
    """Cells without a number: those that diverged are hatched, the others grey."""
    from matplotlib.patches import Patch

    handles = []
    if diverged is not None and diverged.any():
        shown = np.ma.masked_where(~diverged, np.ones(z.shape))
        panel.pcolor(*edges, shown, hatch="////", facecolor="none", edgecolor=FAINT, linewidth=0.0, cmap="Greys", alpha=0.0)
        handles.append(Patch(facecolor="#E4E4E4", edgecolor=FAINT, hatch="////", label="diverged"))
    other = ~np.isfinite(z) & ~(diverged if diverged is not None else np.zeros(z.shape, bool))
    if other.any():
        handles.append(Patch(facecolor="#E4E4E4", label="no number (see .notes, .failures)"))
    return handles


def _boundaries(panel: Any, x: Any, y: Any, z: np.ndarray, lines: Any, level: float | None) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = []
    if level is not None and np.nanmin(z) < level < np.nanmax(z):
        panel.contour(x, y, z, levels=[level], colors="white", linewidths=2.2)
        panel.contour(x, y, z, levels=[level], colors=INK, linewidths=1.2)
        handles.append(Line2D([], [], color=INK, linewidth=1.4, label=f"computed: {level:g}"))
    for i, line in enumerate(lines):
        colour = (ALARM, "#FFFFFF", COLOURS[3])[i % 3]
        under = INK if colour == "#FFFFFF" else "#FFFFFF"
        panel.plot(line.x, line.y, color=under, linewidth=3.0)
        panel.plot(line.x, line.y, color=colour, linestyle=DASHES[1 + i % 3], linewidth=1.8)
        handles.append(_line_handle(colour, under, DASHES[1 + i % 3], line.label))
    return handles


def _line_handle(colour: str, under: str, dashes: Any, label: str) -> Any:
    from matplotlib import patheffects
    from matplotlib.lines import Line2D

    outline = [patheffects.withStroke(linewidth=3.0, foreground=under)]
    return Line2D([], [], color=colour, linestyle=dashes, linewidth=1.8, label=label, path_effects=outline)


# Words.


def _axis_label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " "))


def _value_label(values: Any) -> str:
    text = str(values.attrs.get("long_name", values.name))
    for plain, maths in WORDS.items():
        text = text.replace(plain, maths)
    return text


def _head(panel: Any, values: Any, base: Any, axes: list[str], small: list[str], title: str | None) -> None:
    who, how = problem_in_words(base)
    own = {"lr": "learning rate", "noise": "label noise"}
    changed = [own[name] for name in axes if name in own]
    kept = [part for part in how.split(", ") if not any(word in part for word in changed)]
    if "start" in values.dims:
        kept.append(f"median of {values.sizes['start']} starts")
    what = f"{_value_label(values)} over {' and '.join(_axis_label(a).split(' $')[0] for a in axes)}"
    text = title or (what[0].upper() + what[1:])
    write_head(panel, [(text, TITLE), (f"{who}; {', '.join([*kept, *small])}", SMALL)])
