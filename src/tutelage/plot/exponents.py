"""Figures of exponents: data with the fitted power law above, local slopes below; of a curve and of a spectrum."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot.axes import column, figure_of, finish, plain_dots, shade, write_head
from tutelage.plot.style import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_of("what fit_exponent returned", "slope", "local_slope", "window")
def plot_exponent(result: Any, *, title: str | None = None) -> "Figure":
    """Draw data and fit on logarithmic axes, and d ln y / d ln x with the slope and its error; the window is shaded.

    title: "" leaves the head out.
    """
    seen = (result.x > 0) & (result.y > 0)
    x, y, slope, error = result.x[seen], result.y[seen], result.slope, result.error
    figure, (top, bottom) = _panels(result, title)
    top.plot(x, y, label="data", **plain_dots(0, 3.4))
    if result.y_error is not None:
        top.errorbar(x, y, yerr=result.y_error[seen], fmt="none", elinewidth=0.8, ecolor=COLORS[0])
    _draw_fit(top, result, rf"$x^{{{slope:.3f}}}$")
    top.set_ylabel("$y$")
    bottom.plot(result.local_x, result.local_slope, color=COLORS[0], linewidth=1.4, label="local slope")
    _draw_level(bottom, result, slope, error if result.constant else 0.0, f"{slope:.4g} ± {error:.1g}")
    low, high = min(slope, np.min(result.local_slope)), max(slope, np.max(result.local_slope))
    room = max(0.08 * (high - low), 0.02 * abs(slope))
    bottom.set(ylabel="local slope\n" + r"d ln $y$ / d ln $x$", ylim=(low - room, high + room))
    finish(figure, [top, bottom], "$x$")
    lines = str(result).split("\n")
    default = "A power law" if result.constant else "No power law in this window"
    write_head(top, title, default, lines[0], "" if result.constant else lines[-1], alarm=True)
    return figure


@figure_of("what spectral_exponent returned", "beta", "fit", "ranks")
def plot_spectral_exponent(result: Any, *, title: str | None = None) -> "Figure":
    """Draw eigenvalues and fit on logarithmic axes, local beta with its mean and error. title: "" leaves the head out."""
    fit, beta, error = result.fit, result.beta, result.error
    figure, (top, bottom) = _panels(fit, title)
    top.plot(result.ranks, result.eigenvalues, label="spectrum", **plain_dots(0, 3.4))
    _draw_fit(top, fit, rf"$k^{{{fit.slope:.2f}}}$")
    top.set_ylabel(r"eigenvalue $\lambda_k$")
    bottom.plot(fit.local_x, -1 - fit.local_slope, color=COLORS[0], linewidth=1.4, label=r"local $\beta$")
    _draw_level(bottom, fit, beta, error, f"{beta:.3g} ± {error:.2g}")
    room = 3 * error + 0.1
    bottom.set(ylabel=r"$\beta = -1 - d\ln\lambda/d\ln k$", ylim=(beta - room, beta + room))
    finish(figure, [top, bottom], r"rank $k$")
    first, *alarm = str(result).split("\n")
    default = "A power-law spectrum" if fit.constant else "A spectrum that is not a power law in this window"
    write_head(top, title, default, first, alarm, alarm=True)
    return figure


def _panels(fit: Any, title: str | None) -> "tuple[Figure, list[Any]]":
    """Data above and slopes below, the window of the fit shaded."""
    figure, (top, bottom) = column([2.7, 1.8], title)
    first, last = fit.window
    shade(top, first, last, COLORS[2], "window", 0.12)
    shade(bottom, first, last, COLORS[2], alpha=0.12)
    top.set(xscale="log", yscale="log")
    return figure, [top, bottom]


def _draw_fit(axes: Any, fit: Any, label: str) -> None:
    edges = np.array(fit.window)
    axes.plot(edges, fit.amplitude * edges**fit.slope, color=COLORS[1], linewidth=2.0, label=label)


def _draw_level(axes: Any, fit: Any, value: float, error: float, label: str) -> None:
    axes.plot(fit.window, [value] * 2, color=COLORS[1], linewidth=2.0, label=label)
    if error > 0:
        axes.fill_between(fit.window, value - error, value + error, color=COLORS[1], alpha=0.25, linewidth=0)
