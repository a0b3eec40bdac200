"""Derivatives of averages by quadrature:

right also where fields coincide or vanish, where the rule itself has none.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.stream.moments import reference as ref
from tutelage.problem.activation import NAMED_ACTIVATIONS
from tutelage.stream.moments.matrices import averages_for
from tutelage.stream.moments.quadrature import QuadratureAverages
from tutelage.stream.perfect_learning import critical_rate

# erf without its closed form: the reference is the closed form itself
SAME = tu.Activation("erf by quadrature", NAMED_ACTIVATIONS["erf"].function, parity=-1)
TURN = ref.random_covariance(3, 4)
PLACES = {
    "generic": ref.random_covariance(3, 1),
    "a student is the teacher": np.array(
        [[1.0, 0.3, 1.0], [0.3, 0.5, 0.3], [1.0, 0.3, 1.0]]
    ),
    "two students are one": np.array(
        [[0.7, 0.7, 0.2], [0.7, 0.7, 0.2], [0.2, 0.2, 1.0]]
    ),
    "a student vanishes": np.array([[0.0, 0.0, 0.0], [0.0, 0.5, 0.3], [0.0, 0.3, 1.0]]),
}


def turned(averages, C):
    """Second and first derivatives of the pair averages along TURN."""

    def values(t):
        return [
            getattr(averages, name)(C + t * TURN, None)
            for name in ("outputs", "slopes", "curvatures")
        ]

    def first(t):
        slopes = jax.jacfwd(values)(t)
        return slopes, slopes

    return jax.jacfwd(first, has_aux=True)(0.0)


@pytest.fixture(scope="module")
def both():
    closed, rule = (averages_for(g, g, 2, 1) for g in (NAMED_ACTIVATIONS["erf"], SAME))
    assert isinstance(rule, QuadratureAverages)
    return jax.jit(lambda C: (turned(rule, C), turned(closed, C)))


@pytest.mark.parametrize("place", PLACES)
def test_first_and_second_derivatives_hold_everywhere(place, both):
    found, wanted = both(PLACES[place])
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, atol=2e-9), found, wanted
    )


def test_derivative_with_respect_to_biases():
    rule = averages_for(SAME, SAME, 2, 1, biased=True)
    mean = jnp.array([0.3, -0.5, 0.2])
    step = jnp.array([1.0, 0.4, -0.7])

    @jax.jit
    def values(t):
        return [
            getattr(rule, name)(PLACES["generic"], mean + t * step)
            for name in ("outputs", "curvatures", "slopes_outputs")
        ]

    slopes = jax.jit(jax.jacfwd(values))(0.0)
    up = values(1e-5)
    down = values(-1e-5)
    jax.tree.map(
        lambda s, x, y: np.testing.assert_allclose(s, (x - y) / 2e-5, atol=1e-9),
        slopes,
        up,
        down,
    )


def test_four_field_average_has_its_derivative_at_perfect_learning():
    """It enters the critical learning rate, which is known: pi sqrt(5/3)."""
    rate = critical_rate(
        tu.Problem(tu.Network(1, SAME), tu.Network(1, SAME)), jnp.eye(1)[None]
    )
    assert rate == pytest.approx(np.pi * np.sqrt(5 / 3), rel=2e-5)
