"""What a notebook shows for a problem, an initial condition or a result: HTML cards of tables and small curves.

A card has no script, no style sheet and no color of its own: it takes the colors of the page, in the light and in the dark.
Every text is cut to a length, so that a card stays small however large the result is. `ResultCard` is the representation
of any result: its words, then a table of its fields with their values and meanings.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from inspect import cleandoc
from typing import Any

import numpy as np

LONGEST_TEXT, LONGEST_CELL = 2000, 160  # characters
LARGEST_MATRIX = 8  # rows and columns that are shown number by number
FEW_NUMBERS = 6  # of an array, shown one by one
CURVES, POINTS = 12, 120  # of a small curve
WIDTH, HEIGHT, EDGE = 220, 56, 3  # of a small curve, in pixels
DECADES = 1.5  # a small curve that spans more than this is logarithmic
SECTION = re.compile(r"^([A-Z]\w+)\n-{3,}$", re.MULTILINE)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of texts; the first column is to the left, numbers to the right."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def bullets(lines: Iterable[str]) -> str:
    """A bulleted list of sentences."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def card(title: str, *parts: str, words: str = "") -> str:
    """The representation of one object. title: its class and size. words: what it says in plain text. parts: HTML."""
    text = f'<div style="white-space: pre-wrap">{escape(_cut(words, LONGEST_TEXT))}</div>' if words else ""
    return f'<div class="tutelage"><div><b>{escape(title)}</b></div>{text}{"".join(parts)}</div>'


def properties(rows: Iterable[tuple[str, ...]]) -> str:
    """A table without a head: a name, its value and, where there is one, its meaning; all to the left."""
    left = '<td style="text-align: left; vertical-align: top">'
    body = "".join("<tr>" + "".join(f"{left}{escape(_cut(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tbody>{body}</tbody></table>"


def matrix(name: str, values: Any) -> str:
    """A small matrix as a table of numbers below its name; larger arrays as shape and range."""
    array = np.atleast_2d(np.asarray(values))
    if array.ndim > 2 or max(array.shape) > LARGEST_MATRIX:
        return f"<div>{escape(name)}: {escape(in_one_line(values))}</div>"
    body = "".join("<tr>" + "".join(f"<td>{x:.4g}</td>" for x in row) + "</tr>" for row in array)
    place = 'style="display: inline-block; margin-right: 1.5em; vertical-align: top"'
    return f"<div {place}><div>{escape(name)}</div><table><tbody>{body}</tbody></table></div>"


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
    lines = []
    for curve in down:
        points = " ".join(f"{across[i]:.1f},{curve[i]:.1f}" for i in picked if np.isfinite(curve[i]))
        lines.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.3" opacity="0.8"/>')
    first, last = (f"{_mean(y[:, i]):.3g}" for i in (0, -1))
    words = f"{label}: {first} to {last} at time {x[-1]:.4g}{', logarithmic' if log else ''}"
    return (
        f'<div><svg role="img" aria-label="{escape(words)}" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'style="vertical-align: middle">{"".join(lines)}</svg> <span>{escape(words)}</span></div>'
    )


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else np.nan


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
        meanings, curve = meanings_of(type(self)), getattr(self, "curve", None)
        names = [field.name for field in fields(self)] if is_dataclass(self) else []
        rows = [(name, in_one_line(getattr(self, name)), meanings.get(name, "")) for name in names if name != "curve"]
        small = sparkline(curve.times, curve.error) if curve is not None else ""
        words = "" if type(self).__str__ is object.__str__ else str(self)
        return card(type(self).__name__, small, properties(rows), words=words)


def meanings_of(kind: type) -> dict[str, str]:
    """One line about each field of a dataclass, from its docstring and those of its bases.

    Both ways of writing are read: a section of names and indented lines, and "name: meaning." within a paragraph.
    """
    names = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType]
    found: dict[str, str] = {}
    for each in kind.__mro__:
        text = cleandoc(each.__doc__ or "").split("\n>>>")[0]
        if is_dataclass(each):
            found = _from_sections(text) | _from_paragraphs(text, names) | found
    return {name: _first_sentence(found[name]) for name in names if name in found}


def _from_sections(text: str) -> dict[str, str]:
    """The entries of the sections of a NumPy docstring."""
    found: dict[str, str] = {}
    for section in SECTION.split(text)[2::2]:
        for head, lines in re.findall(r"^(\w.*)\n((?:[ ]+.*\n?)+)", section, re.MULTILINE):
            found |= dict.fromkeys(head.split(" :")[0].split(", "), lines)
    return found


def _from_paragraphs(text: str, names: Sequence[str]) -> dict[str, str]:
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "(?!)"
    heads = rf"(?<![\w.])((?:{one})(?:, (?:{one}))*):\s"
    parts = re.split(heads, SECTION.split(text)[0])
    return {name: words for head, words in zip(parts[1::2], parts[2::2], strict=True) for name in head.split(", ")}


def _first_sentence(text: str) -> str:
    line = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[\w)\]])[.;] ", line)[0].rstrip(".;")
