"""The gaps without a verdict are those of `compare`, z-scores of the runs alone."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import permuted, runs, theory


def test_they_are_the_gaps_of_compare():
    found = tu.gaps(theory(), runs())
    compared = tu.compare(theory(), runs(), fluctuations=False).gaps
    assert list(found) == list(compared)
    for name, gap in found.items():
        np.testing.assert_array_equal(gap.gap, compared[name].gap)
        np.testing.assert_allclose(gap.z, compared[name].z_of_runs)
        assert np.max(np.abs(gap.expected)) == 0


def test_the_standard_error_by_hand():
    found = tu.gaps(theory(), runs())["R"]
    np.testing.assert_allclose(found.mean, runs().R.mean(axis=0))
    scatter = runs().R.std(axis=0, ddof=1) / np.sqrt(100)
    np.testing.assert_allclose(found.standard_error, scatter)


def test_units_are_matched():
    swapped = permuted(runs(), range(0, 100, 3), [1, 0])
    for name, gap in tu.gaps(theory(), swapped).items():
        np.testing.assert_allclose(gap.mean, tu.gaps(theory(), runs())[name].mean)


def test_a_theory_that_is_off_has_a_gap():
    """A negative control: without the noise of SGD."""
    flow = theory(gradient_flow=True)
    assert np.max(np.abs(tu.gaps(flow, runs())["error"].z)) > 10


def test_other_values_get_one_message():
    with pytest.raises(tu.InputError, match="Trajector"):
        tu.gaps(theory(), 3)
