"""Figures of analyses: curves, power laws, escapes, protocols, tasks, landscapes.

A curve is anything with times, error, variables, kind and problem; every result that is
found on a curve has one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

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
    marker_at,
    stroke,
)
from tutelage.plot.trajectory import (
    DOTTED,
    NAMED_LINES,
    SINGLE_RUNS,
    draw_lines,
    draw_overlaps,
    heat_map,
    mark_switches,
    panels_of,
)

CURVE_HEIGHT = 2.5
ESCAPE_WIDTH = 7.2
BARS = 24  # permutations drawn one by one
RATES = 14  # rates of a fixed point; the rest is counted
FAMILIES = 16  # of curvatures, the lowest; the rest is counted


# Plateaus, phases, specialization, early stopping


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


def _first_line(result: object) -> str:
    """The first line of a result as text."""
    return str(result).split("\n")[0]


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
    return _finish(grid, result.curve, title, _first_line(result))


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


# Exponents of a curve and of a spectrum


@figure_of("what fit_exponent returned", "slope", "local_slope", "window")
def plot_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw data and fit on logarithmic axes, and the local slope below.

    The local slope is d ln y / d ln x, with the fitted slope and its error; the window
    is shaded.
    """
    lines = str(result).split("\n")
    heading = "A power law"
    doubt = ""
    if not result.constant:
        heading = "No power law in this window"
        doubt = lines[-1]
    top, bottom = column([2.7, 1.8], title)
    _draw_power_law(top, result, ylabel="$y$")
    _draw_local_slope(bottom, result, result.error, letters=("$x$", "$y$"))
    return finish([top, bottom], "$x$", title, heading, lines[0], doubt, alarm=True)


@figure_of("what spectral_exponent returned", "beta", "fit", "ranks")
def plot_spectral_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw eigenvalues and fit on logarithmic axes, and the local slope below.

    The local slope is -(1 + beta), drawn with its mean and error.
    """
    fit = result.fit
    summary, *doubts = str(result).split("\n")
    heading = "A power-law spectrum"
    if not fit.constant:
        heading = "A spectrum that is not a power law in this window"
    top, bottom = column([2.7, 1.8], title)
    _draw_power_law(top, fit, ylabel=r"eigenvalue $\lambda_k$")
    _draw_local_slope(bottom, fit, result.error, letters=("$k$", r"$\lambda_k$"))
    # Beyond the window the local slope may be far off.
    margin = 3 * result.error + 0.1
    bottom.set_ylim(fit.slope - margin, fit.slope + margin)
    xlabel = r"rank $k$"
    return finish([top, bottom], xlabel, title, heading, summary, doubts, alarm=True)


def _draw_power_law(axes: Axes, fit: Any, ylabel: str) -> None:
    """Draw data and fitted line on logarithmic axes, the window shaded."""
    start, end = fit.window
    panels.shade(axes, start, end, COLORS[2], "window", alpha=0.12)
    axes.set(xscale="log", yscale="log", ylabel=ylabel)
    positive = (fit.x > 0) & (fit.y > 0)
    y_error = None
    if fit.y_error is not None:
        y_error = fit.y_error[positive]
    axes.errorbar(
        fit.x[positive],
        fit.y[positive],
        y_error,
        elinewidth=0.8,
        label="data",
        **panels.plain_dots(0, size=3.4),
    )
    window = np.array(fit.window)
    fitted = fit.amplitude * window**fit.slope
    label = rf"slope {fit.slope:.3f}"
    axes.plot(window, fitted, color=COLORS[1], linewidth=2.0, label=label)


def _draw_local_slope(
    axes: Axes, fit: Any, error: float, letters: tuple[str, str]
) -> None:
    """Draw local slopes, and the fitted slope with its error over the window.

    letters: of the two variables.
    """
    start, end = fit.window
    panels.shade(axes, start, end, COLORS[2], alpha=0.12)
    positive = (fit.x > 0) & (fit.y > 0)
    axes.plot(
        fit.x[positive],
        fit.local_slope,
        color=COLORS[0],
        linewidth=1.4,
        label="local slope",
    )
    window = np.array(fit.window)
    slope = np.full(2, fit.slope)
    label = f"{fit.slope:.4g} ± {error:.1g}"
    axes.plot(window, slope, color=COLORS[1], linewidth=2.0, label=label)
    panels.fill_band(axes, window, slope, np.full(2, error), COLORS[1])
    x, y = letters
    axes.set_ylabel(f"local slope\nd ln {y} / d ln {x}")


# Escapes


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


# Protocols


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
    return finish(grid, text.TIME, title, heading, _first_line(result), outcome)


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


# Several tasks


@figure_of("what forgetting returned", "left", "amount", "learned", "trajectory")
def plot_forgetting(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the error of each task, and an arrow of the length of its forgetting.

    A mark shows where the task was left.
    """
    (axes,) = column([3.0], title, ax=ax)
    outcomes = []
    for task, error in enumerate(result.error.T):
        label = f"task {task + 1}"
        axes.plot(result.times, error, label=label, **line_look(task))
        if result.left[task] < result.times[-1]:
            _draw_forgetting_arrow(axes, result, task)
            outcomes.append(f"Forgetting of {label}: {result.amount[task]:.4g}")
    if not outcomes:
        outcomes = ["No task is left"]
    mark_switches(axes, result.trajectory)
    axes.set_ylabel(text.ERROR_IN_TWO_LINES)
    axes.set_ylim(bottom=0.0)
    heading, conditions = text.title_and_conditions(result.trajectory)
    outcome = ", ".join(outcomes)
    return finish([axes], text.TIME, title, heading, conditions, outcome)


def _draw_forgetting_arrow(axes: Axes, result: Any, task: int) -> None:
    """Draw an arrow, at the end, from the error when the task was left to the last."""
    end = result.times[-1]
    learned = result.learned[task]
    final = result.final[task]
    color = color_at(task)
    left = result.left[task]
    axes.plot([left], [learned], marker_at(task), color=color, markersize=6)
    axes.axhline(learned, color=color, linewidth=0.7, linestyle=DASHES[2])
    arrow = {"arrowstyle": "<->", "color": color, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (end, learned), (end, final), arrowprops=arrow)


class _TaskCurve(NamedTuple):
    """A learning curve of one task, with times that count from its beginning.

    reached: the time at which it reaches the target, or None.
    """

    name: str
    times: np.ndarray
    error: np.ndarray
    reached: float | None


@figure_of("what transfer returned", "after", "scratch", "theory", "alone")
def plot_transfer(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the error of a task against the time since it began.

    One curve is after other tasks, the other one from scratch.
    """
    times = np.asarray(result.theory.times)
    error = np.asarray(result.theory.error)[:, result.task]
    begun = times >= result.begin
    after_others = _TaskCurve(
        name="after the other tasks",
        times=times[begun] - result.begin,
        error=error[begun],
        reached=result.after,
    )
    from_scratch = _TaskCurve(
        name="from scratch",
        times=np.asarray(result.alone.times),
        error=np.asarray(result.alone.error),
        reached=result.scratch,
    )
    curves = (after_others, from_scratch)
    return _draw_task_curves(result, curves, title, result.theory, ax)


@figure_of("what savings returned", "first", "again", "begins", "trajectory")
def plot_savings(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the error of a task against the time since it began, twice.

    One curve is at first, the other one when the task returns.
    """
    times = result.times
    error = result.error[:, result.task]
    first_begin, second_begin = result.begins
    # Both curves have the same length.
    duration = times[-1] - second_begin
    at_first = (times >= first_begin) & (times <= first_begin + duration)
    returned = times >= second_begin
    second_curve = _TaskCurve(
        name="when it returns",
        times=times[returned] - second_begin,
        error=error[returned],
        reached=result.again,
    )
    first_curve = _TaskCurve(
        name="at first",
        times=times[at_first] - first_begin,
        error=error[at_first],
        reached=result.first,
    )
    curves = (second_curve, first_curve)
    return _draw_task_curves(result, curves, title, result.trajectory, ax)


def _draw_task_curves(
    result: Any,
    curves: Sequence[_TaskCurve],
    title: str | None,
    trajectory: Any,
    ax: Axes | None,
) -> Figure:
    """Draw learning curves of one task, and the times at which they reach the target.

    Each curve begins with its own beginning of the task.
    """
    (axes,) = column([3.0], title, ax=ax)
    for place, curve in enumerate(curves):
        axes.plot(curve.times, curve.error, label=curve.name, **line_look(place))
        if curve.reached is not None:
            axes.plot(
                [curve.reached],
                [result.target],
                marker_at(place),
                color=color_at(place),
                markersize=6,
            )
    axes.axhline(
        result.target,
        color=FAINT,
        linewidth=0.9,
        linestyle=DASHES[2],
        label=f"target {result.target:.3g}",
    )
    end = max(curve.times[-1] for curve in curves if curve.times.size)
    reached = [curve.reached for curve in curves if curve.reached is not None]
    last_reached = max(reached, default=0.0)
    if last_reached > 0:
        end = min(end, 3 * last_reached)
    axes.set_xlim(0.0, end)
    errors = np.concatenate([curve.error for curve in curves])
    panels.scale_error(axes, errors, text.ERROR_IN_TWO_LINES)
    heading, conditions = text.title_and_conditions(trajectory)
    xlabel = r"time $\alpha$ since the task began"
    outcome = text.capital(str(result))
    return finish([axes], xlabel, title, heading, conditions, outcome)


@figure_of("what interference returned", "similarity", "forgetting", "left")
def plot_interference(result: Any, *, title: str | None = None) -> Figure:
    """Draw forgetting, and the final errors, against the similarity of the tasks."""
    above, below = column([2.6, 2.0], title)
    for task in range(result.final.shape[1]):
        label = f"task {task + 1}"
        look = line_look(task)
        final_error = result.final[:, task]
        below.plot(result.similarity, final_error, label=label, **look)
        if result.left[task] < result.times[-1]:
            forgotten = result.forgetting[:, task]
            above.plot(result.similarity, forgotten, label=label, **look)
            similarity, amount = result.worst(task)
            above.plot(
                [similarity],
                [amount],
                marker_at(task),
                color=look["color"],
                markersize=6,
            )
    above.set_ylabel(r"forgetting, $\Delta\epsilon_g$")
    above.axhline(0.0, color=FAINT, linewidth=0.8)
    panels.scale_error(below, result.final, "final error")
    heading, conditions = text.problem_in_words(result.problem, without=("similarity",))
    _, *sentences = str(result).splitlines()
    return finish(
        [above, below],
        "similarity $V$ of the tasks",
        title,
        heading,
        conditions,
        outcome=[text.capital(sentence) for sentence in sentences],
    )


@figure_of("what best_replay returned", "fractions", "final", "values", "fraction")
def plot_best_replay(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the final errors against the replay fraction, and the best fraction."""
    (axes,) = column([3.0], title, ax=ax)
    for task in range(result.final.shape[1]):
        final_error = result.final[:, task]
        label = f"task {task + 1}"
        axes.plot(result.fractions, final_error, label=label, **line_look(task))
    axes.plot(
        result.fractions,
        result.values,
        color=INK,
        linewidth=1.4,
        linestyle=DASHES[3],
        label="mean",
    )
    axes.plot(
        [result.fraction], [result.value], "o", color=INK, markersize=6, label="best"
    )
    errors = np.concatenate([result.final.ravel(), result.values])
    panels.scale_error(axes, errors, "final error")
    heading, conditions = text.problem_in_words(result.problem, without=("replay",))
    outcome = text.capital(str(result))
    return finish([axes], "replay fraction", title, heading, conditions, outcome)


@figure_of("what node_reuse returned", "importance", "shares", "reuse", "times")
def plot_node_reuse(result: Any, *, title: str | None = None) -> Figure:
    """Draw the share of each unit in each task, and the re-use of each pair of tasks.

    Both are heat maps.
    """
    tasks, units = result.shares.shape
    task_names = [f"task {task + 1}" for task in range(tasks)]
    unit_names = [f"unit {unit + 1}" for unit in range(units)]
    moments = [
        f"{name}, $\\alpha={time:g}$"
        for name, time in zip(task_names, result.times, strict=True)
    ]
    heading = "Which units serve which task"
    if title is not None:
        heading = title
    small = (
        "Share of a unit: the rise of the task's error if the unit is cut off. "
        "Re-use: 1 for the same units, 0 for others."
    )
    figure, ((left, right),) = panels.panel_grid(
        1, 2, heading, small, height=0.8 + 0.55 * tasks, width=8.4
    )
    heat_map(left, result.shares, moments, unit_names)
    heat_map(right, result.reuse, task_names, task_names)
    panels.label_panel(left, "shares of the units")
    panels.label_panel(right, "re-use")
    return figure


# Fixed points, learning rates, curvatures


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


@figure_of(
    "what critical_learning_rate or decay_rate returned",
    "problem",
    "rate",
    "decay_curves",
)
def plot_decay_rates(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw asymptotic decay rates of the error against constant learning rates.

    The critical learning rate is marked.
    """
    rates, inside, outside = result.decay_curves()
    # A deviation inside the teachers' span enters the error squared, so its part of the
    # error decays at twice its rate. The slower of the two decays remains.
    decay_of_error = np.minimum(2 * inside, outside)
    (axes,) = column([3.3], title, ax=ax)
    axes.plot(
        rates,
        2 * inside,
        color=COLORS[2],
        linestyle=DASHES[1],
        linewidth=1.3,
        label="inside the span, squared",
    )
    axes.plot(
        rates,
        outside,
        color=COLORS[3],
        linestyle=DASHES[2],
        linewidth=1.6,
        label="outside the span",
    )
    axes.plot(
        rates,
        decay_of_error,
        color=COLORS[0],
        linewidth=2.4,
        label="the error: the slower",
    )
    axes.axhline(0.0, color=INK, linewidth=0.8)

    right = float(rates[-1])
    top = float(np.max(decay_of_error))
    bottom = -0.25 * top
    if result.point:
        right = max(right, 1.05 * result.learning_rate)
        bottom = min(bottom, 1.1 * result.rate)
    axes.set(xlim=(0.0, right), ylim=(bottom, max(1.6 * top, 1e-12)))
    formula = r"$-\mathrm{d}\,\ln\epsilon_g / \mathrm{d}\alpha$"
    axes.set_ylabel(f"decay rate of the error\n{formula}")
    _mark_critical_rate(axes, result.dynamics.critical_rate)
    if result.point:
        _mark_point(axes, result.learning_rate, result.rate, result.point)
    heading = "Asymptotic decay rate of the error"
    return _finish_rates(axes, result.problem, title, heading)


@figure_of("what noise_floor returned", "problem", "per_variance", "floors")
def plot_noise_floor(
    result: Any, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw e_g(infinity) / sigma^2 against the learning rate.

    It is computed to first order in sigma^2.
    """
    rates, floors = result.floors()
    (axes,) = column([3.3], title, ax=ax)
    axes.plot(rates, floors, color=COLORS[0], linewidth=2.2, label="linear response")
    axes.plot(
        rates,
        floors[0] / rates[0] * rates,
        color=FAINT,
        linestyle=DASHES[1],
        linewidth=1.2,
        label="small learning rates",
    )
    if result.critical is not None:
        axes.set_xlim(0.0, 1.05 * result.critical)
    # Near the critical rate the floor diverges.
    top = max(6 * float(np.median(floors)), 1.2 * result.per_variance)
    axes.set_ylim(0.0, top)
    formula = r"$\epsilon_g(\infty) / \sigma^2$, as $\sigma \to 0$"
    axes.set_ylabel(f"error that label noise leaves\n{formula}")
    _mark_critical_rate(axes, result.critical)
    _mark_point(axes, result.learning_rate, result.per_variance, "this problem")
    heading = "What label noise leaves of the error"
    return _finish_rates(axes, result.problem, title, heading)


def _mark_critical_rate(axes: Axes, critical: float | None) -> None:
    """Draw a vertical line at the critical learning rate, if there is one."""
    if critical is not None:
        label = rf"critical rate $\eta_c$: {critical:.5g}"
        axes.axvline(
            critical, color=ALARM, linewidth=1.2, linestyle=DOTTED, label=label
        )


def _mark_point(axes: Axes, learning_rate: float, value: float, name: str) -> None:
    """Mark the value at one learning rate; a disk is that of the problem."""
    marker = "D"
    if name == "this problem":
        marker = "o"
    label = f"{name}: {learning_rate:.4g}"
    axes.plot(
        [learning_rate],
        [value],
        marker,
        color=INK,
        markersize=6.5,
        zorder=4,
        label=label,
    )


def _finish_rates(axes: Axes, problem: Any, title: str | None, heading: str) -> Figure:
    """Write the head of a figure over learning rates."""
    words, conditions = text.problem_in_words(problem, without=("learning rate",))
    xlabel = r"constant learning rate $\eta$"
    return finish([axes], xlabel, title, heading, f"{words}, {conditions}")


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
