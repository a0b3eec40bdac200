"""The curvature of the error in the space of weights, computed from the overlaps.

Coordinates are J = W / sqrt(N), so that numbers do not depend on N. The error is a function of Q = J Om J^T and
R = J Om J*^T, and with the matrices A, B of the dynamics
    gradient:            -(A J + B J*) Om
    Hessian times D:     -(A D + dA J + dB J*) Om,    dA, dB: along dQ = D Om J^T + J Om D^T and dR = D Om J*^T.
Gradient flow is dJ/dalpha = -eta gradient, so a direction of curvature h shrinks (h < 0: grows) as exp(-eta h alpha).

A direction that is orthogonal, within its level, to all students and teachers changes no overlap: the Hessian is -lam_l A
there, the same for all of them. What is left is the span of the vectors, at most K (K + M) numbers a level, at any N.

Closed forms have second derivatives everywhere, with one exception: the error of ReLU units has none where a student
vanishes (parallel vectors do no harm: what diverges there in the space of overlaps cancels in the space of weights).
Averages by quadrature have them if both functions are declared smooth, else away from vectors that vanish or are parallel.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.dynamics.error import averages_of, field_means, population_error, shared_parity
from tutelage.moments.averages import Averages
from tutelage.moments.matrices import joint_covariance, mean_update
from tutelage.moments.nodes import Quadrature
from tutelage.moments.quadrature import QuadratureAverages
from tutelage.moments.relu import ReluAverages
from tutelage.problem import Problem

LEAST_LENGTH = 1e-9  # a vector shorter than this share of the longest one spans nothing
PARALLEL_TOLERANCE = 1e-9  # vectors whose correlation is this close to one are parallel


@dataclass(frozen=True)
class Span:
    """The directions that students and teachers span, level by level, those of the teachers first.

    basis: per level (s_l, n_l), orthonormal. students c (K, S), teachers t (M, S): coordinates of J and J* in all of them;
    lam (S,): eigenvalue of each; level (S,): its level; taught (S,): does it lie in the span of the teachers?
    outside: per level, how many dimensions are left. lam_levels: eigenvalues of the levels.
    """

    basis: list[np.ndarray]
    students: Float[np.ndarray, "K S"]
    teachers: Float[np.ndarray, "M S"]
    lam: Float[np.ndarray, " S"]
    level: Int[np.ndarray, " S"]
    taught: Bool[np.ndarray, " S"]
    outside: Int[np.ndarray, " L"]
    lam_levels: Float[np.ndarray, " L"]


def span_of(problem: Problem, W: list[np.ndarray], W_teacher: list[np.ndarray]) -> Span:
    """From weights by level (`weights_by_level`)."""
    dims = np.array([w.shape[1] for w in W])
    # the library weighs a level with p_l lam_l; levels of whole dimensions realize p_l only up to rounding
    lam = np.asarray(problem.inputs.weights) * dims.sum() / dims
    J, J_teacher = ([w / np.sqrt(dims.sum()) for w in weights] for weights in (W, W_teacher))
    least = LEAST_LENGTH * max(float(np.max(np.linalg.norm(w, axis=1), initial=0.0)) for w in (*J, *J_teacher))
    taught = [row_space(t, least) for t in J_teacher]
    own = [row_space(w - w @ u.T @ u, least) for w, u in zip(J, taught, strict=True)]
    basis = [np.concatenate(both) for both in zip(taught, own, strict=True)]
    level = np.repeat(np.arange(dims.size), [u.shape[0] for u in basis])
    return Span(
        basis=basis,
        students=np.concatenate([w @ u.T for w, u in zip(J, basis, strict=True)], axis=1),
        teachers=np.concatenate([t @ u.T for t, u in zip(J_teacher, basis, strict=True)], axis=1),
        lam=lam[level],
        level=level,
        taught=np.concatenate([np.arange(u.shape[0]) < t.shape[0] for t, u in zip(taught, basis, strict=True)]),
        outside=dims - np.array([u.shape[0] for u in basis]),
        lam_levels=lam,
    )


def row_space(rows: np.ndarray, least: float) -> np.ndarray:
    """An orthonormal basis, as rows, of what these rows span; singular values up to `least` are rounding."""
    if rows.size == 0:
        return rows[:0]
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[sizes > least]


@dataclass(frozen=True)
class Hessian:
    """error e_g; A (K, K); gradient (K, S) and matrix (K S, K S) inside the span, in its coordinates."""

    span: Span
    error: float
    A: Float[np.ndarray, "K K"]
    gradient: Float[np.ndarray, "K S"]
    matrix: Float[np.ndarray, "KS KS"]

    def dense(self) -> np.ndarray:
        """(K N, K N): the whole matrix, in the eigenbasis of the inputs."""
        K, dims = self.A.shape[0], [u.shape[1] for u in self.span.basis]
        lam = np.repeat(self.span.lam_levels, dims)
        inside = self.in_weights(np.eye(len(self.span.lam)))  # (S, N)
        rest = np.eye(lam.size) - inside.T @ inside
        block = self.matrix.reshape(K, len(self.span.lam), K, -1)
        whole = np.einsum("ksjt,sn,tm->knjm", block, inside, inside)
        return (whole - np.einsum("kj,nm->knjm", self.A, rest * lam)).reshape(K * lam.size, -1)

    def in_weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Directions (..., S) of the span as arrays (..., N), in the eigenbasis of the inputs."""
        edges = np.cumsum([u.shape[0] for u in self.span.basis])[:-1]
        parts = np.split(coordinates, edges, axis=-1)
        return np.concatenate([x @ u for x, u in zip(parts, self.span.basis, strict=True)], axis=-1)


def hessian_at(problem: Problem, span: Span, readout: np.ndarray, quadrature: Quadrature | None) -> Hessian:
    """Error, gradient and Hessian of vectors with these coordinates."""
    c, t, lam = span.students, span.teachers, span.lam
    R, Q, T = c * lam @ t.T, c * lam @ c.T, t * lam @ t.T
    mean = field_means(problem, problem.student.bias)
    overlaps = (jnp.asarray(x) for x in (R, Q, T, readout, problem.teacher.readout))
    out = _error_and_derivatives(averages_of(problem, quadrature), shared_parity(problem), mean, *overlaps)
    error, A, B, ((AQ, AR), (BQ, BR)) = jax.tree.map(np.asarray, out)
    along, along_teachers = c * lam, t * lam  # how Q and R change with a direction
    dA = np.einsum("ijab,bs->ijas", 2 * AQ, along) + np.einsum("ijam,ms->ijas", AR, along_teachers)
    dB = np.einsum("imab,bs->imas", 2 * BQ, along) + np.einsum("iman,ns->imas", BR, along_teachers)
    block = np.einsum("ijas,jr->iras", dA, c) + np.einsum("imas,mr->iras", dB, t)
    block = block + np.einsum("ia,rs->iras", A, np.eye(lam.size))
    matrix = -(lam[:, None, None] * block).reshape(c.size, c.size)
    return Hessian(span, float(error), A, -(A @ c + B @ t) * lam, (matrix + matrix.T) / 2)


@eqx.filter_jit
def _error_and_derivatives(
    averages: Averages, parity: int | None, mean: Array | None, R: Array, Q: Array, T: Array, v: Array, v_teacher: Array
) -> Any:
    """e_g, A, B, and the derivatives of A and B with respect to Q and R."""

    def matrices(Q: Array, R: Array) -> tuple[Array, Array]:
        p = mean_update(averages, joint_covariance(R, (Q + Q.T) / 2, T), mean, v, v_teacher)
        return p.A, p.B

    error = population_error(averages, R, Q, T, v, v_teacher, mean, parity)
    return error, *matrices(Q, R), jax.jacfwd(matrices, (0, 1))(Q, R)


def require_second_derivative(problem: Problem, students: np.ndarray, teachers: np.ndarray) -> None:
    """Raise InputError for vectors (K, S), (M, S) at which the Hessian does not exist, or is not known to."""
    student, teacher = problem.student.activation, problem.teacher.activation
    family = averages_of(problem)
    by_rule = isinstance(family, QuadratureAverages) and not (student.smooth and teacher.smooth)
    if not by_rule and not isinstance(family, ReluAverages):
        return
    name = (teacher if student.smooth else student).name
    declare = ", or declare a smooth function with Activation(name, function)" if by_rule else ""
    lengths = np.linalg.norm(students, axis=1)
    if np.any(lengths == 0):
        raise InputError(
            f"student unit {int(np.argmin(lengths)) + 1} has weights 0 and {name!r} is not known to be smooth; the error "
            f"needs a second derivative there. Move the unit away from 0{declare}."
        )
    vectors = np.concatenate([students, teachers])
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    parallel = np.argwhere(np.abs(np.triu(unit @ unit.T, 1))[: len(students)] > 1 - PARALLEL_TOLERANCE)
    if by_rule and parallel.size:
        i, j = (int(k) for k in parallel[0])
        other = f"student {j + 1}" if j < len(students) else f"teacher {j - len(students) + 1}"
        raise InputError(
            f"student {i + 1} and {other} are parallel and {name!r} is not known to be smooth; its averages need distinct "
            f"fields to be differentiated. Turn the vectors apart{declare}."
        )
