"""A sweep as curves: one for each value of a short axis, or one alone."""

from typing import Any

import numpy as np

from tutelage.plot.scales import wants_log
from tutelage.plot.style import COLORS, DASHES, MARKERS
from tutelage.plot.sweep_axes import axis_label, is_evenly_logarithmic, is_numeric, label_in_plain_numbers, value_label

FEW = 7  # values of an axis that get a curve and a line of the legend each


def draw_curves(panel: Any, middle: Any, low: Any, high: Any, split: str | None) -> None:
    """The middle over starts and its range along one axis; split: the axis whose values get a curve each."""
    along = next(str(dim) for dim in middle.dims if dim != split)
    x = middle[along].values
    places = x if is_numeric(x) else np.arange(x.size)
    members = [(None, middle, low, high)] if split is None else _members(middle, low, high, split)
    marked = along != "time"
    for i, (label, y, below, above) in enumerate(members):
        look = _look(i, len(members), marked)
        panel.plot(places, y.values, label=label, **look)
        if below is not None:
            panel.fill_between(places, below.values, above.values, color=look["color"], alpha=0.2, linewidth=0)
    if not is_numeric(x):
        panel.set_xticks(places, [str(value) for value in x])
    elif is_evenly_logarithmic(x):
        panel.set_xscale("log")
        label_in_plain_numbers(panel.xaxis)
    if wants_log(middle.values):
        panel.set_yscale("log", nonpositive="mask")
    panel.set(xlabel=axis_label(along), ylabel=value_label(middle))
    if split is not None:
        _legend_of_curves(panel, split)


def _members(middle: Any, low: Any, high: Any, split: str) -> list[tuple[str, Any, Any, Any]]:
    found = []
    for value in middle[split].values:
        where = {split: value}
        bands = (None, None) if low is None else (low.sel(where), high.sel(where))
        found.append((f"{value:g}" if is_numeric(np.asarray(value)) else str(value), middle.sel(where), *bands))
    return found


def _look(i: int, count: int, marked: bool) -> dict[str, Any]:
    """Few curves differ in everything; many run through a scale of colors."""
    if count <= FEW:
        look = {"color": COLORS[i % len(COLORS)], "linestyle": DASHES[i % len(DASHES)]}
    else:
        look = {"color": _color(i / (count - 1)), "linestyle": "solid", "linewidth": 1.1}
    marks = {"marker": MARKERS[i % len(MARKERS)], "markersize": 4, "markerfacecolor": "white"}
    return look | (marks if marked and count <= FEW else {})


def _color(share: float) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](0.92 * share)


def _legend_of_curves(panel: Any, split: str) -> None:
    handles, labels = panel.get_legend_handles_labels()
    if len(labels) > FEW:  # the ends and some in between
        kept = np.unique(np.linspace(0, len(labels) - 1, FEW).round().astype(int))
        handles, labels = [handles[i] for i in kept], [labels[i] for i in kept]
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "borderaxespad": 0.0}
    panel.legend(handles, labels, title=axis_label(split), alignment="left", **place)
