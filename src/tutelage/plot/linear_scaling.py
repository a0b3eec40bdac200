"""The figure of a power-law sum: sum and integral with the bounds between them, and the local slope below."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError, require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, outside_legend
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHTS, TITLE_HEIGHT = 7.4, (3.0, 2.0), 0.9
POINTS = 200


def plot_power_law_sum(law: Any, times: Any = None, *, title: str | None = None) -> "Figure":
    """The error as sum and as integral, its rigorous bounds as a band, the pure power law, and d ln e_g / d ln alpha.

    times: default 200 times from a tenth of the window's first to three times its last. The window is shaded.
    """
    require_fields("plot_power_law_sum", law, ("sum", "integral", "bounds", "window"), "a PowerLawSum")
    from tutelage.plot.figure import Figure

    first, last = law.window
    times = (
        np.geomspace(first / 10, 3 * last, POINTS) if times is None else np.sort(np.ravel(np.asarray(times, dtype=float)))
    )
    times = times[times > 0]
    if times.size == 0:
        raise InputError("times hold no positive number; there is nothing to draw on a logarithmic axis.")
    with style():
        figure = Figure(figsize=(WIDTH, TITLE_HEIGHT + sum(HEIGHTS)), layout="constrained")
        curve, slope = figure.subplots(2, 1, sharex=True, height_ratios=HEIGHTS)
        _draw_errors(curve, law, times)
        _draw_slopes(slope, law, times)
        for axes in (curve, slope):
            axes.axvspan(max(first, times[0]), min(last, times[-1]), color=FAINT, alpha=0.12, linewidth=0, label="window")
            outside_legend(axes)
        curve.set_xscale("log")
        curve.set_xlim(times[0], times[-1])
        figure.align_ylabels([curve, slope])
        some = "" if law.trained is None else f", {law.trained} of them learn"
        how = f"beta = {law.beta:g}, {law.levels} levels{some}, learning rate {law.rate:g}, weights of size {law.scale:g}"
        write_head(curve, [(title or "The error of a power law, at a small learning rate", TITLE), (how, SMALL)])
    return figure


def _draw_errors(axes: Any, law: Any, times: np.ndarray) -> None:
    total, (low, high) = law.sum(times), law.bounds(times)
    seen = total > 1e-12 * total.max()
    floor = np.maximum(low, 1e-3 * total)  # a logarithmic axis has no zero
    axes.fill_between(times[seen], floor[seen], high[seen], color=COLORS[0], alpha=0.18, linewidth=0, label="bounds")
    axes.plot(times[seen], total[seen], color=COLORS[0], linewidth=2.0, label="sum over levels")
    axes.plot(times[seen], law.integral(times)[seen], color=COLORS[1], linestyle=DASHES[1], label="integral")
    axes.plot(times[seen], law.power_law(times)[seen], color=INK, linewidth=1.0, linestyle=DASHES[2], label="power law")
    axes.set_yscale("log")
    axes.set_ylim(total[seen].min() / 3, 3 * total.max())
    axes.set_ylabel(ERROR_IN_TWO_LINES)


def _draw_slopes(axes: Any, law: Any, times: np.ndarray) -> None:
    sums, integrals = law.local_slope(times), law.local_slope(times, "integral")
    axes.plot(times, sums, color=COLORS[0], linewidth=2.0, label="sum")
    axes.plot(times, integrals, color=COLORS[1], linestyle=DASHES[1], label="integral")
    power = r"$-\beta/(1+\beta)$"
    axes.axhline(-law.exponent, color=INK, linewidth=1.0, linestyle=DASHES[2], label=power)
    axes.set_ylim(-3 * law.exponent, 0.05)
    axes.set_ylabel("local slope\n" + r"$d\,\ln\epsilon_g / d\,\ln\alpha$")
    axes.set_xlabel(TIME)
