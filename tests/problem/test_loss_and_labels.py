"""Losses, labels, rules and averages that do not fit are refused with one message:

what was given, and how to fix it.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problem.messages import require_refusal

UNIT = tu.Network(1, "linear")
PAIR = tu.Network(2, "erf")
CLASSES = tu.Network(3, "linear", outputs=3)
START = tu.Start([[0.1]], [[0.5]])
LEARNS = tu.Network(1, "erf", train_readout=True)


def problem(student=UNIT, teacher=None, **parts):
    return tu.Problem(student, student if teacher is None else teacher, **parts)


LOGISTIC = problem(loss="logistic", labels="sign")
HINGE = problem(LEARNS, tu.Network(1, "erf"), loss="hinge", labels="sign")

DECAY = tu.Equations(names=("x",), drift=lambda t, s: (-s.x,), error=lambda s: s.x)


def solve(**options):
    return tu.solve(LOGISTIC, START, [0.0, 0.1], **options)


def nan_loss(output, label):
    return jnp.log(label - output)


def numpy_loss(output, label):
    return float(np.abs(output - label))


def vector_loss(output, label):
    return jnp.stack([output, label])


def one_argument(output):
    return output


def ignores_fields(rho, xi):
    return jnp.where(xi < 0.5, 1.0, -1.0)


def numpy_label(rho, xi):
    return float(rho[0])


def matrix_label(rho, xi):
    return jnp.outer(rho, rho)


def pair_label(rho, xi):
    return rho


def zero_one(rho, xi):
    return jnp.where(rho[0] > 0, 1.0, 0.0)


def nan_label(rho, xi):
    return jnp.sqrt(rho[0])


class WideRule(tu.Rule):
    def update(self, sample, parameters, context):
        return self.result(jnp.ones(5), parameters)


class BareRule(tu.Rule):
    def update(self, sample, parameters, context):
        return sample.student


class NumpyRule(tu.Rule):
    def update(self, sample, parameters, context):
        return self.result(np.array([float(sample.student[0])]), parameters)


class MissingParameters(tu.Rule):
    def update(self, sample, parameters, context):
        return tu.rules.Update(sample.student, None)


class WideReadout(tu.Rule):
    def update(self, sample, parameters, context):
        return self.result(sample.student, parameters, readout=jnp.ones(4))


class WrongRandomness(tu.Rule):
    def randomness(self, time):
        return [0.0, 1.0]

    def update(self, sample, parameters, context):
        return self.result(sample.student, parameters)


class NanLoss(tu.losses.Loss):
    def __call__(self, output, label):
        return jnp.log(label - output)


class BrokenLabels(tu.labels.Labels):
    def label(self, output, rho, xi, noise):
        return output[0]


def falls(u):
    return -np.asarray(u)


def scalar_only(u):
    return 1.0 if u > 0.5 else -1.0


# name: (what is called, what the message must mention)
CASES = {
    # losses
    "loss unknown": (
        lambda: problem(loss="logistics"),
        ["loss", "'logistics'", "nearest is 'logistic'"],
    ),
    "loss unlike any": (
        lambda: problem(loss="zzz"),
        ["loss", "'zzz'", "cross_entropy"],
    ),
    "loss number": (lambda: problem(loss=2), ["loss", "2", "loss(output, label)"]),
    "loss None": (lambda: problem(loss=None), ["loss", "None", "squared"]),
    "loss class": (lambda: problem(loss=tu.losses.Huber), ["class Huber", "Huber()"]),
    "loss labels": (
        lambda: problem(loss=tu.labels.Sign()),
        ["loss", "Sign", "squared"],
    ),
    "loss NaN": (lambda: problem(loss=nan_loss), ["nan_loss", "finite"]),
    "loss subclass NaN": (lambda: problem(loss=NanLoss()), ["NanLoss", "finite"]),
    "loss not JAX": (lambda: problem(loss=numpy_loss), ["numpy_loss", "jax.numpy"]),
    "loss shape": (
        lambda: problem(loss=vector_loss),
        ["vector_loss", "(2,)", "one number"],
    ),
    "loss arguments": (
        lambda: problem(loss=one_argument),
        ["one_argument", "loss(output, label)"],
    ),
    "loss function of a number": (
        lambda: tu.losses.Function(3),
        ["3", "loss(output, label)"],
    ),
    "jumps word": (
        lambda: tu.losses.Function(nan_loss, jumps="yes"),
        ["jumps", "'yes'", "True or False"],
    ),
    "Huber zero": (lambda: tu.losses.Huber(0.0), ["delta", "0", "positive"]),
    "Huber word": (lambda: tu.losses.Huber("1"), ["delta", "'1'", "number"]),
    "Huber array": (
        lambda: tu.losses.Huber([1.0, 2.0]),
        ["delta", "(2,)", "single number"],
    ),
    # labels
    "labels unknown": (
        lambda: problem(labels="signs"),
        ["labels", "'signs'", "nearest is 'sign'"],
    ),
    "labels number": (lambda: problem(labels=1), ["labels", "1", "label(rho, xi)"]),
    "labels class": (lambda: problem(labels=tu.labels.Sign), ["class Sign", "Sign()"]),
    "labels loss": (
        lambda: problem(labels=tu.losses.Hinge()),
        ["labels", "Hinge", "sign"],
    ),
    "flip above one": (
        lambda: tu.labels.Sign(flip=1.5),
        ["flip", "1.5", "between 0 and 1"],
    ),
    "flip negative": (
        lambda: tu.labels.Sign(flip=-0.1),
        ["flip", "-0.1", "between 0 and 1"],
    ),
    "flip NaN": (lambda: tu.labels.Sign(flip=float("nan")), ["flip", "nan", "finite"]),
    "flip array": (
        lambda: tu.labels.Sign(flip=[0.1, 0.2]),
        ["flip", "(2,)", "single number"],
    ),
    "slope zero": (lambda: tu.labels.Logistic(slope=0.0), ["slope", "0", "positive"]),
    "metric unknown": (
        lambda: tu.labels.Function(zero_one, metric="classes"),
        ["metric", "'classes'", "'class'"],
    ),
    "label function of a number": (
        lambda: tu.labels.Function(3),
        ["3", "label(rho, xi)"],
    ),
    "label ignores fields": (
        lambda: problem(labels=ignores_fields),
        ["ignores_fields", "depend on rho"],
    ),
    "label constant": (
        lambda: problem(labels=lambda rho, xi: jnp.ones(())),
        ["1", "depend on rho"],
    ),
    "label not JAX": (
        lambda: problem(labels=numpy_label),
        ["numpy_label", "jax.numpy"],
    ),
    "label arguments": (
        lambda: problem(labels=one_argument),
        ["one_argument", "label(rho, xi)"],
    ),
    "label beyond the fields": (
        lambda: problem(labels=lambda rho, xi: rho @ jnp.ones(3)),
        ["1 teacher field", "(M,)"],
    ),
    "label matrix": (
        lambda: problem(PAIR, labels=matrix_label),
        ["matrix_label", "(2, 2)", "vector"],
    ),
    "label NaN": (lambda: problem(labels=nan_label), ["nan_label", "finite"]),
    "label shape": (
        lambda: problem(PAIR, labels=pair_label),
        ["(2,)", "1 output", "outputs"],
    ),
    "label one number for three outputs": (
        lambda: problem(CLASSES, labels=zero_one),
        ["single number", "(3,)", "outputs"],
    ),
    "labels subclass fails": (
        lambda: problem(labels=BrokenLabels()),
        ["BrokenLabels", "jax.numpy"],
    ),
    # losses and labels together
    "cross entropy, one output": (
        lambda: problem(loss="cross_entropy", labels="argmax"),
        ["argmax", "one output", "outputs=3"],
    ),
    "cross entropy, signs": (
        lambda: problem(loss="cross_entropy", labels="sign"),
        ["cross_entropy", "'sign'", "argmax"],
    ),
    "cross entropy, own labels, one output": (
        lambda: problem(loss="cross_entropy", labels=lambda rho, xi: rho[0]),
        ["cross_entropy", "two outputs", "logistic"],
    ),
    "logistic, real labels": (
        lambda: problem(loss="logistic"),
        ["logistic", "'real'", "labels='sign'"],
    ),
    "hinge, real labels": (
        lambda: problem(loss="hinge"),
        ["hinge", "'real'", "labels='sign'"],
    ),
    "logistic, three outputs": (
        lambda: problem(CLASSES, loss="logistic", labels="argmax"),
        ["logistic", "'class'", "labels='sign'"],
    ),
    "logistic, labels zero and one": (
        lambda: problem(loss="logistic", labels=zero_one),
        ["zero_one", "0", "-1 and 1"],
    ),
    "sign, three outputs": (
        lambda: problem(CLASSES, labels="sign"),
        ["signs", "3 outputs", "argmax"],
    ),
    "sign with noise": (
        lambda: problem(labels="sign", noise=0.1),
        ["noise", "0.1", "Sign", "flip"],
    ),
    "argmax with noise": (
        lambda: problem(CLASSES, labels="argmax", noise=0.1),
        ["noise", "0.1", "Argmax", "real"],
    ),
    "sign with quantiles": (
        lambda: problem(labels="sign", noise=falls),
        ["noise", "function", "labels='real'"],
    ),
    "quantiles fall": (lambda: problem(noise=falls), ["noise", "increasing", "ppf"]),
    "quantiles of one number": (
        lambda: problem(noise=scalar_only),
        ["noise", "array", "ppf"],
    ),
    "quantiles, three outputs": (
        lambda: problem(CLASSES, noise=lambda u: u),
        ["noise", "several outputs", "number"],
    ),
    "outputs differ": (
        lambda: problem(CLASSES, UNIT),
        ["3 outputs", "teacher 1", "equal"],
    ),
    # rules
    "rule unknown": (
        lambda: problem(rule="perceptrn"),
        ["rule", "'perceptrn'", "nearest is 'perceptron'"],
    ),
    "rule class": (
        lambda: problem(rule=tu.rules.Hebbian, labels="sign"),
        ["class Hebbian", "Hebbian()"],
    ),
    "rule function": (
        lambda: problem(rule=one_argument),
        ["rule", "one_argument", "update"],
    ),
    "rule delta": (lambda: problem(rule=WideRule()), ["WideRule", "(5,)", "(1,)"]),
    "rule returns an array": (
        lambda: problem(rule=BareRule()),
        ["BareRule", "self.result"],
    ),
    "rule not JAX": (lambda: problem(rule=NumpyRule()), ["NumpyRule", "jax.numpy"]),
    "rule without parameters": (
        lambda: problem(rule=MissingParameters()),
        ["MissingParameters", "self.result"],
    ),
    "rule readout": (
        lambda: problem(rule=WideReadout()),
        ["WideReadout", "(4,)", "(1,)"],
    ),
    "rule randomness": (
        lambda: problem(rule=WrongRandomness()),
        ["WrongRandomness", "[0.0, 1.0]", "Discrete"],
    ),
    "perceptron, real labels": (
        lambda: problem(rule="perceptron"),
        ["Perceptron", "'real'", "labels='sign'"],
    ),
    "margin NaN": (
        lambda: tu.rules.Perceptron(margin=float("nan")),
        ["margin", "nan", "finite"],
    ),
    "probabilities above one": (
        lambda: tu.rules.Discrete([0.0, 1.0], [1.5, -0.5]),
        ["probabilities", "-0.5", "sum"],
    ),
    "probabilities sum": (
        lambda: tu.rules.Discrete([0.0, 1.0], [0.5, 0.6]),
        ["probabilities", "1.1", "sum"],
    ),
    "probabilities shape": (
        lambda: tu.rules.Discrete([0.0, 1.0], [1.0]),
        ["probabilities", "(1,)", "(2,)"],
    ),
    "quantile function": (lambda: tu.rules.Quantile(0.5), ["0.5", "quantile function"]),
    # networks
    "outputs without readout": (
        lambda: tu.Network(2, outputs=3),
        ["3 outputs", "2 hidden", "(3, 2)"],
    ),
    "outputs zero": (lambda: tu.Network(2, outputs=0), ["outputs", "0", "1 or more"]),
    "readout of outputs": (
        lambda: tu.Network(2, outputs=3, readout=np.eye(2)),
        ["readout", "(2, 2)", "(3, 2)"],
    ),
    "activations": (
        lambda: tu.Network(3, ("erf", "relu")),
        ["2 activations", "3 hidden", "one each"],
    ),
    "activation in a tuple": (
        lambda: tu.Network(2, ("erf", "rleu")),
        ["activation", "'rleu'", "nearest is 'relu'"],
    ),
    # averages and records
    "points": (lambda: tu.Sampled(points=1000), ["points", "1000", "1024"]),
    "points few": (lambda: tu.Sampled(points=64), ["points", "64", "512"]),
    "points many": (lambda: tu.Sampled(points=2**30), ["points", "at most", "emory"]),
    "points word": (
        lambda: tu.Sampled(points="many"),
        ["points", "'many'", "whole number"],
    ),
    "seed": (lambda: tu.Sampled(seed=-1), ["seed", "-1", "0 or more"]),
    "moments word": (
        lambda: solve(moments="sampled"),
        ["moments", "'sampled'", "Sampled(points=2**14)"],
    ),
    "moments class": (
        lambda: solve(moments=tu.Sampled),
        ["moments", "class Sampled", "Sampled("],
    ),
    "observe list": (
        lambda: solve(observe=[jnp.sum]),
        ["observe", "functions", "{'norm': f}"],
    ),
    "observe value": (
        lambda: solve(observe={"norm": 3}),
        ["observe", "3", "{'norm': f}"],
    ),
    "observe taken name": (
        lambda: solve(observe={"R": lambda R, Q, v: R}),
        ["observe", "'R'", "new name"],
    ),
    "observe name with a space": (
        lambda: solve(observe={"a b": lambda R, Q, v: R}),
        ["observe", "'a b'", "letters"],
    ),
    "observe arguments": (
        lambda: solve(observe={"norm": lambda Q: Q}),
        ["'norm'", "f(R, Q, readout)"],
    ),
    "observe not JAX": (
        lambda: solve(observe={"norm": lambda R, Q, v: float(Q[0, 0])}),
        ["'norm'", "jax.numpy"],
    ),
    "observe equations": (
        lambda: tu.solve(DECAY, {"x": 1.0}, 1.0, observe={"norm": jnp.sum}),
        ["observe", "overlaps of a Problem"],
    ),
    "readout of a start": (
        lambda: tu.solve(
            problem(CLASSES),
            tu.Start(np.eye(3) / 9, np.eye(3), readout=[1.0, 1.0, 1.0]),
            1.0,
        ),
        ["readout", "(3,)", "(3, 3)"],
    ),
    # functions that need a trait
    "critical rate": (
        lambda: tu.analysis.critical_learning_rate(LOGISTIC),
        ["critical_learning_rate", "'logistic'", "'squared'"],
    ),
    "landscape": (
        lambda: tu.analysis.landscape(LOGISTIC, np.ones((1, 9)), np.ones((1, 9))),
        ["landscape", "'logistic'", "'squared'"],
    ),
    "perfect learning": (
        lambda: tu.analysis.fixed_point(LOGISTIC, "perfect"),
        ["fixed_point", "'logistic'", "'squared'"],
    ),
    "several outputs": (
        lambda: tu.analysis.critical_learning_rate(problem(CLASSES)),
        ["3 outputs", "outputs=1"],
    ),
    "several activations": (
        lambda: tu.analysis.critical_learning_rate(
            problem(tu.Network(2, ("erf", "linear")), PAIR)
        ),
        ["different activations", "one activation"],
    ),
    "error bars, jumps": (
        lambda: tu.analysis.fluctuations(HINGE, START, dim=100, times=1.0),
        ["fluctuations", "'hinge'", "readout"],
    ),
    "schedule, jumps": (
        lambda: tu.schedules.optimize(HINGE, START, 1.0, {"lr": (0.0, 1.0)}),
        ["optimize", "'hinge'", "readout"],
    ),
    "stiff": (lambda: solve(solver="stiff"), ["stiff", "'logistic'", "explicit"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_refused(name):
    call, mentions = CASES[name]
    with pytest.raises(tu.InputError) as caught:
        call()
    require_refusal(caught.value, *mentions)
