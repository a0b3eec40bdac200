"""Quadratic networks, where everything is polynomial: y = v sum_k lambda_k^2, with one readout for all units.

With J = W / sqrt(N) and isotropic inputs the error depends on one matrix, E = v* J*^T J* - v J^T J:
    e_g = (tr E)^2 / 2 + tr E^2,     gradient -2 v J (tr E + 2 E)
(Bocchi et al. 2026, whose loss has no factor 1/2: their risk is 2 e_g, their readouts v = 1/p and v* = 1/p*).
"""

from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.problem import Problem, SlowMomentum
from tutelage.problem.activation import NAMED
from tutelage.problem.arguments import require_problem


def quadratic_readouts(problem: Any, verb: str) -> tuple[float, float]:
    """v and v* of a problem that is a quadratic network in this sense; `verb` refuses any other."""
    require_problem(problem, verb)
    for name, network in (("student", problem.student), ("teacher", problem.teacher)):
        if network.activation.polynomial != NAMED["quadratic"].polynomial:
            raise InputError(
                f"the {name}'s activation is {network.activation.name!r}; {verb} knows quadratic networks. Use 'quadratic'."
            )
        if network.bias is not None:
            raise InputError(f"the {name} has biases; {verb} needs units without. Leave bias out.")
    if problem.inputs.levels != 1 or abs(float(np.sum(problem.inputs.weights)) - 1) > 1e-12:
        raise InputError(f"the inputs are {problem.inputs!r}; {verb} needs independent ones of unit variance, Isotropic().")
    return _equal("student", problem.student.readout, verb), _equal("teacher", problem.teacher.readout, verb)


def _equal(name: str, readout: Any, verb: str) -> float:
    v = np.asarray(readout, float)
    if np.ptp(v) > 1e-12 * np.max(np.abs(v)) or v[0] <= 0:
        raise InputError(
            f"the {name}'s readout is {checks.shown(v)}; {verb} needs one positive number for all units, such as 1/hidden."
        )
    return float(v[0])


def require_first_layer_sgd(problem: Problem, verb: str) -> None:
    """Nothing but plain SGD on the first layer; `verb` refuses the rest."""
    sgd, student = problem.sgd, problem.student
    reasons = {
        "train_readout is True": student.train_readout,
        "weight_decay is not 0": float(np.asarray(sgd.weight_decay)) != 0,
        "spherical is True": sgd.spherical,
        "trainable freezes components": sgd.trainable is not None,
        "momentum is slow": isinstance(sgd.momentum, SlowMomentum),
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"{reason}; {verb} knows plain SGD on the first layer only. Leave that out.")
