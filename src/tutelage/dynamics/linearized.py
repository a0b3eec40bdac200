"""The dynamics next to a state: drift, Jacobian and noise of single steps, in the flat coordinates of order_parameters.py.

A small deviation from a solved curve u(alpha) obeys dx = J(u) x dalpha + dW / sqrt(N), Cov(dW) = D(u) dalpha. Its component
w . x at the last moment is fixed by the adjoint, dw = -J^T w dalpha: w(alpha) . x(alpha) changes by the noise alone.

D = N^2 Cov(one step). The fields of each level, x_l = (lambda_l, rho_l), are Gaussian with that level's covariance; Delta and
delta_k = Delta v_k g'(lambda_k) follow from their sum, and with them a sample's share of a step with batch B,
    N dr_l = eta delta_k rho_ml / p_l,
    N dq_l = eta (delta_i lambda_kl + delta_k lambda_il) / p_l + (eta^2 / B) lam_l delta_i delta_k,
    N dv   = eta_v Delta g(lambda_k),    N db = eta_b delta_k.
The mean share is the drift (but for weight decay, the same for all samples) and Cov(share) / B the diffusion D: what two
samples do to q together is smaller by N^(-1/2). For episodes the share is the mean of its samples, and B counts episodes.
D has no closed form: it is averaged over a scrambled Sobol set, drawn from a slightly wider normal law and weighted back,
because rare large fields rule the average. For K = M = 3 the rate of Var(e_g) from 2^12 points is good to 2%.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from itertools import accumulate
from typing import Any, TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, as_arrays, flatten, is_committee, unflatten
from tutelage.moments.averages import ErfAverages, PolynomialAverages, array_module
from tutelage.moments.matrices import ClosedMoments, joint_covariance, population_error, shared_parity
from tutelage.problem import Problem
from tutelage.problem.sample import learn, normals_needed

Vectors: TypeAlias = Float[np.ndarray, "moments size"]
Times: TypeAlias = Float[NumpyOrJax, " moments"] | float
Steps: TypeAlias = Float[np.ndarray, "intervals size size"]
Path: TypeAlias = Float[np.ndarray, "moments size count"]
Updates: TypeAlias = tuple[Float[Any, "samples K"], Float[Any, "samples *outputs K"]]  # delta_k, and what moves the readout
SAMPLES = 2**13  # steps drawn to measure their covariance, the same at each moment but turned at random
LARGEST_STATE = 400  # entries of the largest state whose Jacobians are followed
CHUNK = 64  # vectors that one call of a compiled program takes: their number does not matter to it
SMALL_STATE, SMALL_COMMITTEE = 60, 200  # entries up to which differences of the drift cost less than its derivative
# central differences: steps and weights, exact to order 4 for many vectors, to order 8 (thirteen digits) for one
STEP, DIFFERENCES = 3.5e-4, np.array([8.0, -1.0]) / 12.0
LONG_STEP, FINE_DIFFERENCES = 6e-3, np.array([672.0, -168.0, 32.0, -3.0]) / 840.0
LOST = 1e-13  # relative variance below which a combination of fields has none
WIDER = 3.0  # points have variance 1 + WIDER / dims


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
    return flatten(Overlaps(-weights * B, -weights * twice * A, -p.readout, None if state.bias is None else -p.bias))


@eqx.filter_jit
def _at_each(
    function: Callable[..., Array], system: OrderParameters, like: Overlaps, times: NumpyOrJax, vectors: NumpyOrJax
) -> Array:
    return jax.lax.map(lambda at: function(system, at[0], unflatten(at[1], like)), (times, vectors))


class LocalDynamics:
    """Drift, error, Jacobian and noise of a system at any number of flat vectors, as NumPy arrays.

    Committees of erf units have machine code for the drift (committee_kernel.py) and NumPy for the rest. For all else one
    compiled program of each kind serves all problems of one shape. Where the averages are analytic in the overlaps (erf,
    polynomials), the Jacobian of a small state is made of differences of the drift, to eleven digits or more.
    """

    def __init__(self, system: OrderParameters, like: Overlaps):
        problem, t, moments = as_arrays(system.problem), np.asarray(system.t), system.moments
        self.system = OrderParameters(problem, t, system.gradient_flow, True, moments=moments)
        self.like = jax.tree.map(np.asarray, like._replace(velocity=None))
        self.committee, self._unseen = None, problem.unseen is not None
        if is_committee(system.problem, moments):
            from tutelage.dynamics.committee_kernel import CommitteeDynamics  # numba takes a third of a second to import

            self.committee = CommitteeDynamics(system, self.like)
        small = flatten(self.like).size <= (SMALL_STATE if self.committee is None else SMALL_COMMITTEE)
        analytic = isinstance(moments, ClosedMoments) and isinstance(moments.averages, ErfAverages | PolynomialAverages)
        self._by_differences = small and analytic

    def drifts(self, vectors: Vectors, times: Times = 0.0) -> Vectors:
        """d vector / d alpha at each of the vectors."""
        return self._in_chunks(_drift, vectors, times) if self.committee is None else self.committee.drifts(vectors)

    def errors(self, vectors: Vectors) -> Float[np.ndarray, "*moments_tasks"]:
        """The generalization error at each of the vectors."""
        if self.committee is None:
            return self._in_chunks(_error, vectors)
        states, problem = unflatten(vectors, self.like), self.system.problem
        C, v, v_teacher = joint_covariance(*self.system.covariances(states)), states.readout, problem.teacher.readout
        return population_error(self.system.averages, C, None, v, v_teacher, shared_parity(problem))

    def gradients(self, vectors: Vectors) -> Vectors:
        """The derivative of the generalization error; an off-diagonal entry of q stands for two."""
        if self.committee is None:
            return self._in_chunks(_gradient, vectors)
        return _gradient(self.system, 0.0, unflatten(vectors, self.like))

    def jacobians(self, vectors: Vectors, times: Times = 0.0) -> Float[np.ndarray, "moments size size"]:
        """The derivative of the drift at each of the vectors; the last axis is the variable."""
        if not self._by_differences:
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

    def _in_chunks(self, function: Callable[..., Array], vectors: Vectors, times: Times = 0.0) -> np.ndarray:
        """A function at all vectors, always as many at once; the last one fills up, unless each of them costs much."""
        chunk = CHUNK if self._by_differences or len(vectors) > 1 else 1
        times, found = np.broadcast_to(np.asarray(times, float), len(vectors)), []
        for first in range(0, len(vectors), chunk):
            inside = np.minimum(np.arange(first, first + chunk), len(vectors) - 1)
            at = times[inside], np.asarray(vectors[inside], float)
            found.append(np.asarray(_at_each(function, self.system, self.like, *at)))
        return np.concatenate(found)[: len(vectors)]

    def diffusions(
        self,
        vectors: Vectors,
        times: Times,
        points: Iterable[Float[np.ndarray, "count dims"]],
        weights: Iterable[Float[np.ndarray, " count"]],
        directions: Float[np.ndarray, "moments size d"] | None = None,
    ) -> Float[np.ndarray, "moments d d"]:
        """D at each of the vectors, in all flat coordinates or in some directions.

        Each has its own points (of `point_dims` numbers) with weights that make them standard normal; there may be more of
        them. Only the summed fields (and normal numbers for what label and rule draw) are sampled: given their sum the
        fields of a level are Gaussian, the increments linear in them, and that part of D is added in closed form. D is a
        sum of squares: where the gradient of e_g nearly cancels in it, it is as accurate as elsewhere.
        """
        system, problem, T = self.system, self.system.problem, self.system.problem.rule.samples
        states, times = unflatten(vectors, self.like), np.broadcast_to(np.asarray(times, float), len(vectors))
        W = np.asarray(problem.inputs.weights)[:, None, None] * joint_covariance(states.r, states.q, np.asarray(system.t))
        values, bases = np.linalg.eigh(W.sum(axis=1))
        known = values > LOST * values[:, -1:]
        whiten = bases * np.where(known, 1 / np.sqrt(np.where(known, values, 1.0)), 0.0)[:, None]
        # E[x_l | normals], largest variance first: the first axes of a point set are its best
        gains, n = (W @ whiten[:, None])[..., ::-1], W.shape[-1]
        (first, second), roots, found = np.triu_indices(problem.student.hidden), gains.sum(axis=1), []
        kinds = _shares_of_kinds(system, states, gains)
        kinds = kinds if directions is None else [kind @ directions for kind in kinds]
        used = [k for k, kind in enumerate(kinds) if k == 0 or kind.any()]
        for i, (_, normals, weight) in enumerate(zip(vectors, points, weights, strict=False)):
            bias = None if states.bias is None else states.bias[i]
            state = Overlaps(states.r[i], states.q[i], states.readout[i], bias)
            normals = np.ascontiguousarray(normals.reshape(len(weight) * T, -1).T)  # samples last: long loops
            (deltas, readouts), rates = self._updates(times[i], state, roots[i] @ normals[:n], normals[n:])
            numbers = deltas[:, None] * normals[:n], deltas[first] * deltas[second], readouts, deltas
            factors = rates[0], rates[0] ** 2, *rates[1:]
            parts = [(factors[k] * kinds[k][i]).T @ numbers[k].reshape(kinds[k].shape[1], -1) for k in used]
            samples = reduce(np.add, parts)
            if T > 1:
                samples = samples.reshape(len(samples), -1, T).mean(axis=2)
            samples -= (samples @ weight)[:, None]
            D = (weight * samples) @ samples.T
            if W.shape[1] > 1:
                G = (deltas * np.repeat(weight, T) / T**2) @ deltas.T
                columns = flat_shares(system, rates, state, _left_open(W[i], gains[i], G), 0.0, 0.0, 0.0)
                columns = columns if directions is None else columns @ directions[i]
                D = D + columns.T @ columns
            found.append(D)
        return np.array(found) / float(problem.sgd.batch)

    def _updates(
        self, t: float, state: Overlaps, fields: Float[np.ndarray, "n samples"], draws: Float[np.ndarray, "draws samples"]
    ) -> tuple[tuple[Float[np.ndarray, "K samples"], Float[np.ndarray, "*outputs K samples"]], tuple[float, ...]]:
        """What samples do to the student, in NumPy, and the rates; for committees nothing is compiled."""
        if self.committee is None or self._unseen:
            found, rates = updates(self.system, t, state, fields.T, draws.T)
            deltas, readouts = (np.moveaxis(np.asarray(x), 0, -1) for x in found)
            return (deltas, readouts), tuple(map(float, rates))
        from scipy.special import erf  # takes long to import

        one = self.committee.one
        g, hard, v = erf(fields / np.sqrt(2)), one.softness == 0.0, state.readout[:, None]
        g[hard] = np.sign(fields[hard])
        errors = one.v_teacher @ g[one.K :] - state.readout @ g[: one.K] + np.sqrt(one.sigma_2) * draws[0]
        slopes = np.sqrt(2 / np.pi) * np.exp(-(fields[: one.K] ** 2) / 2)
        return (errors * v * slopes, errors * g[: one.K]), (one.eta, one.eta_v, one.eta)


@eqx.filter_jit
def updates(
    system: OrderParameters, t: ArrayLike, state: Overlaps, fields: Float[Any, "samples n"], draws: Float[Any, "samples d"]
) -> tuple[Updates, tuple[Array, ...]]:
    """What samples with these fields (without biases) do to the student, and the rates. draws: for label and rule."""
    at, K = system.situation(*system.covariances(state), state.readout, state.bias, t), system.problem.student.hidden
    fields = fields if at.mean is None else fields + at.mean
    update = learn(system.problem, fields[:, :K], fields[:, K:], draws, at.parameters, at.context)
    return (update.delta, update.parameters.readout), system.rates(t)


def _shares_of_kinds(
    system: OrderParameters, states: Overlaps, gains: Float[np.ndarray, "moments L n n"]
) -> list[Float[np.ndarray, "moments numbers size"]]:
    """What one unit of each number adds to a share at unit rates, for the four kinds of numbers that shares are linear in.

    They are delta_k e_b (the fields of level l are gains_l e), delta_i delta_k (i <= k), Delta g and delta.
    """
    K, n, outputs = states.q.shape[-1], gains.shape[-1], states.readout.shape[1:]
    rows, columns = np.triu_indices(K)
    ends = np.cumsum([K * n, rows.size, np.prod(outputs), K])
    moved, upper, readouts, deltas = np.split(np.eye(ends[-1]), ends[:-1], axis=1)
    pairs = np.zeros((ends[-1], 1, K, K))
    pairs[:, 0, rows, columns] = pairs[:, 0, columns, rows] = upper
    moved = moved.reshape(-1, 1, K, n) @ np.swapaxes(gains, -1, -2)[:, None]
    each = jax.tree.map(lambda x: x[:, None], states)
    whole = flat_shares(system, (1.0, 1.0, 1.0), each, moved, pairs, readouts.reshape(-1, *outputs), deltas)
    return np.split(whole, ends[:-1], axis=1)


def flat_shares(
    system: OrderParameters,
    rates: tuple[ArrayLike, ...],
    state: Overlaps,
    moved: Float[Any, "*lead L K n"],
    pairs: Float[Any, "*samples_1 K K"] | float,
    readouts: Float[Any, "*samples_outputs K"] | float,
    deltas: Float[Any, "*samples K"] | float,
) -> Float[Any, "*lead size"]:
    """Shares in flat coordinates, linear in delta_k x_la (`moved`), delta_i delta_k (`pairs`), Delta g and delta."""
    problem, (eta, eta_v, eta_b), xp = system.problem, rates, array_module(moved)
    student, inputs, K = problem.student, problem.inputs, problem.student.hidden
    lam, p = (xp.asarray(x)[:, None, None] for x in (inputs.eigenvalues, inputs.fractions))
    if problem.sgd.trainable is not None:
        mask = xp.asarray(problem.trainable_mask())
        moved, pairs = mask[:, :, None] * moved, mask[:, :, None] * pairs * mask[:, None, :]
    moved = eta / p * moved
    dr, half = moved[..., K:], moved[..., :K]
    dq = half + xp.swapaxes(half, -1, -2)
    if not system.gradient_flow:
        dq = dq + eta**2 / problem.samples_per_step * lam * pairs
    dr, dq = system.onto_sphere(state, dr, dq) if problem.sgd.spherical else (dr, dq)
    lead = moved.shape[:-3]
    dv = eta_v * float(student.train_readout) * xp.broadcast_to(readouts, (*lead, *problem.readout_shape))
    db = None if state.bias is None else eta_b * float(student.train_bias) * xp.broadcast_to(deltas, (*lead, K))
    return flatten(Overlaps(dr, dq, dv, db))


def _left_open(
    W: Float[np.ndarray, "L n n"], gains: Float[np.ndarray, "L n n"], G: Float[np.ndarray, "K K"]
) -> Float[np.ndarray, "columns L K n"]:
    """What the sum of the fields leaves open about each level: a root of G = E[delta delta^T] times the covariance left."""
    L, n, _ = W.shape
    flat, whole = gains.reshape(L * n, n), np.zeros((L, n, L, n))
    whole[np.arange(L), :, np.arange(L)] = W
    left, right = _root(G), _root(whole.reshape(L * n, L * n) - flat @ flat.T)
    return np.einsum("ki,laj->ijlka", left, right.reshape(L, n, -1)).reshape(-1, L, len(G), n)


def _root(matrix: Float[np.ndarray, "a a"]) -> Float[np.ndarray, "a a"]:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def point_dims(problem: Problem) -> int:
    """Normal numbers of one point of `diffusions`: fields, and what label and rule draw, of each sample of an episode."""
    return problem.rule.samples * (problem.student.hidden + problem.references.hidden + normals_needed(problem))


@lru_cache(maxsize=4)
def point_sets(
    sets: int, count: int, dims: int, seed: int = 0
) -> tuple[Float[np.ndarray, "sets count dims"], Float[np.ndarray, "sets count"]]:
    """Independently scrambled Sobol sets: points of a wider normal law, and their weights."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    streams = np.random.default_rng(seed).spawn(sets)
    uniform = np.stack([qmc.Sobol(dims, rng=rng).random(count) for rng in streams])
    variance = 1.0 + WIDER / dims
    points = np.sqrt(variance) * ndtri(np.clip(uniform, 1e-15, 1.0 - 1e-15))
    weights = np.exp((1.0 / variance - 1.0) / 2 * np.sum(points**2, axis=2))
    return points, weights / weights.sum(axis=1, keepdims=True)


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
    from scipy.linalg import expm  # takes long to import

    return expm((jacobians[:-1] + jacobians[1:]) / 2 * np.diff(times)[:, None, None])


def propagate(steps: Steps, deviations: Float[np.ndarray, "size count"]) -> Path:
    """Deviations at the first moment, at each later one."""
    return np.array(list(accumulate(steps, lambda x, step: step @ x, initial=deviations)))


def propagate_adjoint(steps: Steps, directions: Float[np.ndarray, "size count"]) -> Path:
    """The adjoint of directions at the last moment, at each earlier one."""
    return propagate(np.swapaxes(steps, 1, 2)[::-1], directions)[::-1]


def growing_directions(
    jacobian: Float[np.ndarray, "size size"],
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, "size count"]]:
    """Rates and left eigenvectors (columns) of the fastest growing directions: permutations make several nearly equal."""
    values, left = np.linalg.eig(jacobian.T)
    rates = np.real(values)
    lead = rates.max()
    chosen = (rates > 0.8 * lead) & (np.abs(np.imag(values)) < 1e-9 * abs(lead)) & (lead > 0)
    return rates[chosen], np.real(left[:, chosen])
