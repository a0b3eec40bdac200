"""Assumptions of the closed forms of papers; other problems raise `InputError`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import tutelage as tu
from tutelage import InputError, checks

# One Gaussian, squared loss, the gradient rule and real labels of one output, from a
# teacher whose fields the inputs carry.
VISIBLE = (
    "one task",
    "one Gaussian",
    "squared",
    "gradient",
    "real",
    "single output",
    "one activation",
    "visible teacher",
)
CONSTANT_RATES = ("constant rates", "fixed momentum", "free norms")


def _kind_of(value: object) -> str:
    if value is None:
        return "None"
    return f"of type {type(value).__name__}"


def require_problem(
    problem: object, name: str, traits: Iterable[str] = VISIBLE
) -> "tu.Problem":
    """Return the problem, if its numbers are known and it has these traits.

    name: of the function, for messages.
    """
    if not isinstance(problem, tu.Problem):
        raise InputError(
            f"problem is {_kind_of(problem)}; {name} takes a tutelage Problem."
        )
    checks.require_untraced("the problem", name, problem)
    problem.require_traits(name, traits)
    return problem


def with_constant_rates(
    problem: object, name: str, traits: Iterable[str] = VISIBLE
) -> "tu.Problem":
    """Return the problem, if its learning rates are constant, too."""
    return require_problem(problem, name, (*traits, *CONSTANT_RATES))


def require_start(start: object) -> "tu.Start":
    """Return the start; nothing else is supported."""
    if not isinstance(start, tu.Start):
        raise InputError(
            f"start is {_kind_of(start)}; make one with Start, random_start or "
            "start_from_weights."
        )
    return start


def require_pair(weights: object) -> tuple[Any, Any]:
    """Return W and W_teacher; nothing but two arrays is supported."""
    if not isinstance(weights, Sequence) or len(weights) != 2:
        raise InputError(
            f"weights is {_kind_of(weights)}; it must be a pair (W, W_teacher) of "
            "shapes (K, N) and (M, N)."
        )
    return weights[0], weights[1]


def first_layer_problem(problem: object, name: str) -> "tu.Problem":
    """Return the problem, if only first-layer weights learn.

    All of them learn, at a constant rate and without decay.
    """
    own = ("no biases", "fixed readout", "all levels", "no weight decay")
    return with_constant_rates(problem, name, (*VISIBLE, *own))


def require_first_layer_sgd(problem: "tu.Problem", name: str) -> None:
    """Raise InputError unless this is plain SGD on the first layer, without biases.

    name: the function that supports nothing else.
    """
    optimizer = problem.optimizer
    student = problem.student
    reasons = {
        "units have biases": problem.biased,
        "train_readout is True": student.train_readout,
        "weight_decay is not 0": float(np.asarray(optimizer.weight_decay)) != 0,
        "spherical is True": optimizer.spherical,
        "trainable freezes components": optimizer.trainable is not None,
        "momentum is slow": isinstance(optimizer.momentum, tu.SlowMomentum),
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(
                f"{reason}; {name} supports plain SGD on the first layer only. "
                "Leave that out."
            )


def constant_rate(
    problem: "tu.Problem", name: str, fix: str = "Use a number, or solve."
) -> float:
    """Return the effective learning rate, a fixed momentum included.

    A rate that changes in time has none and raises InputError.
    """
    lr = problem.optimizer.lr
    if callable(lr):
        raise InputError(
            f"the learning rate changes with time; {name} needs a constant one. {fix}"
        )
    return float(np.asarray(lr)) / (1 - float(problem.optimizer.momentum))


def quadratic_readouts(problem: Any, name: str) -> tuple[float, float]:
    """Return v and v* of a quadratic network, y = v sum_k lambda_k^2.

    The inputs are isotropic; `name` supports no other problem.
    """
    require_problem(problem, name)
    quadratic = tu.Network(1, "quadratic").activation.polynomial
    for side, network in (("student", problem.student), ("teacher", problem.labeler)):
        activation = network.activation
        if activation.polynomial != quadratic:
            raise InputError(
                f"the {side}'s activation is {activation.name!r}; {name} needs "
                "quadratic networks. Use 'quadratic'."
            )
        if network.bias is not None:
            raise InputError(
                f"the {side} has biases; {name} needs units without. Leave bias out."
            )
    inputs = problem.inputs
    if inputs.levels != 1 or abs(float(np.sum(inputs.weights)) - 1) > 1e-12:
        raise InputError(
            f"the inputs are {inputs!r}; {name} needs independent ones of unit "
            "variance, Isotropic()."
        )
    v = _common_readout("student", problem.student.readout, name)
    v_teacher = _common_readout("teacher", problem.labeler.readout, name)
    return v, v_teacher


def _common_readout(side: str, readout: Any, name: str) -> float:
    """The readout that all units have; positive."""
    v = np.asarray(readout, float)
    if np.ptp(v) > 1e-12 * np.max(np.abs(v)) or v[0] <= 0:
        raise InputError(
            f"the {side}'s readout is {checks.shown(v)}; {name} needs one positive "
            "number for all units, such as 1/hidden."
        )
    return float(v[0])
