"""Derivatives of averages by quadrature: right also where fields coincide or vanish, where the rule itself has none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.averages import reference as ref
from tutelage.averages import averages_for
from tutelage.averages.quadrature import QuadratureAverages
from tutelage.dynamics.linearised import critical_rate
from tutelage.problem.activation import NAMED

# erf without its closed form: the reference is the closed form itself
SAME = tu.Activation("erf by quadrature", NAMED["erf"].function, parity=-1)
CLOSED, RULE = (averages_for(g, g, 2, 1) for g in (NAMED["erf"], SAME))
TURN = ref.random_covariance(3, 4)
PLACES = {
    "generic": ref.random_covariance(3, 1),
    "a student is the teacher": np.array([[1.0, 0.3, 1.0], [0.3, 0.5, 0.3], [1.0, 0.3, 1.0]]),
    "two students are one": np.array([[0.7, 0.7, 0.2], [0.7, 0.7, 0.2], [0.2, 0.2, 1.0]]),
    "a student vanishes": np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.3], [0.0, 0.3, 1.0]]),
}


def turned(averages, name, C, times=1):
    """The derivative of an average, once or twice, along TURN."""

    def value(t):
        return getattr(averages, name)(jnp.asarray(C) + t * TURN, None)

    for _ in range(times):
        value = jax.jacfwd(value)
    return np.asarray(value(0.0))


@pytest.mark.parametrize("place", PLACES)
def test_first_and_second_derivatives_hold_everywhere(place):
    assert isinstance(RULE, QuadratureAverages)
    for name in ("outputs", "slopes", "curvatures"):
        for times in (1, 2):
            found, wanted = (turned(averages, name, PLACES[place], times) for averages in (RULE, CLOSED))
            np.testing.assert_allclose(found, wanted, atol=2e-9)


def test_derivative_with_respect_to_biases():
    rule, mean, step = averages_for(SAME, SAME, 2, 1, biased=True), jnp.array([0.3, -0.5, 0.2]), jnp.array([1.0, 0.4, -0.7])
    C = jnp.asarray(PLACES["generic"])
    for name in ("outputs", "slopes", "curvatures", "forces"):
        f = getattr(rule, name)
        slope = jax.jvp(lambda m: f(C, m), (mean,), (step,))[1]  # noqa: B023
        np.testing.assert_allclose(slope, (f(C, mean + 1e-5 * step) - f(C, mean - 1e-5 * step)) / 2e-5, atol=1e-9)


def test_four_field_average_has_its_derivative_at_perfect_learning():
    """It enters the critical learning rate, which is known: pi sqrt(5/3)."""
    rate = critical_rate(tu.Problem(tu.Network(1, SAME), tu.Network(1, SAME)), jnp.eye(1)[None])
    assert rate == pytest.approx(np.pi * np.sqrt(5 / 3), rel=2e-5)
