"""Finite networks: SGD at any N, exact in law (overlaps) or on actual weights and data (weights).

simulate (checked arguments) -> overlaps or weights -> runs (threads, records) -> recorded_error -> trajectory
Both methods step in numba loops (numba_kernels, with the numbers of prepare). What has no kernel, a custom function for
example, steps in JAX (jax_steps, with the random numbers of draws), as do all runs together in one program, for GPUs.
"""

from tutelage.simulation.simulate import simulate

__all__ = ["simulate"]
