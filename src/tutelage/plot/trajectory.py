"""The standard figure of a trajectory: the learning curve above, what the network has learned below, one time axis."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError, require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import error_label, time_label
from tutelage.plot.panels import Panel, draw_panel, panels_of
from tutelage.plot.scales import is_log_spaced, scale_error, scale_overlaps
from tutelage.plot.style import ALARM, COLORS, FAINT, style
from tutelage.plot.words import problem_in_words, settings_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, CURVE_HEIGHT, PANEL_HEIGHT, TITLE_HEIGHT = 7.0, 2.3, 1.75, 0.9
THIN_RUNS = 40  # single runs drawn behind their mean


def plot_trajectory(trajectory: Any, *, title: str | None = None) -> "Figure":
    """Error, overlaps and trained readouts against time, as a Matplotlib figure (see `save_figure`).

    Takes what `solve`, `simulate` and `load` return, also for a user's own `Equations`. The error is drawn on a
    logarithmic axis when it spans more than a decade and a half, time when the recorded times are so spaced. Several runs
    are drawn thin with their mean. A run that diverged or stopped says so.
    """
    require_fields("plot_trajectory", trajectory, ("times", "variables", "error", "status"), "a Trajectory")
    times = np.asarray(trajectory.times, dtype=float)
    times = times.reshape(-1, times.shape[-1])[0]
    if times.size == 0:
        raise InputError("this trajectory has no recorded times; there is nothing to draw.")
    from tutelage.plot.figure import Figure

    panels = panels_of(trajectory)
    heights = [CURVE_HEIGHT] + [PANEL_HEIGHT] * len(panels)
    with style():
        figure = Figure(figsize=(WIDTH, TITLE_HEIGHT + sum(heights)), layout="constrained")
        grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        shown = times > 0 if is_log_spaced(times) else np.ones(times.size, bool)
        _draw_error(grid[0], times[shown], trajectory, shown)
        for axes, panel in zip(grid[1:], panels, strict=True):
            part = [type(c)(c.values[:, shown], c.label, c.unit, c.partner, c.group) for c in panel.curves]
            draw_panel(axes, times[shown], Panel(panel.label, part))
            scale_overlaps(axes, panel.values)
        if not shown.all():
            grid[0].set_xscale("log")
        grid[-1].set_xlabel(time_label(trajectory))
        figure.align_ylabels(list(grid))
        _head(grid, trajectory, title)
    return figure


def _draw_error(axes: Any, times: np.ndarray, trajectory: Any, shown: np.ndarray) -> None:
    errors = np.asarray(trajectory.error, dtype=float)
    errors = errors.reshape(-1, errors.shape[-1])[:, shown]
    if len(errors) > 1:
        for run in errors[:THIN_RUNS]:
            axes.plot(times, run, color=FAINT, linewidth=0.6, alpha=0.6)
    axes.plot(times, errors.mean(axis=0), color=COLORS[0], linewidth=2.0, marker="o" if times.size == 1 else None)
    axes.set_ylabel(error_label(trajectory))
    scale_error(axes, errors)


def _head(grid: Any, trajectory: Any, title: str | None) -> None:
    """Above the curves: the title in words, the conditions, and the sentence of a run that did not finish."""
    who, how = _words(trajectory)
    parts = [(title or who, TITLE), (how, SMALL)]
    if not trajectory.finished:
        sentence = f"The {'solve' if trajectory.kind != 'simulation' else 'run'} {trajectory.status}"
        parts.append((sentence, SMALL | {"color": ALARM, "fontweight": "bold"}))
        for axes in grid:
            for end in np.unique(np.atleast_1d(trajectory.end_time)):
                axes.axvline(float(end), color=ALARM, linewidth=1.0, linestyle=(0, (2, 2)))
    write_head(grid[0], parts)


def _words(trajectory: Any) -> tuple[str, str]:
    if trajectory.problem is not None:
        who, how = problem_in_words(trajectory.problem)
        return who, ", ".join([how, *settings_in_words(trajectory)])
    names = ", ".join(trajectory.variables)
    return ("A system of one's own" if trajectory.kind == "equations" else "Order parameters"), f"variables {names}"
