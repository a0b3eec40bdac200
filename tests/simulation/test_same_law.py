"""Overlaps and weights follow one law:

means and covariances of all overlaps and parameters, at three times, at the 1e-4 level.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.simulation.cases import CASES, softened
from tests.simulation.laws import LEVEL, probability
from tutelage.simulation import prepare, recorded_error

TIMES = [0.0, 0.5, 1.5, 3.0]


@pytest.fixture(autouse=True)
def states_alone(monkeypatch):
    """The law of the states is tested:

    the error is a function of the state, and takes much of the time.
    """
    monkeypatch.setattr(
        recorded_error,
        "errors_at_records",
        lambda problem, R, *rest: 2 * (np.zeros(np.shape(R)[:-2]),),
    )


def ensembles(
    name: str, runs: int, weights_runs: int | None = None, changes: dict | None = None
):
    """Runs of both methods; those of weights take thrice the time, so there may be fewer of them."""
    problem, start, dim = CASES[name]
    problem = problem.replace(**changes) if changes else problem
    options = {"dim": dim, "times": TIMES}
    return (
        tu.simulate(problem, start, seed=1, runs=runs, **options),
        tu.simulate(
            problem,
            start,
            seed=2,
            runs=weights_runs or runs,
            method="weights",
            **options,
        ),
    )


LONG = (
    "quadratic",
    "batch of two",
    "slow momentum",
    "decay and schedule",
)  # test_weights_loop.py steps these by plain loops


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.full if n in LONG else ()) for n in CASES],
)
def test_same_law(name):
    assert probability(*ensembles(name, 2000, 1000)) > LEVEL


@pytest.mark.parametrize(
    "name",
    [
        "erf with noise",
        *(
            pytest.param(n, marks=pytest.mark.full)
            for n in ("batch of five", "four levels", "momentum")
        ),
    ],
)
def test_dropping_the_chi_square_is_noticed(name, monkeypatch):
    right = prepare.level_layout

    def dropped(problem, dims):
        return right(problem, dims)._replace(dof=np.zeros(dims.size, dtype=np.int64))

    monkeypatch.setattr(prepare, "level_layout", dropped)
    assert probability(*ensembles(name, 1000)) < 1e-2 * LEVEL


def test_one_degree_of_freedom_is_noticed(monkeypatch):
    right = prepare.level_layout

    def one_more(problem, dims):
        layout = right(problem, dims)
        return layout._replace(dof=layout.dof + (layout.dof > 0))

    monkeypatch.setattr(prepare, "level_layout", one_more)
    assert probability(*ensembles("erf with noise", 3000, 1500)) < 1e-2 * LEVEL


# traced and compiled loops are compared below (overlaps) and in test_response.py
# (weights)
@pytest.mark.full
@pytest.mark.parametrize("name", ["batch of five", "momentum"])
def test_traced_loop_has_the_same_law(name):
    """A function of the user's own:

    the JAX loop of the overlaps method against that of the weights method.
    """
    assert (
        probability(*ensembles(name, 400, changes={"student.activation": softened}))
        > LEVEL
    )


def test_traced_and_compiled_loops_have_the_same_law(monkeypatch):
    problem, start, dim = CASES["batch of five"]  # on levels of several sizes
    options = {"dim": dim, "times": TIMES}
    compiled = tu.simulate(
        problem, start, seed=4, runs=1600, **options
    )  # a traced run takes ten times as long
    monkeypatch.setattr(prepare, "has_kernels", lambda problem: False)
    assert (
        probability(tu.simulate(problem, start, seed=3, runs=370, **options), compiled)
        > LEVEL
    )


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_same_law_with_many_runs(name):
    assert probability(*ensembles(name, 3000 if "biases" in name else 20_000)) > LEVEL
