"""The generalization error, positive and accurate down to perfect learning.

e_g = (1/2) sum_ab w_a w_b E[g_a g_b] is a difference of numbers of order one: below about 1e-10 rounding takes over.
When every student has come close to a teacher, the same number is computed as a path integral instead: from the state in
which each student *is* its nearest teacher (where e_g is exact: only the mismatch of readouts remains) to the actual one,
    e_g(C) = e_g(C0) - int_0^1 [ tr(A(C_s) (Q - Q0)) / 2 + tr(B(C_s)^T (R - R0)) ] ds,   C_s = C0 + s (C - C0),
whose terms are small from the start. Given exact overlaps this keeps nine digits down to 1e-14 and below.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, Numbers, NumpyOrJax
from tutelage.checks import array_module
from tutelage.errors import InputError
from tutelage.moments import ClosedMoments, Moments, NodeMoments, moments_for
from tutelage.moments.averages import Averages, Situation
from tutelage.moments.matrices import averages_for, error_weights, joint_covariance, summed_levels, vector_update
from tutelage.moments.nodes import Quadrature
from tutelage.problem import Problem, Tasks
from tutelage.problem.traits import CLASSIC, TASKS, require_traits
from tutelage.rules import Context, Parameters

NEAR = 0.03  # largest deviation from a copy of the teacher at which the path integral is used
PATH = np.polynomial.legendre.leggauss(5)


class Point(NamedTuple):
    """What e_g depends on: covariances of the fields, and readouts. NumPy arrays may have leading axes."""

    R: Float[Any, "*time K M"]
    Q: Float[Any, "*time K K"]
    T: Float[Any, "M M"]
    v: Float[Any, "*time K"]
    v_teacher: Float[Any, " M"]


def population_error(averages: Averages, at: Point, mean: Float[Array, " n"] | None, parity: int | None) -> Float[Array, ""]:
    """e_g. `parity`: that of the activation which student and teacher share, None if they do not."""
    direct = _direct(averages, at, mean)
    if parity is None:
        return direct
    copy = _nearest_copy(at, parity)
    return jnp.where(_deviation(at, copy) < NEAR, _along_path(averages, at, copy, parity), direct)


def population_errors(averages: Averages, at: Point, parity: int | None) -> Float[np.ndarray, " time"]:
    """`population_error` of erf units at many times, in NumPy; NaN where the overlaps are."""
    errors = _direct(averages, at, None)
    if parity is not None:
        copy = _nearest_copy(at, parity)
        near = _deviation(at, copy) < NEAR
        if near.any():
            some = at._replace(R=at.R[near], Q=at.Q[near], v=at.v[near])
            errors[near] = _along_path(averages, some, copy[near], parity)
    return errors


def _direct(averages: Averages, at: Point, mean: Float[Array, " n"] | None) -> Float[Any, "*time"]:
    w, xp = error_weights(at.v, at.v_teacher), array_module(*at)
    # of the class: to bind a method of an equinox module takes longer than this call in NumPy
    outputs = type(averages).outputs(averages, joint_covariance(at.R, at.Q, at.T), mean)
    return xp.maximum(xp.einsum("...a,...ab,...b->...", w, outputs, w) / 2, 0.0)


def _nearest_copy(at: Point, parity: int) -> Float[Any, "*time K M"]:
    """1 where a teacher is the one that a student is nearest to, -1 if the student is its mirror image."""
    xp = array_module(*at)
    lengths = xp.sqrt(xp.maximum(xp.diagonal(at.T), 1e-300))  # a teacher may be silent
    nearest = xp.argmax(xp.abs(at.R) / lengths, axis=-1)
    return (nearest[..., None] == np.arange(lengths.size)) * (xp.where(at.R < 0, -1.0, 1.0) if parity else 1.0)


def _from_copy(at: Point, copy: Float[Any, "*time K M"]) -> Point:
    """How far R and Q are from those of the copies."""
    R = copy @ at.T
    return at._replace(R=at.R - R, Q=at.Q - R @ array_module(copy).swapaxes(copy, -1, -2))


def _deviation(at: Point, copy: Float[Any, "*time K M"]) -> Float[Any, "*time"]:
    away, xp = _from_copy(at, copy), array_module(*at)
    return xp.maximum(xp.abs(away.R).max((-2, -1)), xp.abs(away.Q).max((-2, -1)))


def _along_path(averages: Averages, at: Point, copy: Float[Any, "*time K M"], parity: int) -> Float[Any, "*time"]:
    """The path integral. A mirrored student imitates too: with the same readout if g is even, the opposite if odd."""
    (R, Q, T, v, v_teacher), (dR, dQ, *_), xp = at, _from_copy(at, copy), array_module(*at)
    K, w = v.shape[-1], error_weights(v, v_teacher)
    left = v_teacher - xp.einsum("...k,...km->...m", v, copy if parity < 0 else xp.abs(copy))
    first = (0,) * (R.ndim - 2)  # the teachers are the same at all times
    teachers = type(averages).outputs(averages, joint_covariance(R[first], Q[first], T), None)[K:, K:]

    def slope(s: Any) -> Any:
        C = joint_covariance(R - (1 - s) * dR, Q - (1 - s) * dQ, T)
        both = vector_update(averages, C, None, w[..., None, :], v)
        return -(both[..., :K] * dQ).sum((-2, -1)) / 2 - (both[..., K:] * dR).sum((-2, -1))

    nodes, weights = (PATH[0] + 1) / 2, PATH[1] / 2
    slopes = slope(nodes.reshape(-1, *[1] * R.ndim)) if xp is np else jax.vmap(slope)(jnp.asarray(nodes))
    rest = xp.einsum("...m,mo,...o->...", left, teachers, left) / 2
    return xp.maximum(rest + xp.tensordot(weights, slopes, 1), 0.0)


def generalization_error(
    problem: Problem,
    R: Numbers,
    Q: Numbers,
    T: Numbers | None = None,
    readout: Numbers | None = None,
    bias: Numbers | None = None,
    quadrature: Quadrature | None = None,
) -> Float[Array, "..."]:
    """The error at given overlaps of student and teacher.

    Parameters
    ----------
    problem : Problem
        Activations, labels and readouts are used.
    R, Q : arrays (..., K, M) and (..., K, K)
        Covariances of the fields.
    T : array (M, M), optional
        Default: the gram of the teacher or the identity, and the unseen part.
    readout, bias : array, optional
        Default: those of the problem. For `Tasks` with separate heads readout is (tasks, K).
    quadrature : Quadrature, optional
        As in `solve`.

    Returns
    -------
    array
        e_g = E[(noiseless y - yhat)^2] / 2 for real labels, the probability of a wrong class for signs and classes; with
        a last axis of tasks for `Tasks`.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> float(tu.generalization_error(problem, np.eye(2), np.eye(2)))
    0.0
    >>> round(float(tu.generalization_error(problem, np.zeros((2, 2)), np.zeros((2, 2)))), 6)     # 2 arcsin(1/2)/pi
    0.333333
    """
    require_traits(problem, "generalization_error", (TASKS,))
    K, M = problem.student.hidden, problem.references.hidden
    R, Q = jnp.asarray(R, float), jnp.asarray(Q, float)
    if R.shape[-2:] != (K, M) or Q.shape != (*R.shape[:-2], K, K):
        raise InputError(f"R has shape {R.shape} and Q {Q.shape}; they must be (..., {K}, {M}) and (..., {K}, {K}).")
    T = _teacher_covariance(problem) if T is None else jnp.asarray(T, float)
    if T.shape != (M, M):
        raise InputError(f"T has shape {T.shape}; it must be ({M}, {M}).")
    if isinstance(problem.teacher, Tasks):
        tasks, v = problem.teacher, np.broadcast_to(problem.student.readout, problem.readout_shape)
        heads = [tasks.head(jnp.asarray(v if readout is None else readout, float), s) for s in range(tasks.count)]
        places = [tasks.units(s) for s in range(tasks.count)]
        parts = [(one, R[..., at], Q, T[at, at], v) for one, at, v in zip(problem.tasks, places, heads, strict=True)]
        return jnp.stack([generalization_error(*part, bias, quadrature) for part in parts], axis=-1)
    v = jnp.asarray(problem.student.readout if readout is None else readout, float)
    bias = problem.student.bias if bias is None else bias
    moments = moments_for(problem, quadrature)
    return _errors_at(problem, moments, R, Q, T, v, None if bias is None else jnp.asarray(bias, float))


@eqx.filter_jit
def _errors_at(problem: Problem, moments: Moments, R: Array, Q: Array, T: Array, v: Array, bias: Array | None) -> Array:
    mean = field_means(problem, bias)
    v_teacher, parity = jnp.asarray(problem.teacher.readout), shared_parity(problem)

    def one(at: tuple[Array, Array]) -> Array:
        if isinstance(moments, ClosedMoments):
            return population_error(moments.averages, Point(*at, T, v, v_teacher), mean, parity)
        assert isinstance(moments, NodeMoments)
        context = Context(problem.student, problem.loss)
        return moments.error(Situation(problem, joint_covariance(*at, T), mean, Parameters(v, bias), context))

    pairs = R.reshape(-1, *R.shape[-2:]), Q.reshape(-1, *Q.shape[-2:])
    flat = jax.vmap(one)(pairs) if isinstance(moments, ClosedMoments) else jax.lax.map(one, pairs)
    return flat.reshape(R.shape[:-2])


def averages_of(problem: Problem, quadrature: Quadrature | None = None) -> Averages:
    """The Gaussian averages of a problem's two activations, of which its squared loss is made."""
    require_traits(problem, "the closed form of squared loss", CLASSIC)
    student, teacher = problem.student, problem.teacher
    return averages_for(student.activation, teacher.activation, student.hidden, teacher.hidden, problem.biased, quadrature)


def shared_parity(problem: Problem) -> int | None:
    """Parity of the activation that student and teacher share without biases; else None: no student can copy a teacher."""
    shared = problem.student.activation == problem.teacher.activation and not problem.biased
    return problem.student.activation.parity if shared else None


def field_means(problem: Problem, bias: Float[NumpyOrJax, " K"] | None) -> Float[Array, " n"] | None:
    """Hidden biases of all n fields, or None where there are none."""
    if not problem.biased:
        return None
    student = jnp.zeros(problem.student.hidden) if bias is None else jnp.asarray(bias, float)
    teacher = problem.references.bias
    return jnp.concatenate([student, jnp.zeros(problem.references.hidden) if teacher is None else jnp.asarray(teacher)])


def _teacher_covariance(problem: Problem) -> Float[Array, "M M"]:
    gram, unseen = problem.references.gram, problem.unseen
    T = jnp.eye(problem.references.hidden) if gram is None else jnp.asarray(gram)
    T = T if T.ndim == 2 else summed_levels(problem.inputs.weights, T)
    return T if unseen is None else T + unseen
