"""What the axes of all figures share: the names of time and error, and a legend where no curve is."""

from typing import Any

TIME = r"time $\alpha$ = steps / $N$"
ERROR = r"generalisation error $\epsilon_g$"
ERROR_IN_TWO_LINES = "generalisation\n" + r"error $\epsilon_g$"  # for low panels


def time_label(result: Any) -> str:
    """What the time axis measures; a system of one's own has a time of its own."""
    return TIME if result.kind != "equations" else "time"


def outside_legend(axes: Any, title: str | None = None) -> None:
    """The legend to the right of the panel, if anything in it has a name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0.0, title=title, alignment="left")
