"""Every public name is used in a test of this folder."""

import ast
from pathlib import Path

import pytest

import tutelage as tu

FOLDER = Path(__file__).parent
PACKAGE = Path(tu.__file__).parent
OTHER_NAMES = {  # modules of the root without a stub
    "tutelage.checks",
    "tutelage.conventions",
    "tutelage.errors",
    "tutelage.labels",
    "tutelage.losses",
    "tutelage.moments",
    "tutelage.page",
    "tutelage.rules",
    "tutelage.optimizers",
    "tutelage.schedules",
}
NOT_TESTED = {  # a family of formulas for annotations, and what chooses among them
    "tutelage.moments.Moments",
    "tutelage.moments.moments_for",
}


def public_names() -> set[str]:
    """The names in all stubs, and those of the public modules without a stub."""
    names = set()
    for stub in PACKAGE.rglob("*.pyi"):
        module = ".".join(["tutelage", *stub.parent.relative_to(PACKAGE).parts])
        names |= {f"{module}.{name}" for name in listed(stub.read_text())}
    for module in OTHER_NAMES:
        source = source_of(module)
        found = listed(source) or defined(source)
        names |= {f"{module}.{name}" for name in found}
    return names


def source_of(module: str) -> str:
    """The text of a module: its own file, or that of a package."""
    name = module.removeprefix("tutelage.")
    own_file = PACKAGE / f"{name}.py"
    file = own_file if own_file.is_file() else PACKAGE / name / "__init__.py"
    return file.read_text()


def listed(source: str) -> list[str]:
    """The entries of `__all__`, which may be written in several statements."""
    names = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and target.id == "__all__":
            names += ast.literal_eval(node.value)
    return names


def defined(source: str) -> list[str]:
    """The public functions and classes of a module without `__all__`."""
    kinds = ast.FunctionDef | ast.ClassDef
    nodes = [node for node in ast.parse(source).body if isinstance(node, kinds)]
    return [node.name for node in nodes if not node.name.startswith("_")]


def dotted(node: ast.AST) -> str:
    """The text a.b.c of an attribute of a name; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def used_names(source: str) -> set[str]:
    """The names that code reaches as attributes of `tu`, also by a short name."""
    tree = ast.parse(source)
    homes = {"tu": "tutelage"}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "tutelage":
            homes |= {alias.name: f"tutelage.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            home, _, rest = dotted(node.value).partition(".")
            if home in homes and rest:
                homes[node.targets[0].id] = f"{homes[home]}.{rest}"
    names = set()
    for node in ast.walk(tree):
        home, _, rest = dotted(node).partition(".")
        if home in homes and rest:
            names.add(f"{homes[home]}.{rest}")
    return names


def test_every_public_name_is_used():
    used = set()
    for file in FOLDER.glob("test_*.py"):
        used |= used_names(file.read_text())
    names = public_names()
    assert len(names) > 200
    assert names - used - NOT_TESTED == set()


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("tu.plot.plot_phases(found)", "tutelage.plot.plot_phases"),
        ("from tutelage import checks\nchecks.shown(1)", "tutelage.checks.shown"),
        (
            "analysis = tu.analysis\nanalysis.fixed_point",
            "tutelage.analysis.fixed_point",
        ),
    ],
)
def test_a_use_is_found(source, used):
    assert used in used_names(source)


def test_a_name_in_words_is_not_a_use():
    """A negative control."""
    source = '"""tu.solve"""\n# tu.simulate\nother.solve'
    assert used_names(source) == set()
