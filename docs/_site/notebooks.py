"""`make notebooks`: the chapters of the course, the tour and the examples as Jupyter notebooks, in output/notebooks.

    python docs/_site/notebooks.py [FOLDER]

The Markdown pages and the scripts are the only source. Code blocks become cells without outputs; the committed outputs and figures
of a page are left out, and drawings are attached, so that each notebook is one file to hand out. Solutions are folded.
"""

import ast
import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from _site.outputs import COURSE, without_outputs  # noqa: E402

EXAMPLES = ROOT / "examples"
TOUR = ROOT / "docs" / "how-to" / "twelve-cells.md"
TARGET = ROOT / "output" / "notebooks"
CODE = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
DRAWING = re.compile(r"!\[([^\]]*)\]\((figures/[\w-]+\.svg)\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([\w./-]+)\.md(#[\w-]*)?\)")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def chapters() -> list[Path]:
    """The pages of the course that have code, in their order."""
    pages = [
        page for page in COURSE.glob("*.md") if re.match(r"# \d+\. ", page.read_text())
    ]
    return sorted(
        pages, key=lambda page: int(re.match(r"# (\d+)", page.read_text())[1])
    )


def of_page(page: Path) -> dict[str, Any]:
    """A chapter as a notebook."""
    cells = [
        _cell(kind, text, page, folded)
        for kind, text, folded in _parts(without_outputs(page.read_text()))
    ]
    return _notebook(cells)


def of_script(path: Path) -> dict[str, Any]:
    """An example as a notebook: its docstring, its code without the lines for the command line, and one call that runs it."""
    tree = ast.parse(path.read_text())
    body = [node for node in tree.body[1:] if not isinstance(node, ast.If)]
    lines = path.read_text().splitlines()
    code = "\n".join(lines[body[0].lineno - 1 : body[-1].end_lineno])
    question, _, rest = (ast.get_docstring(tree) or path.stem).partition("\n\n")
    run = (
        'from IPython.display import Image\n\nmain(".")\nImage("' + path.stem + '.png")'
    )
    parts = [("markdown", f"# {question}\n\n{rest}"), ("code", code), ("code", run)]
    return _notebook([_cell(kind, text, path) for kind, text in parts])


def _parts(text: str) -> Iterator[tuple[str, str, bool]]:
    """(kind, text, folded) of each piece of a page; what stands between <details> and </details> is folded."""
    folded = False
    for i, piece in enumerate(CODE.split(text)):
        if i % 2:
            yield "code", piece, folded
            continue
        for part in re.split(r"(<details>\n|</details>\n)", piece):
            if part.startswith(("<details>", "</details>")):
                folded = part.startswith("<details>")
            elif part.strip():
                yield (
                    "markdown",
                    part.replace("<summary>Solutions</summary>", "### Solutions"),
                    folded,
                )


def _cell(kind: str, text: str, source: Path, folded: bool = False) -> dict[str, Any]:
    text, attachments = text.strip(), {}
    if kind == "markdown":
        for _, name in DRAWING.findall(text):
            drawing = base64.b64encode((source.parent / name).read_bytes()).decode()
            attachments[Path(name).name] = {"image/svg+xml": drawing}
        text = DRAWING.sub(
            lambda found: f"![{found[1]}](attachment:{Path(found[2]).name})", text
        )
        text = LINK.sub(lambda found: _link(found, source), text)
    cell: dict[str, Any] = {
        "cell_type": kind,
        "metadata": {"jupyter": {"source_hidden": True}} if folded else {},
    }
    cell |= {"id": hashlib.sha256(text.encode()).hexdigest()[:12], "source": text}
    if attachments:
        cell["attachments"] = attachments
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _link(found: re.Match[str], source: Path) -> str:
    """A chapter links to its notebook; other pages are not handed out, so their names stay as text."""
    page = source.parent / f"{found[2]}.md"
    return f"[{found[1]}]({page.stem}.ipynb)" if page in chapters() else found[1]


def _notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path = TARGET) -> list[Path]:
    """Write all notebooks; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    books = {page.stem: of_page(page) for page in [*chapters(), TOUR]}
    books |= {
        f"example-{path.stem}": of_script(path)
        for path in sorted(EXAMPLES.glob("*.py"))
    }
    for name, book in books.items():
        (folder / f"{name}.ipynb").write_text(json.dumps(book, indent=1) + "\n")
    return [folder / f"{name}.ipynb" for name in books]


if __name__ == "__main__":
    for path in write(*map(Path, sys.argv[1:])):
        print(path)
