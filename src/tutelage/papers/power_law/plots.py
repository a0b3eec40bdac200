"""Figures of power-law inputs: sums over the spectrum, partly trained inputs, moments of random teachers."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import InputError
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR_IN_TWO_LINES,
    FAINT,
    INK,
    MARKERS,
    TIME,
    column,
    figure_of,
    finish,
    problem_in_words,
    write_head,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200  # times of a curve


@figure_of("a PowerLawSum", "sum", "integral", "bounds", "window")
def plot_power_law_sum(law: Any, times: Any = None, *, title: str | None = None) -> "Figure":
    """Draw the error as sum and as integral, its rigorous bounds, the pure power law, and d ln e_g / d ln alpha.

    times: default 200 times from a tenth of the window's first to three times its last. The window is shaded.
    """
    first, last = law.window
    times = (
        np.geomspace(first / 10, 3 * last, POINTS) if times is None else np.sort(np.ravel(np.asarray(times, dtype=float)))
    )
    times = times[times > 0]
    if times.size == 0:
        raise InputError("times hold no positive number; there is nothing to draw on a logarithmic axis.")
    figure, (curve, slope) = column([3.0, 2.0], title)
    _draw_sums(curve, law, times)
    slope.plot(times, law.local_slope(times), color=COLORS[0], linewidth=2.0, label="sum")
    slope.plot(times, law.local_slope(times, "integral"), color=COLORS[1], linestyle=DASHES[1], label="integral")
    slope.axhline(-law.exponent, color=INK, linewidth=1.0, linestyle=DASHES[2], label=r"$-\beta/(1+\beta)$")
    slope.set(ylim=(-3 * law.exponent, 0.05), ylabel="local slope\n" + r"$d\,\ln\epsilon_g / d\,\ln\alpha$")
    for axes in (curve, slope):
        axes.axvspan(max(first, times[0]), min(last, times[-1]), color=FAINT, alpha=0.12, linewidth=0, label="window")
    curve.set(xscale="log", xlim=(times[0], times[-1]))
    finish(figure, [curve, slope], TIME)
    some = "" if law.trained is None else f", {law.trained} of them learn"
    small = f"beta = {law.beta:g}, {law.levels} levels{some}, learning rate {law.rate:g}, weights of size {law.scale:g}"
    write_head(curve, title, "The error of a power law, at a small learning rate", small)
    return figure


def _draw_sums(axes: Any, law: Any, times: np.ndarray) -> None:
    total, (low, high) = law.sum(times), law.bounds(times)
    seen = total > 1e-12 * total.max()
    t, floor = times[seen], np.maximum(low, 1e-3 * total)  # a logarithmic axis has no zero
    axes.fill_between(t, floor[seen], high[seen], color=COLORS[0], alpha=0.18, linewidth=0, label="bounds")
    axes.plot(t, total[seen], color=COLORS[0], linewidth=2.0, label="sum over levels")
    axes.plot(t, law.integral(times)[seen], color=COLORS[1], linestyle=DASHES[1], label="integral")
    axes.plot(t, law.power_law(times)[seen], color=INK, linewidth=1.0, linestyle=DASHES[2], label="power law")
    axes.set(yscale="log", ylim=(total[seen].min() / 3, 3 * total.max()), ylabel=ERROR_IN_TWO_LINES)


@figure_of("what raw_features returned", "floors", "eigenbasis_floors", "trained")
def plot_raw_features(features: Any, counts: Any = None, *, title: str | None = None) -> "Figure":
    """Draw the floor of the error for raw inputs and for eigenvectors, and the steady state at this learning rate.

    counts: numbers of trained inputs; default 60 of them, evenly spaced in the logarithm.
    """
    N = features.dim
    if counts is None:
        counts = np.unique(np.geomspace(1, max(N - 1, 1), 60).astype(int))
    counts = np.sort(np.ravel(np.asarray(counts)))
    figure, (axes,) = column([3.1], title, width=7.2)
    axes.plot(counts, features.floors(counts), color=COLORS[0], linewidth=2.0, label="raw inputs")
    axes.plot(counts, features.eigenbasis_floors(counts), color=COLORS[1], linestyle=DASHES[1], label="eigenvectors")
    if features.stable:
        here = {"marker": "D", "color": COLORS[2], "linestyle": "none", "markersize": 6}
        axes.plot([features.trained], [features.steady_state], label="at this learning rate", **here)
    if counts.size > 1 and counts[0] > 0:
        axes.set_xscale("log")
    axes.set(yscale="log", ylabel="final generalization\n" + r"error $\epsilon_g(\infty)$")
    finish(figure, [axes], "number of inputs that learn, $N_l$")
    write_head(axes, title, "Training only some of the inputs", f"{problem_in_words(features.problem)[1]}, N = {N}")
    return figure


@figure_of("what teacher_moments returned", "orders", "mean", "other_sd")
def plot_teacher_moments(result: Any, *, title: str | None = None) -> "Figure":
    """Draw mean and standard deviations against the order, on a logarithmic axis. title: "" leaves the head out."""
    lines = {
        r"mean of $T^{(j)}_{nn}$": result.mean,
        r"spread of $T^{(j)}_{nn}$": result.diagonal_sd,
        r"spread of $T^{(j)}_{nm}$": result.other_sd,
    }
    figure, (axes,) = column([2.9], title, width=6.6)
    for i, (label, values) in enumerate(lines.items()):
        look = {"color": COLORS[i], "linestyle": DASHES[i], "marker": MARKERS[i], "markersize": 4}
        axes.plot(result.orders, values, label=label, **look)
    axes.set(ylabel="over random teachers", yscale="log", xticks=result.orders)
    finish(figure, [axes], "order $j$")
    small = f"N = {result.dim}, {result.eigenvalues.size} levels; lines join whole orders"
    write_head(axes, title, "Moments of random teachers", small)
    return figure
