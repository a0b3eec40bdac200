"""Finite networks: SGD at any N, on overlaps or on weights and data.

`overlaps` is exact in law; `weights` steps actual weights on actual data.

    simulate            checked arguments
    overlaps, weights   the two methods
    method              one run, or all runs together
    runs                threads and records
    recorded_error      the error at the recorded times

Both methods step the coordinates of prepare in one numba loop (numba_kernels). A
problem without a kernel, such as one with a custom function, takes the same step in JAX
(jax_steps, with the random numbers of draws), as do all runs together, for GPUs.
"""

from tutelage.simulation.simulate import simulate_stream

__all__ = ["simulate_stream"]
