"""The verbs are found in the package of the analysis and at the top, and are the same."""

import pytest

import tutelage as tu
from tutelage import analysis


@pytest.mark.parametrize("name", ["fixed_point", "plateaus", "fluctuations", "escape_time", "landscape", "linear_network"])
def test_a_verb_is_found_in_both_places(name):
    assert getattr(analysis, name) is getattr(tu, name)


@pytest.mark.parametrize("name", ["solve", "nonsense"])
def test_what_belongs_elsewhere_is_not(name):
    with pytest.raises(AttributeError, match=name):
        getattr(analysis, name)
