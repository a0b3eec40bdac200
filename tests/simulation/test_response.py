"""The response of the compiled loops to one sample is that of the problem's rule, for everything built in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.simulation.cases import FOUR, softened
from tests.simulation.cases import start as start_of
from tutelage.problem import labels
from tutelage.problem.activation import NAMED_ACTIVATIONS
from tutelage.problem.sample import context_of, label_of, normals_needed, updates_of
from tutelage.simulation.numba_kernels import ParameterState, respond
from tutelage.simulation.prepare import (
    RateTable,
    has_kernels,
    step_constants,
    with_heads,
)
from tutelage.training import losses, rules
from tutelage.training.rules import Parameters

K = 3
M = 2
SAMPLES = 300
STUDENT = tu.Network(K, "tanh", readout=[0.8, -1.1, 0.5], bias=[0.1, -0.3, 0.2])
TEACHER = tu.Network(M, "erf", readout=[1.2, 0.7], bias=[0.2, -0.1])
LABELS = {
    "real": {"labels": labels.Real(), "noise": 0.4},
    "real without noise": {"labels": labels.Real()},
    "sign": {"labels": labels.Sign()},
    "flipped sign": {"labels": labels.Sign(flip=0.2)},
    "logistic": {"labels": labels.Logistic(slope=1.7)},
}
LOSSES = [
    losses.Squared(),
    losses.Absolute(),
    losses.Huber(0.6),
    losses.Logistic(),
    losses.Hinge(),
]
RULES = [
    rules.Hebbian(),
    rules.Perceptron(),
    rules.Perceptron(margin=0.4),
    rules.AdaTron(),
]
COMBINATIONS = {
    f"{name}, {losses.loss_name(loss)}": {**label, "loss": loss}
    for name, label in LABELS.items()
    for loss in LOSSES
    if loss.targets == "real" or not name.startswith("real")
} | {
    f"{name}, {rule}": {**label, "rule": rule}
    for name, label in LABELS.items()
    for rule in RULES
    if not name.startswith("real")
}


def draws(seed=0):
    rng = np.random.default_rng(seed)
    return (
        1.5 * rng.standard_normal((SAMPLES, K)),
        rng.standard_normal((SAMPLES, M)),
        rng.standard_normal(SAMPLES),
    )


def by_machine_code(problem, students, teachers, z):
    """delta, and the forces on readout and bias, one row per sample; and label - output."""
    rule = step_constants(problem, 10)
    rows = []
    gaps = []
    of_label = RateTable(problem, 10, 1).table(0, 1)[0, -1]
    for student, teacher, number in zip(students, teachers, z, strict=True):
        bias = (
            np.array(problem.student.bias)
            if problem.student.bias is not None
            else np.zeros(K)
        )
        params = with_heads(
            ParameterState(
                np.array(problem.student.readout, dtype=float), bias, *np.zeros((6, K))
            )
        )
        delta = np.empty(K)
        z_used = number if rule.draws else 0.0
        gaps.append(
            respond(rule, params, student, teacher, 0, 1.0, of_label, z_used, delta)
        )
        rows.append(np.concatenate([delta, params.readout_sum[0], params.bias_sum]))
    return np.array(rows), np.array(gaps)


def by_the_rule(problem, students, teachers, z):
    student = problem.student
    teacher = problem.teacher
    biases = [
        jnp.zeros(n.hidden) if n.bias is None else jnp.asarray(n.bias)
        for n in (student, teacher)
    ]
    count = normals_needed(problem)
    context = context_of(problem)

    def one(fields, references, number):
        normals = jnp.full(count, number)
        reference = references + biases[1]
        parameters = Parameters(jnp.asarray(student.readout, float), biases[0])
        label = label_of(problem, reference, normals)
        one_of_each = (x[None] for x in (fields + biases[0], reference, label, normals))
        update = updates_of(problem, *one_of_each, parameters, context)
        return jnp.concatenate(
            [update.delta[0], update.parameters.readout[0], update.delta[0]]
        ), label

    return [np.asarray(x) for x in jax.jit(jax.vmap(one))(students, teachers, z)]


def assert_equal_response(problem, seed=0):
    assert has_kernels(problem)
    ours, gap = by_machine_code(problem, *draws(seed))
    expected, label = by_the_rule(problem, *draws(seed))
    np.testing.assert_allclose(ours, expected, rtol=1e-11, atol=1e-13)
    if problem.rule.uses_loss:
        fields = draws(seed)[0] + (
            0.0 if problem.student.bias is None else problem.student.bias
        )
        output = (
            np.asarray(problem.student.activation(jnp.asarray(fields)))
            @ problem.student.readout
        )
        np.testing.assert_allclose(gap, label - output, rtol=1e-11, atol=1e-12)
    return expected, label


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_combination(name):
    expected, label = assert_equal_response(
        tu.Problem(STUDENT, TEACHER, **COMBINATIONS[name])
    )
    assert np.abs(expected).max() > 0.1
    if not name.startswith("real"):
        assert 0.2 < np.mean(label > 0) < 0.95  # both labels were seen


@pytest.mark.parametrize("name", NAMED_ACTIVATIONS)
def test_every_activation(name):
    student = name if NAMED_ACTIVATIONS[name].trainable else "erf"
    networks = (
        tu.Network(K, student, readout=[0.3, -0.2, 0.4]),
        tu.Network(M, name, readout=[0.5, -0.8]),
    )
    assert_equal_response(
        tu.Problem(*networks, loss="logistic", labels=labels.Sign(flip=0.3))
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("sign, logistic", {"loss": losses.Hinge()}),
        ("real, huber", {"loss": losses.Huber(0.61)}),
        ("flipped sign, hinge", {"labels": labels.Sign(flip=0.25)}),
        ("logistic, squared", {"labels": labels.Logistic(slope=1.5)}),
        (f"sign, {rules.Perceptron(0.4)}", {"rule": rules.Perceptron(0.45)}),
    ],
)
def test_another_loss_label_or_rule_is_noticed(name, wrong):
    problem = tu.Problem(STUDENT, TEACHER, **COMBINATIONS[name])
    ours = by_machine_code(problem.replace(**wrong), *draws())[0]
    assert not np.allclose(ours, by_the_rule(problem, *draws())[0], atol=1e-6)


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_never_and_always_flipped(flip):
    assert_equal_response(tu.Problem(STUDENT, TEACHER, labels=labels.Sign(flip=flip)))


def test_far_outputs_stay_finite():
    """exp overflows to infinity, the response does not."""
    network = tu.Network(K, "linear", readout=1e3)
    teacher = tu.Network(M, "linear", readout=1e3)
    for loss in LOSSES:
        assert_equal_response(
            tu.Problem(network, teacher, loss=loss, labels=labels.Logistic(50.0))
        )


class OwnLoss(losses.Squared):
    """A subclass may change anything."""


class OwnRule(rules.Hebbian):
    """The same for a rule."""


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": lambda output, label: (output - label) ** 2},
        {"loss": OwnLoss()},
        {"rule": OwnRule(), "labels": "sign"},
        {"labels": lambda rho, xi: rho[0] * rho[1]},
        {"noise": lambda u: 2 * u - 1},
        {"student": tu.Network(K, softened)},
        {"student": tu.Network(2, ("erf", "relu"))},
        {
            "student": tu.Network(M, "erf", outputs=2),
            "teacher": tu.Network(M, "erf", outputs=2),
        },
    ],
)
def test_what_the_compiled_loops_do_not_have(changes):
    assert not has_kernels(
        tu.Problem(**({"student": STUDENT, "teacher": TEACHER} | changes))
    )


@pytest.mark.parametrize(
    "name",
    [
        "flipped sign, logistic",
        pytest.param("logistic, hinge", marks=pytest.mark.full),
        "real, huber",
    ],
)
def test_compiled_and_traced_weights_agree(name):
    """The same formula as a function of one's own runs in the JAX loop, from the same random numbers."""
    student = tu.Network(
        2, "erf", readout=0.7, train_readout=True, bias=0.1, train_bias=True
    )
    optimizer = tu.SGD(0.9, batch=2, momentum=0.3, weight_decay=0.1)
    problem = tu.Problem(
        student,
        tu.Network(2, "erf"),
        inputs=FOUR,
        optimizer=optimizer,
        **COMBINATIONS[name],
    )
    own = problem.replace(
        loss=losses.Function(lambda output, label: problem.loss(output, label))
    )
    assert has_kernels(problem)
    assert not has_kernels(own)
    options = {
        "dim": 32,
        "times": [0.0, 1.0, 2.0],
        "runs": 2,
        "seed": 3,
        "method": "weights",
    }
    one, other = (tu.simulate(p, start_of(2, 2, 4), **options) for p in (problem, own))
    for variable in ("R", "Q", "readout", "bias"):
        np.testing.assert_allclose(
            one[variable], other[variable], rtol=1e-10, atol=1e-12
        )
    assert not np.allclose(one.Q[:, 0], one.Q[:, -1], atol=1e-3)
