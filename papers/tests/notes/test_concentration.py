"""The conditions of concentration: exponents, verdicts, and negative controls."""

from functools import cache

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tests.problems import pair
from tutelage_papers.notes.concentration import judge_condition, mean_gap, start_scatter

R = np.array([[0.4, 0.1], [0.05, 0.3]])
START = tu.Start(R, R @ R.T + 0.2 * np.eye(2))
PLAIN = pair(2, 2, lr=1.0, noise=0.1)
DIMS = np.array([16, 32, 64, 128, 256, 512])


@cache
def concentrated():
    return tutelage_papers.notes.concentration(PLAIN, START, end=2.0, runs=32)


def test_exponents_of_gaussian_inputs():
    result = concentrated()
    assert result.holds
    exponents = {"mean": -1.0, "variance": -1.0, "start": -0.5, "runs": -0.5}
    for name, expected in exponents.items():
        assert result[name].exponent.slope == pytest.approx(expected, abs=0.15), name
    variance = result["variance"]
    np.testing.assert_allclose(variance.values[2:], variance.theory[2:], rtol=0.08)
    start = result["start"]
    z = (start.values - start.theory) / start.errors
    assert np.max(np.abs(z)) < 4.5
    assert str(result).count("holds") == 4


def test_a_drift_that_does_not_fit_fails():
    """A negative control: a drift that is 10% off leaves a gap that does not vanish."""
    steps = [tu.analysis.step_moments(PLAIN, START, int(n)) for n in DIMS]
    gaps = [mean_gap(one, 1.1 * one.drift_theory, False) for one in steps]
    condition = judge_condition("mean", "mean", DIMS, *np.array(gaps).T, None, -1.0)
    assert not condition.holds
    assert condition.verdict.startswith("FAILS")


def test_what_is_lost_in_noise_is_called_so():
    condition = judge_condition(
        "mean", "mean", DIMS, 0.5 / DIMS, np.full(6, 0.2), None, -1.0
    )
    assert condition.exponent is None
    assert "lost in noise" in condition.verdict
    slow = judge_condition(
        "mean", "mean", DIMS, DIMS**-0.3, 1e-3 * DIMS**-0.3, None, -1.0
    )
    assert slow.holds
    assert "but falls as" in slow.verdict


def test_scatter_of_starts_against_random_weights():
    """The scatter against that of weights that are drawn themselves."""
    dim = 30
    rng = np.random.default_rng(0)
    joint = np.block([[START.Q, START.R], [START.R.T, np.eye(2)]])
    vectors = np.linalg.cholesky(joint) @ rng.standard_normal((4000, 4, dim))
    away = vectors @ np.swapaxes(vectors, 1, 2) / dim - joint
    squares = np.sum(away[:, :2, 2:] ** 2, axis=(1, 2)) + np.sum(
        away[:, *np.triu_indices(2)] ** 2, axis=1
    )
    found, error, exact = start_scatter(PLAIN, START, dim, 0)
    assert np.sqrt(squares.mean()) == pytest.approx(exact, rel=0.04)
    assert found == pytest.approx(exact, abs=4 * error)


def test_it_draws_itself():
    labels = [axes.get_ylabel() for axes in concentrated().plot().axes]
    assert sum("step" in label or "runs" in label for label in labels) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"problem": 3}, "problem is of type int"),
        ({"start": None}, "start is None"),
        ({"problem": pair(2, 2, momentum=0.5)}, "momentum"),
        ({"problem": pair(2, 2, spherical=True)}, "spherical is True"),
        ({"inputs": "normal"}, "inputs is 'normal'; it must be one of gaussian"),
        ({"dims": (16, 32)}, "give 5 or more increasing sizes"),
        ({"dims": (2, 4, 8, 16, 32)}, "at dim = 2 a level has 2 dimensions"),
        ({"samples": 5}, "samples is 5"),
    ],
)
def test_what_it_cannot_answer_is_refused(arguments, words):
    given = {"problem": PLAIN, "start": START, "dims": DIMS} | arguments
    with pytest.raises(tu.InputError, match=words):
        tutelage_papers.notes.concentration(
            given.pop("problem"), given.pop("start"), **given
        )
