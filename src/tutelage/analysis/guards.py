"""The problem as an analysis needs it: known numbers and constant learning rates."""

from collections.abc import Iterable

from tutelage.problem import Constant, Problem
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import CLASSIC, CONSTANT_RATES

LARGEST_STATE = 400  # entries of the largest state whose Jacobians are followed


def with_constant_rates(problem: object, function: str, needs: Iterable[str] = CLASSIC) -> Problem:
    """The problem, if its learning rates are constant and it has the traits in `needs`; `Constant` rates as numbers."""
    problem = require_problem(problem, function, (*needs, *CONSTANT_RATES))
    rates = {name: getattr(problem.sgd, name) for name in ("lr", "readout_lr", "bias_lr")}
    constants = {name: rate.value for name, rate in rates.items() if isinstance(rate, Constant)}
    return problem.replace(**constants) if constants else problem
