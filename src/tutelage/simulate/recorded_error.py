"""The generalisation error of recorded states: the problem's exact Gaussian average, state by state.

For inputs that are not Gaussian this is the error on Gaussian inputs of the same covariance, a good one when many
coordinates add up in each field.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage.averages import Averages
from tutelage.averages.quadrature import QuadratureAverages
from tutelage.dynamics.error import averages_of, population_error, shared_parity
from tutelage.problem import Problem


def errors_of(problem: Problem, R: Any, Q: Any, T: Any, readout: Any, bias: Any) -> np.ndarray:
    """e_g at R (..., K, M), Q (..., K, K), T (..., M, M), readout and bias (..., K); NaN states give NaN."""
    shape = np.shape(R)[:-2]
    arrays = [np.asarray(x, dtype=float) for x in (R, Q, T, readout, bias)]
    flat = [x.reshape(-1, *x.shape[len(shape) :]) for x in arrays]
    known = np.isfinite(flat[0]).all(axis=(1, 2))
    errors = np.full(known.shape, np.nan)
    if known.all():
        errors = _in_batches(problem, *flat)
    elif known.any():
        errors[known] = _in_batches(problem, *(x[known] for x in flat))
    return errors.reshape(shape)


def _in_batches(problem: Problem, R: Any, Q: Any, T: Any, readout: Any, bias: Any) -> np.ndarray:
    """A fixed number of states at a time: bounded memory, one compilation."""
    averages, v_teacher = averages_of(problem), np.asarray(problem.teacher.readout, dtype=float)
    parity, mean = shared_parity(problem), None
    if problem.biased:
        teacher = np.zeros(problem.teacher.hidden) if problem.teacher.bias is None else np.asarray(problem.teacher.bias)
        mean = np.concatenate([bias, np.broadcast_to(teacher, (bias.shape[0], teacher.size))], axis=1)
    size = 32 if isinstance(averages, QuadratureAverages) else 512 if jax.default_backend() == "cpu" else 2**15
    parts = []
    for first in range(0, R.shape[0], size):
        rest = range(first, first + size)
        which = slice(first, first + size) if rest[-1] < R.shape[0] else np.minimum(rest, R.shape[0] - 1)
        states = (R[which], Q[which], T[which], readout[which], None if mean is None else mean[which])
        parts.append(np.asarray(_errors(averages, v_teacher, parity, *states)))
    return np.concatenate(parts)[: R.shape[0]]


@eqx.filter_jit
def _errors(averages: Averages, v_teacher: Any, parity: int | None, R: Any, Q: Any, T: Any, v: Any, mean: Any) -> Any:
    def one(R: Any, Q: Any, T: Any, v: Any, mean: Any) -> Any:
        return population_error(averages, R, Q, T, v, jnp.asarray(v_teacher), mean, parity)

    return jax.vmap(one)(R, Q, T, v, mean)
