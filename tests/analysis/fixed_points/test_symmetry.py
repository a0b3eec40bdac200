"""The subspace of symmetric states:

its size, what it holds together and what it forces to zero.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problems import generic_overlaps, pair
from tutelage.analysis.fixed_points import (
    interchangeable,
    mode_name,
    subspace_of,
    symmetric_subspace,
)
from tutelage.stream.order_parameters import Overlaps

TILTED = np.array([[[1.0, 0.3], [0.3, 1.0]]])


def state(K, M, readout=None):
    R, Q, _ = generic_overlaps(K, M)
    v = np.ones(K) if readout is None else np.asarray(readout, float)
    return Overlaps(
        jnp.asarray(R)[None], jnp.asarray(Q)[None], jnp.asarray(v), None, None
    )


def size(problem, t, at, copies=False):
    return symmetric_subspace(problem, t, at, copies=copies).embed.shape[1]


def test_one_coordinate_per_orbit():
    """All alike: R, Q, C. Copies: R, Q. A third teacher that differs: two R.

    A third student with another readout: ...
    """
    eye = np.eye(2)[None]
    assert size(pair(2, 2), eye, state(2, 2)) == 3
    assert size(pair(2, 2), eye, state(2, 2), copies=True) == 2
    gram = np.diag([1.0, 1.0, 2.0])[None]
    assert size(pair(2, 3), gram, state(2, 3)) == 4
    assert size(pair(2, 2, teacher={"readout": [1, 0.5]}), eye, state(2, 2)) == 4
    assert (
        size(pair(3, 2), eye, state(3, 2, [1, 1, 0.5])) == 2 + 2 + 2
    )  # two R; Q twice; overlaps within and between
    assert subspace_of(pair(2, 2), state(2, 2)).embed.shape[1] == 7
    assert (
        subspace_of(
            pair(2, 2, student={"train_readout": True}), state(2, 2)
        ).embed.shape[1]
        == 9
    )


def test_coordinates_are_means_and_what_does_not_learn_is_held():
    at = state(2, 2)
    subspace = symmetric_subspace(pair(2, 2), np.eye(2)[None], at, copies=False)
    y = subspace.coordinates(np.arange(9.0))
    np.testing.assert_allclose(
        sorted(y), sorted([1.5, 5.0, 5.0])
    )  # r: 0..3; Q11, Q12, Q22: 4, 5, 6
    np.testing.assert_array_equal(subspace.inside(y)[-2:], at.readout)
    np.testing.assert_allclose(subspace.coordinates(subspace.inside(y)), y)


@pytest.mark.parametrize(("activation", "left"), [("erf", 3), ("quadratic", 1)])
def test_even_units_may_change_sign_whatever_the_teachers_overlaps(activation, left):
    """Then R and C vanish, also for teachers that are not orthogonal; an odd function has no such freedom."""
    subspace = symmetric_subspace(
        pair(2, 2, activation), TILTED, state(2, 2), copies=False
    )
    assert subspace.embed.shape[1] == left
    assert bool(subspace.embed[:4].any()) == (activation == "erf")


def test_an_even_teacher_of_orthogonal_units_has_no_overlap_with_anyone():
    problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "quadratic"))
    assert size(problem, np.eye(2)[None], state(2, 2)) == 2
    assert size(problem, TILTED, state(2, 2)) == 3


def test_units_that_may_be_exchanged():
    assert interchangeable(3, (np.diag([1.0, 2.0, 1.0])[None], (1, 2))).tolist() == [
        0,
        1,
        0,
    ]
    assert interchangeable(2, (np.eye(2)[None], (1, 2)), ([1, 0.5], (0,))).tolist() == [
        0,
        1,
    ]
    alike = Overlaps(
        jnp.full((1, 2, 2), 0.3),
        jnp.asarray([[[0.5, 0.2], [0.2, 0.5]]]),
        jnp.ones(2),
        None,
        None,
    )
    for at, equal in ((alike, True), (state(2, 2), False)):
        name = mode_name(
            at, np.eye(2)[None], 1.0, np.array([[1.0, -1, -1, 1, 0, 0, 0, 0, 0]]).T
        )
        assert ("breaks the symmetry" in name) == equal


def test_copied_units_share_all_their_overlaps():
    subspace = subspace_of(pair(3, 1), state(3, 1), np.array([0, 1, 1]), copies=True)
    assert (
        subspace.embed.shape[1] == 2 + 3
    )  # R of each kind; Q of the first, between, and of the copies with themselves
