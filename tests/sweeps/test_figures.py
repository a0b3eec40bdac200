"""Figures of sweeps: which kind is drawn, what stands on it, what is refused.

The numbers are made up.
"""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import tutelage as tu
from tests.sweeps.questions import PROBLEM, spec_of
from tutelage.plot import save_figure
from tutelage.sweeps.sweep import Sweep, combine_chunks

RATES = np.linspace(0.1, 2.5, 12)
NOISES = np.geomspace(0.05, 1.0, 9)
TIMES = [0.0, 10.0, 20.0]


def made_up(over, value, starts=None, dims=(), diverged=None, measure="final_error"):
    """A sweep whose numbers are a function of its axes."""
    spec = spec_of(over=over, starts=starts, times=TIMES, measure=[measure])
    lead = spec.count
    grid = np.meshgrid(
        *[
            np.arange(len(v)) if isinstance(v[0], str) else v
            for v in spec.over.values()
        ],
        indexing="ij",
    )
    values = np.asarray(value(*grid), dtype=float).reshape(
        lead, *([starts] if starts else []), *([3] if "time" in dims else [])
    )
    status = np.zeros((lead, *([starts] if starts else [])), dtype=np.int8)
    if diverged is not None:
        gone = diverged(*grid).ravel()
        values[gone], status[gone] = np.nan, 1
    own = (("start",) if starts else ()) + dims
    chunk = {measure: (own, values), "status": (own[: status.ndim - 1], status)}
    return Sweep(spec, combine_chunks(spec, [(np.arange(lead), chunk)]))


def labels(figure):
    panel = figure.axes[0]
    return panel.get_xlabel(), panel.get_ylabel()


def texts(figure):
    """Every word of a legend."""
    legends = [
        *figure.legends,
        *filter(None, [axes.get_legend() for axes in figure.axes]),
    ]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def drawn(figure, tmp_path):
    return save_figure(figure, tmp_path / "a.png").stat().st_size


def test_one_axis_is_a_curve(tmp_path):
    figure = made_up({"lr": RATES}, lambda lr: lr**2 / 50).plot()
    assert labels(figure) == (
        r"learning rate $\eta$",
        r"generalization error $\epsilon_g$ at the end",
    )
    line = figure.axes[0].lines[0]
    assert np.array_equal(line.get_xdata(), RATES)
    assert line.get_ydata() == pytest.approx(RATES**2 / 50)
    assert drawn(figure, tmp_path) > 0


def test_starts_are_a_median_in_the_range_of_their_middle_half():
    figure = made_up(
        {"lr": RATES}, lambda lr: lr[..., None] * np.array([1, 2, 3, 4, 100]), starts=5
    ).plot()
    panel = figure.axes[0]
    assert panel.lines[0].get_ydata() == pytest.approx(3 * RATES)
    band = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(2 * RATES[0])
    assert band.max() == pytest.approx(4 * RATES[-1])


def test_times_are_a_curve_for_each_value():
    over = {"lr": [0.1, 0.5, 1.0]}
    swept = made_up(
        over,
        lambda lr: np.exp(-lr[..., None] * np.array(TIMES) / 10),
        dims=("time",),
        measure="error",
    )
    figure = swept.plot()
    assert labels(figure)[0].startswith("time")
    assert texts(figure) == ["0.1", "0.5", "1"]
    assert figure.axes[0].lines[2].get_ydata() == pytest.approx(
        np.exp(-np.array([0.0, 1.0, 2.0]))
    )


def test_words_are_a_curve_each():
    swept = made_up(
        {"student.activation": ["erf", "relu"], "lr": RATES},
        lambda kind, lr: 0.1 + kind + lr,
    )
    assert texts(swept.plot()) == ["erf", "relu"]
    assert labels(swept.plot())[0] == r"learning rate $\eta$"
    assert (
        made_up({"student.activation": ["erf", "relu"]}, lambda kind: kind)
        .plot()
        .axes[0]
        .get_xticklabels()[1]
        .get_text()
        == "relu"
    )


def test_two_axes_are_a_heat_map_with_contours(tmp_path):
    swept = made_up({"noise": NOISES, "lr": RATES}, lambda noise, lr: noise**2 * lr)
    figure = swept.plot()
    panel = figure.axes[0]
    assert labels(figure) == (r"label noise $\sigma$", r"learning rate $\eta$")
    mesh = panel.collections[0]
    assert np.asarray(mesh.get_array()).reshape(12, 9) == pytest.approx(
        np.outer(RATES, NOISES**2)
    )
    assert len(panel.collections) > 1  # contours
    assert panel.get_xscale() == "log"
    assert panel.get_yscale() == "linear"
    assert drawn(figure, tmp_path) > 0


def test_rounding_does_not_take_the_colors():
    swept = made_up(
        {"noise": NOISES, "lr": RATES},
        lambda noise, lr: np.where(noise < 0.06, 1e-17, noise),
    )
    mesh = swept.plot().axes[0].collections[0]
    assert mesh.norm.vmin == pytest.approx(1e-6)


def test_divergence_is_hatched_and_said():
    swept = made_up(
        {"noise": NOISES, "lr": RATES},
        lambda noise, lr: lr + noise,
        diverged=lambda noise, lr: lr > 2,
    )
    figure = swept.plot()
    assert texts(figure) == ["diverged"]
    FigureCanvasAgg(figure).draw()
    (cells,) = [
        collection
        for collection in figure.axes[0].collections
        if collection.get_hatch()
    ]
    assert cells.get_edgecolor()[0, 3] == 1.0  # the hatches are seen
    assert len(cells.get_paths()) == 9 * int((RATES > 2).sum())


def above_one(problem):
    return 1.0 + float(problem.noise)


def test_a_phase_diagram_has_the_lines_of_theory_on_it(tmp_path):
    critical = tu.analysis.critical_learning_rate(PROBLEM).rate
    swept = made_up({"noise": NOISES, "lr": RATES}, lambda noise, lr: noise**2 * lr / 4)
    figure = swept.plot(
        boundary=["noise_floor", "critical_learning_rate", above_one], level=0.01
    )
    assert texts(figure) == [
        "computed: 0.01",
        r"noise floor, linear response: $\epsilon_g=0.01$",
        r"critical learning rate $\eta_c$",
        "above_one",
    ]
    floor, eta_c, own = figure.axes[0].lines
    assert eta_c.get_xdata()[[0, -1]].tolist() == NOISES[[0, -1]].tolist()
    assert eta_c.get_ydata() == pytest.approx(np.full(eta_c.get_xdata().size, critical))
    assert own.get_ydata() == pytest.approx(1 + own.get_xdata())
    rates = floor.get_ydata()[::5]
    noises = floor.get_xdata()[::5]
    stable = rates < critical
    exact = [
        np.sqrt(0.01 / tu.analysis.noise_floor(PROBLEM.replace(lr=lr)).per_variance)
        for lr in rates[stable]
    ]
    assert noises[stable] == pytest.approx(exact)
    assert np.isnan(noises[~stable]).all()
    assert 2 < stable.sum() < rates.size
    assert drawn(figure, tmp_path) > 0


def test_axes_that_are_held():
    swept = made_up(
        {"noise": NOISES, "lr": RATES, "batch": [1, 2]},
        lambda noise, lr, batch: noise * lr * batch,
    )
    figure = swept.plot(at={"batch": 2, "noise": 0.99})
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx(2 * RATES)
    assert any("label noise 1" in note.get_text() for note in figure.axes[0].texts)
    with pytest.raises(tu.InputError, match="Hold others with at="):
        swept.plot()
    with pytest.raises(tu.InputError, match="'batch'"):
        swept.plot(at={"batches": 1})
    with pytest.raises(tu.InputError, match="two axes"):
        swept.plot(boundary="critical_learning_rate")


def test_what_theory_cannot_draw():
    swept = made_up(
        {"noise": NOISES, "batch": [1, 2, 3, 4]}, lambda noise, batch: noise * batch
    )
    with pytest.raises(
        tu.InputError,
        match=r"value of optimizer.lr; this figure has the axes noise and batch",
    ):
        swept.plot(boundary="critical_learning_rate")
    with pytest.raises(tu.InputError, match="give level="):
        swept.plot(boundary="noise_floor")
    with pytest.raises(tu.InputError, match="critical_learning_rate"):
        swept.plot(boundary="critical")
    with pytest.raises(tu.InputError, match="or a function"):
        swept.plot(boundary=3)
