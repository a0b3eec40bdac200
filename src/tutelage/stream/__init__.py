"""The theory of fresh samples: differential equations of the order parameters.

moments: the averages of an update over one sample. order_parameters: the state, its
drift and its error. committee_kernel: the same for erf units as machine code.
linearized, perfect_learning: Jacobians, small deviations and the noise of single steps.
program, diffrax_solvers: the way from these equations to numbers. accuracy, validity:
the errors of the averages and of the limit.
"""

from tutelage.stream.order_parameters import (
    OrderParameters,
    Overlaps,
    Velocity,
    generalization_error,
    initial_overlaps,
)

__all__ = [
    "OrderParameters",
    "Overlaps",
    "Velocity",
    "generalization_error",
    "initial_overlaps",
]
