"""Where learning ends, and the best error, through public names alone."""

import numpy as np
import pytest

import tutelage as tu

UNIT = tu.Network(1, "linear")
SIGNS = tu.Problem(UNIT, UNIT, loss="logistic", labels="sign")


def test_the_minimum_of_logistic_loss():
    found = tu.analysis.empirical_minimum(SIGNS, [3.0], ridge=0.03)
    assert isinstance(found, tu.analysis.EmpiricalMinimum)
    assert found.R[0, 0, 0] == pytest.approx(3.485527, abs=1e-6)
    assert found.Q[0, 0, 0] == pytest.approx(14.485819, abs=1e-5)
    assert found.error[0] == pytest.approx(0.131564, abs=1e-6)
    assert found.train_loss[0] == pytest.approx(0.098094, abs=1e-6)
    assert tu.plot.plot_empirical_minimum(found) is not None


def test_minima_of_finite_data_sets():
    """Least squares: error sigma^2 / (2 (ratio - 1))."""
    problem = tu.Problem(UNIT, UNIT, noise=0.3)
    runs = tu.analysis.simulate_minimum(problem, 3.0, dim=200, runs=10, ridge=0.0)
    assert isinstance(runs, tu.analysis.MinimumRuns)
    assert runs.theory.error == pytest.approx(0.0225)
    assert runs.verdict == "agree"
    assert tu.plot.plot_minimum_runs(runs) is not None


def test_the_best_error_of_signs():
    found = tu.analysis.bayes_optimal(SIGNS, [1.0, 2.0])
    assert isinstance(found, tu.analysis.BayesOptimal)
    np.testing.assert_allclose(found.error, [0.25437297, 0.17453419], atol=1e-8)
    ((point,), _) = found.fixed_points
    assert isinstance(point, tu.analysis.BayesPoint)
    assert point.stable
    assert tu.plot.plot_bayes_optimal(found) is not None


def test_what_a_square_shows():
    square = tu.Problem(UNIT, tu.Network(1, "quadratic"))
    found = tu.analysis.weak_recovery(square)
    assert isinstance(found, tu.analysis.WeakRecovery)
    assert float(found) == pytest.approx(0.5, abs=1e-3)
    assert tu.plot.plot_weak_recovery(found) is not None
    exponent = tu.analysis.information_exponent(square)
    assert isinstance(exponent, tu.analysis.TargetExponent)
    assert int(exponent) == 2
    assert int(tu.analysis.generative_exponent(square)) == 2
    assert tu.plot.plot_target_exponent(exponent) is not None


def test_floors_under_a_stream():
    problem = tu.Problem(UNIT, UNIT, noise=0.3, optimizer=tu.SGD(0.2))
    theory = tu.solve(problem, tu.random_start(problem), [0.0, 5.0])
    found = tu.analysis.floors(theory)
    assert isinstance(found, tu.analysis.Floors)
    best = found["bayes"]
    assert isinstance(best, tu.analysis.Floor)
    assert best.error == pytest.approx(tu.analysis.bayes_optimal(problem, 5.0).error)
    assert tu.plot.plot_floors(found) is not None
