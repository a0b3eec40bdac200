"""Random numbers that have a number: each belongs to a run, a step and a place in it, and can be drawn alone.

JAX's counter-based generator (Threefry, Salmon et al. 2011) turns the pair (step, number) into 64 bits, with a key of the
run: so run i does not depend on how many runs there are beside it, nor on the size of the blocks in which numbers are drawn.
All is elementwise: one kernel of a GPU goes from the counters to the numbers that are wanted, already laid out (steps, ...,
runs).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p

from tutelage._types import Array

TINY = 2.0**-53  # the smallest uniform number: its normal is finite
ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0


def run_keys(seed: int, runs: int) -> Array:
    """(2, runs): the keys of runs 0, 1, .."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), jnp.arange(runs))
    return jax.random.key_data(keys).T


def uniform(keys: Array, steps: Array, numbers: Any) -> Array:
    """(steps, *numbers.shape, runs): odd multiples of 2^-53 between 0 and 1."""
    step, number = steps.reshape(-1, *[1] * (np.ndim(numbers) + 1)), jnp.asarray(numbers)[..., None]
    word = lambda x: x.astype(jnp.uint32)  # noqa: E731
    counters = jnp.broadcast_arrays(keys[0], keys[1] ^ word(step >> 32), word(step), word(number))
    high, low = (x.astype(jnp.uint64) for x in threefry2x32_p.bind(*counters))
    bits = (high << 20) | (low >> 12)  # the digits of a number between 1 and 2
    return jax.lax.bitcast_convert_type(ONE | bits, jnp.float64) - (1.0 - TINY)


def normal(keys: Array, steps: Array, numbers: Any) -> Array:
    """(steps, *numbers.shape, runs): standard normal numbers."""
    return as_normal(uniform(keys, steps, numbers))


def as_normal(u: Array) -> Array:
    """The normal number that a share u of all numbers stays below."""
    return np.sqrt(2.0) * jax.scipy.special.erfinv(2.0 * u - 1.0)


def chi(keys: Array, steps: Array, first: int, dof: Array) -> Array:
    """(steps, *dof.shape, runs): lengths of standard normal vectors in `dof` dimensions, from numbers `first` onwards.

    Marsaglia and Tsang 2000, tried until all are accepted.
    """
    many = dof[..., None]
    d = 0.5 * many - 1.0 / 3.0
    numbers = first + np.arange(2 * dof.size).reshape(2, *dof.shape)

    def attempt(state: Any) -> Any:
        tries, length, done = state
        v, u = jnp.moveaxis(uniform(keys, steps, numbers + tries * numbers.size), 1, 0)
        x = as_normal(v)
        cube = jnp.maximum(1.0 + x / jnp.sqrt(9.0 * d), 0.0) ** 3
        safe = jnp.where(cube > 0, cube, 1.0)
        good = (cube > 0) & (jnp.log(u) < 0.5 * x * x + d * (1.0 - safe + jnp.log(safe)))
        new = jnp.where(many == 1, jnp.abs(x), jnp.sqrt(2.0 * d * safe))
        return tries + 1, jnp.where(done, length, new), done | good | (many == 1)

    shape = (steps.size, *dof.shape, keys.shape[1])
    begin = (0, jnp.zeros(shape), jnp.zeros(shape, bool))
    return jax.lax.while_loop(lambda state: ~jnp.all(state[2]), attempt, begin)[1]
