"""The figure of the best protocol: its controls and errors over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import COLORS, DASHES, Look


@figure_of(
    "what optimize returned",
    "schedules",
    "baselines",
    "trajectory",
    "sensitivity",
    "bounds",
)
def plot_protocol(result: Any, *, title: str | None = None) -> Figure:
    """Draw the controls and the error of what `optimize` returned, with its baselines.

    A band around a control shows how far one segment may move alone before the
    objective grows by 1%. The error is the mean over tasks; thin lines are single
    tasks.
    """
    grid = column([*[1.7] * len(result.schedules), 2.5], title)
    times = np.linspace(0.0, result.trajectory.times[-1], 401)
    for axes, name in zip(grid, result.schedules, strict=False):
        _draw_control(axes, result, name, times)
    _draw_errors_of_protocols(grid[-1], result)
    gains = [
        f"{gain:.3g} times below {name}"
        for name, gain in result.gains.items()
        if np.isfinite(gain)
    ]
    outcome = text.capital("; ".join(gains))
    heading, _ = text.problem_in_words(result.problem)
    return finish(grid, text.TIME, title, heading, text.first_line(result), outcome)


def _baselines_with_looks(result: Any) -> Iterator[tuple[str, Any, Look]]:
    """The baselines by name, as many as there are colors for."""
    for (name, baseline), color in zip(
        result.baselines.items(), COLORS[1:], strict=False
    ):
        look: Look = {"color": color, "linewidth": 1.3, "linestyle": DASHES[1]}
        yield name, baseline, look


def _draw_control(axes: Axes, result: Any, name: str, times: np.ndarray) -> None:
    """Draw one control of the protocol and of its baselines."""
    values = _over_time(result.schedules[name], times)
    look: Look = {"zorder": 3, "linewidth": 2.0, "color": COLORS[0]}
    if values.ndim == 1:
        _draw_band(axes, result, name, times)
        axes.plot(times, values, label="protocol", linestyle=DASHES[0], **look)
        for baseline_name, baseline, baseline_look in _baselines_with_looks(result):
            if name in baseline.controls:
                control = _over_time(baseline.controls[name], times)
                axes.plot(times, control, label=baseline_name, **baseline_look)
    else:
        for task, share in enumerate(values.T):
            label = f"protocol, task {task + 1}"
            dashes = DASHES[task % len(DASHES)]
            axes.plot(times, share, label=label, linestyle=dashes, **look)
    axes.set_ylabel(text.parameter_label(name))
    axes.set_ylim(bottom=min(0.0, values.min()))


def _draw_errors_of_protocols(axes: Axes, result: Any) -> None:
    """Draw the errors of the protocol and of its baselines, means over tasks."""
    protocol = result.trajectory
    error = np.asarray(protocol.error)
    if error.ndim > 1:  # single tasks, behind their mean
        axes.plot(protocol.times, error, color=COLORS[0], linewidth=0.7)
    mean_error = _mean_over_tasks(protocol)
    look: Look = {"color": COLORS[0], "linewidth": 2.0}
    axes.plot(protocol.times, mean_error, label="protocol", **look)
    errors = [mean_error]
    for name, baseline, baseline_look in _baselines_with_looks(result):
        mean_error = _mean_over_tasks(baseline.trajectory)
        times = baseline.trajectory.times
        axes.plot(times, mean_error, label=name, **baseline_look)
        errors.append(mean_error)
    panels.scale_error(axes, np.concatenate(errors), text.ERROR_IN_TWO_LINES)


def _mean_over_tasks(trajectory: Any) -> np.ndarray:
    error = np.asarray(trajectory.error)
    if error.ndim == 1:
        return error
    return error.mean(axis=1)


def _over_time(value: Any, times: np.ndarray) -> np.ndarray:
    """A number or a schedule at times.

    Of tasks, the share of the first of two, or (time, task) of more.
    """
    from tutelage.training.schedules import rate_at

    if not hasattr(value, "probabilities"):
        return np.array([np.ravel(rate_at(value, time))[0] for time in times])
    shares = np.array([value.probabilities(time, value.needs) for time in times])
    if value.needs == 2:
        return shares[:, 0]
    return shares


def _draw_band(axes: Axes, result: Any, name: str, times: np.ndarray) -> None:
    """Shade how far each segment or knot may move at a cost of 1%.

    The cost is a parabola inside the bounds, a line at a bound.
    """
    schedule = result.schedules[name]
    if hasattr(schedule, "shares"):
        schedule = schedule.shares
    lowest, highest = result.bounds[name]
    span = highest - lowest
    values = np.asarray(schedule.values)
    cost = np.maximum(result.sensitivity[name] / 0.01, 1e-6)
    distance = np.minimum(values - lowest, highest - values)
    at_bound = distance < 1e-3 * span
    width = 0.05 * span * np.where(at_bound, 1 / cost, 1 / np.sqrt(cost))

    # The first field of each schedule has the times of its segments or knots.
    segment_times = next(iter(vars(schedule).values()))
    kind = type(schedule)
    below = kind(segment_times, np.clip(values - width, lowest, highest))
    above = kind(segment_times, np.clip(values + width, lowest, highest))
    axes.fill_between(
        times,
        _over_time(below, times),
        _over_time(above, times),
        color=COLORS[0],
        alpha=0.15,
        linewidth=0,
        label="costs 1%",
    )
