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

e_g = (1/2) sum_ab w_a w_b E[g_a g_b] is a difference of numbers of order one: below about 1e-10 rounding takes over.
When every student has come close to a teacher, the same number is computed as a path integral instead: from the state in
which each student *is* its nearest teacher (where e_g is exact: only the mismatch of readouts remains) to the actual one,
    e_g(C) = e_g(C0) - int_0^1 [ tr(A(C_s) (Q - Q0)) / 2 + tr(B(C_s)^T (R - R0)) ] ds,   C_s = C0 + s (C - C0),
whose terms are small from the start. Given exact overlaps this keeps nine digits down to 1e-14 and below.

Gaussian mixtures. In class c a student's field has the mean m_c = sum_l p_l r_l S_c (of the overlaps with the vectors b_m,
not weighted by eigenvalues) and the covariance sum_l p_l lam_cl q_l. With A^c, B^c, G^c of a Gaussian with this mean and
covariance, and d_c = E_c[delta],
    dr_l = eta sum_c P_c (d_c (S_c t_l) + lam_cl (A^c r_l + B^c t_l))
    dq_l = eta sum_c P_c (d_c (S_c r_l^T) + lam_cl (A^c q_l + B^c r_l^T)) + transpose + eta^2 sum_c P_c lam_cl G^c
so that level l moves as with one Gaussian of eigenvalue 1 and the matrices
    A_l = sum_c P_c lam_cl A^c,   B_l = (sum_c P_c lam_cl B^c | sum_c P_c d_c S_c),   G_l = sum_c P_c lam_cl G^c.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.errors import InputError
from tutelage.moments.averages import FAMILIES, Averages, Means, MeanUpdate, Moments, Situation, array_module, triangle
from tutelage.moments.node_moments import NodeMoments, node_moments
from tutelage.moments.quadrature import BrokenAverages, Quadrature, QuadratureAverages, Sampled, chosen_rule, nearest_breaks
from tutelage.problem import Mixture, Problem, Tasks
from tutelage.problem.activation import Activation, as_activation
from tutelage.problem.start import Blocks
from tutelage.rules import Context, Dropout, FeedbackAlignment

NEAR = 0.03  # largest deviation from a copy of the teacher at which the path integral of the error is used
PATH = np.polynomial.legendre.leggauss(5)
FieldCovariance = Float[Any, "*time n n"]  # of NumPy or JAX; arrays of NumPy may have leading axes
Readout = Float[Any, "*time K"]
TeacherReadout = Float[Any, " M"]
Cross = Float[Any, "*time K M"]


def averages_for(
    student: Activation, teacher: Activation, K: int, M: int, biased: bool = False, quadrature: Quadrature | None = None
) -> Averages:
    """The averages of K students and M teachers: the first closed form that holds for the pair, else quadrature."""
    checks.as_kind("quadrature", quadrature, Quadrature | None, "a Quadrature, such as Quadrature(nodes=96)")
    for family, holds in FAMILIES.items():
        if holds(student, teacher, biased):
            return family(student, teacher, K, M)
    rule = chosen_rule(student, teacher) if quadrature is None else quadrature
    broken = nearest_breaks(student) or nearest_breaks(teacher)
    return (BrokenAverages if broken else QuadratureAverages)(student, teacher, K, M, rule)


def moments_for(
    problem: Problem, quadrature: Quadrature | None = None, sampled: Sampled | None = None, others: Iterable[Problem] = ()
) -> Moments:
    """The averages of a problem's rule: closed forms where they exist, else a grid, else a quasi-random set.

    others: problems that differ in numbers only and share these averages; labels vary if those of any one do.
    """
    checks.as_kind("quadrature", quadrature, Quadrature | None, "a Quadrature, such as Quadrature(nodes=96)")
    checks.as_kind("moments", sampled, Sampled | None, "a Sampled, such as Sampled(points=2**14)")
    if isinstance(problem.teacher, Tasks):
        alike = list(zip(problem.tasks, *(other.tasks for other in others), strict=True))
        return TaskMoments(tuple(moments_for(one, quadrature, sampled, same) for one, *same in alike))
    mixture, one = isinstance(problem.inputs, Mixture), problem.in_class()
    found = None
    if one.closed_form and sampled is None:
        activations, units = (one.student.activation, one.teacher.activation), (one.student.hidden, one.teacher.hidden)
        found = ClosedMoments(averages_for(*activations, *units, one.biased, quadrature))
    # fields of a class have means: pairs of them by quadrature are slow, so nodes serve unless asked otherwise
    if found is None or (mixture and quadrature is None and isinstance(found.averages, QuadratureAverages)):
        found = node_moments(one, sampled, [other.in_class() for other in others], still=problem.teacher is None)
    return MixtureMoments(found) if mixture else found


def summed_levels(weights: Float[NumpyOrJax, " L"], blocks: Float[NumpyOrJax, "L a b"]) -> Float[Array, "a b"]:
    """A field covariance: the overlaps of all levels, with weights p_l lam_l."""
    return array_module(weights, blocks).einsum("l,...lab->...ab", weights, blocks)


def joint_covariance(R: Cross, Q: Float[Any, "*time K K"], T: Float[Any, "*time M M"]) -> FieldCovariance:
    """C = [[Q, R], [R^T, T]], exactly symmetric."""
    # Rounding leaves Q - Q^T of order 1e-17. At order eta nothing moves it, but G depends on it: at large learning rates it
    # would grow exponentially and leave the fixed points of real vectors.
    xp = array_module(R, Q, T)
    T = xp.broadcast_to(T, (*R.shape[:-2], *T.shape[-2:]))
    upper = xp.concatenate([(Q + xp.swapaxes(Q, -1, -2)) / 2, R], axis=-1)
    return xp.concatenate([upper, xp.concatenate([xp.swapaxes(R, -1, -2), T], axis=-1)], axis=-2)


class ClosedMoments(Moments):
    """Squared loss on real labels: closed forms, or quadrature of pairs of fields."""

    averages: Averages

    def matrices(self, at: Situation, flow: bool) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        problem, rule, time = at.problem, at.problem.rule, at.context.time
        v, v_teacher = at.parameters.readout, jnp.asarray(problem.teacher.readout)
        feedback = rule.feedback_at(v, time) if isinstance(rule, FeedbackAlignment) else v
        keep = rule.keep_at(time) if isinstance(rule, Dropout) else None
        update = mean_update(self.averages, at.C, at.mean, v, v_teacher, feedback, keep)
        if flow:
            return update, jnp.zeros_like(update.A)
        w, noise = error_weights(v, v_teacher), jnp.asarray(problem.noise)
        return update, update_covariance(self.averages, at.C, at.mean, w, feedback, noise, keep)

    def error_and_loss(self, at: Situation) -> tuple[Float[Array, ""], Float[Array, ""]]:
        v, v_teacher = at.parameters.readout, jnp.asarray(at.problem.teacher.readout)
        error = population_error(self.averages, at.C, at.mean, v, v_teacher, shared_parity(at.problem))
        return error, error + jnp.asarray(at.problem.noise) ** 2 / 2

    def error_derivatives(self, at: Situation) -> MeanUpdate:
        """Minus the derivatives of e_g by Q (twice), R, readout and bias: the mean update of backpropagation."""
        return mean_update(self.averages, at.C, at.mean, at.parameters.readout, jnp.asarray(at.problem.teacher.readout))


class TaskMoments(Moments):
    """Several tasks: the moments of each, on its own fields, mixed with the probabilities u_s of the tasks.

    A = sum_s u_s A^s,   G = sum_s u_s G^s,   B = (u_1 B^1 | u_2 B^2 | ...),   dv^s = eta_v u_s E[h^s] (shared: their sum)
    """

    each: tuple[Moments, ...]

    def of_tasks(self, at: Situation, flow: bool) -> list[tuple[MeanUpdate, Float[Array, "K K"]]]:
        """The mean update and G of each task alone."""
        return [moments.matrices(at.of_task(s), flow) for s, moments in enumerate(self.each)]

    def matrices(self, at: Situation, flow: bool) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        return mixed(at.problem, self.of_tasks(at, flow), at.context)

    def error_and_loss(self, at: Situation) -> tuple[Float[Array, " tasks"], Float[Array, " tasks"]]:
        errors, losses = zip(*(one.error_and_loss(at.of_task(s)) for s, one in enumerate(self.each)), strict=True)
        return jnp.stack(errors), jnp.stack(losses)


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


class MixtureMoments(Moments):
    """The moments of one class of a Gaussian mixture, which serve all classes: these differ in numbers only."""

    one: Moments

    def of_levels(self, at: Situation, blocks: Blocks, flow: bool) -> tuple[MeanUpdate, Float[Array, "L K K"]]:
        """A_l, B_l and what moves readout and bias, and G_l, for overlaps r, q, t per level; eigenvalues included."""
        mixture, M = at.problem.inputs, at.problem.label_fields
        each, G = self._over_classes(at, blocks, lambda one: self.one.matrices(one, flow))
        P, S, lam = (jnp.asarray(x) for x in (mixture.probabilities, mixture.coefficients, mixture.spectra))
        A, B, G = (jnp.einsum("cl,cij->lij", P[:, None] * lam, x) for x in (each.A, each.B, G))
        along_means = jnp.broadcast_to(jnp.einsum("c,ck,cm->km", P, each.bias, S), (lam.shape[1], A.shape[1], S.shape[1]))
        B = jnp.concatenate([B[..., :M], along_means], axis=-1)
        return MeanUpdate(A, B, jnp.tensordot(P, each.readout, 1), P @ each.bias), G

    def errors(self, at: Situation, blocks: Blocks) -> tuple[Float[Array, " classes"], Float[Array, " classes"]]:
        """Error and loss in each class."""
        return self._over_classes(at, blocks, self.one.error_and_loss)

    def _over_classes(self, at: Situation, blocks: Blocks, function: Callable[[Situation], Any]) -> Any:
        """A function of the situation in a class, over all classes."""
        # Averages over nodes are taken class by class, which bounds memory; closed forms for all classes at once.
        problem = at.problem

        def one(label: Array, C: Array, mean: Array) -> Any:
            return function(replace(at, problem=problem.in_class(label), C=C, mean=mean))

        targets = jnp.zeros(problem.inputs.classes) if problem.targets is None else jnp.asarray(problem.targets)
        over = targets, *class_fields(problem, blocks, at.parameters.bias)
        return jax.lax.map(lambda each: one(*each), over) if isinstance(self.one, NodeMoments) else jax.vmap(one)(*over)


def class_fields(problem: Problem, blocks: Blocks, bias: Array | None) -> tuple[FieldCovariance, Float[Array, "classes n"]]:
    """Covariance and mean of the fields in each class: students, then teacher units; or a unit whose field is always 1."""
    (r, q, t), mixture, M = blocks, problem.inputs, problem.label_fields
    p, lam, S = (jnp.asarray(x) for x in (mixture.fractions, mixture.spectra, mixture.coefficients))
    summed = partial(jnp.einsum, "cl,lij->cij", p * lam)
    students = jnp.einsum("l,lkm,cm->ck", p, r[..., M:], S)
    students = students if bias is None else students + bias
    if problem.teacher is None:
        classes, K = students.shape
        R, T, teachers = jnp.zeros((classes, K, 1)), jnp.zeros((classes, 1, 1)), jnp.ones((classes, 1))
    else:
        R, T, teachers = summed(r[..., :M]), summed(t[:, :M, :M]), jnp.einsum("l,lmn,cn->cm", p, t[:, :M, M:], S)
        teachers = teachers if problem.teacher.bias is None else teachers + jnp.asarray(problem.teacher.bias)
    return jax.vmap(joint_covariance)(R, summed(q), T), jnp.concatenate([students, teachers], 1)


def single_moments(moments: "Moments | None") -> "tuple[Moments | None, ...]":
    """The moments of each task, or of a class of a mixture; of any other problem, its own."""
    if isinstance(moments, TaskMoments):
        return moments.each
    return (getattr(moments, "one", moments),)


def error_weights(v: Readout, v_teacher: TeacherReadout) -> Float[Any, "*time n"]:
    """w with Delta0 = sum_a w_a g_a."""
    xp = array_module(v, v_teacher)
    return xp.concatenate([-v, xp.broadcast_to(v_teacher, (*v.shape[:-1], v_teacher.size))], axis=-1)


def shared_parity(problem: Problem) -> int | None:
    """Parity of the activation that student and teacher share without biases; else None: no student can copy a teacher."""
    shared = problem.student.activation == problem.teacher.activation and not problem.biased
    return problem.student.activation.parity if shared else None


def population_error(
    averages: Averages, C: FieldCovariance, mean: Means, v: Readout, v_teacher: TeacherReadout, parity: int | None
) -> Float[Any, "*time"]:
    """e_g. `parity`: that of the activation which student and teacher share, None if they do not."""
    w, xp = error_weights(v, v_teacher), array_module(C, v, v_teacher)
    # of the class: to bind a method of an equinox module takes longer than this call in NumPy
    outputs = type(averages).outputs(averages, C, mean)
    errors = _not_negative(xp.einsum("...a,...ab,...b->...", w, outputs, w) / 2)
    if parity is None:
        return errors
    copy = _nearest_copy(C, parity, v.shape[-1])
    near = xp.abs(_from_copy(C, copy)).max((-2, -1)) < NEAR
    if not isinstance(errors, np.ndarray):
        return jnp.where(near, _along_path(averages, C, v, v_teacher, copy, parity), errors)
    if near.any():
        errors[near] = _along_path(averages, C[near], v[near], v_teacher, copy[near], parity)
    return errors


def _not_negative(error: Float[Any, "*time"]) -> Float[Any, "*time"]:
    """The error, zero where rounding has made it negative; its derivatives are those without this correction."""
    if isinstance(error, np.ndarray | np.floating):
        return np.maximum(error, 0.0)
    # The derivative of a maximum would be halved at perfect learning, where the error is zero, and zero next to it.
    return error + jax.lax.stop_gradient(jnp.maximum(-error, 0.0))


def _nearest_copy(C: FieldCovariance, parity: int, K: int) -> Cross:
    """1 where a teacher is the one that a student is nearest to, -1 if the student is its mirror image."""
    xp, R = array_module(C), C[..., :K, K:]
    lengths = xp.sqrt(xp.maximum(xp.diagonal(C, axis1=-2, axis2=-1)[..., None, K:], 1e-300))  # a teacher may be silent
    nearest = xp.argmax(xp.abs(R) / lengths, axis=-1)
    return (nearest[..., None] == np.arange(R.shape[-1])) * (xp.where(R < 0, -1.0, 1.0) if parity else 1.0)


def _from_copy(C: FieldCovariance, copy: Cross) -> FieldCovariance:
    """How far the covariance is from that of the copies; zero among the teachers."""
    K, xp = copy.shape[-2], array_module(C, copy)
    T = C[..., K:, K:]
    R = copy @ T
    return C - joint_covariance(R, R @ xp.swapaxes(copy, -1, -2), T)


def _along_path(
    averages: Averages, C: FieldCovariance, v: Readout, v_teacher: TeacherReadout, copy: Cross, parity: int
) -> Float[Any, "*time"]:
    """The path integral. A mirrored student imitates too: with the same readout if g is even, the opposite if odd."""
    K, w, away, xp = v.shape[-1], error_weights(v, v_teacher), _from_copy(C, copy), array_module(C, v, v_teacher)
    left = v_teacher - xp.einsum("...k,...km->...m", v, copy if parity < 0 else xp.abs(copy))
    first = (0,) * (C.ndim - 2)  # the teachers are the same at all times
    teachers = type(averages).outputs(averages, C[first], None)[K:, K:]
    share = np.concatenate([np.full(K, 0.5), np.ones(C.shape[-1] - K)])  # of the changes of Q and of R

    def slope(s: Any) -> Any:
        both = vector_update(averages, C - (1 - s) * away, None, w[..., None, :], v)
        return -(both * share * away[..., :K, :]).sum((-2, -1))

    nodes, weights = (PATH[0] + 1) / 2, PATH[1] / 2
    slopes = slope(nodes.reshape(-1, *[1] * C.ndim)) if xp is np else jax.vmap(slope)(jnp.asarray(nodes))
    rest = xp.einsum("...m,mo,...o->...", left, teachers, left) / 2
    return _not_negative(rest + xp.tensordot(weights, slopes, 1))


def mean_update(
    averages: Averages,
    C: FieldCovariance,
    mean: Means,
    v: Readout,
    v_teacher: TeacherReadout,
    feedback: Readout | None = None,
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
    averages: Averages, C: FieldCovariance, mean: Means, w: Float[Any, "*K n"], f: Readout
) -> Float[Any, "K n"]:
    """A beside B. w: weights of the error, one row for all students or one for each. f: the prefactor of delta."""
    # of the class: to bind a method of an equinox module takes longer than these calls in NumPy
    slopes, curvatures = (find(averages, C, mean) for find in (type(averages).slopes, type(averages).curvatures))
    own, bend = np.eye(*slopes.shape[-2:], dtype=bool), (curvatures * w).sum(axis=-1, keepdims=True)
    return f[..., None] * (w * slopes + array_module(bend).where(own, bend, 0.0))


def update_covariance(
    averages: Averages, C: FieldCovariance, mean: Means, w: Array, f: Readout, sigma: Array, keep: Array | None = None
) -> Float[Array, "K K"]:
    """G: the order-eta^2 part of the dynamics of squared loss; w, f and keep as before, sigma is the label noise."""
    K = f.shape[0]
    noise = sigma**2 * averages.slopes(C, mean)[:, :K]
    if keep is None:
        return f[:, None] * f * (averages.slopes_squared_error(C, mean, w) + noise)
    squared = _squared_error_of_kept(averages, C, mean, w, K, keep)
    return f[:, None] * f * jnp.where(np.eye(K, dtype=bool), 1 / keep, 1.0) * (squared + noise)


def _squared_error_of_kept(
    averages: Averages, C: FieldCovariance, mean: Means, w: Float[Array, " n"], K: int, keep: Float[Array, ""]
) -> Float[Array, "K K"]:
    """E[g'_i g'_j Delta0^2] over the masks that keep i and j."""
    # In Delta0 these two units then have the weight w / keep. Each other unit a has w_a on average and adds its variance,
    # w_a^2 (1 - keep) / keep E[g'_i g'_j g_a^2].
    each = jax.vmap(lambda w: averages.slopes_squared_error(C, mean, w))
    i, j, place = triangle(K)
    kept = np.zeros((i.size, w.size), dtype=bool)
    kept[np.arange(i.size), i] = kept[np.arange(i.size), j] = True
    sure = each(jnp.where(kept, w / keep, w))[np.arange(i.size), i, j]
    spread = each(jnp.asarray(np.eye(K, w.size)))[:, i, j]  # E[g'_i g'_j g_a^2]
    others = jnp.where(kept[:, :K].T, 0.0, w[:K, None] ** 2) * (1 - keep) / keep
    return (sure + jnp.sum(others * spread, axis=0))[place]


def I2(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g(a) g(b)] for jointly Gaussian (a, b) with covariance C of shape (..., 2, 2)."""
    return _integral("I2", activation, C, 2, 2, quadrature)


def J2(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g'(a) g'(b)] for jointly Gaussian (a, b) with covariance C of shape (..., 2, 2)."""
    return _integral("J2", activation, C, 2, 1, quadrature)


def I3(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g'(a) b g(c)] for jointly Gaussian (a, b, c) with covariance C of shape (..., 3, 3).

    By Stein's lemma C_ab E[g''(a) g(c)] + C_bc E[g'(a) g'(c)].
    """
    return _integral("I3", activation, C, 3, 1, quadrature)


def I4(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g'(a) g'(b) g(c) g(d)] for jointly Gaussian (a, b, c, d) with covariance C of shape (..., 4, 4)."""
    return _integral("I4", activation, C, 4, 2, quadrature)


def _integral(
    name: str, activation: str | Activation, C: ArrayLike, fields: int, students: int, quadrature: Quadrature | None
) -> Array:
    g = as_activation(activation)
    if name != "I2" and not g.trainable:
        raise InputError(f"{name} needs the derivative of {g.name!r}, which has none; use 'erf', or I2 alone.")
    C = jnp.asarray(checks.as_array("C", C))
    if C.ndim < 2 or C.shape[-2:] != (fields, fields):
        raise InputError(f"C has shape {C.shape}; {name} needs (..., {fields}, {fields}), the covariance of its fields.")
    checks.require_gram("C", C)
    family = averages_for(g, g, students, fields - students, quadrature=quadrature)
    return _formulas(name, family, C.reshape(-1, fields, fields)).reshape(C.shape[:-2])


@eqx.filter_jit
def _formulas(name: str, family: Averages, C: Float[Array, "count n n"]) -> Float[Array, " count"]:
    squared = lambda c, sign: family.slopes_squared_error(c, None, jnp.array([0.0, 0.0, 1.0, sign]))[0, 1]  # noqa: E731
    formulas = {
        "I2": lambda c: family.outputs(c, None)[0, 1],
        "J2": lambda c: family.slopes(c, None)[0, 1],
        "I3": lambda c: c[0, 1] * family.curvatures(c, None)[0, 2] + c[1, 2] * family.slopes(c, None)[0, 2],
        "I4": lambda c: (squared(c, 1.0) - squared(c, -1.0)) / 4,
    }
    return jax.vmap(formulas[name])(C)
