"""Finite networks: SGD at any N, exact in law (overlaps) or on actual weights and data (weights).

simulate (checked arguments) -> overlaps or weights -> method (one run, or all) -> runs (threads, records) -> recorded_error
Both methods step the coordinates of prepare in one numba loop (numba_kernels). What has no kernel, a custom function for
example, takes the same step in JAX (jax_steps, with the random numbers of draws), as do all runs together, for GPUs.
"""

from tutelage.simulation.simulate import simulate_stream

__all__ = ["simulate_stream"]
