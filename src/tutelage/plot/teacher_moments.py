"""The figure of a random teacher's moments: their mean, and how far single teachers scatter around it."""

from typing import TYPE_CHECKING, Any

from tutelage._errors import require_fields
from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import outside_legend
from tutelage.plot.style import COLORS, DASHES, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 6.6, 3.8


def plot_teacher_moments(result: Any, *, title: str | None = None) -> "Figure":
    """Mean and standard deviations against the order, on a logarithmic axis. title: "" leaves the head out."""
    require_fields("plot_teacher_moments", result, ("orders", "mean", "other_sd"), "what teacher_moments returned")
    from tutelage.plot.figure import Figure

    lines = (
        (r"mean of $T^{(j)}_{nn}$", result.mean, "o"),
        (r"spread of $T^{(j)}_{nn}$", result.diagonal_sd, "s"),
        (r"spread of $T^{(j)}_{nm}$", result.other_sd, "^"),
    )
    with style():
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots()
        for look, (label, values, marker) in enumerate(lines):
            line = {"color": COLORS[look], "linestyle": DASHES[look], "marker": marker, "markersize": 4}
            axes.plot(result.orders, values, label=label, **line)
        axes.set(xlabel="order $j$", ylabel="over random teachers", yscale="log", xticks=result.orders)
        outside_legend(axes)
        if title != "":
            head = f"N = {result.dim}, {result.eigenvalues.size} levels; lines join whole orders"
            write_head(axes, [(title or "Moments of random teachers", TITLE), (head, SMALL)])
    return figure
