"""The figure of a plateau on which all students are one: its heights with each teacher, and how fast units part."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.style import COLOURS, FAINT, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_common_plateau(plateau: Any, *, title: str | None = None) -> "Figure":
    """R with each teacher beside Q, and the rates of parting."""
    if not all(hasattr(plateau, name) for name in ("coefficients", "R", "Q", "rates")):
        raise InputError(f"plot_common_plateau got a {type(plateau).__name__}; give it what common_plateau returned.")
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        heights, rates = figure.subplots(1, 2)
        units = np.arange(1, plateau.R.size + 1)
        heights.plot(units, plateau.R, "o", color=COLOURS[0], label="$R_n$, each teacher")
        heights.axhline(plateau.Q, color=COLOURS[1], label="$Q$, all students")
        heights.set(xlabel="teacher $n$", ylabel="overlap on the plateau", xlim=(0.5, units[-1] + 0.5))
        heights.set_xticks(units if units.size <= 12 else units[:: units.size // 8])
        heights.legend(loc="upper left", bbox_to_anchor=(0.0, -0.2), ncols=2)
        rates.axhline(0.0, color=FAINT, linewidth=0.8)
        rates.plot(units, plateau.rates, "s", color=COLOURS[2])
        rates.set(xlabel="mode", ylabel=r"growth rate, per unit of $\alpha$", xlim=(0.5, units[-1] + 0.5))
        rates.set_xticks(heights.get_xticks())
        who, how = problem_in_words(plateau.problem)
        words = f"{how}; plateau at e_g = {plateau.error:.4g}, left with a time constant of {plateau.time_constant:.4g}"
        write_head(heights, [(title or who, TITLE), (words, SMALL)])
    return figure
