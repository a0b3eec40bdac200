"""A layer imports only layers to its left, also where a string hides the import."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tutelage
from tests.lint.findings import PACKAGE, Finding, dotted_package
from tests.lint.imports import imports_of

# Left to right; a group may import the groups before it, and within itself only
# packages do.
LAYERS = (
    (
        "_version",
        "errors",
        "_types",
        "_numba",
        "_namespace",
        "checks",
        "_part",
        "_files",
        "_html",
        "_pool",
        "progress",
        "times",
        "few_runs",
        "conventions",
    ),
    ("_jump_search", "randomness"),
    ("training",),
    ("problem",),
    ("equilibrium",),
    ("solvers",),
    ("result",),
    ("theory",),
    ("stream",),
    ("simulation",),
    ("dataset",),
    ("recording",),
    ("theories",),
    ("_solve",),
    ("plot",),
    ("analysis",),
    ("losses", "labels", "rules", "optimizers", "schedules", "moments"),
    ("data",),
    ("comparison",),
    ("page",),
    ("_attached",),
    ("sweeps",),
    ("explorer",),
    ("cli",),
)
# A module of the package, or something in it, as text: "tutelage.plot:plot_trajectory".
MODULE_AS_TEXT = re.compile(r"tutelage\.(\w+)[\w.]*(:\w+)?")
LISTS_NAMES = ("_namespace",)  # it names the public namespaces and imports none of them
RANK = {name: rank for rank, group in enumerate(LAYERS) for name in group}


def check() -> Iterator[Finding]:
    """Every file of the package but the root's own."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if file == PACKAGE / "__init__.py":
            continue
        layer = layer_of(file)
        if layer not in RANK:
            yield Finding(
                file, 1, f"{layer} has no place in LAYERS; add it where it belongs"
            )
            continue
        for line, message in violations(file.read_text(), layer, dotted_package(file)):
            yield Finding(file, line, message)


def violations(source: str, layer: str, package: str) -> list[tuple[int, str]]:
    """The imports of a file of this layer from its right, with their lines."""
    tree = ast.parse(source)
    names = [(one.line, one.full_name) for one in imports_of(tree, package)]
    if layer not in LISTS_NAMES:
        names += modules_in_strings(tree)
    found = []
    for line, name in names:
        if not name.startswith("tutelage."):
            continue
        imported = layer_that_defines(name.split(".")[1])
        if imported not in RANK:
            message = f"{layer} imports {imported}, which LAYERS does not list"
            found.append((line, message))
        elif imported != layer and not is_left_of(imported, layer):
            found.append((line, f"{layer} imports {imported}, a layer to its right"))
    return found


def modules_in_strings(tree: ast.AST) -> list[tuple[int, str]]:
    """The modules of the package that strings name, except docstrings, with lines."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if not isinstance(node.value, str):
            continue
        match = MODULE_AS_TEXT.fullmatch(node.value)
        if match and match[1] in RANK:  # else it names a file, or a file's schema
            found.append((node.lineno, node.value.replace(":", ".")))
    return found


def is_left_of(imported: str, layer: str) -> bool:
    """True also within the first group, whose modules may import each other."""
    if RANK[imported] == RANK[layer]:
        return RANK[layer] == 0
    return RANK[imported] < RANK[layer]


def layer_that_defines(name: str) -> str:
    """The layer of a name that was imported from the package itself."""
    if name == "__version__":
        return "_version"
    if name in RANK or name not in tutelage.__all__:
        return name
    return getattr(tutelage, name).__module__.split(".")[1]


def layer_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")
