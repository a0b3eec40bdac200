"""Drawing helpers of published figures only: the theory on the band of its runs, straight
lines as guides, few ticks, and legends.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from tutelage.plot import (
    COLORS,
    DASHES,
    FAINT,
    MARKERS,
    fill_band,
    plain_dots,
    spread_marks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

MARKS = 10  # marks on the mean of the runs
# A faint dotted line: a level or a law to compare with.
GUIDE: dict[str, Any] = {"color": FAINT, "linestyle": DASHES[2]}


def line_of(place: int, dashes: int | None = None) -> dict[str, Any]:
    """Return color and line style of one of several curves.

    dashes: index of the line style (default: place).
    """
    if dashes is None:
        dashes = place
    return {
        "color": COLORS[place % len(COLORS)],
        "linestyle": DASHES[dashes % len(DASHES)],
    }


def draw_band(
    axes: Axes,
    times: np.ndarray,
    theory: ArrayLike,
    mean: ArrayLike,
    error: ArrayLike,
    *,
    look: int = 0,
    dashes: int | None = None,
    label: str | None = None,
    place: int | None = None,
) -> None:
    """Draw the theory as a line and the mean over runs as marks.

    The marks lie on a band of two standard errors to either side. look: index of color
    and marker, and of the dashes unless they are given. place: shifts the marks (default:
    look), so that those of several curves lie side by side.
    """
    theory = np.asarray(theory, dtype=float)
    mean = np.asarray(mean, dtype=float)
    error = np.asarray(error, dtype=float)
    if place is None:
        place = look
    line = line_of(look, dashes)
    marks = plain_dots(look, 3.8, MARKERS[look % len(MARKERS)])
    every = spread_marks(times, place % 5, 5, MARKS)
    fill_band(axes, times, mean, 2 * error, line["color"], alpha=0.3)
    axes.plot(times, theory, **line, linewidth=1.5, label=label)
    axes.plot(times, mean, **marks, markevery=every, zorder=3)


def draw_error(
    axes: Axes, data: "Dataset", *, look: int = 0, label: str | None = None
) -> None:
    """Draw the generalization error of a Dataset of `bands` on the band of its runs."""
    times = data["time"].values
    mean = data["error_mean"]
    error = data["error_se"]
    draw_band(axes, times, data["error"], mean, error, look=look, label=label)


def draw_wrong_error(axes: Axes, data: "Dataset", label: str = "0.9 G") -> None:
    """Draw the error of the wrong theory of a Dataset of `bands`: a faint line."""
    axes.plot(data["time"], data["error_wrong"], **GUIDE, linewidth=1.2, label=label)


def draw_power(
    axes: Axes, x: ArrayLike, first: float, exponent: float, label: str, dashes: int = 2
) -> None:
    """Draw a faint power law through (x[0], first), straight on logarithmic axes.

    dashes: index of the dashes, to tell two such lines apart.
    """
    x = np.asarray(x, dtype=float)
    y = first * (x / x[0]) ** exponent
    look = {"color": FAINT, "linestyle": DASHES[dashes]}
    axes.plot(x, y, **look, linewidth=1.2, label=label)


def tick_each(
    axes: Axes, values: Sequence[float] | np.ndarray, room: float = 0.06
) -> None:
    """Write a number at each of these x and nowhere else on that axis.

    This is for the few sizes that were computed. room: beyond the first and the last, as
    a share of the axis.
    """
    axes.set_xticks(values, [str(value) for value in values])
    axes.set_xticks([], minor=True)
    axes.margins(x=room)


def legend_below(
    axes: Axes, columns: int = 2, drop: float = 0.2, **options: Any
) -> None:
    """Put the legend of a panel below its axis label.

    drop: the distance from the panel, in heights of it. options: of Axes.legend.
    """
    place = (0.5, -drop)
    axes.legend(loc="upper center", bbox_to_anchor=place, ncols=columns, **options)


def color_legend(figure: "Figure", title: str, names: list[str]) -> None:
    """Put a legend of the first colors of the palette below all panels."""
    lines = []
    for place, name in enumerate(names):
        color = COLORS[place % len(COLORS)]
        lines.append(Line2D([], [], color=color, label=name))
    figure.legend(
        handles=lines, title=title, loc="outside lower center", ncols=len(names)
    )
