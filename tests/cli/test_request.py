"""How a file and flags become a problem, a start and times."""

import numpy as np

import tutelage as tu
from tutelage.cli.request import ProblemFlags, StartFlags, TimeFlags, read_request

FILE = """
noise = 0.1
[student]
hidden = 2
activation = "relu"
[teacher]
hidden = 2
activation = "relu"
[optimizer]
lr = { kind = "cosine", initial = 0.5, end = 10.0 }
[start]
seed = 4
dim = 200
[times]
end = 10
log = true
points = 6
"""


def request(path=None, what=None, start=None, times=None):
    return read_request(
        path,
        ProblemFlags(**what or {}),
        StartFlags(**start or {}),
        TimeFlags(**times or {}),
    )


def test_defaults():
    asked = request()
    expected = tu.Problem(
        tu.Network(3, "erf"), tu.Network(3, "erf"), optimizer=tu.SGD(lr=0.5)
    )
    assert asked.problem.to_dict() == expected.to_dict()
    np.testing.assert_array_equal(asked.times, np.linspace(0, 300, 201))
    np.testing.assert_array_equal(
        asked.start.Q, tu.random_start(expected, dim=1000, scale=0.1, seed=0).Q
    )


def test_every_flag_arrives():
    flags = {
        "student_units": 2,
        "teacher_units": 4,
        "activation": "relu",
        "teacher_activation": "sign",
        "lr": 0.2,
        "noise": 0.3,
        "batch": 4,
        "weight_decay": 0.01,
        "train_readout": True,
        "beta": 1.0,
        "levels": 5,
    }
    asked = request(
        what=flags,
        start={"dim": 50, "scale": 0.5, "seed": 7},
        times={"times": 20.0, "points": 5},
    )
    expected = tu.Problem(
        tu.Network(2, "relu", train_readout=True),
        tu.Network(4, "sign"),
        tu.PowerLaw(1.0, 5),
        tu.SGD(0.2, batch=4, weight_decay=0.01),
        0.3,
    )
    assert asked.problem.to_dict() == expected.to_dict()
    np.testing.assert_array_equal(
        asked.start.R, tu.random_start(expected, dim=50, scale=0.5, seed=7).R
    )
    np.testing.assert_array_equal(asked.times, [0, 5, 10, 15, 20])


def test_flags_of_the_learning_rule_arrive():
    flags = {"student_units": 1, "teacher_units": 1, "activation": "linear"}
    signs = request(what=flags | {"loss": "logistic", "labels": "sign"}).problem
    assert (type(signs.loss), type(signs.labels)) == (
        tu.losses.Logistic,
        tu.labels.Sign,
    )
    flipped = request(what=flags | {"loss": "hinge", "flip": 0.1}).problem
    assert (type(flipped.loss), float(flipped.labels.flip)) == (tu.losses.Hinge, 0.1)
    assert isinstance(
        request(what=flags | {"labels": "sign", "rule": "hebbian"}).problem.rule,
        tu.rules.Hebbian,
    )
    own = request(
        what=flags
        | {
            "loss": "tests.problem.own_learning:log_cosh",
            "imports": ["tests.problem.own_learning"],
        }
    )
    assert own.problem.loss.function.__name__ == "log_cosh"


def test_a_file_names_the_learning_rule_and_flags_win(folder):
    path = folder / "p.toml"
    path.write_text(
        "loss = 'hinge'\nlabels = { kind = 'sign', flip = 0.2 }\n[student]\nhidden = 1\n[teacher]\nhidden = 1\n"
    )
    assert float(request(path).problem.labels.flip) == 0.2
    changed = request(path, {"loss": "logistic", "flip": 0.3}).problem
    assert (type(changed.loss), float(changed.labels.flip)) == (tu.losses.Logistic, 0.3)


def test_alone_the_teacher_is_like_the_student():
    assert (
        request(what={"activation": "relu"}).problem.teacher.activation.name == "relu"
    )


def test_flags_win_over_the_file_one_by_one(folder):
    path = folder / "p.toml"
    path.write_text(FILE)
    asked = request(
        path, {"activation": "erf", "noise": 0.0}, {"dim": 100}, {"log_times": False}
    )
    assert asked.problem.student.activation.name == "erf"
    assert asked.problem.teacher.activation.name == "relu"
    assert float(asked.problem.noise) == 0.0
    assert isinstance(asked.problem.optimizer.lr, tu.schedules.Cosine)
    assert asked.start_table == {"seed": 4, "dim": 100}
    np.testing.assert_array_equal(asked.times, np.linspace(0, 10, 6))
    np.testing.assert_allclose(request(path).times, [0, 1e-3, 1e-2, 1e-1, 1, 10])


def test_one_half_of_a_power_law_may_come_from_the_file(folder):
    path = folder / "p.toml"
    path.write_text(
        "[student]\nhidden = 1\n[teacher]\nhidden = 1\n[inputs]\nkind = 'power_law'\nbeta = 0.5\nlevels = 3\n"
    )
    inputs = request(path, {"levels": 7}).problem.inputs
    assert (float(inputs.beta), inputs.levels) == (0.5, 7)


def test_outputs_are_those_of_student_and_teacher():
    """Argmax labels and cross-entropy: one output per unit."""
    asked = request(
        what={"outputs": 3, "labels": "argmax", "loss": "cross_entropy"}
    ).problem
    expected = tu.Network(3, "erf", outputs=3)
    assert asked.student.outputs == asked.teacher.outputs == 3
    np.testing.assert_array_equal(asked.student.readout, expected.readout)
    assert (type(asked.loss), type(asked.labels)) == (
        tu.losses.CrossEntropy,
        tu.labels.Argmax,
    )


def test_a_file_may_give_the_readout_of_several_outputs(folder):
    path = folder / "p.toml"
    path.write_text(
        "[student]\nhidden = 3\nreadout = [[1, 0, 1], [0, 1, 1]]\n[teacher]\nhidden = 2\n"
    )
    asked = request(path, {"outputs": 2}).problem
    np.testing.assert_array_equal(asked.student.readout, [[1, 0, 1], [0, 1, 1]])


def test_a_learning_rate_may_be_a_function_of_a_module(folder, monkeypatch):
    (folder / "my_rates.py").write_text("def slower(t):\n    return 0.5 / (1 + t)\n")
    monkeypatch.syspath_prepend(folder)
    path = folder / "p.toml"
    path.write_text(
        "[student]\nhidden = 1\n[teacher]\nhidden = 1\n[optimizer]\nlr = 'my_rates:slower'\n"
    )
    asked = request(path, {"imports": ["my_rates"]}).problem
    assert float(asked.optimizer.lr(1.0)) == 0.25
    assert asked.to_dict()["optimizer"]["lr"] == "my_rates:slower"
    again = tu.Problem.from_dict(asked.to_dict(), ["my_rates"])
    assert again.optimizer.lr is asked.optimizer.lr
