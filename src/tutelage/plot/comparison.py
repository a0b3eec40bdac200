"""The figure of `compare`: theory as lines, the mean over runs as bands and marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.lines import NAMED_LINES, lines_of, with_looks
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import (
    ALARM,
    COLORS,
    DOTTED,
    FAINT,
    INK,
    Look,
    color_at,
    line_look,
)
from tutelage.plot.trajectory import SINGLE_RUNS, mark_switches

MARKS = 8  # marks of the runs' mean on each curve of the overlaps
LIMIT = 4.0  # the z-score at which a line is drawn
LARGE_SCORE = 12.0  # beyond it the axis of the z-scores is logarithmic


@figure_of("what compare returned", "gaps", "verdict", "times")
def plot_comparison(
    comparison: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw learning curve, overlaps and z-scores of what `compare` returned.

    Lines are the theory; bands are the mean over runs with two standard errors to
    either side, marks that mean; thin gray lines single runs, and the pale band behind
    them where the theory expects 95 of 100 of them. Below, the largest |z| among the
    entries of each quantity. Where SGD noise determines the escape, short strokes mark
    when each run escapes, and the times after the first departure are shaded. ax: draw
    only the learning curve into these axes.
    """
    theory = comparison.theory
    times = comparison.times
    names: list[str] = []
    heights = [2.6]
    if ax is None:
        names = [name for name in comparison.gaps if name != "error"]
        heights += [2.0] * len(names)
    with_scores = comparison.count > 1 and ax is None
    if with_scores:
        heights.append(1.5)
    grid = column(heights, title, ax=ax)
    _compare_errors(grid[0], times, comparison)
    for axes, name in zip(grid[1:], names, strict=False):
        _compare_overlaps(axes, times, name, comparison)
    if with_scores:
        _draw_scores(grid[-1], times, comparison)
    for axes in grid[: 1 + len(names)]:
        mark_switches(axes, theory)
    panels.scale_time(grid[0], times)

    runs = f"{comparison.count} run"
    if comparison.count > 1:
        runs += "s"
    networks = runs
    if comparison.dim is not None:
        networks = f"{runs} of N = {comparison.dim}"
    heading, conditions = text.title_and_conditions(theory)
    small = ", ".join(part for part in (conditions, networks) if part)
    outcome = comparison.verdict.outcome
    return finish(
        grid,
        text.time_label(theory),
        title,
        heading,
        small,
        outcome=f"Theory and {runs}: {outcome}",
        alarm=outcome.startswith("differ"),
    )


def _compare_errors(axes: Axes, times: np.ndarray, comparison: Any) -> None:
    """Draw the learning curves of theory and runs, of each task in its color."""
    gap = comparison.gaps["error"]
    if gap.theory.ndim > 1:
        _compare_errors_of_tasks(axes, times, gap)
    else:
        _compare_one_error(axes, times, comparison)
    errors = np.concatenate([gap.theory[None], gap.runs])
    panels.scale_error(axes, errors, text.error_label(comparison.theory))
    escape = comparison.escape
    if escape is not None and escape.by_noise:
        _mark_escapes(axes, escape)


def _compare_errors_of_tasks(axes: Axes, times: np.ndarray, gap: Any) -> None:
    tasks = gap.theory.shape[1]
    for task in range(tasks):
        _draw_theory_and_mean(
            axes,
            times,
            theory=gap.theory[:, task],
            mean=gap.mean[:, task],
            standard_error=gap.standard_error[:, task],
            colors=(color_at(task), color_at(task)),
            labels=(f"task {task + 1}, theory", f"task {task + 1}, runs"),
            marked=panels.spread_marks(times, task, tasks, 2 * MARKS),
        )


def _compare_one_error(axes: Axes, times: np.ndarray, comparison: Any) -> None:
    """Draw the learning curve of theory and runs, and the scatter of single runs."""
    gap = comparison.gaps["error"]
    if comparison.scatter is not None:
        panels.fill_band(
            axes,
            times,
            gap.theory,
            2 * comparison.scatter.predicted,
            COLORS[0],
            alpha=0.2,
            label="± 2 std. dev. of\nsingle runs, theory",
            positive=True,
        )
    name_of_runs = "run"
    name_of_band = None
    if comparison.count > 1:
        name_of_runs = "mean of runs"
        name_of_band = "± 2 std. errors"
        _draw_single_runs(axes, times, gap.runs)
    _draw_theory_and_mean(
        axes,
        times,
        theory=gap.theory,
        mean=gap.mean,
        standard_error=gap.standard_error,
        colors=(COLORS[0], COLORS[1]),
        labels=("theory", name_of_runs),
        band_label=name_of_band,
        marked=panels.spread_marks(times, 0, 1, 2 * MARKS),
    )


def _draw_single_runs(axes: Axes, times: np.ndarray, runs: Sequence[Any]) -> None:
    """Draw the errors of single runs as thin lines, with one name for all."""
    label: str | None = "single runs"
    for error in runs[:SINGLE_RUNS]:
        axes.plot(times, error, color=FAINT, linewidth=0.5, alpha=0.5, label=label)
        label = None


def _draw_theory_and_mean(
    axes: Axes,
    times: np.ndarray,
    *,
    theory: np.ndarray,
    mean: np.ndarray,
    standard_error: np.ndarray,
    colors: tuple[str, str],
    labels: tuple[str, str],
    band_label: str | None = None,
    marked: list[int] | None,
) -> None:
    """Draw theory as a line, the mean over runs as band and marks.

    colors, labels: of theory and of runs. marked: the indices of times with a mark.
    """
    theory_color, runs_color = colors
    theory_label, runs_label = labels
    axes.plot(times, mean, color=runs_color, linewidth=0.9, alpha=0.9)
    panels.fill_band(
        axes,
        times,
        mean,
        2 * standard_error,
        runs_color,
        alpha=0.35,
        label=band_label,
        positive=True,
    )
    axes.plot(times, theory, color=theory_color, linewidth=1.8, label=theory_label)
    marks: Look = panels.plain_dots(size=4.2) | {"color": runs_color}
    axes.plot(times, mean, **marks, markevery=marked, zorder=3, label=runs_label)


def _mark_escapes(axes: Axes, escape: Any) -> None:
    """Mark when each run escapes from the plateau, and when the theory does."""
    heights = np.full(escape.escaped.size, escape.threshold)
    axes.plot(
        escape.escaped,
        heights,
        "|",
        color=INK,
        markersize=9,
        markeredgewidth=1.0,
        label="runs escape",
    )
    if np.isfinite(escape.theory):
        axes.plot(
            [escape.theory],
            [escape.threshold],
            "D",
            color=COLORS[0],
            markersize=5.5,
            label="theory escapes",
        )


def _compare_overlaps(
    axes: Axes, times: np.ndarray, name: str, comparison: Any
) -> None:
    """Draw the entries of one variable: theory as lines, the mean over runs as marks.

    Where entries are few, bands show two standard errors of the mean.
    """
    gap = comparison.gaps[name]
    problem = comparison.theory.problem
    theory_lines = lines_of(name, gap.theory[None], problem)
    run_lines = lines_of(name, gap.runs, problem)
    entries = len(theory_lines)
    for place, (line, look, label) in enumerate(with_looks(theory_lines)):
        values = run_lines[place].values  # (run, time)
        count = len(values)
        mean = values.mean(axis=0)
        marker: Look = {"marker": "."}
        if entries <= NAMED_LINES:
            marker = {"marker": look["marker"], "markerfacecolor": "white"}
            if count > 1:
                standard_error = values.std(axis=0, ddof=1) / np.sqrt(count)
                panels.fill_band(axes, times, mean, 2 * standard_error, look["color"])
        axes.plot(
            times,
            mean,
            color=look["color"],
            linestyle="none",
            **marker,
            markersize=3.8,
            markevery=panels.spread_marks(times, place, entries, MARKS),
            zorder=3,
        )
        (theory_line,) = axes.plot(times, line.values[0], label=label, **look)
        theory_line.set_marker("")  # marks are for the runs
    panels.scale_overlaps(axes, gap.theory, text.quantity_label(name, problem))


def _draw_scores(axes: Axes, times: np.ndarray, comparison: Any) -> None:
    """Draw the largest |z| among the entries of each quantity.

    Times that the verdict does not count are shaded.
    """
    largest = 0.0
    for place, (name, gap) in enumerate(comparison.gaps.items()):
        scores = np.max(np.abs(gap.entries(gap.z)), axis=1)
        largest = max(largest, float(np.max(scores, initial=0.0)))
        label = name
        count = len(gap.labels())
        if count > 1:
            label = f"{name}, worst of {count}"
        axes.plot(times, scores, label=label, **line_look(place, width=1.2))
    limit = f"|z| = {LIMIT:g}"
    axes.axhline(LIMIT, color=ALARM, linewidth=1.0, linestyle=DOTTED, label=limit)
    left_out = comparison.times[~comparison.verdict.counted]
    if left_out.size:
        start = float(left_out[0])
        end = float(left_out[-1])
        panels.shade(axes, start, end, FAINT, "not counted", alpha=0.18)
    axes.set_ylabel("z-score\nof the gap, |z|")
    if largest > LARGE_SCORE:
        axes.set_yscale("log")
        axes.set_ylim(0.1, 60.0)
    else:
        axes.set_ylim(0.0, max(5.0, 1.15 * largest))
