"""Figures of theory and finite networks: comparison, fluctuations, single steps."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot.axes import (
    Figure,
    column,
    figure_of,
    fill_band,
    finish,
    panel_grid,
    plain_dots,
    scale_error,
    scale_overlaps,
    scale_time,
    shade,
    shown_times,
    spread_marks,
)
from tutelage.plot.labels import (
    capital,
    error_label,
    problem_in_words,
    quantity_label,
    time_label,
    title_and_conditions,
)
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK, Look, stroke
from tutelage.plot.trajectory import NAMED, SINGLE_RUNS, lines_of, mark_switches, with_looks

HEAD = 1.1  # inches
MARKS = 8  # marks of the runs' mean on each curve of the overlaps
LIMIT, MANY = 4.0, 12.0  # z-scores: the line that is drawn, and where the axis turns logarithmic
PALE, PALER = 0.22, 0.12  # bands of few curves, and of many that overlap
KINDS = {"R": "overlaps with teachers", "Q": "overlaps of student units", "V": "readouts", "B": "biases"}


@figure_of("what compare returned", "gaps", "verdict", "times")
def plot_comparison(comparison: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw learning curve, overlaps and z-scores of what `compare` returned.

    Lines are the theory; bands are the mean over runs with two standard errors to either side, marks that mean; thin gray
    lines single runs, and the pale band behind them where the theory expects 95 of 100 of them. Below, the largest |z| among
    the entries of each quantity. Where SGD noise determines the escape, short strokes mark when each run escapes, and the times
    after the first departure are shaded. ax: draw only the learning curve into these axes.
    """
    theory, times = comparison.theory, comparison.times
    shown = shown_times(times)
    t = times[shown]
    names: list[str] = [name for name in comparison.gaps if name != "error" and ax is None]
    scores = comparison.count > 1 and ax is None
    grid = column([2.6, *[2.0] * len(names), *([1.5] if scores else [])], title, head=HEAD, ax=ax)
    _draw_errors(grid[0], t, comparison, shown)
    for axes, name in zip(grid[1:], names, strict=False):
        _draw_overlaps(axes, t, name, comparison, shown)
    if scores:
        _draw_scores(grid[-1], t, comparison, shown)
    for axes in grid[: 1 + len(names)]:
        mark_switches(axes, theory)
    scale_time(grid[0], times)
    who, how = title_and_conditions(theory)
    runs = f"{comparison.count} run{'s' if comparison.count > 1 else ''}"
    size = f"{runs} of N = {comparison.dim}" if comparison.dim is not None else runs
    outcome = comparison.verdict.outcome
    small = ", ".join(part for part in (how, size) if part)
    alarm = outcome.startswith("differ")
    return finish(grid, time_label(theory), title, who, small, f"Theory and {runs}: {outcome}", alarm=alarm)


def _draw_errors(axes: Axes, t: np.ndarray, comparison: Any, shown: np.ndarray) -> None:
    """Theory as a line, the mean over runs as band and marks: one curve, or one for each task in its color."""
    gap, many = comparison.gaps["error"], comparison.count > 1
    several = gap.theory.ndim > 1
    curves = [np.atleast_2d(x[shown].T) for x in (gap.theory, gap.mean, gap.standard_error)]  # (task, time)
    if not several and comparison.scatter is not None:
        half, label = 2 * comparison.scatter.predicted[shown], "± 2 std. dev. of\nsingle runs, theory"
        fill_band(axes, t, curves[0][0], half, COLORS[0], alpha=0.2, label=label, positive=True)
    for i, run in enumerate(gap.runs[:SINGLE_RUNS, shown] if many and not several else ()):
        axes.plot(t, run, color=FAINT, linewidth=0.5, alpha=0.5, label="single runs" if i == 0 else None)
    for task, (theory, mean, error) in enumerate(zip(*curves, strict=True)):
        look = task if several else 1
        named = f"task {task + 1}, theory", f"task {task + 1}, runs"
        line, marks = named if several else ("theory", "mean of runs" if many else "run")
        color, label = COLORS[look % len(COLORS)], "± 2 std. errors" if many and not several else None
        axes.plot(t, mean, color=color, linewidth=0.9, alpha=0.9)
        fill_band(axes, t, mean, 2 * error, color, alpha=0.35, label=label, positive=True)
        axes.plot(t, theory, color=COLORS[task % len(COLORS)], linewidth=1.8, label=line)
        every = spread_marks(t, task, len(curves[0]), 2 * MARKS)
        axes.plot(t, mean, **plain_dots(look, 4.2), markevery=every, zorder=3, label=marks)
    axes.set_ylabel(error_label(comparison.theory))
    scale_error(axes, np.concatenate([gap.theory[None], gap.runs])[:, shown])
    escape = comparison.escape
    if escape is not None and escape.by_noise:
        at = np.full(escape.escaped.size, escape.threshold)
        axes.plot(escape.escaped, at, "|", color=INK, markersize=9, markeredgewidth=1.0, label="runs escape")
        if np.isfinite(escape.theory):
            axes.plot([escape.theory], [escape.threshold], "D", color=COLORS[0], markersize=5.5, label="theory escapes")


def _draw_overlaps(axes: Axes, t: np.ndarray, name: str, comparison: Any, shown: np.ndarray) -> None:
    """The entries of one variable: theory as lines, the mean over runs as marks, and as bands where entries are few."""
    gap, problem = comparison.gaps[name], comparison.theory.problem
    theory, runs = (lines_of(name, x, problem) for x in (gap.theory[None, shown], gap.runs[:, shown]))
    few = len(theory) <= NAMED
    for i, ((line, look, label), cloud) in enumerate(zip(with_looks(theory, marks=False), runs, strict=True)):
        mean, count = cloud.values.mean(axis=0), len(cloud.values)
        if few and count > 1:
            fill_band(axes, t, mean, 2 * cloud.values.std(axis=0, ddof=1) / np.sqrt(count), look["color"])
        marks: Look = {"marker": stroke(line.unit)["marker"], "markerfacecolor": "white"} if few else {"marker": "."}
        marks |= {"markersize": 3.8, "markevery": spread_marks(t, i, len(theory), MARKS), "zorder": 3}
        axes.plot(t, mean, color=look["color"], linestyle="none", **marks)
        axes.plot(t, line.values[0], label=label, **look)
    axes.set_ylabel(quantity_label(name, problem))
    scale_overlaps(axes, gap.theory)


def _draw_scores(axes: Axes, t: np.ndarray, comparison: Any, shown: np.ndarray) -> None:
    """The largest |z| among the entries of each quantity, and which times are not counted."""
    largest = 0.0
    for i, (name, gap) in enumerate(comparison.gaps.items()):
        worst = np.max(np.abs(gap.entries(gap.z)), axis=1)[shown]
        largest = max(largest, float(np.max(worst, initial=0.0)))
        label = f"{name}, worst of {len(gap.labels())}" if len(gap.labels()) > 1 else name
        axes.plot(t, worst, color=COLORS[i], linestyle=DASHES[i % len(DASHES)], linewidth=1.2, label=label)
    axes.axhline(LIMIT, color=ALARM, linewidth=1.0, linestyle=(0, (2, 2)), label=f"|z| = {LIMIT:g}")
    left_out = comparison.times[~comparison.verdict.counted]
    if left_out.size:
        shade(axes, float(left_out[0]), float(left_out[-1]), FAINT, "not counted", 0.18)
    axes.set(ylabel="z-score\nof the gap, |z|", yscale="log" if largest > MANY else "linear")
    axes.set_ylim((0.1, 60.0) if largest > MANY else (0.0, max(5.0, 1.15 * largest)))


@figure_of("what fluctuations returned", "theory", "sd", "dim", "scaled")
def plot_fluctuations(result: Any, *, title: str | None = None) -> Figure:
    """Draw error and order parameters with bands of two standard deviations, and below them sd(e_g) / e_g.

    Takes what `fluctuations` returned.
    """
    times, theory = np.asarray(result.times), result.theory
    shown = shown_times(times)
    t, error, sd = times[shown], np.asarray(theory.error)[shown], result.sd("error")[shown]
    names = ["R", "Q", *(n for n in ("readout", "bias") if n in theory.variables and np.max(result.sd(n)) > 0)]
    grid = column([2.4, *[1.9] * len(names), 1.4], title, head=HEAD)
    fill_band(grid[0], t, error, 2 * sd, COLORS[0], alpha=PALE, label="± 2 std. deviations", positive=True)
    grid[0].plot(t, error, color=COLORS[0], linewidth=1.8, label=r"theory, $N \to \infty$")
    grid[0].set_ylabel(error_label(theory))
    scale_error(grid[0], error)
    for axes, name in zip(grid[1:], names, strict=False):
        values = np.asarray(theory[name])[shown]
        lines, widths = lines_of(name, values[None]), lines_of(name, result.sd(name)[None, shown])
        pale = PALE if len(lines) <= len(COLORS) // 2 else PALER
        for (line, look, label), width in zip(with_looks(lines, marks=False), widths, strict=True):
            fill_band(axes, t, line.values[0], 2 * width.values[0], look["color"], alpha=pale)
            axes.plot(t, line.values[0], label=label, **look)
        axes.set_ylabel(quantity_label(name))
        scale_overlaps(axes, values)
    grid[-1].plot(t, sd / np.maximum(error, 1e-300), color=COLORS[0], linewidth=1.4)
    grid[-1].set_ylabel("relative scatter\n" + r"sd$(\epsilon_g)\,/\,\epsilon_g$")
    grid[-1].set_ylim(bottom=0.0)
    scale_time(grid[0], times)
    who, how = problem_in_words(theory.problem)
    small = f"{how}; scatter of single networks with $N={result.dim}$"
    doubts = [capital(doubt) for doubt in result.doubts()]
    return finish(grid, time_label(theory), title, who, small, doubts, alarm=True)


@figure_of("what step_moments returned", "drift", "diffusion", "names")
def plot_step_moments(result: Any, *, title: str | None = None) -> Figure:
    """Draw what `step_moments` measured against theory: on the diagonal, theory and network agree."""
    who, how = problem_in_words(result.problem)
    step = f"one step of {result.samples} networks with N = {result.dim}, {result.inputs} inputs"
    heading = title or f"{who}: network and theory {'agree' if result.agrees else 'differ'}"
    figure, ((left, right),) = panel_grid(1, 2, heading, f"{how}; {step}; bars: 2 std. errors", height=3.8)
    letters = [name[0].upper() for name in result.names]
    bars: Look = {"fmt": "o", "markersize": 4.2, "markerfacecolor": "white", "capsize": 2.0, "linewidth": 1.0}
    for i, letter in enumerate(dict.fromkeys(letters)):
        which = np.array([x == letter for x in letters])
        theory, measured, error = (x[which] for x in (result.drift_theory, result.drift, result.drift_error))
        left.errorbar(theory, measured, 2 * error, color=COLORS[i], label=KINDS[letter], **bars)
    upper = np.triu_indices(len(result.names))
    theory, measured, error = (x[upper] for x in (result.diffusion_theory, result.diffusion, result.diffusion_error))
    right.errorbar(theory, measured, 2 * error, color=COLORS[0], **bars)
    left.set(xlabel=r"drift $f(u)$, theory", ylabel=r"$N\,E[\Delta u]$, measured")
    right.set(xlabel=r"diffusion $D(u)$, theory", ylabel=r"$N^2\,\mathrm{Cov}(\Delta u)$, measured")
    for axes in (left, right):
        axes.plot(axes.get_xlim(), axes.get_xlim(), color=FAINT, linewidth=1.0, zorder=0)
    left.legend(loc="upper left")
    return figure
