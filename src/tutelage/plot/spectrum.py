"""The figure of a spectrum's exponent: eigenvalues against rank with the fitted law, and beta rank by rank below."""

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


def plot_spectral_exponent(result: Any, *, title: str | None = None) -> "Figure":
    """Eigenvalues and fit on logarithmic axes, local beta with its mean and error. title: "" leaves the head out."""
    require_fields("plot_spectral_exponent", result, ("beta", "fit", "ranks"), "what spectral_exponent returned")
    from tutelage.plot.figure import Figure

    fit = result.fit
    edges = np.array(fit.window)
    with style():
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        dots = {"marker": "o", "markersize": 3.4, "linestyle": "none", "color": COLORS[0], "markerfacecolor": "white"}
        top.plot(result.ranks, result.eigenvalues, label="spectrum", **dots)
        law = rf"$k^{{{fit.slope:.2f}}}$"
        top.plot(edges, fit.amplitude * edges**fit.slope, color=COLORS[1], linewidth=2.0, label=law)
        top.set(ylabel=r"eigenvalue $\lambda_k$", xscale="log", yscale="log")
        bottom.plot(fit.local_x, -1 - fit.local_slope, color=COLORS[0], linewidth=1.4, label=r"local $\beta$")
        bottom.plot(
            edges, [result.beta] * 2, color=COLORS[1], linewidth=2.0, label=f"{result.beta:.3g} ± {result.error:.2g}"
        )
        low, high = result.beta - result.error, result.beta + result.error
        bottom.fill_between(edges, low, high, color=COLORS[1], alpha=0.25, linewidth=0)
        room = 2 * result.error + 0.1
        bottom.set(xlabel=r"rank $k$", ylabel=r"$\beta = -1 - d\ln\lambda/d\ln k$", ylim=(low - room, high + room))
        for axes in (top, bottom):
            shade(axes, edges[0], edges[1], COLORS[2], "window" if axes is top else None, 0.12)
            outside_legend(axes)
        if title != "":
            first, *alarm = str(result).split("\n")
            heading = title or ("A power-law spectrum" if fit.constant else "A spectrum that is no power law in this window")
            styled = [(line, SMALL | {"color": ALARM, "fontweight": "bold"}) for line in alarm]
            write_head(top, [(heading, TITLE), (first, SMALL), *styled])
    return figure
