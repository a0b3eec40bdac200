"""`drift_matrices`: A and B of the mean drift at given covariances of the fields.

The mean force on student k is F_k = sum_j A_kj w_j + sum_m B_km w*_m, and A, B depend on the weights only through the
covariances R, Q, T of the fields: small matrices, whatever the spectrum and the input dimension.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.dynamics.error import averages_of, field_means
from tutelage.moments.matrices import joint_covariance, mean_update
from tutelage.problem import Problem
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
