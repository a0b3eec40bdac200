"""Figures of escapes: one predicted escape with the growth that leads to it, and the law of escape times at finite N."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, outside_legend
from tutelage.plot.scales import scale_error
from tutelage.plot.style import COLORS, DASHES, FAINT, INK, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 7.2, 5.4
AFTER = 5.0  # e-folding times shown after the escape
FEW = 24  # permutations drawn one by one


def plot_escape_time(escape: Any, *, title: str | None = None) -> "Figure":
    """The predicted learning curve above, the growth of the asymmetry below, as a Matplotlib figure (see `save_figure`)."""
    require_fields("plot_escape_time", escape, ("time", "amplitude", "sizes", "errors"), "what escape_time returned")
    from tutelage.plot.figure import Figure

    shown = escape.times <= escape.time + AFTER / escape.rate
    times = escape.times[shown]
    with style():
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        upper.plot(times, escape.errors[shown], color=COLORS[0], linewidth=2.0, label="predicted")
        upper.axhline(escape.plateau.error, color=FAINT, linewidth=1.0, linestyle=DASHES[2], label="plateau")
        upper.plot([escape.time], [escape.threshold], "D", color=COLORS[1], markersize=6, label="escape")
        upper.set_ylabel(ERROR_IN_TWO_LINES)
        scale_error(upper, escape.errors[shown])
        _draw_growth(lower, escape, times, escape.sizes[shown])
        lower.set_xlabel(TIME)
        for axes in (upper, lower):
            axes.axvline(escape.time, color=COLORS[1], linewidth=0.8, linestyle=DASHES[1])
            outside_legend(axes)
        figure.align_ylabels([upper, lower])
        words = f"Escape at $\\alpha$ = {escape.time:.4g}"
        _head(upper, escape.plateau.problem, title or words, f"asymmetry of the start {escape.asymmetry:.2g}")
    return figure


def _draw_growth(axes: Any, escape: Any, times: np.ndarray, sizes: np.ndarray) -> None:
    """The carried asymmetry, and the exponential that it becomes on the plateau."""
    line = escape.amplitude * np.exp(escape.rate * times)
    axes.plot(times, line, color=INK, linewidth=1.0, linestyle=DASHES[1], label=f"amplitude\n× exp({escape.rate:.3g} α)")
    axes.plot(times, sizes, color=COLORS[2], linewidth=2.0, label="carried linearly")
    last = np.flatnonzero(np.isfinite(sizes))[-1]
    axes.plot(times[last], sizes[last], "o", color=COLORS[2], markersize=5, label="launched into\nthe exit")
    axes.set_yscale("log")
    axes.set_ylabel("asymmetry of\nthe overlaps")


def plot_escape_distribution(law: Any, *, title: str | None = None) -> "Figure":
    """Histogram and distribution function of the escape times, and the permutations, as a Matplotlib figure."""
    require_fields("plot_escape_distribution", law, ("times", "cdf", "permutations"), "what escape_distribution returned")
    from tutelage.plot.figure import Figure

    times = np.sort(law.times[np.isfinite(law.times)])
    with style():
        figure = Figure(figsize=(WIDTH, HEIGHT + 1.0), layout="constrained")
        upper, middle, lower = figure.subplots(3, 1, height_ratios=[1.2, 1.0, 1.0])
        middle.sharex(upper)
        upper.hist(times, bins="fd", density=True, color=COLORS[5], alpha=0.7, label="networks")
        upper.set_ylabel("density of\nescape times")
        middle.plot(times, law.cdf(times), color=COLORS[0], linewidth=1.8, drawstyle="steps-post", label="networks")
        middle.set_ylabel("share that\nhas escaped")
        middle.set_ylim(0.0, 1.02)
        middle.set_xlabel(TIME)
        for axes in (upper, middle):
            if law.theory is not None:
                axes.axvline(law.theory, color=COLORS[1], linewidth=1.4, linestyle=DASHES[1], label="theory of\nthe start")
            axes.axvline(np.median(law.times), color=INK, linewidth=1.0, linestyle=DASHES[2], label="median")
            outside_legend(axes)
        _draw_permutations(lower, law.permutations)
        figure.align_ylabels([upper, middle, lower])
        how = f"$N={law.dim}$, start / noise = {law.start_to_noise:.2g}: {law.words}"
        _head(upper, law.problem, title or "When networks escape, and where to", how)
    return figure


def _draw_permutations(axes: Any, permutations: dict[tuple[int, ...], float]) -> None:
    """A bar for each permutation: its name lists the teacher that each unit chooses, counted from one."""
    chosen = list(permutations.items())[:FEW]
    names = ["".join(str(m + 1) for m in p) if len(p) < 10 else ",".join(str(m + 1) for m in p) for p, _ in chosen]
    axes.bar(np.arange(len(chosen)), [share for _, share in chosen], color=COLORS[2], width=0.6)
    axes.set_xticks(np.arange(len(chosen)), names, rotation=90 if len(chosen) > 8 else 0)
    axes.set_xlim(-0.6, max(len(chosen), 4) - 0.4)
    axes.grid(False, axis="x")
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("probability")
    more = len(permutations) - len(chosen)
    rest = f" ({more} rarer ones not shown)" if more > 0 else ""
    axes.set_xlabel(f"teachers, counted from 1, that units 1, 2, ... choose{rest}")


def _head(axes: Any, problem: Any, title: str, how: str) -> None:
    who, conditions = problem_in_words(problem)
    write_head(axes, [(title, TITLE), (f"{who}, {conditions}, {how}", SMALL)])
