"""The search for what is hard to read finds it, and complains about nothing else."""

import numpy as np
import pytest
from papers.tests.legible import complaints

from tutelage.plot import label_panel, panel_grid, style
from tutelage_papers.drawing import color_legend, draw_power, tick_each

X = np.array([20.0, 40.0, 80.0])


def good(figure, axes):
    draw_power(axes, X, 0.1, -1.0, "first")
    draw_power(axes, X, 0.1, -0.5, "second", dashes=3)
    axes.set(xscale="log", yscale="log")
    tick_each(axes, [20, 40, 80])
    axes.legend(loc="lower left")
    label_panel(axes, "short")


def backticks(figure, axes):
    label_panel(axes, "found by `phases`")


def equal_names(figure, axes):
    axes.plot(X, X, label="same", color="r")
    axes.plot(X, 2 * X, label="same", color="g")
    axes.legend(bbox_to_anchor=(1, 1), loc="upper left")


def bare_axis(figure, axes):
    axes.plot(X, 0.03 * X / 20)
    axes.set(yscale="log", ylim=(0.02, 0.08))
    axes.minorticks_off()


def crossed_legend(figure, axes):
    axes.plot(X, 1 / X, label="a curve of some name")
    axes.axvline(70)
    axes.legend(loc="upper right")


def cut_marks(figure, axes):
    axes.plot(X, X - 20, "o")
    axes.set(ylim=(0, 80), xlim=(10, 90))


def equal_looks(figure, axes):
    draw_power(axes, X, 0.1, -1.0, "first")
    draw_power(axes, X, 0.1, -0.5, "second")


def sliver(figure, axes):
    axes.pcolormesh(
        [8, 64, 512, 4096], [0, 1], np.arange(8).reshape(2, 4), shading="nearest"
    )
    axes.set_xscale("log")


def long_title(figure, axes):
    bar = figure.colorbar(axes.pcolormesh([0, 1, 2], [0, 1, 2], np.eye(2)))
    bar.ax.set_ylabel("spread")
    label_panel(
        axes,
        "a title that is much longer than its panel is wide, so that it ends above the bar",
    )


def nameless(figure, axes):
    axes.plot(X, X, color="#0072B2")
    axes.plot(X, 2 * X, color="#D55E00")


def named(figure, axes):
    nameless(figure, axes)
    color_legend(figure, "teacher", ["1", "2"])


FAULTS = {
    backticks: "raw backticks",
    equal_names: "more than once",
    bare_axis: "fewer than two numbers on the y axis",
    crossed_legend: "runs through the legend",
    cut_marks: "cut off",
    equal_looks: "look alike",
    sliver: "slivers along x",
    long_title: "reaches over another panel",
    nameless: "colors without a name",
}


def drawn(draw):
    with style():
        figure, axes = panel_grid(1, 1, "A figure", width=5.0)
        draw(figure, axes[0, 0])
    return complaints(figure)


@pytest.mark.parametrize("draw", [good, named])
def test_nothing_is_wrong(draw):
    assert drawn(draw) == []


@pytest.mark.parametrize(
    ("draw", "words"), FAULTS.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_a_fault_is_found(draw, words):
    assert any(words in complaint for complaint in drawn(draw)), drawn(draw)
