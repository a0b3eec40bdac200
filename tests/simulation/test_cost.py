"""Hours of work are announced before they begin, and the command line asks before days of it."""

import warnings

import pytest

import tutelage as tu
from tests.problems import pair
from tutelage.simulation.simulate import estimated_seconds

PROBLEM = pair(3, 3, "erf", lr=0.5)


def test_the_estimate_follows_the_work():
    """Proportional to steps; to runs per core; to N for the weights and not for the overlaps."""
    for method, grows in (("overlaps", 1), ("weights", 10)):
        one = estimated_seconds(PROBLEM, 1000, 10**6, 4, method, workers=2)
        assert estimated_seconds(
            PROBLEM, 1000, 10**7, 4, method, workers=2
        ) == pytest.approx(10 * one)
        assert estimated_seconds(
            PROBLEM, 1000, 10**6, 8, method, workers=2
        ) == pytest.approx(2 * one)
        assert estimated_seconds(
            PROBLEM, 1000, 10**6, 4, method, workers=4
        ) == pytest.approx(one / 2)
        assert estimated_seconds(
            PROBLEM, 10_000, 10**6, 4, method, workers=2
        ) == pytest.approx(grows * one)


def test_simulate_warns_of_hours():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            tu.errors.TutelageWarning,
            match=r"20 runs of 3e\+14 steps will take about .* hours",
        ):
            tu.simulate(PROBLEM, dim=10**12, times=300.0, together=False)
