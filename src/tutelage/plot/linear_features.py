"""The figure of raw features: how low the error can fall against how many inputs are trained."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import outside_legend
from tutelage.plot.style import COLORS, DASHES, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (7.2, 4.0)
POINTS = 60


def plot_raw_features(features: Any, counts: Any = None, *, title: str | None = None) -> "Figure":
    """The floor of the error for raw inputs and for eigenvectors, and the steady state at this learning rate.

    counts: numbers of trained inputs; default 60 of them, evenly spaced in the logarithm.
    """
    require_fields("plot_raw_features", features, ("floors", "eigenbasis_floors", "trained"), "what raw_features returned")
    from tutelage.plot.figure import Figure

    N = features.dim
    if counts is None:
        counts = np.unique(np.geomspace(1, max(N - 1, 1), POINTS).astype(int))
    counts = np.sort(np.ravel(np.asarray(counts)))
    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.plot(counts, features.floors(counts), color=COLORS[0], linewidth=2.0, label="raw inputs")
        axes.plot(counts, features.eigenbasis_floors(counts), color=COLORS[1], linestyle=DASHES[1], label="eigenvectors")
        if features.stable:
            here = {"marker": "D", "color": COLORS[2], "linestyle": "none", "markersize": 6}
            axes.plot([features.trained], [features.steady_state], label="at this learning rate", **here)
        if counts.size > 1 and counts[0] > 0:
            axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("number of inputs that learn, $N_l$")
        axes.set_ylabel("generalization error\n" + r"in the end, $\epsilon_g(\infty)$")
        outside_legend(axes)
        how = f"{problem_in_words(features.problem)[1]}, N = {N}"
        write_head(axes, [(title or "Training only some of the inputs", TITLE), (how, SMALL)])
    return figure
