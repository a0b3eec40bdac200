"""Response of the mean force on the units to small deviations from a state.

The state is one of identical units, or perfect learning. Near it the force changes in two
ways: by A times the deviation, and by the change of A and B (`drift_matrices`) with R and
Q, which is a small matrix whatever the spectrum and the input dimension.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from tutelage import Isotropic, Problem
from tutelage.analysis import drift_matrices


def without_inputs(problem: Problem) -> Problem:
    """Return the same units without spectrum and teachers' overlaps.

    A and B need neither: one program for all of them.
    """
    return problem.replace(inputs=Isotropic(), **{"teacher.gram": None})


@eqx.filter_jit
def specialization_response(
    problem: Problem,
    R: Float[Array | np.ndarray, " M"],
    Q: Float[Array | np.ndarray, ""],
    T: Float[Array | np.ndarray, "M M"],
) -> tuple[Float[Array, ""], Float[Array, "M+1 M+1"]]:
    """Return (a, X) for K identical units, one common student.

    Their fields have covariances R (M,), Q (), T (M, M). If unit k moves by delta_k,
    sum_k delta_k = 0, its force changes by a delta_k + sum_b X_ab f_b times vector a, where
    the vectors are (common student, teachers) and f the overlaps of delta_k with them,
    delta_k . Omega vector / N. X (M+1, M+1) is symmetric. For erf, a = v E[Delta g''] =
    -v E[Delta g' lambda] vanishes at every fixed point.
    """
    K = problem.student.hidden
    M = problem.labeler.hidden
    # Any deviation that sums to zero gives the same result.
    sign = jnp.zeros(K).at[0].set(1.0).at[1].set(-1.0)

    def force(f: Array) -> tuple[Array, Array]:
        moved_R = R + sign[:, None] * f[1:]
        moved_Q = Q + f[0] * (sign[:, None] + sign)
        A, B = drift_matrices(problem, moved_R, moved_Q, T)
        along_vectors = jnp.concatenate([jnp.sum(A[0])[None], B[0]])
        return along_vectors, A[0, 0] - A[0, 1]

    at_rest = jnp.zeros(M + 1)
    X = jax.jacfwd(lambda f: force(f)[0])(at_rest)
    _, a = force(at_rest)
    return a, X


@eqx.filter_jit
def perfect_response(
    problem: Problem, T: Float[Array | np.ndarray, "M M"]
) -> tuple[Float[Array, "M M"], Float[Array, "M M M M"]]:
    """Return (A, Y) where each student equals its teacher (K = M, equal readouts).

    If W = (1 + u) W*, the force on it changes by (A u + Y[u T]) W*,
    Y[R] = sum_jm Y_..jm R_jm, shape (K, M, K, M).
    """

    def force(dR: Array) -> Array:
        A, B = drift_matrices(problem, T + dR, T + dR + dR.T, T)
        return A + B

    return drift_matrices(problem, T, T, T).A, jax.jacfwd(force)(jnp.zeros_like(T))


def as_numpy(*arrays: Any) -> tuple[np.ndarray, ...]:
    """Return NumPy arrays."""
    return tuple(np.asarray(x) for x in arrays)
