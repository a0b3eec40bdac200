"""Papers build on public names only, and nothing else builds on papers."""

import ast
from collections.abc import Iterator
from importlib import import_module

import tutelage
from tests.lint.findings import PACKAGE, Finding, dotted_package
from tests.lint.imports import dotted, imports_of
from tutelage.papers.registry import MODULES

PAPERS = PACKAGE / "papers"
COMMAND = "cli/replicate.py"  # the one importer of papers, inside its functions
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
EXCEPTIONS = {  # modules that are not public, and the files that may import them; one place for each
    "tutelage._namespace": {
        "__init__.py",
        "notes/__init__.py",
        "power_law/__init__.py",
        "quadratic/__init__.py",
    },
    "tutelage.analysis.single_steps": {"notes/concentration.py"},
    "tutelage.comparison": {"bands.py"},
    "tutelage.problem.problem": {"assumptions.py"},
    "tutelage.problem.start": {"assumptions.py"},
    "tutelage.problem.traits": {"assumptions.py"},
    "tutelage.times": {"assumptions.py"},
    "tutelage._files": {"cache.py"},
    "tutelage.result.storage": {"cache.py"},
    "tutelage.result": {"cache.py"},
    "tutelage._pool": {"run.py"},
}
PUBLIC = {"tutelage": {*tutelage.__all__, *NAMESPACES, "__file__"}} | {
    f"tutelage.{space}": set(getattr(import_module(f"tutelage.{space}"), "__all__", ()))
    for space in NAMESPACES
}


def check() -> Iterator[Finding]:
    yield from check_papers()
    yield from check_others()
    yield from check_figures()
    yield from check_exceptions()


def check_papers() -> Iterator[Finding]:
    """Papers take public names only from the library."""
    for file in sorted(PAPERS.rglob("*.py")):
        relative = file.relative_to(PAPERS).as_posix()
        for line, name in private_uses(file.read_text(), relative):
            yield Finding(file, line, f"papers use {name}, which is not public")


def check_others() -> Iterator[Finding]:
    """Only the command imports papers, and only inside its functions."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.is_relative_to(PAPERS):
            continue
        is_command = file == PACKAGE / COMMAND
        uses = uses_of_papers(file.read_text(), dotted_package(file), lazily=is_command)
        for line, name in uses:
            yield Finding(file, line, f"{name} is used outside papers")


def check_figures() -> Iterator[Finding]:
    """Figures never use each other.

    The key of a stored result counts the library and the figure's own module, so nothing
    else may decide its numbers.
    """
    figures = {f"tutelage.papers.figures.{name}" for name in MODULES}
    for figure in sorted(figures):
        file = PACKAGE.parent.joinpath(*figure.split(".")).with_suffix(".py")
        for one in imports_of(ast.parse(file.read_text()), dotted_package(file)):
            if {one.module, one.full_name} & (figures - {figure}):
                message = f"a figure imports {one.full_name}, another figure"
                yield Finding(file, one.line, message)


def check_exceptions() -> Iterator[Finding]:
    """An exception that is no longer needed leaves the list."""
    for module, files in EXCEPTIONS.items():
        for name in sorted(files):
            file = PAPERS / name
            found = imports_of(ast.parse(file.read_text()), "tutelage.papers")
            if not any(f"{one.module}.".startswith(f"{module}.") for one in found):
                yield Finding(
                    file, 1, f"does not import {module}: remove the exception"
                )


def is_public(module: str, name: str) -> bool:
    """May papers import this?

    A namespace without a list (`checks`) has all names that begin with a letter.
    """
    if module.startswith("tutelage.papers") or (module, name) == ("tutelage", "papers"):
        return True
    if not name:
        return module in PUBLIC
    names = PUBLIC.get(module)
    if names is None:
        return False
    if not names:
        return not name.startswith("_")
    return name in names


def private_uses(source: str, file: str = "") -> list[tuple[int, str]]:
    """Imports from tutelage, and attributes of `tu`, that are not public."""
    tree = ast.parse(source)
    allowed = [module for module, files in EXCEPTIONS.items() if file in files]
    found = []
    for one in imports_of(tree, "tutelage.papers"):
        if one.module.split(".")[0] != "tutelage" or is_public(one.module, one.name):
            continue
        if not any(f"{one.module}.".startswith(f"{home}.") for home in allowed):
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


def uses_of_papers(
    source: str, package: str, lazily: bool = False
) -> list[tuple[int, str]]:
    """The uses of papers in a file; lazily: an import inside a function is allowed."""
    tree = ast.parse(source)
    found = []
    for one in imports_of(tree, package):
        of_papers = f"{one.full_name}.".startswith("tutelage.papers.")
        if of_papers and not (lazily and one.inside_function):
            found.append((one.line, one.full_name))
    for node in ast.walk(tree):
        if dotted(node) in ("tu.papers", "tutelage.papers"):
            found.append((node.lineno, dotted(node)))
    return found
