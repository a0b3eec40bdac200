"""Figures of measured data: what the theory uses of them, and SGD on the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, Look, color_at

# The laws of samples that Data.compare trains on, with the places of their colors.
LAWS = {"theory's law": 1, "full covariances": 2, "samples": 0}
DRAWN_CLASSES = 10  # classes that are drawn one by one


@figure_of("what from_data returned", "spectrum", "means", "variances")
def plot_data(result: Any, *, title: str | None = None) -> Figure:
    """Draw what the theory uses of data.

    The upper panel shows the variances along each direction, the lower one the
    directions in which the class means or the teacher lie.
    """
    mean_variances = result.probabilities @ result.variances
    directions = result.means
    name_of_directions = "class means"
    if result.classes is None:
        directions = result.teacher_weights
        name_of_directions = "teacher"
    heights = [2.6]
    if directions is not None:
        heights.append(1.8)
    grid = column(heights, title)
    _draw_variances(grid[0], result, mean_variances)
    if directions is not None:
        ranks = np.arange(1, result.dim + 1)
        squares = np.sum(directions**2, axis=0)
        share_of_squares = np.cumsum(squares) / np.sum(directions**2)
        share_of_variance = np.cumsum(mean_variances) / result.dim
        below = grid[1]
        below.plot(ranks, share_of_squares, color=COLORS[1], label=name_of_directions)
        below.plot(
            ranks,
            share_of_variance,
            color=COLORS[0],
            linestyle=DASHES[1],
            label="variance",
        )
        below.set(xscale="log", ylabel="share up to this direction", ylim=(0.0, 1.05))
    size, outcome = str(result).splitlines()[:2]
    return finish(
        grid,
        "direction, by variance",
        title,
        "What the theory uses of these data",
        size,
        outcome=text.capital(outcome),
    )


def _draw_variances(axes: Axes, result: Any, mean_variances: np.ndarray) -> None:
    """Draw the variances along each direction, of each class if classes are few."""
    ranks = np.arange(1, result.dim + 1)
    look: Look = {"linewidth": 1.2, "drawstyle": "steps-mid"}
    name_of_mean = "covariance"
    if result.classes is not None:
        name_of_mean = "mean over classes"
        if len(result.classes) <= DRAWN_CLASSES:
            for place, name in enumerate(result.classes):
                color = color_at(place)
                variances = result.variances[place]
                axes.plot(ranks, variances, color=color, label=f"class {name}", **look)
    axes.plot(ranks, mean_variances, color=INK, label=name_of_mean, **look)
    axes.set(xscale="log", yscale="log", ylabel=r"variance $\lambda$")


@figure_of("what Data.compare returned", "theory", "error", "causes", "data")
def plot_data_comparison(result: Any, *, title: str | None = None) -> Figure:
    """Draw the error of SGD on each law of samples next to the theory.

    The lower panel shows the gap and its causes. Bands and bars are two standard errors
    of the mean over runs to either side.
    """
    above, below = column([2.8, 2.2], title)
    theory = np.asarray(result.theory.error)
    gap, gap_error = result.gap()
    above.plot(result.theory.times, theory, color=INK, linewidth=2.0, label="theory")
    for law, errors in result.error.items():
        _draw_errors_of_law(above, result.times, law, errors)
    # Each law of samples adds one cause of the gap, which has the color of the law.
    causes = result.causes()
    for law, cause in zip(result.error, causes, strict=True):
        part, standard_error = causes[cause]
        below.errorbar(
            result.times,
            part,
            2 * standard_error,
            color=COLORS[LAWS[law]],
            linewidth=1.2,
            label=cause,
        )
    below.plot(result.times, gap, color=INK, linewidth=2.0, label="gap, their sum")
    below.axhline(0.0, color=FAINT, linewidth=0.8)
    below.set_ylabel("part of the gap")
    errors_of_samples = result.error["samples"].mean(axis=0)
    all_errors = np.concatenate([theory, errors_of_samples])
    panels.scale_error(above, all_errors, text.error_label(result.theory))
    panels.scale_time(below, result.times)
    heading, conditions = text.problem_in_words(result.theory.problem)
    share = gap[-1] / theory[-1]
    outcome = (
        f"Gap at the end: {gap[-1]:.3g} ± {gap_error[-1]:.1g}, "
        f"or {share:.0%} of the theory"
    )
    return finish([above, below], text.TIME, title, heading, conditions, outcome)


def _draw_errors_of_law(
    axes: Axes, times: np.ndarray, law: str, errors: np.ndarray
) -> None:
    """Draw the mean error over runs, (run, time), as marks with a band."""
    place = LAWS[law]
    mean = errors.mean(axis=0)
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    panels.fill_band(axes, times, mean, 2 * standard_error, COLORS[place])
    marks = panels.plain_dots(place, size=3.8)
    axes.plot(times, mean, label=f"SGD: {law}", **marks)
