"""Shows below every ```python block of a page what it printed and drew (runner.py ran it)."""

import json
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from _site.runner import ROOT, blocks, key

BESIDE = ("README.md",)  # pages outside the site whose blocks are run, too
PROCESSES = 2


def run_pages(app: Sphinx, env: BuildEnvironment, *changes: set[str]) -> list[str]:
    """Before anything is read: run the blocks of all pages, in two processes, and say which must be read again.

    The outputs of an earlier build are kept where neither the blocks nor the library changed. A draft runs nothing.
    """
    pages = {Path(env.doc2path(name)): name for name in sorted(env.found_docs)} | {
        ROOT / name: "" for name in BESIDE
    }
    pages = {
        page: name
        for page, name in pages.items()
        if page.suffix == ".md" and blocks(page.read_text())
    }
    waiting = [
        page for page in pages if not (_folder(app, page) / "outputs.json").is_file()
    ]
    if not app.config.draft:
        _run([f"{page}={_folder(app, page)}" for page in waiting])
    return [pages[page] for page in waiting if pages[page]]


def _run(tasks: list[str]) -> None:
    command = [sys.executable, str(Path(__file__).with_name("runner.py"))]
    parts = [tasks[i::PROCESSES] for i in range(PROCESSES)]
    running = [
        subprocess.Popen([*command, *part], stderr=subprocess.PIPE, text=True)
        for part in parts
        if part
    ]
    ends = [(process.communicate()[1], process.returncode) for process in running]
    failed = [text for text, code in ends if code]
    if failed:
        raise ExtensionError("\n\n".join(failed))


def show_outputs(app: Sphinx, document: nodes.document) -> None:
    """Put the output below each block of a page that has been read."""
    page = Path(app.env.doc2path(app.env.docname))
    stored = _folder(app, page) / "outputs.json" if page.suffix == ".md" else page
    if stored.name != "outputs.json" or not stored.is_file():
        return
    outputs = {entry["code"].strip(): entry for entry in json.loads(stored.read_text())}
    code = [
        node
        for node in document.findall(nodes.literal_block)
        if node.get("language") == "python"
    ]
    for block in code:
        entry = outputs.get(block.astext().strip())
        if entry is not None:
            index = block.parent.index(block) + 1
            while index < len(block.parent) and _is_committed(block.parent[index]):
                block.parent.pop(index)
            block.parent.insert(index, _output(app, entry, stored.parent))


def _is_committed(node: nodes.Node) -> bool:
    """An output or a figure that is written in the page itself (outputs.py), for readers without a build."""
    if isinstance(node, nodes.literal_block):
        return node.get("language") == "text"
    images = (
        list(node.findall(nodes.image)) if isinstance(node, nodes.paragraph) else []
    )
    return bool(images) and all(
        re.search(r"figures/[\w-]+-\d+\.png$", image["uri"]) for image in images
    )


def _output(app: Sphinx, entry: dict[str, Any], folder: Path) -> list[nodes.Node]:
    """The nodes that show one entry of outputs.json."""
    shown: list[nodes.Node] = []
    if entry["text"].strip():
        shown.append(
            nodes.literal_block(
                entry["text"].rstrip(),
                entry["text"].rstrip(),
                language="none",
                classes=["output"],
            )
        )
    for image in entry["images"]:
        url = _publish(app, folder / image["file"])
        html = f'<img class="output" src="{url}" width="{image["width"]}" alt="{escape(image["alt"])}" loading="lazy">'
        shown.append(nodes.raw("", f'<div class="picture">{html}</div>', format="html"))
    for name in entry["frames"]:
        html = f'<iframe class="output" src="{_publish(app, folder / name)}" title="{name}" loading="lazy"></iframe>'
        shown.append(nodes.raw("", html, format="html"))
    return shown


def _publish(app: Sphinx, path: Path) -> str:
    """Copy a file of the store into the site; its address as seen from the page that is being read."""
    target = Path(app.outdir) / "_outputs" / path.parent.name / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    up = "../" * app.env.docname.count("/")
    return f"{up}_outputs/{path.parent.name}/{path.name}"


def _folder(app: Sphinx, page: Path) -> Path:
    """Of the outputs of a page as its blocks and the library are now."""
    return Path(app.doctreedir).parent / "outputs" / key(page.read_text())


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_config_value("draft", False, "env")
    app.connect("env-get-outdated", run_pages)
    app.connect("doctree-read", show_outputs)
    return {"parallel_read_safe": False}
