"""The figure of a plateau on which all students are one: its heights with each teacher, and how fast units part."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.sheet import sheet
from tutelage.plot.style import COLORS, FAINT, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_symmetric_plateau(plateau: Any, *, title: str | None = None) -> "Figure":
    """R with each teacher beside Q, and the rates of parting."""
    require_fields("plot_symmetric_plateau", plateau, ("coefficients", "R", "Q", "rates"), "what symmetric_plateau returned")
    who, how = problem_in_words(plateau.problem)
    small = f"{how}; $\\epsilon_g={plateau.error:.4g}$, time constant {plateau.time_constant:.4g}"
    with style():
        figure, axes = sheet(1, 2, title or who, small, height=3.0, width=8.0)
        heights, rates = axes[0]
        units = np.arange(1, plateau.R.size + 1)
        heights.plot(units, plateau.R, "o", color=COLORS[0], label="$R_n$, each teacher")
        heights.axhline(plateau.Q, color=COLORS[1], label="$Q$, all students")
        heights.set(xlabel="teacher $n$", ylabel="overlap on the plateau")
        heights.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
        rates.axhline(0.0, color=FAINT, linewidth=0.8)
        rates.plot(units, plateau.rates, "s", color=COLORS[2])
        rates.set(xlabel="mode", ylabel=r"growth rate, per unit of $\alpha$")
        for panel in (heights, rates):
            panel.set_xlim(0.5, units[-1] + 0.5)
            panel.set_xticks(units if units.size <= 12 else units[:: units.size // 8])
    return figure
