"""The linearized dynamics: the Jacobian at a state, and small deviations along a solved curve.

Next to a solved curve u(alpha) a deviation obeys dx = J(u) x dalpha + dW / sqrt(N), Cov(dW) = D(u) dalpha. Its component
w . x at the last moment is fixed by the adjoint, dw = -J^T w dalpha: w(alpha) . x(alpha) changes by the noise alone.
All is in the flat coordinates of order_parameters.py; perfect_learning.py treats the neighborhood of perfect learning.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.dynamics.committee import CommitteeDynamics, is_committee
from tutelage.dynamics.diffusion import SampledSteps, diffusions, point_dims
from tutelage.dynamics.error import Point, population_errors, shared_parity
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, as_arrays, flatten, unflatten
from tutelage.moments import ClosedMoments
from tutelage.moments.erf import ErfAverages
from tutelage.moments.polynomial import PolynomialAverages

Vectors: TypeAlias = Float[np.ndarray, "moments size"]
Times: TypeAlias = Float[NumpyOrJax, " moments"] | float
Steps: TypeAlias = Float[np.ndarray, "intervals size size"]
Path: TypeAlias = Float[np.ndarray, "moments size count"]
SAMPLES = 2**13  # steps drawn to measure their covariance, the same at each moment but turned at random
LARGEST_STATE = 400  # entries of the largest state whose Jacobians are followed
CHUNK = 64  # vectors that one call of a compiled program takes: their number does not matter to it
SMALL_STATE, SMALL_COMMITTEE = 60, 200  # entries up to which differences of the drift cost less than its derivative
LARGEST_NORM, SERIES = 0.5, 13  # the series of exp, to rounding
# central differences: steps and weights, exact to order 4 for many vectors, to order 8 (thirteen digits) for one
STEP, DIFFERENCES = 3.5e-4, np.array([8.0, -1.0]) / 12.0
LONG_STEP, FINE_DIFFERENCES = 6e-3, np.array([672.0, -168.0, 32.0, -3.0]) / 840.0


def _drift(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Array:
    return flatten(system.drift(t, state))


def _error(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Array:
    return system.error(system.observe(state))


def _jacobian(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Array:
    return jax.jacfwd(lambda x: _drift(system, t, unflatten(x, state)))(flatten(state))


def _gradient(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Float[Any, "*moments size"]:
    """Of committees also in NumPy, at many states."""
    if not system.closed:  # the matrices hold the slope of the training loss, which is another number
        return jax.grad(lambda x: _error(system, t, unflatten(x, state)))(flatten(state))
    p, weights = system.error_derivatives(state), system.problem.inputs.weights[:, None, None]
    twice = 1.0 - np.eye(p.A.shape[-1]) / 2
    A, B = p.A[..., None, :, :], p.B[..., None, :, :]
    return flatten(Overlaps(-weights * B, -weights * twice * A, -p.readout, None if state.bias is None else -p.bias, None))


@eqx.filter_jit
def _at_each(
    function: Callable[..., Array], system: OrderParameters, like: Overlaps, times: NumpyOrJax, vectors: NumpyOrJax
) -> Array:
    return jax.lax.map(lambda at: function(system, at[0], unflatten(at[1], like)), (times, vectors))


class LocalDynamics:
    """Drift, error, Jacobian and noise of a system at any number of flat vectors, as NumPy arrays.

    Committees of erf units have machine code for it (committee.py). For all else one compiled program of each kind serves
    all problems of one shape: numbers such as the learning rate are its data. Where the averages are analytic in the
    overlaps (erf, polynomials), the Jacobian of a small state is made of differences of the drift, to eleven digits or more,
    and needs no program of its own.
    """

    def __init__(self, system: OrderParameters, like: Overlaps):
        problem, t = as_arrays(system.problem), np.asarray(system.t)
        self.system = OrderParameters(problem, t, system.gradient_flow, True, moments=system.moments)
        r, q, readout = (np.asarray(x) for x in (like.r, like.q, like.readout))
        self.like = Overlaps(r, q, readout, None if like.bias is None else np.asarray(like.bias), None)
        averages = system.moments.averages if isinstance(system.moments, ClosedMoments) else None
        self.committee = CommitteeDynamics(system, self.like) if is_committee(system.problem, system.moments) else None
        small = flatten(self.like).size <= (SMALL_STATE if self.committee is None else SMALL_COMMITTEE)
        self._analytic = small and isinstance(averages, ErfAverages | PolynomialAverages)

    def drifts(self, vectors: Vectors, times: Times = 0.0) -> Vectors:
        """d vector / d alpha at each of the vectors."""
        return self._in_chunks(_drift, vectors, times) if self.committee is None else self.committee.drifts(vectors)

    def errors(self, vectors: Vectors) -> Float[np.ndarray, "*moments_tasks"]:
        """The generalization error at each of the vectors."""
        if self.committee is None:
            return self._in_chunks(_error, vectors)
        states, problem = unflatten(vectors, self.like), self.system.problem
        at = Point(*self.system.covariances(states), states.readout, problem.teacher.readout)
        return population_errors(self.system.averages, at, shared_parity(problem))

    def gradients(self, vectors: Vectors) -> Vectors:
        """The derivative of the generalization error; an off-diagonal entry of q stands for two."""
        if self.committee is None:
            return self._in_chunks(_gradient, vectors)
        return _gradient(self.system, 0.0, unflatten(vectors, self.like))

    def jacobians(self, vectors: Vectors, times: Times = 0.0) -> Float[np.ndarray, "moments size size"]:
        """The derivative of the drift at each of the vectors; the last axis is the variable."""
        if not self._analytic:
            return self._in_chunks(_jacobian, vectors, times)
        count, size = vectors.shape
        step, differences = (LONG_STEP, FINE_DIFFERENCES) if count == 1 else (STEP, DIFFERENCES)
        steps = step * np.maximum(1.0, np.abs(vectors))
        moved = np.arange(1, differences.size + 1)[:, None, None, None] * np.eye(size) * steps[:, None]
        at = vectors[:, None] + np.stack([moved, -moved])  # (side, distance, moment, moved entry, entry)
        when = np.broadcast_to(np.reshape(times, (-1, 1)), (*at.shape[:2], count, size))
        found = self.drifts(at.reshape(-1, size), when.ravel()).reshape(at.shape)
        slopes = np.einsum("d,dmij->mij", differences, found[0] - found[1]) / steps[..., None]
        return np.swapaxes(slopes, 1, 2)

    def drift(self, vector: Float[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
        """The drift at one vector and time zero."""
        return self.drifts(vector[None])[0]

    def jacobian(self, vector: Float[np.ndarray, " size"]) -> Float[np.ndarray, "size size"]:
        """The Jacobian at one vector and time zero."""
        return self.jacobians(vector[None])[0]

    def diffusions(
        self,
        vectors: Vectors,
        times: Times,
        points: Iterable[Float[np.ndarray, "count dims"]],
        weights: Iterable[Float[np.ndarray, " count"]],
        directions: Float[np.ndarray, "moments size d"] | None = None,
    ) -> Float[np.ndarray, "moments d d"]:
        """`diffusion.diffusions` at each of the vectors."""
        steps = self.committee
        if steps is None or self.system.problem.unseen is not None:
            steps = SampledSteps(self.system, self.like)
        times = np.broadcast_to(np.asarray(times, float), len(vectors))
        return diffusions(steps, self.system, unflatten(vectors, self.like), times, points, weights, directions)

    def _in_chunks(self, function: Callable[..., Array], vectors: Vectors, times: Times = 0.0) -> np.ndarray:
        """A function at all vectors, always as many at once; the last one fills up, unless each of them costs much."""
        chunk = CHUNK if self._analytic or len(vectors) > 1 else 1
        times, found = np.broadcast_to(np.asarray(times, float), len(vectors)), []
        for first in range(0, len(vectors), chunk):
            inside = np.minimum(np.arange(first, first + chunk), len(vectors) - 1)
            at = times[inside], np.asarray(vectors[inside], float)
            found.append(np.asarray(_at_each(function, self.system, self.like, *at)))
        return np.concatenate(found)[: len(vectors)]


def noise_covariances(
    local: LocalDynamics, times: Times, vectors: Vectors, directions: Float[np.ndarray, "moments size count"]
) -> Float[np.ndarray, "moments count count"]:
    """N times the covariance per time that the noise of the steps feeds into the directions."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((SAMPLES, point_dims(local.system.problem)))
    turned = (points @ np.linalg.qr(rng.standard_normal(2 * points.shape[1:]))[0] for _ in vectors)
    same = np.broadcast_to(1.0 / SAMPLES, (len(vectors), SAMPLES))
    return local.diffusions(vectors, times, turned, same, directions)


def propagators(times: Float[np.ndarray, " moments"], jacobians: Float[np.ndarray, "moments size size"]) -> Steps:
    """What a deviation at one moment has become at the next: exp of the mean Jacobian times the interval."""
    return exponentials((jacobians[:-1] + jacobians[1:]) / 2 * np.diff(times)[:, None, None])


def exponentials(matrices: Float[np.ndarray, "count a a"]) -> Float[np.ndarray, "count a a"]:
    """exp of each matrix, by its series for a small part of it and repeated squares (scipy's takes long to import)."""
    largest = float(np.max(np.sum(np.abs(matrices), axis=-1), initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(max(largest, 1e-300) / LARGEST_NORM))))
    small, one = matrices / 2.0**halvings, np.eye(matrices.shape[-1])
    found = np.broadcast_to(one, matrices.shape)
    for order in range(SERIES, 0, -1):
        found = one + small @ found / order
    for _ in range(halvings):
        found = found @ found
    return found


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
