"""Shares n_l / N of the runs, and the power of a comparison: right theories pass, wrong ones are found when they should."""

import equinox as eqx
import numpy as np
import pytest

import tutelage as tu
from tutelage.comparison.expected import detected_ratio
from tutelage.comparison.verdict import LIMIT, z_score

TIMES = tu.linear_times(20.0, 41)
THIRDS = tu.Problem(
    tu.Network(2, "erf"),
    tu.Network(2, "erf"),
    inputs=tu.PowerLaw(1.0, levels=3),
    optimizer=tu.SGD(lr=0.5),
    noise=0.1,
)
PLAIN = tu.Problem(
    tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5), noise=0.1
)


def compared(theory, problem, start, **options):
    """The theory against runs of a problem that claim to be of the theory's."""
    runs = tu.simulate(problem, start, times=TIMES, **options)
    return tu.compare(
        theory,
        eqx.tree_at(lambda t: t.problem, runs, theory.problem),
        fluctuations=False,
    )


@pytest.mark.parametrize("random", [True, pytest.param(False, marks=pytest.mark.full)])
def test_fractions_that_are_not_whole_at_this_N_are_no_disagreement(random):
    start = (
        tu.random_start(THIRDS, dim=100, scale=0.5, seed=1)
        if random
        else tu.asymmetric_start(THIRDS, dim=100)
    )
    theory = tu.solve(THIRDS, start, TIMES)
    result = compared(theory, THIRDS, start, runs=40, seed=1)
    assert result.agrees
    assert result.verdict.within_bias == 1.0
    assert any(
        "level 1: 0.34 of them instead of 0.33333" in note for note in result.notes
    )
    # the shift is known exactly at time zero: sum_l (n_l/N) lam_l r_l, in plain NumPy
    lam, r = THIRDS.inputs.eigenvalues, start.blocks(THIRDS)[0]
    first = np.einsum("l,lkm->km", np.array([34, 33, 33]) / 100 * lam, r)
    np.testing.assert_allclose(result["R"].expected[0], first - theory.R[0], atol=1e-12)
    np.testing.assert_allclose(result["R"].gap[0], first - theory.R[0], atol=1e-12)
    assert not compared(
        theory, THIRDS.replace(lr=0.8), start, runs=40, seed=1
    ).agrees  # the control


def test_a_given_gram_of_the_teacher_keeps_its_levels():
    problem = THIRDS.replace(**{"teacher.gram": [[1.0, 0.3], [0.3, 1.2]]})
    start = tu.random_start(problem, dim=100, scale=0.5, seed=2)
    result = compared(tu.solve(problem, start, TIMES), problem, start, runs=20, seed=1)
    assert result.agrees


def test_where_p_N_is_whole_nothing_is_added():
    start = tu.asymmetric_start(THIRDS, dim=999)
    result = compared(tu.solve(THIRDS, start, TIMES), THIRDS, start, runs=10, seed=1)
    assert result.notes == ()
    assert np.all(result["R"].expected[0] == 0)


def test_the_power_of_a_comparison_is_what_simulations_show():
    """Runs with another rate, drawn 8 times: found at the stated change, hardly at a third of it."""
    start = tu.asymmetric_start(PLAIN, dim=200)
    theory = tu.solve(PLAIN, start, TIMES)
    right = compared(theory, PLAIN, start, runs=20, seed=0)
    change = right.noticeable
    assert 0.02 < change < 0.5
    assert f"would detect a change of lr by {100 * change:.2g}%" in str(right)
    assert right.to_dict()["noticeable_lr_change"] == change

    def found(by):
        rates = [0.5 * (1 + by * (-1) ** seed) for seed in range(8)]
        results = [
            compared(theory, PLAIN.replace(lr=lr), start, runs=20, seed=50 + i)
            for i, lr in enumerate(rates)
        ]
        return sum(not result.agrees for result in results)

    assert found(1.1 * change) >= 7
    assert found(change / 3) <= 2


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
    few, many = (
        compared(tu.solve(PLAIN, start, TIMES), PLAIN, start, runs=n, seed=0).noticeable
        for n in (10, 200)
    )
    assert many < 0.7 * few
    decaying = PLAIN.replace(lr=tu.schedules.Piecewise([10.0], [0.5, 0.2]))
    result = compared(
        tu.solve(decaying, start, TIMES), decaying, start, runs=10, seed=0
    )
    assert 0.02 < result.noticeable < 0.5


def test_no_power_where_there_is_no_agreement():
    start = tu.asymmetric_start(PLAIN, dim=200)
    theory = tu.solve(PLAIN, start, TIMES)
    assert (
        compared(theory, PLAIN.replace(lr=1.0), start, runs=20, seed=0).noticeable
        is None
    )
    assert compared(theory, PLAIN, start, runs=1, seed=0).noticeable is None
