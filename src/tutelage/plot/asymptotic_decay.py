"""The figure of the last stage: the error as it decays, linear in the weights and linear in the overlaps."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR
from tutelage.plot.style import COLORS, DASHES, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_asymptotic_decay(decay: Any, times: Any = None, *, title: str | None = None) -> "Figure":
    """e_g against time after the start. times: default 200 times over the slowest mode, evenly spaced in the logarithm."""
    require_fields("plot_asymptotic_decay", decay, ("first_order", "rates", "own_rates"), "what asymptotic_decay returned")
    from tutelage.plot.figure import Figure

    if times is None:
        rates = np.concatenate([decay.rates, decay.own_rates.ravel()])
        times = np.geomspace(0.1 / rates.max(), 2 / rates[rates > 1e-12 * rates.max()].min(), 200)
    with style():
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        axes = figure.subplots()
        axes.loglog(times, decay.error(times), color=COLORS[0], label="linear in the weights, exact $\\epsilon_g$")
        label = "linear in the overlaps"
        axes.loglog(times, decay.first_order(times), color=COLORS[1], linestyle=DASHES[1], label=label)
        axes.set(xlabel=r"time after the start, $\alpha$", ylabel=ERROR)
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.18), ncols=2)
        who, how = problem_in_words(decay.problem)
        write_head(axes, [(title or who, TITLE), (f"{how}; near perfect learning, gradient flow", SMALL)])
    return figure
