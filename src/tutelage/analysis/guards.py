"""The problem as an analysis needs it: known numbers, constant learning rates, only first-layer weights that learn."""

from collections.abc import Iterable

from tutelage.problem import Constant, Problem
from tutelage.problem.problem import require_problem
from tutelage.problem.traits import CLASSIC, CONSTANT_RATES, FIRST_LAYER

LARGEST_STATE = 400  # entries of the largest state whose Jacobians are followed


def with_constant_rates(problem: object, function: str, needs: Iterable[str] = CLASSIC) -> Problem:
    """The problem, if its learning rates are constant and it has the traits in `needs`; `Constant` rates as numbers."""
    problem = require_problem(problem, function, (*needs, *CONSTANT_RATES))
    rates = {name: getattr(problem.sgd, name) for name in ("lr", "readout_lr", "bias_lr")}
    constants = {name: rate.value for name, rate in rates.items() if isinstance(rate, Constant)}
    return problem.replace(**constants) if constants else problem


def first_layer_problem(problem: object, function: str) -> Problem:
    """The problem, if only first-layer weights learn, all of them, at a constant rate and without decay."""
    return with_constant_rates(problem, function, (*CLASSIC, *FIRST_LAYER))


def effective_rate(problem: Problem) -> float:
    """The learning rate eta, a fixed momentum included."""
    return float(problem.sgd.lr) / (1 - float(problem.sgd.momentum))
