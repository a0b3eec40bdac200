"""The dynamics near a state: flat coordinates, drift and Jacobian in them (perfect.py: near perfect learning).

Flat coordinates hold each independent number once (q is symmetric), so eigenvalues and vectors mean what they should.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.dynamics.order_parameters import OrderParameters
from tutelage.dynamics.overlaps import Overlaps


def flatten(state: Overlaps) -> Array:
    """(r, upper triangle of q, readout, bias) of a state, or of a drift, in one vector."""
    rows, columns = np.triu_indices(state.q.shape[-1])
    parts = [state.r, state.q[:, rows, columns], state.readout, state.bias]
    return jnp.concatenate([jnp.ravel(part) for part in parts if part is not None])


def unflatten(vector: Array, like: Overlaps) -> Overlaps:
    """The state with these coordinates."""
    L, K, M = like.r.shape
    rows, columns = np.triu_indices(K)
    sizes = np.cumsum([L * K * M, L * len(rows), like.readout.size])
    r, upper, readout, bias = jnp.split(vector, sizes)
    upper = upper.reshape(L, len(rows))
    q = jnp.zeros((L, K, K)).at[:, rows, columns].set(upper).at[:, columns, rows].set(upper)
    return Overlaps(r.reshape(L, K, M), q, readout.reshape(like.readout.shape), None if like.bias is None else bias, None)


def flat_drift(system: OrderParameters, like: Overlaps) -> Callable[[Array, Array], Array]:
    """d vector / d alpha as a function of time and vector."""
    return lambda t, vector: flatten(system.drift(t, unflatten(vector, like)))


@eqx.filter_jit
def drift_at(system: OrderParameters, vector: Any, like: Overlaps) -> Array:
    """The drift at flat coordinates and time zero, compiled once for all problems of one shape."""
    return flat_drift(system, like)(jnp.zeros(()), jnp.asarray(vector))


@eqx.filter_jit
def jacobian(system: OrderParameters, t: Any, state: Overlaps) -> Array:
    """The derivative of the drift with respect to the flat coordinates."""
    return jax.jacfwd(lambda x: flat_drift(system, state)(jnp.asarray(t, float), x))(flatten(state))
