"""Momentum with rules other than backpropagation, and spherical weights with other losses, against plain SGD by NumPy."""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu

DIM = 200
RUNS = 60
END = 2.0
R = np.array([[0.3, 0.05], [0.02, 0.2]])
Q = np.array([[0.5, 0.1], [0.1, 0.4]])
READOUT = np.array([0.6, 0.4])
FEEDBACK = np.array([1.0, 0.5])
KEEP = 0.8
SCALE = 0.3
NOISE = 0.3
DELTA = 0.5
STUDENT = tu.Network(2, "erf", readout=READOUT)
TEACHER = tu.Network(2, "erf")


def g(field):
    return erf(field / np.sqrt(2))


def slope(field):
    return np.sqrt(2 / np.pi) * np.exp(-(field**2) / 2)


def missing(fields, references, mask=1.0):
    """What the output lacks."""
    return np.sum(g(references), axis=1) - np.sum(READOUT * mask * g(fields), axis=1)


def feedback_alignment(fields, references, rng):
    return missing(fields, references)[:, None] * FEEDBACK * slope(fields)


def dropout(fields, references, rng):
    mask = (rng.random(fields.shape) < KEEP) / KEEP
    return missing(fields, references, mask)[:, None] * mask * READOUT * slope(fields)


def node_perturbation(fields, references, rng):
    xi = rng.standard_normal(fields.shape)
    change = (
        missing(fields + SCALE * xi, references) ** 2 - missing(fields, references) ** 2
    ) / 2
    return -(change / SCALE)[:, None] * xi


def huber(fields, references, rng):
    noise = NOISE * rng.standard_normal(len(fields))
    return (
        np.clip(missing(fields, references) + noise, -DELTA, DELTA)[:, None]
        * READOUT
        * slope(fields)
    )


def absolute(fields, references, rng):
    noise = NOISE * rng.standard_normal(len(fields))
    return (
        np.sign(missing(fields, references) + noise)[:, None] * READOUT * slope(fields)
    )


def signs(fields, references):
    label = np.where(np.sum(g(references), axis=1) < 0, -1.0, 1.0)
    return label, label * np.sum(READOUT * g(fields), axis=1)


def logistic(fields, references, rng):
    label, margin = signs(fields, references)
    return (label / (1 + np.exp(margin)))[:, None] * READOUT * slope(fields)


def hinge(fields, references, rng):
    label, margin = signs(fields, references)
    return np.where(margin < 1, label, 0.0)[:, None] * READOUT * slope(fields)


def perpendicular(rng, units):
    """Vectors of length sqrt(DIM), at right angles within each run."""
    columns = np.linalg.qr(rng.standard_normal((RUNS, DIM, units)))[0]
    return columns.swapaxes(1, 2) * np.sqrt(DIM)


def descend(delta, lr, *, beta=None, gamma=None, spherical=False):
    """R and Q of all runs at the end."""
    rng = np.random.default_rng(1)
    covariance = np.block([[Q, R], [R.T, np.eye(2)]])
    vectors = np.linalg.cholesky(covariance) @ perpendicular(rng, 4)
    W = vectors[:, :2]
    W_teacher = vectors[:, 2:]
    lengths = np.linalg.norm(W, axis=2, keepdims=True)
    velocity = np.zeros_like(W)
    for _ in range(int(END * DIM)):
        x = rng.standard_normal((RUNS, DIM))
        fields, references = (
            np.einsum("rkn,rn->rk", each, x) / np.sqrt(DIM) for each in (W, W_teacher)
        )
        step = (
            lr * delta(fields, references, rng)[:, :, None] * x[:, None] / np.sqrt(DIM)
        )
        if gamma is not None:
            velocity = (1 - gamma / DIM) * velocity + gamma * step
            step = velocity / DIM
        elif beta is not None:
            velocity = beta * velocity + step
            step = velocity
        W = W + step
        if spherical:
            W = W * lengths / np.linalg.norm(W, axis=2, keepdims=True)
    return W @ W_teacher.swapaxes(1, 2) / DIM, W @ W.swapaxes(1, 2) / DIM


def largest_gap(problem, runs):
    """The largest gap of theory and runs, in standard errors and a finite-N term of 0.5 / N."""
    theory = tu.solve(problem, tu.Start(R=R, Q=Q), [0.0, END])
    found = []
    for name, values in zip(("R", "Q"), runs, strict=True):
        error = np.std(values, axis=0, ddof=1) / np.sqrt(RUNS)
        gap = np.abs(np.mean(values, axis=0) - getattr(theory, name)[-1])
        found.append(np.max(gap / (error + 0.5 / DIM)))
    return max(found)


RULES = {
    "feedback": (tu.rules.FeedbackAlignment(FEEDBACK), feedback_alignment),
    "dropout": (tu.rules.Dropout(KEEP), dropout),
    "perturbation": (tu.rules.NodePerturbation(SCALE), node_perturbation),
}
LOSSES = {
    "huber": ({"loss": tu.losses.Huber(DELTA), "noise": NOISE}, huber),
    "absolute": ({"loss": "absolute", "noise": NOISE}, absolute),
    "logistic": ({"loss": "logistic", "labels": "sign"}, logistic),
    "hinge": ({"loss": "hinge", "labels": "sign"}, hinge),
}


def mostly_full(names, quick):
    return [
        name if name == quick else pytest.param(name, marks=pytest.mark.full)
        for name in names
    ]


@pytest.mark.parametrize("name", mostly_full(RULES, "feedback"))
def test_momentum_with_rules(name):
    rule, delta = RULES[name]
    slow = tu.Problem(
        STUDENT,
        TEACHER,
        rule=rule,
        optimizer=tu.SGD(lr=1.0, momentum=tu.SlowMomentum(2.0)),
    )
    runs = descend(delta, 1.0, gamma=2.0)
    assert largest_gap(slow, runs) < 4
    assert largest_gap(slow.replace(momentum=tu.SlowMomentum(0.5)), runs) > 6
    fixed = tu.Problem(
        STUDENT, TEACHER, rule=rule, optimizer=tu.SGD(lr=0.5, momentum=0.5)
    )
    assert largest_gap(fixed, descend(delta, 0.5, beta=0.5)) < 4


@pytest.mark.parametrize("name", mostly_full(LOSSES, "logistic"))
def test_spherical_weights_with_losses(name):
    parts, delta = LOSSES[name]
    problem = tu.Problem(
        STUDENT, TEACHER, optimizer=tu.SGD(lr=1.0, spherical=True), **parts
    )
    runs = descend(delta, 1.0, spherical=True)
    assert largest_gap(problem, runs) < 4
    assert largest_gap(problem.replace(spherical=False), runs) > 8
