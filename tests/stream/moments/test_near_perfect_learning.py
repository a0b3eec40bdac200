"""The error of erf committees close to their teacher, against 60 digits of mpmath:

in NumPy, in JAX, and jitted.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import tutelage as tu
from tutelage.problem.activation import as_activation
from tutelage.stream.moments.matrices import (
    averages_for,
    joint_covariance,
    population_error,
)

DISTANCES = 10.0 ** -np.arange(1, 8)  # of the vectors; errors from 4e-3 to 3e-15


def covariance(distance):
    """Of two students at this distance from two orthogonal teachers, in 40 dimensions."""
    rng = np.random.default_rng(3)
    teachers = np.linalg.qr(rng.standard_normal((40, 2)))[0].T * np.sqrt(40)
    students = teachers + distance * rng.standard_normal((2, 40))
    return joint_covariance(
        students @ teachers.T / 40, students @ students.T / 40, np.eye(2)
    )


def error_of_mpmath(C):
    """The sum of arcsines for these very floats."""
    w = [-1, -1, 1, 1]
    with mpmath.workdps(60):
        exact = mpmath.matrix(C.tolist())
        terms = [
            w[a]
            * w[b]
            * mpmath.asin(
                exact[a, b] / mpmath.sqrt((1 + exact[a, a]) * (1 + exact[b, b]))
            )
            for a in range(4)
            for b in range(4)
        ]
        return float(mpmath.fsum(terms) / mpmath.pi)


def error_of(C, xp=np, parity=-1):
    erf = as_activation("erf")
    readouts = np.ones((*C.shape[:-2], 2))
    return population_error(
        averages_for(erf, erf, 2, 2), C, None, xp.asarray(readouts), xp.ones(2), parity
    )


def test_the_error_keeps_its_digits_by_each_way():
    C = np.stack([covariance(distance) for distance in DISTANCES])
    exact = np.array([error_of_mpmath(one) for one in C])
    assert exact[-1] < 1e-14
    jitted = jax.jit(lambda C: error_of(C, jnp))
    for found in (error_of(C), [float(jitted(one)) for one in C]):
        np.testing.assert_allclose(found, exact, rtol=1e-9)
    assert float(error_of(jnp.asarray(C[-1]), jnp)) == pytest.approx(
        exact[-1], rel=1e-9
    )
    plain = np.abs(
        error_of(C, parity=None) / exact - 1
    )  # the difference of large terms
    assert np.all(plain[exact < 1e-12] > 1e-6)


@pytest.mark.parametrize(
    "compiled", [True, pytest.param(False, marks=pytest.mark.full)]
)
@pytest.mark.parametrize("distance", [0.0, 1e-9])
def test_its_derivative_survives_where_rounding_decides_the_sign_of_the_error(
    distance, compiled
):
    """d e_g / dR = -(2/pi) / sqrt((1 + Q)(1 + T) - R^2) of a student and its teacher; not half of it, and not zero."""
    problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"))
    C = covariance(distance)
    if distance == 0.0:
        C = np.kron(np.ones((2, 2)), np.eye(2))

    def error(R):
        return error_of(joint_covariance(R, jnp.asarray(C[:2, :2]), jnp.eye(2)), jnp)

    slopes = jax.grad(error)
    found = (jax.jit(slopes) if compiled else slopes)(jnp.asarray(C[:2, 2:]))
    np.testing.assert_allclose(np.diagonal(found), -2 / (np.pi * np.sqrt(3)), rtol=1e-7)
    public = jax.grad(lambda R: tu.generalization_error(problem, R, C[:2, :2]))(
        C[:2, 2:]
    )
    np.testing.assert_allclose(public, found, rtol=1e-9)
    assert error_of(C) >= 0
