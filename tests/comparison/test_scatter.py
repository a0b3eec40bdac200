"""The scatter of single runs, predicted beside measured, in the report and in the figure."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import TIMES, erf_problem, runs, start_of, theory, with_, with_error
from tutelage.comparison.pairing import pair
from tutelage.comparison.verdict import Escape, predicted_scatter

LABEL = "± 2 std. dev. of\nsingle runs, theory"


def test_runs_scatter_as_predicted():
    """100 runs know their ratio to 7%: three of its errors are a false alarm in hundreds."""
    comparison = tu.compare(theory(), runs())
    scatter = comparison.scatter
    assert abs(scatter.ratio - 1) < 3 * scatter.ratio_error
    expected = tu.analysis.fluctuations(erf_problem(), start_of(2, 2, 200), TIMES, 200)
    np.testing.assert_allclose(scatter.predicted, expected.sd("error"), rtol=0.05, atol=1e-12)
    np.testing.assert_allclose(scatter.measured, runs().error.std(axis=0, ddof=1))
    assert "of the predicted standard deviation" in str(comparison)
    told = json.loads(json.dumps(comparison.to_dict()["scatter"]))
    assert told["ratio"] == pytest.approx(scatter.ratio)
    assert LABEL in [text.get_text() for text in comparison.plot().axes[0].get_legend().get_texts()]
    assert "predicted" in comparison.to_html()


def test_runs_that_scatter_twice_as_far_are_seen():
    """A negative control."""
    error = runs().error
    wide = with_error(runs(), error.mean(axis=0) + 2 * (error - error.mean(axis=0)))
    scatter = tu.compare(theory(), wide).scatter
    assert scatter.ratio - 1 > 5 * scatter.ratio_error


def test_where_it_is_not_predicted():
    """Gradient flow, an escape that noise decides, slow momentum, levels not kept, one's own equations; on request."""
    together, noisy = pair(theory(), runs()), Escape(0.1, 0.05, 5.0, np.array([4.0]), 3.0, start_to_noise=2.0)
    slow = with_(theory(), problem=erf_problem().replace(momentum=tu.SlowMomentum(5.0)))
    unkept = {name: value for name, value in together.theory.items() if name != "r"}
    assert predicted_scatter(replace(together, gradient_flow=True), theory(), None) is None
    assert predicted_scatter(together, theory(), noisy) is None
    assert predicted_scatter(together, slow, None) is None
    assert predicted_scatter(replace(together, theory=unkept), theory(), None) is None
    assert predicted_scatter(replace(together, problem=None), theory(), None) is None
    without = tu.compare(theory(), runs(), fluctuations=False)
    assert without.scatter is None
    assert without.to_dict()["scatter"] is None
    assert LABEL not in [text.get_text() for text in without.plot().axes[0].get_legend().get_texts()]
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
    scatter = predicted_scatter(replace(together, theory=together.theory | {"error": tiny}), theory(), None)
    assert np.isfinite(scatter.predicted[:5]).all()
    assert np.isnan(scatter.predicted[5:]).all()
    assert scatter.ratio == pytest.approx(np.sqrt(np.mean((scatter.measured[1:5] / scatter.predicted[1:5]) ** 2)))
    assert "where e_g falls below 1e-10" in scatter.lines()[0]
    assert predicted_scatter(replace(together, theory=together.theory | {"error": 0 * tiny}), theory(), None) is None
