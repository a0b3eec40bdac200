"""Solved curves: known heights and rates, options of `solve`, files and warnings."""

from math import asin, pi, sqrt

import jax
import numpy as np
import pytest

import tutelage as tu

TIMES = tu.linear_times(10.0, 11)


def committee(K: int = 2, activation="erf", **options) -> tu.Problem:
    network = tu.Network(K, activation)
    return tu.Problem(network, network, **options)


@pytest.fixture(scope="module")
def problem() -> tu.Problem:
    return committee(optimizer=tu.SGD(0.5))


@pytest.fixture(scope="module")
def theory(problem) -> tu.Trajectory:
    return tu.solve(problem, tu.asymmetric_start(problem), TIMES)


@pytest.mark.parametrize("K", [2, 3])
def test_the_plateau_of_gradient_flow(K):
    """Q = 1 / (2K - 1), R = 1 / sqrt(K (2K - 1)) for erf (Saad and Solla 1995)."""
    start = tu.Start(R=np.full((K, K), 0.3), Q=np.full((K, K), 0.4))
    with pytest.warns(tu.errors.SymmetryWarning):
        theory = tu.solve(committee(K), start, [0.0, 1e4], gradient_flow=True)
    height = K / pi * (pi / 6 - K * asin(1 / (2 * K)))
    np.testing.assert_allclose(theory.Q[-1], 1 / (2 * K - 1), atol=1e-9)
    np.testing.assert_allclose(theory.R[-1], 1 / sqrt(K * (2 * K - 1)), atol=1e-9)
    assert theory.error[-1] == pytest.approx(height, abs=1e-10)


def test_a_linear_network_with_weight_decay_settles_at_its_closed_form():
    """The stationary variance of one linear unit with ridge kappa and noise sigma."""
    kappa = 0.2
    eta = 0.7
    sigma = 0.4
    rho = 1.3
    optimizer = tu.SGD(eta, weight_decay=kappa)
    task = committee(1, "linear", optimizer=optimizer, noise=sigma)
    theory = tu.solve(task, tu.Start([[0.1]], [[0.5]], [[rho]]), [0.0, 200.0])
    bias = rho * kappa**2 / (1 + kappa) ** 2
    variance = 2 * (1 + kappa) / (2 * (1 + kappa) - eta) * (bias + sigma**2)
    assert theory.error[-1] == pytest.approx((variance - sigma**2) / 2, rel=1e-8)


def test_a_batch_divides_the_noise_of_the_gradient():
    """Noise floor of a linear unit: sigma^2 eta / (4 b - 2 eta) with b samples."""
    task = committee(1, "linear", optimizer=tu.SGD(0.4, batch=3), noise=0.3)
    theory = tu.solve(task, tu.Start([[1.0]], [[1.0]]), [0.0, 100.0])
    assert theory.error[-1] == pytest.approx(0.3**2 * 0.4 / (4 * 3 - 2 * 0.4))


def test_the_error_at_given_overlaps(problem):
    """Two independent students of no overlap: e_g = 2 arcsin(1/2) / pi = 1/3."""
    nothing = np.zeros((2, 2))
    error = tu.generalization_error(problem, nothing, nothing)
    assert float(error) == pytest.approx(1 / 3)
    assert float(tu.generalization_error(problem, np.eye(2), np.eye(2))) == 0.0


def test_a_trajectory_has_its_arrays(theory):
    assert isinstance(theory, tu.Trajectory)
    np.testing.assert_array_equal(theory.times, TIMES)
    assert theory.R.shape == (11, 2, 2)
    assert theory.Q.shape == (11, 2, 2)
    assert theory.r.shape == (11, 1, 2, 2)
    assert theory.finished
    assert theory.status == "finished"
    np.testing.assert_array_equal(theory["R"], theory.R)
    np.testing.assert_allclose(theory.loss, theory.error, rtol=1e-12)


def test_label_noise_adds_its_variance_to_the_loss():
    task = committee(noise=0.2)
    theory = tu.solve(task, tu.asymmetric_start(task), [0.0, 1.0])
    np.testing.assert_allclose(theory.loss - theory.error, 0.2**2 / 2)


def test_a_saved_trajectory_is_loaded_bit_by_bit(theory, tmp_path):
    loaded = tu.load(theory.save(tmp_path / "theory.nc"))
    np.testing.assert_array_equal(loaded.error, theory.error)
    np.testing.assert_array_equal(loaded.R, theory.R)
    assert loaded.problem.to_dict() == theory.problem.to_dict()
    assert set(loaded.to_dataset().data_vars) == set(theory.to_dataset().data_vars)
    assert tu.Trajectory.from_dataset(theory.to_dataset()).finished


def test_a_batch_of_problems_equals_single_solves(problem, theory):
    start = tu.asymmetric_start(problem)
    batch = tu.solve_batch(problem, {"lr": [0.2, 0.5]}, start, TIMES)
    assert batch.error.shape == (2, 11)
    # Each solve has its own steps; the tolerance of a step is 1e-8.
    np.testing.assert_allclose(batch.error[1], theory.error, rtol=1e-6)


def test_a_solve_is_differentiable(problem):
    """The slope of the final error in the learning rate, against differences."""
    start = tu.asymmetric_start(problem)

    def final_error(rate):
        changed = committee(optimizer=tu.SGD(rate))
        return tu.solve(changed, start, [0.0, 2.0], gradient="forward").error[-1]

    _, slope = jax.jvp(final_error, (0.5,), (1.0,))
    step = 1e-3
    errors = []
    for rate in (0.5 - step, 0.5 + step):
        changed = committee(optimizer=tu.SGD(rate))
        errors.append(tu.solve(changed, start, [0.0, 2.0]).error[-1])
    assert float(slope) == pytest.approx((errors[1] - errors[0]) / (2 * step), rel=1e-5)


def test_quadrature_and_sampling_agree_with_the_closed_form(problem, theory):
    start = tu.asymmetric_start(problem)
    fine = tu.Quadrature(nodes=64)
    error = tu.generalization_error(problem, start.R, start.Q, quadrature=fine)
    assert float(error) == pytest.approx(theory.error[0], rel=1e-8)
    sampled = tu.solve(problem, start, [0.0, 1.0], moments=tu.Sampled(2**10))
    # The curve is within a few of the errors that it states for itself.
    gap = np.abs(sampled.error[-1] - theory.error[1])
    assert gap < 5 * sampled.sampling_error[-1]


def test_custom_equations_give_their_exponential():
    decay = tu.Equations(("x",), lambda t, state: (-state.x,), lambda state: state.x**2)
    theory = tu.solve(decay, {"x": 1.0}, [0.0, 1.0])
    assert theory.error[-1] == pytest.approx(np.exp(-2.0), rel=1e-7)


def test_observables_are_recorded(problem):
    trace = {"trace": lambda R, Q, readout: Q[0, 0] + Q[1, 1]}
    start = tu.asymmetric_start(problem)
    theory = tu.solve(problem, start, [0.0, 1.0], observe=trace)
    np.testing.assert_allclose(theory["trace"], np.trace(theory.Q, axis1=1, axis2=2))


def test_a_divergence_keeps_what_came_before():
    """One linear unit is unstable beyond eta = 2."""
    task = committee(1, "linear", optimizer=tu.SGD(2.2))
    with pytest.warns(tu.errors.DivergenceWarning, match="diverged"):
        theory = tu.solve(task, tu.Start([[0.5]], [[0.5]]), [0.0, 20.0, 4000.0])
    assert not theory.finished
    assert np.all(np.isfinite(theory.error))
    assert int(theory.status_code) == tu.errors.Status.DIVERGED


def test_the_validity_report_counts_the_warnings(theory):
    assert theory.validity is not None
    assert issubclass(tu.errors.ValidityWarning, tu.errors.TutelageWarning)
    assert issubclass(tu.errors.DivergenceWarning, tu.errors.TutelageWarning)
    assert issubclass(tu.errors.SymmetryWarning, tu.errors.TutelageWarning)


def test_a_linear_network_on_a_power_law():
    task = committee(1, "linear", inputs=tu.PowerLaw(beta=1.0, levels=5))
    start = tu.Start([[0.0]], [[0.3]])
    theory = tu.solve(task, start, [0.5, 3.0, 20.0], solver="explicit")
    # Digits of arithmetic level by level.
    expected = [0.298910969, 0.0728311464, 0.00239263643]
    np.testing.assert_allclose(theory.error, expected, rtol=1e-6)
