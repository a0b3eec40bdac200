"""Figures: what they show, and the tools of which figures are made."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import tutelage as tu


@pytest.fixture(scope="module")
def theory() -> tu.Trajectory:
    network = tu.Network(2, "erf")
    task = tu.Problem(network, network, noise=0.1)
    return tu.solve(task, tu.asymmetric_start(task), tu.linear_times(10.0, 11))


@pytest.fixture
def axes():
    return Figure().subplots()


# Figures of results


def test_the_curve_of_a_trajectory(theory):
    figure = tu.plot.plot_trajectory(theory)
    assert isinstance(figure, Figure)
    curve = figure.axes[0].lines[0]
    np.testing.assert_allclose(curve.get_ydata(), theory.error)


def test_a_curve_in_given_axes(theory, axes):
    assert theory.plot(ax=axes, title="mine") is axes
    assert axes.get_title() == "mine"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), theory.error)


def test_the_overlaps_at_one_time(theory):
    figure = tu.plot.plot_overlaps(theory, time=10.0, title="")
    images = [image for axes in figure.axes for image in axes.get_images()]
    meshes = [mesh for axes in figure.axes for mesh in axes.collections]
    shown = [np.ravel(drawn.get_array()) for drawn in (*images, *meshes)]
    assert any(np.allclose(values, theory.R[-1].ravel()) for values in shown)


def test_data_and_its_gap_are_drawn():
    """The gap between SGD on samples and the theory, on samples that are Gaussian."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((400, 10))
    data = tu.from_data(samples)
    task = data.problem(tu.Network(1, "linear"), tu.Network(1, "linear"))
    found = data.compare(task, times=[0.0, 1.0], runs=2)
    assert isinstance(tu.plot.plot_data(data), Figure)
    assert isinstance(tu.plot.plot_data_comparison(found), Figure)


# Tools


def test_a_figure_is_saved_in_the_format_of_its_name(theory, tmp_path):
    figure = tu.plot.plot_trajectory(theory)
    saved = tu.plot.save_figure(figure, tmp_path / "curve.png")
    assert saved.read_bytes().startswith(b"\x89PNG")
    assert tu.plot.check_figure_path(tmp_path / "curve.pdf").name == "curve.pdf"
    with pytest.raises(tu.InputError, match="must end in"):
        tu.plot.check_figure_path(tmp_path / "curve.txt")


def test_a_document_is_written_whole(tmp_path):
    text = tu.plot.document("A < B", ["<p>text</p>"])
    assert "<title>A &lt; B</title>" in text
    path = tu.plot.write_text(tmp_path / "page.html", text)
    assert path.read_text() == text


def test_a_problem_in_words(theory):
    title, conditions = tu.plot.problem_in_words(theory.problem)
    assert "2" in title
    assert "noise" in conditions
    assert tu.plot.capital("two units") == "Two units"


def test_panels_of_a_figure():
    panels = tu.plot.column([1.0, 2.0], title="head")
    assert len(panels) == 2
    panels[0].plot([0, 1], [1, 2], label="curve", **tu.plot.plain_dots(1))
    tu.plot.label_panel(panels[0], "above")
    tu.plot.outside_legend(panels[0])
    figure = tu.plot.finish(panels, tu.plot.TIME, "head", "default", outcome="agree")
    assert isinstance(figure, Figure)
    assert panels[-1].get_xlabel() == tu.plot.TIME
    grid, axes = tu.plot.panel_grid(2, 3, "title")
    assert isinstance(grid, Figure)
    assert axes.shape == (2, 3)


def test_an_axis_is_logarithmic_if_its_numbers_ask_for_it(axes):
    times = tu.log_times(0.01, 100.0, 20)
    tu.plot.scale_time(axes, times)
    tu.plot.scale_error(axes, np.geomspace(1e-4, 1.0, 20), tu.plot.ERROR)
    assert axes.get_xscale() == "log"
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == tu.plot.ERROR
    assert tu.plot.shown_times(times).tolist() == [False] + [True] * 19
    assert all(tu.plot.shown_times(tu.linear_times(10.0, 5)))


def test_a_linear_axis_begins_at_zero(axes):
    tu.plot.scale_time(axes, tu.linear_times(10.0, 5))
    tu.plot.scale_error(axes, np.array([1.0, 2.0]))
    assert axes.get_xscale() == "linear"
    assert axes.get_ylim()[0] == 0.0


def test_bands_phases_and_marks(axes):
    x = np.array([0.0, 1.0, 2.0])
    tu.plot.fill_band(axes, x, np.ones(3), np.full(3, 0.5), tu.plot.COLORS[0])
    assert len(axes.collections) == 1
    phase = SimpleNamespace(name="search", start=0.0, end=1.0)
    tu.plot.draw_phases([axes], [phase])
    assert axes.patches or len(axes.collections) > 1
    first = tu.plot.spread_marks(tu.linear_times(100.0, 101), place=0, count=2)
    second = tu.plot.spread_marks(tu.linear_times(100.0, 101), place=1, count=2)
    assert set(first).isdisjoint(second)


def test_the_edges_of_cells():
    edges = tu.plot.cell_edges(np.array([1.0, 2.0, 3.0]), logarithmic=False)
    np.testing.assert_allclose(edges, [0.5, 1.5, 2.5, 3.5])
    edges = tu.plot.cell_edges(np.array([1.0, 100.0]), logarithmic=True)
    np.testing.assert_allclose(edges, [0.1, 10.0, 1000.0])


def test_a_drawing_function_requires_the_fields_of_its_result():
    @tu.plot.figure_of("`solve`", "error")
    def draw(result, *, ax=None, title=None):
        return Figure()

    assert isinstance(draw(SimpleNamespace(error=1.0)), Figure)
    with pytest.raises(tu.InputError, match="solve"):
        draw(SimpleNamespace(loss=1.0))


def test_the_style_ends_with_its_block():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with tu.plot.style():
        assert dict(mpl.rcParams) != before
    assert dict(mpl.rcParams) == before


def test_colors_and_marks_are_distinct():
    for values in (tu.plot.COLORS, tu.plot.DASHES, tu.plot.MARKERS):
        assert len(set(values)) == len(values)
    assert len({tu.plot.ALARM, tu.plot.FAINT, tu.plot.INK}) == 3
    assert tu.plot.ERROR_IN_TWO_LINES.replace("\n", " ") == tu.plot.ERROR
