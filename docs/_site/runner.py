"""Run the ```python blocks of pages, all in one process, and store their outputs.

    python docs/_site/runner.py PAGE=FOLDER ...

writes FOLDER/outputs.json and the files that it names. One process, not one Jupyter
kernel for each page (myst-nb): a kernel costs 6 s of CPU before its first curve (JAX
starts, a solver is compiled), while here the second page of a shape costs milliseconds:
23 pages took 85 s of CPU, of which kernels alone would have taken 140. And the pages
stay plain Markdown, which reads as well on a code host.

The blocks of a page share a namespace and an empty folder. Below a block is shown: what
it prints, the value of its last line, every Matplotlib figure that it binds to a name
or that its last line makes, and every HTML file that it writes, in a frame. Warnings
are errors.
"""

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[str]:
    """Return the ```python blocks of a page."""
    return BLOCK.findall(text)


def key(text: str) -> str:
    """Return the hash of all that the outputs of a page depend on.

    These are its blocks, and the code of the library and of this file.
    """
    content = "\0".join([library(), *blocks(text)])
    return hashlib.sha256(content.encode()).hexdigest()[:24]


@cache
def library() -> str:
    """Return the hash of the code of library and papers, as it was when first asked."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "papers" / "src").rglob("*.py")]
    files = sorted([*sources, Path(__file__)])
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def run_page(page: Path, target: Path) -> None:
    """Run the blocks of one page and store their outputs.

    A block that raises ends everything with its traceback.
    """
    target = target.resolve()
    here = Path.cwd()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        try:
            names: dict[str, Any] = {"__name__": "__main__"}
            outputs = []
            for number, block in enumerate(blocks(page.read_text())):
                outputs.append(_run(block, number, names, page, target))
        finally:
            os.chdir(here)
    (target / "outputs.json").write_text(json.dumps(outputs, indent=1))


def _run(
    block: str, number: int, names: dict[str, Any], page: Path, target: Path
) -> dict[str, Any]:
    """Run one block and return its output: {"code", "text", "images", "frames"}."""
    tree = ast.parse(block, page.name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    known = {name: id(value) for name, value in names.items()}
    printed = io.StringIO()
    value = None
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(tree, page.name, "exec"), names)
            if last is not None:
                value = eval(compile(last, page.name, "eval"), names)
    except Exception:
        sys.exit(
            f"{page}: block {number + 1} raises\n\n{block}\n{traceback.format_exc()}"
        )
    new = [v for name, v in names.items() if known.get(name) != id(v)]
    images = _save_figures([*new, value], target, number)
    if value is not None and not _is_figure(value):
        print(repr(value), file=printed)
    return {
        "code": block,
        "text": printed.getvalue(),
        "images": images,
        "frames": _take_pages(target, number),
    }


def _is_figure(value: Any) -> bool:
    from matplotlib.figure import Figure

    return isinstance(value, Figure)


def _save_figures(values: list[Any], target: Path, number: int) -> list[dict[str, Any]]:
    """Save the figures among these values, each once, twice as fine as they are shown.

    The widths of the images are in pixels.
    """
    saved = []
    figures = {id(value): value for value in values if _is_figure(value)}
    for figure in figures.values():
        name = f"{number}-{len(saved)}.png"
        figure.savefig(target / name, dpi=192)
        saved.append(
            {
                "file": name,
                "width": round(96 * figure.get_figwidth()),
                "alt": in_words(figure),
            }
        )
    return saved


def in_words(figure: Any) -> str:
    """Return a figure in words, for those who do not see it.

    These are its title and small print, and what each panel draws.
    """
    # Above the first panel (plot/heads.py), or of the sheet.
    heads = figure.axes[0].texts if figure.axes else []
    texts = [text.get_text() for text in [*figure.texts, *reversed(heads)]]
    parts = [text for text in texts if text.count(" ") > 1]
    for axes in figure.axes:
        title = axes.get_title() or axes.get_title(loc="left")
        labels = [label for label in (axes.get_ylabel(), axes.get_xlabel()) if label]
        panel = [text for text in (title, " against ".join(labels)) if text]
        if panel:
            parts.append(": ".join(panel))
    words = ". ".join(dict.fromkeys(parts))
    plain = " ".join(re.sub(r"\\mathrm|[$\\{}]", "", words).split())
    return plain or "what the block above draws"


def _take_pages(target: Path, number: int) -> list[str]:
    """Move the HTML files that the block wrote, and return their names.

    The next block does not show them again.
    """
    taken = []
    for path in sorted(Path.cwd().glob("*.html")):
        shutil.move(path, target / f"{number}-{path.name}")
        taken.append(f"{number}-{path.name}")
    return taken


def main(*tasks: str) -> None:
    """Run these pages, one after the other."""
    os.environ.setdefault("MPLBACKEND", "agg")
    from tutelage.cli.process import compile_quickly, keep_compiled_programs

    compile_quickly()
    # The other process, or an earlier build, may have compiled programs already.
    keep_compiled_programs()
    for task in tasks:
        page, _, folder = task.partition("=")
        run_page(Path(page), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
