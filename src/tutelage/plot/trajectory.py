"""Figures of theory and networks: curves, overlaps, comparisons, fluctuations, data.

A figure of curves has the learning curve above and one panel for each kind of quantity
below. Few lines (up to `NAMED_LINES`) are named one by one; more share a look by
student unit; many share one color.
"""

from __future__ import annotations

import textwrap
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
from tutelage.plot.style import (
    ALARM,
    COLORS,
    DASHES,
    FAINT,
    INK,
    Look,
    color_at,
    line_look,
    stroke,
)

if TYPE_CHECKING:
    from tutelage.problem import Problem
    from tutelage.result.trajectory import Trajectory

SINGLE_RUNS = 40  # drawn thin behind their mean
NAMED_LINES = 9  # lines of a panel that are named one by one
MARKS = 8  # marks of the runs' mean on each curve of the overlaps
DOTTED = (0, (2, 2))

# The variables that this module knows, with their possible numbers of axes beside time.
VARIABLES = {"R": (2,), "Q": (2,), "readout": (1, 2), "bias": (1,)}
LETTERS = {"readout": "v", "bias": "b"}

# The kinds of order parameters of a single step, by the first letter of their name.
KINDS = {
    "R": "overlaps with teachers",
    "Q": "overlaps of student units",
    "V": "readouts",
    "B": "biases",
}

# The laws of samples that Data.compare trains on, with the places of their colors.
LAWS = {"theory's law": 1, "full covariances": 2, "samples": 0}

# Color and line of each floor under a learning curve, by its name.
FLOOR_LOOKS = {
    "minimum": (COLORS[2], DASHES[2]),
    "bayes": (COLORS[3], "-"),
    "noise": (FAINT, DASHES[1]),
}

FLOOR_NAME = 24  # characters per line of its name in the legend

LIMIT = 4.0  # the z-score at which a line is drawn
LARGE_SCORE = 12.0  # beyond it the axis of the z-scores is logarithmic
NUMBERED = 8  # rows or columns of a heat map up to which its cells have numbers
NAMED_ROWS = 16  # rows or columns of a heat map up to which they have names
DRAWN_CLASSES = 10  # classes that are drawn one by one


class Line(NamedTuple):
    """A line of a panel.

    values: (run, time). unit, partner: see `style.stroke`. group: the name that it
    shares with other lines where lines are too many to name.
    """

    values: np.ndarray
    label: str
    unit: int
    partner: int = 0
    group: str = ""


@figure_of("a Trajectory", "times", "variables", "error", "status")
def plot_trajectory(
    trajectory: Trajectory,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    time: str = "alpha",
    floors: Any = None,
) -> Figure:
    """Draw error, overlaps and trained readouts against time.

    The error axis is logarithmic if the error spans more than a decade and a half, the
    time axis if the recorded times are evenly spaced in the logarithm. Several runs are
    drawn thin with their mean. The title says if a run diverged or stopped.

    Parameters
    ----------
    trajectory
        What `solve`, `simulate` or `load` returns, also for custom `Equations`.
    ax
        Matplotlib axes: draw only the learning curve into them.
    title
        Replaces the problem in words; "" leaves the head out.
    time
        "alpha", "steps" (alpha N) or "samples" (steps times batch). The last two need
        the N of a simulation or of the initial condition.
    floors
        What `analysis.floors` returns: drawn under the learning curve.

    Returns
    -------
    A Matplotlib figure (see `save_figure`), or `ax` if it was given.
    """
    unit = _unit_of_time(trajectory, time)
    times = unit * np.atleast_2d(trajectory.times)[0]
    if times.size == 0:
        raise InputError(
            "this trajectory has no recorded times; there is nothing to draw."
        )
    lines_by_panel = {}
    if ax is None:
        lines_by_panel = _panel_of_losses(trajectory) | panels_of(trajectory)
    grid = column([2.3] + [1.75] * len(lines_by_panel), title, width=7.0, ax=ax)
    _draw_errors(grid[0], times, trajectory)
    if floors is not None:
        _draw_floors(grid[0], floors, unit)
    for axes, (label, lines) in zip(grid[1:], lines_by_panel.items(), strict=True):
        draw_lines(axes, times, lines, label)
    for axes in grid:
        mark_switches(axes, trajectory, unit)
        if not trajectory.finished:
            _mark_ends(axes, trajectory, unit)
    panels.scale_time(grid[0], times)

    heading, conditions = text.title_and_conditions(trajectory)
    if trajectory.problem is None:
        conditions = f"variables {', '.join(trajectory.variables)}"
    small = ", ".join([conditions, *text.settings_in_words(trajectory)])
    return finish(
        grid,
        text.time_label(trajectory, time),
        title,
        heading,
        small,
        outcome=_how_it_ended(trajectory),
        alarm=True,
    )


def _how_it_ended(trajectory: Trajectory) -> str:
    """A sentence about a solve or run that did not finish; otherwise ""."""
    if trajectory.finished:
        return ""
    if trajectory.kind == "simulation":
        return f"The run {trajectory.status}"
    return f"The solve {trajectory.status}"


def _unit_of_time(trajectory: Trajectory, time: str) -> float:
    """Return the length of a unit of alpha on the time axis."""
    from tutelage import checks

    checks.known("time", time, text.TIMES)
    if time == "alpha":
        return 1.0
    if trajectory.dim is None or trajectory.problem is None:
        raise InputError(
            f"time is {time!r}, and this trajectory has no N or no problem; "
            "give the initial condition a dim, such as asymmetric_start(problem, "
            "dim=1000), or use time='alpha'."
        )
    if time == "steps":
        return float(trajectory.dim)
    return float(trajectory.dim * trajectory.problem.samples_per_step)


def _mark_ends(axes: Axes, trajectory: Trajectory, unit: float) -> None:
    """Draw a vertical line at each time at which a solve or a run ended."""
    for end in unit * np.unique(trajectory.end_time):
        axes.axvline(float(end), color=ALARM, linewidth=1.0, linestyle=DOTTED)


def _draw_errors(axes: Axes, times: np.ndarray, trajectory: Trajectory) -> None:
    """Draw one learning curve, or one for each task.

    Of several runs it is the mean, with single runs thin behind it.
    """
    errors = np.asarray(trajectory.error, dtype=float)
    several_tasks = getattr(trajectory, "tasks", None) is not None
    if not several_tasks:
        errors = errors[..., None]
    errors = errors.reshape(-1, *errors.shape[-2:])  # (run, time, task)
    errors_of_tasks = np.moveaxis(errors, -1, 0)  # (task, run, time)

    # The user's axes may contain another trajectory, which has the first color.
    first_color = 0
    if axes.lines:
        first_color = 1
    if len(errors) > 1:
        single_runs = np.concatenate(errors_of_tasks[:, :SINGLE_RUNS])
        axes.plot(times, single_runs.T, color=FAINT, linewidth=0.6, alpha=0.6)
    beside_error = [o for o in trajectory.observables if o.panel == "error"]
    marker = None
    if times.size == 1:  # a line through one point is invisible
        marker = "o"
    for task, mean in enumerate(errors_of_tasks.mean(axis=1)):
        label = None
        if len(errors_of_tasks) > 1:
            label = f"task {task + 1}"
        elif beside_error:
            label = "error on fresh samples"
        color = color_at(task + first_color)
        axes.plot(times, mean, label=label, color=color, linewidth=2.0, marker=marker)
    for observable in beside_error:
        values = np.asarray(trajectory[observable.name]).reshape(-1, times.size)
        look = {"color": color_at(first_color), "linestyle": "--", "marker": marker}
        mean = values.mean(axis=0)
        axes.plot(times, mean, label=observable.words, linewidth=1.5, **look)
        errors = np.concatenate([errors, values[..., None]])
    panels.scale_error(axes, errors, text.error_label(trajectory))


def _draw_floors(axes: Axes, floors: Any, unit: float) -> None:
    """Draw the floors under a learning curve, each with a look of its own.

    unit: the length of a unit of alpha on the time axis.
    """
    is_log = axes.get_yscale() == "log"
    curve = axes.lines[-1]
    if str(curve.get_label()).startswith("_"):  # Matplotlib's sign for no name
        curve.set_label("learning curve")
    for floor in floors.curves:
        curves = {floor.words: floor.error}
        if floor.train_error is not None and floors.trajectory.problem.data is not None:
            curves["its training error"] = floor.train_error
        for place, (words, values) in enumerate(curves.items()):
            label = words
            if is_log and not np.any(values > 0):
                label = f"{words}: zero"
            label = textwrap.fill(label, FLOOR_NAME)
            color, dashes = FLOOR_LOOKS[floor.name]
            axes.plot(
                unit * floor.times,
                values,
                color=color,
                linestyle=dashes,
                linewidth=1.6 - 0.7 * place,
                label=label,
            )


def _panel_of_losses(trajectory: Any) -> dict[str, list[Line]]:
    """The panel of losses, if the theory records one besides that of fresh samples."""
    chosen = _observables_in("loss", trajectory)
    if not chosen:
        return {}
    names = {"loss": "loss"} | {o.name: o.words for o in chosen}
    lines = []
    for place, (name, words) in enumerate(names.items()):
        values = _by_run(trajectory, name)
        lines.append(Line(values=values, label=words, unit=place, partner=place))
    return {"loss": lines}


def _observables_in(panel: str, trajectory: Any) -> list[Any]:
    """The curves of the theory that are drawn in a panel."""
    observables = getattr(trajectory, "observables", ())
    return [observable for observable in observables if observable.panel == panel]


def _by_run(trajectory: Any, name: str) -> np.ndarray:
    """A curve as (run, time); a solve counts as one run."""
    values = np.asarray(getattr(trajectory, name), dtype=float)
    return values.reshape(-1, values.shape[-1])


def mark_switches(axes: Axes, trajectory: Any, unit: float = 1.0) -> None:
    """Mark the times at which probabilities of tasks jump or a head stops to learn.

    unit: the length of a unit of alpha on the time axis.
    """
    tasks = getattr(trajectory.problem, "several_tasks", None)
    if tasks is None or callable(tasks.schedule):
        return
    end = np.max(trajectory.times)
    switches = tasks.switches(end)
    if switches is None:
        return
    for time in np.unique(np.asarray(switches)):
        if time < end:
            panels.mark_time(axes, unit * float(time))


def panels_of(curve: Any) -> dict[str, list[Line]]:
    """The lines of each panel by its name.

    There is a panel for each of R, Q, and readouts and biases that are trained; custom
    equations have panels of their own variables.
    """
    runs = _variables_by_run(curve)
    known = [
        name
        for name, axis_counts in VARIABLES.items()
        if name in runs and runs[name].ndim - 2 in axis_counts
    ]
    if not known or curve.kind == "equations":
        return _panels_of_custom_variables(runs)
    lines_by_panel = {}
    for name in known:
        # A readout or bias that is not trained stays constant.
        if name in ("R", "Q") or np.ptp(runs[name], axis=1).max() > 1e-12:
            label = text.quantity_label(name, curve.problem)
            lines_by_panel[label] = lines_of(name, runs[name], curve.problem)
    return lines_by_panel


def _variables_by_run(curve: Any) -> dict[str, np.ndarray]:
    """The variables as (run, time, ...); a solve counts as one run."""
    axes_after_lead = 1  # time
    if getattr(curve, "tasks", None) is not None:
        axes_after_lead = 2  # time, task
    lead = np.ndim(curve.error) - axes_after_lead
    runs = {}
    for name, value in curve.variables.items():
        array = np.asarray(value, dtype=float)
        runs[name] = array.reshape(-1, *array.shape[lead:])
    return runs


def _panels_of_custom_variables(runs: dict[str, np.ndarray]) -> dict[str, list[Line]]:
    """One panel for all scalars together, and one for each array."""
    scalars = []
    panels_of_arrays = {}
    for name, values in runs.items():
        if values.ndim == 2:
            place = len(scalars)
            scalars.append(Line(values=values, label=name, unit=place, partner=place))
        else:
            panels_of_arrays[name] = lines_of(name, values)
    if not scalars:
        return panels_of_arrays
    names = ", ".join(line.label for line in scalars)
    return {names: scalars} | panels_of_arrays


def lines_of(
    name: str, values: np.ndarray, problem: Problem | None = None
) -> list[Line]:
    """The lines of one variable, (run, time, ...).

    The color follows from the first index (the unit), the dashes from the last. Lines
    of R name the task of their column, or whether it is a teacher unit or a mean.
    """
    if values.ndim == 2:
        return [Line(values=values, label=name, unit=0)]
    if name == "Q" and values.ndim == 4:
        return _norms_and_pairs(values)
    if name == "readout" and values.ndim == 4 and _has_separate_heads(problem):
        return _lines_of_heads(values)
    shape = values.shape[2:]
    suffixes = [""] * shape[-1]
    if name == "R":
        suffixes = _suffixes_of_columns(problem, shape[-1])
    lines = []
    for index in np.ndindex(shape):
        line = Line(
            values=values[(..., *index)],
            label=_symbol(name, index, max(shape)) + suffixes[index[-1]],
            unit=index[0],
            partner=index[-1],
            group=f"unit {index[0] + 1}",
        )
        lines.append(line)
    return lines


def _has_separate_heads(problem: Problem | None) -> bool:
    teacher = getattr(problem, "teacher", None)
    return getattr(teacher, "heads", "") == "separate"


def _suffixes_of_columns(problem: Problem | None, count: int) -> list[str]:
    """The task of each column of R, or whether it is a teacher unit or a mean.

    There is no need for it if all columns are of one kind.
    """
    kind, columns = text.columns_of_R(problem, count)
    if kind in ("teacher", "mean"):
        return [""] * count
    if kind == "":  # the labels contain the kind
        return [f", {label}" for label in columns]
    return [f", task {label}" for label in columns]


def _symbol(name: str, index: Sequence[int], count: int) -> str:
    """A variable with its indices, which are all below `count`: "$R_{12}$"."""
    subscript = text.joined_numbers(index, count)
    letter = LETTERS.get(name, name)
    if len(letter) == 1:
        return f"${letter}_{{{subscript}}}$"
    return f"{letter} {subscript}"


def _lines_of_heads(values: np.ndarray) -> list[Line]:
    """The readouts of separate heads, (run, time, task, unit)."""
    tasks, units = values.shape[2:]
    lines = []
    for unit in range(units):
        symbol = _symbol("readout", (unit,), max(tasks, units))
        for task in range(tasks):
            line = Line(
                values=values[:, :, task, unit],
                label=f"{symbol}, task {task + 1}",
                unit=unit,
                partner=task,
                group=f"unit {unit + 1}",
            )
            lines.append(line)
    return lines


def _norms_and_pairs(Q: np.ndarray) -> list[Line]:
    """The norms as solid lines, then the overlaps between different units, dashed.

    Each pair of units occurs once. Q: (run, time, unit, unit).
    """
    units = Q.shape[-1]
    norms = []
    pairs = []
    for k in range(units):
        norm = Line(
            values=Q[..., k, k],
            label=_symbol("Q", (k, k), units),
            unit=k,
            group="norms $Q_{kk}$",
        )
        norms.append(norm)
        for l in range(k + 1, units):
            count = len(pairs)
            pair = Line(
                values=Q[..., k, l],
                label=_symbol("Q", (k, l), units),
                unit=units + count,
                partner=1 + count % (len(DASHES) - 1),  # DASHES[0] is solid
                group="pairs $Q_{kl}$",
            )
            pairs.append(pair)
    return norms + pairs


def draw_lines(axes: Axes, times: np.ndarray, lines: list[Line], label: str) -> None:
    """Draw all lines (the mean over several runs), with their name and scale."""
    for place, (line, look, name) in enumerate(with_looks(lines)):
        marks: Look = {}
        if "marker" in look:
            marks = {"markevery": panels.spread_marks(times, place, len(lines))}
        mean = np.mean(line.values, axis=0)
        axes.plot(times, mean, label=name, **look, **marks)
    panels.scale_overlaps(axes, np.stack([line.values for line in lines]), label)


def with_looks(lines: list[Line]) -> Iterator[tuple[Line, Look, str]]:
    """Each line with its properties and its label.

    A label that begins with "_" does not enter the legend.
    """
    if len(lines) <= NAMED_LINES:
        for line in lines:
            yield line, stroke(line.unit, line.partner), line.label
        return
    groups = list(dict.fromkeys(line.group for line in lines))
    if len(groups) > len(COLORS):
        for line in lines:
            look: Look = {"color": FAINT, "linewidth": 0.7, "alpha": 0.7}
            yield line, look, f"_{line.label}"
        return
    named = set()
    for line in lines:
        label = f"_{line.label}"
        if line.group not in named:
            label = line.group
        named.add(line.group)
        look = line_look(groups.index(line.group), width=1.0) | {"alpha": 0.8}
        yield line, look, label


@figure_of("a Trajectory", "times", "variables", "error")
def plot_overlaps(
    trajectory: Trajectory,
    time: float | None = None,
    *,
    run: int = 0,
    title: str | None = None,
) -> Figure:
    """Draw R and Q at one time as heat maps.

    The columns of R are teacher units, units of tasks, or means of a mixture.

    Parameters
    ----------
    time
        The nearest recorded time is drawn. Default: the last.
    run
        The run of a simulation, counted from 0.
    """
    if "R" not in trajectory.variables:
        raise InputError(
            "this trajectory has no overlaps R and Q; plot_overlaps needs one of a "
            "Problem."
        )
    R = np.asarray(trajectory.variables["R"], dtype=float)
    Q = np.asarray(trajectory.variables["Q"], dtype=float)
    if R.ndim == 4:
        if not 0 <= run < len(R):
            last_run = len(R) - 1
            raise InputError(f"run is {run}; this trajectory has runs 0 to {last_run}.")
        R = R[run]
        Q = Q[run]
    times = np.asarray(trajectory.times, dtype=float)
    place = times.size - 1
    if time is not None:
        place = int(np.argmin(np.abs(times - float(time))))

    heading, conditions = text.title_and_conditions(trajectory)
    if title is not None:
        heading = title
    small = rf"at $\alpha={times[place]:g}$"
    if conditions:
        small = f"{conditions}, {small}"
    if title == "":
        small = ""
    units, columns = R.shape[1:]
    figure, (pair,) = panels.panel_grid(
        1,
        2,
        heading,
        small,
        height=1.0 + 0.45 * units,
        width_ratios=[columns, units],
    )
    image = draw_overlaps(pair, R[place], Q[place], trajectory.problem)
    figure.colorbar(image, ax=list(pair), shrink=0.8)
    return figure


def draw_overlaps(
    pair: Sequence[Axes], R: np.ndarray, Q: np.ndarray, problem: Problem | None
) -> AxesImage:
    """Draw heat maps of R and Q in two panels, with one range of colors.

    A line separates the units of two tasks.
    """
    left, right = pair
    largest_R = float(np.max(np.abs(R)))
    largest_Q = float(np.max(np.abs(Q)))
    bound = max(largest_R, largest_Q, 1e-12)
    kind, columns = text.columns_of_R(problem, R.shape[1])
    students = [str(k + 1) for k in range(len(Q))]
    heat_map(left, R, students, columns, low=-bound)
    image = heat_map(right, Q, students, students, low=-bound)
    for axes, name in ((left, "R"), (right, "Q")):
        label = text.quantity_label(name, problem)
        panels.label_panel(axes, label.replace("\n", " "))
    xlabel = kind
    if kind == "teacher":
        xlabel = "teacher unit"
    left.set(xlabel=xlabel, ylabel="student unit")
    right.set_xlabel("student unit")
    if kind.startswith("task"):
        _separate_tasks(left, columns)
    return image


def _separate_tasks(axes: Axes, columns: Sequence[str]) -> None:
    """Draw a line between columns, "task.unit" or "task", of two tasks."""
    tasks = [label.split(".")[0] for label in columns]
    for place, (task, next_task) in enumerate(pairwise(tasks)):
        if task != next_task:
            axes.axvline(place + 0.5, color=INK, linewidth=1.6)


def heat_map(
    axes: Axes,
    values: np.ndarray,
    rows: list[str],
    columns: list[str],
    low: float = 0.0,
) -> AxesImage:
    """Draw a heat map with the names of few rows and columns.

    Its cells have numbers where they fit. low: the end of the colors, which run from
    low to -low; 0 for shares, which run from 0 to 1.
    """
    high = 1.0
    colormap = "Blues"
    if low < 0:
        high = -low
        colormap = "RdBu_r"
    image = axes.imshow(values, vmin=low, vmax=high, cmap=colormap, aspect="auto")
    for set_ticks, names in ((axes.set_xticks, columns), (axes.set_yticks, rows)):
        shown_names = names
        if len(names) > NAMED_ROWS:
            shown_names = []
        set_ticks(range(len(shown_names)), shown_names)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    if max(values.shape) <= NUMBERED:
        _write_numbers(axes, values, low, high)
    return image


def _write_numbers(axes: Axes, values: np.ndarray, low: float, high: float) -> None:
    """Write the number of each cell into it."""
    for (row, place), value in np.ndenumerate(values):
        number = f"{value:.2f}"
        if low < 0:
            rounded = np.round(value, 3) + 0.0  # the sum turns -0.0 into 0.0
            number = f"{rounded:.3f}"
        color = INK
        if abs(value) > 0.6 * high:  # a dark cell
            color = "white"
        axes.text(
            place, row, number, ha="center", va="center", color=color, fontsize=8.0
        )


# Theory and runs


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


@figure_of("what fluctuations returned", "theory", "sd", "dim", "scaled")
def plot_fluctuations(result: Any, *, title: str | None = None) -> Figure:
    """Draw error and order parameters with bands of two standard deviations.

    Below them is the relative scatter of the error, sd(e_g) / e_g.
    """
    theory = result.theory
    times = np.asarray(result.times)
    names = ["R", "Q"]
    for name in ("readout", "bias"):
        if name in theory.variables and np.max(result.sd(name)) > 0:
            names.append(name)
    grid = column([2.4, *[1.9] * len(names), 1.4], title)
    _draw_error_band(grid[0], times, result)
    for axes, name in zip(grid[1:], names, strict=False):
        _draw_lines_with_bands(axes, times, name, result)
    _draw_relative_scatter(grid[-1], times, result)
    panels.scale_time(grid[0], times)
    heading, conditions = text.problem_in_words(theory.problem)
    return finish(
        grid,
        text.time_label(theory),
        title,
        heading,
        f"{conditions}; scatter of single networks with $N={result.dim}$",
        outcome=[text.capital(doubt) for doubt in result.doubts()],
        alarm=True,
    )


def _draw_error_band(axes: Axes, times: np.ndarray, result: Any) -> None:
    """Draw the learning curve with a band of two standard deviations."""
    error = np.asarray(result.theory.error)
    panels.fill_band(
        axes,
        times,
        error,
        2 * result.sd("error"),
        COLORS[0],
        alpha=0.22,
        label="± 2 std. deviations",
        positive=True,
    )
    label = r"theory, $N \to \infty$"
    axes.plot(times, error, color=COLORS[0], linewidth=1.8, label=label)
    panels.scale_error(axes, error, text.error_label(result.theory))


def _draw_lines_with_bands(
    axes: Axes, times: np.ndarray, name: str, result: Any
) -> None:
    """Draw one variable with bands of two standard deviations."""
    values = np.asarray(result.theory[name])
    lines = lines_of(name, values[None])
    deviations = lines_of(name, result.sd(name)[None])
    draw_lines(axes, times, lines, text.quantity_label(name))
    alpha = 0.22
    if len(lines) > len(COLORS) // 2:  # many bands overlap
        alpha = 0.12
    for line, deviation, curve in zip(lines, deviations, axes.lines, strict=True):
        middle = line.values[0]
        half = 2 * deviation.values[0]
        color = str(curve.get_color())
        panels.fill_band(axes, times, middle, half, color, alpha=alpha)


def _draw_relative_scatter(axes: Axes, times: np.ndarray, result: Any) -> None:
    """Draw sd(e_g) / e_g."""
    error = np.asarray(result.theory.error)
    relative_scatter = result.sd("error") / np.maximum(error, 1e-300)
    axes.plot(times, relative_scatter, color=COLORS[0], linewidth=1.4)
    axes.set_ylabel("relative scatter\n" + r"sd$(\epsilon_g)\,/\,\epsilon_g$")
    axes.set_ylim(bottom=0.0)


@figure_of("what step_moments returned", "drift", "diffusion", "names")
def plot_step_moments(result: Any, *, title: str | None = None) -> Figure:
    """Draw what `step_moments` measured against theory.

    On the diagonal, theory and network agree.
    """
    problem, conditions = text.problem_in_words(result.problem)
    outcome = "differ"
    if result.agrees:
        outcome = "agree"
    heading = title or f"{problem}: network and theory {outcome}"
    networks = f"one step of {result.samples} networks with N = {result.dim}"
    small = f"{conditions}; {networks}, {result.inputs} inputs; bars: 2 std. errors"
    figure, ((left, right),) = panels.panel_grid(1, 2, heading, small, height=3.8)
    _draw_measured_drift(left, result)
    _draw_measured_diffusion(right, result)
    for axes in (left, right):
        diagonal = axes.get_xlim()
        axes.plot(diagonal, diagonal, color=FAINT, linewidth=1.0, zorder=0)
    left.legend(loc="upper left")
    return figure


def _draw_measured_drift(axes: Axes, result: Any) -> None:
    """Draw the drift of each order parameter, with one color for each kind."""
    letters = np.array([name[0].upper() for name in result.names])
    for place, letter in enumerate(dict.fromkeys(letters.tolist())):
        of_kind = letters == letter
        _draw_measured(
            axes,
            result.drift_theory[of_kind],
            result.drift[of_kind],
            result.drift_error[of_kind],
            color=COLORS[place],
            label=KINDS[letter],
        )
    axes.set(xlabel=r"drift $f(u)$, theory", ylabel=r"$N\,E[\Delta u]$, measured")


def _draw_measured_diffusion(axes: Axes, result: Any) -> None:
    """Draw the entries of the symmetric diffusion matrix, each once."""
    upper_triangle = np.triu_indices(len(result.names))
    _draw_measured(
        axes,
        result.diffusion_theory[upper_triangle],
        result.diffusion[upper_triangle],
        result.diffusion_error[upper_triangle],
        color=COLORS[0],
    )
    axes.set_xlabel(r"diffusion $D(u)$, theory")
    axes.set_ylabel(r"$N^2\,\mathrm{Cov}(\Delta u)$, measured")


def _draw_measured(
    axes: Axes,
    theory: np.ndarray,
    measured: np.ndarray,
    standard_error: np.ndarray,
    *,
    color: str,
    label: str | None = None,
) -> None:
    """Draw measured values against theory, with bars of two standard errors."""
    axes.errorbar(
        theory,
        measured,
        2 * standard_error,
        fmt="o",
        color=color,
        label=label,
        markersize=4.2,
        markerfacecolor="white",
        capsize=2.0,
        linewidth=1.0,
    )


# Data: the spectra and means that the theory uses, and SGD on the samples next to the
# theory


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
