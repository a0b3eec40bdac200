"""Error estimates cover the true error, and are not huge (`coverage` says how)."""

import numpy as np
import pytest

from tests.adversarial import coverage
from tests.adversarial.coverage import ESTIMATES, Estimate, Pair

QUICK = [name for name, estimate in ESTIMATES.items() if estimate.quick]


@pytest.mark.parametrize("name", QUICK)
def test_few_problems_are_covered(name):
    """Of few problems one may be missed by chance, so that only gross faults show."""
    row = coverage.measure(name, ESTIMATES[name].quick)
    assert row.inside >= 0.8
    assert 0.05 < row.median < 1.0


@pytest.mark.full
@pytest.mark.parametrize("name", ESTIMATES)
def test_estimates_cover(name):
    row = coverage.measure(name)
    print(row)
    assert row.good


@pytest.mark.parametrize("factor", [0.2, 20.0])
def test_estimates_that_are_too_small_or_huge_are_seen(factor, monkeypatch):
    def draw(rng):
        return Pair(true_error=float(rng.standard_normal()), estimate=factor)

    monkeypatch.setitem(ESTIMATES, "toy", Estimate(draw, 2.0, count=200))
    assert not coverage.measure("toy").good


def test_a_right_estimate_is_good(monkeypatch):
    def draw(rng):
        return Pair(true_error=float(rng.standard_normal()), estimate=1.0)

    monkeypatch.setitem(ESTIMATES, "toy", Estimate(draw, 2.0, count=400))
    row = coverage.measure("toy")
    assert row.good
    assert row.inside == pytest.approx(0.954, abs=0.04)
    assert row.median == pytest.approx(0.674, abs=0.12)
    assert np.isfinite(row.largest)
