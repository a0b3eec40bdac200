"""Derivatives exist where students are alike, perfect or without norm:

that is where learning begins and ends.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tutelage.stream import OrderParameters, Overlaps

EYE = np.eye(2)
STATES = {
    "symmetric": (0.3 * np.ones((2, 2)), 0.2 * np.ones((2, 2)) + 1e-3 * EYE, EYE),
    "identical students": (0.3 * np.ones((2, 2)), 0.2 * np.ones((2, 2)), EYE),
    "perfect": (EYE, EYE, EYE),
    "perfect, correlated teachers": (np.array([[1, 0.5], [0.5, 1]]),) * 3,
    "no norm": (np.zeros((2, 2)), np.zeros((2, 2)), EYE),
    "one without norm": (np.diag([0.5, 0.0]), np.diag([0.4, 0.0]), EYE),
    "opposite": (-EYE, EYE, EYE),
}


def build(activation, bias=None):
    problem = tu.Problem(
        tu.Network(
            2, activation, train_readout=True, bias=bias, train_bias=bias is not None
        ),
        tu.Network(2, activation),
        optimizer=tu.SGD(0.5),
        noise=0.1,
    )
    rule = tu.Quadrature(32, 2**11)
    return OrderParameters(problem, jnp.eye(2)[None], quadrature=rule)


@eqx.filter_jit
def derivatives(system, state):
    """The gradient of the error plus a sum over the drift:

    one that is not a number makes all of it so.
    """

    def both(s):
        drift = jax.tree.leaves(system.drift(jnp.asarray(0.0), s))
        return system.error(system.observe(s)) + sum(
            jnp.sum(jnp.sin(leaf)) for leaf in drift
        )

    return jax.value_and_grad(both)(state)


@pytest.mark.parametrize(
    "activation",
    [
        "erf",
        "quadratic",
        "relu",
        *(
            pytest.param(n, marks=pytest.mark.full)
            for n in ("tanh, biases", "relu, biases")
        ),
    ],
)
def test_no_nan_anywhere(activation):
    name, _, biased = activation.partition(", ")
    system = build(name, np.zeros(2) if biased else None)
    for label, (R, Q, T) in STATES.items():
        at = eqx.tree_at(lambda s: s.t, system, jnp.asarray(T)[None])
        state = Overlaps(
            jnp.asarray(R)[None],
            jnp.asarray(Q)[None],
            jnp.ones(2),
            jnp.zeros(2) if biased else None,
            None,
        )
        for leaf in jax.tree.leaves(derivatives(at, state)):
            assert np.all(np.isfinite(leaf)), label


@eqx.filter_jit
def pull_and_gradient(system, state):
    return system.matrices(state)[0], jax.grad(
        lambda s: system.error(system.observe(s))
    )(state)


@pytest.mark.parametrize("activation", ["erf", "quadratic", "tanh", "relu"])
def test_gradient_of_the_error_is_minus_the_pull(activation):
    """The gradient with respect to Q and R is -A/2 and -B:

    checked by differentiating, away from special states.
    """
    R = np.array([[0.4, 0.1], [-0.2, 0.3]])
    Q = np.array([[0.6, 0.1], [0.1, 0.5]])
    T = EYE
    system = eqx.tree_at(lambda s: s.t, build(activation), jnp.asarray(T)[None])
    state = Overlaps(
        jnp.asarray(R)[None], jnp.asarray(Q)[None], jnp.array([0.7, -1.2]), None, None
    )
    p, gradient = pull_and_gradient(system, state)
    off = (
        gradient.q[0] + gradient.q[0].T
    ) / 2  # Q is symmetric: only the symmetric part has a meaning
    A = (p.A + p.A.T) / 2
    np.testing.assert_allclose(off, -A / 2, atol=1e-8)
    np.testing.assert_allclose(gradient.r[0], -p.B, atol=1e-8)
    np.testing.assert_allclose(gradient.readout, -p.readout, atol=1e-8)
