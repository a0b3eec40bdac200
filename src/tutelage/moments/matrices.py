"""The whole theory in three matrices: A and B, the mean of the update of one sample, and G, its covariance.

The mean update of a student vector is a combination of student and teacher vectors, multiplied by the input covariance:
E[delta_k x] = Omega (sum_j A_kj w_j + sum_m B_km w*_m), and G = E[delta delta^T]. For squared loss Stein's lemma gives
    A_kj = -v_k v_j E[g'_k g'_j] + 1(k = j) v_k E[Delta g''_k]
    B_km =  v_k v*_m E[g'_k g*'_m]
    G_kj =  v_k v_j (E[Delta0^2 g'_k g'_j] + sigma^2 E[g'_k g'_j])
Delta0 = sum_a w_a g_a is the error without label noise, w = (-v, v*). Up to sign A/2 and B are also the gradient of e_g
with respect to Q and R, and v o E[Delta g'], E[Delta g] those with respect to biases and readouts.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, NumpyOrJax
from tutelage.moments.averages import Averages, Covariance, Means
from tutelage.problem import Problem
from tutelage.rules import Context, Parameters


def summed_levels(weights: Float[NumpyOrJax, " L"], blocks: Float[Array, "L a b"]) -> Float[Array, "a b"]:
    """A field covariance: the overlaps of all levels, with weights p_l lam_l."""
    return jnp.einsum("l,lab->ab", jnp.asarray(weights), blocks)


def joint_covariance(R: Float[Array, "K M"], Q: Float[Array, "K K"], T: Float[Array, "M M"]) -> Float[Array, "n n"]:
    """C = [[Q, R], [R^T, T]], exactly symmetric.

    Rounding leaves Q - Q^T of order 1e-17. At order eta nothing moves it, but G depends on it: at large learning rates it
    would grow exponentially and leave the fixed points of real vectors.
    """
    return jnp.block([[(Q + Q.T) / 2, R], [R.T, T]])


class MeanUpdate(eqx.Module):
    """The mean of what one sample does: A, B for the vectors, and what moves the readout and the biases.

    For a gradient rule these are minus the derivatives of the loss by Q (twice), R, readout and bias.
    """

    A: Float[Array, "K K"]
    B: Float[Array, "K M"]
    readout: Float[Array, "*outputs K"]
    bias: Float[Array, " K"]


class Moments(eqx.Module):
    """Mean and covariance of the update, as functions of the covariance C (students first) and mean of the fields."""

    @abstractmethod
    def matrices(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        """The mean update and G; G = 0 for gradient flow."""


class ClosedMoments(Moments):
    """Squared loss on real labels: closed forms, or quadrature of pairs of fields."""

    averages: Averages

    def matrices(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        v, v_teacher = parameters.readout, jnp.asarray(problem.teacher.readout)
        update = mean_update(self.averages, C, mean, v, v_teacher)
        if flow:
            return update, jnp.zeros_like(update.A)
        return update, update_covariance(self.averages, C, mean, v, v_teacher, jnp.asarray(problem.noise))


def error_weights(v: Float[Array, " K"], v_teacher: Float[Array, " M"]) -> Float[Array, " n"]:
    """w with Delta0 = sum_a w_a g_a."""
    return jnp.concatenate([-v, v_teacher])


def mean_update(
    averages: Averages, C: Covariance, mean: Means, v: Float[Array, " K"], v_teacher: Float[Array, " M"]
) -> MeanUpdate:
    """The order-eta part of the dynamics of squared loss."""
    K, w = v.shape[0], error_weights(v, v_teacher)
    slopes = averages.slopes(C, mean)
    bend = jnp.sum(averages.curvatures(C, mean) * w, axis=1)
    both = v[:, None] * (w * slopes + jnp.where(np.eye(K, w.size, dtype=bool), bend[:, None], 0.0))  # A beside B
    bias = v * (averages.slopes_outputs(C, mean) @ w)
    return MeanUpdate(both[:, :K], both[:, K:], averages.outputs(C, mean)[:K] @ w, bias)


def update_covariance(
    averages: Averages,
    C: Covariance,
    mean: Means,
    v: Float[Array, " K"],
    v_teacher: Float[Array, " M"],
    sigma: Float[Array, ""],
) -> Float[Array, "K K"]:
    """G: the order-eta^2 part of the dynamics of squared loss."""
    K, w = v.shape[0], error_weights(v, v_teacher)
    noise = sigma**2 * averages.slopes(C, mean)[:, :K]
    return v[:, None] * v * (averages.slopes_squared_error(C, mean, w) + noise)
