"""G of functions with kinks is a staircase over random points:

no step of the integrator resolves it.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tutelage.problem.activation import as_activation
from tutelage.stream.moments.quadrature import BrokenAverages, Quadrature

SLOPE = 0.1
RATE = 0.5
ANGLES = (np.arange(4000) + 0.5) * 2 * np.pi / 4000


def leaky(x):
    return jnp.where(x > 0, x, SLOPE * x)


def drift(R, Q):
    """dR and dQ of one unit:

    all averages are homogeneous of degree two, so that an integral over angles gives
    them.
    """
    student = np.sqrt(Q) * np.cos(ANGLES)
    along = R / np.sqrt(Q)
    teacher = along * np.cos(ANGLES) + np.sqrt(1.0 - along**2) * np.sin(ANGLES)
    slope = np.where(student > 0, 1.0, SLOPE)
    outputs = [np.where(x > 0, x, SLOPE * x) for x in (teacher, student)]
    delta = slope * (outputs[0] - outputs[1])
    mean = lambda x: 2 * np.mean(x)  # noqa: E731  E[r^2] = 2
    return np.array(
        [
            RATE * mean(delta * teacher),
            2 * RATE * mean(delta * student) + RATE**2 * mean(delta**2),
        ]
    )


def own_curve(R, Q, end, steps=200):
    """Runge and Kutta's classical method, in plain NumPy."""
    y = np.array([R, Q])
    h = end / steps
    for _ in range(steps):
        first = drift(*y)
        second = drift(*(y + h / 2 * first))
        third = drift(*(y + h / 2 * second))
        fourth = drift(*(y + h * third))
        y = y + h / 6 * (first + 2 * second + 2 * third + fourth)
    return y


def test_the_steps_do_not_collapse_and_the_curve_is_right():
    problem = tu.Problem(
        tu.Network(1, leaky), tu.Network(1, leaky), optimizer=tu.SGD(RATE)
    )
    theory = tu.solve(problem, tu.Start([[0.3]], [[0.6]]), [0.0, 1.0])
    assert int(theory.steps) < 40  # resolving the staircase takes hundreds
    R, Q = own_curve(0.3, 0.6, 1.0)
    assert float(theory.R[-1, 0, 0]) == pytest.approx(R, rel=1e-3)
    assert float(theory.Q[-1, 0, 0]) == pytest.approx(Q, rel=1e-3)
    flow = tu.solve(problem, tu.Start([[0.3]], [[0.6]]), [0.0, 0.1], gradient_flow=True)
    assert dict(flow.settings)["rtol"] == 1e-8  # nothing is random without G


def test_a_finer_rule_has_points_of_its_own():
    """Where a finer set contained the set it judges, it would share its errors."""
    unit = as_activation(leaky)
    rule = Quadrature(points=2**9)
    sets = []
    for own in (rule, rule.finer()):
        averages = BrokenAverages(unit, unit, 1, 1, own)
        points = averages.sample(jnp.eye(2), jnp.zeros(2), 4 * own.points)
        sets.append({tuple(np.round(point, 6)) for point in np.asarray(points)})
    assert not sets[0] & sets[1]
