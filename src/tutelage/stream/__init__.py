"""The theory of fresh samples: differential equations of the order parameters.

moments: the averages of an update over one sample. order_parameters: the state, its
drift and its error. optimizers: how the averages move the overlaps, for each optimizer.
committee_kernel: drift and integration for erf units as machine code. linearized,
perfect_learning: Jacobians, small deviations and the noise of single steps. program:
the way from these equations to numbers, by the integrators of `solvers/`.
stiff_overlaps: the linear equations of its stiff solver. solve: checked arguments and
the `Trajectory`. accuracy, validity: the errors of the averages and of the limit.
theory: this theory as a row of the table of theories.
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
