from .concentration import Concentration, concentration
from .linear_regression import linear_regression

__all__ = ["Concentration", "concentration", "linear_regression"]
