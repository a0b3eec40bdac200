"""Papers build on public names only, and the library never imports papers."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import tutelage
from tests.lint.findings import PACKAGE, PAPERS, Finding, dotted_package
from tests.lint.imports import dotted, imports_of
from tutelage_papers.registry import MODULES

NAMESPACES = (
    "analysis",
    "checks",
    "labels",
    "losses",
    "page",
    "plot",
    "rules",
    "optimizers",
    "schedules",
)
PUBLIC = {"tutelage": {*tutelage.__all__, *NAMESPACES, "__file__"}} | {
    f"tutelage.{space}": set(getattr(import_module(f"tutelage.{space}"), "__all__", ()))
    for space in NAMESPACES
}
MODULE_OF_PAPERS = re.compile(r"tutelage_papers(\.\w+)*")


def check() -> Iterator[Finding]:
    yield from check_papers()
    yield from check_library()
    yield from check_figures()


def check_papers() -> Iterator[Finding]:
    """Papers take public names only from the library."""
    for file in sorted(PAPERS.rglob("*.py")):
        for line, name in private_uses(file.read_text(), dotted_package(file)):
            yield Finding(file, line, f"papers use {name}, which is not public")


def check_library() -> Iterator[Finding]:
    """The library reaches papers through the entry point only."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for line, name in uses_of_papers(file.read_text(), dotted_package(file)):
            yield Finding(file, line, f"{name} is used; load the entry point")


def check_figures() -> Iterator[Finding]:
    """Figures never use each other.

    The key of a stored result counts the library and the figure's own module, so nothing
    else may decide its numbers.
    """
    figures = {f"tutelage_papers.figures.{name}" for name in MODULES}
    for figure in sorted(figures):
        file = PAPERS.parent.joinpath(*figure.split(".")).with_suffix(".py")
        for one in imports_of(ast.parse(file.read_text()), dotted_package(file)):
            if {one.module, one.full_name} & (figures - {figure}):
                message = f"a figure imports {one.full_name}, another figure"
                yield Finding(file, one.line, message)


def is_public(module: str, name: str) -> bool:
    """May papers import this?

    A namespace without a list (`checks`) has all names that begin with a letter.
    """
    if not name:
        return module in PUBLIC
    names = PUBLIC.get(module)
    if names is None:
        return False
    if not names:
        return not name.startswith("_")
    return name in names


def private_uses(
    source: str, package: str = "tutelage_papers"
) -> list[tuple[int, str]]:
    """Imports from tutelage, and attributes of `tu`, that are not public."""
    tree = ast.parse(source)
    found = []
    for one in imports_of(tree, package):
        of_library = one.module.split(".")[0] == "tutelage"
        if of_library and not is_public(one.module, one.name):
            found.append((one.line, one.full_name))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        root, *names = dotted(node).split(".")
        if root not in ("tu", "tutelage") or not names:
            continue
        home = ".".join(["tutelage", *names[:-1]])
        if home in PUBLIC and not is_public(home, names[-1]):
            found.append((node.lineno, f"{home}.{names[-1]}"))
    return found


def uses_of_papers(source: str, package: str) -> list[tuple[int, str]]:
    """Imports of papers in a file, and strings that name one of its modules."""
    tree = ast.parse(source)
    found = []
    for one in imports_of(tree, package):
        if one.full_name.split(".")[0] == "tutelage_papers":
            found.append((one.line, one.full_name))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and MODULE_OF_PAPERS.fullmatch(node.value):
            found.append((node.lineno, node.value))
    return found
