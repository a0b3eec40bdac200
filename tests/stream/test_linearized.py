"""Small deviations along a curve: carried on and carried back by the Jacobians."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import tutelage as tu
from tests.problems import compilations, generic_overlaps, jacobian, pair
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import (
    LocalDynamics,
    growing_directions,
    noise_covariances,
    propagate,
    propagate_adjoint,
    propagators,
)
from tutelage.stream.order_parameters import flatten

TIMES = 3 * np.linspace(0, 1, 400) ** 2


def turning(t):
    """A matrix that does not commute with itself at other times."""
    return np.array(
        [[0.3, np.sin(t), 0.0], [-np.cos(2 * t), -0.5, t], [0.2, 0.0, -0.1 * t]]
    )


@pytest.fixture(scope="module")
def steps():
    return propagators(TIMES, np.array([turning(t) for t in TIMES]))


def test_a_deviation_follows_its_differential_equation(steps):
    """To second order in the intervals between moments:

    half of the moments, four times the error.
    """
    x = np.array([1.0, -0.5, 0.2])
    exact = solve_ivp(lambda t, x: turning(t) @ x, (0, 3), x, rtol=1e-10, atol=1e-12).y[
        :, -1
    ]
    fewer = propagators(TIMES[::3], np.array([turning(t) for t in TIMES[::3]]))
    fine, coarse = (
        np.max(np.abs(propagate(s, x[:, None])[-1, :, 0] - exact))
        for s in (steps, fewer)
    )
    assert fine < 2e-4
    assert coarse / fine == pytest.approx(9, rel=0.1)


def test_the_adjoint_tells_the_end_of_a_deviation_from_any_moment(steps):
    rng = np.random.default_rng(0)
    x = propagate(steps, rng.standard_normal((3, 2)))
    w = propagate_adjoint(steps, rng.standard_normal((3, 2)))
    products = np.einsum("mna,mnb->mab", w, x)
    np.testing.assert_allclose(
        products, np.broadcast_to(products[-1], products.shape), rtol=1e-10
    )


def test_a_constant_matrix_is_carried_exactly():
    J = turning(0.7)
    steps = propagators(np.array([0.0, 0.4, 2.0]), np.array([J, J, J]))
    np.testing.assert_allclose(steps[1] @ steps[0], expm(2 * J), rtol=1e-12)


def test_growing_directions_are_left_eigenvectors_of_the_largest_rates():
    basis = np.random.default_rng(1).standard_normal((4, 4))
    J = basis @ np.diag([0.5, 0.5, 0.1, -1.0]) @ np.linalg.inv(basis)
    rates, left = growing_directions(J)
    np.testing.assert_allclose(rates, 0.5, rtol=1e-9)
    np.testing.assert_allclose(J.T @ left, 0.5 * left, atol=1e-9)
    assert growing_directions(-np.eye(3))[0].size == 0


def test_noise_is_fed_into_a_direction_as_its_steps_vary_and_batches_average_it():
    """R_12 changes by eta delta_1 rho_2 / N per step:

    its variance by plain Monte Carlo.
    """
    R, Q, T = generic_overlaps(2, 2, seed=3)

    def fed(lr, batch):
        problem = pair(2, 2, lr=lr, batch=batch)
        state, t = initial_overlaps(problem, tu.Start(R, Q, T))
        local = LocalDynamics(OrderParameters(problem, t), state)
        direction = np.eye(9)[None, :, 1:2]
        return float(
            noise_covariances(local, 0.0, flatten(state)[None], direction)[0, 0, 0]
        )

    from scipy.special import erf

    fields = np.random.default_rng(0).multivariate_normal(
        np.zeros(4), np.block([[Q, R], [R.T, T]]), size=200_000
    )
    g = erf(fields / np.sqrt(2))
    delta = (
        (g[:, 2:].sum(axis=1) - g[:, :2].sum(axis=1))
        * np.sqrt(2 / np.pi)
        * np.exp(-(fields[:, 0] ** 2) / 2)
    )
    expected = np.var(0.5 * delta * fields[:, 3])
    assert fed(0.5, 1) == pytest.approx(expected, rel=0.06)  # 8192 steps are drawn
    assert fed(0.5, 4) == pytest.approx(fed(0.5, 1) / 4, rel=1e-6)
    assert fed(1.0, 1) == pytest.approx(4 * fed(0.5, 1), rel=1e-6)


PROBLEMS = {
    "erf": pair(2, 2, lr=0.7, noise=0.2, student={"train_readout": True}),
    "levels": pair(
        2,
        3,
        lr=1.1,
        inputs=tu.Spectrum([1.7, 0.6], [0.4, 0.6]),
        weight_decay=0.01,
        batch=2,
    ),
    "quadratic": pair(2, 2, "quadratic", lr=0.1),
    "sign teacher": tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "sign"), optimizer=tu.SGD(0.5)
    ),
    "relu": pair(2, 1, "relu", lr=0.3),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_jacobians_are_the_derivatives_that_jax_finds(name):
    """By differences where the drift is analytic: eleven digits.

    A wrong learning rate shows what the test can see.
    """
    problem = PROBLEMS[name]
    R, Q, T = generic_overlaps(problem.student.hidden, problem.teacher.hidden, seed=1)
    state, t = initial_overlaps(problem, tu.Start(R, Q, T))
    local = LocalDynamics(OrderParameters(problem, t), state)
    vector = flatten(state)
    exact = np.asarray(jacobian(OrderParameters(problem, t), 0.0, state))
    np.testing.assert_allclose(
        local.jacobian(vector), exact, rtol=0, atol=5e-12 * np.max(np.abs(exact))
    )
    np.testing.assert_allclose(
        local.jacobians(np.stack([vector] * 3))[2],
        exact,
        rtol=0,
        atol=5e-12 * np.max(np.abs(exact)),
    )
    other = LocalDynamics(
        OrderParameters(problem.replace(lr=1.001 * problem.optimizer.lr), t), state
    )
    assert np.max(np.abs(other.jacobian(vector) - exact)) > 1e-5 * np.max(np.abs(exact))


def test_one_program_serves_all_numbers_and_counts():
    """Other learning rates, noises and numbers of vectors compile nothing."""
    count = compilations()
    for lr, rows in ((0.31, 5), (0.62, 70)):
        problem = pair(2, 1, "quadratic", lr=lr, noise=lr / 10)
        state, t = initial_overlaps(
            problem, tu.Start([[0.3], [0.1]], [[0.5, 0.1], [0.1, 0.4]])
        )
        local = LocalDynamics(OrderParameters(problem, t), state)
        local.jacobians(np.stack([flatten(state)] * rows))
    assert len(count) == 1
