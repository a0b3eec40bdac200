"""The package loads its names on demand; to its users it looks like any other."""

import types

import pytest

import tutelage
import tutelage.simulation.simulate  # imports a package of the same name as the verb
from tutelage.simulation.simulate import simulate as verb


def test_every_public_name_is_there():
    assert set(tutelage.__all__) == {*tutelage._HOME_OF, *tutelage._SUBMODULES, "__version__"}
    assert set(tutelage.__all__) <= set(dir(tutelage))
    for name in tutelage.__all__:
        assert getattr(tutelage, name) is not None


def test_verbs_are_functions_also_after_their_module_was_imported():
    assert tutelage.simulate is verb
    assert isinstance(verb, types.FunctionType)


def test_unknown_name():
    with pytest.raises(ImportError, match="cannot import name 'sovle'"):
        from tutelage import sovle  # noqa: F401  # pyright: ignore
    with pytest.raises(AttributeError) as caught:
        _ = tutelage.sovle  # pyright: ignore
    assert (caught.value.name, caught.value.obj) == ("sovle", tutelage)  # so that Python asks "Did you mean: 'solve'?"
