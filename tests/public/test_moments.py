"""The Gaussian integrals of the textbooks, in closed form."""

from math import asin, pi, sqrt

import numpy as np
import pytest

import tutelage as tu

C2 = np.array([[0.7, 0.3], [0.3, 1.2]])


def test_the_output_of_two_erf_units():
    """I2 = (2 / pi) arcsin(C12 / sqrt((1 + C11)(1 + C22))) (Saad and Solla 1995)."""
    expected = 2 / pi * asin(0.3 / sqrt(1.7 * 2.2))
    assert float(tu.moments.I2("erf", C2)) == pytest.approx(expected)


def test_the_slopes_of_two_erf_units():
    expected = 2 / pi / sqrt(1.7 * 2.2 - 0.3**2)
    assert float(tu.moments.J2("erf", C2)) == pytest.approx(expected)


def test_three_and_four_linear_fields():
    """With g(x) = x, I3 = E[b c] = C23 and I4 = E[c d] = C34."""
    root = np.random.default_rng(0).standard_normal((4, 6))
    C = root @ root.T / 6
    assert float(tu.moments.I3("linear", C[:3, :3])) == pytest.approx(C[1, 2])
    assert float(tu.moments.I4("linear", C)) == pytest.approx(C[2, 3])


def test_four_quadratic_fields_by_the_theorem_of_wick():
    """g(x) = x^2: I4 = 4 E[a b c^2 d^2] of independent fields c, d is 4 C12 C33 C44."""
    C = np.diag([1.0, 1.0, 2.0, 3.0])
    C[0, 1] = C[1, 0] = 0.5
    assert float(tu.moments.I4("quadratic", C)) == pytest.approx(4 * 0.5 * 2.0 * 3.0)


def test_the_output_of_two_relu_units():
    """The arc-cosine kernel (Cho and Saul 2009)."""
    C = np.array([[1.0, 0.5], [0.5, 1.0]])
    angle = np.arccos(0.5)
    expected = (np.sin(angle) + (pi - angle) * 0.5) / (2 * pi)
    assert float(tu.moments.I2("relu", C)) == pytest.approx(expected)


def test_quadrature_gives_the_closed_form():
    fine = tu.moments.Quadrature(nodes=64)
    closed = float(tu.moments.I2("erf", C2))
    smooth = float(tu.moments.I2("tanh", C2, quadrature=fine))
    assert 0.0 < smooth < 1.0
    assert smooth != pytest.approx(closed, rel=1e-3)
    assert tu.Quadrature is tu.moments.Quadrature
    assert tu.Sampled is tu.moments.Sampled


def test_all_pairs_of_two_networks():
    """Q, R and T in place of one covariance: students first, then teachers."""
    Q = np.array([[0.4]])
    R = np.array([[0.2, 0.1]])
    T = np.eye(2)
    pairs = tu.moments.I2("erf", Q, R, T)
    assert pairs.shape == (3, 3)
    assert float(pairs[0, 1]) == pytest.approx(2 / pi * asin(0.2 / sqrt(1.4 * 2.0)))
    assert tu.moments.J2("erf", Q, R, T).shape == (1, 1)
    assert tu.moments.I3("erf", Q, R, T).shape == (1, 3, 3)
    assert tu.moments.I4("erf", Q, R, T).shape == (1, 1, 3, 3)


def test_a_pair_of_activations():
    """Stein's lemma: E[g(a) b] = C_ab E[g'(a)], which depends on the variance of a."""
    value = float(tu.moments.I2(("erf", "linear"), C2))
    assert value == pytest.approx(0.3 * sqrt(2 / pi) / sqrt(1.7))
    mirrored = float(tu.moments.I2(("linear", "erf"), C2))
    assert mirrored == pytest.approx(0.3 * sqrt(2 / pi) / sqrt(2.2))
