"""How the overlaps move: the three matrices A, B, G and the closed system built from them."""

from tutelage.dynamics.equations import ClosedSystem, Equations, linear_regression
from tutelage.dynamics.error import generalization_error
from tutelage.dynamics.order_parameters import OrderParameters, initial_overlaps
from tutelage.dynamics.overlaps import Overlaps, Velocity

__all__ = [
    "ClosedSystem",
    "Equations",
    "OrderParameters",
    "Overlaps",
    "Velocity",
    "generalization_error",
    "initial_overlaps",
    "linear_regression",
]
