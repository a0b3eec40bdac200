"""Single weights of a linear unit against an integrator, the theory and eq. 88."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
import tutelage_papers
from tutelage import InputError

linear_weights = tutelage_papers.power_law.linear_weights
TIMES = np.array([0.0, 0.7, 3.0, 20.0])


def problem_of(inputs, lr=0.2, v=1.5, v_teacher=0.8):
    student = tu.Network(1, "linear", readout=[v])
    teacher = tu.Network(1, "linear", readout=[v_teacher])
    return tu.Problem(student, teacher, inputs=inputs, optimizer=tu.SGD(lr=lr))


def integrated(problem, covariance, W, B, trained):
    """Return the weights of dJ/dalpha = eta v Sigma (v* B - v J), integrated."""
    v = problem.student.readout[0]
    v_teacher = problem.teacher.readout[0]
    learns = np.arange(W.size) < trained

    def flow(_, J):
        return learns * (
            float(problem.optimizer.lr) * v * covariance @ (v_teacher * B - v * J)
        )

    done = solve_ivp(
        flow, (0, TIMES[-1]), W, method="LSODA", t_eval=TIMES, rtol=1e-10, atol=1e-12
    )
    return done.y.T


@pytest.fixture
def measured():
    """Return correlated inputs, with their eigenvectors, and weights."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((6, 40)) * np.arange(1, 7)[:, None] ** -0.5
    covariance = data @ data.T
    covariance *= 6 / np.trace(covariance)
    inputs = tu.Spectrum.from_covariance(covariance)
    return problem_of(inputs), covariance, *rng.standard_normal((2, 6))


@pytest.mark.parametrize("trained", [6, 4, 1])
def test_weights_follow_the_flow(measured, trained):
    problem, covariance, W, B = measured
    found = linear_weights(problem, (W, B), TIMES, trained=trained)
    expected = integrated(problem, covariance, W, B, trained)
    np.testing.assert_allclose(found.weights, expected, atol=1e-8)
    np.testing.assert_allclose(found.R, expected @ covariance @ B / 6, atol=1e-8)
    Q = np.einsum("ti,ij,tj->t", expected, covariance, expected) / 6
    np.testing.assert_allclose(found.Q, Q, atol=1e-8)
    # without the regression on the frozen inputs (eq. 85) the weights end elsewhere
    if trained < 6:
        unaware = problem.teacher.readout[0] / problem.student.readout[0] * B[0]
        assert abs(found.weights[-1, 0] - unaware) > 0.02


def test_the_overlaps_are_those_of_the_theory():
    problem = problem_of(tu.PowerLaw(0.5, 4))
    W, B = np.random.default_rng(1).standard_normal((2, 40))
    found = linear_weights(problem, (W, B), TIMES)
    start = tu.start_from_weights(problem, W[None], B[None])
    theory = tu.solve(problem, start, TIMES, gradient_flow=True)
    np.testing.assert_allclose(found.R, theory.R[:, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(found.Q, theory.Q[:, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(found.error, theory.error, rtol=1e-6, atol=1e-12)
    # eq. 61 component by component, in the eigenbasis
    lam = np.repeat(problem.inputs.eigenvalues, 10)
    ratio = 0.8 / 1.5
    left = np.exp(-0.2 * 1.5**2 * lam * TIMES[2])
    np.testing.assert_allclose(found.weights[2], left * (W - ratio * B) + ratio * B)
    assert "40 weights" in str(found)


def test_the_floor_is_that_of_equation_88(measured):
    problem, _, W, B = measured
    late = linear_weights(problem, (W, B), [4000.0], trained=3)
    floor = tutelage_papers.power_law.raw_features(problem, 3, weights=(W, B)).floor
    assert late.error[0] == pytest.approx(floor, rel=1e-6)


def test_frozen_eigendirections_keep_their_weights():
    """Eqs. 68 to 71: the mean floor is half the sum of the lost eigenvalues."""
    inputs = tu.PowerLaw(1.0, 8)
    problem = problem_of(inputs, v=1.0, v_teacher=1.0)
    B = np.where(np.arange(8) % 2, 1.0, -1.0)
    late = linear_weights(problem, (np.zeros(8), B), [5000.0], trained=5)
    np.testing.assert_array_equal(late.weights[0, 5:], 0.0)
    assert late.error[0] == pytest.approx(np.sum(inputs.eigenvalues[5:]) / 16)


def test_real_steps_of_sgd_stay_near_the_flow():
    """At a small rate the path fluctuations of eq. 59 are negligible, at a large one not."""
    inputs = tu.Spectrum([1.5, 0.5])
    rng = np.random.default_rng(2)
    B = rng.standard_normal(50)
    lam = np.repeat([1.5, 0.5], 25)
    distances = []
    for lr in (0.02, 0.4):
        problem = problem_of(inputs, lr=lr, v=1.0, v_teacher=1.0)
        J = np.zeros(50)
        for _ in range(round(1.0 / lr * 50)):  # until eta alpha = 1
            x = np.sqrt(lam) * rng.standard_normal(50)
            J += lr / 50 * ((B - J) @ x) * x
        found = linear_weights(problem, (np.zeros(50), B), [1.0 / lr])
        distances.append(np.linalg.norm(J - found.weights[0]) / np.linalg.norm(B))
    assert distances[0] < 0.15
    assert distances[1] > 2 * distances[0]


def test_bad_input_has_one_message(measured):
    problem, _, W, B = measured
    for wrong, message in (
        ({"weights": (W, B[:3])}, "weights of one unit"),
        ({"trained": 7}, "at most 6"),
        ({"weights": (W[:4], B[:4])}, "measured on 6"),
        ({"times": [-1.0]}, "times"),
        ({"problem": problem.replace(weight_decay=0.1)}, "weight_decay"),
        ({"problem": tutelage_papers.power_law.committee(2)}, "hidden units"),
    ):
        options = {"problem": problem, "weights": (W, B), "times": TIMES} | wrong
        with pytest.raises(InputError, match=message):
            linear_weights(**options)
