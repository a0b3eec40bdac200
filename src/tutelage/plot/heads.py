"""What stands above the curves of every figure: a title in words, conditions in small print, a sentence in alarm."""

import textwrap
from typing import Any

WRAP = 94  # characters of the small print per line
TITLE = {"fontsize": 11, "fontweight": "bold"}
SMALL = {"fontsize": 8.5}


def write_head(axes: Any, parts: list[tuple[str, dict[str, Any]]], wrap: int = WRAP) -> None:
    """Lines above the axes, wrapped to its width; larger letters wrap earlier."""
    height = 8.0
    for text, look in reversed(parts):
        heavy = look.get("fontweight") == "bold"
        lines = textwrap.wrap(text, int(wrap * SMALL["fontsize"] / look["fontsize"]) - 6 * heavy)
        if lines:
            place = {"xy": (0, 1), "xycoords": "axes fraction", "xytext": (0, height), "textcoords": "offset points"}
            axes.annotate("\n".join(lines), **place, ha="left", va="bottom", linespacing=1.2, **look)
            height += len(lines) * look["fontsize"] * 1.35 + 2.0
