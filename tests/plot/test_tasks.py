"""Figures of several tasks:

a curve for each, switches marked, overlaps named by task and unit.
"""

import numpy as np
import pytest

import tutelage as tu
from tutelage import InputError
from tutelage.plot import (
    plot_comparison,
    plot_overlaps,
    plot_trajectory,
    problem_in_words,
)

START = tu.Start(
    R=[[0.05, 0.02], [-0.01, 0.03]],
    Q=[[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
    dim=200,
)
TIMES = tu.linear_times(20, 21)


def two_tasks(schedule=None, **options):
    tasks = tu.Tasks(
        [tu.Network(1, "erf")] * 2,
        schedule or tu.Switch(10.0),
        similarity=0.5,
        **options,
    )
    return tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=1.0)
    )


@pytest.fixture(scope="module")
def theory():
    return tu.solve(two_tasks(), START, TIMES)


def legends(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def columns(axes):
    return axes.get_xlabel(), [tick.get_text() for tick in axes.get_xticklabels()]


def vertical(axes):
    """The times of vertical lines."""
    return [
        line.get_xdata()[0]
        for line in axes.get_lines()
        if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2
    ]


def test_a_curve_for_each_task_and_the_switch_in_every_panel(theory):
    panels = plot_trajectory(theory).axes
    assert legends(panels[0]) == ["task 1", "task 2"]
    curves = [
        line.get_ydata()
        for line in panels[0].get_lines()
        if len(line.get_xdata()) == TIMES.size
    ]
    np.testing.assert_allclose(np.transpose(curves), theory.error)
    assert all(vertical(axes) == [10.0] for axes in panels)
    assert legends(panels[1]) == [
        "$R_{11}$, task 1",
        "$R_{12}$, task 2",
        "$R_{21}$, task 1",
        "$R_{22}$, task 2",
    ]
    assert legends(panels[3]) == [
        "$v_{1}$, task 1",
        "$v_{1}$, task 2",
        "$v_{2}$, task 1",
        "$v_{2}$, task 2",
    ]
    drawn = [
        line.get_ydata()
        for line in panels[3].get_lines()
        if len(line.get_xdata()) == TIMES.size
    ]
    np.testing.assert_allclose(
        drawn[1], theory.readout[:, 1, 0]
    )  # unit 1 in the head of task 2


def test_a_comparison_has_a_curve_for_each_task(theory):
    runs = tu.simulate(two_tasks(), START, dim=200, times=TIMES, runs=4, seed=1)
    panels = plot_comparison(tu.compare(theory, runs, fluctuations=False)).axes
    assert legends(panels[0]) == [
        "task 1, theory",
        "task 1, runs",
        "task 2, theory",
        "task 2, runs",
    ]
    assert legends(panels[1])[1] == "$R_{12}$, task 2"
    assert vertical(panels[0]) == [10.0]


def test_overlaps_are_named_by_task_and_unit(theory):
    figure = plot_overlaps(theory, time=10.2)
    left, right = figure.axes[:2]
    np.testing.assert_allclose(left.images[0].get_array(), theory.R[10])
    np.testing.assert_allclose(right.images[0].get_array(), theory.Q[10])
    assert columns(left) == ("task", ["1", "2"])
    wide = tu.Tasks([tu.Network(2, "erf"), tu.Network(1, "erf")], tu.Switch(1.0))
    problem = tu.Problem(tu.Network(2, "erf"), wide, optimizer=tu.SGD(lr=1.0))
    longer = tu.solve(problem, tu.asymmetric_start(problem), [0.0, 2.0])
    assert columns(plot_overlaps(longer).axes[0]) == (
        "task.unit",
        ["1.1", "1.2", "2.1"],
    )
    with pytest.raises(InputError, match="no overlaps"):
        plot_overlaps(
            tu.solve(
                tu.Equations(("x",), drift=lambda t, s: (-s.x,), error=lambda s: s.x),
                {"x": 1.0},
                [0.0, 1.0],
            )
        )


@pytest.mark.parametrize(
    ("schedule", "options", "words"),
    [
        (tu.Switch(10.0), {}, "switch at 10, similarity 0.5"),
        (
            tu.Switch([5.0, 10.0], order=[0, 1, 0]),
            {},
            "switch at 5 and 10, order 1, 2, 1",
        ),
        (tu.Interleave([0.25, 0.75]), {}, "Interleave(shares=[0.25, 0.75])"),
        (tu.Replay(0.1, after=10.0), {}, "switch at 10, replay 0.1"),
        (tu.Switch(10.0), {"heads": "shared"}, "one head for all tasks"),
        (tu.Switch(10.0), {"drift": tu.Drift(0.1)}, "drift 0.1"),
    ],
)
def test_a_problem_in_words(schedule, options, words):
    who, how = problem_in_words(two_tasks(schedule, **options))
    assert who == "2 erf units and a trained readout learn 2 tasks (one erf unit each)"
    assert words in how
