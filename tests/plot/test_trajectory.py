"""What the standard figure shows, checked on the figure itself:

labels, axes, legends, the sentence of a failure.
"""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import _pylab_helpers
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import tutelage as tu
from tutelage.plot import plot_overlaps, plot_trajectory

TIMES = np.linspace(0.0, 30.0, 61)
LOG_TIMES = tu.log_times(0.01, 100.0, 61)


def trajectory(
    K=2,
    M=2,
    times=TIMES,
    decades=3.0,
    train=False,
    code=tu.errors.Status.FINISHED,
    runs=(),
):
    """A made-up solution of the right shape:

    an error that falls by `decades`, overlaps that all differ.
    """
    problem = tu.Problem(
        tu.Network(K, "erf", train_readout=train),
        tu.Network(M, "erf"),
        optimizer=tu.SGD(lr=0.5),
        noise=0.1,
    )
    s = (times / times[-1])[:, None, None]
    R = s * (1 + np.arange(K * M).reshape(K, M)) / (K * M)
    Q = s * (1 + np.arange(K * K).reshape(K, K)) / (K * K)
    readout = 1 + s[:, 0] * np.arange(1, K + 1) * train
    variables = {"Q": (Q + np.swapaxes(Q, 1, 2)) / 2, "R": R, "readout": readout}
    error = 0.5 * 10 ** (-decades * times / times[-1])
    many = lambda x: np.broadcast_to(x, (*runs, *x.shape))  # noqa: E731
    return tu.Trajectory(
        times=times,
        variables={name: many(value) for name, value in variables.items()},
        error=many(error),
        status_code=np.asarray(int(code)),
        end_time=np.asarray(times[-1]),
        steps=np.asarray(100),
        problem=problem,
        start=tu.random_start(problem, dim=100),
        kind="simulation" if runs else "theory",
        settings=(("gradient_flow", True),),
    )


def texts(figure):
    return " ".join(
        " ".join(t.get_text().split()) for axes in figure.axes for t in axes.texts
    )


def legend_words(axes):
    return [t.get_text() for t in axes.get_legend().get_texts()]


@pytest.mark.parametrize(("K", "train"), [(1, True), (3, False), (9, True)])
def test_axes_are_labeled_and_legends_outside(K, train):
    figure = plot_trajectory(trajectory(K, 3, train=train))
    FigureCanvasAgg(figure).draw()
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [True] * (
        4 if train else 3
    )
    assert "alpha" in figure.axes[-1].get_xlabel()
    for axes in figure.axes[1:]:
        frame = axes.get_window_extent()
        if axes.get_legend() is not None:
            legend = axes.get_legend().get_window_extent()
            assert legend.x0 >= frame.x1
            assert legend.x1 <= figure.bbox.x1
            assert legend.y0 >= figure.bbox.y0
    assert "learn" in texts(figure)


def test_title_says_the_problem_in_words():
    shown = texts(plot_trajectory(trajectory(2, 3, train=True)))
    assert "2 erf units and a trained readout learn from 3 erf units" in shown
    for words in (
        "learning rate 0.5",
        "label noise 0.1",
        "isotropic inputs",
        "gradient flow",
        "$N=100$",
    ):
        assert words in shown
    assert "my own words" in texts(plot_trajectory(trajectory(), title="my own words"))


@pytest.mark.parametrize(
    ("decades", "scale"), [(3.0, "log"), (1.6, "log"), (1.0, "linear"), (0.0, "linear")]
)
def test_error_is_logarithmic_when_it_spans_decades(decades, scale):
    assert plot_trajectory(trajectory(decades=decades)).axes[0].get_yscale() == scale


def test_time_is_logarithmic_when_the_times_are():
    even, log = (plot_trajectory(trajectory(times=t)).axes for t in (TIMES, LOG_TIMES))
    assert {axes.get_xscale() for axes in even} == {"linear"}
    assert {axes.get_xscale() for axes in log} == {"log"}
    assert {axes.get_xlim()[0] for axes in log} == {
        LOG_TIMES[1]
    }  # time zero is not on the axis


def test_curves_are_the_numbers():
    solution = trajectory(2, 3)
    curve, overlaps, norms = plot_trajectory(solution).axes
    np.testing.assert_array_equal(curve.lines[0].get_ydata(), solution.error)
    drawn = {
        line.get_label(): line.get_ydata() for line in (*overlaps.lines, *norms.lines)
    }
    for k in range(2):
        for m in range(3):
            np.testing.assert_array_equal(
                drawn[f"$R_{{{k + 1}{m + 1}}}$"], solution.R[:, k, m]
            )
    np.testing.assert_array_equal(drawn["$Q_{12}$"], solution.Q[:, 0, 1])
    assert "$Q_{21}$" not in drawn


def test_few_entries_are_named_and_many_grouped():
    few, many, crowd = (plot_trajectory(trajectory(K, K)).axes[1:] for K in (3, 5, 9))
    assert legend_words(few[0]) == [
        f"$R_{{{k}{m}}}$" for k in (1, 2, 3) for m in (1, 2, 3)
    ]
    assert legend_words(few[1]) == [
        f"$Q_{{{e}}}$" for e in ("11", "22", "33", "12", "13", "23")
    ]
    assert legend_words(many[0]) == [f"unit {k}" for k in range(1, 6)]
    assert legend_words(many[1]) == ["norms $Q_{kk}$", "pairs $Q_{kl}$"]
    assert crowd[0].get_legend() is None
    assert len(crowd[0].lines) == 81


def test_curves_differ_without_color():
    for axes in plot_trajectory(trajectory(3, 3, train=True)).axes[1:]:
        looks = [
            (str(line._unscaled_dash_pattern), line.get_linewidth(), line.get_marker())
            for line in axes.lines
        ]
        assert len(set(looks)) == len(looks)


def test_norms_are_solid_and_pairs_are_not():
    lines = {
        line.get_label(): line.get_linestyle()
        for line in plot_trajectory(trajectory(3, 3)).axes[2].lines
    }
    assert {lines[f"$Q_{{{k}{k}}}$"] for k in (1, 2, 3)} == {"-"}
    assert "-" not in {lines[f"$Q_{{{e}}}$"] for e in ("12", "13", "23")}


def test_failure_is_told_and_marked():
    solution = trajectory(code=tu.errors.Status.DIVERGED)
    figure = plot_trajectory(solution)
    assert solution.status in texts(figure)
    assert all(
        axes.lines[-1].get_xdata()[0] == solution.end_time for axes in figure.axes
    )
    assert "diverged" not in texts(plot_trajectory(trajectory()))


def test_runs_are_drawn_thin_with_their_mean():
    solution = trajectory(runs=(4,))
    curve = plot_trajectory(solution).axes[0]
    assert [line.get_linewidth() < 1 for line in curve.lines] == [True] * 4 + [False]
    np.testing.assert_allclose(curve.lines[-1].get_ydata(), solution.error.mean(axis=0))


def test_own_equations():
    equations = tu.Equations(
        ("m", "field"),
        drift=lambda t, s: (1 - s.m, -s.field),
        error=lambda s: (1 - s.m) ** 2 + s.field.sum() ** 2,
    )
    solution = tu.solve(equations, {"m": 0.0, "field": [1.0, 2.0]}, times=TIMES)
    curve, scalars, arrays = plot_trajectory(solution).axes
    assert curve.get_ylabel() == "error"
    assert legend_words(scalars) == ["m"]
    assert legend_words(arrays) == ["field 1", "field 2"]
    np.testing.assert_array_equal(arrays.lines[1].get_ydata(), solution["field"][:, 1])


def test_readouts_of_several_outputs_have_a_panel():
    solution = trajectory(2, 2)
    readout = np.linspace(0, 1, TIMES.size)[:, None, None] * np.array(
        [[1.0, 2.0], [3.0, 4.0]]
    )
    several = replace(solution, variables=solution.variables | {"readout": readout})
    panel = plot_trajectory(several).axes[-1]
    assert legend_words(panel) == ["$v_{11}$", "$v_{12}$", "$v_{21}$", "$v_{22}$"]


@pytest.mark.parametrize(
    ("teacher", "panel", "names", "columns"),
    [
        (None, "student–mean", ["$R_{11}$"], ("mean", ["1"])),
        (
            tu.Network(1),
            "teacher and means",
            ["$R_{11}$, teacher 1", "$R_{12}$, mean 1"],
            ("", ["teacher 1", "mean 1"]),
        ),
    ],
)
def test_overlaps_of_a_mixture_are_those_with_its_means(teacher, panel, names, columns):
    inputs = tu.Mixture(
        [[1.0], [-1.0]], [[1.0]], labels=None if teacher else [1.0, -1.0]
    )
    problem = tu.Problem(
        tu.Network(1), teacher, inputs=inputs, optimizer=tu.SGD(lr=0.5)
    )
    moving = TIMES[:, None, None] * np.linspace(0.1, 0.2, len(names))
    solution = replace(
        trajectory(1, len(names)),
        problem=problem,
        variables={"R": moving, "Q": moving[..., :1]},
    )
    overlaps = plot_trajectory(solution).axes[1]
    assert panel in overlaps.get_ylabel()
    assert legend_words(overlaps) == names
    heat = plot_overlaps(solution).axes[0]
    assert (
        heat.get_xlabel(),
        [tick.get_text() for tick in heat.get_xticklabels()],
    ) == columns
    assert "student–teacher" in plot_trajectory(trajectory()).axes[1].get_ylabel()


def test_the_learning_curve_alone_in_axes_of_the_caller():
    ours = Figure().subplots()
    solution = trajectory()
    assert plot_trajectory(solution, ax=ours) is ours
    np.testing.assert_array_equal(ours.lines[0].get_ydata(), solution.error)
    assert (ours.get_yscale(), "alpha" in ours.get_xlabel(), ours.get_title()) == (
        "log",
        True,
        "",
    )
    assert plot_trajectory(solution, ax=ours, title="mine").get_title() == "mine"


def test_nothing_stays_open():
    before = list(_pylab_helpers.Gcf.figs)
    plot_trajectory(trajectory())
    assert list(_pylab_helpers.Gcf.figs) == before


@pytest.mark.parametrize("thing", ["a.nc", None, np.zeros(3)])
def test_only_trajectories(thing):
    with pytest.raises(tu.InputError, match="give it a Trajectory"):
        plot_trajectory(thing)
