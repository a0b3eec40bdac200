"""Who copies whom:

the assignment, an index that is 0 for students alike and 1 for copies, and the moment
between.
"""

from itertools import permutations

import numpy as np
import pytest

import tutelage as tu
from tests.analysis.curves.cases import (
    from_outside,
    of_curve,
    of_overlaps,
    runs,
    specialized_start,
    thinned,
)
from tests.problems import generic_overlaps


def at_once(R, T=None, Q=None, activation="erf"):
    """The specialization of a single set of overlaps (recorded twice)."""
    R = np.asarray(R, float)
    T = np.eye(R.shape[1]) if T is None else T
    Q = np.eye(len(R)) if Q is None else Q
    return tu.analysis.specialization(
        of_overlaps(np.stack([R, R]), np.stack([Q, Q]), T, activation)
    )


def copies(order, signs, T):
    """Overlaps of students that equal teachers in some order, up to sign."""
    R = (np.asarray(T)[list(order)] * np.asarray(signs)[:, None]).astype(float)
    return R, np.outer(signs, signs) * np.asarray(T)[np.ix_(order, order)]


@pytest.mark.parametrize("correlation", [0.0, 0.3, -0.2])
def test_copies_of_teachers_have_index_one(correlation):
    T = (np.full((3, 3), correlation) + (1 - correlation) * np.eye(3)) * np.outer(
        [1, 2, 0.5], [1, 2, 0.5]
    )
    R, Q = copies((2, 0, 1), (1, -1, 1), T)
    found = at_once(R, T, Q)
    assert found.final == pytest.approx(1.0, abs=1e-12)
    assert found.permutation.tolist() == [2, 0, 1]
    assert found.signs.tolist() == [1, -1, 1]
    np.testing.assert_allclose(found.own[-1], 1.0)


@pytest.mark.parametrize("row", [(0.5, 0.5, 0.5), (0.9, 0.1, 0.2), (0.0, 0.0, 0.0)])
@pytest.mark.parametrize("K", [2, 3, 4])
def test_students_that_are_alike_have_index_zero(row, K):
    """Also where they prefer one teacher, and with more or fewer students than teachers."""
    Q = np.full((K, K), 0.99) + 0.01 * np.eye(K)
    assert at_once([row] * K, Q=Q).final == pytest.approx(0.0, abs=1e-12)


def test_students_alike_up_to_sign_have_index_zero():
    assert at_once([[0.6, 0.5], [-0.6, -0.5]]).final == pytest.approx(0.0, abs=1e-12)


def test_lengths_do_not_count():
    R = np.diag([0.1, 3.0])
    Q = np.diag([0.01, 9.0])
    assert at_once(R, Q=Q).final == pytest.approx(1.0)


def test_index_by_hand():
    R = np.array([[0.8, 0.3], [0.1, 0.6]])
    assert at_once(R).final == pytest.approx(((0.8 - 0.1) + (0.6 - 0.3)) / 2)


def test_extra_students_and_missed_teachers():
    more = at_once([[0.1, 0.9], [0.2, 0.2], [0.95, 0.0]])
    assert more.permutation.tolist() == [1, -1, 0]
    assert more.final == pytest.approx((0.95 - 0.1 + 0.9 - 0.0) / 2)
    assert "student unit 2: no assigned teacher unit" in str(more)
    fewer = at_once([[0.1, 0.0, 0.9], [0.0, 0.8, 0.1]])
    assert fewer.permutation.tolist() == [2, 1]
    assert "teacher unit 1: no assigned student unit" in str(fewer)


def test_redundant_copies_are_specialized():
    """Two students per teacher:

    the assigned ones are compared with each other, not with their doubles.
    """
    R, Q = copies((0, 0, 1, 1), (1, 1, 1, 1), np.eye(2))
    assert at_once(R, Q=Q).final == pytest.approx(1.0)


def test_assignment_is_the_best_of_all():
    for seed in range(20):
        R, Q, T = generic_overlaps(4, 4, seed)
        found = at_once(R, T, Q)
        cosines = np.abs(R / np.sqrt(np.outer(np.diag(Q), np.diag(T))))
        best = max(
            sum(cosines[k, m] for k, m in enumerate(order))
            for order in permutations(range(4))
        )
        assert np.abs(
            found.cosines[np.arange(4), found.permutation]
        ).sum() == pytest.approx(best)
        assert 0 <= found.final <= 1


def test_a_mirrored_copy_counts_for_odd_and_even_activations_only():
    R = [[0.1, 0.2], [0.3, -0.9]]
    assert at_once(R, activation="erf").signs.tolist() == [1, -1]
    assert at_once(R, activation="he4").permutation.tolist() == [0, 1]
    relu = at_once(R, activation="relu")
    assert relu.permutation.tolist() == [1, 0]
    assert relu.signs.tolist() == [1, 1]


def test_a_wrong_index_would_be_seen():
    """A negative control:

    without the teachers' own cosines, copies of correlated teachers stay below one.
    """
    T = np.array([[1.0, 0.5], [0.5, 1.0]])
    R, Q = copies((0, 1), (1, 1), T)
    own = R[0, 0]
    others = R[1, 0]
    assert own - others < 0.6
    assert at_once(R, T, Q).final == pytest.approx(1.0)


@pytest.mark.parametrize("spacing", ["linear", "log", "coarse"])
def test_transition_of_the_symmetric_committee(spacing):
    """With T = 1 the index is (R - S) / sqrt(Q); it crosses one half where that does, on every grid."""
    theory = from_outside(1e-4, "log" if spacing == "log" else "linear")
    found = tu.analysis.specialization(
        thinned(theory, 5) if spacing == "coarse" else theory
    )
    fine = from_outside(1e-4)
    expected = (fine.R[:, 0, 0] - fine.R[:, 1, 0]) / np.sqrt(fine.Q[:, 0, 0])
    np.testing.assert_allclose(
        tu.analysis.specialization(fine).index, expected, atol=1e-9
    )
    i = int(np.argmax(expected > 0.5))
    crosses = np.interp(0.5, expected[i - 1 : i + 1], fine.times[i - 1 : i + 1])
    assert found.transition_time == pytest.approx(crosses, rel=0.02)
    assert found.permutation.tolist() == [0, 1]
    assert "specializes at" in str(found)


def test_no_transition():
    early = tu.analysis.specialization(thinned(from_outside(1e-6, end=200.0), 1))
    assert early.transition_time is None
    assert "does not specialize between 0 and 200" in str(early)
    always = tu.analysis.specialization(specialized_start())
    assert always.transition_time is None
    assert "specialized from the first time" in str(always)


def test_every_run_specializes_in_its_own_time():
    networks = runs("linear")
    found = tu.analysis.specialization(networks)
    times = found.marks["specializes"]
    assert times.shape == (6,)
    assert np.all((times > 50) & (times < 400))
    plateaus = tu.analysis.plateaus(networks)
    assert np.all(times > plateaus.marks["escapes from the plateau"] - 15)
    one = tu.analysis.specialization(networks, run=2)
    assert one.transition_time == times[2]
    np.testing.assert_array_equal([each.transition_time for each in found], times)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: at_once(np.ones((1, 2)) / 2),
            "1 student and 2 teacher units; specialization compares at least two",
        ),
        (
            lambda: at_once(np.ones((2, 2)) / 2, T=np.ones((2, 2))),
            "teachers all have the same direction",
        ),
        (
            lambda: tu.analysis.specialization(
                of_curve(np.arange(9.0), np.ones(9), m=np.ones(9))
            ),
            "this trajectory has m",
        ),
        (
            lambda: tu.analysis.specialization("theory.nc"),
            "got a value of type str; give it what solve or simulate returned",
        ),
    ],
)
def test_refusals(ask, sentence):
    with pytest.raises(tu.InputError, match=sentence):
        ask()
