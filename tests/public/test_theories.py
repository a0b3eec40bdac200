"""Public tests of the table of theories."""

from inspect import Parameter, signature

import pytest

import tutelage as tu

UNIT = tu.Network(1, "linear")
PROBLEM = tu.Problem(UNIT, UNIT)


class Everything(tu.theories.Theory):
    """A theory that needs nothing and solves nothing."""

    name = "everything"
    observables = (tu.theories.Observable("train_error", "training error", "error"),)

    def solve(self, problem, start, times):
        raise NotImplementedError


def test_the_theories_are_asked_in_order():
    fresh = tu.theories.theory_of(PROBLEM)
    assert fresh.name == "fresh samples"
    assert tu.theories.TABLE[0] is fresh
    last = tu.theories.register(Everything())
    try:
        assert tu.theories.TABLE[-1] is last
        assert tu.theories.covering(PROBLEM) is fresh
        assert last.missing(PROBLEM) == ()
    finally:
        tu.theories.unregister(last)
    assert last not in tu.theories.TABLE


def test_only_a_theory_is_registered():
    with pytest.raises(tu.InputError, match="give a Theory"):
        tu.theories.register(Everything)


@pytest.mark.parametrize("name", ["solve", "solve_batch", "simulate"])
def test_fresh_samples_take_the_options_of_the_function(name):
    """The same names and defaults: a function passes on only what differs from them."""
    fresh = next(row for row in tu.theories.TABLE if row.name == "fresh samples")
    own = fresh.simulator if name == "simulate" else getattr(fresh, name)
    public = signature(getattr(tu, name)).parameters
    defaults = {
        option: parameter.default
        for option, parameter in public.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    }
    assert {p.name: p.default for p in signature(own).parameters.values()} == (
        defaults | ({"accuracy": 1e-3} if name == "solve" else {})
    )
