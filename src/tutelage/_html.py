"""What a notebook shows for a problem, an initial condition or a result: HTML cards of tables and small curves.

A card has no script, no style sheet and no color: it takes the colors of the page. Every text is cut to a length.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

import numpy as np

LONGEST_TEXT, LONGEST_CELL = 2000, 160  # characters
LARGEST_MATRIX = 8  # rows and columns that are shown number by number
FEW_NUMBERS = 6  # of an array, shown one by one
CURVES, POINTS = 12, 120  # of a small curve
WIDTH, HEIGHT, EDGE = 220, 56, 3  # of a small curve, in pixels
DECADES = 1.5  # a small curve that spans more than this is logarithmic


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of texts; the first column is to the left, numbers to the right."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead>{_body(rows)}</table></div>'


def properties(rows: Iterable[tuple[str, ...]]) -> str:
    """A table without a head: a name, its value and, where there is one, its meaning; all to the left."""
    cut = [tuple(map(_cut, row)) for row in rows]
    return "<table>" + _body(cut, ' style="text-align: left; vertical-align: top"') + "</table>"


def matrix(name: str, values: Any) -> str:
    """A small matrix as a table of numbers below its name; larger arrays as shape and range."""
    array = np.atleast_2d(np.asarray(values))
    if array.ndim > 2 or max(array.shape) > LARGEST_MATRIX:
        return f"<div>{escape(name)}: {escape(in_one_line(values))}</div>"
    body = _body([tuple(f"{x:.4g}" for x in row) for row in array])
    place = 'style="display: inline-block; margin-right: 1.5em; vertical-align: top"'
    return f"<div {place}><div>{escape(name)}</div><table>{body}</table></div>"


def _body(rows: Iterable[tuple[str, ...]], look: str = "") -> str:
    cells = ["".join(f"<td{look}>{escape(cell)}</td>" for cell in row) for row in rows]
    return "<tbody>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</tbody>"


def bullets(lines: Iterable[str]) -> str:
    """A bulleted list of sentences."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def card(title: str, *parts: str, words: str = "") -> str:
    """The representation of one object. title: its class and size. words: what it says in plain text. parts: HTML."""
    text = f'<div style="white-space: pre-wrap">{escape(_cut(words, LONGEST_TEXT))}</div>' if words else ""
    return f'<div class="tutelage"><div><b>{escape(title)}</b></div>{text}{"".join(parts)}</div>'


def sparkline(times: Any, curves: Any, label: str = "error") -> str:
    """Curves (curve, time) against times as a small SVG picture in the color of the text, with its ends written next to it."""
    x, y = np.asarray(times, dtype=float).ravel(), np.atleast_2d(np.asarray(curves, dtype=float))
    y = y.reshape(-1, y.shape[-1])[:CURVES]
    picked = np.unique(np.linspace(0, x.size - 1, min(x.size, POINTS)).round().astype(int))
    known = y[np.isfinite(y)]
    if x.size < 2 or known.size < 2:
        return ""
    log = known.min() > 0 and np.log10(known.max() / known.min()) > DECADES
    height = np.log10(np.where(y > 0, y, np.nan)) if log else y
    low, high = np.nanmin(height), np.nanmax(height)
    across = EDGE + (WIDTH - 2 * EDGE) * (x - x[0]) / max(x[-1] - x[0], 1e-300)
    down = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (height - low) / max(high - low, 1e-300)
    points = [" ".join(f"{across[i]:.1f},{row[i]:.1f}" for i in picked if np.isfinite(row[i])) for row in down]
    look = 'fill="none" stroke="currentColor" stroke-width="1.3" opacity="0.8"'
    lines = "".join(f'<polyline points="{each}" {look}/>' for each in points)
    ends = [y[np.isfinite(y[:, i]), i] for i in (0, -1)]
    first, last = (f"{end.mean() if end.size else np.nan:.3g}" for end in ends)
    words = f"{label}: {first} to {last} at time {x[-1]:.4g}{', logarithmic' if log else ''}"
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" style="vertical-align: middle"'
    svg = f'<svg role="img" aria-label="{escape(words)}" {size}>{lines}</svg>'
    return f"<div>{svg} <span>{escape(words)}</span></div>"


def in_one_line(value: Any) -> str:
    """A value in one line: numbers with six digits, arrays as shape and range, objects by their first line."""
    if isinstance(value, bool | str) or value is None:
        return str(value)
    if isinstance(value, tuple | list) and value and not all(np.isscalar(x) for x in value):
        return f"{len(value)} × {type(value[0]).__name__}"
    if isinstance(value, float | int | complex | np.generic | np.ndarray | tuple | list) or hasattr(value, "__array__"):
        try:
            array = np.asarray(value)
        except Exception:  # a number that JAX traces
            return type(value).__name__
        return _numbers(array) if array.dtype.kind in "biufc" else str(value)
    if isinstance(value, Callable) and hasattr(value, "__name__"):
        return f"function {value.__name__}"
    return (repr(value) or " ").splitlines()[0]


def _numbers(array: np.ndarray) -> str:
    if array.size <= FEW_NUMBERS:
        entries = [str(x) if array.dtype.kind in "bi" else f"{x:.6g}" for x in array.ravel().tolist()]
        return ", ".join(entries) if array.ndim < 2 else f"{array.shape}: {', '.join(entries)}"
    known = array[np.isfinite(array)]
    span = f", {known.min():.4g} to {known.max():.4g}" if known.size and array.dtype.kind in "iuf" else ""
    return f"{array.shape}{span}"


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


class ResultCard:
    """A result that a notebook shows as its words and a table of its fields."""

    def _repr_html_(self) -> str:
        curve = getattr(self, "curve", None)
        names = [field.name for field in fields(self)] if is_dataclass(self) else []
        rows = [(name, in_one_line(getattr(self, name))) for name in names if name != "curve"]
        small = sparkline(curve.times, curve.error) if curve is not None else ""
        words = "" if type(self).__str__ is object.__str__ else str(self)
        return card(type(self).__name__, small, properties(rows), words=words)
