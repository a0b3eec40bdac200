"""Papers build on public names only, and nothing else builds on papers."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import tutelage
from tutelage.papers.registry import MODULES

ROOT = Path(tutelage.__file__).parent
PAPERS = ROOT / "papers"
COMMAND = "cli/replicate.py"  # the one importer of papers, inside its functions
NAMESPACES = ("analysis", "checks", "labels", "losses", "page", "plot", "rules", "schedules")
EXCEPTIONS = {  # modules that are not public, and the files that may import them; one place for each
    "tutelage._namespace": {"__init__.py", "notes/__init__.py", "power_law/__init__.py", "quadratic/__init__.py"},
    "tutelage.analysis.single_steps": {"notes/concentration.py"},
    "tutelage.comparison": {"bands.py"},
    "tutelage.problem.problem": {"assumptions.py"},
    "tutelage.problem.start": {"assumptions.py"},
    "tutelage.problem.traits": {"assumptions.py"},
    "tutelage.times": {"assumptions.py"},
    "tutelage._files": {"cache.py"},
    "tutelage.storage": {"cache.py"},
    "tutelage._pool": {"run.py"},
}
PUBLIC = {"tutelage": {*tutelage.__all__, *NAMESPACES, "__file__"}} | {
    f"tutelage.{space}": set(getattr(import_module(f"tutelage.{space}"), "__all__", ())) for space in NAMESPACES
}


def dotted(node: ast.AST) -> str:
    """a.b.c of an attribute of a name; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner and isinstance(node, ast.Attribute) else ""


def imports(tree: ast.AST, package: str = "tutelage.papers") -> list[tuple[ast.AST, str, str]]:
    """(node, module, name) of every import from tutelage; the name is empty for `import module`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node, module, alias.name) for alias in node.names]
    return [(node, module, name) for node, module, name in found if module.split(".")[0] == "tutelage"]


def is_public(module: str, name: str) -> bool:
    """May papers import this? A namespace without a list (`checks`) has all names that begin with a letter."""
    if module.startswith("tutelage.papers") or (module, name) == ("tutelage", "papers"):
        return True
    if not name:
        return module in PUBLIC
    listed = PUBLIC.get(module)
    return listed is not None and (name in listed if listed else not name.startswith("_"))


def private_uses(source: str, file: str = "") -> list[str]:
    """What a file takes from tutelage that is not public: its imports, and attributes of `tu` or `tutelage`."""
    tree = ast.parse(source)
    allowed = tuple(module for module, files in EXCEPTIONS.items() if file in files)
    found = [
        f"{module} {name}"
        for _, module, name in imports(tree)
        if not is_public(module, name) and not any(f"{module}.".startswith(f"{home}.") for home in allowed)
    ]
    for node in ast.walk(tree):
        root, *names = dotted(node).split(".") if isinstance(node, ast.Attribute) else ("",)
        if root in ("tu", "tutelage") and names:
            home = ".".join(["tutelage", *names[:-1]])
            if home in PUBLIC and not is_public(home, names[-1]):
                found.append(f"{home} {names[-1]}")
    return found


def uses_of_papers(source: str, package: str, lazily: bool = False) -> list[str]:
    """Where a file outside papers imports them; lazily: an import inside a function does not count."""
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    found = [
        f"{module} {name}"
        for node, module, name in imports(tree, package)
        if (f"{module}.{name}.".startswith("tutelage.papers.")) and not (lazily and id(node) in inside)
    ]
    reads = [dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return found + [name for name in reads if name in ("tu.papers", "tutelage.papers")]


@pytest.mark.parametrize("path", sorted(PAPERS.rglob("*.py")), ids=lambda path: str(path.relative_to(PAPERS)))
def test_papers_use_public_names_only(path):
    assert private_uses(path.read_text(), path.relative_to(PAPERS).as_posix()) == []


@pytest.mark.parametrize(
    ("module", "file"), [(module, file) for module, files in EXCEPTIONS.items() for file in sorted(files)]
)
def test_an_exception_is_needed(module, file):
    """Remove it from the list once it is not."""
    found = imports(ast.parse((PAPERS / file).read_text()))
    assert any(f"{name}.".startswith(f"{module}.") for _, name, _ in found)


def test_nothing_else_uses_papers():
    others = [path for path in ROOT.rglob("*.py") if not path.is_relative_to(PAPERS)]
    assert ROOT / COMMAND in others
    found = {
        file: uses_of_papers(path.read_text(), ".".join(["tutelage", *path.relative_to(ROOT).parent.parts]), file == COMMAND)
        for path in others
        for file in [path.relative_to(ROOT).as_posix()]
    }
    assert {file: uses for file, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tutelage.errors import InputError",
        "from tutelage.analysis.single_steps import drift_matrices",
        "from tutelage.analysis import spectrum_of",
        "from tutelage.plot.panel_grid import panel_grid",
        "from tutelage.plot import sheet_of_paper",
        "from tutelage.problem import Problem",
        "from tutelage import storage",
        "from tutelage import _errors",
        "import tutelage.storage",
        "def f():\n    from tutelage.storage import in_memory",
        "from ..storage import in_memory",
        "from .. import storage",
        "import tutelage as tu\ntu.storage.in_memory",
        "import tutelage as tu\ntu.analysis.with_constant_rates(problem)",
        "import tutelage as tu\ntu.checks._fix",
    ],
)
def test_a_private_use_is_detected(source):
    """A negative control."""
    assert private_uses(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy\nfrom scipy import linalg",
        "import tutelage as tu\ntu.analysis.fixed_point(problem).error\ntu.Spectrum.from_covariance\ntu.schedules.Cosine",
        "from tutelage import InputError, Problem, checks\nchecks.as_count",
        "from tutelage.analysis import fixed_point",
        "from tutelage.papers.claims import close",
        "import tutelage as tu\ntu.papers.quadratic.quadratic_network",
    ],
)
def test_a_public_use_is_allowed(source):
    assert private_uses(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "from tutelage.papers import close",
        "from tutelage import papers",
        "import tutelage.papers.registry",
        "from ..papers.registry import find",
        "import tutelage as tu\ndef f():\n    return tu.papers.find([])",
        "if TYPE_CHECKING:\n    from tutelage.papers import Replica",
    ],
)
def test_a_use_of_papers_is_detected(source):
    """A negative control; only the command may import them, and only inside its functions."""
    assert uses_of_papers(source, "tutelage.analysis") != []
    assert uses_of_papers(source, "tutelage.analysis", lazily=True) != []


def test_an_import_inside_a_function_is_lazy():
    source = "def f():\n    from tutelage.papers.run import found"
    assert uses_of_papers(source, "tutelage.cli") != []
    assert uses_of_papers(source, "tutelage.cli", lazily=True) == []
    assert uses_of_papers('"""`tutelage.papers`"""\nfrom tutelage import InputError', "tutelage.cli") == []


@pytest.mark.parametrize("name", MODULES)
def test_figures_never_use_each_other(name):
    """The key of a stored result counts the library and the figure's own module, so nothing else may decide its numbers."""
    others = {f"tutelage.papers.figures.{other}" for other in MODULES}
    tree = ast.parse((PAPERS / "figures" / f"{name.replace('.', '/')}.py").read_text())
    assert others.isdisjoint({module for _, module, _ in imports(tree)} | {f"{m}.{n}" for _, m, n in imports(tree)})
