"""Small parts of generated pages."""

import re
from pathlib import Path

PUNCTUATION = re.compile(r"([\\*_{}\[\]<>#|$~^])")
CODE = re.compile(r"(`[^`]+`)")


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, also in a cell of a table.

    `code` stays code.
    """
    parts = []
    for place, part in enumerate(CODE.split(" ".join(text.split()))):
        is_code = place % 2 == 1
        if is_code:
            parts.append(part.replace("|", "\\|"))
        else:
            parts.append(PUNCTUATION.sub(r"\\\1", part))
    return "".join(parts)


def table(head: list[str], rows: list[list[str]], kind: str = "") -> list[str]:
    """Return the lines of a table; its cells are Markdown.

    kind: a class whose columns have widths of their own (site.css).
    """
    lines = [_row(head), "|" + "---|" * len(head)]
    lines += [_row(row) for row in rows]
    if not kind:
        return lines
    return [":::{table}", f":class: fixed {kind}", "", *lines, "", ":::"]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write(path: Path, lines: list[str]) -> None:
    """Write a page if it changed, so that Sphinx reads again only what is new."""
    text = "\n".join(lines).rstrip() + "\n"
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
