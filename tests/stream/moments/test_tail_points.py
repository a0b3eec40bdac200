"""Random points for functions that grow fast:

x^10 lives where few normal points lie.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from tutelage.problem.activation import as_activation
from tutelage.stream.moments import tail_points
from tutelage.stream.moments.quadrature import (
    MILD,
    BrokenAverages,
    Quadrature,
    degree_of_G,
    sobol,
)

TENTH_MOMENT = 945.0  # of a normal number: 9!!


def step(x):
    return jnp.where(x > 0.3, 1.0, 0.0)


def tenth_moments(normals, weights):
    return weights @ normals**10


def test_the_weighted_points_have_the_moments_of_normals():
    normals = sobol(2**15, 5, seed=7, sets=1)
    points, weights = tail_points.widened(normals, degree=10)
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights @ points, 0.0, atol=1e-12)
    np.testing.assert_allclose(
        points.T @ (weights[:, None] * points), np.eye(5), atol=1e-12
    )
    # over twelve such sets the errors have the deviation 0.5%, the largest is 1.2%
    far = tenth_moments(points, weights)
    np.testing.assert_allclose(far, TENTH_MOMENT, rtol=0.02)
    # controls: normal points miss by 6%, and the points without weights have another law
    plain = tenth_moments(normals, np.full(2**15, 2.0**-15))
    assert np.max(np.abs(plain / TENTH_MOMENT - 1)) > 0.05
    wrong = tenth_moments(points, np.full(2**15, 2.0**-15))
    assert np.all(wrong > 2 * TENTH_MOMENT)


def test_points_move_outwards_and_weights_stay_below_two():
    normals = sobol(2**10, 3, seed=1, sets=1)
    points, weights = tail_points.widened(normals, degree=6)
    before = np.linalg.norm(normals, axis=1)
    after = np.linalg.norm(points, axis=1)
    assert after.mean() > 1.3 * before.mean()
    # the sum of all weights, before they are divided by it, is 2^10 up to 1%
    assert weights.max() < 2.02 / 2**10


@pytest.mark.parametrize(
    ("student", "teacher", "degree"),
    [
        ("relu", "relu", 2),  # g' is bounded, Delta linear
        ("he3", "sign", 10),  # (x^2)^2 (x^3)^2
        ("erf", "he3", 6),
        (jnp.exp, "erf", 20),  # faster than any power: cut
        (jnp.zeros_like, jnp.zeros_like, 0),
    ],
)
def test_the_growth_of_G(student, teacher, degree):
    assert degree_of_G(as_activation(student), as_activation(teacher)) == degree


def test_G_of_a_cubic_student_beside_a_teacher_that_jumps():
    """Given the student field x, a step of the teacher is a probability.

    E[(g'(x))^2 (h(y) - g(x))^2] is then an integral over x alone, by Gauss and Hermite.
    """
    variance = 1.3
    overlap = 0.4
    C = np.array([[variance, overlap], [overlap, 1.0]])
    averages = BrokenAverages(
        as_activation("he3"), as_activation(step), 1, 1, Quadrature()
    )
    assert degree_of_G(averages.student, averages.teacher) > MILD
    G = averages.slopes_squared_error(jnp.asarray(C), None, jnp.array([-1.0, 1.0]))

    z, weights = np.polynomial.hermite_e.hermegauss(120)
    x = np.sqrt(variance) * z
    deviation = np.sqrt(1.0 - overlap**2 / variance)
    up = norm.sf(0.3, loc=overlap / variance * x, scale=deviation)
    g = x**3 - 3 * x
    slope = 3 * x**2 - 3
    inside = slope**2 * (up - 2 * up * g + g**2)
    expected = weights @ inside / weights.sum()
    assert float(G[0, 0]) == pytest.approx(expected, rel=5e-3)
    # control: a teacher that is silent gives another average
    without_teacher = weights @ (slope**2 * g**2) / weights.sum()
    assert float(G[0, 0]) != pytest.approx(without_teacher, rel=5e-3)
