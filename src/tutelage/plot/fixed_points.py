"""Figures of fixed points: overlaps and modes, learning rates, the noise floor, and curvatures at a point of weight space."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from tutelage.plot.axes import Figure, column, figure_of, finish, legend_below
from tutelage.plot.labels import problem_in_words
from tutelage.plot.overlaps import draw_overlaps
from tutelage.plot.style import ALARM, COLORS, DASHES, FAINT, INK, Look

if TYPE_CHECKING:
    from tutelage.problem import Problem

WIDTH, HEAD_HEIGHT, MAPS_HEIGHT, ROW_HEIGHT = 8.2, 1.15, 2.5, 0.36
RATES = 14  # rates shown; the rest is counted
NAME = 58  # characters of a mode's name per line
ROW, FRAME = 0.23, 0.85  # inches: of a family, of what is around the rows
NAMED = 16  # families named one by one; more are drawn as one staircase
WAYS = (("down", COLORS[1], "v"), ("flat", FAINT, "o"), ("up", COLORS[0], "^"))


@figure_of("what fixed_point returned", "distinct", "R", "Q", "stability")
def plot_fixed_point(point: Any, *, title: str | None = None) -> Figure:
    """Draw the overlaps R and Q as heat maps, and every rate with what its modes do.

    Bars to the right grow, bars to the left decay; the axis is linear around zero and logarithmic beyond.
    """
    shown, more = point.distinct[:RATES], len(point.distinct) - RATES
    heights = [HEAD_HEIGHT, MAPS_HEIGHT, ROW_HEIGHT * len(shown) + 0.9]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    head, upper, lower = figure.subfigures(3, 1, squeeze=False, height_ratios=heights)[:, 0]
    who, how = problem_in_words(point.problem)
    small = f"{how}{', gradient flow' if point.gradient_flow else ''}, $\\epsilon_g$ = {point.error:.6g}"
    top = head.add_axes((0.02, 0.0, 0.96, 0.01))
    top.set_axis_off()
    maps = list(upper.subplots(1, 2))
    image = draw_overlaps(maps, point.R, point.Q, point.problem)
    for axes in maps:
        axes.set_aspect("equal")
    upper.colorbar(image, ax=maps, shrink=0.9, pad=0.02).outline.set_visible(False)
    axes = lower.subplots()
    _draw_modes(axes, shown)
    if more > 0:
        faster = f"{more} rate{'s' if more > 1 else ''} that fade{'' if more > 1 else 's'} faster"
        axes.set_xlabel(f"{axes.get_xlabel()}\n(and {faster})")
    default, alarm = f"A fixed point: {who[0].lower()}{who[1:]}", bool(point.unstable)
    return finish([top], "", title, default, small, point.stability, alarm=alarm, line=112)


def _draw_modes(axes: Axes, modes: list[Any]) -> None:
    growth = np.array([np.real(mode.rate) for mode in modes])
    sizes = np.abs(growth)
    still = 1e-9 * max(float(sizes.max()), 1e-300)
    growth = np.where(sizes <= still, 0.0, growth)
    smallest = float(np.min(sizes[sizes > still], initial=float(sizes.max()) or 1.0))
    places = np.arange(len(modes))
    axes.barh(places, growth, color=[ALARM if g > 0 else COLORS[0] if g < 0 else FAINT for g in growth], height=0.6)
    axes.plot(growth, places, linestyle="none", marker="o", markersize=4, color=INK)
    axes.axvline(0.0, color=INK, linewidth=0.9)
    axes.set_xscale("symlog", linthresh=smallest, linscale=0.6)
    axes.margins(x=0.04)
    low, high = int(np.floor(np.log10(smallest))), int(np.floor(np.log10(sizes.max())))
    step = max(1, int(np.ceil((high - low + 1) / 3)))  # powers of ten that do not crowd
    powers = [10.0**p for p in range(high, low - 1, -step) if 10.0**p >= smallest]
    left, right = axes.get_xlim()
    ticks = [t for t in [*(-p for p in powers), 0.0, *powers] if min(left, -float(sizes.max())) <= t <= right]
    axes.set_xticks(ticks, ["0" if t == 0 else f"{t:g}" for t in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(len(modes) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.yaxis.tick_right()
    axes.spines["left"].set_visible(False)
    labels = []
    for mode in modes:
        turning = f" ± {abs(np.imag(mode.rate)):.3g}i" if np.imag(mode.rate) else ""
        times = f" (×{mode.multiplicity})" if mode.multiplicity > 1 else ""
        number = "0" if mode.name.startswith("moves along a flat") else f"{np.real(mode.rate):+.4g}"
        labels.append(textwrap.fill(f"{number}{turning}{times}: {mode.name}", NAME))
    axes.set_yticks(places, labels)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(r"rate: a deviation changes as $e^{\mathrm{rate}\,\alpha}$ (left: fades, right: grows)")


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
    bottom = -0.25 * top
    _mark_critical(axes, result.dynamics.critical_rate)
    if result.point:
        _mark_point(axes, result.learning_rate, result.rate, result.point)
        right, bottom = max(right, 1.05 * result.learning_rate), min(bottom, 1.1 * result.rate)
    axes.set(xlim=(0.0, right), ylim=(bottom, max(1.6 * top, 1e-12)))
    axes.set_ylabel("decay rate of the error\n" + r"$-\mathrm{d}\,\ln\epsilon_g / \mathrm{d}\alpha$")
    return _finish_rates(axes, result.problem, title, "Asymptotic decay rate of the error")


@figure_of("what noise_floor returned", "problem", "per_variance", "floors")
def plot_noise_floor(result: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw e_g(infinity) / sigma^2 to first order in sigma^2 against the learning rate."""
    rates, floors = result.floors()
    (axes,) = column([3.3], title, ax=ax)
    axes.plot(rates, floors, color=COLORS[0], linewidth=2.2, label="linear response")
    small = floors[0] / rates[0] * rates
    axes.plot(rates, small, color=FAINT, linestyle=DASHES[1], linewidth=1.2, label="small learning rates")
    if result.critical is not None:
        _mark_critical(axes, result.critical)
        axes.set_xlim(0.0, 1.05 * result.critical)
    _mark_point(axes, result.learning_rate, result.per_variance, "this problem")
    axes.set_ylim(0.0, max(6 * float(np.median(floors)), 1.2 * result.per_variance))
    axes.set_ylabel("error that label noise leaves\n" + r"$\epsilon_g(\infty) / \sigma^2$, as $\sigma \to 0$")
    return _finish_rates(axes, result.problem, title, "What label noise leaves of the error")


def _mark_critical(axes: Axes, critical: float) -> None:
    label = rf"critical rate $\eta_c$: {critical:.5g}"
    axes.axvline(critical, color=ALARM, linewidth=1.2, linestyle=(0, (2, 2)), label=label)


def _mark_point(axes: Axes, x: float, y: float, label: str) -> None:
    marker = "o" if label == "this problem" else "D"
    axes.plot([x], [y], marker, color=INK, markersize=6.5, zorder=4, label=f"{label}: {x:.4g}")


def _finish_rates(axes: Axes, problem: Problem, title: str | None, default: str) -> Figure:
    who, how = problem_in_words(problem)
    rest = [part for part in how.split(", ") if not part.startswith("learning rate")]
    return finish([axes], r"constant learning rate $\eta$", title, default, ", ".join([who, *rest]))


@figure_of("a landscape or a critical point", "spectrum", "index", "error")
def plot_landscape(landscape: Any, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw every curvature of what `landscape` or a critical point holds, lowest first, with multiplicity and family.

    Few families are rows with their names. Many are one staircase of all eigenvalues.
    """
    spectrum, few = landscape.spectrum, len(landscape.spectrum) <= NAMED
    (axes,) = column([FRAME + (ROW * max(len(spectrum), 6) if few else 3.0)], title, ax=ax)
    counts, last = {"down": 0, "flat": 0, "up": 0}, 0
    for place, c in enumerate(spectrum):
        way, color, marker = WAYS[int(np.sign(c.value)) + 1]
        counts[way] += c.multiplicity
        if few:
            axes.hlines(place, 0.0, c.value, color=color, linewidth=1.4)
            axes.plot([c.value], [place], marker, color=color, markersize=5.5)
            side: Look = {"xytext": (-7, 0), "ha": "right"} if c.value < 0 else {"xytext": (7, 0), "ha": "left"}
            look: Look = {"textcoords": "offset points", "va": "center", "fontsize": 7.5, "color": INK}
            axes.annotate(f"× {c.multiplicity}", (c.value, place), **side, **look)
        else:
            first, last = last, last + c.multiplicity
            axes.plot([first, last], [c.value] * 2, color=color, linewidth=2.4, solid_capstyle="butt")
    if few:
        axes.axvline(0.0, color=INK, linewidth=0.8)
        axes.set_yticks(np.arange(len(spectrum)), [c.family for c in spectrum])
        axes.set_ylim(len(spectrum) - 0.4, -0.6)
        axes.margins(x=0.16)
        axes.grid(False, axis="y")
        xlabel = r"curvature $h$ of $\epsilon_g$ in $W/\sqrt{N}$"
    else:
        axes.axhline(0.0, color=INK, linewidth=0.8)
        xlabel = "directions, lowest curvature first"
        axes.set_ylabel("curvature $h$ of\n" + r"$\epsilon_g$ in $W/\sqrt{N}$")
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="none", label=f"{way}: {counts[way]}")
        for way, color, marker in WAYS
        if counts[way]
    ]
    legend_below(axes, handles, 3, title="directions", title_fontsize=8.0)
    who, _ = problem_in_words(landscape.problem)
    what = landscape.name.capitalize() if hasattr(landscape, "name") else f"Landscape: {landscape.kind}"
    small = rf"{who}; $N = {landscape.dim}$, $\epsilon_g$ = {landscape.error:.4g}"
    return finish([axes], xlabel, title, what, small, line=80)
