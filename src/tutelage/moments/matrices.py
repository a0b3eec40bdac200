"""The whole theory in three matrices.

Stein's lemma turns the mean update of a student vector into a combination of student and teacher vectors, multiplied by
the input covariance: E[dw_k] ~ eta Omega (sum_j A_kj w_j + sum_m B_km w*_m), with
    A_kj = -v_k v_j E[g'_k g'_j] + delta_kj v_k E[Delta g''_k]
    B_km =  v_k v*_m E[g'_k g*'_m]
    G_kj =  v_k v_j (E[Delta0^2 g'_k g'_j] + sigma^2 E[g'_k g'_j])          (the covariance of the update: order eta^2)
Delta0 = sum_a w_a g_a is the error without label noise, w = (-v, v*). Up to sign A/2 and B are also the gradient of e_g
with respect to Q and R, and v o E[Delta g'], E[Delta g] those with respect to biases and readouts (`Pull`).
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.averages import Averages


class Pull(eqx.Module):
    """Minus the gradient of e_g: A (K, K), B (K, M), and what moves readouts and biases, (K,) each."""

    A: Array
    B: Array
    readout: Array
    bias: Array


def error_weights(v: Array, v_teacher: Array) -> Array:
    """w with Delta0 = sum_a w_a g_a."""
    return jnp.concatenate([-v, v_teacher])


def pull(averages: Averages, C: Array, mean: Array | None, v: Array, v_teacher: Array) -> Pull:
    """The order-eta part of the dynamics."""
    K, w = v.shape[0], error_weights(v, v_teacher)
    slopes = averages.slopes(C, mean)
    bend = jnp.sum(averages.curvatures(C, mean) * w, axis=1)
    both = v[:, None] * (w * slopes + jnp.where(np.eye(K, w.size, dtype=bool), bend[:, None], 0.0))  # A beside B
    return Pull(both[:, :K], both[:, K:], averages.outputs(C, mean)[:K] @ w, v * (averages.forces(C, mean) @ w))


def spread(averages: Averages, C: Array, mean: Array | None, v: Array, v_teacher: Array, sigma: Array) -> Array:
    """G: the order-eta^2 part of the dynamics."""
    K, w = v.shape[0], error_weights(v, v_teacher)
    return v[:, None] * v * (averages.contrast(C, mean, w) + sigma**2 * averages.slopes(C, mean)[:, :K])
