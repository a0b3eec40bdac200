"""The verdict: agreement is found, and wrong theories are told apart."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import (
    TIMES,
    erf_problem,
    linear_problem,
    runs,
    scaled_spread,
    start_of,
    theory,
    with_,
)


def test_theory_and_runs_agree():
    result = tu.compare(theory(), runs())
    assert result.verdict.outcome == "agree"
    assert result.agrees is True
    assert list(result.gaps) == ["error", "R", "Q"]
    np.testing.assert_allclose(
        result["R"].gap, runs().R.mean(axis=0) - theory().R, atol=1e-15
    )
    np.testing.assert_allclose(
        result["Q"].standard_error[1:], runs().Q.std(axis=0, ddof=1)[1:] / 10
    )
    assert result["R"].z.shape == (41, 2, 2)
    assert abs(result["error"].z[0]) < 1e-3
    assert (result.count, result.dim, result.relabeled.sum()) == (100, 200, 0)
    assert "decides this" not in result.verdict.sentence


def test_linear_problem_agrees():
    start = tu.Start(R=[[0.3]], Q=[[0.4]], dim=100)
    ours = tu.solve(linear_problem(), start, TIMES)
    assert tu.compare(
        ours, tu.simulate(linear_problem(), start, times=TIMES, runs=200, seed=1)
    ).agrees


def test_a_bias_of_order_1_over_N_is_no_failure():
    """At N = 40 the gap is many standard errors of 1500 runs, and as expected."""
    problem = erf_problem()
    start = start_of(2, 2, 40)
    found = tu.simulate(problem, start, times=TIMES, runs=1500, seed=0)
    result = tu.compare(tu.solve(problem, start, TIMES), found)
    assert result.verdict.outcome == "agree within the expected finite-N bias"
    assert result.verdict.within < 0.9
    assert result.verdict.within_bias > 0.99


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: theory(gradient_flow=True),
        lambda: with_(theory(noise=0.12), problem=erf_problem()),
        lambda: scaled_spread(erf_problem(), start_of(2, 2, 200), TIMES, 0.9),
    ],
    ids=["gradient flow", "noise 20% too large", "eta^2 terms scaled by 0.9"],
)
def test_a_wrong_theory_is_told_apart(wrong):
    """Negative controls."""
    result = tu.compare(wrong(), runs(400))
    assert result.verdict.outcome == "differ"
    assert result.agrees is False
    assert "is off by" in result.verdict.sentence
    assert result.verdict.within_bias < 0.9


def test_the_right_theory_by_the_same_route_agrees():
    """The control of the control: the factor one."""
    right = scaled_spread(erf_problem(), start_of(2, 2, 200), TIMES, 1.0)
    np.testing.assert_allclose(right.error, theory().error, rtol=1e-5)
    assert tu.compare(right, runs(400)).agrees


def test_a_different_start_is_seen_at_time_zero():
    moved = with_(
        theory(),
        variables={n: v + 0.01 * (n in "Rr") for n, v in theory().variables.items()},
        start=None,
    )
    result = tu.compare(moved, with_(runs(), start=None))
    assert result.verdict.outcome == "differ"
    assert result["R"].z[0, 0, 0] < -30


def test_one_run_cannot_tell():
    result = tu.compare(theory(), runs(1))
    assert result.verdict.outcome == "inconclusive"
    assert result.agrees is None
    assert np.all(np.isnan(result["error"].z))
    assert "Simulate more runs" in " ".join(str(result).split())
