"""Teachers that jump, by much or little, and functions that break often or far out:

plain NumPy next to quadrature.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu
from tests.stream.moments import plane
from tutelage._jump_search import breaks_of
from tutelage.problem.activation import as_activation
from tutelage.stream.moments.matrices import averages_for

STEPS = np.arange(-70, 70) * 0.2 + 0.1
TEACHERS = {
    "small jump": (
        lambda x: x + 0.1 * jnp.sign(x),
        lambda x: x + 0.1 * np.sign(x),
        [0.0],
        1e-9,
    ),
    "tiny jump": (
        lambda x: x + 1e-4 * jnp.sign(x - 0.3),
        lambda x: x + 1e-4 * np.sign(x - 0.3),
        [0.3],
        1e-9,
    ),
    "cube and sign": (
        lambda x: x**3 + jnp.sign(x),
        lambda x: x**3 + np.sign(x),
        [0.0],
        1e-8,
    ),
    "steps": (
        lambda x: jnp.round(5 * x) / 5,
        lambda x: np.round(5 * x) / 5,
        STEPS,
        1e-3,
    ),
    "far": (
        lambda x: jnp.where(x > 9.5, 40.0, jnp.tanh(x)),
        lambda x: np.where(x > 9.5, 40.0, np.tanh(x)),
        [9.5],
        1e-7,
    ),
}


def built_in(x):
    return erf(x / np.sqrt(2))


def slope(x):
    return np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)


@pytest.mark.parametrize("name", TEACHERS)
def test_the_pull_of_a_teacher_that_jumps(name):
    function, plain, breaks, tolerance = TEACHERS[name]
    C = np.array([[0.7, 0.5], [0.5, 1.0]]) * (6.0 if name == "far" else 1.0)
    A, B, _ = plane.matrices(built_in, slope, plain, C, (), breaks)
    teacher = as_activation(function)
    assert not teacher.trainable
    averages = averages_for(as_activation("erf"), teacher, 1, 1)
    both = jax.jit(lambda C: (averages.slopes(C, None), averages.curvatures(C, None)))
    slopes, curvatures = map(np.asarray, both(jnp.asarray(C)))
    assert slopes[0, 1] == pytest.approx(B, rel=tolerance)
    assert curvatures[0, 1] - curvatures[0, 0] - slopes[0, 0] == pytest.approx(
        A, rel=tolerance, abs=tolerance
    )
    # negative control: the slope between the jumps alone, which is what was averaged
    # before, is another number
    (x, w), rho = plane.line(np.sqrt(C[1, 1]), breaks), C[0, 1] / C[1, 1]
    left = C[0, 0] - rho * C[0, 1]
    smoothed = np.sqrt(2 / np.pi / (1 + left)) * np.exp(
        -((rho * x) ** 2) / (2 * (1 + left))
    )
    density = np.exp(-(x**2) / (2 * C[1, 1])) / np.sqrt(2 * np.pi * C[1, 1])
    blind = np.sum(w * density * smoothed * np.asarray(teacher.slope(jnp.asarray(x))))
    assert abs(blind - B) > 10 * tolerance * abs(B)


def test_a_student_that_jumps_a_little_has_no_gradient():
    with pytest.raises(tu.InputError, match="gradient"):
        tu.Problem(tu.Network(1, TEACHERS["small jump"][0]), tu.Network(1, "erf"))


def test_finds_every_kind_of_break():
    def breaks(function):
        g = as_activation(function).function
        return tuple(breaks_of(g, order) for order in range(3))

    none = pytest.approx([], abs=0)
    assert breaks(lambda x: jnp.tanh(30 * x)) == (
        none,
        none,
        none,
    )  # steep is not broken
    assert breaks(lambda x: jnp.tanh(1e4 * x)) == (none, none, none)
    assert breaks(lambda x: jnp.clip(x, -10.0, 25.0)) == (
        none,
        pytest.approx([-10.0, 25.0]),
        none,
    )
    assert breaks(lambda x: x / (1 + jnp.abs(x - 0.5))) == (
        none,
        pytest.approx([0.5]),
        none,
    )
    assert breaks(lambda x: x * jnp.abs(x)) == (
        none,
        none,
        pytest.approx([0.0], abs=1e-9),
    )
    assert breaks(lambda x: jnp.exp(x) + 1e-3 * jnp.sign(x - 2))[0] == pytest.approx(
        [2.0]
    )
    assert len(breaks(lambda x: jnp.round(5 * x) / 5)[0]) > 79
