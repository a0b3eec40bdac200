"""Where the theory of a data set becomes that of fresh samples."""

import numpy as np
import pytest

import tutelage as tu
from tests.dataset import problems


def gaps(theory: tu.Trajectory, fresh: tu.Trajectory) -> float:
    """Return the largest difference of the overlaps."""
    return max(np.max(np.abs(theory[name] - fresh[name])) for name in ("R", "Q"))


def test_the_first_epoch_is_a_stream_of_fresh_samples():
    problem = problems.COMMITTEE.replace(order="epochs")
    times = np.array([0.0, 2.0, 4.0, 5.0])
    start = problems.COMMITTEE_START
    theory = tu.solve(problem, start, times, moments=tu.Sampled(2**14))
    fresh = tu.solve(problem.replace(data=None), start, times)
    assert gaps(theory, fresh) > 1e-3  # in the second epoch
    first = slice(0, 3)
    pairs = (
        (theory.R, fresh.R),
        (theory.Q, fresh.Q),
        (theory.error, fresh.error),
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours[first], theirs[first], atol=1e-3)
    np.testing.assert_allclose(theory.epochs, times / 4.0)


@pytest.mark.full
def test_a_large_data_set_is_a_stream_of_fresh_samples():
    problem = problems.COMMITTEE.replace(ratio=1000.0)
    times = np.linspace(0.0, 10.0, 6)
    start = problems.COMMITTEE_START
    theory = tu.solve(problem, start, times)
    fresh = tu.solve(problem.replace(data=None), start, times)
    assert gaps(theory, fresh) < 1e-3
    assert fresh.loss is not None
    np.testing.assert_allclose(theory.train_loss, fresh.loss, atol=1e-3)
