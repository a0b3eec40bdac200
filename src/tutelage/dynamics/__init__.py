"""The dynamics of the overlaps: the differential equations, their error, linearization and noise.

equations: what `solve` integrates. order_parameters: the built-in system, its state and its error. committee_kernel: the same
for erf units as machine code. linearized, perfect_learning: Jacobians, small deviations and the noise of single steps.
"""

from tutelage.dynamics.equations import ClosedSystem, Equations
from tutelage.dynamics.order_parameters import (
    OrderParameters,
    Overlaps,
    Velocity,
    generalization_error,
    initial_overlaps,
)

__all__ = [
    "ClosedSystem",
    "Equations",
    "OrderParameters",
    "Overlaps",
    "Velocity",
    "generalization_error",
    "initial_overlaps",
]
