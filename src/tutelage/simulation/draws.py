"""Random numbers of the overlaps method in JAX, in blocks of steps, from counters.

Each number is a pure function of (seed, run, step, index). JAX's generator (Threefry, Salmon et al. 2011) turns the pair (step,
index) into 64 bits, with a key of the run. So run i does not depend on the number of runs, nor on the size of the blocks. All
is elementwise: one kernel of a GPU goes from the counters to the numbers, laid out (steps, ..., runs).
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
ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0
FAR = 2**30  # the index from which the numbers of drifting teachers are counted, beyond all others


@eqx.filter_jit
def from_counters(step: Step, problem: Problem, keys: Keys, first: NumpyOrJax, steps: int) -> Draws:
    """Numbers for steps first .. first + steps - 1 of every run."""
    B, (L, K, W), layout = step.constants.batch, step.layout.mask.shape, step.layout
    M, D, J, runs = problem.references.hidden, normals_needed(problem), min(B, K), keys.shape[1]
    at, there = jnp.asarray(first) + jnp.arange(steps), (np.arange(W) < layout.width[:, None])[..., None]

    def bartlett(size: int, below: Float[Array, "steps entries runs"], first: int) -> Float[Array, "steps L size size runs"]:
        rows, columns = np.tril_indices(size, -1)
        lengths = chi(keys, at, first, jnp.maximum(layout.dof - np.arange(size)[:, None], 1))
        factor = jnp.zeros((steps, size, size, L, runs)).at[:, rows, columns].set(below.reshape(steps, -1, L, runs))
        return jnp.moveaxis(factor.at[:, np.arange(size), np.arange(size)].set(lengths), 3, 1)

    sizes = B * W * L, B * D, J * (J - 1) // 2 * L
    normals, noise, below = jnp.split(as_normal(uniform(keys, at, np.arange(sum(sizes)))), np.cumsum(sizes[:2]), axis=1)
    normals = normals.reshape(steps, B, W, L, runs).swapaxes(2, 3) * there
    noise = noise.reshape(steps, B, D, runs)
    unseen = jax.vmap(lambda x: unseen_fields(problem, x), -1, -1)(noise)
    outside = bartlett(J, below, sum(sizes)) if any(step.outer) else None
    if not step.drifts:
        return Draws(normals, noise, unseen, outside, None, None)
    sizes = L * M * W, M * (M - 1) // 2 * L
    moves, below = jnp.split(as_normal(uniform(keys, at, FAR + np.arange(sum(sizes)))), [sizes[0]], axis=1)
    moves = moves.reshape(steps, L, M, W, runs) * there[:, None]
    return Draws(normals, noise, unseen, outside, moves, bartlett(M, below, FAR + sum(sizes)) if any(step.outer) else None)


def unseen_fields(problem: Problem, noise: Float[NumpyOrJax, "*lead B D"]) -> Float[Array, "*lead B M"] | None:
    """What the inputs do not carry of the fields of all teachers."""
    if problem.unseen is None:
        return None
    parts = [with_unseen(one, jnp.zeros(one.teacher.hidden), jnp.asarray(noise)) for one in problem.tasks]
    return jnp.concatenate(parts, axis=-1)


def run_keys(seed: int, runs: int) -> Keys:
    """The keys of runs 0, 1, .."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), jnp.arange(runs))
    return jax.random.key_data(keys).T


def uniform(keys: Keys, steps: Int[Array, " steps"], numbers: np.ndarray) -> Array:
    """(steps, *numbers.shape, runs): odd multiples of 2^-53 between 0 and 1."""
    step, number = steps.reshape(-1, *[1] * (np.ndim(numbers) + 1)), jnp.asarray(numbers)[..., None]
    word = lambda x: x.astype(jnp.uint32)  # noqa: E731
    counters = jnp.broadcast_arrays(keys[0], keys[1] ^ word(step >> 32), word(step), word(number))
    high, low = (x.astype(jnp.uint64) for x in threefry2x32_p.bind(*counters))
    bits = (high << 20) | (low >> 12)  # the digits of a number between 1 and 2
    return jax.lax.bitcast_convert_type(ONE | bits, jnp.float64) - (1.0 - TINY)


def as_normal(u: Array) -> Array:
    """The normal number that a share u of all numbers stays below."""
    return np.sqrt(2.0) * jax.scipy.special.erfinv(2.0 * u - 1.0)


def chi(keys: Keys, steps: Int[Array, " steps"], first: int, dof: Array) -> Array:
    """(steps, *dof.shape, runs): lengths of normal vectors in `dof` dimensions, from numbers `first` on (Marsaglia, Tsang 2000)."""
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
