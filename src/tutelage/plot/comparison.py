"""The figure of a comparison: theory as lines, the runs as bands and marks, z-scores below, one time axis."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import TIME, error_label, outside_legend
from tutelage.plot.panels import FEW, LABELS, Curve, curves_of, shared_look, spread_marks
from tutelage.plot.scales import is_log_spaced, scale_error, scale_overlaps
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK, stroke, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, CURVE_HEIGHT, PANEL_HEIGHT, SCORE_HEIGHT, TITLE_HEIGHT = 7.4, 2.6, 2.0, 1.5, 1.1
THIN_RUNS = 40  # single runs drawn behind the band
MARKS = 8  # marks of the runs' mean on each curve of the overlaps
SCATTER = "± 2 std. dev. of\nsingle runs, theory"
LIMIT, MANY = 4.0, 12.0  # z-scores: the line that is drawn, and where the axis turns logarithmic


def plot_comparison(comparison: Any, *, title: str | None = None) -> "Figure":
    """Learning curve, overlaps and z-scores of what `compare` returned, as a Matplotlib figure (see `save_figure`).

    Lines are the theory; bands are the mean over runs with two standard errors to either side, marks that mean; thin gray
    lines single runs, and the pale band behind them where the theory expects 95 of 100 of them. Below, the largest |z| among
    the entries of each quantity. Where noise decides the escape, short strokes mark when each run escapes, and the times
    after the first departure are shaded. title: "" leaves the head out.
    """
    require_fields("plot_comparison", comparison, ("gaps", "verdict", "times"), "what compare returned")
    from tutelage.plot.figure import Figure

    times = comparison.times
    shown = times > 0 if is_log_spaced(times) else np.ones(times.size, bool)
    names = [name for name in comparison.gaps if name != "error"]
    scores = [SCORE_HEIGHT] if comparison.count > 1 else []
    heights = [CURVE_HEIGHT, *[PANEL_HEIGHT] * len(names), *scores]
    with style():
        figure = Figure(figsize=(WIDTH, (0.35 if title == "" else TITLE_HEIGHT) + sum(heights)), layout="constrained")
        grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        _draw_error(grid[0], times, comparison, shown)
        for axes, name in zip(grid[1:], names, strict=False):
            _draw_overlaps(axes, times, comparison.gaps[name], shown)
        if scores:
            _draw_scores(grid[-1], times, comparison, shown)
        if not shown.all():
            grid[0].set_xscale("log")
        known = comparison.theory.problem is not None
        grid[-1].set_xlabel(TIME if known else "time")
        figure.align_ylabels(list(grid))
        if title != "":
            _head(grid[0], comparison, title)
    return figure


def _draw_error(axes: Any, times: np.ndarray, comparison: Any, shown: np.ndarray) -> None:
    gap, count = comparison.gaps["error"], comparison.count
    t = times[shown]
    if comparison.scatter is not None:
        _draw_scatter(axes, t, gap.theory[shown], comparison.scatter.predicted[shown])
    if count > 1:
        for i, run in enumerate(gap.runs[:THIN_RUNS, shown]):
            axes.plot(t, run, color=FAINT, linewidth=0.5, alpha=0.5, label="single runs" if i == 0 else None)
    _band(axes, t, gap.mean[shown], gap.standard_error[shown], COLORS[1], "± 2 std. errors" if count > 1 else None)
    axes.plot(t, gap.theory[shown], color=COLORS[0], linewidth=1.8, label="theory")
    marks = {
        "marker": "o",
        "markersize": 4.2,
        "markerfacecolor": "white",
        "markevery": spread_marks(t, 0, 1, 2 * MARKS) or None,
    }
    axes.plot(
        t,
        gap.mean[shown],
        color=COLORS[1],
        linestyle="none",
        zorder=3,
        **marks,
        label="mean of runs" if count > 1 else "run",
    )
    axes.set_ylabel(error_label(comparison.theory))
    scale_error(axes, np.concatenate([gap.theory[None], gap.runs])[:, shown])
    if comparison.escape is not None and comparison.escape.by_noise:
        _draw_escapes(axes, comparison.escape)
    outside_legend(axes)


def _draw_scatter(axes: Any, times: np.ndarray, theory: np.ndarray, sd: np.ndarray) -> None:
    """Where the theory expects most single runs, pale, behind everything."""
    low = np.maximum(theory - 2 * sd, 1e-3 * theory)  # a band that reaches zero has no end on a logarithmic axis
    axes.fill_between(times, low, theory + 2 * sd, color=COLORS[0], alpha=0.2, linewidth=0, zorder=0.5, label=SCATTER)


def _band(axes: Any, times: np.ndarray, mean: np.ndarray, error: np.ndarray, color: str, label: str | None) -> None:
    axes.plot(times, mean, color=color, linewidth=0.9, alpha=0.9)
    low = np.maximum(mean - 2 * error, np.minimum(mean, 0.0) + 0.01 * np.abs(mean))  # a logarithmic axis has no zero
    axes.fill_between(times, low, mean + 2 * error, color=color, alpha=0.35, linewidth=0, label=label)


def _draw_escapes(axes: Any, escape: Any) -> None:
    """When each run, and the theory, falls below the threshold."""
    y = np.full(escape.escaped.size, escape.threshold)
    axes.plot(escape.escaped, y, "|", color=INK, markersize=9, markeredgewidth=1.0, label="runs escape")
    if np.isfinite(escape.theory):
        axes.plot([escape.theory], [escape.threshold], "D", color=COLORS[0], markersize=5.5, label="theory escapes")


def _draw_overlaps(axes: Any, times: np.ndarray, gap: Any, shown: np.ndarray) -> None:
    theory, runs = curves_of(gap.name, gap.theory[None]), curves_of(gap.name, gap.runs)
    groups, seen, t = list(dict.fromkeys(c.group for c in theory)), set(), times[shown]
    few = len(theory) <= FEW
    for i, (line, cloud) in enumerate(zip(theory, runs, strict=True)):
        look = _look(line) if few else shared_look(groups, line)
        label = line.label if few else (None if line.group in seen or len(groups) > len(COLORS) else line.group)
        seen.add(line.group)
        mean = cloud.values.mean(axis=0)[shown]
        if few and len(cloud.values) > 1:
            error = cloud.values.std(axis=0, ddof=1)[shown] / np.sqrt(len(cloud.values))
            axes.fill_between(t, mean - 2 * error, mean + 2 * error, color=look["color"], alpha=0.25, linewidth=0)
        marker = stroke(line.unit)["marker"] if few else "."
        every = spread_marks(t, i, len(theory), MARKS) or None
        face = {"markerfacecolor": "white"} if few else {}
        axes.plot(
            t, mean, color=look["color"], linestyle="none", marker=marker, markersize=3.8, markevery=every, zorder=3, **face
        )
        axes.plot(t, line.values[0][shown], label=label, **look)
    axes.set_ylabel(LABELS.get(gap.name, gap.name))
    scale_overlaps(axes, gap.theory)
    outside_legend(axes)


def _look(curve: Curve) -> dict[str, Any]:
    """The stroke of a curve without its marks: those are the runs'."""
    return {name: value for name, value in stroke(curve.unit, curve.partner).items() if not name.startswith("mark")}


def _draw_scores(axes: Any, times: np.ndarray, comparison: Any, shown: np.ndarray) -> None:
    largest = 0.0
    for i, (name, gap) in enumerate(comparison.gaps.items()):
        worst = np.max(np.abs(gap.entries(gap.z)), axis=1)[shown]
        largest = max(largest, float(np.max(worst, initial=0.0)))
        label = f"{name}, worst of {len(gap.labels())}" if len(gap.labels()) > 1 else name
        axes.plot(times[shown], worst, color=COLORS[i], linestyle=DASHES[i % len(DASHES)], linewidth=1.2, label=label)
    axes.axhline(LIMIT, color=ALARM, linewidth=1.0, linestyle=(0, (2, 2)), label=f"|z| = {LIMIT:g}")
    left_out = times[~comparison.verdict.counted]
    if left_out.size:
        axes.axvspan(float(left_out[0]), float(left_out[-1]), color=FAINT, alpha=0.18, linewidth=0, label="not counted")
    axes.set_ylabel("z-score\nof the gap, |z|")
    if largest > MANY:
        axes.set_yscale("log")
        axes.set_ylim(0.1, 60.0)
    else:
        axes.set_ylim(0.0, max(5.0, 1.15 * largest))
    outside_legend(axes)


def _head(axes: Any, comparison: Any, title: str | None) -> None:
    problem, verdict = comparison.theory.problem, comparison.verdict
    who, how = ("A system of one's own", "") if problem is None else problem_in_words(problem)
    runs = f"{comparison.count} run{'s' if comparison.count > 1 else ''}"
    size = f" of N = {comparison.dim}" if comparison.dim is not None else ""
    outcome = f"Theory and {runs}: {verdict.outcome}"
    alarm = {"color": ALARM} if verdict.outcome.startswith("differ") else {}
    small = ", ".join(part for part in (how, f"{runs}{size}") if part)
    write_head(axes, [(title or who, TITLE), (small, SMALL), (outcome, SMALL | {"fontweight": "bold"} | alarm)])
