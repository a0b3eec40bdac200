"""How the mean force answers when student units stop being alike, or leave their teachers: derivatives of A and B.

The force on student k is F_k = sum_j A_kj w_j + sum_m B_km w*_m, and A, B depend on the weights through the field
covariances only. Beside a state the force therefore changes in two ways: by A times the deviation, and by the answer of A
and B to the change of R and Q, which is a small matrix whatever the spectrum and the number of inputs.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.analysis.fixed_points import with_constant_rates
from tutelage.dynamics.error import averages_of
from tutelage.dynamics.overlaps import joint_covariance
from tutelage.moments.matrices import Pull, pull
from tutelage.problem import Isotropic, Problem


def first_layer_problem(problem: Any, verb: str) -> Problem:
    """The problem, if only first-layer weights learn, all of them, at a constant rate and without decay."""
    problem = with_constant_rates(problem, verb)
    for wrong, what in (
        (problem.biased, "units have biases"),
        (problem.student.train_readout, "the readout learns too"),
        (problem.sgd.trainable is not None, "some levels are frozen"),
        (float(problem.sgd.weight_decay) != 0, "the weights decay"),
    ):
        if wrong:
            raise InputError(f"{what}; {verb} knows only first-layer weights that all learn, without biases and decay.")
    return problem


def without_inputs(problem: Problem) -> Problem:
    """The same units without spectrum and teachers' overlaps, which A and B do not need: one program for all of them."""
    return problem.replace(inputs=Isotropic(), **{"teacher.gram": None})


def effective_rate(problem: Problem) -> float:
    """eta, a fixed momentum included."""
    return float(problem.sgd.lr) / (1 - float(problem.sgd.momentum))


def drift_matrices(problem: Problem, R: Any, Q: Any, T: Any) -> Pull:
    """A and B at field covariances."""
    v, v_teacher = jnp.asarray(problem.student.readout), jnp.asarray(problem.teacher.readout)
    return pull(averages_of(problem), joint_covariance(R, Q, T), None, v, v_teacher)


@eqx.filter_jit
def parting_response(problem: Problem, R: Any, Q: Any, T: Any) -> tuple[Array, Array]:
    """(a, X) for K alike units that all are one common student, with fields of covariances R (M,), Q (), T (M, M).

    If unit k moves by delta_k, sum_k delta_k = 0, its force changes by a delta_k + sum_b X_ab f_b times vector a, where the
    vectors are (common student, teachers) and f the overlaps of delta_k with them, delta_k . Omega vector / N.
    X (M+1, M+1) is symmetric. For erf, a = v E[Delta g''] = -v E[Delta g' lambda] vanishes wherever the student rests.
    """
    K, M = problem.student.hidden, problem.teacher.hidden
    sign = jnp.zeros(K).at[0].set(1.0).at[1].set(-1.0)  # any deviation that sums to zero gives the same answer

    def force(f: Array) -> tuple[Array, Array]:
        p = drift_matrices(problem, R + sign[:, None] * f[1:], Q + f[0] * (sign[:, None] + sign), T)
        return jnp.concatenate([jnp.sum(p.A[0])[None], p.B[0]]), p.A[0, 0] - p.A[0, 1]

    X = jax.jacfwd(lambda f: force(f)[0])(jnp.zeros(M + 1))
    return force(jnp.zeros(M + 1))[1], X


@eqx.filter_jit
def homing_response(problem: Problem, T: Any) -> tuple[Array, Array]:
    """(A, Y) where each student is its teacher (K = M, equal readouts).

    If W = (1 + u) W*, the force on it changes by (A u + Y[u T]) W*, Y[R] = sum_jm Y_..jm R_jm, shape (K, M, K, M).
    """

    def force(dR: Array) -> Array:
        p = drift_matrices(problem, T + dR, T + dR + dR.T, T)
        return p.A + p.B

    zero = jnp.zeros_like(T)
    return drift_matrices(problem, T, T, T).A, jax.jacfwd(force)(zero)


def numbers(*arrays: Any) -> tuple[np.ndarray, ...]:
    """As NumPy arrays."""
    return tuple(np.asarray(x) for x in arrays)
