"""The closed forms of the power-law paper: moments, plateau heights and reduced systems, each by a second route."""

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tutelage import InputError


@pytest.fixture(scope="module")
def case():
    """Three units, four levels, teachers that are not alike."""
    problem = tutelage_papers.power_law.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    return problem, tu.random_start(problem, dim=400, scale=0.01, seed=3)


@pytest.fixture(scope="module")
def plateau(case):
    return tutelage_papers.power_law.symmetric_plateau(*case)


def test_moments_are_those_of_the_weights(case):
    problem, N = case[0], 40
    rng = np.random.default_rng(0)
    W, W_teacher = rng.standard_normal((2, 3, N))
    start = tu.start_from_weights(problem, W, W_teacher)
    lam = np.repeat(problem.inputs.eigenvalues, N // 4)
    for order in (0, 1, 2, 5):
        moments = tutelage_papers.power_law.overlap_moments(start, order, problem)
        np.testing.assert_allclose(
            moments.R, (W * lam**order) @ W_teacher.T / N, rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(
            moments.Q, (W * lam**order) @ W.T / N, rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(
            moments.T,
            (W_teacher * lam**order) @ W_teacher.T / N,
            rtol=1e-12,
            atol=1e-12,
        )
    assert "R^(5)" in str(moments)


def test_a_solve_from_small_weights_comes_to_these_heights(case, plateau):
    problem, start = case
    curve = tu.solve(problem, start, tu.linear_times(400, 81), gradient_flow=True)
    still = np.argmin(np.abs(np.gradient(curve.error)[10:])) + 10
    for order in (1, 3):
        moments = tutelage_papers.power_law.overlap_moments(curve, order)
        R, Q = plateau.heights(order)
        np.testing.assert_allclose(moments.R[still].mean(axis=0), R, rtol=5e-3)
        assert np.mean(moments.Q[still]) == pytest.approx(Q, rel=5e-3)
    assert np.ptp(plateau.R) > 0.02 * np.mean(
        plateau.R
    )  # one height for all would fail


def test_closed_forms_are_exact_for_teachers_that_are_alike():
    problem = tutelage_papers.power_law.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    t = np.stack(
        [
            a * np.eye(3) + b * (1 - np.eye(3))
            for a, b in ((1.1, 0.1), (0.9, -0.2), (1.0, 0.3), (1.2, 0.0))
        ]
    )
    start = tu.Start(np.zeros((4, 3, 3)), 0 * t, t)
    plateau, closed = (
        tutelage_papers.power_law.symmetric_plateau(problem, start),
        tutelage_papers.power_law.plateau_formulas(problem, start),
    )
    np.testing.assert_allclose([closed.Q, closed.Q_each], plateau.Q, rtol=1e-9)
    np.testing.assert_allclose(plateau.R, closed.R, rtol=1e-9)
    assert plateau.error == pytest.approx(closed.error, rel=1e-9)
    assert plateau.time_constant == pytest.approx(closed.time_constant, rel=1e-8)
    for order in (2, 4):
        T = tutelage_papers.power_law.overlap_moments(start, order, problem).T
        R, Q = plateau.heights(order)
        np.testing.assert_allclose(closed.heights(T)[0], R, rtol=1e-9)
        assert closed.heights(T)[1] == pytest.approx(Q, rel=1e-9)
        printed = (
            closed.R * np.mean(np.diag(T)) / np.mean(np.diag(closed.moments[0]))
        )  # eq. 98 as printed
        assert np.all(np.abs(printed / R - 1) > 0.01)
    assert "closed form" in str(closed)
    assert "time constant" in str(plateau)


@pytest.mark.parametrize("near", ["plateau", "perfect"])
def test_four_overlaps_per_level_have_the_rates_of_the_whole_system(near):
    M = 3
    problem = tutelage_papers.power_law.committee(M, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    reduced, whole = (
        tutelage_papers.power_law.reduced_system(problem, near),
        tu.analysis.fixed_point(problem, near, gradient_flow=True),
    )
    rates = np.array([mode.rate for mode in whole.modes]).real
    assert max(np.min(np.abs(rates - rate)) for rate in reduced.rates) < 1e-9
    if near == "plateau":
        scale = 2 / (np.pi * M) * np.sqrt((2 * M - 1) / (2 * M + 1))
        np.testing.assert_allclose(
            reduced.own_rates / scale, [-2 * M, -M, 0, 0], atol=1e-9
        )
        shared = [0, 0, M / (4 * M**2 - 1), 2 * M / (2 * M + 1)]
        np.testing.assert_allclose(reduced.shared_rates / scale, shared, atol=1e-9)
    else:
        scale, root = 2 / (np.sqrt(3) * np.pi * M), np.sqrt(3)
        fast = 2 + (M - 1) * root
        np.testing.assert_allclose(
            reduced.own_rates / scale,
            [-fast, -fast / 2, root - 2, root / 2 - 1],
            atol=1e-9,
        )
    assert "four overlaps" in str(reduced)


def test_what_these_formulas_do_not_cover_is_refused(case):
    problem, start = case
    with pytest.raises(InputError, match="committee"):
        tutelage_papers.power_law.plateau_formulas(
            problem.replace(**{"student.readout": 1.0}), start
        )
    with pytest.raises(InputError, match="problem"):
        tutelage_papers.power_law.overlap_moments(start, 2)
    with pytest.raises(InputError, match="K = M"):
        tutelage_papers.power_law.reduced_system(
            tutelage_papers.power_law.committee(2, 3)
        )
