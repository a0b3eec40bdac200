"""Numerical building blocks:

arcsine and erf as polynomials against the C library, powers, half discs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from tutelage.problem import activation
from tutelage.stream.moments import averages
from tutelage.stream.moments.averages import safe_arcsin
from tutelage.stream.moments.quadrature import disc, powers

RNG = np.random.default_rng(0)
NEAR_ONE = 1 - 10.0 ** RNG.uniform(-16, 0, 20_000)
RANGE = np.concatenate(
    [
        RNG.uniform(-1, 1, 50_000),
        NEAR_ONE,
        -NEAR_ONE,
        10.0 ** RNG.uniform(-300, 0, 5_000),
        [0, 0.5, -0.5, 1, -1],
    ]
)


def units_off(x):
    """Largest distance from the true angle, in units of its last place."""
    exact = np.arcsin(x)
    return float(
        np.max(
            np.abs(np.asarray(jax.jit(safe_arcsin)(x)) - exact)
            / np.spacing(np.abs(exact))
        )
    )


def test_within_three_units_in_the_last_place():
    assert units_off(RANGE) <= 3


def test_a_term_less_is_noticed(monkeypatch):
    monkeypatch.setattr(averages, "COEFFICIENTS", averages.COEFFICIENTS[:-1])
    assert np.max(np.abs(np.asarray(safe_arcsin(RANGE)) - np.arcsin(RANGE))) > 1e-12


@pytest.mark.parametrize("x", [1 + 1e-15, 1.0, -1.0, -1 - 1e-15, 7.0])
def test_at_one_and_beyond_it_stays_there_with_finite_slope(x):
    assert float(safe_arcsin(x)) == pytest.approx(np.sign(x) * np.pi / 2, abs=1e-16)
    assert float(jax.grad(safe_arcsin)(x)) == 0.0


def test_what_is_not_a_number_stays_so():
    assert np.isnan(float(safe_arcsin(np.nan)))


def test_derivatives_in_both_modes():
    x = np.array(
        [-0.999999, -0.7, -0.5, -1e-3, 0.0, 0.3, 0.5, 0.5000001, 0.9, 1 - 1e-12]
    )
    square = (1 - x) * (1 + x)
    first, second = (
        jax.jit(jax.vmap(f))(x)
        for f in (jax.grad(safe_arcsin), jax.grad(jax.grad(safe_arcsin)))
    )
    np.testing.assert_allclose(first, square**-0.5, rtol=1e-14)
    np.testing.assert_allclose(second, x * square**-1.5, rtol=1e-13)
    forward = jax.jit(lambda x: jax.jvp(safe_arcsin, (x,), (jnp.ones_like(x),))[1])(x)
    np.testing.assert_allclose(forward, first, rtol=1e-15)


def test_powers():
    x = np.array([-1.0, -0.3, 0.0, 0.7, 1.0])
    np.testing.assert_allclose(
        powers(jnp.asarray(x), 38), x[:, None] ** np.arange(38), rtol=1e-14
    )


def test_erf_of_activations():
    """Two units in the last place of the true one, exact at its ends; its derivative is the Gaussian."""
    x = np.concatenate([np.linspace(-8.0, 8.0, 4001), [1e-300, -1e-9, np.inf, -np.inf]])
    np.testing.assert_allclose(
        activation.erf(jnp.asarray(x)), special.erf(x), rtol=4.5e-16
    )
    assert np.isnan(activation.erf(jnp.nan))
    slope = activation.elementwise_derivative(activation.erf)
    np.testing.assert_allclose(
        slope(jnp.asarray(x)),
        2 / np.sqrt(np.pi) * np.exp(-(x**2)),
        rtol=1e-14,
        atol=1e-300,
    )


@pytest.mark.parametrize(("nodes", "axes"), [(32, 2), (33, 2), (9, 1)])
def test_half_a_disc_serves_even_functions(nodes, axes):
    whole, half = (disc(nodes, 5.5, axes, even) for even in (False, True))
    assert len(half[0]) == (len(whole[0]) + 1) // 2
    f = lambda y: np.cos(y @ np.arange(1.0, axes + 1))  # noqa: E731
    assert half[1] @ f(half[0]) == pytest.approx(whole[1] @ f(whole[0]), rel=1e-13)
