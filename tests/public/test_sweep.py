"""Sweeps over grids of problems, their files and figures."""

from math import pi, sqrt

import numpy as np
import pytest

import tutelage as tu

PROBLEM = tu.Problem(tu.Network(1), tu.Network(1))
GRID = {"lr": [0.5, 1.0], "noise": [0.1, 0.2, 0.3]}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "rates"
    measures = ["final_error", "critical_learning_rate"]
    return tu.sweep(
        PROBLEM,
        GRID,
        measures,
        times=[0.0, 5.0],
        start="asymmetric",
        out=out,
        executor="serial",
    )


def test_each_point_equals_its_own_solve(swept):
    task = PROBLEM.replace(lr=1.0, noise=0.2)
    theory = tu.solve(task, tu.asymmetric_start(task), [0.0, 5.0])
    point = swept["final_error"].sel(lr=1.0, noise=0.2)
    assert float(point) == pytest.approx(theory.error[-1], rel=1e-9)


def test_the_critical_rate_depends_on_neither(swept):
    np.testing.assert_allclose(swept["critical_learning_rate"], pi * sqrt(5 / 3))


def test_a_sweep_is_opened_again(swept):
    again = tu.open_sweep(swept.folder)
    np.testing.assert_array_equal(again["final_error"], swept["final_error"])


def test_a_sweep_is_drawn(swept):
    assert swept.plot("final_error") is not None
    values = swept["final_error"]
    assert tu.plot.plot_sweep(values, None, PROBLEM, title="") is not None
