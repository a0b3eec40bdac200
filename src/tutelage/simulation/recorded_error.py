"""The generalization error of recorded states: the problem's exact Gaussian average, state by state.

For inputs that are not Gaussian this is the error on Gaussian inputs of the same covariance, a good one when many
coordinates add up in each field.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage.averages.quadrature import QuadratureAverages
from tutelage.dynamics import OrderParameters
from tutelage.dynamics.error import averages_of
from tutelage.integrate import as_arrays
from tutelage.moments import moments_for
from tutelage.problem import Isotropic, Problem


def errors_of(problem: Problem, R: Any, Q: Any, T: Any, readout: Any, bias: Any) -> tuple[np.ndarray, np.ndarray]:
    """Error and loss at R (..., K, M), Q (..., K, K), T (..., M, M), readout and bias; NaN states give NaN."""
    shape = np.shape(R)[:-2]
    arrays = [np.asarray(x, dtype=float) for x in (R, Q, T, readout, bias)]
    flat = [x.reshape(-1, *x.shape[len(shape) :]) for x in arrays]
    known = np.isfinite(flat[0]).all(axis=(1, 2))
    both = np.full((2, *known.shape), np.nan)
    if known.all():
        both = _in_batches(problem, *flat)
    elif known.any():
        both[:, known] = _in_batches(problem, *(x[known] for x in flat))
    return both[0].reshape(shape), both[1].reshape(shape)


def _in_batches(problem: Problem, R: Any, Q: Any, T: Any, readout: Any, bias: Any) -> np.ndarray:
    """A fixed number of states at a time: bounded memory, one compilation."""
    moments, one_by_one = moments_for(problem), not problem.classic
    if one_by_one or isinstance(averages_of(problem), QuadratureAverages):
        size = 32
    else:
        size = 512 if jax.default_backend() == "cpu" else 2**15
    parts = []
    for first in range(0, R.shape[0], size):
        rest = range(first, first + size)
        which = slice(first, first + size) if rest[-1] < R.shape[0] else np.minimum(rest, R.shape[0] - 1)
        states = (R[which], Q[which], T[which], readout[which], bias[which])
        parts.append(np.stack(_errors(as_arrays(problem), moments, one_by_one, *states)))
    return np.concatenate(parts, axis=1)[:, : R.shape[0]]


@eqx.filter_jit
def _errors(problem: Problem, moments: Any, one_by_one: bool, R: Any, Q: Any, T: Any, v: Any, b: Any) -> Any:
    def one(at: Any) -> Any:
        R, Q, T, v, b = at
        system = OrderParameters(_unit_inputs(problem), T[None], moments=moments)
        seen = {"R": R, "Q": Q, "readout": v} | ({"bias": b} if problem.biased else {})
        return system.error(seen), system.loss(seen)

    states = tuple(jnp.asarray(x) for x in (R, Q, T, v, b))
    return jax.lax.map(one, states) if one_by_one else jax.vmap(one)(states)


def _unit_inputs(problem: Problem) -> Problem:
    """The same problem with one level: the error depends on the covariance of the fields alone."""
    return eqx.tree_at(lambda p: p.inputs, problem, Isotropic())
