"""What the axes of all figures share: the names of time and error, numbers at ticks, and legends where no curve is."""

from typing import Any

from tutelage.plot.style import COLORS

TIME = r"time $\alpha$ = steps / $N$"
ERROR = r"generalization error $\epsilon_g$"
ERROR_IN_TWO_LINES = "generalization\n" + r"error $\epsilon_g$"  # for low panels


def time_label(result: Any) -> str:
    """What the time axis measures; a system of one's own has a time of its own."""
    return TIME if result.kind != "equations" else "time"


def tick_each(axes: Any, values: Any, room: float = 0.06) -> None:
    """A number at each of these x and nowhere else on that axis: for the few sizes that were computed.

    room: beyond the first and the last, as a share of the axis.
    """
    axes.set_xticks(values, [str(value) for value in values])
    axes.set_xticks([], minor=True)
    axes.margins(x=room)


def error_label(trajectory: Any) -> str:
    """What the error is: the labels of the problem decide."""
    if trajectory.kind == "equations" or trajectory.problem is None:
        return "error"
    return ERROR_IN_TWO_LINES if trajectory.problem.labels.metric == "squared" else "probability of\na wrong class"


def outside_legend(axes: Any, title: str | None = None) -> None:
    """The legend to the right of the panel, if anything in it has a name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0.0, title=title, alignment="left")


def name_colors(figure: Any, title: str, names: list[str]) -> None:
    """A legend below all panels: what the first colors of the palette stand for."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=COLORS[i % len(COLORS)], label=name) for i, name in enumerate(names)]
    figure.legend(handles=lines, title=title, loc="outside lower center", ncols=len(names))
