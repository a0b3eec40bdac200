"""A figure is a picture in a fresh notebook kernel:

nothing is set up, by the reader or by the package.
"""

import ast
import base64
from pathlib import Path

import pytest
from jupyter_client.manager import run_kernel
from matplotlib.image import imread

import tutelage

ROOT = Path(tutelage.__file__).parent
SOLVE = """
import tutelage as tu
system = tu.Equations(("x",), drift=lambda t, s: (-s.x,), error=lambda s: s.x**2)
theory = tu.solve(system, {"x": 1.0}, times=tu.linear_times(1.0, 11))
figure = tu.plot.plot_trajectory(theory)
"""
PLAIN = "from matplotlib.figure import Figure\nfigure = Figure()"


def shown(*cells):
    """What a new kernel displays for these cells:

    one dictionary per output, by kind of content.
    """
    found = []

    def look(message):
        if message["msg_type"] in ("execute_result", "display_data"):
            found.append(message["content"]["data"])

    with run_kernel() as client:
        for cell in cells:
            reply = client.execute_interactive(cell, timeout=120, output_hook=look)
            assert reply["content"]["status"] == "ok", reply["content"]
    return found


@pytest.mark.pages
@pytest.mark.parametrize(
    ("setup", "last"),
    [("", "figure"), ("", "theory.plot()"), ("%matplotlib inline", "figure")],
)
def test_a_new_kernel_shows_the_figure_once(setup, last, tmp_path):
    (output,) = shown(setup, SOLVE, last)
    picture = tmp_path / "figure.png"
    picture.write_bytes(base64.b64decode(output["image/png"]))
    height, width, _ = imread(picture).shape
    assert 500 < width < 1200
    assert 300 < height < 1200


@pytest.mark.pages
def test_a_new_kernel_shows_results_as_html():
    problem, trajectory = shown(
        SOLVE, "tu.Problem(tu.Network(2), tu.Network(2))", "theory"
    )
    assert "<table>" in problem["text/html"]
    assert "<svg" in trajectory["text/html"]


@pytest.mark.pages
def test_a_plain_figure_is_text_only():
    """The control: this kernel draws nothing by itself."""
    (output,) = shown(PLAIN, "figure")
    assert list(output) == ["text/plain"]


def test_every_figure_is_made_by_us():
    """Outside of annotations nothing but plot/panels.py imports Matplotlib's own figure."""
    for path in ROOT.rglob("*.py"):
        if path != ROOT / "plot" / "panels.py":
            assert not imports_figure(ast.parse(path.read_text())), path


def imports_figure(tree):
    guarded = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If)
        and isinstance(block.test, ast.Name)
        and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    imports = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and id(node) not in guarded
    ]
    return any(
        node.module in ("matplotlib.figure", "matplotlib.pyplot") for node in imports
    )


@pytest.mark.parametrize(
    ("code", "found"),
    [("if TYPE_CHECKING:\n    {}", False), ("def f():\n    {}", True)],
)
def test_the_search_finds_what_it_looks_for(code, found):
    assert (
        imports_figure(ast.parse(code.format("from matplotlib.figure import Figure")))
        == found
    )
