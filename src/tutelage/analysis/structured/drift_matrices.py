"""`drift_matrices`: A and B of the mean drift at given covariances of the fields, and their derivatives.

The mean force on student k is F_k = sum_j A_kj w_j + sum_m B_km w*_m, and A, B depend on the weights only through the
covariances R, Q, T of the fields. Near a state the force therefore changes in two ways: by A times the deviation, and by the
change of A and B with R and Q, which is a small matrix whatever the spectrum and the input dimension.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array, ArrayLike
from tutelage.dynamics.error import averages_of, field_means
from tutelage.moments.matrices import joint_covariance, mean_update
from tutelage.problem import Isotropic, Problem
from tutelage.problem.problem import require_problem

COVARIANCE_ROUNDING = 1e-8  # how far a covariance may be from symmetric and positive, relative to its largest entry


class DriftMatrices(NamedTuple):
    """A (K, K) and B (K, M) of the mean drift."""

    A: Float[Array, "K K"]
    B: Float[Array, "K M"]


def drift_matrices(
    problem: Problem,
    R: Float[Array | np.ndarray, "K M"],
    Q: Float[Array | np.ndarray, "K K"],
    T: Float[Array | np.ndarray, "M M"],
) -> DriftMatrices:
    """The matrices A and B of the mean drift at given covariances of student and teacher fields.

    Parameters
    ----------
    problem : Problem
        Activations, readouts and biases are used; learning rates, noise and the spectrum of the inputs are not.
    R : array (K, M)
        Covariance of student and teacher fields.
    Q : array (K, K)
        Covariance of student fields.
    T : array (M, M)
        Covariance of teacher fields.

    Returns
    -------
    DriftMatrices
        The named tuple (A, B) of arrays (K, K) and (K, M). Differentiable in R, Q and T, and usable inside `jax.jit`.

    Notes
    -----
    On average one step moves student vectors by (eta/N) (A W + B W*) Omega, so that to order eta the overlaps of level l
    obey dr_l/dalpha = eta lam_l (A r_l + B t_l). With Delta the error of the output and g' = dg/dlambda_k, A and B solve
    E[Delta v_k g' x] = sum_j A_kj Omega w_j + sum_m B_km Omega w*_m (Gaussian integration by parts).

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> A, B = tu.analysis.drift_matrices(problem, R=np.eye(2), Q=np.eye(2), T=np.eye(2))
    >>> np.allclose(A + B, 0)                                             # perfect learning is a fixed point
    True
    """
    if not checks.is_traced(problem):
        require_problem(problem, "drift_matrices")
    K, M = problem.student.hidden, problem.teacher.hidden
    blocks = {name: checks.as_array(name, x) for name, x in (("R", R), ("Q", Q), ("T", T))}
    for name, shape in (("R", (K, M)), ("Q", (K, K)), ("T", (M, M))):
        checks.require_shape(name, blocks[name], shape, fix="K student units, M teacher units.")
        checks.require_finite(name, blocks[name])
    joint = joint_covariance(**blocks)
    if not checks.is_traced(joint):
        _require_covariance(np.asarray(joint), Q=blocks["Q"], T=blocks["T"])
    v, v_teacher = jnp.asarray(problem.student.readout), jnp.asarray(problem.teacher.readout)
    mean = mean_update(averages_of(problem), joint, field_means(problem, problem.student.bias), v, v_teacher)
    return DriftMatrices(mean.A, mean.B)


def _require_covariance(joint: np.ndarray, **parts: np.ndarray) -> None:
    rounding = COVARIANCE_ROUNDING * max(1.0, float(np.max(np.abs(joint))))
    for name, matrix in parts.items():
        if np.max(np.abs(matrix - matrix.T)) > rounding:
            raise InputError(f"{name} is {checks.shown(matrix)}; it must be symmetric. Use ({name} + {name}.T) / 2.")
    least = float(np.linalg.eigvalsh(joint)[0])
    if least < -rounding:
        raise InputError(
            f"no fields have these covariances: [[Q, R], [R.T, T]] has the eigenvalue {least:.3g}; none may be negative. "
            "Take R, Q and T from one trajectory or Start."
        )


def without_inputs(problem: Problem) -> Problem:
    """The same units without spectrum and teachers' overlaps, which A and B do not need: one program for all of them."""
    return problem.replace(inputs=Isotropic(), **{"teacher.gram": None})


@eqx.filter_jit
def specialization_response(
    problem: Problem,
    R: Float[Array | np.ndarray, " M"],
    Q: Float[Array | np.ndarray, ""],
    T: Float[Array | np.ndarray, "M M"],
) -> tuple[Float[Array, ""], Float[Array, "M+1 M+1"]]:
    """(a, X) for K identical units, one common student, with fields of covariances R (M,), Q (), T (M, M).

    If unit k moves by delta_k, sum_k delta_k = 0, its force changes by a delta_k + sum_b X_ab f_b times vector a, where the
    vectors are (common student, teachers) and f the overlaps of delta_k with them, delta_k . Omega vector / N.
    X (M+1, M+1) is symmetric. For erf, a = v E[Delta g''] = -v E[Delta g' lambda] vanishes at every fixed point.
    """
    K, M = problem.student.hidden, problem.teacher.hidden
    sign = jnp.zeros(K).at[0].set(1.0).at[1].set(-1.0)  # any deviation that sums to zero gives the same result

    def force(f: Array) -> tuple[Array, Array]:
        A, B = drift_matrices(problem, R + sign[:, None] * f[1:], Q + f[0] * (sign[:, None] + sign), T)
        return jnp.concatenate([jnp.sum(A[0])[None], B[0]]), A[0, 0] - A[0, 1]

    X = jax.jacfwd(lambda f: force(f)[0])(jnp.zeros(M + 1))
    return force(jnp.zeros(M + 1))[1], X


@eqx.filter_jit
def perfect_response(
    problem: Problem, T: Float[Array | np.ndarray, "M M"]
) -> tuple[Float[Array, "M M"], Float[Array, "M M M M"]]:
    """(A, Y) where each student equals its teacher (K = M, equal readouts).

    If W = (1 + u) W*, the force on it changes by (A u + Y[u T]) W*, Y[R] = sum_jm Y_..jm R_jm, shape (K, M, K, M).
    """

    def force(dR: Array) -> Array:
        A, B = drift_matrices(problem, T + dR, T + dR + dR.T, T)
        return A + B

    return drift_matrices(problem, T, T, T).A, jax.jacfwd(force)(jnp.zeros_like(T))


def as_numpy(*arrays: ArrayLike) -> tuple[np.ndarray, ...]:
    """As NumPy arrays."""
    return tuple(np.asarray(x) for x in arrays)
