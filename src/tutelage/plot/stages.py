"""Figures of the stages of learning: plateaus with the growth that ends them, and phases as shaded intervals."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import require_fields
from tutelage.plot.curve_parts import draw_error, draw_overlaps, finish, frame, overlap_panel, sentence, shade
from tutelage.plot.labels import outside_legend
from tutelage.plot.style import ALARM, COLORS, FAINT, INK, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def plot_plateaus(result: Any, *, title: str | None = None) -> "Figure":
    """The learning curve with its plateaus, the growth of the departure from each, and the overlaps.

    Shaded: where the error is within its share of the height. In the middle panel, what grows while a plateau is left, on a
    logarithmic axis, with the fitted exponential over the times of the fit. title: "" leaves the head out.
    """
    require_fields("plot_plateaus", result, ("found", "curve", "share"), "what plateaus returned")
    curve, panel = result.curve, overlap_panel(result.curve)
    growing = [p for p in result.found if p.departure is not None]
    with style():
        figure, grid = frame(bool(growing) + (panel is not None), title != "")
        draw_error(grid[0], curve)
        for i, plateau in enumerate(result.found):
            label = f"within {100 * plateau.share:.3g}%\nof its height" if i == 0 else None
            for axes in grid:
                shade(axes, plateau.start, plateau.end, COLORS[4], label if axes is grid[0] else None)
            level = {"color": INK, "linewidth": 1.0, "linestyle": (0, (2, 2)), "label": f"height {plateau.height:.4g}"}
            grid[0].plot([plateau.start, plateau.end], [plateau.height] * 2, **level)
        outside_legend(grid[0])
        if growing:
            _draw_departures(grid[1], curve.times, growing)
        if panel is not None:
            draw_overlaps(grid[-1], curve, panel)
        finish(figure, grid, curve, title, sentence("; ".join(str(result).split("\n")[:2])))
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
    outside_legend(axes)


def plot_phases(result: Any, *, title: str | None = None) -> "Figure":
    """The learning curve and the overlaps, shaded by phase, with the names in the legend. title: "" leaves the head out."""
    require_fields("plot_phases", result, ("intervals", "curve"), "what phases returned")
    curve, panel = result.curve, overlap_panel(result.curve)
    with style():
        figure, grid = frame(int(panel is not None), title != "")
        draw_error(grid[0], curve)
        draw_phases(grid, result.intervals)
        outside_legend(grid[0])
        if panel is not None:
            draw_overlaps(grid[-1], curve, panel)
        finish(figure, grid, curve, title, sentence(", ".join(phase.name for phase in result.intervals)))
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
