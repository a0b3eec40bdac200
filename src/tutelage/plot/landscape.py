"""The figure of a Hessian spectrum: one line per family of directions, its curvature and how many share it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.style import COLORS, FAINT, INK, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, ROW, FRAME = 7.4, 0.23, 1.75
FEW = 16  # families named one by one; more are drawn as one staircase
WAYS = (("down", COLORS[1], "v"), ("flat", FAINT, "o"), ("up", COLORS[0], "^"))


def plot_landscape(landscape: Any, *, title: str | None = None) -> "Figure":
    """Every curvature of what `landscape` or a critical point holds, lowest on top, with multiplicity and family."""
    require_fields("plot_landscape", landscape, ("spectrum", "index", "error"), "a landscape or a critical point")
    from tutelage.plot.figure import Figure

    few = len(landscape.spectrum) <= FEW
    height = FRAME + ROW * max(len(landscape.spectrum), 6) if few else FRAME + 3.0
    with style():
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots()
        (_rows if few else _staircase)(axes, landscape.spectrum)
        _legend(axes, landscape.spectrum)
        _head(axes, landscape, title)
    return figure


def _way(value: float) -> tuple[str, str, str]:
    return WAYS[int(np.sign(value)) + 1]


def _rows(axes: Any, spectrum: Any) -> None:
    """Families as rows."""
    values = np.array([c.value for c in spectrum])
    places = np.arange(len(spectrum))
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.hlines(places, 0.0, values, color=[_way(v)[1] for v in values], linewidth=1.4)
    for place, c in zip(places, spectrum, strict=True):
        _, color, marker = _way(c.value)
        axes.plot([c.value], [place], marker, color=color, markersize=5.5)
        left = c.value < 0
        axes.annotate(
            f"× {c.multiplicity}",
            (c.value, place),
            (-7 if left else 7, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7.5,
            color=INK,
        )
    axes.set_yticks(places, [c.family for c in spectrum])
    axes.set_ylim(len(spectrum) - 0.4, -0.6)
    axes.margins(x=0.16)
    axes.grid(False, axis="y")
    axes.set_xlabel(r"curvature $h$ of $\epsilon_g$ in $W/\sqrt{N}$")


def _staircase(axes: Any, spectrum: Any) -> None:
    """All eigenvalues in order."""
    counts = np.array([c.multiplicity for c in spectrum])
    ends = np.cumsum(counts)
    for c, last, count in zip(spectrum, ends, counts, strict=True):
        axes.plot([last - count, last], [c.value] * 2, color=_way(c.value)[1], linewidth=2.4, solid_capstyle="butt")
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.set_xlabel("directions, lowest curvature first")
    axes.set_ylabel("curvature $h$ of\n" + r"$\epsilon_g$ in $W/\sqrt{N}$")


def _legend(axes: Any, spectrum: Any) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for sign, (words, color, marker) in zip((-1, 0, 1), WAYS, strict=True):
        count = sum(c.multiplicity for c in spectrum if np.sign(c.value) == sign)
        if count:
            handles.append(Line2D([], [], color=color, marker=marker, linestyle="none", label=f"{words}: {count}"))
    axes.figure.legend(handles=handles, loc="outside lower right", ncols=3, title="directions", title_fontsize=8.0)


def _head(axes: Any, landscape: Any, title: str | None) -> None:
    who, _ = problem_in_words(landscape.problem)
    what = landscape.name.capitalize() if hasattr(landscape, "name") else f"Landscape: {landscape.kind}"
    conditions = rf"$N = {landscape.dim}$, $\epsilon_g$ = {landscape.error:.4g}"
    write_head(axes, [(title or what, TITLE), (f"{who}; {conditions}", SMALL)], wrap=80)
