"""The dynamics of the overlaps: the differential equations, their error, linearization and noise.

equations: what `solve` integrates. order_parameters: the built-in system and its state; error: generalization error.
linearized, perfect_learning: Jacobians and small deviations. diffusion: the noise of single steps. resolvent: for stiff solves.
committee, committee_kernel: committees of erf units without JAX, in NumPy and as machine code.
"""

from tutelage.dynamics.equations import ClosedSystem, Equations
from tutelage.dynamics.error import generalization_error
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, Velocity, initial_overlaps

__all__ = [
    "ClosedSystem",
    "Equations",
    "OrderParameters",
    "Overlaps",
    "Velocity",
    "generalization_error",
    "initial_overlaps",
]
