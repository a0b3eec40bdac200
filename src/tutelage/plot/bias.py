"""The figure of an implicit bias: how far from the predicted solution, the error, and what is conserved on the way."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, outside_legend
from tutelage.plot.scales import is_log_spaced
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (7.0, 6.4)


def plot_bias(path: Any, others: Any = (), *, title: str | None = None) -> "Figure":
    """Distance of R(t) from the predicted end, e_g, and the entries of S(t); other paths in gray."""
    require_fields("plot_bias", path, ("S", "gap", "bias"), "what ImplicitBias.along or follow returned")
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        far, error, kept = figure.subplots(3, 1, sharex=True)
        for i, other in enumerate(others):
            label = {"label": "other starts" if i == 0 else None, "color": FAINT, "linewidth": 1.0}
            _draw(far, other.times, other.gap, **label)
            _draw(error, other.times, other.error, **label)
        _draw(far, path.times, path.gap, color=INK, linewidth=2.0, label="this start")
        _draw(error, path.times, path.error, color=INK, linewidth=2.0, label="this start")
        _draw_entries(kept, path)
        far.set_ylabel("distance to the\n" + r"predicted end $|R - \bar R|$")
        error.set_ylabel(ERROR_IN_TWO_LINES)
        kept.set_ylabel("entries of\n" + r"$S = R\,(R^\top R)^{-1/2}$")
        kept.set_xlabel(TIME)
        for axes in (far, error):
            axes.set_yscale("log")
        if is_log_spaced(path.times):
            far.set_xscale("log")
        for axes in (far, kept):
            outside_legend(axes)
        figure.align_ylabels([far, error, kept])
        _head(far, path, title)
    return figure


def _draw(axes: Any, times: np.ndarray, values: np.ndarray, *, color: str, linewidth: float, label: str | None) -> None:
    shown = times > 0 if is_log_spaced(times) else np.ones(times.size, bool)
    rows = np.reshape(values, (-1, times.size))
    for i, row in enumerate(rows):
        axes.plot(times[shown], row[shown], color=color, linewidth=linewidth, label=label if i == 0 else None)


def _draw_entries(axes: Any, path: Any) -> None:
    S = path.S.reshape(-1, *path.S.shape[-3:])[0]  # of the first run
    shown = path.times > 0 if is_log_spaced(path.times) else np.ones(path.times.size, bool)
    for k, m in np.ndindex(S.shape[1:]):
        look = {"color": COLORS[k % len(COLORS)], "linestyle": DASHES[m % len(DASHES)], "linewidth": 1.2}
        axes.plot(path.times[shown], S[shown, k, m], **look, label=f"unit {k + 1}" if m == 0 else None)


def _head(axes: Any, path: Any, title: str | None) -> None:
    who, how = problem_in_words(path.bias.problem)
    outcome = "ends at the closest solution" if path.confirmed else "does not end at the closest solution"
    moved = f"{who}, {how}; $S$ moves by {float(np.max(path.moved)):.1g}"
    write_head(axes, [(title or f"Learning {outcome}", TITLE), (moved, SMALL)])
