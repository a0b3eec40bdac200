"""The look of every figure: colors, line styles, scales and files.

The colors can be told apart by the color-blind. They are those of Okabe and Ito
without the yellow, which is faint on white. Dashes and markers survive a gray printer.
Nothing here needs Matplotlib before the first figure.
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

# Properties of a line, a mark or a text, as Matplotlib names them.
Look: TypeAlias = dict[str, Any]

STYLE_SHEET = Path(__file__).with_name("tutelage.mplstyle")
PAGES = Path(__file__).with_name("pages.css")
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (6, 1.6, 1.2, 1.6)),
)
DOTTED = (0, (2, 2))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINE_WIDTHS = (2.0, 1.6, 1.3)
INK = "#222222"
FAINT = "#8C8C8C"
ALARM = "#B03A00"
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
# The formats of files, with the metadata that would otherwise hold the date. Without
# the date, one figure always gives the same file.
FORMATS: dict[str, dict[str, None]] = {
    ".png": {},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
DECADES = 1.5  # values that span more than this are drawn on a logarithmic axis


def style() -> AbstractContextManager[None]:
    """Use our Matplotlib style inside a `with` block, or as a decorator.

    The user's settings come back after it.

    >>> from tutelage.plot import style
    >>> with style():
    ...     pass
    """
    from matplotlib.style import context

    return context(STYLE_SHEET)


def line_look(place: int, width: float = 1.8) -> Look:
    """Line properties of one of a few curves: the color and dashes of its place."""
    return {
        "color": color_at(place),
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": width,
    }


def color_at(place: int) -> str:
    """The color of a place; colors repeat."""
    return COLORS[place % len(COLORS)]


def marker_at(place: int) -> str:
    """The marker of a place; markers repeat."""
    return MARKERS[place % len(MARKERS)]


def stroke(unit: int, partner: int = 0) -> Look:
    """Line properties of one curve of a pair of units.

    Color, width and marker follow from the unit, dashes from the partner.
    """
    return {
        "color": color_at(unit),
        "linestyle": DASHES[partner % len(DASHES)],
        "linewidth": LINE_WIDTHS[unit % len(LINE_WIDTHS)],
        "marker": marker_at(unit),
        "markersize": 3.6,
        "markerfacecolor": "white",
        "markeredgewidth": 0.9,
    }


def is_log_spaced(points: np.ndarray, decades: float = DECADES) -> bool:
    """Return True if the positive points are evenly spaced in the logarithm.

    They must span this many decades, and the steps of their logarithms must be more
    equal than the steps of the points themselves.
    """
    positive = np.sort(points[points > 0])
    if positive.size < 4 or positive[-1] / positive[0] < 10**decades:
        return False
    log_steps = np.diff(np.log(positive))
    linear_steps = np.diff(positive)
    return bool(_relative_spread(log_steps) < _relative_spread(linear_steps))


def _relative_spread(steps: np.ndarray) -> float:
    """Standard deviation over mean: zero for equal steps."""
    return float(np.std(steps) / np.mean(steps))


def wants_log(values: np.ndarray) -> bool:
    """Return True if the values are positive and span more than `DECADES` decades.

    Zeros and rounding below zero do not count, unless they are more than half of all.
    """
    positive = values[np.isfinite(values) & (values > 0)]
    if positive.size < 2 or positive.size < 0.5 * values.size:
        return False
    return bool(np.log10(positive.max() / positive.min()) > DECADES)


def check_figure_path(path: str | Path) -> Path:
    """Return the path if a figure can be written there; raise InputError if not."""
    path = Path(path)
    if path.suffix.lower() in FORMATS:
        return require_place(path)
    ending = "has no ending"
    if path.suffix:
        ending = f"ends in {path.suffix!r}"
    allowed = ", ".join(FORMATS)
    raise InputError(f"the figure {path} {ending}; it must end in {allowed}.")


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Write a figure to a file, completely or not at all.

    The ending of the file's name chooses the format.
    """
    path = check_figure_path(path)
    return write_bytes(path, render_figure(figure, path.suffix.lower()))


def render_figure(figure: "Figure", suffix: str, **options: Any) -> bytes:
    """Return the content of the file of a figure.

    suffix: one of `FORMATS`. options: for Figure.savefig.
    """
    metadata = FORMATS[suffix]
    file = BytesIO()
    with style():
        figure.savefig(file, format=suffix[1:], metadata=metadata, **options)
    return file.getvalue()


def svg_element(figure: "Figure", label: str) -> str:
    """The figure as an SVG element of a page, described by the label.

    It is without what only a separate file needs: the XML head, and the metadata with
    its addresses, which a page that makes no request must not contain.
    """
    text = render_figure(figure, ".svg").decode()
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    opening_tag, rest = element.split(">", 1)
    # The page sets width and height.
    opening_tag = re.sub(r' (width|height)="[^"]*"', "", opening_tag)
    accessible = f'<svg role="img" aria-label="{escape(label)}"'
    return f"{opening_tag}>{rest}".replace("<svg", accessible, 1)


def document(
    title: str, body: list[str], more_style: str = "", more_head: str = ""
) -> str:
    """A whole HTML page from its parts.

    It needs no network and no scripts, and is readable on a phone, in the dark and on
    paper.
    """
    viewport = "width=device-width, initial-scale=1"
    css = PAGES.read_text().strip() + more_style
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="{viewport}">'
        f"{more_head}<title>{escape(title)}</title><style>{css}</style>"
    )
    content = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f"<body>\n{content}\n</body></html>\n"
    )


def write_text(path: str | Path, text: str) -> Path:
    """Write a page to a file, completely or not at all."""
    path = require_place(Path(path))
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"the page {path} is HTML; its name must end in .html.")
    return write_bytes(path, text.encode())
