"""Figures of power-law inputs: sums over the spectrum, linear networks, partly trained inputs, plateaus and late decay."""

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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200  # times of a curve


@figure_of("a PowerLawSum", "sum", "integral", "bounds", "window")
def plot_power_law_sum(
    law: Any, times: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw the error as sum and as integral, its rigorous bounds, the pure power law, and d ln e_g / d ln alpha.

    times: default 200 times from a tenth of the window's first to three times its last. The window is shaded.
    """
    first, last = law.window
    times = (
        np.geomspace(first / 10, 3 * last, POINTS)
        if times is None
        else np.sort(np.ravel(np.asarray(times, dtype=float)))
    )
    times = times[times > 0]
    if times.size == 0:
        raise InputError(
            "times hold no positive number; there is nothing to draw on a logarithmic axis."
        )
    curve, slope = column([3.0, 2.0], title)
    _draw_sums(curve, law, times)
    slope.plot(
        times, law.local_slope(times), color=COLORS[0], linewidth=2.0, label="sum"
    )
    slope.plot(
        times,
        law.local_slope(times, "integral"),
        color=COLORS[1],
        linestyle=DASHES[1],
        label="integral",
    )
    slope.axhline(
        -law.exponent,
        color=INK,
        linewidth=1.0,
        linestyle=DASHES[2],
        label=r"$-\beta/(1+\beta)$",
    )
    slope.set(
        ylim=(-3 * law.exponent, 0.05),
        ylabel="local slope\n" + r"$d\,\ln\epsilon_g / d\,\ln\alpha$",
    )
    for axes in (curve, slope):
        axes.axvspan(
            max(first, times[0]),
            min(last, times[-1]),
            color=FAINT,
            alpha=0.12,
            linewidth=0,
            label="window",
        )
    curve.set(xscale="log", xlim=(times[0], times[-1]))
    some = "" if law.trained is None else f", {law.trained} of them learn"
    small = f"beta = {law.beta:g}, {law.levels} levels{some}, learning rate {law.rate:g}, weights of size {law.scale:g}"
    return finish(
        [curve, slope],
        TIME,
        title,
        "The error of a power law, at a small learning rate",
        small,
    )


def _draw_sums(axes: Any, law: Any, times: np.ndarray) -> None:
    total, (low, high) = law.sum(times), law.bounds(times)
    seen = total > 1e-12 * total.max()
    t, floor = (
        times[seen],
        np.maximum(low, 1e-3 * total),
    )  # a logarithmic axis has no zero
    axes.fill_between(
        t,
        floor[seen],
        high[seen],
        color=COLORS[0],
        alpha=0.18,
        linewidth=0,
        label="bounds",
    )
    axes.plot(t, total[seen], color=COLORS[0], linewidth=2.0, label="sum over levels")
    axes.plot(
        t,
        law.integral(times)[seen],
        color=COLORS[1],
        linestyle=DASHES[1],
        label="integral",
    )
    axes.plot(
        t,
        law.power_law(times)[seen],
        color=INK,
        linewidth=1.0,
        linestyle=DASHES[2],
        label="power law",
    )
    axes.set(
        yscale="log",
        ylim=(total[seen].min() / 3, 3 * total.max()),
        ylabel=ERROR_IN_TWO_LINES,
    )


@figure_of("what raw_features returned", "floors", "eigenbasis_floors", "trained")
def plot_raw_features(
    features: Any, counts: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw the floor of the error for raw inputs and for eigenvectors, and the steady state at this learning rate.

    counts: numbers of trained inputs; default 60 of them, evenly spaced in the logarithm.
    """
    N = features.dim
    if counts is None:
        counts = np.unique(np.geomspace(1, max(N - 1, 1), 60).astype(int))
    counts = np.sort(np.ravel(np.asarray(counts)))
    (axes,) = column([3.1], title, width=7.2)
    axes.plot(
        counts,
        features.floors(counts),
        color=COLORS[0],
        linewidth=2.0,
        label="raw inputs",
    )
    axes.plot(
        counts,
        features.eigenbasis_floors(counts),
        color=COLORS[1],
        linestyle=DASHES[1],
        label="eigenvectors",
    )
    if features.stable:
        here = {"marker": "D", "color": COLORS[2], "linestyle": "none", "markersize": 6}
        axes.plot(
            [features.trained],
            [features.steady_state],
            label="at this learning rate",
            **here,
        )
    if counts.size > 1 and counts[0] > 0:
        axes.set_xscale("log")
    axes.set(
        yscale="log", ylabel="final generalization\n" + r"error $\epsilon_g(\infty)$"
    )
    small = f"{problem_in_words(features.problem)[1]}, N = {N}"
    return finish(
        [axes],
        "number of inputs that learn, $N_l$",
        title,
        "Training only some of the inputs",
        small,
    )


@figure_of("what teacher_moments returned", "orders", "mean", "other_sd")
def plot_teacher_moments(result: Any, *, title: str | None = None) -> "Figure":
    """Draw mean and standard deviations against the order, on a logarithmic axis. title: "" leaves the head out."""
    lines = {
        r"mean of $T^{(j)}_{nn}$": result.mean,
        r"spread of $T^{(j)}_{nn}$": result.diagonal_sd,
        r"spread of $T^{(j)}_{nm}$": result.other_sd,
    }
    (axes,) = column([2.9], title, width=6.6)
    for i, (label, values) in enumerate(lines.items()):
        look = {
            "color": COLORS[i],
            "linestyle": DASHES[i],
            "marker": MARKERS[i],
            "markersize": 4,
        }
        axes.plot(result.orders, values, label=label, **look)
    axes.set(ylabel="over random teachers", yscale="log", xticks=result.orders)
    small = (
        f"N = {result.dim}, {result.eigenvalues.size} levels; lines join whole orders"
    )
    return finish([axes], "order $j$", title, "Moments of random teachers", small)


@figure_of("what linear_network returned", "error", "small_rate", "modes")
def plot_linear_network(
    network: Any, times: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw e_g with its small-rate limit and its final value; below, the decay rates and what each mode carries.

    times: default 0 and 200 times, evenly spaced in the logarithm, over all modes.
    """
    times = (
        _all_modes(network)
        if times is None
        else np.sort(np.ravel(np.asarray(times, dtype=float)))
    )
    times = times[shown_times(times)]
    curve, modes = column([2.8, 2.4], title, width=7.2, sharex=False)
    _draw_closed_form(curve, network, times)
    _draw_modes(modes, network.modes)
    who, how = problem_in_words(network.problem)
    outcome = f"The learning rate is above the critical {network.critical_rate:.4g}: the mean error grows for ever"
    size = "" if network.dim is None else f", N = {network.dim}"
    outcome = "" if network.stable else outcome
    return finish(
        [curve, modes],
        "mode $k$, fastest first",
        title,
        who,
        how + size,
        outcome,
        alarm=True,
    )


def _all_modes(network: Any) -> np.ndarray:
    """From a tenth of the fastest time to a few of the slowest, within ten decades."""
    rates = np.abs(network.modes.rates)
    first = 0.1 / rates.max()
    last = min(5 / max(rates.min(), 1e-300), 1e10 * first)
    return np.geomspace(
        first, last if network.stable else min(last, 20 * first), POINTS
    )


def _draw_closed_form(axes: Any, network: Any, times: np.ndarray) -> None:
    error = network.error(times)
    small = network.small_rate(times)
    label = "exact" if network.dim is None else f"exact mean, $N={network.dim}$"
    axes.plot(times, error, color=COLORS[0], linewidth=2.0, label=label)
    if network.dim is not None:
        limit = type(network)(network.problem, network.start).error(times)
        axes.plot(
            times,
            limit,
            color=COLORS[2],
            linestyle=DASHES[2],
            label=r"limit $N\to\infty$",
        )
        error = np.concatenate([error, limit])
    axes.plot(
        times, small, color=COLORS[1], linestyle=DASHES[1], label="small learning rate"
    )
    if network.stable and network.steady_state > 0:
        axes.axhline(
            network.steady_state,
            color=FAINT,
            linewidth=1.0,
            linestyle=DASHES[3],
            label="final value",
        )
    axes.set(xlabel=TIME, ylabel=ERROR_IN_TWO_LINES)
    scale_error(axes, np.concatenate([error, small]))
    scale_time(axes, times)


def _draw_modes(axes: Any, modes: Any) -> None:
    k = np.arange(1, modes.rates.size + 1)
    few = {"marker": "o", "markersize": 3.0} if k.size <= 40 else {}
    axes.plot(k, modes.eigenvalues / 2, color=COLORS[0], label=r"rate / 2$\eta$", **few)
    axes.plot(
        k, modes.levels, color=FAINT, linestyle=DASHES[1], label=r"level $\lambda_k$"
    )
    axes.plot(
        k,
        modes.weights,
        color=COLORS[1],
        linestyle=DASHES[2],
        label="share of an even start",
        **few,
    )
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
    small = f"{how}; $\\epsilon_g={plateau.error:.4g}$, time constant {plateau.time_constant:.4g}"
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
    for panel in (heights, rates):
        panel.set_xlim(0.5, units[-1] + 0.5)
        panel.set_xticks(units if units.size <= 12 else units[:: units.size // 8])
    return figure


@figure_of("what asymptotic_decay returned", "first_order", "rates", "own_rates")
def plot_asymptotic_decay(
    decay: Any, times: Any = None, *, title: str | None = None
) -> "Figure":
    """Draw e_g against time as it decays, linear in the weights and linear in the overlaps.

    times: default 200 times over the slowest mode, evenly spaced in the logarithm.
    """
    if times is None:
        rates = np.concatenate([decay.rates, decay.own_rates.ravel()])
        times = np.geomspace(
            0.1 / rates.max(), 2 / rates[rates > 1e-12 * rates.max()].min(), 200
        )
    (axes,) = column([2.9], title, width=7.2)
    axes.loglog(
        times,
        decay.error(times),
        color=COLORS[0],
        label="linear in the weights, exact $\\epsilon_g$",
    )
    label = "linear in the overlaps"
    axes.loglog(
        times,
        decay.first_order(times),
        color=COLORS[1],
        linestyle=DASHES[1],
        label=label,
    )
    axes.set_ylabel(ERROR)
    who, how = problem_in_words(decay.problem)
    small = f"{how}; near perfect learning, gradient flow"
    figure = finish(
        [axes], r"time after the initial condition, $\alpha$", title, who, small
    )
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.18), ncols=2)
    return figure
