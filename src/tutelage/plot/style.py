"""The look of every figure: colors that the color-blind tell apart, and lines that survive a gray printer.

The colors are those of Okabe and Ito, without the yellow that vanishes on white. A curve carries one index for its
color, width and marker (the student unit) and one for its dashes (what it is compared with).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.6, 1.2, 1.6)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, FAINT, ALARM = "#222222", "#8C8C8C", "#B03A00"

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "mathtext.fontset": "dejavusans",
    "text.usetex": False,
    "text.color": INK,
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.xmargin": 0.02,
    "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-3, 4),
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "legend.handlelength": 3.0,
    "legend.labelspacing": 0.3,
    "legend.columnspacing": 1.2,
    "lines.linewidth": 1.6,
    "lines.dash_capstyle": "butt",
    "figure.facecolor": "white",
    "figure.dpi": 120.0,
    "savefig.dpi": 200.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "tutelage",
    "pdf.fonttype": 42,
}


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib in our style inside a `with` block; the user's own settings come back after it.

    >>> from tutelage.plot import style
    >>> with style():
    ...     pass
    """
    import matplotlib

    with matplotlib.rc_context(RC):
        yield


def stroke(unit: int, partner: int = 0) -> dict[str, Any]:
    """Line properties of one curve: color, width and marker from the unit, dashes from the partner."""
    return {
        "color": COLORS[unit % len(COLORS)],
        "linestyle": DASHES[partner % len(DASHES)],
        "linewidth": (2.0, 1.6, 1.3)[unit % 3],
        "marker": MARKERS[unit % len(MARKERS)],
        "markersize": 3.6,
        "markerfacecolor": "white",
        "markeredgewidth": 0.9,
    }
