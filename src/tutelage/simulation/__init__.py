"""Finite networks: training at any N, on overlaps or on weights and data.

`overlaps` is exact in law; `weights` steps actual weights on actual data.

    simulate            checked arguments
    overlaps, weights   the two methods
    data_sets           training on a data set that each run draws
    method              one run, or all runs together
    runs                threads and records
    recorded_error      the error at the recorded times
    prepare             problem and start as the numbers of the loops
    numba_kernels       the loops
    jax_steps           one step in JAX
    optimizer_steps     one step in JAX under an optimizer other than plain SGD
    draws               the random numbers of JAX

Both methods step the coordinates of prepare in one numba loop. A problem without a
kernel, such as one with a custom function, takes the same step in JAX, as do all runs
together, for GPUs.
"""

from tutelage.simulation.simulate import simulate_stream

__all__ = ["simulate_stream"]
