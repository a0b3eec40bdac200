"""Figures of learning curves with what an analysis found on them.

A curve is anything with times, error, variables, kind and problem; every result of these analyses has one.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot.axes import (
    column,
    figure_of,
    finish,
    is_log_spaced,
    mark_time,
    plain_dots,
    scale_error,
    scale_time,
    shade,
    spread_marks,
    write_head,
)
from tutelage.plot.labels import ERROR_IN_TWO_LINES, capital, time_label, title_and_conditions
from tutelage.plot.style import ALARM, COLORS, FAINT, INK, MARKERS, stroke
from tutelage.plot.trajectory import NAMED, SINGLE_RUNS, draw_panel, panels_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE_HEIGHT, PANEL_HEIGHT = 2.5, 1.8
POINTS = 200  # of a curve in closed form
PHASE_COLORS = {
    "search": FAINT,
    "symmetric plateau": COLORS[4],
    "plateau": COLORS[4],
    "escape": COLORS[5],
    "specialization": COLORS[5],
    "convergence": COLORS[2],
    "rise": COLORS[3],
    "noise floor": COLORS[1],
    "final level": COLORS[1],
    "divergence": ALARM,
}


def _panels(count: int, title: str | None) -> "tuple[Figure, list[Any]]":
    """A learning curve above and this many panels below, one time axis."""
    return column([CURVE_HEIGHT, *[PANEL_HEIGHT] * count], title)


def _finish(figure: "Figure", grid: list[Any], curve: Any, title: str | None, outcome: str) -> None:
    scale_time(grid[0], curve.times)
    if is_log_spaced(curve.times):
        grid[0].set_xlim(left=curve.times[curve.times > 0][0])
    finish(figure, grid, time_label(curve))
    write_head(grid[0], title, *title_and_conditions(curve), capital(outcome))


def _draw_error(axes: Any, curve: Any) -> None:
    axes.plot(curve.times, curve.error, color=COLORS[0], linewidth=1.0 if curve.kind == "simulation" else 2.0)
    axes.set_ylabel(ERROR_IN_TWO_LINES if curve.kind != "equations" else "error")
    scale_error(axes, curve.error)


@figure_of("what plateaus returned", "found", "curve", "share")
def plot_plateaus(result: Any, *, title: str | None = None) -> "Figure":
    """Draw the learning curve with its plateaus, the growth of the departure from each, and the overlaps.

    Shaded: where the error is within its share of the height. In the middle panel, what grows during the escape from a
    plateau, on a logarithmic axis, with the fitted exponential over the times of the fit. title: "" leaves the head out.
    """
    curve, panels = result.curve, panels_of(result.curve)[:1]
    growing = [p for p in result.found if p.departure is not None]
    figure, grid = _panels(bool(growing) + len(panels), title)
    _draw_error(grid[0], curve)
    for i, plateau in enumerate(result.found):
        label = f"within {100 * plateau.share:.3g}%\nof its height" if i == 0 else None
        for axes in grid:
            shade(axes, plateau.start, plateau.end, COLORS[4], label if axes is grid[0] else None)
        level = {"color": INK, "linewidth": 1.0, "linestyle": (0, (2, 2)), "label": f"height {plateau.height:.4g}"}
        grid[0].plot([plateau.start, plateau.end], [plateau.height] * 2, **level)
    if growing:
        _draw_departures(grid[1], curve.times, growing)
    for panel in panels:
        draw_panel(grid[-1], curve.times, panel)
    _finish(figure, grid, curve, title, "; ".join(str(result).split("\n")[:2]))
    return figure


def _draw_departures(axes: Any, times: np.ndarray, growing: list[Any]) -> None:
    for i, plateau in enumerate(growing):
        u, (first, last) = plateau.departure, plateau.growth_window
        visible = u > 0
        axes.plot(times[visible], u[visible], color=COLORS[i % 3], linewidth=1.6, label="departure $u$" if i == 0 else None)
        at = int(np.argmin(np.abs(times - (first + last) / 2)))
        fitted = u[at] * np.exp(plateau.growth_rate * (np.array([first, last]) - times[at]))
        name = rf"rate {plateau.growth_rate:.4g}"
        axes.plot([first, last], fitted, color=COLORS[1], linewidth=2.2, linestyle=(0, (3, 1.5)), label=name)
    axes.set_yscale("log")
    axes.set_ylabel("departure from\nthe plateau, $u$")


@figure_of("what phases returned", "intervals", "curve")
def plot_phases(result: Any, *, title: str | None = None) -> "Figure":
    """Draw learning curve and overlaps, shaded by phase, with the names in the legend. title: "" leaves the head out."""
    curve, panels = result.curve, panels_of(result.curve)[:1]
    figure, grid = _panels(len(panels), title)
    _draw_error(grid[0], curve)
    draw_phases(grid, result.intervals)
    for panel in panels:
        draw_panel(grid[-1], curve.times, panel)
    _finish(figure, grid, curve, title, ", ".join(phase.name for phase in result.intervals))
    return figure


def draw_phases(grid: Any, intervals: Any) -> None:
    """Shade every axes by phase; the first one names them."""
    seen: set[str] = set()
    for phase in intervals:
        color = PHASE_COLORS.get(phase.name, FAINT)
        for i, axes in enumerate(grid):
            shade(axes, phase.start, phase.end, color, phase.name if i == 0 and phase.name not in seen else None, 0.2)
            axes.axvline(phase.start, color=INK, linewidth=0.6, alpha=0.5)
        seen.add(phase.name)


@figure_of("what specialization returned", "index", "own", "permutation")
def plot_specialization(result: Any, *, title: str | None = None) -> "Figure":
    """Draw learning curve, specialization index and the cosines of assigned pairs. title: "" leaves the head out."""
    times, when = result.times, result.transition_time
    figure, grid = _panels(2, title)
    _draw_error(grid[0], result.curve)
    grid[1].plot(times, result.index, color=COLORS[2], linewidth=2.0, label="index")
    grid[1].axhline(0.5, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)), label="one half")
    grid[1].set(ylim=(-0.03, 1.03), ylabel="specialization\nindex")
    pairs = [(k, m) for k, m in enumerate(result.permutation) if m >= 0]
    for i, (k, m) in enumerate(pairs):
        look = stroke(k, i) | {"markevery": spread_marks(times, i, len(pairs))}
        look = look if len(pairs) <= NAMED else {"color": COLORS[k % len(COLORS)], "linewidth": 1.0}
        sign = "−" if result.signs[k] < 0 else ""
        grid[2].plot(times, result.own[:, i], label=f"student {k + 1}, teacher {sign}{m + 1}", **look)
    grid[2].set_ylabel("cosine with\nits own teacher")
    if when is not None:
        for axes in grid:
            mark_time(axes, when, f"transition, {when:.4g}" if axes is grid[0] else None)
    _finish(figure, grid, result.curve, title, str(result).split("\n")[0])
    return figure


@figure_of("what early_stopping returned", "bracket", "gain", "curve")
def plot_early_stopping(result: Any, *, title: str | None = None) -> "Figure":
    """Draw the learning curve with the smallest and the last error marked. title: "" leaves the head out."""
    figure, grid = _panels(0, title)
    axes = grid[0]
    _draw_error(axes, result.curve)
    axes.plot([result.time], [result.value], "o", color=COLORS[2], markersize=7, label=f"smallest, {result.value:.4g}")
    if result.inside:
        name = f"at the end, {result.end_value:.4g}"
        axes.plot([result.end_time], [result.end_value], "s", color=ALARM, markersize=6, label=name)
        axes.axhline(result.value, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
        mark_time(axes, result.time, f"stop at {result.time:.4g}")
        shade(axes, result.time, result.end_time, ALARM, "error grows again", 0.08)
    _finish(figure, grid, result.curve, title, str(result))
    return figure


@figure_of("the answers of several runs", "answers", "marks")
def plot_per_run(result: Any, *, title: str | None = None) -> "Figure":
    """Draw the learning curves of the runs with their marks, one color per kind. title: "" leaves the head out."""
    curves = [answer.curve for answer in result.answers[:SINGLE_RUNS]]
    figure, grid = _panels(0, title)
    for i, curve in enumerate(curves):
        grid[0].plot(curve.times, curve.error, color=FAINT, linewidth=0.7, label="runs" if i == 0 else None)
    found = []
    for place, (name, times) in enumerate(result.marks.items()):
        t = times[np.isfinite(times)]
        found.append(f"{name} at {t.mean():.4g}" + (f" ± {t.std(ddof=1):.2g}" if t.size > 1 else ""))
        marks = [(t, np.interp(t, c.times, c.error)) for t, c in zip(times, curves, strict=False) if np.isfinite(t)]
        if marks:
            grid[0].plot(
                *zip(*marks, strict=True), **plain_dots(place, 4.5, MARKERS[place % len(MARKERS)]), zorder=3, label=name
            )
    grid[0].set_ylabel(ERROR_IN_TWO_LINES)
    scale_error(grid[0], np.concatenate([curve.error for curve in curves]))
    _finish(figure, grid, curves[0], title, f"{len(result)} runs: " + ", ".join(found[:3]))
    return figure
