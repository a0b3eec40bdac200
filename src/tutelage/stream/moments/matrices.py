"""The three matrices of the theory: A and B, the mean update of one sample, and G.

The mean update of a student vector is a combination of student and teacher vectors,
multiplied by the input covariance, and G is the covariance of the update:

    E[delta_k x] = Omega (sum_j A_kj w_j + sum_m B_km w*_m),    G = E[delta delta^T].

For squared loss Stein's lemma gives

    A_kj = -v_k v_j E[g'_k g'_j] + 1(k = j) v_k E[Delta g''_k]
    B_km =  v_k v*_m E[g'_k g*'_m]
    G_kj =  v_k v_j (E[Delta0^2 g'_k g'_j] + sigma^2 E[g'_k g'_j])

Delta0 = sum_a w_a g_a is the error without label noise, w = (-v, v*). Up to sign A/2
and B are also the gradient of e_g with respect to Q and R, and v o E[Delta g'],
E[Delta g] those with respect to biases and readouts. Saad and Solla (1995) write the
same averages as sums over I2 = E[g g], I3 = E[g' z g] and I4 = E[g' g' g g];
J2 = E[g' g'] comes with label noise.

Feedback alignment replaces v_k before these averages, not v_j within Delta, by the
feedback f_k. Dropout averages them over masks m_k in {0, 1/keep} with v_k -> m_k v_k:
where unit k learns it was kept, so its own weight in Delta is w_k / keep.

Errors near perfect learning. e_g = (1/2) sum_ab w_a w_b E[g_a g_b] is a difference of
numbers of order one: below about 1e-10 rounding takes over. When every student has come
close to a teacher, the same number is computed as a path integral instead: from the
state in which each student *is* its nearest teacher (where e_g is exact: only the
mismatch of readouts remains) to the actual one,

    e_g(C) = e_g(C0) - int_0^1 [ tr(A(C_s) (Q - Q0)) / 2 + tr(B(C_s)^T (R - R0)) ] ds,
    C_s = C0 + s (C - C0),

whose terms are small from the start. Given exact overlaps this keeps nine digits down
to 1e-14 and below.

Gaussian mixtures. In class c a student's field has the mean m_c = sum_l p_l r_l S_c (of
the overlaps with the vectors b_m, not weighted by eigenvalues) and the covariance
sum_l p_l lam_cl q_l. With A^c, B^c, G^c of a Gaussian with this mean and covariance,
and d_c = E_c[delta],

    dr_l = eta sum_c P_c (d_c (S_c t_l) + lam_cl (A^c r_l + B^c t_l))
    dq_l = eta sum_c P_c (d_c (S_c r_l^T) + lam_cl (A^c q_l + B^c r_l^T)) + transpose
           + eta^2 sum_c P_c lam_cl G^c

so that level l moves as with one Gaussian of eigenvalue 1 and the matrices

    A_l = sum_c P_c lam_cl A^c,
    B_l = (sum_c P_c lam_cl B^c | sum_c P_c d_c S_c),
    G_l = sum_c P_c lam_cl G^c.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, NumpyOrJax
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.problem.activation import Activation
from tutelage.problem.start import Blocks
from tutelage.stream.moments.averages import (
    FAMILIES,
    Averages,
    FieldState,
    Means,
    MeanUpdate,
    Moments,
    array_module,
    triangle,
)
from tutelage.stream.moments.batch_moments import (
    SquaresMoments,
    batch_moments,
    episode_moments,
)
from tutelage.stream.moments.node_moments import NodeMoments, node_moments
from tutelage.stream.moments.quadrature import (
    BrokenAverages,
    Quadrature,
    QuadratureAverages,
    Sampled,
    chosen_rule,
    nearest_breaks,
)
from tutelage.training.rules import Context, Dropout, FeedbackAlignment

# Largest deviation from a copy of the teacher at which the path integral of the error
# is used, and the Gauss-Legendre rule of this integral, on (-1, 1).
NEAR = 0.03
PATH = np.polynomial.legendre.leggauss(5)
SHORTEST_SQUARE = 1e-300  # stands for the squared norm of a teacher unit that is zero

# Arrays of NumPy or JAX. Arrays of NumPy may have leading axes, such as time.
FieldCovariance: TypeAlias = Float[Any, "*time n n"]
Readout: TypeAlias = Float[Any, "*time K"]
TeacherReadout: TypeAlias = Float[Any, " M"]
Cross: TypeAlias = Float[Any, "*time K M"]
UpdateAndCovariance: TypeAlias = tuple[MeanUpdate, Float[Array, "K K"]]


def averages_for(
    student: Activation,
    teacher: Activation,
    K: int,
    M: int,
    biased: bool = False,
    quadrature: Quadrature | None = None,
) -> Averages:
    """Return the averages of K students and M teachers.

    They are the first closed form that holds for the pair of activations, else
    quadrature.
    """
    _require_quadrature(quadrature)
    for family, holds in FAMILIES.items():
        if holds(student, teacher, biased):
            return family(student, teacher, K, M)
    rule = quadrature or chosen_rule(student, teacher)
    if nearest_breaks(student) or nearest_breaks(teacher):
        return BrokenAverages(student, teacher, K, M, rule)
    return QuadratureAverages(student, teacher, K, M, rule)


def _require_quadrature(quadrature: Quadrature | None) -> None:
    must = "a Quadrature, such as Quadrature(nodes=96)"
    checks.as_kind("quadrature", quadrature, Quadrature | None, must)


def moments_for(
    problem: Problem,
    quadrature: Quadrature | None = None,
    sampled: Sampled | None = None,
    others: Iterable[Problem] = (),
) -> Moments:
    """Return the averages of a problem's rule.

    They are closed forms where these exist, else a grid, else a quasi-random set.

    others: problems that differ in numbers only and share these averages; labels vary
    if those of any one do.
    """
    _require_quadrature(quadrature)
    must = "a Sampled, such as Sampled(points=2**14)"
    checks.as_kind("moments", sampled, Sampled | None, must)
    if problem.several_tasks is not None:
        tasks_of_others = [other.tasks for other in others]
        moments = []
        for s, task in enumerate(problem.tasks):
            same_task = [tasks[s] for tasks in tasks_of_others]
            moments.append(moments_for(task, quadrature, sampled, same_task))
        return TaskMoments(tuple(moments))
    is_mixture = problem.inputs.classes is not None
    if is_mixture and problem.rule.couples_samples:
        raise InputError(
            f"the rule {type(problem.rule).__name__} couples the samples of an episode "
            "and the inputs are a Mixture, whose classes differ within an episode; "
            "simulate, or define of_one_sample(mean_loss)."
        )
    in_class = problem.in_class()
    moments = None
    if in_class.closed_form and sampled is None:
        averages = averages_for(
            in_class.student.activation,
            in_class.labeler.activation,
            in_class.student.hidden,
            in_class.labeler.hidden,
            in_class.biased,
            quadrature,
        )
        # Fields of a class have means. Pairs of such fields are slow by quadrature, so
        # nodes serve unless a quadrature was asked for.
        by_quadrature = isinstance(averages, QuadratureAverages)
        if not (is_mixture and by_quadrature and quadrature is None):
            moments = ClosedMoments(averages)
    if moments is None:
        others_in_class = [other.in_class() for other in others]
        moments = node_moments(
            in_class, sampled, others_in_class, still=problem.teacher is None
        )
    moments = _for_optimizer(in_class, moments, sampled)
    if is_mixture:
        return MixtureMoments(moments)
    return moments


def _for_optimizer(
    problem: Problem, moments: Moments, sampled: Sampled | None
) -> Moments:
    """Return the averages that rule and optimizer need, made of usual ones."""
    optimizer = problem.optimizer
    is_of_episodes = problem.rule.samples > 1
    if is_of_episodes and problem.rule.couples_samples:
        return episode_moments(problem, moments, sampled)
    if optimizer.averages_batches:
        return batch_moments(problem, moments, sampled)
    if optimizer.squares_readout and problem.student.train_readout:
        if isinstance(moments, NodeMoments):
            return SquaresMoments(moments, moments)
        return SquaresMoments(moments, node_moments(problem, sampled, ()))
    return moments


def summed_levels(
    weights: Float[NumpyOrJax, " L"], blocks: Float[NumpyOrJax, "L a b"]
) -> Float[Array, "a b"]:
    """Return a field covariance: overlaps of all levels, with weights p_l lam_l."""
    return array_module(weights, blocks).einsum("l,...lab->...ab", weights, blocks)


def joint_covariance(
    R: Cross, Q: Float[Any, "*time K K"], T: Float[Any, "*time M M"]
) -> FieldCovariance:
    """Return C = [[Q, R], [R^T, T]], exactly symmetric."""
    # Rounding leaves Q - Q^T of order 1e-17. At order eta nothing moves it, but G
    # depends on it: at large learning rates it would grow exponentially and leave the
    # fixed points of real vectors.
    xp = array_module(R, Q, T)
    Q = (Q + xp.swapaxes(Q, -1, -2)) / 2
    T = xp.broadcast_to(T, (*R.shape[:-2], *T.shape[-2:]))
    upper = xp.concatenate([Q, R], axis=-1)
    lower = xp.concatenate([xp.swapaxes(R, -1, -2), T], axis=-1)
    return xp.concatenate([upper, lower], axis=-2)


class ClosedMoments(Moments):
    """The moments of squared loss on real labels.

    The averages are closed forms, or quadrature of pairs of fields.
    """

    averages: Averages

    def matrices(self, state: FieldState, flow: bool) -> UpdateAndCovariance:
        rule = state.problem.rule
        time = state.context.time
        v = state.parameters.readout
        v_teacher = jnp.asarray(state.problem.labeler.readout)
        feedback = v
        if isinstance(rule, FeedbackAlignment):
            feedback = rule.feedback_at(v, time)
        keep = rule.keep_at(time) if isinstance(rule, Dropout) else None
        update = mean_update(
            self.averages, state.C, state.mean, v, v_teacher, feedback, keep
        )
        if flow:
            return update, jnp.zeros_like(update.A)
        w = error_weights(v, v_teacher)
        noise = jnp.asarray(state.problem.noise)
        G = update_covariance(
            self.averages, state.C, state.mean, w, feedback, noise, keep
        )
        return update, G

    def error_and_loss(
        self, state: FieldState
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        v = state.parameters.readout
        v_teacher = jnp.asarray(state.problem.labeler.readout)
        parity = shared_parity(state.problem)
        error = population_error(
            self.averages, state.C, state.mean, v, v_teacher, parity
        )
        # label noise adds sigma^2 / 2 to the loss
        return error, error + jnp.asarray(state.problem.noise) ** 2 / 2

    def error_derivatives(self, state: FieldState) -> MeanUpdate:
        """Return the mean update of backpropagation.

        It is minus the derivatives of e_g by Q (twice), R, readout and bias.
        """
        v = state.parameters.readout
        v_teacher = jnp.asarray(state.problem.labeler.readout)
        return mean_update(self.averages, state.C, state.mean, v, v_teacher)


class TaskMoments(Moments):
    """The moments of several tasks, each on its own fields.

    They are mixed with the probabilities u_s of the tasks:

        A = sum_s u_s A^s,    G = sum_s u_s G^s,    B = (u_1 B^1 | u_2 B^2 | ...),
        dv^s = eta_v u_s E[h^s]  (a shared readout: their sum)
    """

    by_task: tuple[Moments, ...]

    def of_tasks(self, state: FieldState, flow: bool) -> list[UpdateAndCovariance]:
        """Return the mean update and G of each task alone."""
        return [
            moments.matrices(state.of_task(s), flow)
            for s, moments in enumerate(self.by_task)
        ]

    def matrices(self, state: FieldState, flow: bool) -> UpdateAndCovariance:
        return mixed(state.problem, self.of_tasks(state, flow), state.context)

    def error_and_loss(
        self, state: FieldState
    ) -> tuple[Float[Array, " tasks"], Float[Array, " tasks"]]:
        errors = []
        losses = []
        for s, moments in enumerate(self.by_task):
            error, loss = moments.error_and_loss(state.of_task(s))
            errors.append(error)
            losses.append(loss)
        return jnp.stack(errors), jnp.stack(losses)


def mixed(
    problem: Problem, tasks: list[UpdateAndCovariance], context: Context
) -> UpdateAndCovariance:
    """Return the mean update and G of a sample of a random task.

    The task is drawn with the probabilities at this time.
    """
    shared = problem.several_tasks
    assert shared is not None
    u = shared.probabilities(context.time)
    updates = []
    covariances = []
    for s, (update, G) in enumerate(tasks):
        updates.append(jax.tree.map(lambda x, s=s: u[s] * x, update))
        covariances.append(u[s] * G)
    A = sum(update.A for update in updates)
    bias = sum(update.bias for update in updates)
    G = sum(covariances)
    B = jnp.concatenate([update.B for update in updates], axis=1)
    heads = [update.readout for update in updates]
    has_own_heads = shared.heads == "separate"
    readout = jnp.stack(heads) if has_own_heads else sum(heads)
    mean = MeanUpdate(
        A=jnp.asarray(A),
        B=B,
        readout=jnp.asarray(readout),
        bias=jnp.asarray(bias),
        readout_squares=_mixed_squares(updates, has_own_heads),
    )
    return mean, jnp.asarray(G)


def _mixed_squares(updates: list[MeanUpdate], has_own_heads: bool) -> Array | None:
    """Return E[h^2] of the readout, from its parts of the tasks; None if it is unknown."""
    squares = []
    for update in updates:
        if update.readout_squares is None:
            return None
        squares.append(update.readout_squares)
    if has_own_heads:
        return jnp.stack(squares)
    return jnp.asarray(sum(squares))


class MixtureMoments(Moments):
    """The moments of one class of a Gaussian mixture.

    They serve all classes, which differ in numbers only.
    """

    of_class: Moments

    def of_levels(
        self, state: FieldState, blocks: Blocks, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "L K K"]]:
        """Return the mean update, with A_l and B_l per level, and G_l.

        blocks: the overlaps r, q, t. The eigenvalues are included in the matrices.
        """
        mixture = state.problem.mixture
        assert mixture is not None
        M = state.problem.label_fields
        update, G = self._over_classes(
            state, blocks, lambda in_class: self.of_class.matrices(in_class, flow)
        )
        P = jnp.asarray(mixture.probabilities)
        S = jnp.asarray(mixture.coefficients)
        lam = jnp.asarray(mixture.spectra)

        def summed(matrices: Array) -> Array:
            """Return sum_c P_c lam_cl X^c of every level."""
            return jnp.einsum("cl,cij->lij", P[:, None] * lam, matrices)

        A = summed(update.A)
        B = summed(update.B)
        G = summed(G)
        # the second part of B_l, sum_c P_c d_c S_c, in which d_c moves the biases, too
        along_means = jnp.einsum("c,ck,cm->km", P, update.bias, S)
        levels = lam.shape[1]
        shape = (levels, A.shape[1], S.shape[1])
        along_means = jnp.broadcast_to(along_means, shape)
        mean = MeanUpdate(
            A=A,
            B=jnp.concatenate([B[..., :M], along_means], axis=-1),
            readout=jnp.tensordot(P, update.readout, 1),
            bias=P @ update.bias,
        )
        return mean, G

    def errors(
        self, state: FieldState, blocks: Blocks
    ) -> tuple[Float[Array, " classes"], Float[Array, " classes"]]:
        """Return error and loss in each class."""
        return self._over_classes(state, blocks, self.of_class.error_and_loss)

    def _over_classes(
        self, state: FieldState, blocks: Blocks, function: Callable[[FieldState], Any]
    ) -> Any:
        """Return a function of the fields' state in a class, over all classes."""
        problem = state.problem

        def in_class(label: Array, C: Array, mean: Array) -> Any:
            return function(
                replace(state, problem=problem.in_class(label), C=C, mean=mean)
            )

        if problem.targets is None:
            targets = jnp.zeros(problem.inputs.classes)
        else:
            targets = jnp.asarray(problem.targets)
        C, means = class_fields(problem, blocks, state.parameters.bias)
        # Averages over nodes are taken class by class, which bounds memory; closed
        # forms for all classes at once.
        if isinstance(self.of_class, NodeMoments):
            return jax.lax.map(lambda fields: in_class(*fields), (targets, C, means))
        return jax.vmap(in_class)(targets, C, means)


def class_fields(
    problem: Problem, blocks: Blocks, bias: Array | None
) -> tuple[FieldCovariance, Float[Array, "classes n"]]:
    """Return covariance and mean of the fields in each class.

    Students come first, then teacher units; without a teacher a unit whose field is
    always 1.
    """
    r, q, t = blocks
    mixture = problem.mixture
    assert mixture is not None
    M = problem.label_fields
    p = jnp.asarray(mixture.fractions)
    lam = jnp.asarray(mixture.spectra)
    S = jnp.asarray(mixture.coefficients)

    def summed(overlaps: NumpyOrJax) -> Array:
        """Return sum_l p_l lam_cl x_l in every class."""
        return jnp.einsum("cl,lij->cij", p * lam, overlaps)

    # m_c = sum_l p_l r_l S_c: the last columns of r are overlaps with the vectors b_m
    students = jnp.einsum("l,lkm,cm->ck", p, r[..., M:], S)
    if bias is not None:
        students = students + bias
    if problem.teacher is None:
        classes, K = students.shape
        R = jnp.zeros((classes, K, 1))
        T = jnp.zeros((classes, 1, 1))
        teachers = jnp.ones((classes, 1))
    else:
        R = summed(r[..., :M])
        T = summed(t[:, :M, :M])
        teachers = jnp.einsum("l,lmn,cn->cm", p, t[:, :M, M:], S)
        if problem.labeler.bias is not None:
            teachers = teachers + jnp.asarray(problem.labeler.bias)
    C = jax.vmap(joint_covariance)(R, summed(q), T)
    return C, jnp.concatenate([students, teachers], 1)


def single_moments(moments: "Moments | None") -> "tuple[Moments | None, ...]":
    """Return the moments of each task, or of a class of a mixture.

    Those of any other problem are returned as they are.
    """
    if isinstance(moments, TaskMoments):
        parts = moments.by_task
    elif isinstance(moments, MixtureMoments):
        parts = (moments.of_class,)
    else:
        parts = (moments,)
    single: list[Moments | None] = []
    for part in parts:
        if isinstance(part, SquaresMoments):
            single += [part.usual, part.nodes]
        else:
            single.append(part)
    return tuple(single)


def error_weights(v: Readout, v_teacher: TeacherReadout) -> Float[Any, "*time n"]:
    """Return w = (-v, v*), the weights in Delta0 = sum_a w_a g_a."""
    xp = array_module(v, v_teacher)
    v_teacher = xp.broadcast_to(v_teacher, (*v.shape[:-1], v_teacher.size))
    return xp.concatenate([-v, v_teacher], axis=-1)


def shared_parity(problem: Problem) -> int | None:
    """Return the parity of the activation that student and teacher share.

    None if they share none or have biases: then no student can copy a teacher.
    """
    activation = problem.student.activation
    if activation != problem.labeler.activation or problem.biased:
        return None
    return activation.parity


def population_error(
    averages: Averages,
    C: FieldCovariance,
    mean: Means,
    v: Readout,
    v_teacher: TeacherReadout,
    parity: int | None,
) -> Float[Any, "*time"]:
    """Return e_g.

    parity: that of the activation which student and teacher share, None if they do not.
    """
    xp = array_module(C, v, v_teacher)
    w = error_weights(v, v_teacher)
    # e_g = (1/2) sum_ab w_a w_b I2(a, b). `outputs` is looked up on the class: to bind
    # a method of an equinox module takes longer than this call in NumPy.
    outputs = type(averages).outputs(averages, C, mean)
    errors = _not_negative(xp.einsum("...a,...ab,...b->...", w, outputs, w) / 2)
    if parity is None:
        return errors
    copy = _nearest_copy(C, parity, v.shape[-1])
    near = xp.abs(_from_copy(C, copy)).max((-2, -1)) < NEAR
    if not isinstance(errors, np.ndarray):
        by_path = _along_path(averages, C, v, v_teacher, copy, parity)
        return jnp.where(near, by_path, errors)
    if near.any():
        errors[near] = _along_path(
            averages, C[near], v[near], v_teacher, copy[near], parity
        )
    return errors


def _not_negative(error: Float[Any, "*time"]) -> Float[Any, "*time"]:
    """Return the error, and zero where rounding has made it negative.

    Its derivatives are those without this correction.
    """
    if isinstance(error, np.ndarray | np.floating):
        return np.maximum(error, 0.0)
    # The derivative of a maximum would be halved at perfect learning, where the error
    # is zero, and zero next to it.
    return error + jax.lax.stop_gradient(jnp.maximum(-error, 0.0))


def _nearest_copy(C: FieldCovariance, parity: int, K: int) -> Cross:
    """Return 1 at the teacher nearest to each student, -1 at the nearest mirror image.

    All other entries are 0.
    """
    xp = array_module(C)
    R = C[..., :K, K:]
    squares = xp.diagonal(C, axis1=-2, axis2=-1)[..., None, K:]
    lengths = xp.sqrt(xp.maximum(squares, SHORTEST_SQUARE))
    nearest = xp.argmax(xp.abs(R) / lengths, axis=-1)
    is_nearest = nearest[..., None] == np.arange(R.shape[-1])
    signs = xp.where(R < 0, -1.0, 1.0) if parity else 1.0
    return is_nearest * signs


def _from_copy(C: FieldCovariance, copy: Cross) -> FieldCovariance:
    """Return C - C0, the deviation from the covariance of the copies.

    It is zero among the teachers.
    """
    xp = array_module(C, copy)
    K = copy.shape[-2]
    T = C[..., K:, K:]
    R = copy @ T
    Q = R @ xp.swapaxes(copy, -1, -2)
    return C - joint_covariance(R, Q, T)


def _along_path(
    averages: Averages,
    C: FieldCovariance,
    v: Readout,
    v_teacher: TeacherReadout,
    copy: Cross,
    parity: int,
) -> Float[Any, "*time"]:
    """Return e_g by the path integral from the state in which students are copies.

    A mirrored student imitates too: with the same readout if g is even, the opposite
    one if g is odd.
    """
    xp = array_module(C, v, v_teacher)
    K = v.shape[-1]
    w = error_weights(v, v_teacher)
    deviation = _from_copy(C, copy)

    # e_g(C0): teacher units with the mismatch of readouts as weights
    imitated = copy if parity < 0 else xp.abs(copy)
    mismatch = v_teacher - xp.einsum("...k,...km->...m", v, imitated)
    first = (0,) * (C.ndim - 2)  # the teachers are the same at all times
    teachers = type(averages).outputs(averages, C[first], None)[K:, K:]
    error_of_copies = xp.einsum("...m,mo,...o->...", mismatch, teachers, mismatch) / 2

    # (Q - Q0) counts half, (R - R0) once: the derivatives are A / 2 and B
    share = np.concatenate([np.full(K, 0.5), np.ones(C.shape[-1] - K)])

    def slope(s: Any) -> Any:
        """Return the derivative of e_g(C_s) by s, C_s = C - (1 - s) (C - C0)."""
        C_s = C - (1 - s) * deviation
        A_and_B = vector_update(averages, C_s, None, w[..., None, :], v)
        return -(A_and_B * share * deviation[..., :K, :]).sum((-2, -1))

    nodes = (PATH[0] + 1) / 2
    weights = PATH[1] / 2
    if xp is np:
        slopes = slope(nodes.reshape(-1, *[1] * C.ndim))
    else:
        slopes = jax.vmap(slope)(jnp.asarray(nodes))
    return _not_negative(error_of_copies + xp.tensordot(weights, slopes, 1))


def mean_update(
    averages: Averages,
    C: FieldCovariance,
    mean: Means,
    v: Readout,
    v_teacher: TeacherReadout,
    feedback: Readout | None = None,
    keep: Float[Array, ""] | None = None,
) -> MeanUpdate:
    """Return the order-eta part of the dynamics of squared loss.

    feedback: the prefactor of delta (default: v). keep: of dropout.
    """
    K = v.shape[-1]
    f = v if feedback is None else feedback
    w = error_weights(v, v_teacher)[..., None, :]
    if keep is not None:
        # a unit that learns was kept: row k of w has the weight w_k / keep of unit k
        is_own_unit = np.eye(K, w.shape[-1], dtype=bool)
        w = jnp.where(is_own_unit, w / keep, w)
    A_and_B = vector_update(averages, C, mean, w, f)
    # E[Delta g_k] moves the readout, f_k E[Delta g'_k] the bias
    readout = (averages.outputs(C, mean)[..., :K, :] * w).sum(axis=-1)
    bias = f * (averages.slopes_outputs(C, mean) * w).sum(axis=-1)
    return MeanUpdate(
        A=A_and_B[..., :K], B=A_and_B[..., K:], readout=readout, bias=bias
    )


def vector_update(
    averages: Averages,
    C: FieldCovariance,
    mean: Means,
    w: Float[Any, "*K n"],
    f: Readout,
) -> Float[Any, "K n"]:
    """Return A next to B.

    w: weights of the error, one row for all students or one for each. f: the prefactor
    of delta.
    """
    # looked up on the class: to bind a method of an equinox module takes longer than
    # these calls in NumPy
    slopes = type(averages).slopes(averages, C, mean)
    curvatures = type(averages).curvatures(averages, C, mean)
    # (A | B)_ka = f_k (w_a E[g'_k g'_a] + 1(k = a) E[Delta g''_k])
    curvature_of_error = (curvatures * w).sum(axis=-1, keepdims=True)
    xp = array_module(curvature_of_error)
    is_own_unit = np.eye(*slopes.shape[-2:], dtype=bool)
    return f[..., None] * (w * slopes + xp.where(is_own_unit, curvature_of_error, 0.0))


def update_covariance(
    averages: Averages,
    C: FieldCovariance,
    mean: Means,
    w: Array,
    f: Readout,
    sigma: Array,
    keep: Array | None = None,
) -> Float[Array, "K K"]:
    """Return G, the order-eta^2 part of the dynamics of squared loss.

    w, f, keep: as in `mean_update` and `vector_update`. sigma: the label noise.
    """
    K = f.shape[0]
    # G_kj = f_k f_j (E[Delta0^2 g'_k g'_j] + sigma^2 J2(k, j)); the first term is a sum
    # over I4 with weights w_a w_b
    noise = sigma**2 * averages.slopes(C, mean)[:, :K]
    if keep is None:
        squared = averages.slopes_squared_error(C, mean, w)
        return f[:, None] * f * (squared + noise)
    squared = _squared_error_of_kept(averages, C, mean, w, K, keep)
    # E[m_k m_j] = 1 for two units and E[m_k^2] = 1 / keep for one
    masks = jnp.where(np.eye(K, dtype=bool), 1 / keep, 1.0)
    return f[:, None] * f * masks * (squared + noise)


def _squared_error_of_kept(
    averages: Averages,
    C: FieldCovariance,
    mean: Means,
    w: Float[Array, " n"],
    K: int,
    keep: Float[Array, ""],
) -> Float[Array, "K K"]:
    """Return E[g'_i g'_j Delta0^2] over the masks that keep i and j."""
    # In Delta0 these two units then have the weight w / keep. Each other unit a has w_a
    # on average and adds its variance, w_a^2 (1 - keep) / keep E[g'_i g'_j g_a^2].
    of_weights = jax.vmap(
        lambda weights: averages.slopes_squared_error(C, mean, weights)
    )
    i, j, place = triangle(K)
    pairs = np.arange(i.size)
    kept = np.zeros((i.size, w.size), dtype=bool)
    kept[pairs, i] = True
    kept[pairs, j] = True
    at_mean_weights = of_weights(jnp.where(kept, w / keep, w))[pairs, i, j]
    single_units = jnp.asarray(np.eye(K, w.size))
    of_single_units = of_weights(single_units)[:, i, j]  # E[g'_i g'_j g_a^2]
    variances = jnp.where(kept[:, :K].T, 0.0, w[:K, None] ** 2) * (1 - keep) / keep
    return (at_mean_weights + jnp.sum(variances * of_single_units, axis=0))[place]
