"""What questions about fixed points and rates ask of a problem: known numbers and constant learning rates."""

from typing import Any

from tutelage import _checks
from tutelage._errors import InputError
from tutelage.averages import Quadrature
from tutelage.problem import Constant, Problem, SlowMomentum


def concrete(problem: Any) -> Problem:
    """The problem, if it is one and its numbers are known."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is of type {type(problem).__name__}; give a tutelage Problem.")
    if _checks.is_traced(problem):
        raise InputError("the problem is traced; this needs its numbers. Call it outside jax.jit, grad and vmap.")
    return problem


def as_rule(quadrature: Any) -> Quadrature | None:
    """A rule of quadrature, or None."""
    if quadrature is not None and not isinstance(quadrature, Quadrature):
        raise InputError(
            f"quadrature is {_checks.shown(quadrature)}; it must be a Quadrature, such as Quadrature(nodes=96)."
        )
    return quadrature


def with_constant_rates(problem: Any) -> Problem:
    """The problem, its `Constant` schedules as numbers; refuses what has no fixed points, or other modes than these."""
    sgd = concrete(problem).sgd
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
            raise InputError(f"{name} is a schedule; this needs a constant rate. Use problem.replace({name}=0.5).")
    return problem.replace(**changes) if changes else problem
