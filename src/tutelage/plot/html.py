"""HTML pages without network or scripts that read on a phone, in the dark and on paper: their style and their parts."""

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tutelage._errors import InputError
from tutelage._files import require_place, write_bytes
from tutelage.plot.style import drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #5c5c5c; --paper: #fff; --line: #d9d9d9; --card: #f5f5f3;
  --good: #00694b; --bad: #b03a00; --other: #005a8e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --soft: #a8a8a4; --paper: #16181a; --line: #3a3d40;
  --card: #1f2225; --good: #4fc79c; --bad: #ff9a66; --other: #6cb8ec; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.45rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.how, figcaption, footer { color: var(--soft); }
.verdict { border-left: .3rem solid var(--other); background: var(--card); padding: .75rem 1rem; margin: 1.25rem 0; }
.verdict b { color: var(--other); font-size: 1.1rem; display: block; }
.good { border-color: var(--good); } .good b { color: var(--good); }
.bad { border-color: var(--bad); } .bad b { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .7rem; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
figure { margin: 1rem 0; }
figure svg, figure img { width: 100%; min-width: 32rem; height: auto; display: block; background: #fff; }
@media (prefers-color-scheme: dark) { figure svg, figure img { filter: invert(.91) hue-rotate(180deg); } }
ul { padding-left: 1.1rem; margin: .25rem 0; }
pre { background: var(--card); padding: .75rem 1rem; overflow-x: auto; font-size: .85rem; line-height: 1.4; }
details > summary { cursor: pointer; font-weight: 600; margin: 1rem 0 .5rem; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .75rem; font-size: .85rem; }
@media print { :root { --ink: #000; --soft: #333; --paper: #fff; --card: #fff; --line: #999; }
  body { max-width: none; padding: 0; } figure svg, figure img { filter: none; min-width: 0; } pre { white-space: pre-wrap; }
  figure, table, .verdict, pre { break-inside: avoid; } }
""".strip()


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


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of texts; the first column is to the left, numbers to the right."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def bullets(lines: list[str]) -> str:
    """A bulleted list of sentences."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def svg_element(figure: "Figure", label: str) -> str:
    """The figure as part of a page: without what only a separate file needs (and without the addresses in its metadata)."""
    text = drawn(figure, ".svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)  # the page sets them
    return f"{head}>{rest}".replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
