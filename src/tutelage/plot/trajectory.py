"""Figures of theory and networks: trajectory, overlaps, comparison, fluctuations, single steps, data.

A figure of curves has the learning curve above and one panel for each kind of quantity below. Few lines (up to `NAMED`) are
named one by one; more share a look by student unit; many share one color.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from tutelage.errors import InputError
from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK, Look, color_at, line_look, stroke

if TYPE_CHECKING:
    from tutelage.problem import Problem
    from tutelage.trajectory import Trajectory

SINGLE_RUNS = 40  # drawn thin behind their mean
NAMED = 9  # lines of a panel that are named one by one
MARKS = 8  # marks of the runs' mean on each curve of the overlaps
VARIABLES = {"R": (2,), "Q": (2,), "readout": (1, 2), "bias": (1,)}  # known variables: numbers of axes beside time
KINDS = {"R": "overlaps with teachers", "Q": "overlaps of student units", "V": "readouts", "B": "biases"}
LAWS = {"theory's law": 1, "full covariances": 2, "samples": 0}  # places of their colors
LIMIT, MANY = 4.0, 12.0  # z-scores: the line that is drawn, and where the axis turns logarithmic
NUMBERED, NAMED_ROWS = 8, 16  # rows or columns of a heat map up to which it has numbers, and names
DRAWN_CLASSES = 10  # classes that are drawn one by one


class Line(NamedTuple):
    """values: (run, time). unit, partner: see `style.stroke`. group: its name where curves are too many to name."""

    values: np.ndarray
    label: str
    unit: int
    partner: int = 0
    group: str = ""


@figure_of("a Trajectory", "times", "variables", "error", "status")
def plot_trajectory(trajectory: Trajectory, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw error, overlaps and trained readouts against time.

    The error axis is logarithmic if the error spans more than a decade and a half, the time axis if the recorded times are
    evenly spaced in the logarithm. Several runs are drawn thin with their mean. The title says if a run diverged or stopped.

    Parameters
    ----------
    trajectory
        What `solve`, `simulate` or `load` returns, also for custom `Equations`.
    ax
        Matplotlib axes: draw only the learning curve into them.
    title
        Replaces the problem in words; "" leaves the head out.

    Returns
    -------
    A Matplotlib figure (see `save_figure`), or `ax` if it was given.
    """
    times = np.atleast_2d(trajectory.times)[0]
    if times.size == 0:
        raise InputError("this trajectory has no recorded times; there is nothing to draw.")
    quantities = panels_of(trajectory) if ax is None else {}
    grid = column([2.3] + [1.75] * len(quantities), title, width=7.0, ax=ax)
    _draw_errors(grid[0], times, trajectory)
    for axes, (label, lines) in zip(grid[1:], quantities.items(), strict=True):
        draw_lines(axes, times, lines, label)
    what = "run" if trajectory.kind == "simulation" else "solve"
    outcome = "" if trajectory.finished else f"The {what} {trajectory.status}"
    for axes in grid:
        mark_switches(axes, trajectory)
        for end in np.unique(trajectory.end_time) if outcome else ():
            axes.axvline(float(end), color=ALARM, linewidth=1.0, linestyle=(0, (2, 2)))
    panels.scale_time(grid[0], times)
    who, how = text.title_and_conditions(trajectory)
    if trajectory.problem is None:
        how = f"variables {', '.join(trajectory.variables)}"
    small = ", ".join([how, *text.settings_in_words(trajectory)])
    return finish(grid, text.time_label(trajectory), title, who, small, outcome, alarm=True)


def _draw_errors(axes: Axes, t: np.ndarray, trajectory: Trajectory) -> None:
    """One curve, or one for each task; of several runs the mean, and single runs thin behind it."""
    errors = np.asarray(trajectory.error, dtype=float)
    errors = errors[..., None] if getattr(trajectory, "tasks", None) is None else errors
    errors = np.moveaxis(errors.reshape(-1, *errors.shape[-2:]), -1, 0)  # (task, run, time)
    others = 1 if axes.lines else 0  # the user's axes may hold another trajectory, which has the first color
    if errors.shape[1] > 1:
        axes.plot(t, np.concatenate(errors[:, :SINGLE_RUNS]).T, color=FAINT, linewidth=0.6, alpha=0.6)
    for task, mean in enumerate(errors.mean(axis=1)):
        look = {"color": color_at(task + others), "linewidth": 2.0, "marker": "o" if t.size == 1 else None}
        axes.plot(t, mean, label=f"task {task + 1}" if len(errors) > 1 else None, **look)
    panels.scale_error(axes, errors, text.error_label(trajectory))


def mark_switches(axes: Axes, trajectory: Any) -> None:
    """Vertical lines where the probabilities of tasks jump, or a head stops to learn."""
    from tutelage.problem import Tasks

    teacher, end = getattr(trajectory.problem, "teacher", None), np.max(trajectory.times)
    times = teacher.switches(end) if isinstance(teacher, Tasks) and not callable(teacher.schedule) else None
    for time in [] if times is None else np.unique(np.asarray(times)):
        if time < end:
            panels.mark_time(axes, float(time))


def panels_of(curve: Any) -> dict[str, list[Line]]:
    """The lines of each panel by its name: R and Q, readouts and biases that learn; the variables of custom equations."""
    lead = np.ndim(curve.error) - (1 if getattr(curve, "tasks", None) is None else 2)
    arrays = {name: np.asarray(value, dtype=float) for name, value in curve.variables.items()}
    runs = {name: array.reshape(-1, *array.shape[lead:]) for name, array in arrays.items()}  # (run, time, ...)
    known = [n for n, axes in VARIABLES.items() if n in runs and runs[n].ndim - 2 in axes]
    if known and curve.kind != "equations":
        shown = [n for n in known if n in ("R", "Q") or np.ptp(runs[n], axis=1).max() > 1e-12]
        return {text.quantity_label(n, curve.problem): lines_of(n, runs[n], curve.problem) for n in shown}
    scalars = [Line(v, n, i, i) for i, (n, v) in enumerate((n, v) for n, v in runs.items() if v.ndim == 2)]
    others = {n: lines_of(n, v) for n, v in runs.items() if v.ndim > 2}
    return ({", ".join(line.label for line in scalars): scalars} if scalars else {}) | others


def lines_of(name: str, values: np.ndarray, problem: Problem | None = None) -> list[Line]:
    """The lines of one variable, (run, time, ...): color from its first index (the unit), dashes from its last.

    Lines of R name the task of their column, or whether it is a teacher unit or a mean; those of separate heads their task.
    Of Q, the norms come first as solid lines, then the overlaps between different units, dashed; each pair once.
    """
    if values.ndim == 2:
        return [Line(values, name, 0)]
    columns = [""] * values.shape[-1]
    heads = name == "readout" and values.ndim == 4 and getattr(getattr(problem, "teacher", None), "heads", "") == "separate"
    if heads:
        values = np.swapaxes(values, 2, 3)  # (run, time, unit, task)
        columns = [f", task {task + 1}" for task in range(values.shape[3])]
    elif name == "R":
        kind, labels = text.columns_of_R(problem, len(columns))
        if kind not in ("teacher", "mean"):
            columns = [f", {'task ' if kind else ''}{label}" for label in labels]

    def line(index: tuple[int, ...], unit: int, partner: int, group: str) -> Line:
        below = ("" if max(values.shape[2:]) < 10 else ",").join(str(i + 1) for i in (index[:1] if heads else index))
        letter = {"readout": "v", "bias": "b"}.get(name, name)
        label = f"${letter}_{{{below}}}$" if len(letter) == 1 else f"{letter} {below}"
        return Line(values[(..., *index)], label + columns[index[-1]], unit, partner, group)

    if name == "Q" and values.ndim == 4:
        K = values.shape[-1]
        pairs = [(k, l) for k in range(K) for l in range(k + 1, K)]
        norms = [line((k, k), k, 0, "norms $Q_{kk}$") for k in range(K)]
        return norms + [line(pair, K + i, 1 + i % (len(DASHES) - 1), "pairs $Q_{kl}$") for i, pair in enumerate(pairs)]
    return [line(index, index[0], index[-1], f"unit {index[0] + 1}") for index in np.ndindex(values.shape[2:])]


def draw_lines(axes: Axes, times: np.ndarray, lines: list[Line], label: str) -> None:
    """All lines (the mean over runs, where there are several), their name and scale."""
    for i, (line, look, name) in enumerate(with_looks(lines)):
        every: Look = {"markevery": panels.spread_marks(times, i, len(lines))} if "marker" in look else {}
        axes.plot(times, np.mean(line.values, axis=0), label=name, **look, **every)
    panels.scale_overlaps(axes, np.stack([line.values for line in lines]), label)


def with_looks(lines: list[Line]) -> Iterator[tuple[Line, Look, str]]:
    """Each line with its properties and its label; "_" hides a label whose group is named already."""
    groups, seen = list(dict.fromkeys(line.group for line in lines)), set()
    for line in lines:
        look, label = stroke(line.unit, line.partner), line.label
        if len(lines) > NAMED:
            few = len(groups) <= len(COLORS)
            look = {"color": FAINT, "linewidth": 0.7, "alpha": 0.7}
            look = line_look(groups.index(line.group), 1.0) | {"alpha": 0.8} if few else look
            label = line.group if few and line.group not in seen else f"_{label}"
            seen.add(line.group)
        yield line, look, label


@figure_of("a Trajectory", "times", "variables", "error")
def plot_overlaps(trajectory: Trajectory, time: float | None = None, *, run: int = 0, title: str | None = None) -> Figure:
    """Draw R and Q at one time as heat maps; the columns of R are teacher units, units of tasks, or means of a mixture.

    Parameters
    ----------
    time
        The nearest recorded time is drawn. Default: the last.
    run
        The run of a simulation, counted from 0.
    """
    if "R" not in trajectory.variables:
        raise InputError("this trajectory has no overlaps R and Q; plot_overlaps needs one of a Problem.")
    R, Q = (np.asarray(trajectory.variables[name], dtype=float) for name in ("R", "Q"))
    if R.ndim == 4:
        if not 0 <= run < len(R):
            raise InputError(f"run is {run}; this trajectory has runs 0 to {len(R) - 1}.")
        R, Q = R[run], Q[run]
    times = np.asarray(trajectory.times, dtype=float)
    place = times.size - 1 if time is None else int(np.argmin(np.abs(times - float(time))))
    who, how = text.title_and_conditions(trajectory)
    K, M = R.shape[1:]
    small = "" if title == "" else ", ".join(part for part in (how, rf"at $\alpha={times[place]:g}$") if part)
    heading = who if title is None else title
    figure, (pair,) = panels.panel_grid(1, 2, heading, small, height=1.0 + 0.45 * K, width_ratios=[M, K])
    image = draw_overlaps(pair, R[place], Q[place], trajectory.problem)
    figure.colorbar(image, ax=list(pair), shrink=0.8)
    return figure


def draw_overlaps(pair: Sequence[Axes], R: np.ndarray, Q: np.ndarray, problem: Problem | None) -> AxesImage:
    """Heat maps of R and Q in two panels, with one range of colors and a line between the units of two tasks."""
    bound = max(float(np.max(np.abs(R))), float(np.max(np.abs(Q))), 1e-12)
    kind, columns = text.columns_of_R(problem, R.shape[1])
    students = [str(k + 1) for k in range(len(Q))]
    heat_map(pair[0], R, students, columns, -bound)
    image = heat_map(pair[1], Q, students, students, -bound)
    for axes, name in zip(pair, "RQ", strict=True):
        panels.label_panel(axes, text.quantity_label(name, problem).replace("\n", " "))
    pair[0].set(xlabel="teacher unit" if kind == "teacher" else kind, ylabel="student unit")
    pair[1].set_xlabel("student unit")
    for edge, (before, after) in enumerate(pairwise(columns), 1) if kind.startswith("task") else ():
        if before.split(".")[0] != after.split(".")[0]:
            pair[0].axvline(edge - 0.5, color=INK, linewidth=1.6)
    return image


def heat_map(axes: Axes, values: np.ndarray, rows: list[str], columns: list[str], low: float = 0.0) -> AxesImage:
    """A heat map with the names of few rows and columns, and its numbers where they fit.

    low: the end of the colors, which run from low to -low; 0 for shares, which run from 0 to 1.
    """
    high = -low or 1.0
    image = axes.imshow(values, vmin=low, vmax=high, cmap="RdBu_r" if low < 0 else "Blues", aspect="auto")
    for set_ticks, names in ((axes.set_xticks, columns), (axes.set_yticks, rows)):
        set_ticks(range(len(names)) if len(names) <= NAMED_ROWS else [], names if len(names) <= NAMED_ROWS else [])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(values) if max(values.shape) <= NUMBERED else ():
        color = "white" if abs(value) > 0.6 * high else INK  # on a dark cell
        number = f"{np.round(value, 3) + 0.0:.3f}" if low < 0 else f"{value:.2f}"
        axes.text(j, i, number, ha="center", va="center", color=color, fontsize=8.0)
    return image


# Theory and runs


@figure_of("what compare returned", "gaps", "verdict", "times")
def plot_comparison(comparison: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw learning curve, overlaps and z-scores of what `compare` returned.

    Lines are the theory; bands are the mean over runs with two standard errors to either side, marks that mean; thin gray
    lines single runs, and the pale band behind them where the theory expects 95 of 100 of them. Below, the largest |z| among
    the entries of each quantity. Where SGD noise determines the escape, short strokes mark when each run escapes, and the times
    after the first departure are shaded. ax: draw only the learning curve into these axes.
    """
    theory, times, runs = comparison.theory, comparison.times, f"{comparison.count} run{'s' * (comparison.count > 1)}"
    names: list[str] = [name for name in comparison.gaps if name != "error" and ax is None]
    scores = comparison.count > 1 and ax is None
    grid = column([2.6, *[2.0] * len(names), *([1.5] if scores else [])], title, ax=ax)
    _compare_errors(grid[0], times, comparison)
    for axes, name in zip(grid[1:], names, strict=False):
        _compare_overlaps(axes, times, name, comparison)
    if scores:
        _draw_scores(grid[-1], times, comparison)
    for axes in grid[: 1 + len(names)]:
        mark_switches(axes, theory)
    panels.scale_time(grid[0], times)
    who, how = text.title_and_conditions(theory)
    size = f"{runs} of N = {comparison.dim}" if comparison.dim is not None else runs
    small, outcome = ", ".join(part for part in (how, size) if part), comparison.verdict.outcome
    alarm = outcome.startswith("differ")
    return finish(grid, text.time_label(theory), title, who, small, f"Theory and {runs}: {outcome}", alarm=alarm)


def _compare_errors(axes: Axes, t: np.ndarray, comparison: Any) -> None:
    """Theory as a line, the mean over runs as band and marks: one curve, or one for each task in its color."""
    gap, many = comparison.gaps["error"], comparison.count > 1
    several = gap.theory.ndim > 1
    curves = [np.atleast_2d(x.T) for x in (gap.theory, gap.mean, gap.standard_error)]  # (task, time)
    if not several and comparison.scatter is not None:
        half, label = 2 * comparison.scatter.predicted, "± 2 std. dev. of\nsingle runs, theory"
        panels.fill_band(axes, t, curves[0][0], half, COLORS[0], alpha=0.2, label=label, positive=True)
    for i, run in enumerate(gap.runs[:SINGLE_RUNS] if many and not several else ()):
        axes.plot(t, run, color=FAINT, linewidth=0.5, alpha=0.5, label="single runs" if i == 0 else None)
    for task, (theory, mean, error) in enumerate(zip(*curves, strict=True)):
        named = f"task {task + 1}, theory", f"task {task + 1}, runs"
        line, marks = named if several else ("theory", "mean of runs" if many else "run")
        place, label = task if several else 1, "± 2 std. errors" if many and not several else None
        axes.plot(t, mean, color=color_at(place), linewidth=0.9, alpha=0.9)
        panels.fill_band(axes, t, mean, 2 * error, color_at(place), alpha=0.35, label=label, positive=True)
        axes.plot(t, theory, color=color_at(task), linewidth=1.8, label=line)
        every = panels.spread_marks(t, task, len(curves[0]), 2 * MARKS)
        axes.plot(t, mean, **panels.plain_dots(place, 4.2), markevery=every, zorder=3, label=marks)
    panels.scale_error(axes, np.concatenate([gap.theory[None], gap.runs]), text.error_label(comparison.theory))
    escape = comparison.escape
    if escape is not None and escape.by_noise:
        at = np.full(escape.escaped.size, escape.threshold)
        axes.plot(escape.escaped, at, "|", color=INK, markersize=9, markeredgewidth=1.0, label="runs escape")
        if np.isfinite(escape.theory):
            axes.plot([escape.theory], [escape.threshold], "D", color=COLORS[0], markersize=5.5, label="theory escapes")


def _compare_overlaps(axes: Axes, t: np.ndarray, name: str, comparison: Any) -> None:
    """The entries of one variable: theory as lines, the mean over runs as marks, and as bands where entries are few."""
    gap, problem = comparison.gaps[name], comparison.theory.problem
    theory, runs = (lines_of(name, x, problem) for x in (gap.theory[None], gap.runs))
    few = len(theory) <= NAMED
    for i, ((line, look, label), cloud) in enumerate(zip(with_looks(theory), runs, strict=True)):
        mean, count = cloud.values.mean(axis=0), len(cloud.values)
        if few and count > 1:
            panels.fill_band(axes, t, mean, 2 * cloud.values.std(axis=0, ddof=1) / np.sqrt(count), look["color"])
        marks: Look = {"marker": stroke(line.unit)["marker"], "markerfacecolor": "white"} if few else {"marker": "."}
        marks |= {"markersize": 3.8, "markevery": panels.spread_marks(t, i, len(theory), MARKS), "zorder": 3}
        axes.plot(t, mean, color=look["color"], linestyle="none", **marks)
        axes.plot(t, line.values[0], label=label, **look)[0].set_marker("")
    panels.scale_overlaps(axes, gap.theory, text.quantity_label(name, problem))


def _draw_scores(axes: Axes, t: np.ndarray, comparison: Any) -> None:
    """The largest |z| among the entries of each quantity, and which times are not counted."""
    largest = 0.0
    for i, (name, gap) in enumerate(comparison.gaps.items()):
        worst, count = np.max(np.abs(gap.entries(gap.z)), axis=1), len(gap.labels())
        largest = max(largest, float(np.max(worst, initial=0.0)))
        axes.plot(t, worst, label=f"{name}, worst of {count}" if count > 1 else name, **line_look(i, 1.2))
    axes.axhline(LIMIT, color=ALARM, linewidth=1.0, linestyle=(0, (2, 2)), label=f"|z| = {LIMIT:g}")
    left_out = comparison.times[~comparison.verdict.counted]
    if left_out.size:
        panels.shade(axes, float(left_out[0]), float(left_out[-1]), FAINT, "not counted", 0.18)
    axes.set(ylabel="z-score\nof the gap, |z|", yscale="log" if largest > MANY else "linear")
    axes.set_ylim((0.1, 60.0) if largest > MANY else (0.0, max(5.0, 1.15 * largest)))


@figure_of("what fluctuations returned", "theory", "sd", "dim", "scaled")
def plot_fluctuations(result: Any, *, title: str | None = None) -> Figure:
    """Draw error and order parameters with bands of two standard deviations, and below them sd(e_g) / e_g."""
    theory, t = result.theory, np.asarray(result.times)
    error, sd = np.asarray(theory.error), result.sd("error")
    names = ["R", "Q", *(n for n in ("readout", "bias") if n in theory.variables and np.max(result.sd(n)) > 0)]
    grid = column([2.4, *[1.9] * len(names), 1.4], title)
    panels.fill_band(grid[0], t, error, 2 * sd, COLORS[0], alpha=0.22, label="± 2 std. deviations", positive=True)
    grid[0].plot(t, error, color=COLORS[0], linewidth=1.8, label=r"theory, $N \to \infty$")
    panels.scale_error(grid[0], error, text.error_label(theory))
    for axes, name in zip(grid[1:], names, strict=False):
        lines, widths = (lines_of(name, values[None]) for values in (np.asarray(theory[name]), result.sd(name)))
        draw_lines(axes, t, lines, text.quantity_label(name))
        pale = 0.22 if len(lines) <= len(COLORS) // 2 else 0.12  # bands of few curves, and of many that overlap
        for line, width, curve in zip(lines, widths, axes.lines, strict=True):
            panels.fill_band(axes, t, line.values[0], 2 * width.values[0], str(curve.get_color()), alpha=pale)
    grid[-1].plot(t, sd / np.maximum(error, 1e-300), color=COLORS[0], linewidth=1.4)
    grid[-1].set_ylabel("relative scatter\n" + r"sd$(\epsilon_g)\,/\,\epsilon_g$")
    grid[-1].set_ylim(bottom=0.0)
    panels.scale_time(grid[0], t)
    who, how = text.problem_in_words(theory.problem)
    small, doubts = f"{how}; scatter of single networks with $N={result.dim}$", map(text.capital, result.doubts())
    return finish(grid, text.time_label(theory), title, who, small, list(doubts), alarm=True)


@figure_of("what step_moments returned", "drift", "diffusion", "names")
def plot_step_moments(result: Any, *, title: str | None = None) -> Figure:
    """Draw what `step_moments` measured against theory: on the diagonal, theory and network agree."""
    who, how = text.problem_in_words(result.problem)
    step = f"one step of {result.samples} networks with N = {result.dim}, {result.inputs} inputs"
    heading = title or f"{who}: network and theory {'agree' if result.agrees else 'differ'}"
    figure, ((left, right),) = panels.panel_grid(1, 2, heading, f"{how}; {step}; bars: 2 std. errors", height=3.8)
    letters = np.array([name[0].upper() for name in result.names])
    bars: Look = {"fmt": "o", "markersize": 4.2, "markerfacecolor": "white", "capsize": 2.0, "linewidth": 1.0}
    for i, letter in enumerate(dict.fromkeys(letters.tolist())):
        theory, measured, error = (x[letters == letter] for x in (result.drift_theory, result.drift, result.drift_error))
        left.errorbar(theory, measured, 2 * error, color=COLORS[i], label=KINDS[letter], **bars)
    upper = np.triu_indices(len(letters))
    theory, measured, error = (x[upper] for x in (result.diffusion_theory, result.diffusion, result.diffusion_error))
    right.errorbar(theory, measured, 2 * error, color=COLORS[0], **bars)
    left.set(xlabel=r"drift $f(u)$, theory", ylabel=r"$N\,E[\Delta u]$, measured")
    right.set(xlabel=r"diffusion $D(u)$, theory", ylabel=r"$N^2\,\mathrm{Cov}(\Delta u)$, measured")
    for axes in (left, right):
        axes.plot(axes.get_xlim(), axes.get_xlim(), color=FAINT, linewidth=1.0, zorder=0)
    left.legend(loc="upper left")
    return figure


# Data: the spectra and means that the theory uses, and SGD on the samples next to the theory


@figure_of("what from_data returned", "spectrum", "means", "variances")
def plot_data(result: Any, *, title: str | None = None) -> Figure:
    """Draw the variances that the theory uses along each direction, and where the class means or the teacher lie."""
    classes, mean = result.classes, result.probabilities @ result.variances
    along = result.teacher_weights if classes is None else result.means
    grid = column([2.6] if along is None else [2.6, 1.8], title)
    ranks, look = np.arange(1, result.dim + 1), {"linewidth": 1.2, "drawstyle": "steps-mid"}
    for i, name in enumerate(classes if classes is not None and len(classes) <= DRAWN_CLASSES else ()):
        grid[0].plot(ranks, result.variances[i], color=color_at(i), label=f"class {name}", **look)
    grid[0].plot(ranks, mean, color=INK, label="covariance" if classes is None else "mean over classes", **look)
    grid[0].set(xscale="log", yscale="log", ylabel=r"variance $\lambda$")
    if along is not None:
        share = np.cumsum(np.sum(along**2, axis=0)) / np.sum(along**2)
        grid[1].plot(ranks, share, color=COLORS[1], label="class means" if classes is not None else "teacher")
        grid[1].plot(ranks, np.cumsum(mean) / result.dim, color=COLORS[0], linestyle=DASHES[1], label="variance")
        grid[1].set(xscale="log", ylabel="share up to this direction", ylim=(0.0, 1.05))
    size, outcome = str(result).splitlines()[:2]
    return finish(grid, "direction, by variance", title, "What the theory uses of these data", size, text.capital(outcome))


@figure_of("what Data.compare returned", "theory", "error", "causes", "data")
def plot_data_comparison(result: Any, *, title: str | None = None) -> Figure:
    """Draw the error of SGD on each law of samples next to the theory; below, the gap and its causes.

    Bands are two standard errors of the mean over runs to either side.
    """
    above, below = column([2.8, 2.2], title)
    times, theory, (gap, gap_error) = result.times, np.asarray(result.theory.error), result.gap()
    above.plot(result.theory.times, theory, color=INK, linewidth=2.0, label="theory")
    for (law, values), (cause, (part, spread)) in zip(result.error.items(), result.causes().items(), strict=True):
        mean, color = values.mean(axis=0), COLORS[LAWS[law]]
        panels.fill_band(above, times, mean, 2 * values.std(axis=0, ddof=1) / np.sqrt(len(values)), color)
        above.plot(times, mean, label=f"SGD: {law}", **panels.plain_dots(LAWS[law], 3.8))
        below.errorbar(times, part, 2 * spread, color=color, linewidth=1.2, label=cause)
    below.plot(times, gap, color=INK, linewidth=2.0, label="gap, their sum")
    below.axhline(0.0, color=FAINT, linewidth=0.8)
    below.set_ylabel("part of the gap")
    errors = np.concatenate([theory, result.error["samples"].mean(axis=0)])
    panels.scale_error(above, errors, text.error_label(result.theory))
    panels.scale_time(below, times)
    outcome = f"Gap at the end: {gap[-1]:.3g} ± {gap_error[-1]:.1g}, or {gap[-1] / theory[-1]:.0%} of the theory"
    return finish([above, below], text.TIME, title, *text.problem_in_words(result.theory.problem), outcome)
