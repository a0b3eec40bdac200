"""What the controls can say, and what they refuse."""

import json
import math
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tutelage as tu
from tutelage import InputError
from tutelage.page.controls import BY_NAME, CONTROLS
from tutelage.page.presets import PRESETS, explorer_table
from tutelage.page.settings import Settings


def test_defaults_are_allowed_and_the_table_is_data():
    assert Settings.read({}).changed() == {}
    assert (
        json.loads(json.dumps(explorer_table(Settings.read({}))))["controls"][0]["name"]
        == CONTROLS[0].name
    )


def test_given_overlaps_are_one_more_start():
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.5)
    )
    table = explorer_table(
        Settings.of(problem, tu.Start(np.eye(2), 2 * np.eye(2)), 40.0), local=True
    )
    (start,) = [control for control in table["controls"] if control["name"] == "start"]
    assert start["options"] == ("as given", "random weights", "asymmetric")
    assert table["initial"]["start"] == "as given"


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_presets_build_problems(preset):
    chosen = Settings.read(preset.settings)
    problem = chosen.problem()
    assert chosen.first(problem).dim == chosen["dim"]
    assert preset is PRESETS[0] or chosen.changed()
    assert preset.words.count(". ") in (0, 2)  # three sentences, or none


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_values_outside_are_refused_in_one_sentence(control):
    wrong = {"choice": ["nothing", 3], "flag": [1, "yes"]}.get(
        control.kind, [control.most * 2 + 1, math.nan, math.inf, "1", True]
    )
    for value in wrong:
        with pytest.raises(InputError, match=control.name) as caught:
            Settings.read({control.name: value})
        assert str(caught.value).count("\n") == 0


def settings_or_sentence(read, values):
    try:
        return read(values), ""
    except InputError as error:
        return None, str(error)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3),
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([*BY_NAME, "other"]), anything, max_size=6))
def test_whatever_is_given_is_settings_or_a_sentence(given_):
    chosen, sentence = settings_or_sentence(Settings.read, given_)
    if chosen is None:
        assert "\n" not in sentence
        return
    for name, control in BY_NAME.items():
        if control.kind in ("count", "number"):
            assert control.least <= chosen[name] <= control.most


@pytest.mark.parametrize(
    "given_",
    [
        {
            "students": 2,
            "teachers": 2,
            "lr": 0.3,
            "noise": 0.1,
            "batch": 4,
            "decay": 0.01,
            "end": 40.0,
            "seed": 3,
        },
        {
            "start": "asymmetric",
            "train_readout": True,
            "spectrum": "power law",
            "levels": 4,
            "beta": 0.5,
            "log_time": True,
        },
        {
            "tasks": "two",
            "switch": 7.0,
            "similarity": 0.3,
            "train_readout": True,
            "readout": 0.2,
        },
        {"rule": "dropout", "keep": 0.7, "teachers": 2},
        {"loss": "logistic", "labels": "sign", "students": 1, "teachers": 1},
        {
            "spectrum": "two clusters",
            "distance": 1.5,
            "loss": "hinge",
            "noise": 0.3,
            "students": 2,
            "start": "asymmetric",
        },
        {"spectrum": "XOR", "distance": 2.5, "students": 2, "start": "asymmetric"},
        {"spectrum": "digits", "students": 2},
    ],
    ids=[
        "random",
        "asymmetric",
        "tasks",
        "dropout",
        "classifier",
        "clusters",
        "xor",
        "digits",
    ],
)
def test_toml_describes_this_problem(given_, tmp_path):
    from tutelage.cli.request import ProblemFlags, StartFlags, TimeFlags, read_request

    chosen = Settings.read(given_)
    expected = chosen.problem()
    first = chosen.first(expected)
    path = tmp_path / "problem.toml"
    path.write_text(chosen.as_toml())
    assert tomllib.loads(chosen.as_toml())["start"]["dim"] == chosen["dim"]
    request = read_request(path, ProblemFlags(), StartFlags(), TimeFlags())
    assert request.problem.to_dict() == expected.to_dict()
    assert np.allclose(request.times, chosen.times())
    for a, b in zip(
        request.start.blocks(request.problem), first.blocks(expected), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)


FILE = """
noise = 0.2
[student]
hidden = 2
activation = "tanh"
[teacher]
hidden = 1
activation = "erf"
[optimizer]
lr = 0.3
"""
MORE = """
[start]
R = [[0.3], [0.2]]
Q = [[0.5, 0.1], [0.1, 0.4]]
dim = 50
[times]
end = 7.0
"""


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_settings_of_a_problem_describe_it(preset):
    """Through the controls, with the overlaps where no control has them, or through a file."""
    chosen = Settings.read(preset.settings)
    problem = chosen.problem()
    start = chosen.first(problem)
    found = Settings.of(problem, start, chosen.times())
    assert found.problem().to_dict() == problem.to_dict()
    np.testing.assert_allclose(found.times(), chosen.times())
    r, q, _ = start.blocks(problem)
    if found.start_overlaps is not None:
        np.testing.assert_array_equal(found.start_overlaps["r"], r.ravel())
        assert (
            preset.settings["scale"] != 0.1
        )  # the one that a control would have described
    else:
        np.testing.assert_allclose(
            found.first(problem).blocks(problem)[1], q, rtol=1e-12
        )
    known = Settings.of(problem, start, chosen.times(), overlaps=False)
    assert known.start_overlaps is None
    np.testing.assert_allclose(
        known.first(known.problem()).blocks(problem)[0], r, rtol=1e-12
    )


def test_a_problem_file_takes_the_place_of_the_controls():
    chosen = Settings.read(
        {"toml": FILE, "dim": 200, "end": 30.0, "seed": 3, "scale": 0.5}
    )
    problem = chosen.problem()
    assert problem.to_dict() == tu.Problem.from_toml(FILE).to_dict()
    expected = tu.random_start(problem, dim=200, scale=0.5, seed=3)
    np.testing.assert_allclose(chosen.first(problem).R, expected.R)
    assert (chosen.times()[-1], chosen.times().size) == (30.0, 201)
    assert Settings.read(chosen.values | {"toml": chosen.toml}) == chosen
    whole = Settings.read({"toml": FILE + MORE})
    np.testing.assert_allclose(whole.first(problem).R, [[0.3], [0.2]])
    assert (whole.first(problem).dim, whole.times()[-1]) == (50, 7.0)
    assert whole.as_toml() == FILE + MORE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("noise = ", "not TOML"),
        ("start = 3", "must be a table"),
        (FILE.replace('"tanh"', '"os:system"'), "os"),
        (FILE.replace("hidden = 2", 'hidden = "many"'), "hidden"),
        (FILE + "[start]\nRR = 1", "RR"),
        (FILE + "[times]\nuntil = 1", "until"),
        (3, "must be text"),
    ],
)
def test_a_bad_problem_file_is_refused_in_one_sentence(text, message):
    def read():
        chosen = Settings.read({"toml": text})
        return chosen.first(chosen.problem()), chosen.times()

    with pytest.raises(InputError, match=message):
        read()


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_initial_condition_and_inputs_of_a_preset_have_the_same_dimension(preset):
    chosen = Settings.read(preset.settings)
    problem = chosen.problem()
    start = chosen.first(problem)
    assert start.dim == chosen["dim"]
    assert problem.inputs.known_dim in (None, start.dim)


def test_a_file_of_measured_inputs_has_their_dimension():
    inputs = tu.from_data(tu.digits(), levels=2).inputs
    problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), inputs=inputs)
    chosen = Settings.read({"toml": problem.to_toml()})
    assert chosen.first(chosen.problem()).dim == 61
