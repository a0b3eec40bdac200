"""Small deviations along a curve: how the Jacobians carry them, and what the noise of the steps feeds into them.

Beside a solved curve u(alpha) a deviation obeys dx = J(u) x dalpha + dW / sqrt(N), Cov(dW) = D(u) dalpha. Its component
w . x at the last moment is fixed by the adjoint, dw = -J^T w dalpha: w(alpha) . x(alpha) changes by the noise alone.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from tutelage.dynamics.increments import sample_increments
from tutelage.dynamics.linearized import flatten, jacobian
from tutelage.dynamics.order_parameters import OrderParameters
from tutelage.dynamics.overlaps import Overlaps

SAMPLES = 2048  # steps drawn at each moment to measure their covariance


@eqx.filter_jit
def drifts_along(system: OrderParameters, times: Any, states: Overlaps) -> Any:
    """The drift at each of the moments, in flat coordinates."""
    return jax.vmap(lambda t, s: flatten(system.drift(t, s)))(times, states)


@eqx.filter_jit
def jacobians_along(system: OrderParameters, times: Any, states: Overlaps) -> Any:
    """J at each of the moments; compiled once for their number."""
    return jax.lax.map(lambda ts: jacobian(system, *ts), (times, states))


@eqx.filter_jit
def fed_covariances(system: OrderParameters, times: Any, states: Overlaps, directions: Any) -> Any:
    """N times the covariance per time that the steps feed into the directions (moments, size, count)."""

    def one(moment: Any) -> Any:
        t, state, directions = moment
        samples = sample_increments(system, t, state, jax.random.key(0), SAMPLES) @ directions
        samples = samples - samples.mean(axis=0)
        return samples.T @ samples / SAMPLES

    return jax.lax.map(one, (times, states, directions)) / system.problem.sgd.batch


def propagators(times: np.ndarray, jacobians: np.ndarray) -> np.ndarray:
    """What a deviation at one moment has become at the next: exp of the mean Jacobian times the interval."""
    from scipy.linalg import expm

    return expm((jacobians[:-1] + jacobians[1:]) / 2 * np.diff(times)[:, None, None])


def carried_back(steps: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The adjoint of directions (size, count) at the last moment, at each earlier one: (moments, size, count)."""
    out = [directions]
    for step in steps[::-1]:
        out.append(step.T @ out[-1])
    return np.array(out[::-1])


def carried_on(steps: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Deviations (size, count) at the first moment, at each later one: (moments, size, count)."""
    out = [deviations]
    for step in steps:
        out.append(step @ out[-1])
    return np.array(out)


def growing_directions(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rates and left eigenvectors (columns) of the fastest growing directions: permutations make several nearly equal."""
    values, left = np.linalg.eig(jacobian.T)
    rates = np.real(values)
    lead = rates.max()
    chosen = (rates > 0.8 * lead) & (np.abs(np.imag(values)) < 1e-9 * abs(lead)) & (lead > 0)
    return rates[chosen], np.real(left[:, chosen])
