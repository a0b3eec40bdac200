"""The figure of one step: measured drift and diffusion against the theory's, entry by entry."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.sheet import sheet
from tutelage.plot.style import COLORS, FAINT, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 3.8
KINDS = {"R": "overlaps with teachers", "Q": "overlaps of students", "V": "readouts", "B": "biases"}


def plot_step_moments(result: Any, *, title: str | None = None) -> "Figure":
    """What `step_moments` measured: on the diagonal, theory and network agree."""
    require_fields("plot_step_moments", result, ("drift", "diffusion", "names"), "what step_moments returned")
    upper = np.triu_indices(len(result.names))
    who, how = problem_in_words(result.problem)
    step = f"one step of {result.samples} networks with N = {result.dim}, {result.inputs} inputs"
    word = "agree" if result.agrees else "differ"
    with style():
        heading = title or f"{who}: network and theory {word}"
        figure, ((left, right),) = sheet(1, 2, heading, f"{how}; {step}; bars: 2 std. errors", height=HEIGHT)
        _draw_drift(left, result)
        theory, measured, error = (x[upper] for x in (result.diffusion_theory, result.diffusion, result.diffusion_error))
        _draw(right, theory, measured, error, COLORS[0], None)
        _finish(left, r"drift $f(u)$, theory", r"$N\,E[\Delta u]$, measured")
        _finish(right, r"diffusion $D(u)$, theory", r"$N^2\,\mathrm{Cov}(\Delta u)$, measured")
        left.legend(loc="upper left")
    return figure


def _draw_drift(axes: Any, result: Any) -> None:
    letters = [name[0].upper() for name in result.names]
    for i, letter in enumerate(dict.fromkeys(letters)):
        which = np.array([x == letter for x in letters])
        theory, measured, error = (x[which] for x in (result.drift_theory, result.drift, result.drift_error))
        _draw(axes, theory, measured, error, COLORS[i], KINDS[letter])


def _draw(axes: Any, theory: np.ndarray, measured: np.ndarray, error: np.ndarray, color: str, label: str | None) -> None:
    bars = {"fmt": "o", "markersize": 4.0, "markerfacecolor": "white", "capsize": 1.5, "linewidth": 0.9}
    axes.errorbar(theory, measured, 2 * error, color=color, label=label, **bars)


def _finish(axes: Any, across: str, up: str) -> None:
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color=FAINT, linewidth=1.0, zorder=0)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
