"""The sections of the page of examples: each script with its output and its figure.

    python docs/_site/examples.py NAME ...

writes output/examples/NAME.png and NAME.txt. The tests run the scripts, too, and leave
these files; scripts whose code or library has changed since are run again, all in one
process: a minute for all. A draft (-D draft=1) runs nothing and shows the code alone.
"""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from _site.markdown import plain, write  # noqa: E402
from _site.runner import library  # noqa: E402

SCRIPTS = ROOT / "examples"
RESULTS = ROOT / "output" / "examples"
ORDER = (
    "choose_a_learning_rate",
    "plateau_and_escape",
    "overparameterize_with_noise",
    "design_a_schedule",
    "phase_diagram",
    "theory_of_my_data",
    "own_activation",
    "forget_and_replay",
    "a_million_inputs",
)


def load(name: str) -> ModuleType:
    """Return an example as a module."""
    spec = spec_from_file_location(name, SCRIPTS / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ExtensionError(f"there is no example {name}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def key(name: str) -> str:
    """Return the hash of the code of an example and of the library."""
    content = library() + (SCRIPTS / f"{name}.py").read_text()
    return hashlib.sha256(content.encode()).hexdigest()


def is_kept(name: str) -> bool:
    """Return True if this example has been run as it is now."""
    stored = RESULTS / f"{name}.key"
    return stored.is_file() and stored.read_text() == key(name)


def run(name: str) -> Any:
    """Run one example, keep its figure and its words, and return its answer."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        answer = load(name).main(RESULTS)
    (RESULTS / f"{name}.txt").write_text(printed.getvalue())
    (RESULTS / f"{name}.key").write_text(key(name))
    return answer


def section(name: str, images: Path | None) -> list[str]:
    """Return the question, the answer as printed, the figure and the code."""
    docstring = (SCRIPTS / f"{name}.py").read_text().split('"""')[1]
    question, _, rest = docstring.partition("\n\n")
    lines = [
        f"## {plain(question)}",
        "",
        plain(rest),
        "",
        "```text",
        f"python examples/{name}.py",
        "```",
        "",
    ]
    if images is not None:
        lines += ["```text", (RESULTS / f"{name}.txt").read_text().rstrip(), "```", ""]
        lines += [
            f"```{{image}} generated/examples/{name}.png",
            f":alt: {plain(question)}",
            ":width: 650px",
            "```",
            "",
        ]
    return [
        *lines,
        f"```{{literalinclude}} ../examples/{name}.py",
        ":language: python",
        "```",
        "",
    ]


def write_sections(app: Sphinx) -> None:
    """Write the sections before Sphinx reads the page that includes them."""
    images = Path(app.srcdir) / "generated" / "examples"
    missing = [name for name in ORDER if not is_kept(name)]
    draft = bool(app.config.draft)
    if missing and not draft:
        command = [sys.executable, __file__, *missing]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ExtensionError(f"an example fails: {done.stderr[-2000:]}")
    images.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in ORDER:
        if draft:
            lines += section(name, None)
        else:
            shutil.copyfile(RESULTS / f"{name}.png", images / f"{name}.png")
            lines += section(name, images)
    write(images / "sections.inc", lines)


def main(*names: str) -> None:
    """Run these examples."""
    os.environ.setdefault("MPLBACKEND", "agg")
    from tutelage.cli.process import compile_quickly

    compile_quickly()
    for name in names:
        run(name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension; Sphinx calls it."""
    app.connect("builder-inited", write_sections)
    return {"parallel_read_safe": False}


if __name__ == "__main__":
    main(*sys.argv[1:])
