"""The figure of a quadratic student's two counts: what it can say, and in how many ways it can be perfect."""

from typing import TYPE_CHECKING, Any

from tutelage.plot.heads import SMALL, TITLE, write_head
from tutelage.plot.labels import outside_legend
from tutelage.plot.style import COLORS, DASHES, FAINT, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (6.4, 4.6)
MEASURED = 150  # weights up to which the counts are also measured as ranks


def plot_solution_manifold(one: Any, family: list[Any], *, title: str | None = None) -> "Figure":
    """Degrees of freedom and dimension of the solutions against the number of students; marks are measured ranks."""
    from tutelage.plot.figure import Figure

    with style():
        figure = Figure(figsize=SIZE, layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True)
        _draw(top, [(m.students, m.degrees_of_freedom, _small(m) and m.measured_degrees_of_freedom()) for m in family])
        able = [m for m in family if m.dimension is not None]
        _draw(bottom, [(m.students, m.dimension, _small(m) and m.measured_dimension()) for m in able])
        top.set_ylabel("degrees of\nfreedom")
        bottom.set_ylabel("dimension of\nthe solutions")
        bottom.set_xlabel("students $p$")
        bottom.xaxis.get_major_locator().set_params(integer=True)
        for axes in (top, bottom):
            axes.yaxis.get_major_locator().set_params(integer=True)
            axes.axvline(one.dim, color=FAINT, linestyle=DASHES[2], linewidth=1.0, label="$p = N$")
            outside_legend(axes)
        figure.align_ylabels([top, bottom])
        how = f"$p^* = {one.teachers}$ teachers, $N = {one.dim}$ dimensions"
        write_head(top, [(title or "Quadratic students: what they can say, and in how many ways", TITLE), (how, SMALL)])
    return figure


def _small(manifold: Any) -> bool:
    return manifold.students * manifold.dim <= MEASURED


def _draw(axes: Any, rows: list[tuple[int, int, Any]]) -> None:
    axes.plot([p for p, _, _ in rows], [count for _, count, _ in rows], color=COLORS[0], label="counted")
    marks = [(p, rank) for p, _, rank in rows if rank is not False]
    look = {"color": COLORS[1], "linestyle": "none", "marker": "o", "markersize": 4, "markerfacecolor": "white"}
    axes.plot([p for p, _ in marks], [rank for _, rank in marks], **look, label="measured rank")
