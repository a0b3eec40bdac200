"""What the figure of a comparison shows:

theory as lines, runs as bands, scores below; legends outside.
"""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import tutelage as tu
from tests.comparison.cases import runs, theory
from tutelage.plot import plot_comparison, save_figure


@pytest.fixture(scope="module")
def result():
    return tu.compare(theory(), runs())


def drawn(axes):
    return {line.get_label(): line.get_ydata() for line in axes.lines}


def test_panels_and_numbers(result):
    curve, R, Q, scores = result.plot().axes
    np.testing.assert_array_equal(drawn(curve)["theory"], theory().error)
    np.testing.assert_allclose(drawn(curve)["mean of runs"], runs().error.mean(axis=0))
    np.testing.assert_array_equal(drawn(R)["$R_{12}$"], theory().R[:, 0, 1])
    np.testing.assert_array_equal(drawn(Q)["$Q_{12}$"], theory().Q[:, 0, 1])
    np.testing.assert_array_equal(drawn(scores)["error"], np.abs(result["error"].z))
    assert len([line for line in curve.lines if line.get_linewidth() < 0.6]) == 40
    assert "alpha" in scores.get_xlabel()
    assert all(axes.get_ylabel() for axes in (curve, R, Q, scores))


def test_legends_are_outside(result):
    figure = result.plot()
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        legend = axes.get_legend().get_window_extent()
        assert legend.x0 >= axes.get_window_extent().x1
        assert legend.x1 <= figure.bbox.x1 + 1


def test_head(result):
    words = " ".join(t.get_text() for t in result.plot().axes[0].texts)
    assert "2 erf units learn from 2 erf units" in words
    assert "100 runs of N = 200" in words
    assert "agree" in words
    assert len(result.plot(title="").axes[0].texts) == 0
    assert "my words" in " ".join(
        t.get_text() for t in result.plot(title="my words").axes[0].texts
    )


def test_a_single_run_has_no_scores(tmp_path):
    figure = tu.compare(theory(), runs(1)).plot()
    assert len(figure.axes) == 3
    assert save_figure(figure, tmp_path / "one.png").stat().st_size > 10_000


def test_only_comparisons():
    with pytest.raises(tu.InputError, match="give it what compare returned"):
        plot_comparison(theory())
