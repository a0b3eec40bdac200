"""Figures of the escape from a plateau: its time, and its law over networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import COLORS, DASHES, FAINT, INK

ESCAPE_WIDTH = 7.2
BARS = 24  # permutations drawn one by one


@figure_of("what escape_time returned", "time", "amplitude", "sizes", "errors")
def plot_escape_time(result: Any, *, title: str | None = None) -> Figure:
    """Draw the predicted learning curve above, the growth of the asymmetry below.

    Both end at most five e-folding times after the escape.
    """
    upper, lower = column([2.25, 2.25], title, width=ESCAPE_WIDTH)
    shown = result.times <= result.time + 5.0 / result.rate
    _draw_escape(upper, result, shown)
    _draw_asymmetry(lower, result, shown)
    for axes in (upper, lower):
        axes.axvline(result.time, color=COLORS[1], linewidth=0.8, linestyle=DASHES[1])
    problem, conditions = text.problem_in_words(result.plateau.problem)
    asymmetry = f"initial asymmetry {result.asymmetry:.2g}"
    heading = f"Escape at $\\alpha$ = {result.time:.4g}"
    small = f"{problem}, {conditions}, {asymmetry}"
    return finish([upper, lower], text.TIME, title, heading, small)


def _draw_escape(axes: Axes, result: Any, shown: np.ndarray) -> None:
    """Draw the predicted learning curve, the plateau, and the escape from it."""
    times = result.times[shown]
    errors = result.errors[shown]
    axes.plot(times, errors, color=COLORS[0], linewidth=2.0, label="predicted")
    axes.axhline(
        result.plateau.error,
        color=FAINT,
        linewidth=1.0,
        linestyle=DASHES[2],
        label="plateau",
    )
    axes.plot(
        [result.time],
        [result.threshold],
        "D",
        color=COLORS[1],
        markersize=6,
        label="escape",
    )
    panels.scale_error(axes, errors, text.ERROR_IN_TWO_LINES)


def _draw_asymmetry(axes: Axes, result: Any, shown: np.ndarray) -> None:
    """Draw the asymmetry as it is carried linearly, and its growth on the plateau."""
    times = result.times[shown]
    sizes = result.sizes[shown]
    on_plateau = result.amplitude * np.exp(result.rate * times)
    axes.plot(
        times,
        on_plateau,
        color=INK,
        linewidth=1.0,
        linestyle=DASHES[1],
        label=f"amplitude\n× exp({result.rate:.3g} α)",
    )
    axes.plot(times, sizes, color=COLORS[2], linewidth=2.0, label="carried linearly")
    last = np.flatnonzero(np.isfinite(sizes))[-1]
    axes.plot(
        times[last],
        sizes[last],
        "o",
        color=COLORS[2],
        markersize=5,
        label="launched into\nthe exit",
    )
    axes.set(yscale="log", ylabel="asymmetry of\nthe overlaps")


@figure_of("what escape_distribution returned", "times", "cdf", "permutations")
def plot_escape_distribution(result: Any, *, title: str | None = None) -> Figure:
    """Draw histogram and distribution function of the escape times, and permutations.

    The name of a permutation lists the teacher that each unit chooses, counted from
    one.
    """
    heights = [2.1, 1.7, 1.7]
    upper, middle, lower = column(heights, title, width=ESCAPE_WIDTH, sharex=False)
    middle.sharex(upper)
    times = np.sort(result.times[np.isfinite(result.times)])
    upper.hist(
        times, bins="fd", density=True, color=COLORS[5], alpha=0.7, label="networks"
    )
    upper.set_ylabel("density of\nescape times")
    middle.plot(
        times,
        result.cdf(times),
        color=COLORS[0],
        linewidth=1.8,
        drawstyle="steps-post",
        label="networks",
    )
    middle.set(ylim=(0.0, 1.02), xlabel=text.TIME, ylabel="share that\nhas escaped")
    for axes in (upper, middle):
        _mark_typical_escape(axes, result)
    _draw_permutations(lower, result.permutations)

    student_units = ", ".join(str(k + 1) for k in range(result.teachers.shape[1]))
    xlabel = f"teacher units of the student units {student_units}"
    not_shown = len(result.permutations) - BARS
    if not_shown > 0:
        xlabel += f" ({not_shown} rarer ones not shown)"
    problem, conditions = text.problem_in_words(result.problem)
    ratio = f"asymmetry/noise = {result.start_to_noise:.2g}"
    small = f"{problem}, {conditions}, $N={result.dim}$, {ratio}: {result.words}"
    heading = "When networks escape, and where to"
    return finish([upper, middle, lower], xlabel, title, heading, small)


def _mark_typical_escape(axes: Axes, result: Any) -> None:
    """Mark the escape time of the theory and the median over networks."""
    if result.theory is not None:
        axes.axvline(
            result.theory,
            color=COLORS[1],
            linewidth=1.4,
            linestyle=DASHES[1],
            label="theory for this\ninitial condition",
        )
    median = np.median(result.times)
    axes.axvline(median, color=INK, linewidth=1.0, linestyle=DASHES[2], label="median")


def _draw_permutations(
    axes: Axes, permutations: Mapping[tuple[int, ...], float]
) -> None:
    """Draw the probability of each permutation as a bar, the most frequent ones."""
    shown = list(permutations.items())[:BARS]
    names = []
    shares = []
    for permutation, share in shown:
        names.append(text.joined_numbers(permutation, len(permutation)))
        shares.append(share)
    places = np.arange(len(shown))
    rotation = 0
    if len(shown) > 8:
        rotation = 90
    axes.bar(places, shares, color=COLORS[2], width=0.6)
    axes.set_xticks(places, names, rotation=rotation)
    # Few bars do not become wide.
    axes.set(xlim=(-0.6, max(len(shown), 4) - 0.4), ylabel="probability")
    axes.set_ylim(bottom=0.0)
    axes.grid(False, axis="x")
