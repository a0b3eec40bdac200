"""Random numbers of the overlaps method in JAX, in blocks of steps, from counters.

Each number is a pure function of (seed, run, step, index). JAX's generator (Threefry,
Salmon et al. 2011) turns the pair (step, index) into 64 bits, with a key of the run. So
run i does not depend on the number of runs, nor on the size of the blocks. All is
elementwise: one kernel of a GPU goes from the counters to the numbers, laid out
(steps, ..., runs).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p
from jaxtyping import Float, Int, UInt32

from tutelage._types import Array, NumpyOrJax
from tutelage.problem import Problem
from tutelage.problem.sample import normals_needed, with_unseen
from tutelage.simulation.jax_steps import Draws, Step

Keys = UInt32[Array, "2 runs"]
TINY = 2.0**-53  # the smallest uniform number: its normal is finite
BITS_OF_ONE = np.uint64(0x3FF0000000000000)  # of the float 1.0
# The first index of the numbers of drifting teachers, beyond the indices of all others.
FIRST_OF_DRIFT = 2**30


@eqx.filter_jit
def from_counters(
    step: Step, problem: Problem, keys: Keys, first: NumpyOrJax, steps: int
) -> Draws:
    """Return the numbers of steps first .. first + steps - 1 of every run."""
    layout = step.layout
    B = step.constants.batch
    L, K, W = layout.mask.shape
    D = normals_needed(problem)
    J = min(B, K)
    runs = keys.shape[1]
    step_numbers = jnp.asarray(first) + jnp.arange(steps)
    in_use = (np.arange(W) < layout.width[:, None])[..., None]

    count_normals = B * W * L
    count_noise = B * D
    count_below = _below_diagonal(J) * L
    total = count_normals + count_noise + count_below
    numbers = as_normal(uniform(keys, step_numbers, np.arange(total)))
    edges = [count_normals, count_normals + count_noise]
    normals, noise, below = jnp.split(numbers, edges, axis=1)
    normals = normals.reshape(steps, B, W, L, runs).swapaxes(2, 3) * in_use
    noise = noise.reshape(steps, B, D, runs)
    unseen = jax.vmap(lambda x: unseen_fields(problem, x), -1, -1)(noise)
    has_outside = any(step.outer)
    outside = None
    if has_outside:
        outside = _bartlett(keys, step_numbers, layout.dof, J, below, first=total)
    moves = None
    far_moves = None
    if step.drifts:
        M = problem.references.hidden
        count_moves = L * M * W
        count = count_moves + _below_diagonal(M) * L
        indices = FIRST_OF_DRIFT + np.arange(count)
        numbers = as_normal(uniform(keys, step_numbers, indices))
        moves, below = jnp.split(numbers, [count_moves], axis=1)
        moves = moves.reshape(steps, L, M, W, runs) * in_use[:, None]
        if has_outside:
            beyond = FIRST_OF_DRIFT + count
            far_moves = _bartlett(
                keys, step_numbers, layout.dof, M, below, first=beyond
            )
    return Draws(
        normals=normals,
        noise=noise,
        unseen=unseen,
        outside=outside,
        moves=moves,
        far_moves=far_moves,
    )


def _below_diagonal(size: int) -> int:
    """Return the number of entries below the diagonal of a square matrix."""
    return size * (size - 1) // 2


def _bartlett(
    keys: Keys,
    steps: Int[Array, " steps"],
    dof: NumpyOrJax,
    size: int,
    below: Float[Array, "steps entries runs"],
    first: int,
) -> Float[Array, "steps L size size runs"]:
    """Return Bartlett's factors of Gaussian vectors in `dof` dimensions of each level.

    below: normal numbers below the diagonal. The lengths on it are made from the
    numbers with index `first` and beyond.
    """
    levels = np.shape(dof)[0]
    runs = keys.shape[1]
    diagonal = np.arange(size)
    rows, columns = np.tril_indices(size, -1)
    dof_of_entry = jnp.maximum(dof - diagonal[:, None], 1)
    lengths = chi(keys, steps, first, dof_of_entry)
    normals = below.reshape(steps.size, -1, levels, runs)
    factor = jnp.zeros((steps.size, size, size, levels, runs))
    factor = factor.at[:, rows, columns].set(normals)
    factor = factor.at[:, diagonal, diagonal].set(lengths)
    return jnp.moveaxis(factor, 3, 1)


def unseen_fields(
    problem: Problem, noise: Float[NumpyOrJax, "*lead B D"]
) -> Float[Array, "*lead B M"] | None:
    """Return the part of all teachers' fields that the inputs do not carry."""
    if problem.unseen is None:
        return None
    parts = []
    for task in problem.tasks:
        nothing_seen = jnp.zeros(task.labeler.hidden)
        parts.append(with_unseen(task, nothing_seen, jnp.asarray(noise)))
    return jnp.concatenate(parts, axis=-1)


def run_keys(seed: int, runs: int) -> Keys:
    """Return the keys of runs 0, 1, .."""
    fold_in = jax.vmap(jax.random.fold_in, (None, 0))
    keys = fold_in(jax.random.key(seed), jnp.arange(runs))
    return jax.random.key_data(keys).T


def uniform(keys: Keys, steps: Int[Array, " steps"], numbers: np.ndarray) -> Array:
    """Return (steps, *numbers.shape, runs): odd multiples of 2^-53 between 0 and 1."""

    def word(x: Array) -> Array:
        return x.astype(jnp.uint32)

    step = steps.reshape(-1, *[1] * (np.ndim(numbers) + 1))
    number = jnp.asarray(numbers)[..., None]
    late_key = keys[1] ^ word(step >> 32)
    counters = jnp.broadcast_arrays(keys[0], late_key, word(step), word(number))
    high, low = (x.astype(jnp.uint64) for x in threefry2x32_p.bind(*counters))
    bits = (high << 20) | (low >> 12)  # the digits of a number between 1 and 2
    above_one = jax.lax.bitcast_convert_type(BITS_OF_ONE | bits, jnp.float64)
    return above_one - (1.0 - TINY)


def as_normal(u: Array) -> Array:
    """Return the normal number that a share u of all numbers stays below."""
    return np.sqrt(2.0) * jax.scipy.special.erfinv(2.0 * u - 1.0)


def chi(keys: Keys, steps: Int[Array, " steps"], first: int, dof: Array) -> Array:
    """Return (steps, *dof.shape, runs): lengths of normal vectors in `dof` dimensions.

    They are made from the numbers with index `first` and beyond (Marsaglia, Tsang
    2000).
    """
    many = dof[..., None]
    d = 0.5 * many - 1.0 / 3.0
    numbers = first + np.arange(2 * dof.size).reshape(2, *dof.shape)

    def attempt(state: Any) -> Any:
        tries, length, done = state
        tried = uniform(keys, steps, numbers + tries * numbers.size)
        v, u = jnp.moveaxis(tried, 1, 0)
        x = as_normal(v)
        cube = jnp.maximum(1.0 + x / jnp.sqrt(9.0 * d), 0.0) ** 3
        safe = jnp.where(cube > 0, cube, 1.0)
        bound = 0.5 * x * x + d * (1.0 - safe + jnp.log(safe))
        accepted = (cube > 0) & (jnp.log(u) < bound)
        new = jnp.where(many == 1, jnp.abs(x), jnp.sqrt(2.0 * d * safe))
        length = jnp.where(done, length, new)
        return tries + 1, length, done | accepted | (many == 1)

    def is_unfinished(state: Any) -> Array:
        _, _, done = state
        return ~jnp.all(done)

    shape = (steps.size, *dof.shape, keys.shape[1])
    begin = (0, jnp.zeros(shape), jnp.zeros(shape, bool))
    _, length, _ = jax.lax.while_loop(is_unfinished, attempt, begin)
    return length
