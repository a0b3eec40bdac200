"""Show the output of every ```python block of a page below it (runner.py ran it)."""

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
    """Run the blocks of all pages before anything is read, in two processes.

    Return the pages that must be read again. The outputs of an earlier build are kept
    where neither the blocks nor the library changed. A draft runs nothing.
    """
    names = {Path(env.doc2path(name)): name for name in sorted(env.found_docs)}
    for name in BESIDE:
        names[ROOT / name] = ""
    waiting = []
    for page in names:
        if page.suffix != ".md" or not blocks(page.read_text()):
            continue
        if not (_folder(app, page) / "outputs.json").is_file():
            waiting.append(page)
    if not app.config.draft:
        _run([f"{page}={_folder(app, page)}" for page in waiting])
    return [names[page] for page in waiting if names[page]]


def _run(tasks: list[str]) -> None:
    """Run these tasks in a few processes; one that fails ends the build."""
    command = [sys.executable, str(Path(__file__).with_name("runner.py"))]
    running = []
    for first in range(PROCESSES):
        part = tasks[first::PROCESSES]
        if part:
            running.append(
                subprocess.Popen([*command, *part], stderr=subprocess.PIPE, text=True)
            )
    failures = []
    for process in running:
        _, errors = process.communicate()
        if process.returncode:
            failures.append(errors)
    if failures:
        raise ExtensionError("\n\n".join(failures))


def show_outputs(app: Sphinx, document: nodes.document) -> None:
    """Put the output below each block of a page that has been read."""
    page = Path(app.env.doc2path(app.env.docname))
    if page.suffix != ".md":
        return
    stored = _folder(app, page) / "outputs.json"
    if not stored.is_file():
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
    """True of an output or a figure that is written in the page itself (outputs.py).

    They are there for readers without a build.
    """
    if isinstance(node, nodes.literal_block):
        return node.get("language") == "text"
    if not isinstance(node, nodes.paragraph):
        return False
    images = list(node.findall(nodes.image))
    figure = re.compile(r"figures/[\w-]+-\d+\.png$")
    return bool(images) and all(figure.search(image["uri"]) for image in images)


def _output(app: Sphinx, entry: dict[str, Any], folder: Path) -> list[nodes.Node]:
    """The nodes that show one entry of outputs.json."""
    shown: list[nodes.Node] = []
    text = entry["text"].rstrip()
    if text.strip():
        output = nodes.literal_block(text, text, language="none", classes=["output"])
        shown.append(output)
    for image in entry["images"]:
        url = _publish(app, folder / image["file"])
        alt = escape(image["alt"])
        html = (
            f'<div class="picture"><img class="output" src="{url}" '
            f'width="{image["width"]}" alt="{alt}" loading="lazy"></div>'
        )
        shown.append(nodes.raw("", html, format="html"))
    for name in entry["frames"]:
        url = _publish(app, folder / name)
        html = (
            f'<iframe class="output" src="{url}" title="{name}" loading="lazy">'
            "</iframe>"
        )
        shown.append(nodes.raw("", html, format="html"))
    return shown


def _publish(app: Sphinx, path: Path) -> str:
    """Copy a file of the store into the site.

    Return its address as seen from the page that is being read.
    """
    target = Path(app.outdir) / "_outputs" / path.parent.name / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    up = "../" * app.env.docname.count("/")
    return f"{up}_outputs/{path.parent.name}/{path.name}"


def _folder(app: Sphinx, page: Path) -> Path:
    """The folder of the outputs of a page, by its blocks and the library."""
    return Path(app.doctreedir).parent / "outputs" / key(page.read_text())


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension; Sphinx calls it."""
    app.add_config_value("draft", False, "env")
    app.connect("env-get-outdated", run_pages)
    app.connect("doctree-read", show_outputs)
    return {"parallel_read_safe": False}
