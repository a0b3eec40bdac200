"""A layer imports only layers to its left."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tutelage
from tests.lint.findings import PACKAGE, Finding, dotted_package
from tests.lint.imports import imports_of

# Left to right; a group may import the groups before it, and within itself only packages do.
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
    ),
    ("_jump_search",),
    ("randomness", "losses"),
    ("labels", "rules"),
    ("problem",),
    ("moments",),
    ("equilibrium",),
    ("dynamics",),
    ("integrate",),
    ("storage",),
    ("trajectory",),
    ("accuracy",),
    ("_solve",),
    ("validity",),
    ("simulation",),
    ("plot",),
    ("analysis",),
    ("schedules", "optimizers"),
    ("data",),
    ("comparison",),
    ("page",),
    ("sweeps",),
    ("explorer",),
    ("papers",),
    ("cli",),
)
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
    found = []
    for one in imports_of(ast.parse(source), package):
        if not one.full_name.startswith("tutelage."):
            continue
        imported = layer_that_defines(one.full_name.split(".")[1])
        if imported not in RANK:
            message = f"{layer} imports {imported}, which LAYERS does not list"
            found.append((one.line, message))
        elif imported != layer and not is_left_of(imported, layer):
            found.append(
                (one.line, f"{layer} imports {imported}, a layer to its right")
            )
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
