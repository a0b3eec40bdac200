"""Pages that the library writes itself: the public names in the order of the flow, the commands.

They are written as sources into docs/generated, which git ignores, before Sphinx looks for pages.
"""

import io
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from sphinx.application import Sphinx

import tutelage
from _site.markdown import plain, table, write
from tutelage.cli.app import build_app

GROUPS = {
    "problem": "The problem",
    "theory": "The theory",
    "results": "What comes back",
    "simulate": "The finite network",
    "compare": "Theory beside networks",
    "analysis.fixed_points": "Fixed points and learning rates",
    "analysis.curves": "What a curve shows",
    "analysis.escape": "Escape from a plateau",
    "analysis.noise": "Scatter of single networks",
    "analysis.single_steps": "Single steps",
    "analysis.schedules": "Schedules",
    "analysis.linear": "Linear networks",
    "analysis.structured": "Structured inputs",
    "analysis.geometry": "Landscape",
    "analysis.quadratic": "Quadratic networks",
    "sweep": "Sweeps",
    "errors": "Errors and warnings",
}
PART = {
    **{"averages": "theory", "dynamics": "theory", "solve": "theory"},
    **{"status": "results", "trajectory": "results", "validity": "results", "page": "results", "_errors": "errors"},
}


def group_of(home: str) -> str:
    """The group of a module: its own package, for an analysis that of the question."""
    parts = home.removeprefix("tutelage.").split(".")
    return ".".join(parts[:2]) if parts[0] == "analysis" else PART.get(parts[0], parts[0])


def groups() -> dict[str, list[str]]:
    """Public names by group, both in the order of the flow; a new package comes before the errors."""
    found: dict[str, list[str]] = {}
    for home, names in tutelage._HOMES.items():
        found.setdefault(group_of(home), []).extend(names)
    order = list(GROUPS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order) - 2))


def api_page(group: str, names: list[str]) -> list[str]:
    """The page of one group, as reStructuredText."""
    title = _title(group)
    lines = [title, "=" * len(title), "", ".. currentmodule:: tutelage", ""]
    for name in names:
        value = getattr(tutelage, name)
        kind = "exception" if group == "errors" else "class" if isinstance(value, type) else "function"
        lines += [f".. auto{kind}:: {name}", *(["   :members:"] if kind == "class" else []), ""]
    return lines


def api_index(found: dict[str, list[str]]) -> list[str]:
    """All names on one page, each with the first line of its docstring."""
    lines = ["# API", "", "Every public name, in the order of the flow: state a problem, solve, simulate, compare, ask.", ""]
    lines += ["The examples begin with `import tutelage as tu` and `import numpy as np`; the tests run each of them.", ""]
    lines += ["```{toctree}", ":hidden:", *(f"{group}" for group in found), "```", ""]
    for group, names in found.items():
        rows = [[f"{{py:obj}}`~tutelage.{name}`", _first_line(name)] for name in names]
        lines += [f"## [{_title(group)}]({group}.rst)", "", *table(["name", "what it is"], rows), ""]
    return lines


def _title(group: str) -> str:
    return GROUPS.get(group, group.split(".")[-1].capitalize())


def _first_line(name: str) -> str:
    return plain(((getattr(tutelage, name).__doc__ or "").strip().splitlines() or [""])[0])


def cli_page() -> list[str]:
    """The help of every command, as the program prints it."""
    lines = ["# Command line", "", "`tutelage COMMAND --help` prints what stands here.", EXIT_CODES, ""]
    for command in commands():
        title = [f"## tutelage {' '.join(command)}", ""] if command else []
        lines += [*title, "```text", help_of(command), "```", ""]
    return lines


EXIT_CODES = "Exit codes: 0: an answer; 1: the solver gave up, or a claim of a figure fails; 2: bad input; 130: Ctrl-C."


def commands() -> list[tuple[str, ...]]:
    """The program, its commands, and theirs."""
    app = build_app()
    found: list[tuple[str, ...]] = [()]
    for name in _commands_of(app):
        found += [(name,), *((name, below) for below in _commands_of(app[name]))]
    return found


def _commands_of(app: App) -> list[str]:
    return [name for name in app if not name.startswith("-")]


def help_of(command: tuple[str, ...]) -> str:
    """What --help prints, without colors."""
    text = io.StringIO()
    build_app().help_print([*command], console=Console(file=text, width=90, color_system=None, legacy_windows=False))
    return "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())


def write_pages(app: Sphinx) -> None:
    """Before Sphinx looks for pages."""
    folder = Path(app.srcdir) / "generated" / "reference"
    found = groups()
    pages = {f"{group}.rst": api_page(group, names) for group, names in found.items()}
    pages |= {"api.md": api_index(found), "command-line.md": cli_page()}
    for path in folder.glob("*"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        write(folder / name, text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
