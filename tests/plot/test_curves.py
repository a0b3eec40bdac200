"""Figures of the verbs that read a curve:

what they show, legends outside, other objects refused.
"""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import tutelage as tu
from tests.analysis.curves.cases import from_outside, of_curve, runs
from tutelage.plot import (
    plot_early_stopping,
    plot_exponent,
    plot_per_run,
    plot_phases,
    plot_plateaus,
    plot_specialization,
    save_figure,
)

X = np.geomspace(1.0, 1000.0, 31)
TIMES = np.linspace(0.0, 10.0, 201)


def drawn(axes):
    return {line.get_label(): line for line in axes.lines}


def dip():
    """An error with a minimum inside."""
    return tu.analysis.early_stopping(
        of_curve(TIMES, np.exp(-3 * TIMES) + 0.1 - 0.05 * np.exp(-TIMES))
    )


ANSWERS = {
    "plateaus": lambda: tu.analysis.plateaus(from_outside(1e-4)),
    "phases": lambda: tu.analysis.phases(from_outside(1e-4, "log")),
    "specialization": lambda: tu.analysis.specialization(from_outside(1e-4)),
    "early_stopping": dip,
    "exponent": lambda: tu.analysis.fit_exponent(
        X, X**-0.5 * (1 + 1 / X), y_error=0.01 * X**-0.5
    ),
    "runs": lambda: tu.analysis.phases(runs("linear")),
    "one run": lambda: tu.analysis.plateaus(runs("linear"), run=0),
    "no plateau": lambda: tu.analysis.plateaus(of_curve(TIMES, np.exp(-TIMES))),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_figure_is_whole(name, tmp_path):
    found = ANSWERS[name]()
    figure = found.plot()
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        assert axes.get_ylabel()
        legend = axes.get_legend()
        if legend is not None:
            assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
            assert legend.get_window_extent().x1 <= figure.bbox.x1 + 1
    assert figure.axes[-1].get_xlabel()
    assert figure.axes[0].texts
    assert len(found.plot(title="").axes[0].texts) == 0
    assert save_figure(figure, tmp_path / "figure.png").stat().st_size > 8_000


def test_plateaus_show_the_fitted_growth():
    found = tu.analysis.plateaus(from_outside(1e-4))
    curve, growth, overlaps = found.plot().axes
    lines = drawn(growth)
    (name,) = [label for label in lines if label.startswith("rate")]
    (t0, t1), (u0, u1) = lines[name].get_data()
    assert np.log(u1 / u0) / (t1 - t0) == pytest.approx(found[0].growth_rate)
    assert "$R_{12}$" in drawn(overlaps)
    assert "height 0.01466" in drawn(curve)


def test_phases_are_shaded_where_they_are():
    found = tu.analysis.phases(from_outside(1e-4))
    curve = found.plot().axes[0]
    spans = {
        p.get_label(): p.get_extents().transformed(curve.transData.inverted())
        for p in curve.patches
    }
    for phase in found:
        assert spans[phase.name].x0 == pytest.approx(phase.start, abs=1e-6)
        assert spans[phase.name].x1 == pytest.approx(phase.end, abs=1e-6)


def test_the_minimum_and_the_end_are_marked():
    found = dip()
    marks = [
        line.get_data()
        for line in found.plot().axes[0].lines
        if len(line.get_xdata()) == 1
    ]
    assert [m[0][0] for m in marks] == pytest.approx([found.time, found.end_time])
    assert [m[1][0] for m in marks] == pytest.approx([found.value, found.end_value])


def test_a_fit_that_is_no_power_law_is_titled_so():
    figure = tu.analysis.fit_exponent(X, np.exp(-X / 300), (1.0, 1000.0)).plot()
    words = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert "No power law in this window" in words


@pytest.mark.parametrize(
    "draw",
    [
        plot_plateaus,
        plot_phases,
        plot_specialization,
        plot_early_stopping,
        plot_exponent,
        plot_per_run,
    ],
)
def test_other_objects_are_refused(draw):
    with pytest.raises(tu.InputError, match="got a value of type dict; give it"):
        draw({})
