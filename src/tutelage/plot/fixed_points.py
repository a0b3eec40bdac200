"""Figures with bars: the rates of a fixed point, the curvatures of a landscape."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot.heat_maps import draw_overlaps
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import ALARM, COLORS, FAINT, INK

RATES = 14  # rates of a fixed point; the rest is counted
FAMILIES = 16  # of curvatures, the lowest; the rest is counted


class _Bar(NamedTuple):
    """A bar of a panel of bars: its length, and its label to the right."""

    value: float
    label: str


@figure_of("what fixed_point returned", "distinct", "R", "Q", "stability")
def plot_fixed_point(result: Any, *, title: str | None = None) -> Figure:
    """Draw the overlaps R and Q as heat maps, and every rate with what its modes do.

    Bars to the right grow, bars to the left decay; the axis is linear around zero and
    logarithmic beyond.
    """
    bars = [_bar_of_mode(mode) for mode in result.distinct[:RATES]]
    heights = [1.15, 2.5, 0.36 * len(bars) + 0.9]  # inches: head, maps, rates
    figure = Figure(figsize=(8.2, sum(heights)), layout="constrained")
    rows = figure.subfigures(3, 1, squeeze=False, height_ratios=heights)
    head, maps, rates = rows[:, 0]
    head_axes = head.add_axes((0.02, 0.0, 0.96, 0.01))
    head_axes.set_axis_off()
    _draw_maps(maps, result)
    rate_axes = rates.subplots()
    _draw_bars(rate_axes, bars, negative_color=COLORS[0], positive_color=ALARM)

    change = r"a deviation changes as $e^{\mathrm{rate}\,\alpha}$"
    xlabel = f"rate: {change} (left: fades, right: grows)"
    not_shown = len(result.distinct) - RATES
    if not_shown > 0:
        xlabel += f"\n(and {not_shown} that decay faster)"
    rate_axes.set_xlabel(xlabel)
    problem, conditions = text.problem_in_words(result.problem)
    if result.gradient_flow:
        conditions += ", gradient flow"
    return finish(
        [head_axes],
        "",
        title,
        f"A fixed point: {problem[0].lower()}{problem[1:]}",
        f"{conditions}, $\\epsilon_g$ = {result.error:.6g}",
        outcome=result.stability,
        alarm=bool(result.unstable),
        line=112,
    )


def _draw_maps(figure: Any, result: Any) -> None:
    """Draw the overlaps of a fixed point as heat maps with one scale of colors."""
    pair = list(figure.subplots(1, 2))
    image = draw_overlaps(pair, result.R, result.Q, result.problem)
    for axes in pair:
        axes.set_aspect("equal")
    bar = figure.colorbar(image, ax=pair, shrink=0.9, pad=0.02)
    bar.outline.set_visible(False)


def _bar_of_mode(mode: Any) -> _Bar:
    """The bar of a mode: its rate, a frequency if it turns, and its name."""
    rate = float(np.real(mode.rate))
    frequency = abs(np.imag(mode.rate))
    number = f"{rate:+.4g}"
    if mode.name.startswith("moves along a flat"):  # its rate is zero but for rounding
        number = "0"
    if frequency:
        number += f" ± {frequency:.3g}i"
    return _Bar(rate, f"{number}{_multiplicity(mode)}: {mode.name}")


def _multiplicity(family: Any) -> str:
    """The multiplicity of an eigenvalue, if it is more than one."""
    if family.multiplicity > 1:
        return f" (×{family.multiplicity})"
    return ""


def _draw_bars(
    axes: Axes, bars: Sequence[_Bar], *, negative_color: str, positive_color: str
) -> None:
    """Draw bars from the top.

    The axis is linear around zero and logarithmic beyond the smallest value. Rounding
    errors count as zero.
    """
    values = np.array([bar.value for bar in bars])
    largest = np.max(np.abs(values))
    values[np.abs(values) <= 1e-9 * largest] = 0.0
    smallest = np.min(np.abs(values[values != 0]), initial=largest or 1.0)
    colors = np.full(values.size, FAINT, dtype=object)
    colors[values > 0] = positive_color
    colors[values < 0] = negative_color
    places = np.arange(len(bars))
    axes.barh(places, values, color=colors.tolist(), height=0.6)
    axes.plot(values, places, linestyle="none", marker="o", markersize=4, color=INK)
    axes.axvline(0.0, color=INK, linewidth=0.9)
    decade = 10 ** np.floor(np.log10(float(smallest)))
    axes.set_xscale("symlog", linthresh=decade, linscale=0.6)
    axes.margins(x=0.04)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.yaxis.tick_right()
    axes.spines["left"].set_visible(False)
    axes.set_yticks(places, [textwrap.fill(bar.label, 58) for bar in bars])
    axes.tick_params(axis="y", length=0)


@figure_of("a landscape or a critical point", "spectrum", "index", "flat", "error")
def plot_landscape(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the curvatures of a landscape or a critical point, lowest first.

    Each has its multiplicity and its family.
    """
    bars = [_bar_of_curvature(curvature) for curvature in result.spectrum[:FAMILIES]]
    (axes,) = column([0.85 + 0.3 * max(len(bars), 4)], title, ax=ax)
    _draw_bars(axes, bars, negative_color=COLORS[1], positive_color=COLORS[0])
    xlabel = r"curvature $h$ of $\epsilon_g$ in $W/\sqrt{N}$ (left: down, right: up)"
    not_shown = len(result.spectrum) - FAMILIES
    if not_shown > 0:
        xlabel += f"\n(and {not_shown} that are larger)"
    if hasattr(result, "name"):
        heading = result.name.capitalize()
    else:
        heading = f"Landscape: {result.kind}"
    problem, _ = text.problem_in_words(result.problem)
    small = rf"{problem}; $N = {result.dim}$, $\epsilon_g$ = {result.error:.4g}"
    outcome = (
        f"Of {result.parameters} directions {result.index} lead down "
        f"and {result.flat} are flat"
    )
    return finish([axes], xlabel, title, heading, small, outcome, line=80)


def _bar_of_curvature(curvature: Any) -> _Bar:
    """The bar of a family of curvatures."""
    number = f"{curvature.value:+.4g}{_multiplicity(curvature)}"
    return _Bar(curvature.value, f"{number}: {curvature.family}")
