"""The figure of an exponent: the data with the fitted power law above, the local slopes below."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.curve_parts import shade
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import outside_legend
from tutelage.plot.style import ALARM, COLORS, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 7.4, 5.4


def plot_exponent(result: Any, *, title: str | None = None) -> "Figure":
    """Data and fit on logarithmic axes, and d ln y / d ln x with the slope and its error; the window is shaded.

    title: "" leaves the head out.
    """
    require_fields("plot_exponent", result, ("slope", "local_slope", "window"), "what fit_exponent returned")
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        _draw_data(top, result)
        _draw_slopes(bottom, result)
        for axes in (top, bottom):
            shade(axes, result.window[0], result.window[1], COLORS[2], "window" if axes is top else None, 0.12)
            outside_legend(axes)
        bottom.set_xlabel("$x$")
        figure.align_ylabels([top, bottom])
        if title != "":
            lines = str(result).split("\n")
            alarm = [(lines[-1], SMALL | {"color": ALARM, "fontweight": "bold"})] if not result.constant else []
            heading = title or ("A power law" if result.constant else "No power law in this window")
            write_head(top, [(heading, TITLE), (lines[0], SMALL), *alarm])
    return figure


def _draw_data(axes: Any, result: Any) -> None:
    seen = (result.x > 0) & (result.y > 0)
    x, y = result.x[seen], result.y[seen]
    look = {"marker": "o", "markersize": 3.4, "linestyle": "none", "color": COLORS[0], "markerfacecolor": "white"}
    axes.plot(x, y, label="data", **look)
    if result.y_error is not None:
        axes.errorbar(x, y, yerr=result.y_error[seen], fmt="none", elinewidth=0.8, ecolor=COLORS[0])
    edges = np.array(result.window)
    fitted = result.amplitude * edges**result.slope
    axes.plot(edges, fitted, color=COLORS[1], linewidth=2.0, label=rf"$x^{{{result.slope:.3f}}}$")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("$y$")


def _draw_slopes(axes: Any, result: Any) -> None:
    edges, slope, error = np.array(result.window), result.slope, result.error
    axes.plot(result.local_x, result.local_slope, color=COLORS[0], linewidth=1.4, label="local slope")
    axes.plot(edges, [slope] * 2, color=COLORS[1], linewidth=2.0, label=f"{slope:.4g} ± {error:.1g}")
    if result.constant:
        axes.fill_between(edges, slope - error, slope + error, color=COLORS[1], alpha=0.25, linewidth=0)
    axes.set_ylabel("local slope\n" + r"d ln $y$ / d ln $x$")
    low, high = min(slope, np.min(result.local_slope)), max(slope, np.max(result.local_slope))
    room = max(0.08 * (high - low), 0.02 * abs(slope))
    axes.set_ylim(low - room, high + room)
