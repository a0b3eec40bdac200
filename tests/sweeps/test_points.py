"""Names and values: what a sweep changes, and the problem at each point."""

import itertools
import json

import numpy as np
import pytest

import tutelage as tu
from tests.problems import pair
from tests.sweeps.questions import spec_of
from tutelage.sweeps.spec import start_values

PROBLEM = pair(2, 2, noise=0.1, inputs=tu.PowerLaw(1.0, 3))


def test_a_grid_is_every_combination_and_its_last_axis_runs_fastest():
    axes = {"lr": [0.1, 0.2], "noise": [0.0, 0.5, 1.0], "batch": [1, 4]}
    spec = spec_of(PROBLEM, over=axes)
    expected = [
        dict(zip(axes, values, strict=True))
        for values in itertools.product(*axes.values())
    ]
    assert [spec.point(i) for i in range(spec.count)] == expected
    assert spec.shape == (2, 3, 2)


def test_a_list_is_as_it_is():
    listed = [{"lr": 0.1, "noise": 0.0}, {"noise": 1.0, "lr": 0.1}]
    spec = spec_of(PROBLEM, over=None, points=listed)
    assert spec.point(1) == {"lr": 0.1, "noise": 1.0}
    assert {name: list(values) for name, values in spec.alone.items()} == {
        "lr": ["0.1"],
        "noise": ["0.0", "1.0"],
    }
    assert spec.shape == (2,)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ({"lr": 0.3}, {"lr": 0.3}),
        ({"optimizer.lr": 0.3, "noise": 0.7}, {"lr": 0.3, "noise": 0.7}),
        (
            {"student.hidden, teacher.hidden": 3},
            {"student.hidden": 3, "teacher.hidden": 3},
        ),
        (
            {"student.activation, teacher.activation": "relu"},
            {"student.activation": "relu", "teacher.activation": "relu"},
        ),
        ({"inputs.beta": 2.0, "inputs.levels": 5}, {"beta": 2.0, "levels": 5}),
        (
            {"lr": {"kind": "power_decay", "initial": 0.5, "exponent": 0.3}},
            {"lr": tu.schedules.PowerDecay(0.5, exponent=0.3)},
        ),
        ({"inputs": {"kind": "isotropic"}}, {"inputs": tu.Isotropic()}),
        ({"dim": 300, "scale": 0.2, "batch": 8}, {"batch": 8}),
    ],
)
def test_the_problem_of_a_point_is_that_of_replace(point, expected):
    assert (
        spec_of(PROBLEM).problem_at(point).to_dict()
        == PROBLEM.replace(**expected).to_dict()
    )


def test_the_start_has_names_of_its_own():
    assert start_values({"lr": 1.0, "dim": 300, "scale": 0.2}) == {
        "dim": 300,
        "scale": 0.2,
    }


def test_values_become_plain():
    over = {
        "lr": [tu.schedules.Cosine(0.5, 0.1, 100.0), 0.2],
        "noise": np.array([0.0, 0.5]),
        "inputs": [tu.Isotropic()],
    }
    spec = spec_of(PROBLEM, over=over)
    first = {
        name: values[0] for name, values in json.loads(json.dumps(spec.over)).items()
    }
    expected = PROBLEM.replace(lr=over["lr"][0], noise=0.0, inputs=tu.Isotropic())
    assert spec.problem_at(first).to_dict() == expected.to_dict()
    with pytest.raises(tu.InputError, match="own function"):
        spec_of(PROBLEM, over={"lr": [lambda t: 0.1]})


@pytest.mark.parametrize(
    ("over", "listed", "words"),
    [
        (None, None, "neither"),
        ({"lr": [1]}, [{"lr": 1}], "both"),
        ({}, None, "names with lists"),
        (
            {"learning_rate": [1]},
            None,
            r"'learning_rate'; it must be one of .*lr.*weight_decay",
        ),
        ({"hidden": [1, 2]}, None, "say which, as 'student.hidden'"),
        ({"lr": [0.1], "optimizer.lr": [0.2]}, None, "the same"),
        ({"lr": 0.1}, None, "list of values"),
        ({"lr": []}, None, "at least one"),
        ({"lr": [0.1, 0.2, 0.1]}, None, "twice"),
        ({"lr": [0.1, -0.2]}, None, "lr the value -0.2: .*positive"),
        ({"student.activation": ["erf", "eerf"]}, None, "'eerf'"),
        ({"dim": [0]}, None, "dim"),
        (None, [], "list of points"),
        (None, [{"lr": 1.0}, {"noise": 1.0}], "point 1"),
        (None, [{"rate": 1.0}], "'rate'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(over, listed, words):
    with pytest.raises(tu.InputError, match=words) as refusal:
        spec_of(PROBLEM, over=over, points=listed)
    assert "\n" not in str(refusal.value)


def test_a_short_name_of_absent_inputs_is_unknown():
    with pytest.raises(tu.InputError, match="'beta'"):
        spec_of(pair(2, 2), over={"beta": [1.0]})
