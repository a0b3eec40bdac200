"""The namespace of analyses:

what it holds, what it does not, and how results find their figures.
"""

from pathlib import Path

import pytest

import tutelage as tu
from tutelage import analysis
from tutelage.analysis.result import AnalysisResult


@pytest.mark.parametrize(
    "name",
    [
        "fixed_point",
        "plateaus",
        "fluctuations",
        "escape_time",
        "landscape",
        "drift_matrices",
    ],
)
def test_an_analysis_is_in_its_namespace_only(name):
    assert callable(getattr(analysis, name))
    with pytest.raises(AttributeError, match=f"It is tutelage.analysis.{name}"):
        getattr(tu, name)


@pytest.mark.parametrize("name", ["solve", "nonsense"])
def test_what_belongs_elsewhere_is_not(name):
    with pytest.raises(AttributeError, match=name):
        getattr(analysis, name)


def test_importing_a_module_does_not_hide_a_function():
    """No module has the name of a function, whose place it would take once it is imported."""
    modules = {path.stem for path in Path(analysis.__file__).parent.glob("*.py")}
    assert len(modules) > 10
    assert not modules & {*analysis.__all__}


def test_every_result_that_draws_itself_has_a_figure():
    """`AnalysisResult.plot` finds its function by the name that the class gives:

    each must exist.
    """
    classes = [getattr(analysis, name) for name in analysis.__all__] + [
        tu.schedules.OptimalProtocol
    ]
    figures = {
        value.figure
        for value in classes
        if getattr(value, "plot", None) is AnalysisResult.plot
    }
    assert len(figures) > 12
    assert all(callable(getattr(tu.plot, name)) for name in figures)
