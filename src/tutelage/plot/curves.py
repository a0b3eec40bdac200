"""Figures of what is found on a learning curve: plateaus, phases, early stopping.

A curve is anything with times, error, variables, kind and problem; every result that is
found on a curve has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.lines import NAMED_LINES, draw_lines
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import (
    ALARM,
    COLORS,
    DOTTED,
    FAINT,
    INK,
    Look,
    color_at,
    marker_at,
    stroke,
)
from tutelage.plot.trajectory import SINGLE_RUNS, panels_of

CURVE_HEIGHT = 2.5


def _begin(
    curve: Any,
    more: int,
    title: str | None,
    ax: Axes | None = None,
    overlaps: bool = False,
) -> list[Axes]:
    """Draw the learning curve, and make more empty panels below it.

    overlaps: draw the overlaps R, if there are any, in one last panel.
    """
    overlap_panels = []
    if overlaps:
        overlap_panels = list(panels_of(curve).items())[:1]
    heights_below = [1.8] * (more + len(overlap_panels))
    grid = column([CURVE_HEIGHT, *heights_below], title, ax=ax)
    for label, lines in overlap_panels:
        draw_lines(grid[-1], curve.times, lines, label)
    linewidth = 2.0
    if curve.kind == "simulation":
        linewidth = 1.0
    grid[0].plot(curve.times, curve.error, color=COLORS[0], linewidth=linewidth)
    panels.scale_error(grid[0], curve.error, text.error_label(curve))
    return grid


def _finish(grid: list[Axes], curve: Any, title: str | None, outcome: str) -> Figure:
    """Scale the time axis, and write the head of a figure of this curve."""
    panels.scale_time(grid[0], curve.times)
    heading, conditions = text.title_and_conditions(curve)
    xlabel = text.time_label(curve)
    return finish(grid, xlabel, title, heading, conditions, text.capital(outcome))


@figure_of("what plateaus returned", "found", "curve", "share")
def plot_plateaus(result: Any, *, title: str | None = None) -> Figure:
    """Draw the learning curve with its plateaus, and the overlaps.

    Shaded: where the error is within its share of the height. In the middle panel, what
    grows during the escape from a plateau, on a logarithmic axis, with the fitted
    exponential over the times of the fit.
    """
    curve = result.curve
    with_growth = [plateau for plateau in result.found if plateau.departure is not None]
    growth_panels = 0
    if with_growth:
        growth_panels = 1
    grid = _begin(curve, growth_panels, title, overlaps=True)
    for place, plateau in enumerate(result.found):
        _shade_plateau(grid, plateau, named=place == 0)
    for place, plateau in enumerate(with_growth):
        _draw_growth(grid[1], curve.times, plateau, place)
    first_lines = str(result).split("\n")[:2]
    return _finish(grid, curve, title, "; ".join(first_lines))


def _shade_plateau(grid: list[Axes], plateau: Any, named: bool) -> None:
    """Shade a plateau in every panel, and draw its height.

    named: the shade has a name in the legend of the first panel.
    """
    label = None
    if named:
        label = f"within {100 * plateau.share:.3g}%\nof its height"
    for axes in grid:
        panels.shade(axes, plateau.start, plateau.end, COLORS[4], label)
        label = None
    grid[0].plot(
        [plateau.start, plateau.end],
        [plateau.height, plateau.height],
        color=INK,
        linewidth=1.0,
        linestyle=DOTTED,
        label=f"height {plateau.height:.4g}",
    )


def _draw_growth(axes: Axes, times: np.ndarray, plateau: Any, place: int) -> None:
    """Draw the departure from a plateau, and the exponential fitted to it."""
    departure = plateau.departure
    label = None
    if place == 0:
        label = "departure $u$"
    positive = departure > 0
    axes.plot(
        times[positive],
        departure[positive],
        color=COLORS[place % 3],
        linewidth=1.6,
        label=label,
    )
    # The fitted line goes through the curve in the middle of the window.
    window = np.array(plateau.growth_window)
    middle = int(np.argmin(np.abs(times - window.mean())))
    growth = np.exp(plateau.growth_rate * (window - times[middle]))
    axes.plot(
        window,
        departure[middle] * growth,
        color=COLORS[1],
        linewidth=2.2,
        linestyle=(0, (3, 1.5)),
        label=rf"rate {plateau.growth_rate:.4g}",
    )
    axes.set(yscale="log", ylabel="departure from\nthe plateau, $u$")


@figure_of("what phases returned", "intervals", "curve")
def plot_phases(result: Any, *, title: str | None = None) -> Figure:
    """Draw learning curve and overlaps, shaded by phase, with names in the legend."""
    grid = _begin(result.curve, 0, title, overlaps=True)
    panels.draw_phases(grid, result.intervals)
    names = ", ".join(phase.name for phase in result.intervals)
    return _finish(grid, result.curve, title, names)


@figure_of("what specialization returned", "index", "own", "permutation")
def plot_specialization(result: Any, *, title: str | None = None) -> Figure:
    """Draw learning curve, specialization index and the cosines of assigned pairs."""
    times = result.times
    grid = _begin(result.curve, 2, title)
    _, index_panel, cosine_panel = grid
    index_panel.plot(times, result.index, color=COLORS[2], linewidth=2.0, label="index")
    index_panel.axhline(
        0.5, color=FAINT, linewidth=0.8, linestyle=DOTTED, label="one half"
    )
    index_panel.set(ylim=(-0.03, 1.03), ylabel="specialization\nindex")
    _draw_cosines(cosine_panel, result)
    if result.transition_time is not None:
        label: str | None = f"transition, {result.transition_time:.4g}"
        for axes in grid:
            panels.mark_time(axes, result.transition_time, label)
            label = None  # one name in the legend of the first panel
    return _finish(grid, result.curve, title, text.first_line(result))


def _draw_cosines(axes: Axes, result: Any) -> None:
    """Draw the cosine of each student unit with its teacher unit, or of each angle."""
    for place, label in enumerate(result.pair_labels):
        unit = result.student_units[place]
        look: Look = {"color": color_at(unit), "linewidth": 1.0}
        if len(result.pair_labels) <= NAMED_LINES:
            marked = panels.spread_marks(result.times, place, len(result.pair_labels))
            look = stroke(unit, place) | {"markevery": marked}
        axes.plot(result.times, result.own[:, place], label=label, **look)
    axes.set_ylabel(result.cosine_label)


@figure_of("what early_stopping returned", "bracket", "gain", "curve")
def plot_early_stopping(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the learning curve with the smallest and the last error marked."""
    (axes,) = _begin(result.curve, 0, title, ax)
    smallest = f"smallest, {result.value:.4g}"
    axes.plot(
        [result.time],
        [result.value],
        "o",
        color=COLORS[2],
        markersize=7,
        label=smallest,
    )
    if result.inside:
        axes.plot(
            [result.end_time],
            [result.end_value],
            "s",
            color=ALARM,
            markersize=6,
            label=f"at the end, {result.end_value:.4g}",
        )
        axes.axhline(result.value, color=INK, linewidth=0.8, linestyle=DOTTED)
        panels.mark_time(axes, result.time, f"stop at {result.time:.4g}")
        label = "error grows again"
        panels.shade(axes, result.time, result.end_time, ALARM, label, alpha=0.08)
    return _finish([axes], result.curve, title, str(result))


@figure_of("the results of several runs", "answers", "marks")
def plot_per_run(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the learning curves of the runs with their marks, one color per kind."""
    curves = [answer.curve for answer in result.answers[:SINGLE_RUNS]]
    (axes,) = column([CURVE_HEIGHT], title, ax=ax)
    label: str | None = "runs"
    for curve in curves:
        axes.plot(curve.times, curve.error, color=FAINT, linewidth=0.7, label=label)
        label = None  # one name for all runs
    for place, (name, times) in enumerate(result.marks.items()):
        _mark_runs(axes, curves, times, name, place)
    errors = np.concatenate([curve.error for curve in curves])
    panels.scale_error(axes, errors, text.error_label(curves[0]))
    means = [_mean_time(name, times) for name, times in result.marks.items()]
    outcome = f"{len(result)} runs: {', '.join(means[:3])}"
    return _finish([axes], curves[0], title, outcome)


def _mark_runs(
    axes: Axes, curves: Sequence[Any], times: np.ndarray, name: str, place: int
) -> None:
    """Mark the curve of each run at its time; it is not finite if there is none."""
    marked_times = []
    marked_errors = []
    for curve, time in zip(curves, times, strict=False):
        if np.isfinite(time):
            marked_times.append(time)
            marked_errors.append(np.interp(time, curve.times, curve.error))
    if marked_times:
        look = panels.plain_dots(place, size=4.5, marker=marker_at(place))
        axes.plot(marked_times, marked_errors, **look, zorder=3, label=name)


def _mean_time(name: str, times: np.ndarray) -> str:
    """The mean of the finite times, with their standard deviation."""
    finite = times[np.isfinite(times)]
    words = f"{name} at {finite.mean():.4g}"
    if finite.size > 1:
        words += f" ± {finite.std(ddof=1):.2g}"
    return words
