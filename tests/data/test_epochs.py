"""Samples that are used for many epochs, next to the theory."""

import numpy as np
import pytest

import tutelage as tu

LINEAR = tu.Network(1, "linear")
TIMES = np.array([0.0, 2.0, 8.0])


@pytest.fixture(scope="module")
def data():
    rows = np.random.default_rng(0).standard_normal((1200, 40))
    return tu.from_data(rows, levels=1)


@pytest.fixture(scope="module")
def comparison(data):
    settings = {"noise": 0.5, "optimizer": tu.SGD(0.6), "data": tu.DataSet(2.0)}
    problem = data.problem(LINEAR, LINEAR, **settings)
    return data.compare(problem, TIMES, runs=40, seed=1)


def largest_z(values: np.ndarray, theory: np.ndarray) -> float:
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return float(np.max(np.abs(values.mean(axis=0) - theory) / error))


@pytest.mark.parametrize("name", ["error", "loss", "train_loss"])
def test_gaussian_samples_follow_the_theory(comparison, name):
    theory = getattr(comparison.theory, name)
    for law in ("theory's law", "samples"):
        assert largest_z(getattr(comparison, name)[law][:, 1:], theory[1:]) < 4.5
    gap, _ = comparison.gap(name)
    parts = comparison.causes(name).values()
    np.testing.assert_allclose(gap, sum(part for part, _ in parts), atol=1e-12)


def test_the_theory_of_fresh_samples_fails(comparison):
    problem = comparison.theory.problem.replace(data=None)
    fresh = tu.solve(problem, comparison.theory.start, TIMES)
    assert fresh.loss is not None
    assert largest_z(comparison.train_loss["samples"][:, 1:], fresh.loss[1:]) > 8
    assert largest_z(comparison.error["samples"][:, 2:], fresh.error[2:]) > 8


def test_the_test_error_is_that_of_other_samples(data):
    """A run that has learned its few samples by heart is wrong on all others."""
    optimizer = tu.optimizers.GradientDescent(0.3)
    problem = data.problem(LINEAR, LINEAR, optimizer=optimizer, data=tu.DataSet(0.5))
    found = data.compare(problem, [0, 100], runs=4)
    assert np.all(found.train_loss["samples"][:, -1] < 1e-3)
    assert np.all(found.error["samples"][:, -1] > 0.1)


def test_words_and_figure(comparison):
    words = str(comparison)
    assert "80 of 1200 samples for 4 epochs, 40 runs, N = 40" in words
    assert "loss on the data set" in words
    assert comparison.plot() is not None


def test_labels_of_a_user():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((900, 30))
    labels = rows @ rng.standard_normal(30) / np.sqrt(30) + rng.standard_normal(900)
    data = tu.from_data(rows, labels, levels=1)
    problem = data.problem(LINEAR, optimizer=tu.SGD(0.5), data=tu.DataSet(2.0))
    found = data.compare(problem, TIMES, runs=30)
    assert (
        largest_z(found.train_loss["samples"][:, 1:], found.theory.train_loss[1:]) < 6
    )
    with pytest.raises(tu.InputError, match="lower the ratio to 27 or less"):
        data.compare(problem.replace(ratio=28.0), TIMES)
