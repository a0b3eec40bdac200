"""The linearized dynamics: the Jacobian at a state, and small deviations along a solved curve.

Next to a solved curve u(alpha) a deviation obeys dx = J(u) x dalpha + dW / sqrt(N), Cov(dW) = D(u) dalpha. Its component
w . x at the last moment is fixed by the adjoint, dw = -J^T w dalpha: w(alpha) . x(alpha) changes by the noise alone.
All is in the flat coordinates of order_parameters.py; perfect_learning.py treats the neighborhood of perfect learning.
"""

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.dynamics.diffusion import sample_increments
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten, unflatten

Times: TypeAlias = Float[NumpyOrJax, " moments"]
Steps: TypeAlias = Float[np.ndarray, "intervals size size"]
Path: TypeAlias = Float[np.ndarray, "moments size count"]
SAMPLES = 2048  # steps drawn at each moment to measure their covariance
LARGEST_STATE = 400  # entries of the largest state whose Jacobians are followed


def flat_drift(system: OrderParameters, like: Overlaps) -> Callable[[Array, Array], Array]:
    """d vector / d alpha as a function of time and vector."""
    return lambda t, vector: flatten(system.drift(t, unflatten(vector, like)))


@eqx.filter_jit
def drift_at(system: OrderParameters, vector: Float[NumpyOrJax, " size"], like: Overlaps) -> Float[Array, " size"]:
    """The drift at flat coordinates and time zero, compiled once for all problems of one shape."""
    return flat_drift(system, like)(jnp.zeros(()), jnp.asarray(vector))


@eqx.filter_jit
def jacobian(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Float[Array, "size size"]:
    """The derivative of the drift with respect to the flat coordinates."""
    return jax.jacfwd(lambda x: flat_drift(system, state)(jnp.asarray(t, float), x))(flatten(state))


@eqx.filter_jit
def drifts_along(system: OrderParameters, times: Times, states: Overlaps) -> Float[Array, "moments size"]:
    """The drift at each of the moments, in flat coordinates."""
    return jax.vmap(lambda t, s: flatten(system.drift(t, s)))(times, states)


@eqx.filter_jit
def jacobians_along(system: OrderParameters, times: Times, states: Overlaps) -> Float[Array, "moments size size"]:
    """J at each of the moments; compiled once for their number."""
    return jax.lax.map(lambda ts: jacobian(system, *ts), (times, states))


@eqx.filter_jit
def noise_covariances(
    system: OrderParameters,
    times: Times,
    states: Overlaps,
    directions: Float[NumpyOrJax, "moments size count"],
) -> Float[Array, "moments count count"]:
    """N times the covariance per time that the noise of the steps feeds into the directions."""

    def one(moment: tuple[Array, Overlaps, Array]) -> Float[Array, "count count"]:
        t, state, directions = moment
        samples = sample_increments(system, t, state, jax.random.key(0), SAMPLES) @ directions
        samples = samples - samples.mean(axis=0)
        return samples.T @ samples / SAMPLES

    return jax.lax.map(one, (times, states, directions)) / system.problem.sgd.batch


def propagators(times: Float[np.ndarray, " moments"], jacobians: Float[np.ndarray, "moments size size"]) -> Steps:
    """What a deviation at one moment has become at the next: exp of the mean Jacobian times the interval."""
    from scipy.linalg import expm

    return expm((jacobians[:-1] + jacobians[1:]) / 2 * np.diff(times)[:, None, None])


def propagate_adjoint(steps: Steps, directions: Float[np.ndarray, "size count"]) -> Path:
    """The adjoint of directions at the last moment, at each earlier one."""
    out = [directions]
    for step in steps[::-1]:
        out.append(step.T @ out[-1])
    return np.array(out[::-1])


def propagate(steps: Steps, deviations: Float[np.ndarray, "size count"]) -> Path:
    """Deviations at the first moment, at each later one."""
    out = [deviations]
    for step in steps:
        out.append(step @ out[-1])
    return np.array(out)


def growing_directions(
    jacobian: Float[np.ndarray, "size size"],
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, "size count"]]:
    """Rates and left eigenvectors (columns) of the fastest growing directions: permutations make several nearly equal."""
    values, left = np.linalg.eig(jacobian.T)
    rates = np.real(values)
    lead = rates.max()
    chosen = (rates > 0.8 * lead) & (np.abs(np.imag(values)) < 1e-9 * abs(lead)) & (lead > 0)
    return rates[chosen], np.real(left[:, chosen])
