"""Exponents and weak recovery against closed forms and the literature."""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.equilibrium.cases import UNIT, linear
from tutelage import InputError

information = tu.analysis.information_exponent
generative = tu.analysis.generative_exponent
weak_recovery = tu.analysis.weak_recovery


def target(function, fields=1, metric="squared") -> tu.Problem:
    labels = tu.labels.Function(function, metric=metric)
    return tu.Problem(UNIT, tu.Network(fields, "linear"), labels=labels)


def unit(activation, **options) -> tu.Problem:
    return tu.Problem(UNIT, tu.Network(1, activation), **options)


@pytest.mark.parametrize(
    ("problem", "lowest", "lowest_given_labels"),
    [
        (unit("linear"), 1, 1),
        (unit("he2"), 2, 2),
        (unit("he3"), 3, 1),
        (unit("he4"), 4, 2),
        (unit("he3", noise=0.3), 3, 1),
        (linear(labels="sign"), 1, 1),
        (linear(loss="logistic", labels="logistic"), 1, 1),
        # 4 and 4 by Damian, Pillaud-Vivien, Lee and Bruna
        (target(lambda rho, xi: rho[0] ** 2 * jnp.exp(-(rho[0] ** 2))), 4, 4),
        (target(lambda rho, xi: jnp.where(rho[0] * rho[1] < 0, -1.0, 1.0), 2), 2, 2),
        (target(lambda rho, xi: jnp.sign(rho[0] * rho[1] * rho[2]), 3), 3, 3),
    ],
)
def test_exponents(problem, lowest, lowest_given_labels):
    assert information(problem).exponent == lowest
    assert generative(problem).exponent == lowest_given_labels
    assert int(generative(problem)) == lowest_given_labels


def test_the_coefficients_of_a_sign():
    """E[He_k(z) sign z]: sqrt(2 / pi), 0, -1/sqrt(3 pi), ..."""
    found = information(linear(labels="sign"))
    expected = [np.sqrt(2 / np.pi), 0.0, 1 / np.sqrt(3 * np.pi), 0.0]
    np.testing.assert_allclose(found.coefficients[:4], expected, atol=1e-6)


def test_weak_recovery_of_a_square():
    found = weak_recovery(unit("quadratic"))
    assert float(found) == pytest.approx(0.5, abs=1e-3)
    noisy = weak_recovery(unit("quadratic", noise=1.0))
    assert float(noisy) > float(found)
    bayes = tu.analysis.bayes_optimal(unit("quadratic", noise=1.0), 1.0)
    assert float(noisy) == pytest.approx(bayes.weak_recovery, rel=2e-3)


def test_weak_recovery_of_a_product_of_signs():
    """pi^2 / 4."""

    def label(rho, xi):
        return jnp.where(rho[0] * rho[1] < 0, -1.0, 1.0)

    found = weak_recovery(target(label, 2, "class"))
    assert float(found) == pytest.approx(np.pi**2 / 4, rel=1e-6)
    assert found.direction.shape == (2, 2)


def test_weak_recovery_at_any_ratio_and_at_none():
    assert float(weak_recovery(linear(labels="sign"))) == 0.0
    parity = target(lambda rho, xi: jnp.sign(rho[0] * rho[1] * rho[2]), 3)
    assert float(weak_recovery(parity)) == np.inf
    assert "not enough" in str(weak_recovery(parity))


def test_weak_recovery_needs_isotropic_inputs():
    problem = unit("quadratic", inputs=tu.Spectrum([2.0, 0.5]))
    with pytest.raises(InputError, match="2 levels"):
        weak_recovery(problem)


def test_labels_that_saturate():
    """tanh(2 z) is constant up to rounding where |z| is large."""
    steep = tu.labels.Function(lambda rho, xi: jnp.tanh(2 * rho[0]))
    problem = tu.Problem(UNIT, UNIT, labels=steep)
    assert tu.analysis.information_exponent(problem).exponent == 1
    assert tu.analysis.generative_exponent(problem).exponent == 1
    # nothing but the saturated tails is lost: the label determines the field
    recovery = tu.analysis.weak_recovery(problem)
    assert recovery.linear == pytest.approx(1.0, abs=1e-5)
    best = tu.analysis.bayes_optimal(problem, [0.5, 2.0])
    assert best.perfect_above == pytest.approx(1.0, abs=1e-3)
