"""Figures of power-law inputs.

Sums over the spectrum, linear networks, partly trained inputs, plateaus and late decay.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import InputError
from tutelage.plot import (
    COLORS,
    DASHES,
    ERROR,
    ERROR_IN_TWO_LINES,
    FAINT,
    INK,
    MARKERS,
    TIME,
    column,
    figure_of,
    finish,
    panel_grid,
    problem_in_words,
    scale_error,
    scale_time,
    shown_times,
)
from tutelage_papers.drawing import line_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200  # times of a curve
# A thin dotted line: a law to compare with.
LAW: dict[str, Any] = {"color": INK, "linewidth": 1.0, "linestyle": DASHES[2]}


def _ascending(values: Any) -> np.ndarray:
    """The user's numbers, flat and in ascending order."""
    return np.sort(np.ravel(np.asarray(values, dtype=float)))


@figure_of("a PowerLawSum", "sum", "integral", "bounds", "window")
def plot_power_law_sum(
    law: Any, times: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw the error as sum and as integral, its bounds, and the pure power law.

    Below, d ln e_g / d ln alpha. The window is shaded.

    times: default 200 times from a tenth of the window's first to three times its last.
    """
    first, last = law.window
    if times is None:
        times = np.geomspace(first / 10, 3 * last, POINTS)
    else:
        times = _ascending(times)
    times = times[times > 0]
    if times.size == 0:
        raise InputError(
            "times hold no positive number; there is nothing to draw on a logarithmic "
            "axis."
        )
    curve, slope = column([3.0, 2.0], title)
    _draw_sums(curve, law, times)
    _draw_local_slope(slope, law, times)
    begin = max(first, times[0])
    end = min(last, times[-1])
    shade = {"color": FAINT, "alpha": 0.12, "linewidth": 0}
    for axes in (curve, slope):
        axes.axvspan(begin, end, label="window", **shade)
    curve.set(xscale="log", xlim=(times[0], times[-1]))
    some = ""
    if law.trained is not None:
        some = f", {law.trained} of them learn"
    small = (
        f"beta = {law.beta:g}, {law.levels} levels{some}, learning rate {law.rate:g}, "
        f"weights of size {law.scale:g}"
    )
    words = "The error of a power law, at a small learning rate"
    return finish([curve, slope], TIME, title, words, small)


def _draw_sums(axes: Any, law: Any, times: np.ndarray) -> None:
    """The sum on the band of its bounds, the integral, and the power law."""
    total = law.sum(times)
    low, high = law.bounds(times)
    # A logarithmic axis has no zero.
    low = np.maximum(low, 1e-3 * total)
    seen = total > 1e-12 * total.max()
    t = times[seen]
    band = {"color": COLORS[0], "alpha": 0.18, "linewidth": 0}
    wide = {"color": COLORS[0], "linewidth": 2.0}
    axes.fill_between(t, low[seen], high[seen], label="bounds", **band)
    axes.plot(t, total[seen], label="sum over levels", **wide)
    axes.plot(t, law.integral(times)[seen], label="integral", **line_of(1))
    axes.plot(t, law.power_law(times)[seen], label="power law", **LAW)
    axes.set(yscale="log", ylim=(total[seen].min() / 3, 3 * total.max()))
    axes.set_ylabel(ERROR_IN_TWO_LINES)


def _draw_local_slope(axes: Any, law: Any, times: np.ndarray) -> None:
    """Local slopes of sum and integral, and the exponent."""
    wide = {"color": COLORS[0], "linewidth": 2.0}
    of_integral = law.local_slope(times, "integral")
    axes.plot(times, law.local_slope(times), label="sum", **wide)
    axes.plot(times, of_integral, label="integral", **line_of(1))
    axes.axhline(-law.exponent, label=r"$-\beta/(1+\beta)$", **LAW)
    axes.set_ylim(-3 * law.exponent, 0.05)
    axes.set_ylabel("local slope\n" + r"$d\,\ln\epsilon_g / d\,\ln\alpha$")


@figure_of("what raw_features returned", "floors", "eigenbasis_floors", "trained")
def plot_raw_features(
    features: Any, counts: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw the floor of the error for raw inputs and for eigenvectors.

    And the steady state at this learning rate.

    counts: numbers of trained inputs; default 60 of them, evenly spaced in the logarithm.
    """
    N = features.dim
    if counts is None:
        counts = np.unique(np.geomspace(1, max(N - 1, 1), 60).astype(int))
    counts = np.sort(np.ravel(np.asarray(counts)))
    (axes,) = column([3.1], title, width=7.2)
    wide = {"color": COLORS[0], "linewidth": 2.0}
    in_eigenbasis = features.eigenbasis_floors(counts)
    axes.plot(counts, features.floors(counts), label="raw inputs", **wide)
    axes.plot(counts, in_eigenbasis, label="eigenvectors", **line_of(1))
    if features.stable:
        mark = {"marker": "D", "color": COLORS[2], "linestyle": "none", "markersize": 6}
        count = [features.trained]
        error = [features.steady_state]
        axes.plot(count, error, label="at this learning rate", **mark)
    if counts.size > 1 and counts[0] > 0:
        axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("final generalization\n" + r"error $\epsilon_g(\infty)$")
    small = f"{problem_in_words(features.problem)[1]}, N = {N}"
    xlabel = "number of inputs that learn, $N_l$"
    return finish([axes], xlabel, title, "Training only some of the inputs", small)


@figure_of("what teacher_moments returned", "orders", "mean", "other_sd")
def plot_teacher_moments(result: Any, *, title: str | None = None) -> "Figure":
    """Draw mean and standard deviations against the order, on a logarithmic axis.

    title: "" leaves the head out.
    """
    lines = {
        r"mean of $T^{(j)}_{nn}$": result.mean,
        r"spread of $T^{(j)}_{nn}$": result.diagonal_sd,
        r"spread of $T^{(j)}_{nm}$": result.other_sd,
    }
    (axes,) = column([2.9], title, width=6.6)
    for i, (label, values) in enumerate(lines.items()):
        marks = {"marker": MARKERS[i], "markersize": 4}
        axes.plot(result.orders, values, label=label, **line_of(i), **marks)
    axes.set(ylabel="over random teachers", yscale="log", xticks=result.orders)
    small = (
        f"N = {result.dim}, {result.eigenvalues.size} levels; lines join whole orders"
    )
    return finish([axes], "order $j$", title, "Moments of random teachers", small)


@figure_of("what linear_network returned", "error", "small_rate", "modes")
def plot_linear_network(
    network: Any, times: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw e_g with its small-rate limit and its final value.

    Below, the decay rates and the share of each mode.

    times: default 0 and 200 times, evenly spaced in the logarithm, over all modes.
    """
    if times is None:
        times = _all_modes(network)
    else:
        times = _ascending(times)
    times = times[shown_times(times)]
    curve, modes = column([2.8, 2.4], title, width=7.2, sharex=False)
    _draw_closed_form(curve, network, times)
    _draw_modes(modes, network.modes)
    who, how = problem_in_words(network.problem)
    small = how
    if network.dim is not None:
        small += f", N = {network.dim}"
    outcome = ""
    if not network.stable:
        outcome = (
            f"The learning rate is above the critical {network.critical_rate:.4g}: the "
            "mean error grows for ever"
        )
    xlabel = "mode $k$, fastest first"
    return finish([curve, modes], xlabel, title, who, small, outcome, alarm=True)


def _all_modes(network: Any) -> np.ndarray:
    """Times from a tenth of the fastest mode's to a few of the slowest one's.

    Within ten decades.
    """
    rates = np.abs(network.modes.rates)
    first = 0.1 / rates.max()
    last = min(5 / max(rates.min(), 1e-300), 1e10 * first)
    if not network.stable:
        last = min(last, 20 * first)
    return np.geomspace(first, last, POINTS)


def _draw_closed_form(axes: Any, network: Any, times: np.ndarray) -> None:
    """The error, its limits of large N and of small rates, and its final value."""
    error = network.error(times)
    small = network.small_rate(times)
    label = "exact"
    if network.dim is not None:
        label = f"exact mean, $N={network.dim}$"
    axes.plot(times, error, color=COLORS[0], linewidth=2.0, label=label)
    if network.dim is not None:
        limit = type(network)(network.problem, network.start).error(times)
        axes.plot(times, limit, label=r"limit $N\to\infty$", **line_of(2))
        error = np.concatenate([error, limit])
    axes.plot(times, small, label="small learning rate", **line_of(1))
    if network.stable and network.steady_state > 0:
        final = {"color": FAINT, "linewidth": 1.0, "linestyle": DASHES[3]}
        axes.axhline(network.steady_state, label="final value", **final)
    axes.set(xlabel=TIME, ylabel=ERROR_IN_TWO_LINES)
    scale_error(axes, np.concatenate([error, small]))
    scale_time(axes, times)


def _draw_modes(axes: Any, modes: Any) -> None:
    """Decay rates, eigenvalues of the data, and shares of the modes."""
    k = np.arange(1, modes.rates.size + 1)
    marks: dict[str, Any] = {}
    if k.size <= 40:
        marks = {"marker": "o", "markersize": 3.0}
    halved = modes.eigenvalues / 2
    levels = {"color": FAINT, "linestyle": DASHES[1]}
    share = line_of(1, 2) | marks
    axes.plot(k, halved, color=COLORS[0], label=r"rate / 2$\eta$", **marks)
    axes.plot(k, modes.levels, label=r"level $\lambda_k$", **levels)
    axes.plot(k, modes.weights, label="share of an even start", **share)
    if k.size > 12:
        axes.set_xscale("log")
    else:
        axes.set_xticks(k)
    if np.all(np.concatenate([modes.eigenvalues, modes.weights]) > 0):
        axes.set_yscale("log")
    axes.set_ylabel("modes of the error")


@figure_of("what symmetric_plateau returned", "coefficients", "R", "Q", "rates")
def plot_symmetric_plateau(plateau: Any, *, title: str | None = None) -> "Figure":
    """Draw R with each teacher next to Q, and the rates at which units specialize."""
    who, how = problem_in_words(plateau.problem)
    small = (
        f"{how}; $\\epsilon_g={plateau.error:.4g}$, "
        f"time constant {plateau.time_constant:.4g}"
    )
    figure, axes = panel_grid(1, 2, title or who, small, height=3.0, width=8.0)
    heights, rates = axes[0]
    units = np.arange(1, plateau.R.size + 1)
    heights.plot(units, plateau.R, "o", color=COLORS[0], label="$R_n$, each teacher")
    heights.axhline(plateau.Q, color=COLORS[1], label="$Q$, all student units")
    heights.set(xlabel="teacher $n$", ylabel="overlap on the plateau")
    heights.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    rates.axhline(0.0, color=FAINT, linewidth=0.8)
    rates.plot(units, plateau.rates, "s", color=COLORS[2])
    rates.set(xlabel="mode", ylabel=r"growth rate, per unit of $\alpha$")
    ticks = units
    if units.size > 12:
        ticks = units[:: units.size // 8]
    for panel in (heights, rates):
        panel.set_xlim(0.5, units[-1] + 0.5)
        panel.set_xticks(ticks)
    return figure


@figure_of("what asymptotic_decay returned", "first_order", "rates", "own_rates")
def plot_asymptotic_decay(
    decay: Any, times: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw e_g against time as it decays, linear in the weights and in the overlaps.

    times: default 200 times over the slowest mode, evenly spaced in the logarithm.
    """
    if times is None:
        rates = np.concatenate([decay.rates, decay.own_rates.ravel()])
        slowest = rates[rates > 1e-12 * rates.max()].min()
        times = np.geomspace(0.1 / rates.max(), 2 / slowest, POINTS)
    (axes,) = column([2.9], title, width=7.2)
    label = "linear in the weights, exact $\\epsilon_g$"
    axes.loglog(times, decay.error(times), color=COLORS[0], label=label)
    first_order = decay.first_order(times)
    axes.loglog(times, first_order, label="linear in the overlaps", **line_of(1))
    axes.set_ylabel(ERROR)
    who, how = problem_in_words(decay.problem)
    small = f"{how}; near perfect learning, gradient flow"
    xlabel = r"time after the initial condition, $\alpha$"
    figure = finish([axes], xlabel, title, who, small)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.18), ncols=2)
    return figure
