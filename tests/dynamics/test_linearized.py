"""Small deviations along a curve: carried on and carried back by the Jacobians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import tutelage as tu
from tests.problems import generic_overlaps, pair
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.linearized import growing_directions, noise_covariances, propagate, propagate_adjoint, propagators

TIMES = 3 * np.linspace(0, 1, 400) ** 2


def turning(t):
    """A matrix that does not commute with itself at other times."""
    return np.array([[0.3, np.sin(t), 0.0], [-np.cos(2 * t), -0.5, t], [0.2, 0.0, -0.1 * t]])


@pytest.fixture(scope="module")
def steps():
    return propagators(TIMES, np.array([turning(t) for t in TIMES]))


def test_a_deviation_follows_its_differential_equation(steps):
    """To second order in the intervals between moments: half of the moments, four times the error."""
    x = np.array([1.0, -0.5, 0.2])
    exact = solve_ivp(lambda t, x: turning(t) @ x, (0, 3), x, rtol=1e-10, atol=1e-12).y[:, -1]
    fewer = propagators(TIMES[::3], np.array([turning(t) for t in TIMES[::3]]))
    fine, coarse = (np.max(np.abs(propagate(s, x[:, None])[-1, :, 0] - exact)) for s in (steps, fewer))
    assert fine < 2e-4
    assert coarse / fine == pytest.approx(9, rel=0.1)


def test_the_adjoint_tells_the_end_of_a_deviation_from_any_moment(steps):
    rng = np.random.default_rng(0)
    x, w = propagate(steps, rng.standard_normal((3, 2))), propagate_adjoint(steps, rng.standard_normal((3, 2)))
    products = np.einsum("mna,mnb->mab", w, x)
    np.testing.assert_allclose(products, np.broadcast_to(products[-1], products.shape), rtol=1e-10)


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
    """R_12 changes by eta delta_1 rho_2 / N per step: its variance by plain Monte Carlo."""
    R, Q, T = generic_overlaps(2, 2, seed=3)

    def fed(lr, batch):
        problem = pair(2, 2, lr=lr, batch=batch)
        state, t = initial_overlaps(problem, tu.Start(R, Q, T))
        states = jax.tree.map(lambda x: x[None], state)
        direction = jnp.zeros((1, 9, 1)).at[0, 1, 0].set(1.0)
        return float(noise_covariances(OrderParameters(problem, t), jnp.zeros(1), states, direction)[0, 0, 0])

    from scipy.special import erf

    fields = np.random.default_rng(0).multivariate_normal(np.zeros(4), np.block([[Q, R], [R.T, T]]), size=200_000)
    g = erf(fields / np.sqrt(2))
    delta = (g[:, 2:].sum(axis=1) - g[:, :2].sum(axis=1)) * np.sqrt(2 / np.pi) * np.exp(-(fields[:, 0] ** 2) / 2)
    expected = np.var(0.5 * delta * fields[:, 3])
    assert fed(0.5, 1) == pytest.approx(expected, rel=0.12)  # 2048 steps are drawn
    assert fed(0.5, 4) == pytest.approx(fed(0.5, 1) / 4, rel=1e-6)
    assert fed(1.0, 1) == pytest.approx(4 * fed(0.5, 1), rel=1e-6)
