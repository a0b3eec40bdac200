"""The figure of a fixed point: its overlaps as heat maps above, its modes by rate and name below."""

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.style import ALARM, COLORS, FAINT, INK, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEAD_HEIGHT, MAPS_HEIGHT, ROW_HEIGHT = 8.2, 1.15, 2.5, 0.36
MANY = 14  # rates shown; the rest is counted
NUMBERED = 6  # largest number of units whose overlaps are written into the map
WRAP = 58  # characters of a name per line


def plot_fixed_point(point: Any, *, title: str | None = None) -> "Figure":
    """Overlaps R and Q as heat maps, and every rate with what its modes do, as a Matplotlib figure (see `save_figure`).

    Bars to the right grow, bars to the left fade; the axis is linear around zero and logarithmic beyond.
    """
    require_fields("plot_fixed_point", point, ("distinct", "R", "Q", "stability"), "what fixed_point returned")
    from tutelage.plot.figure import Figure

    groups = point.distinct
    shown, more = groups[:MANY], len(groups) - MANY
    height = ROW_HEIGHT * len(shown) + 0.9
    with style():
        figure = Figure(figsize=(WIDTH, HEAD_HEIGHT + MAPS_HEIGHT + height), layout="constrained")
        places: Any = figure.subfigures(3, 1, height_ratios=[HEAD_HEIGHT, MAPS_HEIGHT, height])
        head, upper, lower = places
        _head(head, point, title)
        maps = upper.subplots(1, 2)
        largest = max(float(np.max(np.abs(point.R))), float(np.max(np.abs(point.Q))), 1e-12)
        _draw_map(maps[0], point.R, largest, "student–teacher overlaps $R_{km}$", "teacher $m$")
        image = _draw_map(maps[1], point.Q, largest, "student–student overlaps $Q_{kl}$", "student $l$")
        upper.colorbar(image, ax=list(maps), shrink=0.9, pad=0.02).outline.set_visible(False)
        axes = lower.subplots()
        _draw_modes(axes, shown)
        if more > 0:
            faster = f"{more} rate{'s' if more > 1 else ''} that fade{'' if more > 1 else 's'} faster"
            axes.set_xlabel(f"{axes.get_xlabel()}\n(and {faster})")
    return figure


def _draw_map(axes: Any, values: np.ndarray, largest: float, label: str, across: str) -> Any:
    image = axes.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="equal")
    rows, columns = values.shape
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(label, fontsize=9)
    axes.set_xlabel(across)
    axes.set_ylabel("student $k$")
    few = max(rows, columns) <= 2 * NUMBERED
    axes.set_xticks(np.arange(columns) if few else [], np.arange(1, columns + 1) if few else [])
    axes.set_yticks(np.arange(rows) if few else [], np.arange(1, rows + 1) if few else [])
    axes.tick_params(length=0)
    if max(rows, columns) <= NUMBERED:
        for k, m in np.ndindex(rows, columns):
            dark = abs(values[k, m]) > 0.6 * largest
            axes.text(
                m,
                k,
                f"{np.round(values[k, m], 3) + 0.0:.3f}",
                ha="center",
                va="center",
                fontsize=7.5,
                color="white" if dark else INK,
            )
    return image


def _draw_modes(axes: Any, modes: list[Any]) -> None:
    growth = np.array([np.real(mode.rate) for mode in modes])
    sizes = np.abs(growth)
    still = 1e-9 * max(float(sizes.max()), 1e-300)
    growth = np.where(sizes <= still, 0.0, growth)
    smallest = float(np.min(sizes[sizes > still], initial=float(sizes.max()) or 1.0))
    colors = [ALARM if g > 0 else COLORS[0] if g < 0 else FAINT for g in growth]
    places = np.arange(len(modes))
    axes.barh(places, growth, color=colors, height=0.6)
    axes.plot(growth, places, linestyle="none", marker="o", markersize=4, color=INK)
    axes.axvline(0.0, color=INK, linewidth=0.9)
    axes.set_xscale("symlog", linthresh=smallest, linscale=0.6)
    axes.margins(x=0.04)
    _tick(axes, smallest, float(sizes.max()))
    axes.set_ylim(len(modes) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.yaxis.tick_right()
    axes.spines["left"].set_visible(False)
    axes.set_yticks(places, [_label(mode) for mode in modes])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(r"rate: a deviation changes as $e^{\mathrm{rate}\,\alpha}$ (left: fades, right: grows)")


def _tick(axes: Any, smallest: float, largest: float) -> None:
    """Zero, and powers of ten on either side that do not crowd."""
    from matplotlib.ticker import NullLocator

    low, high = int(np.floor(np.log10(smallest))), int(np.floor(np.log10(largest)))
    step = max(1, int(np.ceil((high - low + 1) / 3)))
    powers = [10.0**p for p in range(high, low - 1, -step) if 10.0**p >= smallest]
    left, right = axes.get_xlim()
    ticks = [t for t in [*(-p for p in powers), 0.0, *powers] if min(left, -largest) <= t <= right]
    axes.set_xticks(ticks, ["0" if t == 0 else f"{t:g}" for t in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _label(mode: Any) -> str:
    turning = f" ± {abs(np.imag(mode.rate)):.3g}i" if np.imag(mode.rate) else ""
    times = f" (×{mode.multiplicity})" if mode.multiplicity > 1 else ""
    rate = np.real(mode.rate)
    number = "0" if mode.name.startswith("moves along a flat") else f"{rate:+.4g}"
    return textwrap.fill(f"{number}{turning}{times}: {mode.name}", WRAP)


def _head(place: Any, point: Any, title: str | None) -> None:
    who, how = problem_in_words(point.problem)
    flow = ", gradient flow" if point.gradient_flow else ""
    alarm = {"color": ALARM} if point.unstable else {}
    axes = place.add_axes((0.02, 0.0, 0.96, 0.01))
    axes.set_axis_off()
    parts = [(title or f"A fixed point: {who[0].lower()}{who[1:]}", TITLE)]
    parts += [(f"{how}{flow}, $\\epsilon_g$ = {point.error:.6g}", SMALL)]
    write_head(axes, [*parts, (point.stability, SMALL | {"fontweight": "bold"} | alarm)], wrap=112)
