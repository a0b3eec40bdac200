"""A training loop of another program next to the theory."""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu

N = 120
TIMES = tu.linear_times(4.0, 9)
ERF = tu.Network(2, "erf")


@pytest.fixture(scope="module")
def problem():
    return tu.Problem(ERF, ERF, optimizer=tu.SGD(lr=0.5))


def recorders(problem, runs, lr):
    """Plain NumPy with fields W . x, as in a linear layer, and one rate."""
    units = tu.conventions.Convention(dim=N)
    rng = np.random.default_rng(0)
    teacher = rng.standard_normal((2, N)) / np.sqrt(N)
    initial = 0.3 * teacher + 0.3 * rng.standard_normal((2, N)) / np.sqrt(N)
    for run in range(runs):
        samples = np.random.default_rng(run + 1)
        recorder = tu.Recorder(problem, units.weights(teacher), times=TIMES)
        W = initial.copy()
        for step in range(tu.conventions.steps(TIMES[-1], N) + 1):
            recorder(step, units.weights(W))
            x = samples.standard_normal(N)
            fields = W @ x
            gap = erf(teacher @ x / 2**0.5).sum() - erf(fields / 2**0.5).sum()
            slope = np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)
            W += units.lr(lr) * gap * np.outer(slope, x)
        yield recorder


@pytest.fixture(scope="module")
def runs(problem):
    first, *others = recorders(problem, 8, lr=0.5)
    return first.runs(*others)


@pytest.fixture(scope="module")
def theory(problem, runs):
    return tu.solve(problem, runs.start, TIMES)


def test_a_recorded_loop_follows_the_theory(theory, runs):
    comparison = tu.compare(theory, runs)
    assert comparison.agrees, comparison.verdict.sentence
    assert comparison.missed_factor is None


def test_a_missed_factor_is_named(problem, theory):
    first, *others = recorders(problem, 8, lr=1.0)
    comparison = tu.compare(theory, first.runs(*others))
    assert not comparison.agrees
    assert "a learning rate 2 times larger" in comparison.missed_factor.name
    assert "nn.MSELoss" in comparison.verdict.sentence


def test_recorded_arrays_are_runs_too(problem, runs):
    T = runs.T
    overlaps = tu.runs_from_overlaps(TIMES, runs.R, runs.Q, problem, T=T, dim=N)
    np.testing.assert_allclose(overlaps.error, runs.error, rtol=1e-9)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3, 2, 2, N))
    teacher = rng.standard_normal((2, N))
    trained = tu.runs_from_weights([0.0, 1.0], weights, teacher, problem)
    np.testing.assert_allclose(trained.R, weights @ teacher.T / N, rtol=1e-12)


def test_units_of_other_programs():
    units = tu.conventions.Convention(dim=1000, loss="mean_squared")
    assert units.lr(0.5) == 0.00025
    assert units.hyperparameters(tu.SGD(0.5, batch=4))["batch"] == 4
    assert tu.conventions.alpha(5000, dim=1000) == 5.0
    assert tu.conventions.steps(5.0, dim=1000) == 5000
    assert tu.conventions.samples(5.0, dim=1000, batch=2) == 10_000
    assert tu.conventions.epochs(5.0, dim=1000, size=2500) == 2.0


def test_tables_and_citations(theory, runs, tmp_path):
    assert list(runs.to_pandas().columns[:2]) == ["step", "error"]
    assert theory.save(tmp_path / "theory.csv").read_text().startswith("time,error")
    with pytest.raises(tu.InputError, match=r"must end in \.nc"):
        theory.save(tmp_path / "theory.xlsx")
    np.testing.assert_array_equal(theory["error"], theory.error)
    assert "Saad" in str(theory.cite())
    assert "@article" in tu.compare(theory, runs, fluctuations=False).cite().bibtex
    assert runs.plot(time="steps").axes[-1].get_xlabel() == "steps"
