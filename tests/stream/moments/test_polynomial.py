"""Polynomials against product Gauss-Hermite rules, which are exact for them, and against matrix formulas."""

import equinox as eqx
import numpy as np
import pytest

from tests.stream.moments import reference as ref
from tutelage.problem.activation import Activation, as_activation
from tutelage.stream.moments import Quadrature
from tutelage.stream.moments.averages import PolynomialAverages
from tutelage.stream.moments.matrices import averages_for

WEIGHTS = np.array([-0.8, 1.3, 0.4, -1.1, 0.7])
BIASES = np.array([0.3, -0.5, 0.2, 0.6, -0.1])
PAIRS = [
    ("linear", "linear"),
    ("quadratic", "quadratic"),
    ("he2", "he2"),
    ("he3", "he3"),
    ("he4", "he4"),
    ("linear", "quadratic"),
    ("he3", "he2"),
    ("quadratic", "he4"),
]


def family(student, teacher, K, M, biased=False):
    averages = averages_for(
        as_activation(student), as_activation(teacher), K, M, biased
    )
    assert isinstance(averages, PolynomialAverages)
    return averages


def by_definition(g, K, C, mean, w, nodes=9):
    fields, weight = ref.hermite_grid(C, mean, nodes)
    value, slope, curvature = (
        np.array([u.order(p)(f) for u, f in zip(g, fields, strict=True)])
        for p in range(3)
    )
    delta = w @ value
    return [
        (value * weight) @ value.T,
        (slope[:K] * weight) @ slope.T,
        (curvature[:K] * weight) @ value.T,
        (slope[:K] * weight) @ value.T,
        (slope[:K] * weight * delta**2) @ slope[:K].T,
    ]


@eqx.filter_jit
def everything(averages, C, mean, w):
    parts = [
        getattr(averages, name)(C, mean)
        for name in ("outputs", "slopes", "curvatures", "slopes_outputs")
    ]
    return [*parts, averages.slopes_squared_error(C, mean, w)]


@pytest.mark.parametrize(("student", "teacher"), PAIRS)
def test_polynomial_averages(student, teacher):
    """With biases and, except for the longest, without."""
    K, M = (1, 2) if student == "he4" else (2, 2)
    n = K + M
    C = ref.random_covariance(n, 1)
    for mean in (BIASES[:n],) if teacher == "he4" else (BIASES[:n], None):
        ours = everything(
            family(student, teacher, K, M, mean is not None), C, mean, WEIGHTS[:n]
        )
        for a, b in zip(
            ours,
            by_definition(ref.units(student, teacher, K, M), K, C, mean, WEIGHTS[:n]),
            strict=True,
        ):
            np.testing.assert_allclose(
                a, b, rtol=1e-11, atol=1e-12 + 1e-11 * np.max(np.abs(b))
            )


def test_he4_without_biases():
    C = ref.random_covariance(2, 1)
    ours = everything(family("he4", "he4", 1, 1), C, None, WEIGHTS[:2])
    for a, b in zip(
        ours,
        by_definition(ref.units("he4", "he4", 1, 1), 1, C, None, WEIGHTS[:2]),
        strict=True,
    ):
        np.testing.assert_allclose(
            a, b, rtol=1e-11, atol=1e-12 + 1e-11 * np.max(np.abs(b))
        )


def test_five_fields_more_teachers_than_students():
    C = ref.random_covariance(5, 2)
    ours = everything(family("quadratic", "he3", 2, 3), C, None, WEIGHTS)
    for a, b in zip(
        ours,
        by_definition(
            ref.units("quadratic", "he3", 2, 3), 2, C, None, WEIGHTS, nodes=7
        ),
        strict=True,
    ):
        np.testing.assert_allclose(
            a, b, rtol=1e-11, atol=1e-12 + 1e-11 * np.max(np.abs(b))
        )


def test_a_mixed_polynomial_of_ones_own():
    cubic = Activation(
        "cubic", lambda x: 0.5 - x + 0.25 * x**3, polynomial=(0.5, -1.0, 0.0, 0.25)
    )
    unit = ref.Unit(
        lambda x: 0.5 - x + 0.25 * x**3, lambda x: -1 + 0.75 * x**2, lambda x: 1.5 * x
    )
    C = ref.random_covariance(3, 3)
    ours = everything(
        PolynomialAverages(cubic, cubic, 2, 1), C, BIASES[:3], WEIGHTS[:3]
    )
    for a, b in zip(
        ours, by_definition([unit] * 3, 2, C, BIASES[:3], WEIGHTS[:3]), strict=True
    ):
        np.testing.assert_allclose(
            a, b, rtol=1e-11, atol=1e-12 + 1e-11 * np.max(np.abs(b))
        )


def test_linear_is_matrix_algebra():
    C = ref.random_covariance(5, 1)
    w = WEIGHTS
    averages = family("linear", "linear", 2, 3)
    np.testing.assert_allclose(
        averages.slopes_squared_error(C, None, w),
        np.full((2, 2), w @ C @ w),
        rtol=1e-13,
    )
    np.testing.assert_allclose(averages.outputs(C, None), C, rtol=1e-13)


def test_quadratic_is_matrix_algebra():
    """With D = diag(w) and s = tr(DC):

    4 [C (s^2 + 2 tr DCDC) + 4 s CDC + 8 CDCDC] on the students.
    """
    C = ref.random_covariance(5, 1)
    w = WEIGHTS
    D = np.diag(w)
    s = np.trace(D @ C)
    DC = D @ C
    full = 4 * (C * (s**2 + 2 * np.trace(DC @ DC)) + 4 * s * C @ DC + 8 * C @ DC @ DC)
    averages = family("quadratic", "quadratic", 2, 3)
    np.testing.assert_allclose(
        averages.slopes_squared_error(C, None, w), full[:2, :2], rtol=1e-12
    )
    assert w @ averages.outputs(C, None) @ w == pytest.approx(
        s**2 + 2 * np.trace(DC @ DC), rel=1e-12
    )
    missing = 4 * (
        C * (s**2 + 2 * np.trace(DC @ DC)) + 4 * s * C @ DC + 7 * C @ DC @ DC
    )  # negative control
    assert (
        np.max(np.abs(averages.slopes_squared_error(C, None, w) / missing[:2, :2] - 1))
        > 1e-2
    )


def test_polynomials_against_quadrature_family():
    """A third route: the general family reproduces the exact one."""
    from tutelage.stream.moments.quadrature import QuadratureAverages

    he3 = as_activation("he3")
    C = ref.random_covariance(4, 5, 0.5)
    exact = family("he3", "he3", 2, 2)
    general = QuadratureAverages(he3, he3, 2, 2, Quadrature(nodes=96))
    for name in ("outputs", "slopes", "curvatures", "slopes_outputs"):
        a, b = (getattr(x, name)(C, BIASES[:4]) for x in (exact, general))
        np.testing.assert_allclose(
            a, b, atol=2e-6 * np.max(np.abs(a))
        )  # the box cuts x^6 e^(-x^2/2) at 7
