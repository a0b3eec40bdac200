"""The namespace of analyses: what it holds, what it does not, and how results find their figures."""

import pytest

import tutelage as tu
from tutelage import analysis
from tutelage.analysis.result import RESULT_FIGURES, AnalysisResult, figure_function


@pytest.mark.parametrize("name", ["fixed_point", "plateaus", "fluctuations", "escape_time", "landscape", "drift_matrices"])
def test_an_analysis_is_in_its_namespace_only(name):
    assert callable(getattr(analysis, name))
    with pytest.raises(AttributeError, match=f"It is tutelage.analysis.{name}"):
        getattr(tu, name)


@pytest.mark.parametrize("name", ["solve", "nonsense"])
def test_what_belongs_elsewhere_is_not(name):
    with pytest.raises(AttributeError, match=name):
        getattr(analysis, name)


def test_importing_a_module_does_not_hide_a_function():
    """Modules lie in packages, so that none takes the place of the function of the same name."""
    import tutelage.analysis.curves.phases
    import tutelage.analysis.noise.fluctuations  # noqa: F401

    assert all(callable(getattr(analysis, name)) for name in analysis.__all__)


def test_every_result_that_draws_itself_has_a_figure():
    """`AnalysisResult.plot` finds its function by the name of the class: each must be in the table, and exist."""
    classes = [getattr(analysis, name) for name in analysis.__all__] + [tu.schedules.OptimalSchedule]
    drawn = {value.__name__ for value in classes if getattr(value, "plot", None) is AnalysisResult.plot}
    assert len(drawn) > 12
    assert drawn <= RESULT_FIGURES.keys()
    assert all(callable(figure_function(name)) for name in RESULT_FIGURES)
