"""The look of every figure: colors that the color-blind can tell apart, and lines that survive a gray printer.

The colors are those of Okabe and Ito without the yellow, which is faint on white. A curve has one index for its color, width
and marker (the student unit) and one for its dashes (what it is compared with). Figures are saved in this style.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutelage._errors import InputError
from tutelage._files import require_place, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.6, 1.2, 1.6)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, FAINT, ALARM = "#222222", "#8C8C8C", "#B03A00"
# Suffix -> metadata that would otherwise hold the date: the same figure is the same file.
FORMATS: dict[str, dict[str, None]] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}

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
    """Use our Matplotlib style inside a `with` block, or as a decorator; the user's settings come back after it.

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


def check_figure_path(path: str | Path) -> Path:
    """The path, if a figure can be written there; else an InputError that says why not."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        given = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
        raise InputError(f"the figure {path} {given}; it must end in {', '.join(FORMATS)}.")
    return require_place(path)


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Write a figure to a file, completely or not at all; the ending chooses the format."""
    path = check_figure_path(path)
    return write_bytes(path, drawn(figure, path.suffix.lower()))


def drawn(figure: "Figure", suffix: str) -> bytes:
    """The content of the file of a figure; suffix: one of `FORMATS`."""
    file = BytesIO()
    with style():
        figure.savefig(file, format=suffix[1:], metadata=FORMATS[suffix])
    return file.getvalue()
