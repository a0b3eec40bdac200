"""Committees without JAX (dynamics/committee.py):

what the linear theory needs is what the JAX code gives.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.problems import generic_overlaps, pair
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import LocalDynamics, point_sets
from tutelage.stream.moments import moments_for
from tutelage.stream.order_parameters import flatten, is_committee

LEVELS = tu.Spectrum([1.7, 0.6, 0.2], [0.4, 0.35, 0.25])
PROBLEMS = {
    "readouts, noise, batch": pair(
        2,
        3,
        lr=0.7,
        noise=0.3,
        batch=3,
        student={"train_readout": True, "readout": [0.7, 1.3]},
    ),
    "levels, decay, momentum": pair(
        2, 2, lr=1.1, inputs=LEVELS, weight_decay=0.02, momentum=0.3
    ),
    "sign as teacher": tu.Problem(
        tu.Network(3, "erf"), tu.Network(1, "sign"), optimizer=tu.SGD(0.5)
    ),
}


def both(problem, gradient_flow=False):
    """The machine code, the JAX programs, and three vectors."""
    K = problem.student.hidden
    M = problem.teacher.hidden
    vectors = []
    like = None
    t = None
    T = generic_overlaps(K, M)[2]
    for seed in range(3):
        R, Q, _ = generic_overlaps(K, M, seed=seed)
        like, t = initial_overlaps(
            problem, tu.Start(R, Q + 0.5 * np.eye(K), T + 0.5 * np.eye(M))
        )
        vectors.append(flatten(like))
    system = OrderParameters(problem, t, gradient_flow, True)
    by_jax = LocalDynamics(system, like)
    by_jax.committee = None
    return LocalDynamics(system, like), by_jax, np.stack(vectors)


@pytest.mark.parametrize("name", PROBLEMS)
def test_drift_error_and_gradient(name):
    committee, by_jax, vectors = both(PROBLEMS[name])
    np.testing.assert_allclose(
        committee.drifts(vectors), by_jax.drifts(vectors), rtol=0, atol=1e-14
    )
    np.testing.assert_allclose(
        committee.errors(vectors), by_jax.errors(vectors), rtol=1e-12
    )
    exact = by_jax.gradients(vectors)
    np.testing.assert_allclose(committee.gradients(vectors), exact, rtol=0, atol=1e-14)
    moved = np.eye(vectors.shape[1]) * 1e-5  # a second route: differences of the error
    slopes = (
        committee.errors(vectors[0] + moved) - committee.errors(vectors[0] - moved)
    ) / 2e-5
    np.testing.assert_allclose(exact[0], slopes, atol=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("gradient_flow", [False, True])
def test_noise_of_steps(name, gradient_flow):
    """The same points give the same D, in all coordinates and in one direction; those of another batch do not."""
    committee, by_jax, vectors = both(PROBLEMS[name], gradient_flow)
    points, weights = point_sets(3, 2**8, sum(by_jax.like.r.shape[1:]) + 1)
    exact = by_jax.diffusions(vectors, 0.0, points, weights)
    found = committee.diffusions(vectors, 0.0, points, weights)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * np.max(np.abs(exact)))
    direction = np.random.default_rng(0).standard_normal((3, vectors.shape[1], 1))
    along = committee.diffusions(vectors, 0.0, points, weights, direction)
    np.testing.assert_allclose(
        along, np.swapaxes(direction, 1, 2) @ exact @ direction, rtol=1e-10
    )
    other = both(PROBLEMS[name].replace(batch=7), gradient_flow)[0].diffusions(
        vectors, 0.0, points, weights
    )
    assert np.max(np.abs(other - exact)) > 0.1 * np.max(np.abs(exact))


def test_other_problems_are_no_committees():
    for other in (
        pair(2, 2, "relu"),
        pair(2, 2, lr=tu.schedules.PowerDecay(0.5, 1.0)),
        pair(2, 2, spherical=True),
        pair(2, 2).replace(loss="huber"),
    ):
        assert not is_committee(other, moments_for(other))
