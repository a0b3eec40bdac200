"""How steps are made: explicit, implicit, and linearly implicit with the structure of the overlaps."""

from tutelage.integrate.guided import FINE, guided_norm, stiff_solver

__all__ = ["FINE", "guided_norm", "stiff_solver"]
