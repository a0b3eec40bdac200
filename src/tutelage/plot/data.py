"""Figures of data: the spectra and means that the theory uses, and SGD on the samples next to the theory."""

from typing import Any

import numpy as np

from tutelage.plot.axes import Figure, column, figure_of, fill_band, finish, plain_dots, scale_error, scale_time
from tutelage.plot.labels import TIME, capital, error_label, problem_in_words
from tutelage.plot.style import COLORS, DASHES, FAINT, INK

DRAWN_CLASSES = 10  # classes that are drawn one by one
LAW_LOOKS = {"theory's law": 1, "full covariances": 2, "samples": 0}


@figure_of("what from_data returned", "spectrum", "means", "variances")
def plot_data(result: Any, *, title: str | None = None) -> Figure:
    """Draw the variances that the theory uses along each direction, and where the class means or the teacher lie."""
    along = result.teacher_weights if result.classes is None else result.means
    panels = column([2.6] if along is None else [2.6, 1.8], title)
    ranks = np.arange(1, result.dim + 1)
    for name, values, color in _variances(result):
        panels[0].plot(ranks, values, color=color, linewidth=1.2, drawstyle="steps-mid", label=name)
    panels[0].set(xscale="log", yscale="log", ylabel=r"variance $\lambda$")
    if along is not None:
        share = np.cumsum(np.sum(along**2, axis=0)) / np.sum(along**2)
        panels[1].plot(ranks, share, color=COLORS[1], label="class means" if result.classes is not None else "teacher")
        trace = np.cumsum(result.probabilities @ result.variances) / result.dim
        panels[1].plot(ranks, trace, color=COLORS[0], linestyle=DASHES[1], label="variance")
        panels[1].set(xscale="log", ylabel="share up to this direction", ylim=(0.0, 1.05))
    size, outcome = str(result).splitlines()[:2]
    return finish(panels, "direction, by variance", title, "What the theory uses of these data", size, capital(outcome))


def _variances(result: Any) -> list[tuple[str, np.ndarray, str]]:
    """Name, variances and color of the curves: of the mean over classes, and of each class, if these are few."""
    mean = "covariance" if result.classes is None else "mean over classes"
    curves = [(mean, result.probabilities @ result.variances, INK)]
    if result.classes is None or len(result.classes) > DRAWN_CLASSES:
        return curves
    each = zip(result.classes, result.variances, strict=True)
    return [(f"class {name}", values, COLORS[i % len(COLORS)]) for i, (name, values) in enumerate(each)] + curves


@figure_of("what Data.compare returned", "theory", "error", "causes", "data")
def plot_data_comparison(result: Any, *, title: str | None = None) -> Figure:
    """Draw the error of SGD on each law of samples next to the theory; below, the gap and its causes.

    Bands are two standard errors of the mean over runs to either side.
    """
    above, below = column([2.8, 2.2], title)
    times, theory = result.times, np.asarray(result.theory.error)
    above.plot(result.theory.times, theory, color=INK, linewidth=2.0, label="theory")
    for law, values in result.error.items():
        color, runs = COLORS[LAW_LOOKS[law]], len(values)
        mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(runs)
        fill_band(above, times, mean, 2 * spread, color)
        above.plot(times, mean, label=f"SGD: {law}", **plain_dots(LAW_LOOKS[law], 3.8))
    for law, (cause, (part, spread)) in zip(result.error, result.causes().items(), strict=True):
        below.errorbar(times, part, 2 * spread, color=COLORS[LAW_LOOKS[law]], linewidth=1.2, label=cause)
    below.plot(times, result.gap()[0], color=INK, linewidth=2.0, label="gap, their sum")
    below.axhline(0.0, color=FAINT, linewidth=0.8)
    above.set_ylabel(error_label(result.theory))
    below.set_ylabel("part of the gap")
    scale_error(above, np.concatenate([theory, result.error["samples"].mean(axis=0)]))
    scale_time(below, times)
    gap, error = (x[-1] for x in result.gap())
    outcome = f"Gap at the end: {gap:.3g} ± {error:.1g}, or {gap / theory[-1]:.0%} of the theory"
    return finish([above, below], TIME, title, *problem_in_words(result.theory.problem), outcome)
