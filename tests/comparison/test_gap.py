"""The numbers of a gap by hand: what is allowed, and what the solver resolves."""

import numpy as np
import pytest

from tutelage.comparison.verdict import Gap

RUNS = np.array([[0.9], [1.1]])


@pytest.mark.parametrize(("rough", "allowed"), [(False, 0.3), (True, 0.6)])
def test_twice_the_expected_gap_is_allowed(rough, allowed):
    """From 0 to 2 x 0.3, or from -0.6 to 0.6 where the sign is not known."""
    gap = Gap("error", np.array([1.0]), RUNS, np.array([0.3]), rough)
    np.testing.assert_allclose(gap.allowed, allowed)


def test_equal_runs_have_the_resolution_of_the_solver():
    """1e-6 of an error and 1e-8 of the largest overlap, where the runs do not scatter."""
    equal = np.full((3, 1), 0.5)
    nothing = np.zeros(1)
    error = Gap("error", np.array([0.5]), equal, nothing, rough=False)
    np.testing.assert_allclose(error.unit, 0.5e-6, rtol=1e-6)
    overlap = Gap("R", np.array([0.5]), equal, nothing, rough=False)
    np.testing.assert_allclose(overlap.unit, 0.5e-8, rtol=1e-6)
