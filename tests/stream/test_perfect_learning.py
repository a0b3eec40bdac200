"""The linear dynamics around perfect learning:

what moves what, and which state it is.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.problems import pair
from tutelage.stream import OrderParameters
from tutelage.stream.linearized import LocalDynamics
from tutelage.stream.order_parameters import flatten
from tutelage.stream.perfect_learning import (
    perfect_learning,
    perfect_overlaps,
    teacher_assignment,
)

EYE = jnp.eye(2)[None]


def test_overlaps_outside_the_span_move_by_themselves():
    for problem in (pair(2, 2), pair(2, 2, student={"train_readout": True})):
        assert perfect_learning(problem, EYE).leak < 1e-12


def test_a_wrong_split_leaks(monkeypatch):
    """A negative control:

    with students exchanged, the same Jacobian is not block triangular.
    """
    import tutelage.stream.perfect_learning as module

    right = module._coordinates

    def wrong(problem, state, U0):
        return right(problem, state, U0[::-1])

    monkeypatch.setattr(module, "_coordinates", wrong)
    assert perfect_learning(pair(2, 2), EYE).leak > 1e-2


@pytest.mark.parametrize(
    ("readout", "copies"),
    [
        ([1.0, 0.5], [[1, 0], [0, 1]]),
        ([0.5, 1.0], [[0, 1], [1, 0]]),
        ([-0.5, 1.0], [[0, -1], [1, 0]]),
    ],
)
def test_students_are_matched_to_teachers_by_their_readouts(readout, copies):
    problem = pair(2, 2, student={"readout": readout}, teacher={"readout": [1.0, 0.5]})
    U0 = teacher_assignment(problem)
    np.testing.assert_array_equal(U0, copies)
    state = perfect_overlaps(problem, EYE, U0)
    np.testing.assert_array_equal(state.readout, readout)
    drift = LocalDynamics(OrderParameters(problem, EYE), state).drift(flatten(state))
    np.testing.assert_allclose(drift, 0, atol=1e-15)


def test_students_keep_their_order_where_they_can():
    np.testing.assert_array_equal(teacher_assignment(pair(3, 2)), np.eye(3, 2))
    np.testing.assert_array_equal(
        teacher_assignment(pair(3, 3, "quadratic")), np.eye(3)
    )
