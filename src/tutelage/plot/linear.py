"""The figure of a linear network: its learning curve in closed form, and the modes behind it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, outside_legend
from tutelage.plot.scales import is_log_spaced, scale_error
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, CURVE_HEIGHT, MODES_HEIGHT, TITLE_HEIGHT = 7.2, 2.8, 2.4, 1.0
POINTS = 200


def plot_linear_network(network: Any, times: Any = None, *, title: str | None = None) -> "Figure":
    """e_g with its small-rate limit and its end against time; below, the decay rates and what each mode carries.

    times: default 0 and 200 times, evenly spaced in the logarithm, over all modes.
    """
    require_fields("plot_linear_network", network, ("error", "small_rate", "modes"), "what linear_network returned")
    from tutelage.plot.figure import Figure

    times = _all_modes(network) if times is None else np.sort(np.ravel(np.asarray(times, dtype=float)))
    logarithmic = is_log_spaced(times)
    times = times[times > 0] if logarithmic else times
    with style():
        figure = Figure(figsize=(WIDTH, TITLE_HEIGHT + CURVE_HEIGHT + MODES_HEIGHT), layout="constrained")
        curve, modes = figure.subplots(2, 1, height_ratios=[CURVE_HEIGHT, MODES_HEIGHT])
        _draw_curve(curve, network, times)
        if logarithmic:
            curve.set_xscale("log")
        _draw_modes(modes, network.modes)
        figure.align_ylabels([curve, modes])
        who, how = problem_in_words(network.problem)
        size = "" if network.dim is None else f", N = {network.dim}"
        parts = [(title or who, TITLE), (how + size, SMALL)]
        if not network.stable:
            above = f"The learning rate is above the critical {network.critical_rate:.4g}: the mean error grows for ever"
            parts.append((above, SMALL | {"color": ALARM, "fontweight": "bold"}))
        write_head(curve, parts)
    return figure


def _all_modes(network: Any) -> np.ndarray:
    """From a tenth of the fastest time to a few of the slowest, within ten decades."""
    rates = np.abs(network.modes.rates)
    first = 0.1 / rates.max()
    last = min(5 / max(rates.min(), 1e-300), 1e10 * first)
    return np.geomspace(first, last if network.stable else min(last, 20 * first), POINTS)


def _draw_curve(axes: Any, network: Any, times: np.ndarray) -> None:
    error, small = network.error(times), network.small_rate(times)
    label = "exact" if network.dim is None else f"exact mean, $N={network.dim}$"
    axes.plot(times, error, color=COLORS[0], linewidth=2.0, label=label)
    if network.dim is not None:
        limit = type(network)(network.problem, network.start).error(times)
        axes.plot(times, limit, color=COLORS[2], linestyle=DASHES[2], label=r"limit $N\to\infty$")
        error = np.concatenate([error, limit])
    axes.plot(times, small, color=COLORS[1], linestyle=DASHES[1], label="small learning rate")
    if network.stable and network.steady_state > 0:
        axes.axhline(network.steady_state, color=FAINT, linewidth=1.0, linestyle=DASHES[3], label="in the end")
    axes.set_ylabel(ERROR_IN_TWO_LINES)
    axes.set_xlabel(TIME)
    scale_error(axes, np.concatenate([error, small]))
    outside_legend(axes)


def _draw_modes(axes: Any, modes: Any) -> None:
    k = np.arange(1, modes.rates.size + 1)
    few = {"marker": "o", "markersize": 3.0} if k.size <= 40 else {}
    axes.plot(k, modes.eigenvalues / 2, color=COLORS[0], label=r"rate / 2$\eta$", **few)
    axes.plot(k, modes.levels, color=FAINT, linestyle=DASHES[1], label=r"level $\lambda_k$")
    axes.plot(k, modes.weights, color=COLORS[1], linestyle=DASHES[2], label="share of an even start", **few)
    positive = np.concatenate([modes.eigenvalues, modes.weights])
    if k.size > 12:
        axes.set_xscale("log")
    else:
        axes.set_xticks(k)
    if np.all(positive > 0):
        axes.set_yscale("log")
    axes.set_ylabel("modes of the error")
    axes.set_xlabel("mode $k$, fastest first")
    outside_legend(axes)
