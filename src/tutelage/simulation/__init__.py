"""The finite network: SGD at any N, exact in law (overlaps) or on actual weights and data (weights).

request (what was asked) -> overlaps (coordinates) or weights (sources) -> ensemble (threads) -> records, recorded_error
Both step in compiled loops (compiled, response, on plain data: layout, rates), with a function of the user's own in JAX
(traced); together and lanes are the overlaps method with all runs in one JAX program, for GPUs.
"""

from tutelage.simulation.simulate import simulate

__all__ = ["simulate"]
