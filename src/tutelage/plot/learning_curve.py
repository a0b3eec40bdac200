"""Figures of what analyses find on curves: plateaus, phases, specialization, early stopping, escapes, exponents, protocols.

A curve is anything with times, error, variables, kind and problem; every result of the first four analyses has one.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot.axes import (
    Figure,
    column,
    figure_of,
    fill_band,
    finish,
    mark_time,
    plain_dots,
    scale_error,
    scale_time,
    shade,
    spread_marks,
)
from tutelage.plot.labels import (
    ERROR_IN_TWO_LINES,
    TIME,
    Recorded,
    capital,
    error_label,
    parameter_label,
    problem_in_words,
    time_label,
    title_and_conditions,
)
from tutelage.plot.style import (
    ALARM,
    COLORS,
    DASHES,
    FAINT,
    INK,
    MARKERS,
    PHASE_COLORS,
    Look,
    is_log_spaced,
    stroke,
)
from tutelage.plot.trajectory import NAMED, SINGLE_RUNS, draw_lines, panels_of

CURVE_HEIGHT, PANEL_HEIGHT = 2.5, 1.8
ESCAPE_WIDTH = 7.2
AFTER = 5.0  # e-folding times shown after the escape
BARS = 24  # permutations drawn one by one
POINTS = 401  # where a schedule is drawn


# Plateaus, phases, specialization, early stopping


def _begin(curve: Recorded, panels: int, title: str | None, ax: Axes | None = None) -> list[Axes]:
    """The learning curve, and empty panels below it."""
    grid = column([CURVE_HEIGHT, *[PANEL_HEIGHT] * panels], title, ax=ax)
    grid[0].plot(curve.times, curve.error, color=COLORS[0], linewidth=1.0 if curve.kind == "simulation" else 2.0)
    grid[0].set_ylabel(error_label(curve))
    scale_error(grid[0], curve.error)
    return grid


def _finish(grid: list[Axes], curve: Recorded, title: str | None, outcome: str) -> Figure:
    scale_time(grid[0], curve.times)
    if is_log_spaced(curve.times):
        grid[0].set_xlim(left=curve.times[curve.times > 0][0])
    return finish(grid, time_label(curve), title, *title_and_conditions(curve), capital(outcome))


@figure_of("what plateaus returned", "found", "curve", "share")
def plot_plateaus(result: Any, *, title: str | None = None) -> Figure:
    """Draw the learning curve with its plateaus, the growth of the departure from each, and the overlaps.

    Shaded: where the error is within its share of the height. In the middle panel, what grows during the escape from a
    plateau, on a logarithmic axis, with the fitted exponential over the times of the fit.
    """
    curve, panels = result.curve, list(panels_of(result.curve).items())[:1]
    growing = [p for p in result.found if p.departure is not None]
    grid = _begin(curve, bool(growing) + len(panels), title)
    for i, plateau in enumerate(result.found):
        label = f"within {100 * plateau.share:.3g}%\nof its height" if i == 0 else None
        for axes in grid:
            shade(axes, plateau.start, plateau.end, COLORS[4], label if axes is grid[0] else None)
        level: Look = {"color": INK, "linewidth": 1.0, "linestyle": (0, (2, 2)), "label": f"height {plateau.height:.4g}"}
        grid[0].plot([plateau.start, plateau.end], [plateau.height] * 2, **level)
    for i, plateau in enumerate(growing):
        u, (first, last) = plateau.departure, plateau.growth_window
        name, seen = "departure $u$" if i == 0 else None, u > 0
        grid[1].plot(curve.times[seen], u[seen], color=COLORS[i % 3], linewidth=1.6, label=name)
        at = int(np.argmin(np.abs(curve.times - (first + last) / 2)))
        fitted = u[at] * np.exp(plateau.growth_rate * (np.array([first, last]) - curve.times[at]))
        name = rf"rate {plateau.growth_rate:.4g}"
        grid[1].plot([first, last], fitted, color=COLORS[1], linewidth=2.2, linestyle=(0, (3, 1.5)), label=name)
        grid[1].set(yscale="log", ylabel="departure from\nthe plateau, $u$")
    for label, lines in panels:
        draw_lines(grid[-1], curve.times, lines, label)
    return _finish(grid, curve, title, "; ".join(str(result).split("\n")[:2]))


@figure_of("what phases returned", "intervals", "curve")
def plot_phases(result: Any, *, title: str | None = None) -> Figure:
    """Draw learning curve and overlaps, shaded by phase, with the names in the legend."""
    curve, panels = result.curve, list(panels_of(result.curve).items())[:1]
    grid = _begin(curve, len(panels), title)
    draw_phases(grid, result.intervals)
    for label, lines in panels:
        draw_lines(grid[-1], curve.times, lines, label)
    return _finish(grid, curve, title, ", ".join(phase.name for phase in result.intervals))


class Interval(Protocol):
    """A named interval of time."""

    @property
    def name(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


def draw_phases(grid: Iterable[Axes], intervals: Iterable[Interval]) -> None:
    """Shade every axes by phase; the first one names them."""
    seen: set[str] = set()
    for phase in intervals:
        color = PHASE_COLORS.get(phase.name, FAINT)
        for i, axes in enumerate(grid):
            shade(axes, phase.start, phase.end, color, phase.name if i == 0 and phase.name not in seen else None, 0.2)
            axes.axvline(phase.start, color=INK, linewidth=0.6, alpha=0.5)
        seen.add(phase.name)


@figure_of("what specialization returned", "index", "own", "permutation")
def plot_specialization(result: Any, *, title: str | None = None) -> Figure:
    """Draw learning curve, specialization index and the cosines of assigned pairs."""
    times, when = result.times, result.transition_time
    grid = _begin(result.curve, 2, title)
    grid[1].plot(times, result.index, color=COLORS[2], linewidth=2.0, label="index")
    grid[1].axhline(0.5, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)), label="one half")
    grid[1].set(ylim=(-0.03, 1.03), ylabel="specialization\nindex")
    pairs = [(k, m) for k, m in enumerate(result.permutation) if m >= 0]
    for i, (k, m) in enumerate(pairs):
        look: Look = stroke(k, i) | {"markevery": spread_marks(times, i, len(pairs))}
        look = look if len(pairs) <= NAMED else {"color": COLORS[k % len(COLORS)], "linewidth": 1.0}
        sign = "−" if result.signs[k] < 0 else ""
        grid[2].plot(times, result.own[:, i], label=f"student {k + 1}, teacher {sign}{m + 1}", **look)
    grid[2].set_ylabel("cosine with\nits own teacher")
    if when is not None:
        for axes in grid:
            mark_time(axes, when, f"transition, {when:.4g}" if axes is grid[0] else None)
    return _finish(grid, result.curve, title, str(result).split("\n")[0])


@figure_of("what early_stopping returned", "bracket", "gain", "curve")
def plot_early_stopping(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the learning curve with the smallest and the last error marked."""
    (axes,) = _begin(result.curve, 0, title, ax)
    axes.plot([result.time], [result.value], "o", color=COLORS[2], markersize=7, label=f"smallest, {result.value:.4g}")
    if result.inside:
        name = f"at the end, {result.end_value:.4g}"
        axes.plot([result.end_time], [result.end_value], "s", color=ALARM, markersize=6, label=name)
        axes.axhline(result.value, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
        mark_time(axes, result.time, f"stop at {result.time:.4g}")
        shade(axes, result.time, result.end_time, ALARM, "error grows again", 0.08)
    return _finish([axes], result.curve, title, str(result))


@figure_of("the results of several runs", "answers", "marks")
def plot_per_run(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the learning curves of the runs with their marks, one color per kind."""
    curves = [answer.curve for answer in result.answers[:SINGLE_RUNS]]
    (axes,) = column([CURVE_HEIGHT], title, ax=ax)
    for i, curve in enumerate(curves):
        axes.plot(curve.times, curve.error, color=FAINT, linewidth=0.7, label="runs" if i == 0 else None)
    found = []
    for place, (name, times) in enumerate(result.marks.items()):
        t = times[np.isfinite(times)]
        found.append(f"{name} at {t.mean():.4g}" + (f" ± {t.std(ddof=1):.2g}" if t.size > 1 else ""))
        marks = [(t, np.interp(t, c.times, c.error)) for t, c in zip(times, curves, strict=False) if np.isfinite(t)]
        if marks:
            look = plain_dots(place, 4.5, MARKERS[place % len(MARKERS)])
            axes.plot(*zip(*marks, strict=True), **look, zorder=3, label=name)
    axes.set_ylabel(error_label(curves[0]))
    scale_error(axes, np.concatenate([curve.error for curve in curves]))
    return _finish([axes], curves[0], title, f"{len(result)} runs: " + ", ".join(found[:3]))


# Exponents of a curve and of a spectrum


@figure_of("what fit_exponent returned", "slope", "local_slope", "window")
def plot_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw data and fit on logarithmic axes, and d ln y / d ln x with the slope and its error; the window is shaded."""
    seen = (result.x > 0) & (result.y > 0)
    x, y, slope, error = result.x[seen], result.y[seen], result.slope, result.error
    level = slope, error if result.constant else 0.0, f"{slope:.4g} ± {error:.1g}"
    local = result.local_slope, "local slope"
    top, bottom = _draw_power_law(result, x, y, ("data", rf"$x^{{{slope:.3f}}}$"), local, level, title)
    if result.y_error is not None:
        top.errorbar(x, y, yerr=result.y_error[seen], fmt="none", elinewidth=0.8, ecolor=COLORS[0])
    top.set_ylabel("$y$")
    low, high = min(slope, np.min(result.local_slope)), max(slope, np.max(result.local_slope))
    room = max(0.08 * (high - low), 0.02 * abs(slope))
    bottom.set(ylabel="local slope\n" + r"d ln $y$ / d ln $x$", ylim=(low - room, high + room))
    lines = str(result).split("\n")
    default = "A power law" if result.constant else "No power law in this window"
    doubt = "" if result.constant else lines[-1]
    return finish([top, bottom], "$x$", title, default, lines[0], doubt, alarm=True)


@figure_of("what spectral_exponent returned", "beta", "fit", "ranks")
def plot_spectral_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw eigenvalues and fit on logarithmic axes, local beta with its mean and error."""
    fit, beta, error = result.fit, result.beta, result.error
    names, local = ("spectrum", rf"$k^{{{fit.slope:.2f}}}$"), (-1 - fit.local_slope, r"local $\beta$")
    level = beta, error, f"{beta:.3g} ± {error:.2g}"
    top, bottom = _draw_power_law(fit, result.ranks, result.eigenvalues, names, local, level, title)
    top.set_ylabel(r"eigenvalue $\lambda_k$")
    room = 3 * error + 0.1
    bottom.set(ylabel=r"$\beta = -1 - d\ln\lambda/d\ln k$", ylim=(beta - room, beta + room))
    first, *doubts = str(result).split("\n")
    default = "A power-law spectrum" if fit.constant else "A spectrum that is not a power law in this window"
    return finish([top, bottom], r"rank $k$", title, default, first, doubts, alarm=True)


def _draw_power_law(
    fit: Any,
    x: np.ndarray,
    y: np.ndarray,
    names: tuple[str, str],
    local: tuple[np.ndarray, str],
    level: tuple[float, float, str],
    title: str | None,
) -> list[Axes]:
    """Data and fitted line (their names) above, local slopes and the level that they should have below, the window shaded."""
    top, bottom = column([2.7, 1.8], title)
    edges, (value, error, label) = np.array(fit.window), level
    shade(top, edges[0], edges[1], COLORS[2], "window", 0.12)
    shade(bottom, edges[0], edges[1], COLORS[2], alpha=0.12)
    top.set(xscale="log", yscale="log")
    top.plot(x, y, label=names[0], **plain_dots(0, 3.4))
    top.plot(edges, fit.amplitude * edges**fit.slope, color=COLORS[1], linewidth=2.0, label=names[1])
    bottom.plot(fit.local_x, local[0], color=COLORS[0], linewidth=1.4, label=local[1])
    bottom.plot(edges, [value] * 2, color=COLORS[1], linewidth=2.0, label=label)
    if error > 0:
        fill_band(bottom, edges, np.full(2, value), np.full(2, error), COLORS[1])
    return [top, bottom]


# Escapes


@figure_of("what escape_time returned", "time", "amplitude", "sizes", "errors")
def plot_escape_time(escape: Any, *, title: str | None = None) -> Figure:
    """Draw the predicted learning curve above, the growth of the asymmetry below."""
    shown = escape.times <= escape.time + AFTER / escape.rate
    times, errors, sizes = escape.times[shown], escape.errors[shown], escape.sizes[shown]
    upper, lower = column([2.25, 2.25], title, width=ESCAPE_WIDTH)
    upper.plot(times, errors, color=COLORS[0], linewidth=2.0, label="predicted")
    upper.axhline(escape.plateau.error, color=FAINT, linewidth=1.0, linestyle=DASHES[2], label="plateau")
    upper.plot([escape.time], [escape.threshold], "D", color=COLORS[1], markersize=6, label="escape")
    upper.set_ylabel(ERROR_IN_TWO_LINES)
    scale_error(upper, errors)
    line = escape.amplitude * np.exp(escape.rate * times)  # what the asymmetry becomes on the plateau
    label = f"amplitude\n× exp({escape.rate:.3g} α)"
    lower.plot(times, line, color=INK, linewidth=1.0, linestyle=DASHES[1], label=label)
    lower.plot(times, sizes, color=COLORS[2], linewidth=2.0, label="carried linearly")
    last = np.flatnonzero(np.isfinite(sizes))[-1]
    lower.plot(times[last], sizes[last], "o", color=COLORS[2], markersize=5, label="launched into\nthe exit")
    lower.set(yscale="log", ylabel="asymmetry of\nthe overlaps")
    for axes in (upper, lower):
        axes.axvline(escape.time, color=COLORS[1], linewidth=0.8, linestyle=DASHES[1])
    small = ", ".join([*problem_in_words(escape.plateau.problem), f"initial asymmetry {escape.asymmetry:.2g}"])
    return finish([upper, lower], TIME, title, f"Escape at $\\alpha$ = {escape.time:.4g}", small)


@figure_of("what escape_distribution returned", "times", "cdf", "permutations")
def plot_escape_distribution(law: Any, *, title: str | None = None) -> Figure:
    """Draw histogram and distribution function of the escape times, and the permutations.

    The name of a permutation lists the teacher that each unit chooses, counted from one.
    """
    times = np.sort(law.times[np.isfinite(law.times)])
    room = 5.5 / 3.2  # inches per unit of height
    upper, middle, lower = column([1.2 * room, room, room], title, width=ESCAPE_WIDTH, sharex=False)
    middle.sharex(upper)
    upper.hist(times, bins="fd", density=True, color=COLORS[5], alpha=0.7, label="networks")
    upper.set_ylabel("density of\nescape times")
    middle.plot(times, law.cdf(times), color=COLORS[0], linewidth=1.8, drawstyle="steps-post", label="networks")
    middle.set(ylim=(0.0, 1.02), xlabel=TIME, ylabel="share that\nhas escaped")
    for axes in (upper, middle):
        if law.theory is not None:
            label = "theory for this\ninitial condition"
            axes.axvline(law.theory, color=COLORS[1], linewidth=1.4, linestyle=DASHES[1], label=label)
        axes.axvline(np.median(law.times), color=INK, linewidth=1.0, linestyle=DASHES[2], label="median")
    chosen = list(law.permutations.items())[:BARS]
    names = [("" if len(p) < 10 else ",").join(str(m + 1) for m in p) for p, _ in chosen]
    lower.bar(np.arange(len(chosen)), [share for _, share in chosen], color=COLORS[2], width=0.6)
    lower.set_xticks(np.arange(len(chosen)), names, rotation=90 if len(chosen) > 8 else 0)
    lower.set_xlim(-0.6, max(len(chosen), 4) - 0.4)
    lower.grid(False, axis="x")
    lower.set_ylim(bottom=0.0)
    more = len(law.permutations) - len(chosen)
    rest = f" ({more} rarer ones not shown)" if more > 0 else ""
    lower.set_ylabel("probability")
    xlabel = f"teacher units, counted from 1, of the units 1, 2, ...{rest}"
    how = f"$N={law.dim}$, asymmetry/noise = {law.start_to_noise:.2g}: {law.words}"
    small = ", ".join([*problem_in_words(law.problem), how])
    return finish([upper, middle, lower], xlabel, title, "When networks escape, and where to", small)


# Protocols


@figure_of("what optimize returned", "schedules", "baselines", "trajectory", "sensitivity", "bounds")
def plot_protocol(found: Any, *, title: str | None = None) -> Figure:
    """Draw the controls and the error of what `optimize` returned, compared with its baselines.

    A band around a control shows how far one segment may move alone before the objective grows by 1%. The error is the mean
    over tasks; thin lines are single tasks.
    """
    panels = column([*[1.7] * len(found.schedules), 2.5], title)
    looks: list[Look] = [{"color": color, "linewidth": 1.3, "linestyle": DASHES[1]} for color in COLORS[1:]]
    for axes, (name, schedule) in zip(panels, found.schedules.items(), strict=False):
        times = np.linspace(0.0, float(found.trajectory.times[-1]), POINTS)
        values = _over_time(schedule, times)
        if values.ndim == 1:
            _draw_band(axes, found, name, times)
        for i, row in enumerate(np.atleast_2d(values.T)):
            label = "protocol" if values.ndim == 1 else f"protocol, task {i + 1}"
            axes.plot(times, row, label=label, linewidth=2.0, color=COLORS[0], linestyle=DASHES[i % len(DASHES)], zorder=3)
        for (other, one), look in zip(found.baselines.items(), looks, strict=False):
            if name in one.controls and values.ndim == 1:
                axes.plot(times, _over_time(one.controls[name], times), label=other, **look)
        axes.set_ylabel(parameter_label(name))
        axes.set_ylim(bottom=min(0.0, values.min()))
    below, seen = panels[-1], []
    curves = {"protocol": found.trajectory, **{name: one.trajectory for name, one in found.baselines.items()}}
    for (name, curve), look in zip(curves.items(), [{"color": COLORS[0], "linewidth": 2.0}, *looks], strict=False):
        error = np.asarray(curve.error)
        if error.ndim > 1 and name == "protocol":
            below.plot(curve.times, error, color=COLORS[0], linewidth=0.7)
        seen.append(error if error.ndim == 1 else error.mean(axis=1))
        below.plot(curve.times, seen[-1], label=name, **look)
    scale_error(below, np.concatenate(seen))
    below.set_ylabel(ERROR_IN_TWO_LINES)
    outcome = "; ".join(f"{gain:.3g} times below {name}" for name, gain in found.gains.items())
    who, small = problem_in_words(found.problem)[0], str(found).splitlines()[0]
    return finish(panels, TIME, title, who, small, capital(outcome))


def _over_time(value: Any, times: np.ndarray) -> np.ndarray:
    """A number or a schedule at times; the first of two tasks, or (time, task) of more."""
    import jax
    import jax.numpy as jnp

    if hasattr(value, "probabilities"):
        count = len(value.shares) if isinstance(getattr(value, "shares", None), tuple) else 2
        shares = np.asarray(jax.vmap(lambda t: value.probabilities(t, count))(jnp.asarray(times)))
        return shares[:, 0] if count == 2 else shares
    return np.asarray(jax.vmap(value)(jnp.asarray(times))) if callable(value) else np.full(times.size, np.ravel(value)[0])


def _draw_band(axes: Axes, found: Any, name: str, times: np.ndarray) -> None:
    """Around each segment or knot what it may move at a cost of 1%: a parabola inside the bounds, a line at a bound."""
    schedule, (low, high) = getattr(found.schedules[name], "shares", found.schedules[name]), found.bounds[name]
    values, cost = np.asarray(schedule.values), np.maximum(found.sensitivity[name] / 0.01, 1e-6)
    at_bound = np.minimum(values - low, high - values) < 1e-3 * (high - low)
    width = 0.05 * (high - low) * np.where(at_bound, 1 / cost, 1 / np.sqrt(cost))

    def moved(side: float) -> np.ndarray:
        """The schedule with all values moved at once."""
        places = next(iter(vars(schedule).values()))
        return _over_time(type(schedule)(places, np.clip(values + side * width, low, high)), times)

    axes.fill_between(times, moved(-1.0), moved(1.0), color=COLORS[0], alpha=0.15, linewidth=0, label="costs 1%")
