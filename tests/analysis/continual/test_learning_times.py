"""Transfer and savings, against times read off other solves."""

import numpy as np
import pytest

import tutelage as tu
from tests.analysis.continual.cases import LINE, START, TIMES, first_below, two_tasks
from tutelage.analysis import savings, transfer


@pytest.mark.full
def test_transfer_to_a_task_whose_share_rises():
    rising = tu.Interleave(LINE([0.0, 20.0], [1.0, 0.0]))
    times = tu.linear_times(60, 241)
    found = transfer(two_tasks(rising), START, times, target=0.01)
    assert found.begin == pytest.approx(10.0, abs=1e-6)
    learned = first_below(times, found.theory.error[:, 1], 0.01)
    assert found.after == pytest.approx(learned - 10.0, abs=0.25)


def test_transfer_against_learning_from_scratch(theory, transferred):
    found = transferred
    late = TIMES >= 60.0
    assert found.after == pytest.approx(
        first_below(TIMES[late] - 60.0, theory.error[late, 1], 0.01), abs=0.25
    )
    assert found.after == pytest.approx(10.75, abs=0.06)
    assert found.scratch == pytest.approx(10.45, abs=0.06)
    alone = tu.Start(
        START.R[:, 1:], START.Q, readout=START.readout[1]
    )  # scratch: the columns and the head of this task
    only = tu.solve(two_tasks(tu.Switch(60.0)).task(1), alone, TIMES)
    assert found.scratch == pytest.approx(
        first_below(TIMES, only.error, 0.01), abs=0.25
    )
    np.testing.assert_allclose(found.alone.error, only.error, rtol=1e-6)
    assert found.gain < 1
    assert "negative transfer" in str(found)


def test_the_sign_of_transfer_changes_with_similarity():
    found = transfer(
        two_tasks(tu.Switch(60.0), similarity=0.8), START, TIMES, target=0.01
    )
    assert found.after == pytest.approx(7.05, abs=0.06)
    assert found.gain > 1
    assert "positive transfer" in str(found)


def test_transfer_to_a_target_that_is_not_reached():
    far = transfer(two_tasks(tu.Switch(60.0)), START, TIMES, target=1e-9)
    assert far.after is None
    assert "not reached" in str(far)


def test_savings(returning):
    found = savings(returning, target=0.01)
    first = first_below(TIMES, returning.error[:, 0], 0.01)
    late = TIMES >= 80.0
    again = first_below(TIMES[late] - 80.0, returning.error[late, 0], 0.01)
    assert found.first == pytest.approx(first, abs=0.25)
    assert found.again == pytest.approx(again, abs=0.25)
    assert found.fraction == pytest.approx(1 - found.again / found.first)
    assert found.fraction > 0.2
    assert "savings" in str(found)
