"""HTML cards of tables and small curves, which a notebook shows for our objects.

A card has no script, no style sheet and no color: it takes the colors of the page.
Every text is cut to a length.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

import numpy as np

LONGEST_TEXT = 2000  # characters
LONGEST_CELL = 160
LARGEST_MATRIX = 8  # rows and columns that are shown number by number
FEW_NUMBERS = 6  # of an array, shown one by one

# A small curve
CURVES = 12  # drawn in one picture
POINTS = 120  # of each curve
WIDTH = 220  # pixels
HEIGHT = 56
EDGE = 3
DECADES = 1.5  # a curve that spans more than this is logarithmic


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of texts; the first column is to the left, numbers to the right."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="scroll"><table><thead><tr>{names}</tr></thead>{_body(rows)}'
        "</table></div>"
    )


def properties(rows: Iterable[tuple[str, ...]]) -> str:
    """A table without a head: a name, its value and, if there is one, its meaning.

    All texts are to the left.
    """
    short_rows = []
    for row in rows:
        short_rows.append(tuple(_cut(cell) for cell in row))
    look = ' style="text-align: left; vertical-align: top"'
    return f"<table>{_body(short_rows, look)}</table>"


def matrix(name: str, values: Any) -> str:
    """A small matrix as a table of numbers below its name.

    Larger arrays are shown as shape and range.
    """
    array = np.atleast_2d(np.asarray(values))
    if array.ndim > 2 or max(array.shape) > LARGEST_MATRIX:
        return f"<div>{escape(name)}: {escape(in_one_line(values))}</div>"
    rows = []
    for row in array:
        rows.append(tuple(f"{number:.4g}" for number in row))
    place = 'style="display: inline-block; margin-right: 1.5em; vertical-align: top"'
    numbers = f"<table>{_body(rows)}</table>"
    return f"<div {place}><div>{escape(name)}</div>{numbers}</div>"


def _body(rows: Iterable[tuple[str, ...]], look: str = "") -> str:
    """The body of a table; look: attributes of each cell."""
    html_rows = []
    for row in rows:
        cells = "".join(f"<td{look}>{escape(cell)}</td>" for cell in row)
        html_rows.append(f"<tr>{cells}</tr>")
    return f"<tbody>{''.join(html_rows)}</tbody>"


def bullets(lines: Iterable[str]) -> str:
    """A bulleted list of sentences."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>"


def card(title: str, *parts: str, words: str = "") -> str:
    """The representation of one object.

    title: its class and size. words: its plain text. parts: HTML.
    """
    text = ""
    if words:
        short = escape(_cut(words, LONGEST_TEXT))
        text = f'<div style="white-space: pre-wrap">{short}</div>'
    head = f"<div><b>{escape(title)}</b></div>"
    return f'<div class="tutelage">{head}{text}{"".join(parts)}</div>'


def sparkline(times: Any, curves: Any, label: str = "error") -> str:
    """Curves (curve, time) against times as a small SVG picture.

    It has the color of the text, and the ends of the curves are written next to it.
    """
    x = np.asarray(times, dtype=float).ravel()
    y = np.atleast_2d(np.asarray(curves, dtype=float))
    y = y.reshape(-1, y.shape[-1])[:CURVES]
    finite = y[np.isfinite(y)]
    if x.size < 2 or finite.size < 2:
        return ""
    logarithmic = finite.min() > 0 and np.log10(finite.max() / finite.min()) > DECADES
    words = f"{label}: {_ends_in_words(x, y)}"
    heights = y
    if logarithmic:
        words += ", logarithmic"
        heights = np.log10(np.where(y > 0, y, np.nan))
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    attributes = f'aria-label="{escape(words)}" {size} style="vertical-align: middle"'
    svg = f'<svg role="img" {attributes}>{_polylines(x, heights)}</svg>'
    return f"<div>{svg} <span>{escape(words)}</span></div>"


def _ends_in_words(x: np.ndarray, y: np.ndarray) -> str:
    """The mean of all curves at the first and at the last time."""
    first = _mean_of_finite(y[:, 0])
    last = _mean_of_finite(y[:, -1])
    return f"{first:.3g} to {last:.3g} at time {x[-1]:.4g}"


def _mean_of_finite(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return np.nan
    return finite.mean()


def _polylines(x: np.ndarray, heights: np.ndarray) -> str:
    """The curves as SVG elements, scaled to the picture and thinned evenly."""
    places = np.linspace(0, x.size - 1, min(x.size, POINTS))
    shown = np.unique(places.round().astype(int))
    lowest = np.nanmin(heights)
    highest = np.nanmax(heights)
    inner_width = WIDTH - 2 * EDGE
    inner_height = HEIGHT - 2 * EDGE
    across = EDGE + inner_width * (x - x[0]) / max(x[-1] - x[0], 1e-300)
    span = max(highest - lowest, 1e-300)
    down = HEIGHT - EDGE - inner_height * (heights - lowest) / span
    look = 'fill="none" stroke="currentColor" stroke-width="1.3" opacity="0.8"'
    lines = []
    for curve in down:
        points = [
            f"{across[i]:.1f},{curve[i]:.1f}" for i in shown if np.isfinite(curve[i])
        ]
        lines.append(f'<polyline points="{" ".join(points)}" {look}/>')
    return "".join(lines)


def in_one_line(value: Any) -> str:
    """A value in one line.

    Numbers have six digits, arrays are shown as shape and range, objects by the first
    line of their representation.
    """
    if isinstance(value, bool | str) or value is None:
        return str(value)
    if isinstance(value, tuple | list) and not all(map(np.isscalar, value)):
        return f"{len(value)} × {type(value[0]).__name__}"
    if _is_numeric(value):
        return _array_in_one_line(value)
    if isinstance(value, Callable) and hasattr(value, "__name__"):
        return f"function {value.__name__}"
    lines = repr(value).splitlines()
    if not lines:
        return " "
    return lines[0]


def _is_numeric(value: Any) -> bool:
    """Return True for numbers, arrays, and what NumPy can make an array of."""
    if isinstance(value, float | int | complex | np.generic | np.ndarray):
        return True
    return isinstance(value, tuple | list) or hasattr(value, "__array__")


def _array_in_one_line(value: Any) -> str:
    try:
        array = np.asarray(value)
    except Exception:  # a number that JAX traces
        return type(value).__name__
    if array.dtype.kind not in "biufc":
        return str(value)
    if array.size <= FEW_NUMBERS:
        return _few_numbers(array)
    finite = array[np.isfinite(array)]
    if finite.size and array.dtype.kind in "iuf":
        return f"{array.shape}, {finite.min():.4g} to {finite.max():.4g}"
    return f"{array.shape}"


def _few_numbers(array: np.ndarray) -> str:
    """All numbers of an array, and its shape if it has several axes."""
    numbers = array.ravel().tolist()
    if array.dtype.kind in "bi":
        entries = ", ".join(str(number) for number in numbers)
    else:
        entries = ", ".join(f"{number:.6g}" for number in numbers)
    if array.ndim < 2:
        return entries
    return f"{array.shape}: {entries}"


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    """The text, shortened to a number of characters."""
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"


class ResultCard:
    """A result that a notebook shows as its words and a table of its fields."""

    def _repr_html_(self) -> str:
        picture = ""
        curve = getattr(self, "curve", None)
        if curve is not None:
            picture = sparkline(curve.times, curve.error)
        rows = []
        if is_dataclass(self):
            for field in fields(self):
                if field.name != "curve":
                    rows.append((field.name, in_one_line(getattr(self, field.name))))
        words = ""
        if type(self).__str__ is not object.__str__:
            words = str(self)
        return card(type(self).__name__, picture, properties(rows), words=words)
