"""The finite network: SGD at any N, exact in law (overlaps) or on actual weights and data (weights)."""

from tutelage.simulate.simulate import simulate

__all__ = ["simulate"]
