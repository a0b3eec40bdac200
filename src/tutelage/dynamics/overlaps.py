"""The state of the dynamics: overlaps per level, readout and biases (and the overlaps of a slow momentum).

Flat coordinates hold each independent number of a state once (q is symmetric), so that eigenvalues and eigenvectors of a
Jacobian mean what they should.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, NumpyOrJax

LARGEST_STATE = 400  # entries of the largest state whose Jacobians are followed


class Overlaps(eqx.Module):
    """Overlaps r and q, and what else learns; velocity: None without slow momentum."""

    r: Float[Array, "L K M"]
    q: Float[Array, "L K K"]
    readout: Float[Array, "*outputs K"]
    bias: Float[Array, " K"] | None
    velocity: "Velocity | None"


class Velocity(eqx.Module):
    """Overlaps of the momentum vectors Om per level: with teachers, students and themselves.

    teacher: Om P_l W*^T / (N p_l); student: W P_l Om^T / (N p_l), first index the student; own: Om P_l Om^T / (N p_l).
    """

    teacher: Float[Array, "L K M"]
    student: Float[Array, "L K K"]
    own: Float[Array, "L K K"]


def summed_levels(weights: Float[NumpyOrJax, " L"], blocks: Float[Array, "L a b"]) -> Float[Array, "a b"]:
    """A field covariance: the overlaps of all levels, with weights p_l lam_l."""
    return jnp.einsum("l,lab->ab", jnp.asarray(weights), blocks)


def joint_covariance(R: Float[Array, "K M"], Q: Float[Array, "K K"], T: Float[Array, "M M"]) -> Float[Array, "n n"]:
    """C = [[Q, R], [R^T, T]], exactly symmetric.

    Rounding leaves Q - Q^T of order 1e-17. At order eta nothing moves it, but G depends on it: at large learning rates it
    would grow exponentially and leave the fixed points of real vectors.
    """
    return jnp.block([[(Q + Q.T) / 2, R], [R.T, T]])


def flatten(state: Overlaps) -> Float[Array, " size"]:
    """(r, upper triangle of q, readout, bias) of a state, or of a drift, in one vector."""
    rows, columns = np.triu_indices(state.q.shape[-1])
    parts = [state.r, state.q[:, rows, columns], state.readout, state.bias]
    return jnp.concatenate([jnp.ravel(part) for part in parts if part is not None])


def unflatten(vector: Float[Array, " size"], like: Overlaps) -> Overlaps:
    """The state with these coordinates."""
    L, K, M = like.r.shape
    rows, columns = np.triu_indices(K)
    sizes = np.cumsum([L * K * M, L * len(rows), like.readout.size])
    r, upper, readout, bias = jnp.split(vector, sizes)
    upper = upper.reshape(L, len(rows))
    q = jnp.zeros((L, K, K)).at[:, rows, columns].set(upper).at[:, columns, rows].set(upper)
    return Overlaps(r.reshape(L, K, M), q, readout.reshape(like.readout.shape), None if like.bias is None else bias, None)
