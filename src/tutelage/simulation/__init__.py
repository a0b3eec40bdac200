"""Finite networks: SGD at any N, exact in law (overlaps) or on actual weights and data (weights).

request (checked arguments) -> overlaps (coordinates) or weights -> runs (threads, records) -> recorded_error -> simulate
Both methods step in numba loops (numba_kernels, with the numbers of step_constants). What has no kernel, a user's own
function for example, steps in JAX (jax_steps). jax_ensemble is the overlaps method with all runs in one JAX program, for
GPUs; its random numbers are those of counter_rng.
"""

from tutelage.simulation.simulate import simulate

__all__ = ["simulate"]
