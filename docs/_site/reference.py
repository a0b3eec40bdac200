"""Pages that the library writes itself: public names in the order of use, commands.

They are written as sources into docs/generated, which git ignores, before Sphinx looks
for pages.
"""

import io
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from sphinx.application import Sphinx

import tutelage
import tutelage.comparison
import tutelage.moments
import tutelage.result.citations
import tutelage.solvers
import tutelage.stream.validity
import tutelage.sweeps.sweep
import tutelage_papers
from _site.markdown import plain, table, write
from tutelage._namespace import public_names
from tutelage.cli.app import build_app

GROUPS = {
    "problem": "Problem",
    "losses": "Losses",
    "labels": "Labels",
    "rules": "Learning rules",
    "optimizers": "Optimizers",
    "schedules": "Schedules",
    "theory": "Solve and simulate",
    "moments": "Gaussian averages",
    "results": "Results, times and pages",
    "recording": "Recorded training runs",
    "conventions": "Units of other programs",
    "comparison": "Comparison",
    "data": "Your data",
    "analysis.fixed_points": "Fixed points and learning rates",
    "analysis.curves": "Learning curves",
    "analysis.escapes": "Escape from a plateau",
    "analysis.noise": "Fluctuations",
    "analysis.single_steps": "Single steps",
    "analysis.landscapes": "Landscape",
    "analysis.continual": "Continual learning",
    "analysis.equilibrium": "The end of training",
    "sweeps": "Sweeps",
    "plot": "Figures",
    "tutelage_papers": "Published figures",
    "tutelage_papers.notes": "Formulas: online SGD",
    "tutelage_papers.power_law": "Formulas: power-law spectra",
    "tutelage_papers.quadratic": "Formulas: quadratic networks",
    "theories": "The table of theories",
    "checks": "Checks for extensions",
    "errors": "Errors and warnings",
}
SHARED = {"learning_rates": "fixed_points"}  # files of `analysis` that share a page
SHARED |= dict.fromkeys(("result", "curve_events", "power_laws", "reduction"), "curves")
SHARED |= {"protocols": "schedules", "drift_terms": "single_steps"}
SHARED |= {"bayes_limits": "equilibrium"}
THEORY = ("_solve", "stream", "solvers")
PAPERS = (
    "tutelage_papers",
    "tutelage_papers.notes",
    "tutelage_papers.power_law",
    "tutelage_papers.quadratic",
)
# Besides: classes that functions of the root return, and the Gaussian integrals of the
# textbooks.
BESIDES = (
    "stream.validity.Validity",
    "comparison.Comparison",
    "result.citations.References",
    "data.Data",
    "data.DataComparison",
    "sweeps.sweep.Sweep",
    "moments.I2",
    "moments.I3",
    "moments.I4",
    "moments.J2",
    "stream.moments.averages.Averages",
    "solvers.ClosedSystem",
)
RESULTS = ("status", "result", "page", "explorer", "times")


def all_public_names() -> dict[str, tuple[str, ...]]:
    """Return the public names of each namespace of library and papers."""
    of_papers = {space: tuple(import_module(space).__all__) for space in PAPERS}
    return public_names() | of_papers


def full_path(name: str) -> str:
    """Return the import path of a name as `groups` lists it."""
    if name.split(".")[0] == PAPERS[0]:
        return name
    return f"tutelage.{name}"


def value_of(name: str) -> Any:
    """Return the object of a name of `groups`."""
    package, *parts = full_path(name).split(".")
    value: Any = tutelage_papers if package == PAPERS[0] else tutelage
    for part in parts:
        value = getattr(value, part)
    return value


def group_of(space: str, home: str) -> str:
    """Return the group of a name: its namespace.

    At the root and in `analysis` it is the file where the name lives.
    """
    if space not in ("tutelage", "tutelage.analysis"):
        part = space.removeprefix("tutelage.")
        return "results" if part in RESULTS else part
    parts = home.removeprefix("tutelage.").split(".")
    if "moments" in parts:
        return "moments"
    if "validity" in parts:
        return "results"
    if parts[0] == "training":
        return parts[1]
    if parts[0] == "analysis":
        return f"analysis.{SHARED.get(parts[1], parts[1])}"
    if parts[0] in THEORY:
        return "theory"
    if parts[0] in RESULTS:
        return "results"
    return parts[0]


def groups() -> dict[str, list[str]]:
    """Return public names with their namespace ("analysis.fixed_point") by group.

    The groups have the order of use. A class that has a name at the root and another in
    a namespace (`Rule`) is there once, under the first.
    """
    found: dict[str, list[str]] = {}
    seen: set[int] = set()
    for space, names in all_public_names().items():
        for name in names:
            path = f"{space}.{name}".removeprefix("tutelage.")
            value = value_of(path)
            if callable(value) and id(value) not in seen and not name.startswith("_"):
                seen.add(id(value))
                group = group_of(space, getattr(value, "__module__", space))
                found.setdefault(group, []).append(path)
    for path in BESIDES:
        found[group_of("tutelage", f"tutelage.{path}")].append(path)
    return dict(sorted(found.items(), key=_order))


def _order(item: tuple[str, list[str]]) -> int:
    """The place of a group; one that is not named comes before the last but one."""
    order = list(GROUPS)
    group = item[0]
    if group in order:
        return order.index(group)
    return len(order) - 2


def _kind_of(group: str, value: Any) -> str:
    """The directive of autodoc."""
    if group == "errors":
        return "exception"
    if isinstance(value, type):
        return "class"
    return "function"


def api_page(group: str, names: list[str]) -> list[str]:
    """Return the page of one group, as reStructuredText."""
    title = _title(group)
    lines = [title, "=" * len(title), ""]
    for name in names:
        kind = _kind_of(group, value_of(name))
        lines.append(f".. auto{kind}:: {full_path(name)}")
        if kind == "class":
            lines.append("   :members:")
        lines.append("")
    return lines


def api_index(found: dict[str, list[str]]) -> list[str]:
    """Return all names on one page, each with the first line of its docstring."""
    lines = [
        "# API",
        "",
        "Every public name, in the order of use: state a problem, solve, simulate, "
        "compare, analyze, plot.",
        "",
        "The examples begin with `import tutelage as tu` and `import numpy as np`; the "
        "tests run each of them. Names that begin with `tutelage_papers` are in that "
        "package.",
        "",
        "```{toctree}",
        ":hidden:",
    ]
    lines += [f"{group}" for group in found]
    lines += ["```", ""]
    for group, names in found.items():
        rows = []
        for name in names:
            link = f"{{py:obj}}`~{full_path(name)}`"
            rows.append([link, _first_line(name)])
        lines += [f"## [{_title(group)}]({group}.rst)", ""]
        lines += [*table(["name", "what it is"], rows), ""]
    return lines


def _title(group: str) -> str:
    return GROUPS.get(group, group.split(".")[-1].capitalize())


def _first_line(name: str) -> str:
    docstring = (value_of(name).__doc__ or "").strip()
    return plain(docstring.partition("\n")[0])


def cli_page() -> list[str]:
    """Return the help of every command, as the program prints it."""
    lines = [
        "# Command line",
        "",
        "`tutelage COMMAND --help` prints this text.",
        EXIT_CODES,
        "",
    ]
    for command in commands():
        if command:
            lines += [f"## tutelage {' '.join(command)}", ""]
        lines += ["```text", help_of(command), "```", ""]
    return lines


EXIT_CODES = (
    "Exit codes: 0: a result; 1: the solver failed, or a claim of a figure fails; "
    "2: bad input; 130: Ctrl-C."
)


def commands() -> list[tuple[str, ...]]:
    """Return the program, its commands, and theirs."""
    app = build_app()
    found: list[tuple[str, ...]] = [()]
    for name in _commands_of(app):
        found.append((name,))
        for below in _commands_of(app[name]):
            found.append((name, below))
    return found


def _commands_of(app: App) -> list[str]:
    return [name for name in app if not name.startswith("-")]


def help_of(command: tuple[str, ...]) -> str:
    """Return the output of --help, without colors."""
    text = io.StringIO()
    console = Console(file=text, width=90, color_system=None, legacy_windows=False)
    build_app().help_print([*command], console=console)
    return "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())


def write_pages(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for them."""
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
    """Connect this extension; Sphinx calls it."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
