"""What only published figures draw: the theory on the band of its runs, straight lines as guides, few ticks, a legend of colors."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

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

MARKS = 10  # marks on the mean of the runs


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
    """Theory as a line, the mean over runs as marks on a band of two standard errors to either side.

    look: index of color and marker, and of the dashes unless they are given. place: shifts the marks (default: look), so
    that those of several curves lie side by side.
    """
    theory, mean, error = (np.asarray(x, dtype=float) for x in (theory, mean, error))
    color = COLORS[look % len(COLORS)]
    line = DASHES[(look if dashes is None else dashes) % len(DASHES)]
    fill_band(axes, times, mean, 2 * error, color, alpha=0.3)
    axes.plot(times, theory, color=color, linestyle=line, linewidth=1.5, label=label)
    every = spread_marks(times, (look if place is None else place) % 5, 5, MARKS)
    axes.plot(
        times,
        mean,
        **plain_dots(look, 3.8, MARKERS[look % len(MARKERS)]),
        markevery=every,
        zorder=3,
    )


def draw_power(
    axes: Axes, x: ArrayLike, first: float, exponent: float, label: str, dashes: int = 2
) -> None:
    """A faint straight line of a given exponent through (x[0], first), on logarithmic axes: a guide to the eye.

    dashes: index of the dashes, to tell two such lines apart.
    """
    x = np.asarray(x, dtype=float)
    axes.plot(
        x,
        first * (x / x[0]) ** exponent,
        color=FAINT,
        linestyle=DASHES[dashes],
        linewidth=1.2,
        label=label,
    )


def tick_each(
    axes: Axes, values: Sequence[float] | np.ndarray, room: float = 0.06
) -> None:
    """A number at each of these x and nowhere else on that axis: for the few sizes that were computed.

    room: beyond the first and the last, as a share of the axis.
    """
    axes.set_xticks(values, [str(value) for value in values])
    axes.set_xticks([], minor=True)
    axes.margins(x=room)


def color_legend(figure: "Figure", title: str, names: list[str]) -> None:
    """A legend below all panels: what the first colors of the palette stand for."""
    lines = [
        Line2D([], [], color=COLORS[i % len(COLORS)], label=name)
        for i, name in enumerate(names)
    ]
    figure.legend(
        handles=lines, title=title, loc="outside lower center", ncols=len(names)
    )
