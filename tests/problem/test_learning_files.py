"""Loss, labels, rule, outputs and activations per unit in files; functions of one's own only from modules one allows."""

import sys

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tutelage as tu
from tests.problem import own_learning as own
from tests.problem.messages import require_refusal

HERE = own.__name__
ONE = tu.Network(1, "linear")
MATRIX = [[1.0, 0.0], [0.5, -0.5], [0.0, 2.0]]


def single(**learning):
    return tu.Problem(ONE, ONE, optimizer=tu.SGD(0.5), **learning)


def three(student, **learning):
    return tu.Problem(student, tu.Network(3, "linear", outputs=3), **learning)


PROBLEMS = {
    "squared": single(),
    "absolute": single(loss="absolute"),
    "huber": single(loss="huber"),
    "huber, delta": single(loss=tu.losses.Huber(1 / 3)),
    "logistic": single(loss="logistic", labels="sign"),
    "hinge, flips": single(loss="hinge", labels=tu.labels.Sign(flip=0.1)),
    "logistic labels": single(loss="logistic", labels="logistic"),
    "logistic labels, slope": single(
        loss="logistic", labels=tu.labels.Logistic(slope=2.5)
    ),
    "hebbian": single(labels="sign", rule="hebbian"),
    "perceptron": single(labels="sign", rule="perceptron"),
    "perceptron, margin": single(labels="sign", rule=tu.rules.Perceptron(margin=0.3)),
    "adatron": single(labels="sign", rule="adatron"),
    "cross-entropy": three(
        tu.Network(3, "linear", outputs=3), loss="cross_entropy", labels="argmax"
    ),
    "outputs": three(
        tu.Network(2, "erf", outputs=3, readout=MATRIX, train_readout=True)
    ),
    "activations": tu.Problem(
        tu.Network(3, ("erf", "relu", "erf")), tu.Network(2, ("sign", "he3"))
    ),
}
OWN = {
    "loss": single(loss=own.log_cosh),
    "loss that bends": single(loss=tu.losses.Function(own.log_cosh, jumps=True)),
    "loss in a class": single(loss=own.Holder.loss),
    "loss class": single(loss=own.Cubic()),
    "loss class, scale": single(loss=own.Cubic(0.25)),
    "labels": tu.Problem(
        ONE, tu.Network(2), labels=tu.labels.Function(own.product, metric="class")
    ),
    "random labels": single(labels=own.sometimes_wrong),
    "rule": single(rule=own.Clipped()),
    "rule, limit": single(rule=own.Clipped(0.5)),
    "noise": single(noise=own.heavy_tails),
    "activation": tu.Problem(
        tu.Network(2, own.swish), tu.Network(2, (own.swish, "erf"))
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_named_ones_survive_a_round_trip(problem):
    assert eqx.tree_equal(tu.Problem.from_toml(problem.to_toml()), problem)
    assert eqx.tree_equal(tu.Problem.from_json(problem.to_json()), problem)
    assert eqx.tree_equal(tu.Problem.from_dict(problem.to_dict()), problem)


def test_a_word_where_there_are_no_parameters_and_a_table_where_there_are():
    assert PROBLEMS["logistic"].to_dict()["loss"] == "logistic"
    assert PROBLEMS["hinge, flips"].to_dict()["labels"] == {"kind": "sign", "flip": 0.1}
    assert not {"loss", "labels", "rule"} & set(PROBLEMS["squared"].to_dict())
    assert PROBLEMS["cross-entropy"].to_dict()["student"] == {
        "hidden": 3,
        "activation": "linear",
        "outputs": 3,
    }
    assert PROBLEMS["activations"].to_dict()["student"]["activation"] == [
        "erf",
        "relu",
        "erf",
    ]


@pytest.mark.parametrize("problem", OWN.values(), ids=OWN)
def test_own_functions_come_back_from_a_module_that_is_allowed(problem):
    for write, read in (
        (problem.to_toml, tu.Problem.from_toml),
        (problem.to_json, tu.Problem.from_json),
    ):
        assert f"{HERE}:" in write()
        assert eqx.tree_equal(read(write(), allow=(HERE,)), problem)
        assert eqx.tree_equal(read(write(), allow=HERE), problem)
        with pytest.raises(tu.InputError) as caught:
            read(write())
        require_refusal(caught.value, HERE, "--import")


def test_nothing_is_imported_before_it_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "loud_module.py").write_text(
        "def loss(output, label):\n    return (label - output) ** 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = single(loss="huber").to_toml().replace("huber", "loud_module:loss")
    with pytest.raises(tu.InputError):
        tu.Problem.from_toml(text, allow=("other_module", "loud"))
    assert "loud_module" not in sys.modules
    assert (
        tu.Problem.from_toml(text, allow=("loud_module",)).loss.function
        is sys.modules.pop("loud_module").loss
    )


def test_a_stored_trajectory_never_imports(tmp_path, monkeypatch):
    (tmp_path / "quiet_module.py").write_text(
        "def loss(output, label):\n    return (label - output) ** 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = single(loss="huber").to_toml().replace("huber", "quiet_module:loss")
    problem = tu.Problem.from_toml(text, allow=("quiet_module",))
    assert problem.loss.function is sys.modules["quiet_module"].loss
    curve = np.ones(2)
    number = np.asarray(0.0)
    trajectory = tu.Trajectory(
        np.arange(2.0), {}, curve, number.astype(int), number, number, problem=problem
    )
    path = trajectory.save(tmp_path / "a.nc")
    del sys.modules["quiet_module"]
    back = tu.load(path)
    assert back.problem is None
    assert "quiet_module" not in sys.modules
    dataset = trajectory.to_dataset().assign_attrs(
        problem=FOREIGN
    )  # written by somebody else
    with pytest.raises(tu.InputError) as caught:
        tu.Trajectory.from_dataset(dataset)
    require_refusal(caught.value, "quiet_module")
    assert "quiet_module" not in sys.modules


FOREIGN = single().to_json()[:-1] + ', "loss": "quiet_module:loss"}'
FILE = "{top}\n[student]\nhidden = 1\n{student}\n[teacher]\nhidden = 1\n"
BAD = {
    "loss = 'logistc'\nlabels = 'sign'": ("loss", "'logistic'"),
    "labels = 'sgn'": ("labels", "'sign'"),
    "rule = 'percepton'": ("rule", "'perceptron'"),
    "loss = 3": ("loss is 3", "squared"),
    "loss = { delta = 0.5 }": ("loss.kind", "huber"),
    "loss = { kind = 'hubr', delta = 0.5 }": ("'huber'",),
    "loss = { kind = 'huber', dleta = 0.5 }": ("[loss]", "'delta'"),
    "loss = { kind = 'huber', delta = -1 }": ("[loss]", "delta is -1"),
    "labels = { kind = 'sign', flip = 1.5 }": ("[labels]", "probability"),
    "labels = { kind = 'sign', flip = -0.1 }": ("[labels]", "probability"),
    "labels = { kind = 'logistic', slope = 0 }": ("slope", "positive"),
    "rule = { kind = 'perceptron', margin = 'wide' }": ("margin", "number"),
    "rule = { kind = 'hebbian', margin = 1.0 }": ("[rule]", "margin"),
    "los = 'logistic'": ("'loss'",),
    "loss = 'hinge'": ("hinge", "labels='sign'"),
    "loss = 'os:system'": ("'os'", "allow"),
    "loss = 'no_such_module_here:f'": ("no_such_module_here", "imported"),
    "loss = 'HERE:log_cos'": ("'log_cos'", "'log_cosh'"),
    "loss = 'HERE:NUMBER'": ("function",),
    "loss = 'HERE:Clipped'": ("Loss",),
    "loss = 'HERE:'": ("'module:function'",),
    "loss = ':log_cosh'": ("'module:function'",),
    "loss = 'HERE:log cosh'": ("'module:function'",),
    "loss = { kind = 'HERE:log_cosh', jump = true }": ("[loss]", "'jumps'"),
    "loss = { kind = 'HERE:log_cosh', function = 1 }": ("[loss]", "jumps"),
    "labels = { kind = 'HERE:product', metric = 'clas' }": ("metric", "'class'"),
    "rule = 'HERE:log_cosh'": ("Rule",),
    "noise = 'HERE:log_cosh'": ("noise", "quantile"),
    "noise = 'loud'": ("noise",),
}
ALLOWED = (HERE, "no_such_module_here")


@pytest.mark.parametrize(("top", "mentions"), BAD.items())
def test_bad_files_are_refused(top, mentions):
    with pytest.raises(tu.InputError) as caught:
        tu.Problem.from_toml(
            FILE.format(top=top.replace("HERE", HERE), student=""), allow=ALLOWED
        )
    require_refusal(caught.value, *mentions)


@pytest.mark.parametrize(
    ("student", "mentions"),
    [
        ("outputs = 0", ("outputs",)),
        ("outputs = 2", ("[student]", "readout")),
        ("outputs = 2\nreadout = [[1.0, 2.0]]", ("(2, 1)",)),
        ("activation = ['erf', 'relu']", ("2 activations",)),
        (f"activation = '{HERE}:NUMBER'", ("student.activation", "function")),
        ("activation = 'json:dumps'", ("'json'", "--import json")),
    ],
)
def test_bad_networks_are_refused(student, mentions):
    with pytest.raises(tu.InputError) as caught:
        tu.Problem.from_toml(FILE.format(top="", student=student), allow=ALLOWED)
    require_refusal(caught.value, *mentions)


@pytest.mark.parametrize(
    ("problem", "mentions"),
    [
        (single(loss=lambda output, label: (label - output) ** 2), ("loss", "file")),
        (single(labels=lambda rho, xi: rho[0]), ("labels", "file")),
        (single(noise=stats.t(3).ppf), ("noise", "file")),
        (
            tu.Problem(tu.Network(1, lambda x: jnp.tanh(2 * x)), ONE),
            ("activation", "file"),
        ),
        (single(rule=own.Forgetful()), ("Forgetful", "'limit'")),
    ],
    ids=["loss", "labels", "noise", "activation", "rule"],
)
def test_what_no_module_has_by_name_is_not_written(problem, mentions):
    with pytest.raises(tu.InputError) as caught:
        problem.to_toml()
    require_refusal(caught.value, *mentions)


@pytest.mark.parametrize("allow", [3, [3], None])
def test_modules_are_given_by_name(allow):
    with pytest.raises(tu.InputError) as caught:
        tu.Problem.from_toml(single().to_toml(), allow=allow)
    require_refusal(caught.value, "allow", "modules")


def test_replace_changes_loss_labels_rule_and_their_fields():
    signs = single(loss="logistic", labels="sign")
    assert eqx.tree_equal(
        signs.replace(flip=0.2), single(loss="logistic", labels=tu.labels.Sign(0.2))
    )
    assert eqx.tree_equal(
        signs.replace(**{"labels.flip": 0.2, "loss": "hinge"}).loss, tu.losses.Hinge()
    )
    assert eqx.tree_equal(
        single().replace(loss="huber", delta=0.5), single(loss=tu.losses.Huber(0.5))
    )
    assert eqx.tree_equal(
        single().replace(labels="sign", rule="perceptron", margin=0.1).rule,
        tu.rules.Perceptron(0.1),
    )
    changed = OWN["labels"].replace(**{"labels.function": own.sometimes_wrong})
    assert (changed.labels.random, changed.labels.metric) == (True, "class")
    for name in ("flip", "slope", "delta", "margin"):
        with pytest.raises(tu.InputError, match="the name of a change"):
            single().replace(**{name: 0.5})
    wide = PROBLEMS["cross-entropy"].replace(
        **{
            f"{who}.{what}": 4
            for who in ("student", "teacher")
            for what in ("hidden", "outputs")
        }
    )
    assert np.array_equal(wide.student.readout, np.eye(4))
    with pytest.raises(tu.InputError, match="3 activations"):
        PROBLEMS["activations"].replace(**{"student.hidden": 4})


# Starts of networks with several outputs.


def test_starts_of_several_outputs():
    problem = PROBLEMS["outputs"]
    K = 2
    M = 3
    for start in (
        tu.random_start(problem, dim=100, seed=3),
        tu.random_start(problem),
        tu.asymmetric_start(problem),
    ):
        assert (start.R.shape, start.Q.shape, start.readout) == ((K, M), (K, K), None)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((K, 40))
    teacher = rng.standard_normal((M, 40))
    start = tu.start_from_weights(
        problem, W, teacher, readout=np.arange(6.0).reshape(3, 2)
    )
    np.testing.assert_allclose(start.R, W @ teacher.T / 40)
    theory = tu.solve(problem, start, times=[0.0, 0.01], rtol=1e-4)
    np.testing.assert_array_equal(theory.readout[0], start.readout)
    default = tu.solve(
        problem, tu.random_start(problem, dim=40), times=[0.0, 0.01], rtol=1e-4
    )
    np.testing.assert_array_equal(default.readout[0], MATRIX)


@pytest.mark.parametrize("readout", [np.ones(2), np.ones((2, 2))])
def test_a_start_with_other_outputs_is_refused(readout):
    problem = PROBLEMS["outputs"]
    start = tu.Start(R=np.zeros((2, 3)), Q=np.eye(2), readout=readout)
    with pytest.raises(tu.InputError) as caught:
        start.blocks(problem)
    require_refusal(caught.value, str(readout.shape), "(3, 2)")
