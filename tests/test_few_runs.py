"""The error of a mean over few runs covers what two standard errors do not."""

import numpy as np
import pytest

from tutelage.few_runs import error_of_mean

TRIALS = 20_000
COVERED = 0.9545  # of a normal law within two standard deviations


def shares(draw, count):
    """How often two errors, and two standard errors, cover the mean, which is zero."""
    values = draw(np.random.default_rng(1), (count, TRIALS))
    mean = np.abs(values.mean(axis=0))
    standard = values.std(axis=0, ddof=1) / np.sqrt(count)
    return np.mean(mean < 2 * error_of_mean(values)), np.mean(mean < 2 * standard)


def normal(rng, shape):
    return rng.standard_normal(shape)


def skewed(rng, shape):
    return np.exp(rng.standard_normal(shape)) - np.exp(0.5)


@pytest.mark.parametrize("count", [4, 10, 40])
def test_two_errors_of_normal_runs_cover_95_percent(count):
    covered, by_standard = shares(normal, count)
    # never less; a little more, for the skewness of few normal numbers is not zero
    assert COVERED - 0.005 < covered < 0.995
    if count < 40:
        assert by_standard < 0.93


@pytest.mark.parametrize("count", [10, 15, 40])
def test_skewed_runs_are_covered_in_nine_of_ten(count):
    covered, by_standard = shares(skewed, count)
    assert covered > 0.88
    assert by_standard < covered - 0.03


def test_runs_that_agree_have_no_error():
    assert np.all(error_of_mean(np.ones((5, 2, 3))) == 0.0)
    assert error_of_mean(np.ones((5, 2, 3))).shape == (2, 3)
