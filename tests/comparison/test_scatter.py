"""The scatter of single runs: predicted and measured, in report and figure."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import (
    TIMES,
    erf_problem,
    runs,
    start_of,
    theory,
    with_,
    with_error,
)
from tutelage.comparison.escape import Escape
from tutelage.comparison.pairing import pair
from tutelage.comparison.scatter import predict_scatter, ratio_with_error

LABEL = "± 2 std. dev. of\nsingle runs, theory"


def test_runs_scatter_as_predicted():
    """Three errors of the ratio are a false alarm in hundreds."""
    comparison = tu.compare(theory(), runs())
    scatter = comparison.scatter
    assert abs(scatter.ratio - 1) < 3 * scatter.ratio_error
    expected = tu.analysis.fluctuations(erf_problem(), start_of(2, 2, 200), TIMES, 200)
    np.testing.assert_allclose(
        scatter.predicted, expected.sd("error"), rtol=0.05, atol=1e-12
    )
    np.testing.assert_allclose(scatter.measured, runs().error.std(axis=0, ddof=1))
    assert "measured / predicted" in str(comparison)
    assert scatter.as_predicted
    table = json.loads(json.dumps(comparison.to_dict()["scatter"]))
    assert table["ratio"] == pytest.approx(scatter.ratio)
    legend = comparison.plot().axes[0].get_legend()
    assert LABEL in [text.get_text() for text in legend.get_texts()]
    assert "predicted" in comparison.to_html()


def test_runs_that_scatter_twice_as_far_are_seen():
    """A negative control."""
    error = runs().error
    wide = with_error(runs(), error.mean(axis=0) + 2 * (error - error.mean(axis=0)))
    scatter = tu.compare(theory(), wide).scatter
    assert scatter.ratio - 1 > 5 * scatter.ratio_error
    assert not scatter.as_predicted
    assert "runs scatter more than predicted" in scatter.lines()[0]


def scatter_of(problem, start, times, count):
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(problem, start, times=times, runs=count, seed=2)
    return tu.compare(theory, runs).scatter


def test_times_before_the_first_step_are_those_of_one_step():
    """Networks of N = 100 have made one whole step at alpha = 1e-4."""
    problem = erf_problem()
    start = start_of(2, 2, 100)
    scatter = scatter_of(problem, start, tu.log_times(1e-4, 1.0, 21), 100)
    early = scatter.times < 0.01
    np.testing.assert_allclose(
        scatter.predicted[early][1:], scatter.predicted[early][1]
    )
    assert np.all(scatter.ratios[1:] < 1.5)
    assert scatter.as_predicted
    at_the_times = tu.analysis.fluctuations(
        problem, start, scatter.times, 100, points=256
    )
    wrong = scatter.measured[1] / at_the_times.sd("error")[1]
    assert wrong > 5  # a negative control: the scatter at alpha itself


def test_nothing_is_predicted_where_the_scatter_is_not_small():
    """Near the critical rate sd(e_g) comes close to e_g, which is then not normal."""
    problem = erf_problem(noise=0.0, lr=2.0)
    scatter = scatter_of(problem, start_of(2, 2, 100), tu.linear_times(100, 51), 20)
    wide = scatter.times >= scatter.wide_from
    assert 0 < wide.sum() < wide.size - 1
    assert np.isnan(scatter.predicted[wide]).all()
    assert scatter.as_predicted  # with these times the ratio would be about two
    assert f"first at alpha = {scatter.wide_from:.4g}" in scatter.lines()[-1]


def test_the_error_of_the_ratio_is_that_over_repetitions():
    """Runs that are correlated in time, as those of SGD, in groups of 20."""
    rng = np.random.default_rng(4)
    steps = rng.standard_normal((200, 20, 60))
    curves = np.zeros_like(steps)
    for time in range(1, 60):
        curves[..., time] = 0.8 * curves[..., time - 1] + 0.6 * steps[..., time]
    results = [ratio_with_error(group[:, 20:], np.ones(40)) for group in curves]
    ratios, errors = np.transpose(results)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.02)
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.2)
    of_one_time = 1 / np.sqrt(2 * 19)
    assert of_one_time > 1.5 * np.std(ratios)  # which would be too wide


def test_smallest_and_largest_ratio_are_those_of_the_printed_numbers():
    scatter = tu.compare(theory(), runs()).scatter
    for word, value in (
        ("smallest", np.nanmin(scatter.ratios)),
        ("largest", np.nanmax(scatter.ratios)),
    ):
        printed = re.search(rf"{word} (\S+) = (\S+) / (\S+) at", scatter.lines()[1])
        ratio, measured, predicted = map(float, printed.groups())
        assert ratio == pytest.approx(value, abs=0.006)
        assert measured / predicted == pytest.approx(value, abs=0.02)


def test_where_it_is_not_predicted():
    together = pair(theory(), runs())
    assert predict_scatter(together, None) is not None
    escape_by_noise = Escape(
        plateau=0.1,
        threshold=0.05,
        theory=5.0,
        runs=np.array([4.0]),
        first_departure=3.0,
        start_to_noise=2.0,
    )
    assert predict_scatter(together, escape_by_noise) is None
    gradient_flow = replace(together, gradient_flow=True)
    assert predict_scatter(gradient_flow, None) is None
    slow = erf_problem().replace(momentum=tu.SlowMomentum(5.0))
    slow_momentum = replace(together, solution=with_(theory(), problem=slow))
    assert predict_scatter(slow_momentum, None) is None
    kept = {name: value for name, value in together.theory.items() if name != "r"}
    without_levels = replace(together, theory=kept)
    assert predict_scatter(without_levels, None) is None
    custom_equations = replace(together, problem=None)
    assert predict_scatter(custom_equations, None) is None


def test_it_is_not_predicted_on_request():
    without = tu.compare(theory(), runs(), fluctuations=False)
    assert without.scatter is None
    assert without.to_dict()["scatter"] is None
    legend = without.plot().axes[0].get_legend()
    assert LABEL not in [text.get_text() for text in legend.get_texts()]
    with pytest.raises(tu.InputError, match="fluctuations is 'no'"):
        tu.compare(theory(), runs(), fluctuations="no")


def test_one_run_has_no_scatter_to_measure():
    result = tu.compare(theory(), runs(1))
    assert np.isnan(result.scatter.ratio)
    assert result.to_dict()["scatter"]["ratio"] is None
    assert "one run" in result.scatter.lines()[0]


def test_nothing_is_predicted_below_rounding():
    together = pair(theory(), runs())
    tiny = np.where(np.arange(together.times.size) < 5, together.theory["error"], 1e-11)
    small = replace(together, theory=together.theory | {"error": tiny})
    scatter = predict_scatter(small, None)
    assert np.isfinite(scatter.predicted[:5]).all()
    assert np.isnan(scatter.predicted[5:]).all()
    squares = (scatter.measured[1:5] / scatter.predicted[1:5]) ** 2
    assert scatter.ratio == pytest.approx(np.sqrt(np.mean(squares)))
    assert "where e_g falls below 1e-10" in scatter.lines()[-1]
    zero = replace(together, theory=together.theory | {"error": 0 * tiny})
    assert predict_scatter(zero, None) is None
