"""The shape of the code: layers import only to their left, files say what they are for, public names are explained."""

import ast
import inspect
from operator import attrgetter
from pathlib import Path

import pytest

import tutelage
from tutelage._namespace import public_names

ROOT = Path(tutelage.__file__).parent
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
    ("schedules",),
    ("data",),
    ("comparison",),
    ("page",),
    ("sweeps",),
    ("explorer",),
    ("papers",),
    ("cli",),
)
RANK = {name: rank for rank, group in enumerate(LAYERS) for name in group}


def imported(source: str, package: str) -> set[str]:
    """Top-level parts of tutelage that a file imports, anywhere in it; `package` is where the file lives."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            targets = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {home_of(target.split(".")[1]) for target in targets if target.startswith("tutelage.")}
    return found


def home_of(name: str) -> str:
    """The layer of a name that was imported from the package itself."""
    if name == "__version__":
        return "_version"
    if name in RANK or name not in tutelage.__all__:
        return name
    return getattr(tutelage, name).__module__.split(".")[1]  # public names are found where they are defined


def violations(source: str, layer: str, package: str) -> list[str]:
    """What a file of this layer imports from its right."""
    unknown = [
        f"{layer} imports {name}, which LAYERS does not list" for name in imported(source, package) if name not in RANK
    ]
    right = [name for name in imported(source, package) if name in RANK and name != layer]
    return unknown + [
        f"{layer} imports {name}" for name in sorted(right) if RANK[name] > RANK[layer] or (RANK[name] == RANK[layer] != 0)
    ]


def files():
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def layer_of(path: Path) -> str:
    part = path.relative_to(ROOT).parts[0]
    return part.removesuffix(".py")


def package_of(path: Path) -> str:
    return ".".join(["tutelage", *path.relative_to(ROOT).parent.parts])


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_layer_imports_only_layers_to_its_left(path):
    assert layer_of(path) in RANK, f"{layer_of(path)} has no place in LAYERS; add it where it belongs"
    assert violations(path.read_text(), layer_of(path), package_of(path)) == []


@pytest.mark.parametrize(
    ("source", "layer"),
    [
        ("from tutelage.plot import curve", "problem"),
        ("import tutelage.cli", "_solve"),
        ("from tutelage import dynamics", "moments"),
        ("def f():\n    from tutelage._solve import solve", "trajectory"),
        ("from ..validity import assess", "dynamics"),
        ("from tutelage.trajectory import Trajectory", "storage"),
        ("from tutelage import nonsense", "_solve"),
        ("from tutelage import Trajectory, solve", "dynamics"),
        ("from tutelage.cli import app", "explorer"),
        ("from tutelage.papers.quadratic import quadratic_network", "analysis"),
        ("from tutelage import papers", "explorer"),
        ("def f():\n    from tutelage.comparison import compare", "plot"),
    ],
)
def test_a_wrong_import_is_detected(source, layer):
    """A negative control."""
    assert violations(source, layer, f"tutelage.{layer}") != []


@pytest.mark.parametrize(
    ("source", "layer"),
    [
        ("from tutelage import checks", "problem"),
        ("from .activation import NAMED", "problem"),
        ("from tutelage._solve import solve", "cli"),
        ("from tutelage.papers import replicate", "cli"),
        ("import numpy\nfrom scipy import linalg", "problem"),
    ],
)
def test_a_right_import_is_not(source, layer):
    assert violations(source, layer, f"tutelage.{layer}") == []


@pytest.mark.parametrize("path", [ROOT / "__init__.py", *files()], ids=lambda path: str(path.relative_to(ROOT)))
def test_files_say_what_they_are_for(path):
    assert path.name == "_version.py" or ast.get_docstring(ast.parse(path.read_text())), "a module docstring is missing"


def own_doc(value) -> str:
    """The docstring, unless it is the signature that dataclasses write by themselves."""
    text = inspect.getdoc(value) or ""
    return "" if text.startswith(f"{getattr(value, '__name__', '?')}(") else text


PUBLIC = [f"{space}.{n}".removeprefix("tutelage.") for space, names in public_names().items() for n in names]


@pytest.mark.parametrize("name", [n for n in PUBLIC if n != "__version__" and not n.split(".")[-1].isupper()])
def test_public_names_are_explained(name):
    value = attrgetter(name)(tutelage)
    assert own_doc(value), f"{name} has no docstring"
    if inspect.isclass(value):
        members = [(m, v) for m, v in vars(value).items() if not m.startswith("_")]
        explained = [m for m, v in members if callable(v) or isinstance(v, property | classmethod | staticmethod)]
        missing = [
            m for m in explained if not inspect.getdoc(inspect.getattr_static(value, m)) and not _inherits_doc(value, m)
        ]
        assert missing == [], f"{name} has methods without a docstring"


def _inherits_doc(cls, member: str) -> bool:
    """Overridden, or declared and explained in the docstring of a base class."""
    for base in cls.__mro__[1:]:
        if member in vars(base):
            return bool(inspect.getdoc(inspect.getattr_static(base, member)))
        if member in getattr(base, "__annotations__", {}):
            return f"`{member}`" in (inspect.getdoc(base) or "")
    return False
