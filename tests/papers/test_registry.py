"""Every figure is complete, its parameters are data, and its module stands alone."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tutelage
from tutelage import InputError
from tutelage.papers import find, replicas
from tutelage.papers.registry import MODULES, SOURCES

FIGURES = list(replicas().values())
ROOT = Path(tutelage.__file__).parent / "replicate" / "figures"


def test_ids_are_unique():
    listed = [
        figure.id for name in MODULES for figure in __import__(f"tutelage.papers.figures.{name}", fromlist=["x"]).FIGURES
    ]
    assert sorted(listed) == sorted(set(listed))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
def test_a_figure_is_complete(figure):
    assert figure.source in SOURCES
    assert figure.title
    assert figure.figure
    for parameters in (figure.full, figure.quick):
        assert json.loads(json.dumps(dict(parameters))) == dict(parameters), "parameters are numbers, words and lists"
        inspect.signature(figure.compute).bind(**parameters)
    assert dict(figure.full) != dict(figure.quick)
    for function in (figure.compute, figure.draw, figure.claims):
        assert inspect.getdoc(function), f"{function.__name__} has no docstring"


def imports_of(path):
    """Modules of tutelage that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tutelage"):
            yield node.module
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tutelage"))


@pytest.mark.parametrize("name", MODULES)
def test_figures_use_the_public_library_and_never_each_other(name):
    """The key of a kept result counts the library and the figure's own module, so nothing else may decide its numbers."""
    others = {f"tutelage.papers.figures.{other}" for other in MODULES}
    for module in imports_of(ROOT / f"{name.replace('.', '/')}.py"):
        assert module == "tutelage" or module.startswith(("tutelage.plot", "tutelage.papers")), module
        assert module not in others


def test_listing_loads_no_jax():
    code = "import sys, tutelage.cli.app, tutelage.papers as r; r.replicas(); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_figure_gets_the_nearest():
    with pytest.raises(InputError, match=r"no figure 'primer1'.*nearest is 'primer-1'"):
        find(["primer1"])
    assert [figure.id for figure in find(["primer-1", "primer-1"])] == ["primer-1"]
