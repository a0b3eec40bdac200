"""How steps are made: the stiff method that knows the structure of the overlaps, and when it is worth its price."""

from tutelage.integrate.choice import choose
from tutelage.integrate.guided import FINE, guided_norm, stiff_solver

__all__ = ["FINE", "choose", "guided_norm", "stiff_solver"]
