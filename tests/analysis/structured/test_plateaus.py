"""The plateau on which all students are one: heights, rates and closed forms, each by a second route."""

import numpy as np
import pytest

import tutelage as tu
from tutelage._errors import InputError
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.linearized import drift_at, flatten, jacobian


@pytest.fixture(scope="module")
def case():
    """Three units, four levels, teachers that are not alike."""
    problem = tu.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    return problem, tu.random_start(problem, dim=400, scale=0.01, seed=3)


@pytest.fixture(scope="module")
def plateau(case):
    return tu.analysis.symmetric_plateau(*case)


def test_outputs_of_a_scaled_committee_do_not_grow_with_its_size():
    for K, M in ((2, 2), (3, 5)):
        problem = tu.committee(K, M, activation="linear")
        assert np.sum(problem.student.readout) == pytest.approx(np.sqrt(M))
        assert np.sum(np.square(problem.teacher.readout)) == pytest.approx(1.0)


def test_moments_are_those_of_the_weights(case):
    problem, N = case[0], 40
    rng = np.random.default_rng(0)
    W, W_teacher = rng.standard_normal((2, 3, N))
    start = tu.start_from_weights(problem, W, W_teacher)
    lam = np.repeat(problem.inputs.eigenvalues, N // 4)
    for order in (0, 1, 2, 5):
        moments = tu.papers.power_law.overlap_moments(start, order, problem)
        np.testing.assert_allclose(moments.R, (W * lam**order) @ W_teacher.T / N, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments.Q, (W * lam**order) @ W.T / N, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments.T, (W_teacher * lam**order) @ W_teacher.T / N, rtol=1e-12, atol=1e-12)
    assert "R^(5)" in str(moments)


def test_the_plateau_is_a_fixed_point_of_the_overlaps_with_the_same_rates(case, plateau):
    problem = case[0]
    state, t = initial_overlaps(problem, plateau.start)
    system = OrderParameters(problem, t, gradient_flow=True)
    assert np.max(np.abs(drift_at(system, flatten(state), state))) < 1e-12
    rates = np.sort(np.linalg.eigvals(np.asarray(jacobian(system, 0.0, state))).real)[::-1]
    growing = plateau.rates[plateau.rates > 1e-6]
    np.testing.assert_allclose(rates[: 2 * growing.size], np.repeat(growing, 2), rtol=1e-6)  # each K - 1 times
    assert rates[2 * growing.size] < 1e-6
    field = tu.generalization_error(
        problem, np.tile(plateau.R, (3, 1)), np.full((3, 3), plateau.Q), system.covariances(state)[2]
    )
    assert plateau.error == pytest.approx(float(field), rel=1e-9)


def test_a_solve_from_small_weights_comes_to_these_heights(case, plateau):
    problem, start = case
    curve = tu.solve(problem, start, tu.linear_times(400, 81), gradient_flow=True)
    still = np.argmin(np.abs(np.gradient(curve.error)[10:])) + 10
    for order in (1, 3):
        moments = tu.papers.power_law.overlap_moments(curve, order)
        R, Q = plateau.heights(order)
        np.testing.assert_allclose(moments.R[still].mean(axis=0), R, rtol=5e-3)
        assert np.mean(moments.Q[still]) == pytest.approx(Q, rel=5e-3)
    assert np.ptp(plateau.R) > 0.02 * np.mean(plateau.R)  # one height for all would fail


def test_closed_forms_are_exact_for_teachers_that_are_alike():
    problem = tu.committee(3, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    t = np.stack([a * np.eye(3) + b * (1 - np.eye(3)) for a, b in ((1.1, 0.1), (0.9, -0.2), (1.0, 0.3), (1.2, 0.0))])
    start = tu.Start(np.zeros((4, 3, 3)), 0 * t, t)
    plateau, closed = tu.analysis.symmetric_plateau(problem, start), tu.papers.power_law.plateau_formulas(problem, start)
    np.testing.assert_allclose([closed.Q, closed.Q_each], plateau.Q, rtol=1e-9)
    np.testing.assert_allclose(plateau.R, closed.R, rtol=1e-9)
    assert plateau.error == pytest.approx(closed.error, rel=1e-9)
    assert plateau.time_constant == pytest.approx(closed.time_constant, rel=1e-8)
    for order in (2, 4):
        T = tu.papers.power_law.overlap_moments(start, order, problem).T
        R, Q = plateau.heights(order)
        np.testing.assert_allclose(closed.heights(T)[0], R, rtol=1e-9)
        assert closed.heights(T)[1] == pytest.approx(Q, rel=1e-9)
        printed = closed.R * np.mean(np.diag(T)) / np.mean(np.diag(closed.moments[0]))  # eq. 98 as printed
        assert np.all(np.abs(printed / R - 1) > 0.01)
    assert "closed form" in str(closed)
    assert "time constant" in str(plateau)


def test_the_isotropic_plateau_of_saad_and_solla():
    K = 3
    problem = tu.committee(K, lr=0.2)
    plateau = tu.analysis.symmetric_plateau(problem, tu.Start(np.zeros((K, K)), np.eye(K)))
    np.testing.assert_allclose(plateau.Q, 1 / (2 * K - 1), rtol=1e-10)
    rate = 2 * K * 0.2 / (np.pi * np.sqrt(2 * K - 1) * (2 * K + 1) ** 1.5) / K  # readouts of 1/sqrt(K) divide time by K
    np.testing.assert_allclose(plateau.rates[: K - 1], rate, rtol=1e-8)


@pytest.mark.parametrize("near", ["plateau", "perfect"])
def test_four_overlaps_per_level_have_the_rates_of_the_whole_system(near):
    M = 3
    problem = tu.committee(M, inputs=tu.PowerLaw(0.5, 4), lr=0.2)
    reduced, whole = tu.papers.power_law.reduced_system(problem, near), tu.analysis.fixed_point(problem, near, gradient_flow=True)
    rates = np.array([mode.rate for mode in whole.modes]).real
    assert max(np.min(np.abs(rates - rate)) for rate in reduced.rates) < 1e-9
    if near == "plateau":
        scale = 2 / (np.pi * M) * np.sqrt((2 * M - 1) / (2 * M + 1))
        np.testing.assert_allclose(reduced.own_rates / scale, [-2 * M, -M, 0, 0], atol=1e-9)
        shared = [0, 0, M / (4 * M**2 - 1), 2 * M / (2 * M + 1)]
        np.testing.assert_allclose(reduced.shared_rates / scale, shared, atol=1e-9)
    else:
        scale, root = 2 / (np.sqrt(3) * np.pi * M), np.sqrt(3)
        fast = 2 + (M - 1) * root
        np.testing.assert_allclose(reduced.own_rates / scale, [-fast, -fast / 2, root - 2, root / 2 - 1], atol=1e-9)
    assert "four overlaps" in str(reduced)


def test_what_has_no_such_plateau_is_refused(case):
    problem, start = case
    with pytest.raises(InputError, match="equal readouts"):
        tu.analysis.symmetric_plateau(problem.replace(**{"student.readout": [1.0, 1.0, 2.0]}), start)
    with pytest.raises(InputError, match="decay"):
        tu.analysis.symmetric_plateau(problem.replace(weight_decay=0.1), start)
    with pytest.raises(InputError, match="committee"):
        tu.papers.power_law.plateau_formulas(problem.replace(**{"student.readout": 1.0}), start)
    with pytest.raises(InputError, match="problem"):
        tu.papers.power_law.overlap_moments(start, 2)
    with pytest.raises(InputError, match="K = M"):
        tu.papers.power_law.reduced_system(tu.committee(2, 3))


def test_the_figure_shows_heights_and_rates(plateau):
    figure = plateau.plot()
    assert len(figure.axes) == 2
