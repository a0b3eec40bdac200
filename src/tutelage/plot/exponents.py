"""Figures of power laws: the exponent of a curve and that of a spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import panels
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import COLORS


@figure_of("what fit_exponent returned", "slope", "local_slope", "window")
def plot_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw data and fit on logarithmic axes, and the local slope below.

    The local slope is d ln y / d ln x, with the fitted slope and its error; the window
    is shaded.
    """
    lines = str(result).split("\n")
    heading = "A power law"
    doubt = ""
    if not result.constant:
        heading = "No power law in this window"
        doubt = lines[-1]
    top, bottom = column([2.7, 1.8], title)
    _draw_power_law(top, result, ylabel="$y$")
    _draw_local_slope(bottom, result, result.error, letters=("$x$", "$y$"))
    return finish([top, bottom], "$x$", title, heading, lines[0], doubt, alarm=True)


@figure_of("what spectral_exponent returned", "beta", "fit", "ranks")
def plot_spectral_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw eigenvalues and fit on logarithmic axes, and the local slope below.

    The local slope is -(1 + beta), drawn with its mean and error.
    """
    fit = result.fit
    summary, *doubts = str(result).split("\n")
    heading = "A power-law spectrum"
    if not fit.constant:
        heading = "A spectrum that is not a power law in this window"
    top, bottom = column([2.7, 1.8], title)
    _draw_power_law(top, fit, ylabel=r"eigenvalue $\lambda_k$")
    _draw_local_slope(bottom, fit, result.error, letters=("$k$", r"$\lambda_k$"))
    # Beyond the window the local slope may be far off.
    margin = 3 * result.error + 0.1
    bottom.set_ylim(fit.slope - margin, fit.slope + margin)
    xlabel = r"rank $k$"
    return finish([top, bottom], xlabel, title, heading, summary, doubts, alarm=True)


def _draw_power_law(axes: Axes, fit: Any, ylabel: str) -> None:
    """Draw data and fitted line on logarithmic axes, the window shaded."""
    start, end = fit.window
    panels.shade(axes, start, end, COLORS[2], "window", alpha=0.12)
    axes.set(xscale="log", yscale="log", ylabel=ylabel)
    positive = (fit.x > 0) & (fit.y > 0)
    y_error = None
    if fit.y_error is not None:
        y_error = fit.y_error[positive]
    axes.errorbar(
        fit.x[positive],
        fit.y[positive],
        y_error,
        elinewidth=0.8,
        label="data",
        **panels.plain_dots(0, size=3.4),
    )
    window = np.array(fit.window)
    fitted = fit.amplitude * window**fit.slope
    label = rf"slope {fit.slope:.3f}"
    axes.plot(window, fitted, color=COLORS[1], linewidth=2.0, label=label)


def _draw_local_slope(
    axes: Axes, fit: Any, error: float, letters: tuple[str, str]
) -> None:
    """Draw local slopes, and the fitted slope with its error over the window.

    letters: of the two variables.
    """
    start, end = fit.window
    panels.shade(axes, start, end, COLORS[2], alpha=0.12)
    positive = (fit.x > 0) & (fit.y > 0)
    axes.plot(
        fit.x[positive],
        fit.local_slope,
        color=COLORS[0],
        linewidth=1.4,
        label="local slope",
    )
    window = np.array(fit.window)
    slope = np.full(2, fit.slope)
    label = f"{fit.slope:.4g} ± {error:.1g}"
    axes.plot(window, slope, color=COLORS[1], linewidth=2.0, label=label)
    panels.fill_band(axes, window, slope, np.full(2, error), COLORS[1])
    x, y = letters
    axes.set_ylabel(f"local slope\nd ln {y} / d ln {x}")
