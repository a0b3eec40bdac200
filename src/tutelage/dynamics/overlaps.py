"""The state of the dynamics: overlaps per level, readout and biases (and the overlaps of a slow momentum)."""

import equinox as eqx
import jax.numpy as jnp

from tutelage._types import Array


class Overlaps(eqx.Module):
    """r (L, K, M), q (L, K, K), readout (K,), bias (K,) or None; velocity: see `Velocity`, None without slow momentum."""

    r: Array
    q: Array
    readout: Array
    bias: Array | None
    velocity: "Velocity | None"


class Velocity(eqx.Module):
    """Overlaps of the momentum vectors Om per level: with teachers, students and themselves.

    teacher: Om P_l W*^T / (N p_l), (L, K, M); student: W P_l Om^T / (N p_l), (L, K, K), first index the student;
    own: Om P_l Om^T / (N p_l), (L, K, K).
    """

    teacher: Array
    student: Array
    own: Array


def field_covariance(weights: Array, r: Array, q: Array, t: Array) -> tuple[Array, Array, Array]:
    """R, Q, T: block overlaps summed with weights p_l lam_l."""
    return tuple(jnp.einsum("l,lab->ab", weights, block) for block in (r, q, t))  # pyright: ignore[reportReturnType]


def joint_covariance(R: Array, Q: Array, T: Array) -> Array:
    """C = [[Q, R], [R^T, T]], exactly symmetric.

    Rounding leaves Q - Q^T of order 1e-17. At order eta nothing moves it, but G depends on it: at large learning rates it
    would grow exponentially and leave the fixed points of real vectors.
    """
    return jnp.block([[(Q + Q.T) / 2, R], [R.T, T]])
