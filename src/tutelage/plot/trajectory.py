"""The figure of a solve or of runs: learning curve above, order parameters below.

A figure of curves has the learning curve above and one panel for each kind of quantity
below.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.errors import InputError
from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.lines import Line, draw_lines, lines_of
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import ALARM, COLORS, DASHES, DOTTED, FAINT, color_at

if TYPE_CHECKING:
    from tutelage.result.trajectory import Trajectory

SINGLE_RUNS = 40  # drawn thin behind their mean

# The variables that this module knows, with their possible numbers of axes beside time.
VARIABLES = {"R": (2,), "Q": (2,), "readout": (1, 2), "bias": (1,)}

# Color and line of each floor under a learning curve, by its name.
FLOOR_LOOKS = {
    "minimum": (COLORS[2], DASHES[2]),
    "bayes": (COLORS[3], "-"),
    "noise": (FAINT, DASHES[1]),
}
FLOOR_NAME = 24  # characters per line of its name in the legend


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
