"""What questions about fixed points and rates ask of a problem: known numbers and constant learning rates."""

from collections.abc import Iterable
from typing import Any

from tutelage._errors import InputError
from tutelage.problem import Constant, Problem, SlowMomentum
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import CLASSIC


def with_constant_rates(problem: Any, verb: str, needs: Iterable[str] = CLASSIC) -> Problem:
    """The problem, its `Constant` schedules as numbers; refuses what has no fixed points, or other modes than these."""
    sgd = require_problem(problem, verb, needs).sgd
    if isinstance(sgd.momentum, SlowMomentum):
        raise InputError(
            "momentum is a SlowMomentum; its velocities have modes of their own, which are not covered. Use momentum=beta."
        )
    if sgd.spherical:
        raise InputError(
            "spherical is True; the lengths are then fixed by the start, not by the dynamics. Use spherical=False."
        )
    changes = {}
    for name in ("lr", "readout_lr", "bias_lr"):
        rate = getattr(sgd, name)
        if isinstance(rate, Constant):
            changes[name] = rate.value
        elif callable(rate):
            raise InputError(f"{name} is a schedule; {verb} needs a constant rate. Use problem.replace({name}=0.5).")
    return problem.replace(**changes) if changes else problem
