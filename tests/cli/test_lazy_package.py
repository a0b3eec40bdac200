"""The package loads its names on demand; to its users it looks like any other."""

import ast
import operator
import re
import subprocess
import sys
import types
from importlib import import_module
from pathlib import Path

import pytest

import tutelage
from tutelage._namespace import NAMESPACES, TRANSLATIONS, public_names

STUBBED = [
    space
    for space in NAMESPACES
    if (Path(import_module(space).__file__ or "").with_suffix(".pyi")).is_file()
]


@pytest.mark.parametrize("space", NAMESPACES)
def test_every_public_name_is_there(space):
    module = import_module(space)
    assert set(public_names()[space]) <= set(dir(module))
    for name in public_names()[space]:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("space", STUBBED)
def test_a_stub_lists_what_it_imports(space):
    """Its imports are what lazy_loader loads; its `__all__` is what readers and type checkers see."""
    tree = ast.parse(
        Path(import_module(space).__file__ or "").with_suffix(".pyi").read_text()
    )
    imported = [
        alias.asname or alias.name
        for n in tree.body
        if isinstance(n, ast.ImportFrom)
        for alias in n.names
    ]
    assert sorted(imported) == sorted(public_names()[space])


def test_the_root_is_small():
    assert len(tutelage.__all__) <= 60


def test_verbs_are_functions_also_after_all_modules_were_imported():
    code = """
import importlib, pkgutil, types, tutelage
for module in pkgutil.walk_packages(tutelage.__path__, "tutelage."):
    if "__main__" not in module.name:
        importlib.import_module(module.name)
for verb in ("solve", "solve_batch", "simulate", "compare", "sweep", "load"):
    assert isinstance(getattr(tutelage, verb), types.FunctionType), verb
for verb in ("fixed_point", "landscape", "plateaus", "escape_time", "step_moments", "drift_matrices"):
    assert isinstance(getattr(tutelage.analysis, verb), types.FunctionType), verb
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert isinstance(tutelage.solve, types.FunctionType)


def test_an_unknown_name_gets_the_nearest_or_its_home():
    with pytest.raises(ImportError, match="cannot import name 'sovle'"):
        from tutelage import sovle  # noqa: F401  # pyright: ignore
    for space, name, answer in (
        (tutelage, "sovle", "nearest is tutelage.solve"),
        (tutelage, "fixed_point", "It is tutelage.analysis.fixed_point"),
        (tutelage, "PowerDecay", "It is tutelage.schedules.PowerDecay"),
        (tutelage.analysis, "fixd_point", "nearest is tutelage.analysis.fixed_point"),
        (tutelage, "papers", "pip install ./papers"),
    ):
        with pytest.raises(AttributeError, match=answer):
            getattr(space, name)
    assert not hasattr(tutelage, "zzzzzz")


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_a_name_of_a_source_is_answered_with_ours(name):
    """Every name in an answer exists, and the page of translations has the name."""
    with pytest.raises(AttributeError, match=f"no name '{name}'; use "):
        getattr(tutelage, name)
    for ours in re.findall(r"tutelage\.([\w.]+)", TRANSLATIONS[name]):
        assert operator.attrgetter(ours)(tutelage) is not None
    page = Path(__file__).parents[2] / "docs" / "coming-from.md"
    assert name.removeprefix("get_") in page.read_text()
    assert not hasattr(tutelage, name)
