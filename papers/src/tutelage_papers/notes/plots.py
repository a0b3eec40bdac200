"""The figure of concentration: one panel per condition."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot import ALARM, COLORS, FAINT, figure_of, panel_grid, problem_in_words
from tutelage_papers.drawing import tick_each

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = {
    "mean": "mean of one step\n" + r"$|N\,E[\Delta u] - f(u)|$",
    "variance": "noise of a unit of time\n" + r"$N\,\mathrm{Var}(\Delta u)$",
    "start": "scatter of the start\n" + r"rms $|u(0) - E\,u(0)|$",
    "runs": "whole runs\n" + r"largest $|u_N - u|$",
}


@figure_of("what concentration returned", "conditions")
def plot_concentration(result: Any, *, title: str | None = None) -> "Figure":
    """Draw the measurement of `concentration`, one panel per condition."""
    conditions = list(result.conditions.values())
    who, how = problem_in_words(result.problem)
    if title is None:
        title = f"{who}: do the overlaps concentrate?"
    small = (
        f"{how}; {result.inputs} law of the inputs, {result.samples} single steps at "
        "each $N$"
    )
    figure, grid = panel_grid((len(conditions) + 1) // 2, 2, title, small)
    for axes, condition in zip(grid.ravel(), conditions, strict=False):
        _draw_condition(axes, condition)
    for axes in grid.ravel()[len(conditions) :]:
        axes.set_axis_off()
    return figure


def _draw_condition(axes: Any, condition: Any) -> None:
    """One quantity against N: measured, fitted and in theory."""
    dims = condition.dims
    values = condition.values
    errors = condition.errors
    clear = values > 2 * errors
    bound = values + 2 * errors
    color = COLORS[0] if condition.holds else ALARM
    if condition.theory is not None:
        line = {"color": FAINT, "linewidth": 2.6, "alpha": 0.6}
        axes.plot(dims, condition.theory, **line, label="theory")
    if condition.exponent is not None:
        fit = condition.exponent
        line = fit.amplitude * dims.astype(float) ** fit.slope
        label = f"$N^{{{fit.slope:.2f}}}$, fitted"
        axes.plot(dims, line, color=color, linewidth=1.2, label=label)
    bars = {
        "color": color,
        "fmt": "o",
        "markersize": 4.2,
        "markerfacecolor": "white",
        "capsize": 2.0,
        "linewidth": 1.0,
    }
    axes.errorbar(dims[clear], values[clear], errors[clear], **bars, label="measured")
    if not clear.all():
        triangles = {"color": color, "linestyle": "none", "marker": "v"}
        axes.plot(
            dims[~clear], bound[~clear], **triangles, markersize=4.5, label="below this"
        )
    axes.set(xscale="log", yscale="log", xlabel="input dimension $N$")
    tick_each(axes, dims)
    axes.set_ylabel(CONDITIONS.get(condition.name, condition.name))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.0))
    axes.set_ylim(bottom=0.35 * float(np.min(np.where(clear, values, bound))))
