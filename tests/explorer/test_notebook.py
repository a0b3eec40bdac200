"""The explorer inside a notebook:

cells are executed by a kernel, their HTML is opened in a browser without a network.
"""

import numpy as np
import pytest
from jupyter_client.manager import run_kernel

import tutelage as tu
from tests.page.test_page import opened, wait_until
from tests.problems import pair
from tutelage import InputError, explorer
from tutelage.page.settings import Settings

pytestmark = pytest.mark.pages
SETUP = """
import tutelage as tu
problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.6), noise=0.1)
start = tu.Start(R=[[0.3, 0.2], [0.2, 0.275]], Q=[[0.4, 0.1], [0.1, 0.5]], T=[[1.0, 0.2], [0.2, 1.3]])
"""
CELLS = [
    SETUP,
    "tu.explore(problem, start, times=30.0)",
    "tu.solve(problem, start, tu.linear_times(30.0)).widget()",
    'tu.explore(tu.Problem(tu.Network(2, "relu"), tu.Network(2, "relu")))',
]
SETTLED = "tutelageExplorer.settled()"


@pytest.fixture(scope="module")
def cells():
    """For each cell, what a new kernel displays by kind of content, or the name and the message of its error."""
    outputs = []

    def look(message):
        content = message["content"]
        if message["msg_type"] == "execute_result":
            outputs[-1].append(content["data"])
        elif message["msg_type"] == "error":
            outputs[-1].append(content)

    with run_kernel() as client:
        for cell in CELLS:
            outputs.append([])
            client.execute_interactive(cell, timeout=120, output_hook=look)
    return outputs


def test_explorer_and_widget_draw_the_curve_of_solve(cells, browser, tmp_path):
    scope = {}
    exec(SETUP, scope)
    theory = tu.solve(scope["problem"], scope["start"], tu.linear_times(30.0))
    file = tmp_path / "notebook.html"
    for outputs in cells[1:3]:
        (output,) = outputs
        file.write_text(
            f"<!doctype html><title>notebook</title>{output['text/html']}",
            encoding="utf-8",
        )
        with opened(browser, file, reduced_motion="reduce") as page:
            inside = page.frames[1]
            wait_until(inside, SETTLED)
            x, y = inside.evaluate(
                "(({ x, y }) => [x, y])(document.getElementById('curve').data[0])"
            )
            np.testing.assert_allclose(x, theory.times, rtol=1e-6)
            np.testing.assert_allclose(y, theory.error, rtol=1e-4)
            path = inside.locator(
                "#curve .scatterlayer path.js-line"
            ).first.get_attribute("d")
            assert path.count("L") + path.count("C") > 20  # a line is drawn
            assert inside.evaluate("tutelageExplorer.values().start") == "as given"
            inside.evaluate(
                "tutelageExplorer.change({students: 3})"
            )  # the given overlaps have another size
            wait_until(inside, SETTLED)
            assert "asymmetric start" in inside.inner_text("#conditions")
            assert not [
                heard for heard in page.heard if "console" in heard or "error:" in heard
            ]


def test_a_notebook_is_told_what_to_do_where_the_browser_cannot_solve(cells):
    (output,) = cells[3]
    assert output["ename"] == "InputError"
    assert "this problem needs more. Use `tutelage explore`" in output["evalue"]


def test_widget_shows_a_curve_that_the_browser_cannot_solve():
    theory = tu.solve(
        pair(2, 2, "relu"),
        tu.asymmetric_start(pair(2, 2, "relu")),
        tu.linear_times(5.0, 11),
    )
    assert "tutelagePage.render" in theory.widget()
    assert "tutelageExplorer" not in theory.widget()


def test_a_script_starts_the_server_at_the_problem(monkeypatch):
    begun = []
    monkeypatch.setattr(explorer, "serve", lambda initial: begun.append(initial))
    problem = pair(2, 2, lr=0.7)
    tu.explore(problem, tu.asymmetric_start(problem, dim=500), 40.0)
    values = {
        "students": 2,
        "teachers": 2,
        "lr": 0.7,
        "start": "asymmetric",
        "end": 40.0,
        "dim": 500,
    }
    assert begun[0].changed() == values
    tu.explore(
        problem, tu.Start(np.eye(2), 2 * np.eye(2)), 40.0
    )  # overlaps that no control describes: a file
    first = begun[1].first(begun[1].problem())
    assert begun[1].toml
    np.testing.assert_allclose(first.Q, 2 * np.eye(2))
    assert begun[1].times()[-1] == 40.0
    tu.explore()
    assert begun[2] == Settings.read({})
    with pytest.raises(InputError, match="problem is of type str"):
        tu.explore("problem.toml")


def test_start_and_times_need_a_problem():
    with pytest.raises(InputError, match="without a problem"):
        tu.page.standalone(times=30.0)
