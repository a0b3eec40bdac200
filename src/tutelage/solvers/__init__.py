"""Integrators of ordinary differential equations; none of them depends on a `Problem`.

equations: the closed systems that `solve` integrates, and custom ones. program: the
compiled part of a solve. dormand_prince: the explicit integrator. step_kernel: its step
as machine code. diffrax_solvers: reverse-mode gradients, the implicit solver and the
stiff one.
"""

from tutelage.solvers.equations import ClosedSystem, Equations

__all__ = ["ClosedSystem", "Equations"]
