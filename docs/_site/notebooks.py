"""`make notebooks`: the course, the tour and the examples as Jupyter notebooks.

    python docs/_site/notebooks.py [FOLDER]

writes them to output/notebooks unless a folder is given. The Markdown pages and the
scripts are the only source. Code blocks become cells without outputs; the committed
outputs and figures of a page are left out, and drawings are attached, so that each
notebook is one file to hand out. Solutions are folded.
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
    """Return the pages of the course that have code, in their order."""
    numbers = {}
    for page in COURSE.glob("*.md"):
        heading = re.match(r"# (\d+)\. ", page.read_text())
        if heading is not None:
            numbers[page] = int(heading[1])
    return sorted(numbers, key=lambda page: numbers[page])


def of_page(page: Path) -> dict[str, Any]:
    """Return a chapter as a notebook."""
    cells = []
    for kind, text, folded in _parts(without_outputs(page.read_text())):
        cells.append(_cell(kind, text, page, folded))
    return _notebook(cells)


def of_script(path: Path) -> dict[str, Any]:
    """Return an example as a notebook.

    It has the docstring, the code without the lines for the command line, and one call
    that runs it.
    """
    tree = ast.parse(path.read_text())
    body = [node for node in tree.body[1:] if not isinstance(node, ast.If)]
    lines = path.read_text().splitlines()
    code = "\n".join(lines[body[0].lineno - 1 : body[-1].end_lineno])
    question, _, rest = (ast.get_docstring(tree) or path.stem).partition("\n\n")
    image = f'Image("{path.stem}.png")'
    run = f'from IPython.display import Image\n\nmain(".")\n{image}'
    parts = [("markdown", f"# {question}\n\n{rest}"), ("code", code), ("code", run)]
    return _notebook([_cell(kind, text, path) for kind, text in parts])


def _parts(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (kind, text, folded) of each piece of a page.

    Text between <details> and </details> is folded.
    """
    folded = False
    for place, piece in enumerate(CODE.split(text)):
        is_code = place % 2 == 1
        if is_code:
            yield "code", piece, folded
            continue
        for part in re.split(r"(<details>\n|</details>\n)", piece):
            if part.startswith(("<details>", "</details>")):
                folded = part.startswith("<details>")
            elif part.strip():
                part = part.replace("<summary>Solutions</summary>", "### Solutions")
                yield "markdown", part, folded


def _cell(kind: str, text: str, source: Path, folded: bool = False) -> dict[str, Any]:
    """A cell; its drawings are attached, its links lead to other notebooks."""
    text = text.strip()
    attachments = {}
    if kind == "markdown":
        for _, name in DRAWING.findall(text):
            drawing = base64.b64encode((source.parent / name).read_bytes()).decode()
            attachments[Path(name).name] = {"image/svg+xml": drawing}
        text = DRAWING.sub(_attachment, text)
        text = LINK.sub(lambda found: _link(found, source), text)
    metadata = {"jupyter": {"source_hidden": True}} if folded else {}
    cell: dict[str, Any] = {
        "cell_type": kind,
        "metadata": metadata,
        "id": hashlib.sha256(text.encode()).hexdigest()[:12],
        "source": text,
    }
    if attachments:
        cell["attachments"] = attachments
    if kind == "code":
        cell["execution_count"] = None
        cell["outputs"] = []
    return cell


def _attachment(found: re.Match[str]) -> str:
    return f"![{found[1]}](attachment:{Path(found[2]).name})"


def _link(found: re.Match[str], source: Path) -> str:
    """A link to the notebook of a chapter; other pages are not handed out.

    Their names stay as text.
    """
    page = source.parent / f"{found[2]}.md"
    if page in chapters():
        return f"[{found[1]}]({page.stem}.ipynb)"
    return found[1]


def _notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path = TARGET) -> list[Path]:
    """Write all notebooks, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    books = {page.stem: of_page(page) for page in [*chapters(), TOUR]}
    for path in sorted(EXAMPLES.glob("*.py")):
        books[f"example-{path.stem}"] = of_script(path)
    for name, book in books.items():
        (folder / f"{name}.ipynb").write_text(json.dumps(book, indent=1) + "\n")
    return [folder / f"{name}.ipynb" for name in books]


if __name__ == "__main__":
    for path in write(*map(Path, sys.argv[1:])):
        print(path)
