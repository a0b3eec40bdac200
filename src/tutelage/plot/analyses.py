"""Figures of analyses: curves, power laws, escapes, protocols, several tasks, fixed points, learning rates, landscapes.

A curve is anything with times, error, variables, kind and problem; every result that is found on a curve has one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.plot import labels as text
from tutelage.plot import panels
from tutelage.plot.panels import Figure, column, figure_of, finish
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK, MARKERS, Look, color_at, line_look, stroke
from tutelage.plot.trajectory import NAMED, SINGLE_RUNS, draw_lines, draw_overlaps, heat_map, mark_switches, panels_of

CURVE_HEIGHT = 2.5
ESCAPE_WIDTH = 7.2
DOTTED = (0, (2, 2))
BARS = 24  # permutations drawn one by one
RATES = 14  # rates of a fixed point; the rest is counted
FAMILIES = 16  # of curvatures, the lowest; the rest is counted


# Plateaus, phases, specialization, early stopping


def _begin(curve: Any, more: int, title: str | None, ax: Axes | None = None, overlaps: bool = False) -> list[Axes]:
    """The learning curve, empty panels below it, and the overlaps R in a last one, where there are any."""
    drawn = list(panels_of(curve).items())[:1] if overlaps else []
    grid = column([CURVE_HEIGHT, *[1.8] * (more + len(drawn))], title, ax=ax)
    for label, lines in drawn:
        draw_lines(grid[-1], curve.times, lines, label)
    grid[0].plot(curve.times, curve.error, color=COLORS[0], linewidth=1.0 if curve.kind == "simulation" else 2.0)
    panels.scale_error(grid[0], curve.error, text.error_label(curve))
    return grid


def _finish(grid: list[Axes], curve: Any, title: str | None, outcome: str) -> Figure:
    panels.scale_time(grid[0], curve.times)
    return finish(grid, text.time_label(curve), title, *text.title_and_conditions(curve), text.capital(outcome))


@figure_of("what plateaus returned", "found", "curve", "share")
def plot_plateaus(result: Any, *, title: str | None = None) -> Figure:
    """Draw the learning curve with its plateaus, the growth of the departure from each, and the overlaps.

    Shaded: where the error is within its share of the height. In the middle panel, what grows during the escape from a
    plateau, on a logarithmic axis, with the fitted exponential over the times of the fit.
    """
    curve, growing = result.curve, [p for p in result.found if p.departure is not None]
    grid = _begin(curve, int(bool(growing)), title, overlaps=True)
    for i, plateau in enumerate(result.found):
        label = f"within {100 * plateau.share:.3g}%\nof its height" if i == 0 else None
        for axes in grid:
            panels.shade(axes, plateau.start, plateau.end, COLORS[4], label if axes is grid[0] else None)
        level: Look = {"color": INK, "linewidth": 1.0, "linestyle": DOTTED, "label": f"height {plateau.height:.4g}"}
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
    return _finish(grid, curve, title, "; ".join(str(result).split("\n")[:2]))


@figure_of("what phases returned", "intervals", "curve")
def plot_phases(result: Any, *, title: str | None = None) -> Figure:
    """Draw learning curve and overlaps, shaded by phase, with the names in the legend."""
    grid = _begin(result.curve, 0, title, overlaps=True)
    panels.draw_phases(grid, result.intervals)
    return _finish(grid, result.curve, title, ", ".join(phase.name for phase in result.intervals))


@figure_of("what specialization returned", "index", "own", "permutation")
def plot_specialization(result: Any, *, title: str | None = None) -> Figure:
    """Draw learning curve, specialization index and the cosines of assigned pairs."""
    times, when = result.times, result.transition_time
    grid = _begin(result.curve, 2, title)
    grid[1].plot(times, result.index, color=COLORS[2], linewidth=2.0, label="index")
    grid[1].axhline(0.5, color=FAINT, linewidth=0.8, linestyle=DOTTED, label="one half")
    grid[1].set(ylim=(-0.03, 1.03), ylabel="specialization\nindex")
    pairs = [(k, m) for k, m in enumerate(result.permutation) if m >= 0]
    for i, (k, m) in enumerate(pairs):
        look: Look = stroke(k, i) | {"markevery": panels.spread_marks(times, i, len(pairs))}
        look = look if len(pairs) <= NAMED else {"color": color_at(k), "linewidth": 1.0}
        sign = "−" if result.signs[k] < 0 else ""
        grid[2].plot(times, result.own[:, i], label=f"student {k + 1}, teacher {sign}{m + 1}", **look)
    grid[2].set_ylabel("cosine with\nits own teacher")
    if when is not None:
        for axes in grid:
            panels.mark_time(axes, when, f"transition, {when:.4g}" if axes is grid[0] else None)
    return _finish(grid, result.curve, title, str(result).split("\n")[0])


@figure_of("what early_stopping returned", "bracket", "gain", "curve")
def plot_early_stopping(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the learning curve with the smallest and the last error marked."""
    (axes,) = _begin(result.curve, 0, title, ax)
    axes.plot([result.time], [result.value], "o", color=COLORS[2], markersize=7, label=f"smallest, {result.value:.4g}")
    if result.inside:
        name = f"at the end, {result.end_value:.4g}"
        axes.plot([result.end_time], [result.end_value], "s", color=ALARM, markersize=6, label=name)
        axes.axhline(result.value, color=INK, linewidth=0.8, linestyle=DOTTED)
        panels.mark_time(axes, result.time, f"stop at {result.time:.4g}")
        panels.shade(axes, result.time, result.end_time, ALARM, "error grows again", 0.08)
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
            look = panels.plain_dots(place, 4.5, MARKERS[place % len(MARKERS)])
            axes.plot(*zip(*marks, strict=True), **look, zorder=3, label=name)
    panels.scale_error(axes, np.concatenate([curve.error for curve in curves]), text.error_label(curves[0]))
    return _finish([axes], curves[0], title, f"{len(result)} runs: " + ", ".join(found[:3]))


# Exponents of a curve and of a spectrum


@figure_of("what fit_exponent returned", "slope", "local_slope", "window")
def plot_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw data and fit on logarithmic axes, and d ln y / d ln x with the slope and its error; the window is shaded."""
    first, *_, last = str(result).split("\n")
    default, doubt = ("A power law", "") if result.constant else ("No power law in this window", last)
    return _draw_power_law(result, result.error, "$x$", "$y$", title, default, first, doubt)


@figure_of("what spectral_exponent returned", "beta", "fit", "ranks")
def plot_spectral_exponent(result: Any, *, title: str | None = None) -> Figure:
    """Draw eigenvalues and fit on logarithmic axes, and the local slope, which is -(1 + beta), with its mean and error."""
    first, *doubts = str(result).split("\n")
    default = "A power-law spectrum" if result.fit.constant else "A spectrum that is not a power law in this window"
    fit, error, names = result.fit, result.error, (r"rank $k$", r"eigenvalue $\lambda_k$")
    figure = _draw_power_law(fit, error, *names, title, default, first, doubts)
    figure.axes[1].set_ylim(fit.slope - 3 * error - 0.1, fit.slope + 3 * error + 0.1)  # beyond the window it may be far off
    return figure


def _draw_power_law(fit: Any, error: float, x: str, y: str, title: str | None, *head: Any) -> Figure:
    """Data and fitted line above, local slopes and the slope ± error below, the window shaded. x, y: names of the axes."""
    top, bottom = column([2.7, 1.8], title)
    edges, seen = np.array(fit.window), (fit.x > 0) & (fit.y > 0)
    for axes, label in ((top, "window"), (bottom, None)):
        panels.shade(axes, edges[0], edges[1], COLORS[2], label, 0.12)
    top.set(xscale="log", yscale="log", ylabel=y)
    errors = None if fit.y_error is None else fit.y_error[seen]
    top.errorbar(fit.x[seen], fit.y[seen], errors, elinewidth=0.8, label="data", **panels.plain_dots(0, 3.4))
    top.plot(edges, fit.amplitude * edges**fit.slope, color=COLORS[1], linewidth=2.0, label=rf"slope {fit.slope:.3f}")
    bottom.plot(fit.x[seen], fit.local_slope, color=COLORS[0], linewidth=1.4, label="local slope")
    bottom.plot(edges, [fit.slope] * 2, color=COLORS[1], linewidth=2.0, label=f"{fit.slope:.4g} ± {error:.1g}")
    panels.fill_band(bottom, edges, np.full(2, fit.slope), np.full(2, error), COLORS[1])
    bottom.set_ylabel("local slope\n" + f"d ln {y.split()[-1]} / d ln {x.split()[-1]}")
    return finish([top, bottom], x, title, *head, alarm=True)


# Escapes


@figure_of("what escape_time returned", "time", "amplitude", "sizes", "errors")
def plot_escape_time(escape: Any, *, title: str | None = None) -> Figure:
    """Draw the predicted learning curve above, the growth of the asymmetry below, up to five e-folding times after the escape."""
    shown = escape.times <= escape.time + 5.0 / escape.rate
    times, errors, sizes = escape.times[shown], escape.errors[shown], escape.sizes[shown]
    upper, lower = column([2.25, 2.25], title, width=ESCAPE_WIDTH)
    upper.plot(times, errors, color=COLORS[0], linewidth=2.0, label="predicted")
    upper.axhline(escape.plateau.error, color=FAINT, linewidth=1.0, linestyle=DASHES[2], label="plateau")
    upper.plot([escape.time], [escape.threshold], "D", color=COLORS[1], markersize=6, label="escape")
    panels.scale_error(upper, errors, text.ERROR_IN_TWO_LINES)
    line = escape.amplitude * np.exp(escape.rate * times)  # what the asymmetry becomes on the plateau
    label = f"amplitude\n× exp({escape.rate:.3g} α)"
    lower.plot(times, line, color=INK, linewidth=1.0, linestyle=DASHES[1], label=label)
    lower.plot(times, sizes, color=COLORS[2], linewidth=2.0, label="carried linearly")
    last = np.flatnonzero(np.isfinite(sizes))[-1]
    lower.plot(times[last], sizes[last], "o", color=COLORS[2], markersize=5, label="launched into\nthe exit")
    lower.set(yscale="log", ylabel="asymmetry of\nthe overlaps")
    for axes in (upper, lower):
        axes.axvline(escape.time, color=COLORS[1], linewidth=0.8, linestyle=DASHES[1])
    small = ", ".join([*text.problem_in_words(escape.plateau.problem), f"initial asymmetry {escape.asymmetry:.2g}"])
    return finish([upper, lower], text.TIME, title, f"Escape at $\\alpha$ = {escape.time:.4g}", small)


@figure_of("what escape_distribution returned", "times", "cdf", "permutations")
def plot_escape_distribution(law: Any, *, title: str | None = None) -> Figure:
    """Draw histogram and distribution function of the escape times, and the permutations.

    The name of a permutation lists the teacher that each unit chooses, counted from one.
    """
    times = np.sort(law.times[np.isfinite(law.times)])
    upper, middle, lower = column([2.1, 1.7, 1.7], title, width=ESCAPE_WIDTH, sharex=False)
    middle.sharex(upper)
    upper.hist(times, bins="fd", density=True, color=COLORS[5], alpha=0.7, label="networks")
    upper.set_ylabel("density of\nescape times")
    middle.plot(times, law.cdf(times), color=COLORS[0], linewidth=1.8, drawstyle="steps-post", label="networks")
    middle.set(ylim=(0.0, 1.02), xlabel=text.TIME, ylabel="share that\nhas escaped")
    for axes in (upper, middle):
        if law.theory is not None:
            label = "theory for this\ninitial condition"
            axes.axvline(law.theory, color=COLORS[1], linewidth=1.4, linestyle=DASHES[1], label=label)
        axes.axvline(np.median(law.times), color=INK, linewidth=1.0, linestyle=DASHES[2], label="median")
    chosen, more = list(law.permutations.items())[:BARS], len(law.permutations) - BARS
    names = [("" if len(p) < 10 else ",").join(str(m + 1) for m in p) for p, _ in chosen]
    lower.bar(np.arange(len(chosen)), [share for _, share in chosen], color=COLORS[2], width=0.6)
    lower.set_xticks(np.arange(len(chosen)), names, rotation=90 if len(chosen) > 8 else 0)
    lower.set(xlim=(-0.6, max(len(chosen), 4) - 0.4), ylabel="probability")
    lower.set_ylim(bottom=0.0)
    lower.grid(False, axis="x")
    rest = f" ({more} rarer ones not shown)" if more > 0 else ""
    units = ", ".join(str(k + 1) for k in range(law.teachers.shape[1]))
    xlabel = f"teacher units of the student units {units}{rest}"
    how = f"$N={law.dim}$, asymmetry/noise = {law.start_to_noise:.2g}: {law.words}"
    small = ", ".join([*text.problem_in_words(law.problem), how])
    return finish([upper, middle, lower], xlabel, title, "When networks escape, and where to", small)


# Protocols


@figure_of("what optimize returned", "schedules", "baselines", "trajectory", "sensitivity", "bounds")
def plot_protocol(found: Any, *, title: str | None = None) -> Figure:
    """Draw the controls and the error of what `optimize` returned, compared with its baselines.

    A band around a control shows how far one segment may move alone before the objective grows by 1%. The error is the mean
    over tasks; thin lines are single tasks.
    """
    grid, times = column([*[1.7] * len(found.schedules), 2.5], title), np.linspace(0.0, found.trajectory.times[-1], 401)
    looks: list[Look] = [{"color": color, "linewidth": 1.3, "linestyle": DASHES[1]} for color in COLORS[1:]]
    for axes, (name, schedule) in zip(grid, found.schedules.items(), strict=False):
        values = _over_time(schedule, times)
        if values.ndim == 1:
            _draw_band(axes, found, name, times)
        for i, row in enumerate(np.atleast_2d(values.T)):
            label = "protocol" if values.ndim == 1 else f"protocol, task {i + 1}"
            axes.plot(times, row, label=label, zorder=3, linewidth=2.0, color=COLORS[0], linestyle=DASHES[i % len(DASHES)])
        for (other, one), look in zip(found.baselines.items(), looks, strict=False):
            if name in one.controls and values.ndim == 1:
                axes.plot(times, _over_time(one.controls[name], times), label=other, **look)
        axes.set_ylabel(text.parameter_label(name))
        axes.set_ylim(bottom=min(0.0, values.min()))
    below, seen = grid[-1], []
    curves = {"protocol": found.trajectory, **{name: one.trajectory for name, one in found.baselines.items()}}
    for (name, curve), look in zip(curves.items(), [{"color": COLORS[0], "linewidth": 2.0}, *looks], strict=False):
        error = np.asarray(curve.error)
        if error.ndim > 1 and name == "protocol":
            below.plot(curve.times, error, color=COLORS[0], linewidth=0.7)
        seen.append(error if error.ndim == 1 else error.mean(axis=1))
        below.plot(curve.times, seen[-1], label=name, **look)
    panels.scale_error(below, np.concatenate(seen), text.ERROR_IN_TWO_LINES)
    gains = {name: gain for name, gain in found.gains.items() if np.isfinite(gain)}
    outcome = "; ".join(f"{gain:.3g} times below {name}" for name, gain in gains.items())
    who, small = text.problem_in_words(found.problem)[0], str(found).splitlines()[0]
    return finish(grid, text.TIME, title, who, small, text.capital(outcome))


def _over_time(value: Any, times: np.ndarray) -> np.ndarray:
    """A number or a schedule at times; of tasks the share of the first of two, or (time, task) of more."""
    from tutelage.problem.schedules import rate_at

    if not hasattr(value, "probabilities"):
        return np.array([np.ravel(rate_at(value, t))[0] for t in times])
    shares = np.array([value.probabilities(t, value.needs) for t in times])
    return shares[:, 0] if value.needs == 2 else shares


def _draw_band(axes: Axes, found: Any, name: str, times: np.ndarray) -> None:
    """Around each segment or knot what it may move at a cost of 1%: a parabola inside the bounds, a line at a bound."""
    schedule, (low, high) = getattr(found.schedules[name], "shares", found.schedules[name]), found.bounds[name]
    values, cost = np.asarray(schedule.values), np.maximum(found.sensitivity[name] / 0.01, 1e-6)
    at_bound = np.minimum(values - low, high - values) < 1e-3 * (high - low)
    width = 0.05 * (high - low) * np.where(at_bound, 1 / cost, 1 / np.sqrt(cost))
    places = next(iter(vars(schedule).values()))
    moved = [type(schedule)(places, np.clip(values + side * width, low, high)) for side in (-1.0, 1.0)]
    low, high = (_over_time(each, times) for each in moved)
    axes.fill_between(times, low, high, color=COLORS[0], alpha=0.15, linewidth=0, label="costs 1%")


# Several tasks


@figure_of("what forgetting returned", "left", "amount", "learned", "trajectory")
def plot_forgetting(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the error of each task, a mark where the task was left, and an arrow of the length of its forgetting."""
    (axes,) = column([3.0], title, ax=ax)
    end, outcome = result.times[-1], []
    for task, curve in enumerate(result.error.T):
        axes.plot(result.times, curve, label=f"task {task + 1}", **line_look(task))
        if result.left[task] < end:
            learned, color = result.learned[task], color_at(task)
            axes.plot([result.left[task]], [learned], MARKERS[task % len(MARKERS)], color=color, markersize=6)
            axes.axhline(learned, color=color, linewidth=0.7, linestyle=DASHES[2])
            arrow = {"arrowstyle": "<->", "color": color, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (end, learned), (end, result.final[task]), arrowprops=arrow)
            outcome.append(f"Forgetting of task {task + 1}: {result.amount[task]:.4g}")
    mark_switches(axes, result.trajectory)
    axes.set_ylabel(text.ERROR_IN_TWO_LINES)
    axes.set_ylim(bottom=0.0)
    head = text.title_and_conditions(result.trajectory)
    return finish([axes], text.TIME, title, *head, ", ".join(outcome or ["No task is left"]))


@figure_of("what transfer returned", "after", "scratch", "theory", "alone")
def plot_transfer(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the error of a task against the time since it began, after other tasks and from scratch."""
    times, curves = np.asarray(result.theory.times), np.asarray(result.theory.error)[:, result.task]
    later = times >= result.begin
    after = "after the other tasks", times[later] - result.begin, curves[later], result.after
    scratch = "from scratch", np.asarray(result.alone.times), np.asarray(result.alone.error), result.scratch
    return _draw_race(result, (after, scratch), title, result.theory, ax)


@figure_of("what savings returned", "first", "again", "begins", "trajectory")
def plot_savings(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the error of a task against the time since it began, at first and when it returns."""
    times, error, (first, last) = result.times, result.error[:, result.task], result.begins
    early, late = (times >= first) & (times <= first + times[-1] - last), times >= last
    returns = "when it returns", times[late] - last, error[late], result.again
    begins = "at first", times[early] - first, error[early], result.first
    return _draw_race(result, (returns, begins), title, result.trajectory, ax)


def _draw_race(result: Any, pairs: Any, title: str | None, trajectory: Any, ax: Axes | None) -> Figure:
    """Two learning curves of one task from their own beginnings, with the times at which they reach the target."""
    (axes,) = column([3.0], title, ax=ax)
    end = max(x[-1] for _, x, *_ in pairs if x.size)
    last = max((r for *_, r in pairs if r is not None), default=0.0)
    for i, (name, x, y, time) in enumerate(pairs):
        axes.plot(x, y, label=name, **line_look(i))
        if time is not None:
            axes.plot([time], [result.target], MARKERS[i], color=COLORS[i], markersize=6)
    axes.axhline(result.target, color=FAINT, linewidth=0.9, linestyle=DASHES[2], label=f"target {result.target:.3g}")
    axes.set_xlim(0.0, min(end, 3 * last) if last > 0 else end)
    panels.scale_error(axes, np.concatenate([y for _, _, y, _ in pairs]), text.ERROR_IN_TWO_LINES)
    time = r"time $\alpha$ since the task began"
    return finish([axes], time, title, *text.title_and_conditions(trajectory), text.capital(str(result)))


@figure_of("what interference returned", "similarity", "forgetting", "left")
def plot_interference(result: Any, *, title: str | None = None) -> Figure:
    """Draw forgetting, and the final errors, against the similarity of the tasks."""
    above, below = column([2.6, 2.0], title)
    for task in range(result.final.shape[1]):
        label, look = f"task {task + 1}", line_look(task)
        below.plot(result.similarity, result.final[:, task], label=label, **look)
        if result.left[task] < result.times[-1]:
            above.plot(result.similarity, result.forgetting[:, task], label=label, **look)
            V, amount = result.worst(task)
            above.plot([V], [amount], MARKERS[task % len(MARKERS)], color=look["color"], markersize=6)
    above.set_ylabel(r"forgetting, $\Delta\epsilon_g$")
    above.axhline(0.0, color=FAINT, linewidth=0.8)
    panels.scale_error(below, result.final, "final error")
    lines = [text.capital(line) for line in str(result).splitlines()[1:]]
    head = text.problem_in_words(result.problem, without=("similarity",))
    return finish([above, below], "similarity $V$ of the tasks", title, *head, lines)


@figure_of("what best_replay returned", "fractions", "final", "values", "fraction")
def plot_best_replay(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the final errors against the replay fraction, and their mean with its minimum."""
    (axes,) = column([3.0], title, ax=ax)
    for task in range(result.final.shape[1]):
        axes.plot(result.fractions, result.final[:, task], label=f"task {task + 1}", **line_look(task))
    axes.plot(result.fractions, result.values, color=INK, linewidth=1.4, linestyle=DASHES[3], label="mean")
    axes.plot([result.fraction], [result.value], "o", color=INK, markersize=6, label="best")
    panels.scale_error(axes, np.concatenate([result.final.ravel(), result.values]), "final error")
    head = text.problem_in_words(result.problem, without=("replay",))
    return finish([axes], "replay fraction", title, *head, text.capital(str(result)))


@figure_of("what node_reuse returned", "importance", "shares", "reuse", "times")
def plot_node_reuse(result: Any, *, title: str | None = None) -> Figure:
    """Draw the share of each unit in each task, and the re-use of each pair of tasks, as heat maps."""
    tasks, units = result.shares.shape
    names = [f"task {s + 1}" for s in range(tasks)]
    moments = [f"{name}, $\\alpha={t:g}$" for name, t in zip(names, result.times, strict=True)]
    share = "Share of a unit: the rise of the task's error if the unit is cut off."
    heading = "Which units serve which task" if title is None else title
    small = f"{share} Re-use: 1 for the same units, 0 for others."
    figure, ((left, right),) = panels.panel_grid(1, 2, heading, small, height=0.8 + 0.55 * tasks, width=8.4)
    heat_map(left, result.shares, moments, [f"unit {k + 1}" for k in range(units)])
    heat_map(right, result.reuse, names, names)
    panels.label_panel(left, "shares of the units")
    panels.label_panel(right, "re-use")
    return figure


# Fixed points, learning rates, curvatures


@figure_of("what fixed_point returned", "distinct", "R", "Q", "stability")
def plot_fixed_point(point: Any, *, title: str | None = None) -> Figure:
    """Draw the overlaps R and Q as heat maps, and every rate with what its modes do.

    Bars to the right grow, bars to the left decay; the axis is linear around zero and logarithmic beyond.
    """
    shown, more = point.distinct[:RATES], len(point.distinct) - RATES
    heights = [1.15, 2.5, 0.36 * len(shown) + 0.9]  # inches: of the head, the maps, the rates
    figure = Figure(figsize=(8.2, sum(heights)), layout="constrained")
    head, upper, lower = figure.subfigures(3, 1, squeeze=False, height_ratios=heights)[:, 0]
    top = head.add_axes((0.02, 0.0, 0.96, 0.01))
    top.set_axis_off()
    maps = list(upper.subplots(1, 2))
    image = draw_overlaps(maps, point.R, point.Q, point.problem)
    for axes in maps:
        axes.set_aspect("equal")
    upper.colorbar(image, ax=maps, shrink=0.9, pad=0.02).outline.set_visible(False)
    axes, rows = lower.subplots(), []
    for mode in shown:
        turning = f" ± {abs(np.imag(mode.rate)):.3g}i" if np.imag(mode.rate) else ""
        number = "0" if mode.name.startswith("moves along a flat") else f"{np.real(mode.rate):+.4g}"
        rows.append((float(np.real(mode.rate)), f"{number}{turning}{_times(mode)}: {mode.name}"))
    _draw_rows(axes, rows, COLORS[0], ALARM)
    rest = f"\n(and {more} that decay faster)" if more > 0 else ""
    axes.set_xlabel(r"rate: a deviation changes as $e^{\mathrm{rate}\,\alpha}$ (left: fades, right: grows)" + rest)
    who, how = text.problem_in_words(point.problem)
    small = f"{how}{', gradient flow' if point.gradient_flow else ''}, $\\epsilon_g$ = {point.error:.6g}"
    default, alarm = f"A fixed point: {who[0].lower()}{who[1:]}", bool(point.unstable)
    return finish([top], "", title, default, small, point.stability, alarm=alarm, line=112)


def _times(family: Any) -> str:
    """How often an eigenvalue occurs, if more than once."""
    return f" (×{family.multiplicity})" if family.multiplicity > 1 else ""


def _draw_rows(axes: Axes, rows: Sequence[tuple[float, str]], below: str, above: str) -> None:
    """A bar for each value, from the top, with its label to the right; below, above: colors on either side of zero.

    The axis is linear around zero and logarithmic beyond the smallest value; rounding is zero.
    """
    values, places = np.array([value for value, _ in rows]), np.arange(len(rows))
    values[np.abs(values) <= 1e-9 * np.max(np.abs(values))] = 0.0
    smallest = float(np.min(np.abs(values[values != 0]), initial=np.max(np.abs(values)) or 1.0))
    axes.barh(places, values, color=[above if v > 0 else below if v < 0 else FAINT for v in values], height=0.6)
    axes.plot(values, places, linestyle="none", marker="o", markersize=4, color=INK)
    axes.axvline(0.0, color=INK, linewidth=0.9)
    axes.set_xscale("symlog", linthresh=10 ** np.floor(np.log10(smallest)), linscale=0.6)
    axes.margins(x=0.04)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.yaxis.tick_right()
    axes.spines["left"].set_visible(False)
    axes.set_yticks(places, [textwrap.fill(label, 58) for _, label in rows])
    axes.tick_params(axis="y", length=0)


@figure_of("what critical_learning_rate or decay_rate returned", "problem", "rate", "decay_curves")
def plot_decay_rates(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw asymptotic decay rates of the error against constant learning rates, the critical one marked."""
    rates, inside, outside = result.decay_curves()
    total = np.minimum(2 * inside, outside)
    (axes,) = column([3.3], title, ax=ax)
    axes.plot(rates, 2 * inside, color=COLORS[2], linestyle=DASHES[1], linewidth=1.3, label="inside the span, squared")
    axes.plot(rates, outside, color=COLORS[3], linestyle=DASHES[2], linewidth=1.6, label="outside the span")
    axes.plot(rates, total, color=COLORS[0], linewidth=2.4, label="the error: the slower")
    axes.axhline(0.0, color=INK, linewidth=0.8)
    right, top = float(rates[-1]), float(np.max(total))
    bottom, point = -0.25 * top, None
    if result.point:
        point = result.learning_rate, result.rate, result.point
        right, bottom = max(right, 1.05 * result.learning_rate), min(bottom, 1.1 * result.rate)
    axes.set(xlim=(0.0, right), ylim=(bottom, max(1.6 * top, 1e-12)))
    axes.set_ylabel("decay rate of the error\n" + r"$-\mathrm{d}\,\ln\epsilon_g / \mathrm{d}\alpha$")
    default = "Asymptotic decay rate of the error"
    return _finish_rates(axes, result.problem, result.dynamics.critical_rate, point, title, default)


@figure_of("what noise_floor returned", "problem", "per_variance", "floors")
def plot_noise_floor(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw e_g(infinity) / sigma^2 to first order in sigma^2 against the learning rate."""
    rates, floors = result.floors()
    (axes,) = column([3.3], title, ax=ax)
    axes.plot(rates, floors, color=COLORS[0], linewidth=2.2, label="linear response")
    small = floors[0] / rates[0] * rates
    axes.plot(rates, small, color=FAINT, linestyle=DASHES[1], linewidth=1.2, label="small learning rates")
    if result.critical is not None:
        axes.set_xlim(0.0, 1.05 * result.critical)
    axes.set_ylim(0.0, max(6 * float(np.median(floors)), 1.2 * result.per_variance))
    axes.set_ylabel("error that label noise leaves\n" + r"$\epsilon_g(\infty) / \sigma^2$, as $\sigma \to 0$")
    point = result.learning_rate, result.per_variance, "this problem"
    return _finish_rates(axes, result.problem, result.critical, point, title, "What label noise leaves of the error")


def _finish_rates(axes: Axes, problem: Any, critical: float | None, point: Any, title: str | None, default: str) -> Figure:
    """Mark the critical rate and a point (rate, value, name), if there are any, and write the head."""
    if critical is not None:
        label = rf"critical rate $\eta_c$: {critical:.5g}"
        axes.axvline(critical, color=ALARM, linewidth=1.2, linestyle=DOTTED, label=label)
    if point is not None:
        x, y, name = point
        marker = "o" if name == "this problem" else "D"
        axes.plot([x], [y], marker, color=INK, markersize=6.5, zorder=4, label=f"{name}: {x:.4g}")
    small = ", ".join(text.problem_in_words(problem, without=("learning rate",)))
    return finish([axes], r"constant learning rate $\eta$", title, default, small)


@figure_of("a landscape or a critical point", "spectrum", "index", "flat", "error")
def plot_landscape(landscape: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the curvatures of what `landscape` or a critical point holds, lowest first, with multiplicity and family."""
    shown, more = landscape.spectrum[:FAMILIES], len(landscape.spectrum) - FAMILIES
    (axes,) = column([0.85 + 0.3 * max(len(shown), 4)], title, ax=ax)
    _draw_rows(axes, [(c.value, f"{c.value:+.4g}{_times(c)}: {c.family}") for c in shown], COLORS[1], COLORS[0])
    rest = f"\n(and {more} that are larger)" if more > 0 else ""
    xlabel = r"curvature $h$ of $\epsilon_g$ in $W/\sqrt{N}$ (left: down, right: up)" + rest
    what = landscape.name.capitalize() if hasattr(landscape, "name") else f"Landscape: {landscape.kind}"
    who, _ = text.problem_in_words(landscape.problem)
    small = rf"{who}; $N = {landscape.dim}$, $\epsilon_g$ = {landscape.error:.4g}"
    outcome = f"Of {landscape.parameters} directions {landscape.index} lead down and {landscape.flat} are flat"
    return finish([axes], xlabel, title, what, small, outcome, line=80)
