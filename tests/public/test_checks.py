"""The checks of arguments, for authors of extensions: what passes, and what is said."""

import jax
import numpy as np
import pytest

import tutelage as tu
from tutelage import checks

ASYMMETRIC = [[1.0, 0.5], [0.2, 1.0]]
INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]


@pytest.mark.parametrize(
    ("check", "value", "wrong"),
    [
        (checks.as_count, 3, 2.5),
        (checks.as_positive, 0.1, 0.0),
        (checks.as_number, 1.5, "one"),
        (checks.as_array, [1.0, 2.0], ["a"]),
        (checks.as_flag, True, 1),
        (checks.require_finite, [1.0], [np.nan]),
        (checks.require_positive, [1.0], [0.0]),
        (checks.require_nonnegative, [0.0], [-1.0]),
        (checks.require_probability, 0.5, 1.5),
        (checks.require_probabilities, [0.5, 0.5], [0.5, 0.6]),
        (checks.require_increasing, [0.0, 1.0], [1.0, 1.0]),
        (checks.require_gram, [[1.0, 0.5], [0.5, 1.0]], ASYMMETRIC),
        (checks.require_gram, [[1.0, 0.5], [0.5, 1.0]], INDEFINITE),
    ],
)
def test_a_check_passes_what_is_right_and_names_what_is_wrong(check, value, wrong):
    check("the_name", value)
    with pytest.raises(tu.InputError, match="the_name"):
        check("the_name", wrong)


def test_the_values_that_checks_return():
    assert checks.as_count("n", 3) == 3
    assert checks.as_flag("f", False) is False
    assert checks.as_kind("n", 3, int, "an int") == 3
    assert checks.known("word", "a", ["a", "b"]) == "a"
    np.testing.assert_array_equal(checks.as_times(10.0), tu.linear_times(10.0))
    np.testing.assert_array_equal(checks.as_times([0.0, 2.0]), [0.0, 2.0])
    equal = checks.as_probabilities("p", None, 4, "")
    np.testing.assert_allclose(equal, 0.25)


def test_the_messages_of_other_checks():
    with pytest.raises(tu.InputError, match="an int"):
        checks.as_kind("n", "three", int, "an int")
    with pytest.raises(tu.InputError, match="apple"):
        checks.known("fruit", "aple", ["apple", "pear"])
    with pytest.raises(tu.InputError, match="n"):
        checks.require_shape("n", np.zeros(3), (2,))
    with pytest.raises(tu.InputError, match="table"):
        checks.require_memory("a table", 1e15, "Use less.")
    assert "apple" in checks.nearest("aple", ["apple", "pear"])


def test_traced_numbers_are_recognized():
    seen = []

    @jax.jit
    def function(value):
        seen.append(checks.is_traced(value))
        with pytest.raises(tu.InputError):
            checks.require_untraced("value", "a test", value)
        return value

    function(1.0)
    assert seen == [True]
    assert not checks.is_traced(1.0)


def test_names_and_values_in_messages():
    assert checks.name_of(len) == "len"
    assert checks.shown(np.array([0.123456789])) == "[0.123457]"
    assert checks.number_field("rate", checks.require_positive) is not None
