"""Small parts of generated pages."""

import re
from pathlib import Path

PUNCTUATION = re.compile(r"([\\*_{}\[\]<>#|$~^])")
CODE = re.compile(r"(`[^`]+`)")


def plain(text: str) -> str:
    """Text that Markdown shows as it is, also in a cell of a table; `code` stays code."""
    parts = CODE.split(" ".join(text.split()))
    return "".join(
        part.replace("|", "\\|") if i % 2 else PUNCTUATION.sub(r"\\\1", part)
        for i, part in enumerate(parts)
    )


def table(head: list[str], rows: list[list[str]], kind: str = "") -> list[str]:
    """Lines of a table; its cells are Markdown. kind: a class whose columns have widths of their own (site.css)."""
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows)]
    return (
        [":::{table}", f":class: fixed {kind}", "", *lines, "", ":::"]
        if kind
        else lines
    )


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write(path: Path, lines: list[str]) -> None:
    """Write a page if it changed, so that Sphinx reads again only what is new."""
    text = "\n".join(lines).rstrip() + "\n"
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
