"""Movements of weights and tangent kernel from overlaps, against the weights."""

import numpy as np
import pytest

from tutelage_papers.figures.primer.movement import _kernel, kernel_moved, weights_moved

N = 1000
K = 3


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(3)
    first = np.array([[0.3], [1.0], [2.0]]) * rng.standard_normal((K, N))
    return first, 0.8 * first + 0.7 * rng.standard_normal((K, N))


def overlaps(first, last):
    return last @ last.T / N, last @ first.T / N, first @ first.T / N


def test_movement_of_the_weights(weights):
    first, last = weights
    assert weights_moved(*overlaps(first, last)) == pytest.approx(
        np.linalg.norm(last - first) / np.linalg.norm(first)
    )


def test_movement_of_the_kernel_between_fresh_inputs(weights):
    """2000 x 2000 pairs leave about 1.5%.

    A kernel without its correlation with the initial one is off by far more.
    """
    x, y = np.random.default_rng(4).standard_normal((2, 2000, N))
    before, after = (_kernel(W / np.sqrt(N), x, y) for W in weights)
    sampled = np.linalg.norm(after - before) / np.linalg.norm(before)
    now, moved, past = overlaps(*weights)
    assert kernel_moved(now, moved, past) == pytest.approx(sampled, rel=0.04)
    assert kernel_moved(now, 0 * moved, past) != pytest.approx(sampled, rel=0.1)


def test_nothing_moves():
    Q = np.diag([0.5, 1.0, 4.0])
    assert weights_moved(Q, Q, Q) == 0
    assert kernel_moved(Q, Q, Q) == 0
