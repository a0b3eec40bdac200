"""The power of a comparison: wrong rates are found when it says so."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import TIMES, compared
from tutelage.comparison.gaps import z_score
from tutelage.comparison.power import detected_ratio
from tutelage.comparison.verdict import LIMIT

PLAIN = tu.Problem(
    tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5), noise=0.1
)


def test_the_power_of_a_comparison_is_what_simulations_show():
    """Runs with another rate are found at the stated change, hardly at a third."""
    start = tu.asymmetric_start(PLAIN, dim=200)
    theory = tu.solve(PLAIN, start, TIMES)
    right = compared(theory, PLAIN, start, TIMES, runs=20, seed=0)
    change = right.noticeable
    assert 0.02 < change < 0.5
    assert f"would detect a change of lr by {100 * change:.2g}%" in str(right)
    assert right.to_dict()["noticeable_lr_change"] == change

    def times_found(change):
        """How many of 8 comparisons find a rate that is off by this change."""
        found = 0
        for i in range(8):
            wrong = PLAIN.replace(lr=0.5 * (1 + change * (-1) ** i))
            result = compared(theory, wrong, start, TIMES, runs=20, seed=50 + i)
            found += not result.agrees
        return found

    assert times_found(1.1 * change) >= 7
    assert times_found(change / 3) <= 2


@pytest.mark.parametrize("count", [5, 10, 40])
def test_a_detected_gap_is_beyond_the_limit_in_nine_of_ten_comparisons(count):
    """Normal runs, with the change chosen by the standard error of other runs."""
    rng = np.random.default_rng(count)
    now, then = rng.standard_normal((2, 20_000, count))
    gap = detected_ratio(count) * now.std(axis=1, ddof=1) / np.sqrt(count)
    error = then.std(axis=1, ddof=1) / np.sqrt(count)
    z = z_score((then.mean(axis=1) + gap) / error, count)
    assert np.mean(z > LIMIT) == pytest.approx(0.9, abs=0.01)


@pytest.mark.full
def test_more_runs_notice_less_and_schedules_have_a_power_too():
    start = tu.asymmetric_start(PLAIN, dim=200)
    theory = tu.solve(PLAIN, start, TIMES)
    few = compared(theory, PLAIN, start, TIMES, runs=10, seed=0)
    many = compared(theory, PLAIN, start, TIMES, runs=200, seed=0)
    assert many.noticeable < 0.7 * few.noticeable
    decaying = PLAIN.replace(lr=tu.schedules.Piecewise([10.0], [0.5, 0.2]))
    theory = tu.solve(decaying, start, TIMES)
    result = compared(theory, decaying, start, TIMES, runs=10, seed=0)
    assert 0.02 < result.noticeable < 0.5


def test_no_power_where_there_is_no_agreement():
    start = tu.asymmetric_start(PLAIN, dim=200)
    theory = tu.solve(PLAIN, start, TIMES)
    wrong = compared(theory, PLAIN.replace(lr=1.0), start, TIMES, runs=20, seed=0)
    assert wrong.power is None
    assert wrong.noticeable is None
    assert "power" not in wrong.remarks()
    assert compared(theory, PLAIN, start, TIMES, runs=1, seed=0).power is None
