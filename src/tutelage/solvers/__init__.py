"""Integrators of ordinary differential equations; none of them depends on a `Problem`.

equations: the closed systems that `solve` integrates, and custom ones. dormand_prince:
the explicit integrator.
"""

from tutelage.solvers.equations import ClosedSystem, Equations

__all__ = ["ClosedSystem", "Equations"]
