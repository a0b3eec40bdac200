"""HTML cards for notebooks:

well-formed, small, without colors, and with every field.
"""

import inspect
from dataclasses import fields, is_dataclass
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure as PlainFigure

import tutelage as tu
from tutelage import _html
from tutelage._html import ResultCard, in_one_line, sparkline

LARGEST = 200_000  # bytes
VOID = {"br", "meta", "img"}


class Tags(HTMLParser):
    """Every tag is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parsed(value):
    html = value._repr_html_()
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert not tags.open
    assert len(html.encode()) < LARGEST
    for word in ("color:", "background", '"#', "<script", "<style"):
        assert word not in html, word
    return tags


@pytest.fixture(scope="module")
def problem():
    return tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5)
    )


@pytest.fixture(scope="module")
def theory(problem):
    return tu.solve(
        problem, tu.asymmetric_start(problem, dim=1000), times=tu.linear_times(100, 41)
    )


@pytest.fixture(scope="module")
def runs(problem, theory):
    return tu.simulate(problem, theory.start, times=theory.times, runs=4)


@pytest.fixture(scope="module")
def comparison(theory, runs):
    return tu.compare(theory, runs, fluctuations=False)


def test_problem_and_start(problem, theory):
    text = parsed(problem).text
    assert "Network(2, 'erf')" in text
    assert "SGD(lr=0.5)" in text
    start = parsed(theory.start)
    assert "0.275" in start.text
    assert "N = 1000" in start.text
    assert (
        "(20, 20)" in parsed(tu.Start(np.zeros((20, 20)), np.eye(20))).text
    )  # too many numbers to show
    awkward = problem.replace(noise=lambda u: u)  # its name has angle brackets
    assert "<lambda>" in parsed(awkward).text or "function" in parsed(awkward).text


def test_trajectory_tells_its_validity_once_it_is_computed(problem, theory, runs):
    fresh = tu.solve(problem, theory.start, times=theory.times)
    tags = parsed(fresh)
    assert "svg" in tags.seen
    assert "polyline" in tags.seen
    for words in ("K = 2", "M = 2", "finished"):
        assert words in tags.text
    assert "validity" not in fresh.__dict__
    fresh.__dict__["validity"] = theory.validity
    assert "effective rank" in parsed(fresh).text
    many = parsed(runs)
    assert "4 curves" in many.text
    assert many.seen.count("polyline") == 4
    assert "limit:" not in many.text


def test_trajectories_of_tasks_and_of_equations():
    tasks = tu.Tasks([tu.Network(1, "erf"), tu.Network(1, "erf")], tu.Switch(2.0))
    problem = tu.Problem(tu.Network(1, "erf"), tasks, optimizer=tu.SGD(lr=0.5))
    tags = parsed(
        tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(4, 9))
    )
    assert tags.seen.count("polyline") == 2
    assert "2 tasks" in tags.text
    system = tu.Equations(("x",), drift=lambda t, s: (-s.x,), error=lambda s: s.x**2)
    assert (
        "x (11,)"
        in parsed(tu.solve(system, {"x": 1.0}, times=tu.linear_times(1.0, 11))).text
    )


def test_comparison_has_verdict_and_table(comparison):
    tags = parsed(comparison)
    assert comparison.verdict.sentence[1:] in tags.text
    assert "|z|<4" in tags.text
    assert "table" in tags.seen


def test_sweep(problem, tmp_path):
    found = tu.sweep(
        problem,
        {"lr": [0.2, 0.4]},
        start=tu.asymmetric_start(problem),
        times=tu.linear_times(5, 6),
    )
    text = parsed(found).text
    assert "2 points: lr (2)" in text
    axes = PlainFigure().subplots()
    assert found.plot(ax=axes) is axes
    assert axes.lines or axes.collections


def test_every_result_of_the_analyses_is_a_card():
    names = [getattr(tu.analysis, name) for name in tu.analysis.__all__]
    results = [kind for kind in names if inspect.isclass(kind)]
    assert len(results) > 20
    for kind in results:
        assert issubclass(kind, ResultCard), kind
        assert is_dataclass(kind)


def test_results_show_their_fields(problem, theory):
    for result in (
        tu.analysis.phases(theory),
        tu.analysis.phases(theory)[0],
        tu.analysis.plateaus(theory),
        tu.analysis.specialization(theory),
        tu.analysis.early_stopping(theory),
        tu.analysis.critical_learning_rate(problem),
        theory.validity,
    ):
        tags = parsed(result)
        assert str(result).splitlines()[0] in tags.text
        for field in fields(result):
            assert field.name in tags.text or field.name == "curve"


def test_long_texts_are_cut(monkeypatch):
    from dataclasses import dataclass

    @dataclass
    class Long(ResultCard):
        """words: a long field. more: another."""

        words: str
        more: tuple

        def __str__(self):
            return "<&>" * 10**6

    assert "…" in parsed(Long("x" * 10**6, tuple(range(10**5)))).text
    monkeypatch.setattr(_html, "LONGEST_TEXT", 10**7)
    with pytest.raises(AssertionError):
        parsed(Long("x", ()))  # the control: without the cut the card is too large


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1 + 0.2, "0.3"),
        (None, "None"),
        (np.arange(3), "0, 1, 2"),
        (np.linspace(0, 1, 9), "(9,), 0 to 1"),
        ((), ""),
    ],
)
def test_a_value_in_one_line(value, text):
    assert in_one_line(value) == text


def test_a_small_curve_is_logarithmic_where_needed():
    times = np.arange(5.0)
    assert "logarithmic" in sparkline(times, 10.0**-times)
    assert "logarithmic" not in sparkline(times, 1 - 0.1 * times)
    assert sparkline(times, np.full(5, np.nan)) == ""
    assert "nan" not in sparkline(times, [1.0, np.nan, 2.0, 1.0, 3.0])


def test_plot_draws_into_given_axes(theory, runs, comparison):
    for value, drawn in (
        (theory, 1),
        (runs, 5),
        (comparison, 5),
        (tu.analysis.early_stopping(theory), 1),
    ):
        axes = PlainFigure().subplots()
        assert value.plot(ax=axes, title="mine") is axes
        assert len(axes.lines) >= drawn
        assert axes.get_title() == "mine"
        assert axes.get_xlabel()
    both = PlainFigure().subplots()
    theory.plot(ax=both, title="both")
    runs.plot(ax=both)
    assert both.lines[0].get_color() != both.lines[-1].get_color()
    assert both.get_title() == "both"
    assert [len(value.plot().axes) for value in (theory, runs)] == [3, 3]
    with pytest.raises(tu.InputError, match="several panels"):
        tu.analysis.phases(theory).plot(ax=PlainFigure().subplots())
    with pytest.raises(tu.InputError, match="ax is"):
        theory.plot(ax="axes")
