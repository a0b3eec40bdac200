"""Figures of escapes: one predicted escape with the growth that leads to it, and the law of escape times at finite N."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot.axes import column, figure_of, finish, outside_legend, scale_error, write_head
from tutelage.plot.labels import ERROR_IN_TWO_LINES, TIME, problem_in_words
from tutelage.plot.style import COLORS, DASHES, FAINT, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 7.2
AFTER = 5.0  # e-folding times shown after the escape
BARS = 24  # permutations drawn one by one


@figure_of("what escape_time returned", "time", "amplitude", "sizes", "errors")
def plot_escape_time(escape: Any, *, title: str | None = None) -> "Figure":
    """Draw the predicted learning curve above, the growth of the asymmetry below."""
    shown = escape.times <= escape.time + AFTER / escape.rate
    times, errors, sizes = escape.times[shown], escape.errors[shown], escape.sizes[shown]
    figure, (upper, lower) = column([2.25, 2.25], title, width=WIDTH)
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
    finish(figure, [upper, lower], TIME)
    small = ", ".join([*problem_in_words(escape.plateau.problem), f"asymmetry of the start {escape.asymmetry:.2g}"])
    write_head(upper, title, f"Escape at $\\alpha$ = {escape.time:.4g}", small)
    return figure


@figure_of("what escape_distribution returned", "times", "cdf", "permutations")
def plot_escape_distribution(law: Any, *, title: str | None = None) -> "Figure":
    """Draw histogram and distribution function of the escape times, and the permutations."""
    times = np.sort(law.times[np.isfinite(law.times)])
    room = 5.5 / 3.2  # inches per unit of height
    figure, (upper, middle, lower) = column([1.2 * room, room, room], title, width=WIDTH, sharex=False)
    middle.sharex(upper)
    upper.hist(times, bins="fd", density=True, color=COLORS[5], alpha=0.7, label="networks")
    upper.set_ylabel("density of\nescape times")
    middle.plot(times, law.cdf(times), color=COLORS[0], linewidth=1.8, drawstyle="steps-post", label="networks")
    middle.set(ylim=(0.0, 1.02), xlabel=TIME, ylabel="share that\nhas escaped")
    for axes in (upper, middle):
        if law.theory is not None:
            axes.axvline(law.theory, color=COLORS[1], linewidth=1.4, linestyle=DASHES[1], label="theory of\nthe start")
        axes.axvline(np.median(law.times), color=INK, linewidth=1.0, linestyle=DASHES[2], label="median")
        outside_legend(axes)
    _draw_permutations(lower, law.permutations)
    figure.align_ylabels([upper, middle, lower])
    how = f"$N={law.dim}$, start / noise = {law.start_to_noise:.2g}: {law.words}"
    write_head(upper, title, "When networks escape, and where to", ", ".join([*problem_in_words(law.problem), how]))
    return figure


def _draw_permutations(axes: Any, permutations: dict[tuple[int, ...], float]) -> None:
    """A bar for each permutation: its name lists the teacher that each unit chooses, counted from one."""
    chosen = list(permutations.items())[:BARS]
    names = [("" if len(p) < 10 else ",").join(str(m + 1) for m in p) for p, _ in chosen]
    axes.bar(np.arange(len(chosen)), [share for _, share in chosen], color=COLORS[2], width=0.6)
    axes.set_xticks(np.arange(len(chosen)), names, rotation=90 if len(chosen) > 8 else 0)
    axes.set_xlim(-0.6, max(len(chosen), 4) - 0.4)
    axes.grid(False, axis="x")
    axes.set_ylim(bottom=0.0)
    more = len(permutations) - len(chosen)
    rest = f" ({more} rarer ones not shown)" if more > 0 else ""
    axes.set(xlabel=f"teachers, counted from 1, that units 1, 2, ... choose{rest}", ylabel="probability")
