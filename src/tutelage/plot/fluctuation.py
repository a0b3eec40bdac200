"""The figure of fluctuations: the curve of the limit in a band that holds most single networks of this size."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, outside_legend
from tutelage.plot.panels import FEW, LABELS, curves_of, shared_look
from tutelage.plot.scales import is_log_spaced, scale_error, scale_overlaps
from tutelage.plot.style import ALARM, COLORS, stroke, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, CURVE_HEIGHT, PANEL_HEIGHT, SPREAD_HEIGHT, TITLE_HEIGHT = 7.4, 2.4, 1.9, 1.4, 1.1
WIDE = 2.0  # standard deviations to either side
PALE, PALER = 0.22, 0.12  # bands of few curves, and of many that overlap


def plot_fluctuations(result: Any, *, title: str | None = None) -> "Figure":
    """Error and order parameters with bands of two standard deviations, and below them sd(e_g) / e_g.

    Takes what `fluctuations` returned. title: "" leaves the head out.
    """
    require_fields("plot_fluctuations", result, ("theory", "sd", "dim", "scaled"), "what fluctuations returned")
    from tutelage.plot.figure import Figure

    times, theory = np.asarray(result.times), result.theory
    shown = times > 0 if is_log_spaced(times) else np.ones(times.size, bool)
    names = ["R", "Q", *(n for n in ("readout", "bias") if n in theory.variables and np.max(result.sd(n)) > 0)]
    heights = [CURVE_HEIGHT, *[PANEL_HEIGHT] * len(names), SPREAD_HEIGHT]
    with style():
        figure = Figure(figsize=(WIDTH, (0.35 if title == "" else TITLE_HEIGHT) + sum(heights)), layout="constrained")
        grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        _draw_error(grid[0], times[shown], np.asarray(theory.error)[shown], result.sd("error")[shown])
        for axes, name in zip(grid[1:], names, strict=False):
            _draw_overlaps(axes, times[shown], name, np.asarray(theory[name])[shown], result.sd(name)[shown])
        _draw_spread(grid[-1], times[shown], np.asarray(theory.error)[shown], result.sd("error")[shown])
        if not shown.all():
            grid[0].set_xscale("log")
        grid[-1].set_xlabel(TIME)
        figure.align_ylabels(list(grid))
        if title != "":
            _head(grid[0], result, title)
    return figure


def _draw_error(axes: Any, times: np.ndarray, error: np.ndarray, sd: np.ndarray) -> None:
    low = np.maximum(error - WIDE * sd, 1e-3 * error)  # a band that reaches zero has no end on a logarithmic axis
    axes.fill_between(times, low, error + WIDE * sd, color=COLORS[0], alpha=PALE, linewidth=0, label="± 2 std. deviations")
    axes.plot(times, error, color=COLORS[0], linewidth=1.8, label=r"theory, $N \to \infty$")
    axes.set_ylabel(ERROR_IN_TWO_LINES)
    scale_error(axes, error)
    outside_legend(axes)


def _draw_overlaps(axes: Any, times: np.ndarray, name: str, values: np.ndarray, sd: np.ndarray) -> None:
    lines, widths = curves_of(name, values[None]), curves_of(name, sd[None])
    groups, few, seen = list(dict.fromkeys(line.group for line in lines)), len(lines) <= FEW, set()
    pale = PALE if len(lines) <= len(COLORS) // 2 else PALER
    for line, width in zip(lines, widths, strict=True):
        named = {k: v for k, v in stroke(line.unit, line.partner).items() if not k.startswith("mark")}
        look = named if few else shared_look(groups, line)
        label = line.label if few else (None if line.group in seen or len(groups) > len(COLORS) else line.group)
        seen.add(line.group)
        middle, half = line.values[0], WIDE * width.values[0]
        axes.fill_between(times, middle - half, middle + half, color=look["color"], alpha=pale, linewidth=0)
        axes.plot(times, middle, label=label, **look)
    axes.set_ylabel(LABELS[name])
    scale_overlaps(axes, values)
    outside_legend(axes)


def _draw_spread(axes: Any, times: np.ndarray, error: np.ndarray, sd: np.ndarray) -> None:
    axes.plot(times, sd / np.maximum(error, 1e-300), color=COLORS[0], linewidth=1.4)
    axes.set_ylabel("relative scatter\n" + r"sd$(\epsilon_g)\,/\,\epsilon_g$")
    axes.set_ylim(bottom=0.0)


def _head(axes: Any, result: Any, title: str | None) -> None:
    who, how = problem_in_words(result.theory.problem)
    parts = [(title or who, TITLE), (f"{how}; scatter of single networks with $N={result.dim}$", SMALL)]
    alarm = SMALL | {"color": ALARM, "fontweight": "bold"}
    write_head(axes, parts + [(doubt[0].upper() + doubt[1:], alarm) for doubt in result.doubts()])
