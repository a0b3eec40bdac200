"""A sweep over two long axes: colors, contours, what diverged, and the lines of theory."""

from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.plot.scales import wants_log
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK
from tutelage.plot.sweep_axes import axis_label, is_evenly_logarithmic, label_in_plain_numbers, value_label

DIVERGED = 1  # the status code
DEPTH = 1e-6  # of the largest value: how far down the colors tell values apart


def draw_heat_map(figure: Any, panel: Any, middle: Any, status: Any, lines: Any, level: float | None) -> None:
    """The middle over starts as colors, with all that is drawn upon them and a legend below."""
    from matplotlib.colors import LogNorm, Normalize

    x_name, y_name = (str(dim) for dim in middle.dims)
    x, y, z = middle[x_name].values.astype(float), middle[y_name].values.astype(float), middle.values.T
    if not np.any(np.isfinite(z)):
        raise InputError(f"{middle.name} has no number on these axes; there is nothing to draw. See .failures and .notes.")
    logarithmic = wants_log(z)
    lowest = np.nanmin(z)
    if logarithmic:  # what is smaller than DEPTH of the largest, rounding among it, has the lowest color
        lowest = max(float(np.nanmin(z[z > 0])), DEPTH * float(np.nanmax(z)))
        z = np.where(np.isnan(z), np.nan, np.maximum(z, lowest))
    norm = (LogNorm if logarithmic else Normalize)(lowest, np.nanmax(z))
    panel.grid(False)
    panel.set_facecolor("#E4E4E4")
    for points, scale, axis in ((x, panel.set_xscale, panel.xaxis), (y, panel.set_yscale, panel.yaxis)):
        if is_evenly_logarithmic(points):
            scale("log")
            label_in_plain_numbers(axis)
    edges = tuple(cell_edges(points, is_evenly_logarithmic(points)) for points in (x, y))
    mesh = panel.pcolormesh(*edges, z, norm=norm, cmap="viridis", rasterized=True)
    cut = logarithmic and float(np.nanmin(middle.values)) < lowest
    bar = figure.colorbar(mesh, ax=panel, pad=0.02, extend="min" if cut else "neither")
    bar.set_label(value_label(middle))
    bar.outline.set_linewidth(0.5)
    _contours(panel, bar, x, y, z, norm)
    handles = _hatched(panel, edges, z, None if status is None else _diverged(status, middle))
    handles += _boundaries(panel, x, y, z, lines, level)
    panel.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]], xlabel=axis_label(x_name), ylabel=axis_label(y_name))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=2)


def cell_edges(points: np.ndarray, logarithmic: bool) -> np.ndarray:
    """Cells around the points, halfway between them on a linear or logarithmic axis."""
    if points.size == 1:
        return points[0] + np.array([-0.5, 0.5])
    p = np.log(points) if logarithmic else points
    middle = (p[1:] + p[:-1]) / 2
    edges = np.concatenate([[2 * p[0] - middle[0]], middle, [2 * p[-1] - middle[-1]]])
    return np.exp(edges) if logarithmic else edges


def _contours(panel: Any, bar: Any, x: Any, y: Any, z: np.ndarray, norm: Any) -> None:
    """Thin lines of equal value, with their values on the scale of colors."""
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
    """Cells without a number: those that diverged are hatched, the others gray."""
    from matplotlib.patches import Patch

    handles = []
    if diverged is not None and diverged.any():
        shown = np.ma.masked_where(~diverged, np.ones(z.shape))
        panel.pcolor(*edges, shown, hatch="////", facecolor="none", edgecolor=FAINT, linewidth=0.0, cmap="Grays", alpha=0.0)
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
        color = (ALARM, "#FFFFFF", COLORS[3])[i % 3]
        under = INK if color == "#FFFFFF" else "#FFFFFF"
        panel.plot(line.x, line.y, color=under, linewidth=3.0)
        panel.plot(line.x, line.y, color=color, linestyle=DASHES[1 + i % 3], linewidth=1.8)
        handles.append(_line_handle(color, under, DASHES[1 + i % 3], line.label))
    return handles


def _line_handle(color: str, under: str, dashes: Any, label: str) -> Any:
    from matplotlib import patheffects
    from matplotlib.lines import Line2D

    outline = [patheffects.withStroke(linewidth=3.0, foreground=under)]
    return Line2D([], [], color=color, linestyle=dashes, linewidth=1.8, label=label, path_effects=outline)
