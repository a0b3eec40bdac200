"""The whole theory in three matrices: A and B, the mean of the update of one sample, and G, its covariance.

The mean update of a student vector is a combination of student and teacher vectors, multiplied by the input covariance:
E[delta_k x] = Omega (sum_j A_kj w_j + sum_m B_km w*_m), and G = E[delta delta^T]. For squared loss Stein's lemma gives
    A_kj = -v_k v_j E[g'_k g'_j] + 1(k = j) v_k E[Delta g''_k]
    B_km =  v_k v*_m E[g'_k g*'_m]
    G_kj =  v_k v_j (E[Delta0^2 g'_k g'_j] + sigma^2 E[g'_k g'_j])
Delta0 = sum_a w_a g_a is the error without label noise, w = (-v, v*). Up to sign A/2 and B are also the gradient of e_g
with respect to Q and R, and v o E[Delta g'], E[Delta g] those with respect to biases and readouts.
Feedback alignment replaces v_k before these averages, not v_j within Delta, by the feedback f_k. Dropout averages them over
masks m_k in {0, 1/keep} with v_k -> m_k v_k: where unit k learns it was kept, so its own weight in Delta is w_k / keep.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, NumpyOrJax
from tutelage.moments.averages import Averages, Covariance, Means
from tutelage.moments.erf import SOFTNESS, ErfAverages
from tutelage.moments.nodes import Quadrature, nearest_breaks
from tutelage.moments.numerics import array_module
from tutelage.moments.polynomial import PolynomialAverages
from tutelage.moments.quadrature import BrokenAverages, QuadratureAverages
from tutelage.moments.relu import ReluAverages
from tutelage.moments.resolution import chosen_rule
from tutelage.problem import Problem
from tutelage.problem.activation import NAMED, Activation
from tutelage.rules import Context, Dropout, FeedbackAlignment, Parameters

# The closed forms, and whether each holds for two activations (of student and teacher, with hidden biases).
FAMILIES = {
    ErfAverages: lambda student, teacher, biased: student in SOFTNESS and teacher in SOFTNESS and not biased,
    PolynomialAverages: lambda student, teacher, biased: None not in (student.polynomial, teacher.polynomial),
    ReluAverages: lambda student, teacher, biased: student == teacher == NAMED["relu"] and not biased,
}


def averages_for(
    student: Activation, teacher: Activation, K: int, M: int, biased: bool = False, quadrature: Quadrature | None = None
) -> Averages:
    """The averages of K students and M teachers: the first closed form that holds for the pair, else quadrature."""
    for family, holds in FAMILIES.items():
        if holds(student, teacher, biased):
            return family(student, teacher, K, M)
    rule = chosen_rule(student, teacher) if quadrature is None else quadrature
    breaks = nearest_breaks(student) or nearest_breaks(teacher)
    return (BrokenAverages if breaks else QuadratureAverages)(student, teacher, K, M, rule)


def summed_levels(weights: Float[NumpyOrJax, " L"], blocks: Float[NumpyOrJax, "L a b"]) -> Float[Array, "a b"]:
    """A field covariance: the overlaps of all levels, with weights p_l lam_l."""
    return array_module(weights, blocks).einsum("l,...lab->...ab", weights, blocks)


def joint_covariance(
    R: Float[Any, "*lead K M"], Q: Float[Any, "*lead K K"], T: Float[Any, "*lead M M"]
) -> Float[Any, "*lead n n"]:
    """C = [[Q, R], [R^T, T]], exactly symmetric.

    Rounding leaves Q - Q^T of order 1e-17. At order eta nothing moves it, but G depends on it: at large learning rates it
    would grow exponentially and leave the fixed points of real vectors.
    """
    xp = array_module(R, Q, T)
    T = xp.broadcast_to(T, (*R.shape[:-2], *T.shape[-2:]))
    upper = xp.concatenate([(Q + xp.swapaxes(Q, -1, -2)) / 2, R], axis=-1)
    return xp.concatenate([upper, xp.concatenate([xp.swapaxes(R, -1, -2), T], axis=-1)], axis=-2)


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
        rule = problem.rule
        feedback = rule.for_readout(v, context.time) if isinstance(rule, FeedbackAlignment) else v
        keep = rule.keep_at(context.time) if isinstance(rule, Dropout) else None
        update = mean_update(self.averages, C, mean, v, v_teacher, feedback, keep)
        if flow:
            return update, jnp.zeros_like(update.A)
        noise = jnp.asarray(problem.noise)
        return update, update_covariance(self.averages, C, mean, v, v_teacher, noise, feedback, keep)


class TaskMoments(Moments):
    """Several tasks: the moments of each, on its own fields, mixed with the probabilities u_s of the tasks.

    A = sum_s u_s A^s,   G = sum_s u_s G^s,   B = (u_1 B^1 | u_2 B^2 | ...),   dv^s = eta_v u_s E[h^s] (shared: their sum)
    """

    each: tuple[Moments, ...]

    def of_tasks(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context, flow: bool
    ) -> list[tuple[MeanUpdate, Float[Array, "K K"]]]:
        """The mean update and G of each task alone."""
        found = []
        for s, (one, moments) in enumerate(zip(problem.tasks, self.each, strict=True)):
            K, units = problem.student.hidden, problem.teacher.units(s)
            fields = np.r_[0:K, K + units.start : K + units.stop]
            own = Parameters(problem.teacher.head(parameters.readout, s), parameters.bias)
            means = None if mean is None else mean[fields]
            seen = context
            if context.overlaps is not None:
                R, Q, T = context.overlaps
                seen = replace(context, overlaps=(R[:, units], Q, T[units, units]))
            found.append(moments.matrices(one, C[fields][:, fields], means, own, seen, flow))
        return found

    def matrices(
        self, problem: Problem, C: Covariance, mean: Means, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        return mixed(problem, self.of_tasks(problem, C, mean, parameters, context, flow), context)


def mixed(
    problem: Problem, tasks: list[tuple[MeanUpdate, Float[Array, "K K"]]], context: Context
) -> tuple[MeanUpdate, Float[Array, "K K"]]:
    """The mean update and G of a sample whose task is drawn with the probabilities at this time."""
    u = problem.teacher.probabilities(context.time)
    parts = [jax.tree.map(lambda x, s=s: u[s] * x, one) for s, one in enumerate(tasks)]
    A, bias, G = (sum(each) for each in zip(*((p.A, p.bias, G) for p, G in parts), strict=True))
    B, heads = jnp.concatenate([p.B for p, _ in parts], axis=1), [p.readout for p, _ in parts]
    readout = jnp.stack(heads) if problem.teacher.heads == "separate" else sum(heads)
    return MeanUpdate(jnp.asarray(A), B, jnp.asarray(readout), jnp.asarray(bias)), jnp.asarray(G)


def single_moments(moments: "Moments | None") -> "tuple[Moments | None, ...]":
    """The moments of each task, or of a class of a mixture; of any other problem, its own."""
    if isinstance(moments, TaskMoments):
        return moments.each
    return (getattr(moments, "one", moments),)


def error_weights(v: Float[Any, "*lead K"], v_teacher: Float[Any, " M"]) -> Float[Any, "*lead n"]:
    """w with Delta0 = sum_a w_a g_a."""
    xp = array_module(v, v_teacher)
    return xp.concatenate([-v, xp.broadcast_to(v_teacher, (*v.shape[:-1], v_teacher.size))], axis=-1)


def mean_update(
    averages: Averages,
    C: Covariance,
    mean: Means,
    v: Float[Array, " K"],
    v_teacher: Float[Array, " M"],
    feedback: Float[Array, " K"] | None = None,
    keep: Float[Array, ""] | None = None,
) -> MeanUpdate:
    """The order-eta part of the dynamics of squared loss. feedback: the prefactor of delta (default: v). keep: of dropout."""
    K, w, f = v.shape[-1], error_weights(v, v_teacher)[..., None, :], v if feedback is None else feedback
    if keep is not None:
        w = jnp.where(np.eye(K, w.shape[-1], dtype=bool), w / keep, w)
    both = vector_update(averages, C, mean, w, f)
    readout = (averages.outputs(C, mean)[..., :K, :] * w).sum(axis=-1)
    return MeanUpdate(both[..., :K], both[..., K:], readout, f * (averages.slopes_outputs(C, mean) * w).sum(axis=-1))


def vector_update(
    averages: Averages, C: Covariance, mean: Means, w: Float[Any, "*K n"], f: Float[Any, " K"]
) -> Float[Any, "K n"]:
    """A beside B. w: weights of the error, one row for all students or one for each. f: the prefactor of delta."""
    # of the class: to bind a method of an equinox module takes longer than these calls in NumPy
    slopes, curvatures = (find(averages, C, mean) for find in (type(averages).slopes, type(averages).curvatures))
    own, bend = np.eye(*slopes.shape[-2:], dtype=bool), (curvatures * w).sum(axis=-1, keepdims=True)
    return f[..., None] * (w * slopes + array_module(bend).where(own, bend, 0.0))


def update_covariance(
    averages: Averages,
    C: Covariance,
    mean: Means,
    v: Float[Array, " K"],
    v_teacher: Float[Array, " M"],
    sigma: Float[Array, ""],
    feedback: Float[Array, " K"] | None = None,
    keep: Float[Array, ""] | None = None,
) -> Float[Array, "K K"]:
    """G: the order-eta^2 part of the dynamics of squared loss, with the same options."""
    K, w, f = v.shape[0], error_weights(v, v_teacher), v if feedback is None else feedback
    noise = sigma**2 * averages.slopes(C, mean)[:, :K]
    if keep is None:
        return f[:, None] * f * (averages.slopes_squared_error(C, mean, w) + noise)
    squared = _squared_error_of_kept(averages, C, mean, w, K, keep)
    return f[:, None] * f * jnp.where(np.eye(K, dtype=bool), 1 / keep, 1.0) * (squared + noise)


def _squared_error_of_kept(
    averages: Averages, C: Covariance, mean: Means, w: Float[Array, " n"], K: int, keep: Float[Array, ""]
) -> Float[Array, "K K"]:
    """E[g'_i g'_j Delta0^2] over the masks that keep i and j.

    In Delta0 these two units then have the weight w / keep. Each other unit a has w_a on average and adds its variance,
    w_a^2 (1 - keep) / keep E[g'_i g'_j g_a^2].
    """
    each = jax.vmap(lambda w: averages.slopes_squared_error(C, mean, w))
    i, j = np.triu_indices(K)
    kept = np.zeros((i.size, w.size), dtype=bool)
    kept[np.arange(i.size), i] = kept[np.arange(i.size), j] = True
    sure = each(jnp.where(kept, w / keep, w))[np.arange(i.size), i, j]
    spread = each(jnp.asarray(np.eye(K, w.size)))[:, i, j]  # E[g'_i g'_j g_a^2]
    others = jnp.where(kept[:, :K].T, 0.0, w[:K, None] ** 2) * (1 - keep) / keep
    upper = jnp.zeros((K, K)).at[i, j].set(sure + jnp.sum(others * spread, axis=0))
    return upper + jnp.triu(upper, 1).T
