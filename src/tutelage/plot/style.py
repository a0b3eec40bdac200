"""The look of every figure: colors that the color-blind can tell apart, lines that survive a gray printer, and scales.

The colors are those of Okabe and Ito without the yellow, which is faint on white. Nothing here needs Matplotlib before the
first figure.
"""

import re
from contextlib import AbstractContextManager
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tutelage._files import require_place, write_bytes
from tutelage.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Look: TypeAlias = dict[str, Any]  # properties of a line, a mark or a text, as Matplotlib names them

STYLE_SHEET, PAGES = (Path(__file__).with_name(name) for name in ("tutelage.mplstyle", "pages.css"))
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.6, 1.2, 1.6)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, FAINT, ALARM = "#222222", "#8C8C8C", "#B03A00"
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
# Suffix -> metadata that would otherwise hold the date: the same figure is the same file.
FORMATS: dict[str, dict[str, None]] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
DECADES = 1.5  # values that span more than this are drawn on a logarithmic axis


def style() -> AbstractContextManager[None]:
    """Use our Matplotlib style inside a `with` block, or as a decorator; the user's settings come back after it.

    >>> from tutelage.plot import style
    >>> with style():
    ...     pass
    """
    from matplotlib.style import context

    return context(STYLE_SHEET)


def line_look(place: int, width: float = 1.8) -> Look:
    """Line properties of one of a few curves: color and dashes from its place."""
    return {"color": color_at(place), "linestyle": DASHES[place % len(DASHES)], "linewidth": width}


def color_at(place: int) -> str:
    """The color of a place; they repeat."""
    return COLORS[place % len(COLORS)]


def stroke(unit: int, partner: int = 0) -> Look:
    """Line properties of one curve: color, width and marker from the unit, dashes from the partner."""
    return {
        "color": color_at(unit),
        "linestyle": DASHES[partner % len(DASHES)],
        "linewidth": (2.0, 1.6, 1.3)[unit % 3],
        "marker": MARKERS[unit % len(MARKERS)],
        "markersize": 3.6,
        "markerfacecolor": "white",
        "markeredgewidth": 0.9,
    }


def is_log_spaced(points: np.ndarray, decades: float = DECADES) -> bool:
    """Are the positive points nearer to even steps in the logarithm than to even steps, over so many decades?"""
    positive = np.sort(points[points > 0])
    if positive.size < 4 or positive[-1] / positive[0] < 10**decades:
        return False
    log, even = (np.std(steps) / np.mean(steps) for steps in (np.diff(np.log(positive)), np.diff(positive)))
    return bool(log < even)


def wants_log(values: np.ndarray) -> bool:
    """Positive, and over more than a decade and a half? Zeros and rounding below zero do not count."""
    positive = values[np.isfinite(values) & (values > 0)]
    if positive.size < 2 or positive.size < 0.5 * values.size:
        return False
    return bool(np.log10(positive.max() / positive.min()) > DECADES)


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


def drawn(figure: "Figure", suffix: str, **options: Any) -> bytes:
    """The content of the file of a figure; suffix: one of `FORMATS`. options: for Figure.savefig."""
    file = BytesIO()
    with style():
        figure.savefig(file, format=suffix[1:], metadata=FORMATS[suffix], **options)
    return file.getvalue()


def svg_element(figure: "Figure", label: str) -> str:
    """The figure as part of a page: without what only a separate file needs (and without the addresses in its metadata)."""
    text = drawn(figure, ".svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)  # the page sets them
    return f"{head}>{rest}".replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def document(title: str, body: list[str], more_style: str = "", more_head: str = "") -> str:
    """A whole HTML page from its parts: no network, no scripts, readable on a phone, in the dark and on paper."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{more_head}<title>{escape(title)}</title><style>{PAGES.read_text().strip()}{more_style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def write_text(path: str | Path, text: str) -> Path:
    """Write a page to a file, completely or not at all."""
    path = require_place(Path(path))
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"the page {path} is HTML; its name must end in .html.")
    return write_bytes(path, text.encode())
