"""HTML pages without network or scripts that read on a phone, in the dark and on paper: their style and their parts."""

import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from tutelage._files import require_place, write_bytes
from tutelage.errors import InputError
from tutelage.plot.style import drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = files("tutelage.plot").joinpath("pages.css").read_text().strip()


def document(title: str, body: list[str], more_style: str = "", more_head: str = "") -> str:
    """A whole page from its parts."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{more_head}<title>{escape(title)}</title><style>{STYLE}{more_style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def write_text(path: str | Path, text: str) -> Path:
    """Write a page to a file, completely or not at all."""
    path = require_place(Path(path))
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"the page {path} is HTML; its name must end in .html.")
    return write_bytes(path, text.encode())


def svg_element(figure: "Figure", label: str) -> str:
    """The figure as part of a page: without what only a separate file needs (and without the addresses in its metadata)."""
    text = drawn(figure, ".svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)  # the page sets them
    return f"{head}>{rest}".replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
