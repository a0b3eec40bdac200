"""Every figure is complete, and its parameters are data."""

import inspect
import json
import subprocess
import sys

import pytest

from tutelage import InputError
from tutelage_papers import find, replicas
from tutelage_papers.registry import MODULES, SOURCES

FIGURES = list(replicas().values())


def test_ids_are_unique():
    listed = [
        figure.id
        for name in MODULES
        for figure in __import__(
            f"tutelage_papers.figures.{name}", fromlist=["x"]
        ).FIGURES
    ]
    assert sorted(listed) == sorted(set(listed))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
def test_a_figure_is_complete(figure):
    assert figure.source in SOURCES
    assert figure.title
    assert figure.figure
    for parameters in (figure.full, figure.quick):
        assert json.loads(json.dumps(dict(parameters))) == dict(parameters), (
            "parameters are numbers, words and lists"
        )
        inspect.signature(figure.compute).bind(**parameters)
    assert dict(figure.full) != dict(figure.quick)
    for function in (figure.compute, figure.draw, figure.claims):
        assert inspect.getdoc(function), f"{function.__name__} has no docstring"


def test_listing_loads_no_jax():
    code = (
        "import sys, tutelage.cli.app, tutelage_papers as r; r.replicas(); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_figure_gets_the_nearest():
    with pytest.raises(InputError, match=r"no figure 'primer1'.*nearest is 'primer-1'"):
        find(["primer1"])
    assert [figure.id for figure in find(["primer-1", "primer-1"])] == ["primer-1"]
