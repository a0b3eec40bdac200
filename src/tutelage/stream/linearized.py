"""The dynamics next to a state: drift, Jacobian and noise of single steps.

States are flat vectors in the coordinates of order_parameters.py. A small deviation
from a solved curve u(alpha) obeys
    dx = J(u) x dalpha + dW / sqrt(N),    Cov(dW) = D(u) dalpha.
Its component w . x at the last instant is fixed by the adjoint, dw = -J^T w dalpha:
w(alpha) . x(alpha) changes by the noise alone.

D = N^2 Cov(one step). The fields of each level, x_l = (lambda_l, rho_l), are Gaussian
with that level's covariance; Delta and delta_k = Delta v_k g'(lambda_k) follow from
their sum, and with them a sample's share of a step with batch B,
    N dr_l = eta delta_k rho_ml / p_l,
    N dq_l = eta (delta_i lambda_kl + delta_k lambda_il) / p_l
             + (eta^2 / B) lam_l delta_i delta_k,
    N dv   = eta_v Delta g(lambda_k),
    N db   = eta_b delta_k.
The mean share is the drift (but for weight decay, the same for all samples) and
Cov(share) / B the diffusion D: what two samples do to q together is smaller by
N^(-1/2). For episodes the share is the mean of its samples, and B counts episodes.

D has no closed form: it is averaged over a scrambled Sobol set, drawn from a slightly
wider normal law and weighted back, because rare large fields rule the average. For
K = M = 3 the rate of Var(e_g) from 2^12 points is good to 2%.

With an adaptive optimizer the scales v belong to the state. delta_k / sqrt(v_lk) stands
in dr and dq in place of delta_k, and the share of a scale is
    N dv_lk = gained lam_l delta_k^2 / B,
with gained = 1 / memory, or 1 for AdaGrad. A scale differs between the coordinates of a
vector, too, but sums over coordinates do not notice it.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.problem import Problem
from tutelage.problem.sample import learn, normals_needed
from tutelage.stream.moments.averages import (
    ErfAverages,
    PolynomialAverages,
    array_module,
)
from tutelage.stream.moments.matrices import (
    ClosedMoments,
    joint_covariance,
    population_error,
    shared_parity,
)
from tutelage.stream.order_parameters import (
    OrderParameters,
    Overlaps,
    as_arrays,
    flatten,
    is_committee,
    unflatten,
)

Vectors: TypeAlias = Float[np.ndarray, "instants size"]
Times: TypeAlias = Float[NumpyOrJax, " instants"] | float
Steps: TypeAlias = Float[np.ndarray, "intervals size size"]
Path: TypeAlias = Float[np.ndarray, "instants size count"]

# Steps drawn to measure their covariance, the same at each instant but turned at random.
SAMPLES = 2**13
# Entries of the largest state whose Jacobians are followed.
LARGEST_STATE = 400
# Vectors that one call of a compiled program takes: their number does not matter to it.
CHUNK = 64
# Entries up to which differences of the drift cost less than its derivative.
SMALL_STATE = 60
SMALL_COMMITTEE = 200
# Steps and weights of central differences: exact to order 4 for many vectors, to order
# 8 (thirteen digits) for one.
DIFFERENCE_STEP = 3.5e-4
DIFFERENCES = np.array([8.0, -1.0]) / 12.0
LONG_STEP = 6e-3
FINE_DIFFERENCES = np.array([672.0, -168.0, 32.0, -3.0]) / 840.0
# The relative variance below which a combination of fields has none.
LOST = 1e-13
# Points have variance 1 + WIDER / dims.
WIDER = 3.0
# The time of a state that has forgotten the start of its optimizer.
LATE = np.inf


class Updates(NamedTuple):
    """The updates of a student by samples.

    deltas: delta_k, which moves vectors. readouts, biases: the changes of readout and
    biases, such as Delta g and delta.
    """

    deltas: Float[Any, "samples K"]
    readouts: Float[Any, "samples *outputs K"]
    biases: Float[Any, "samples K"]


class Rates(NamedTuple):
    """The learning rates eta, eta_v and eta_b."""

    vectors: ArrayLike
    readout: ArrayLike
    bias: ArrayLike


def _drift(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Array:
    return flatten(system.drift(t, state))


def _error(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Array:
    return system.error(system.observe(state))


def _jacobian(system: OrderParameters, t: ArrayLike, state: Overlaps) -> Array:
    def drift(vector: Array) -> Array:
        return _drift(system, t, unflatten(vector, state))

    return jax.jacfwd(drift)(flatten(state))


def _gradient(
    system: OrderParameters, t: ArrayLike, state: Overlaps
) -> Float[Any, "*instants size"]:
    """Return the derivative of the error.

    Committees have it also in NumPy, at many states.
    """
    if not system.closed:
        # the matrices hold the slope of the training loss, which is another number
        def error(vector: Array) -> Array:
            return _error(system, t, unflatten(vector, state))

        return jax.grad(error)(flatten(state))
    derivatives = system.error_derivatives(state)
    weights = system.problem.inputs.weights[:, None, None]
    # d e_g / dQ = -A / 2, and an entry off the diagonal stands for two
    multiplicity = 1.0 - np.eye(derivatives.A.shape[-1]) / 2
    A = derivatives.A[..., None, :, :]
    B = derivatives.B[..., None, :, :]
    bias = None
    if state.bias is not None:
        bias = -derivatives.bias
    gradient = Overlaps(
        r=-weights * B,
        q=-weights * multiplicity * A,
        readout=-derivatives.readout,
        bias=bias,
        scales=jax.tree.map(lambda scale: 0.0 * scale, state.scales),
    )
    return flatten(gradient)


@eqx.filter_jit
def _at_each(
    function: Callable[..., Array],
    system: OrderParameters,
    like: Overlaps,
    times: NumpyOrJax,
    vectors: NumpyOrJax,
) -> Array:
    """Return function(system, time, state) at each of the vectors."""

    def value(instant: tuple[Array, Array]) -> Array:
        time, vector = instant
        return function(system, time, unflatten(vector, like))

    return jax.lax.map(value, (times, vectors))


class LocalDynamics:
    """Drift, error, Jacobian and noise of a system at flat vectors, as NumPy arrays.

    Committees of erf units have machine code for the drift (committee_kernel.py) and
    NumPy for the rest. For all else one compiled program of each kind serves all
    problems of one shape. Where the averages are analytic in the overlaps (erf,
    polynomials), the Jacobian of a small state is made of differences of the drift, to
    eleven digits or more. time: of `drift` and `jacobian`; LATE is after all transients
    of the optimizer.
    """

    def __init__(self, system: OrderParameters, like: Overlaps, time: float = 0.0):
        moments = system.moments
        self.time = time
        self.system = OrderParameters(
            as_arrays(system.problem),
            np.asarray(system.t),
            system.gradient_flow,
            keep_blocks=True,
            moments=moments,
        )
        self.like = jax.tree.map(np.asarray, like._replace(velocity=None))
        self.committee = None
        self._has_unseen = self.system.problem.unseen is not None
        largest = SMALL_STATE
        if is_committee(system.problem, moments):
            # numba takes a third of a second to import
            from tutelage.stream.committee_kernel import CommitteeDynamics

            self.committee = CommitteeDynamics(system, self.like)
            largest = SMALL_COMMITTEE
        is_small = flatten(self.like).size <= largest
        is_analytic = isinstance(moments, ClosedMoments) and isinstance(
            moments.averages, ErfAverages | PolynomialAverages
        )
        # a step may be longer than a small scale
        self._by_differences = is_small and is_analytic and like.scales is None

    def drifts(self, vectors: Vectors, times: Times = 0.0) -> Vectors:
        """Return d vector / d alpha at each of the vectors."""
        if self.committee is None:
            return self._in_chunks(_drift, vectors, times)
        return self.committee.drifts(vectors)

    def errors(self, vectors: Vectors) -> Float[np.ndarray, "*moments_tasks"]:
        """Return the generalization error at each of the vectors."""
        if self.committee is None:
            return self._in_chunks(_error, vectors)
        states = unflatten(vectors, self.like)
        problem = self.system.problem
        return population_error(
            self.system.averages,
            joint_covariance(*self.system.covariances(states)),
            None,
            states.readout,
            problem.references.readout,
            shared_parity(problem),
        )

    def gradients(self, vectors: Vectors) -> Vectors:
        """Return the derivative of the generalization error at each of the vectors.

        An off-diagonal entry of q stands for two.
        """
        if self.committee is None:
            return self._in_chunks(_gradient, vectors)
        return _gradient(self.system, 0.0, unflatten(vectors, self.like))

    def jacobians(
        self, vectors: Vectors, times: Times = 0.0
    ) -> Float[np.ndarray, "instants size size"]:
        """Return the derivative of the drift at each of the vectors.

        The last axis is the variable.
        """
        if not self._by_differences:
            return self._in_chunks(_jacobian, vectors, times)
        count, size = vectors.shape
        step = DIFFERENCE_STEP
        differences = DIFFERENCES
        if count == 1:
            step = LONG_STEP
            differences = FINE_DIFFERENCES
        steps = step * np.maximum(1.0, np.abs(vectors))
        distances = np.arange(1, differences.size + 1)[:, None, None, None]
        moved = distances * np.eye(size) * steps[:, None]
        # axes: side, distance, instant, moved entry, entry
        points = vectors[:, None] + np.stack([moved, -moved])
        times = np.broadcast_to(
            np.reshape(times, (-1, 1)), (*points.shape[:2], count, size)
        )
        drifts = self.drifts(points.reshape(-1, size), times.ravel())
        ahead, behind = drifts.reshape(points.shape)
        slopes = np.einsum("d,dmij->mij", differences, ahead - behind)
        slopes = slopes / steps[..., None]
        return np.swapaxes(slopes, 1, 2)

    def drift(self, vector: Float[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
        """Return the drift at one vector and the time of these dynamics."""
        return self.drifts(vector[None], self.time)[0]

    def jacobian(
        self, vector: Float[np.ndarray, " size"]
    ) -> Float[np.ndarray, "size size"]:
        """Return the Jacobian at one vector and the time of these dynamics."""
        return self.jacobians(vector[None], self.time)[0]

    def _in_chunks(
        self, function: Callable[..., Array], vectors: Vectors, times: Times = 0.0
    ) -> np.ndarray:
        """Return a function of all vectors, always computed for as many at once.

        The last chunk is filled up with its last vector. A single vector is a chunk
        unless the function is cheap.
        """
        chunk = CHUNK if self._by_differences or len(vectors) > 1 else 1
        times = np.broadcast_to(np.asarray(times, float), len(vectors))
        values = []
        for first in range(0, len(vectors), chunk):
            places = np.minimum(np.arange(first, first + chunk), len(vectors) - 1)
            chunk_vectors = np.asarray(vectors[places], float)
            chunk_values = _at_each(
                function, self.system, self.like, times[places], chunk_vectors
            )
            values.append(np.asarray(chunk_values))
        return np.concatenate(values)[: len(vectors)]

    def diffusions(
        self,
        vectors: Vectors,
        times: Times,
        points: Iterable[Float[np.ndarray, "count dims"]],
        weights: Iterable[Float[np.ndarray, " count"]],
        directions: Float[np.ndarray, "instants size d"] | None = None,
    ) -> Float[np.ndarray, "instants d d"]:
        """Return D at each of the vectors, in all flat coordinates or some directions.

        Each vector has its own points (of `point_dims` numbers) with weights that make
        them standard normal; there may be more of them. Only the summed fields (and
        normal numbers for what label and rule draw) are sampled: given their sum the
        fields of a level are Gaussian, the increments linear in them, and that part of
        D is added in closed form. D is a sum of squares: where the gradient of e_g
        nearly cancels in it, it is as accurate as elsewhere.
        """
        problem = self.system.problem
        samples_per_point = problem.rule.samples
        states = unflatten(vectors, self.like)
        times = np.broadcast_to(np.asarray(times, float), len(vectors))
        level_covariances, gains = _level_fields(self.system, states)
        n = gains.shape[-1]
        roots = gains.sum(axis=1)
        first, second = np.triu_indices(problem.student.hidden)
        factors = self.system.steps.vector_factors(problem, states.scales, times)
        kinds = _shares_of_kinds(self.system, states, gains, factors)
        if directions is not None:
            kinds = [kind @ directions for kind in kinds]
        # the vectors always move; readouts and biases may be frozen
        used = [k for k, kind in enumerate(kinds) if k == 0 or kind.any()]
        diffusions = []
        # points and weights may be generators: the vectors end the loop
        instants = enumerate(zip(vectors, points, weights, strict=False))
        for i, (_, normals, weight) in instants:
            state = _state_at(states, i)
            # samples last: long loops
            normals = normals.reshape(len(weight) * samples_per_point, -1).T
            normals = np.ascontiguousarray(normals)
            fields = roots[i] @ normals[:n]
            updates, rates = self._updates(times[i], state, fields, normals[n:])
            deltas = updates.deltas
            numbers = (
                deltas[:, None] * normals[:n],
                deltas[first] * deltas[second],
                updates.readouts,
                updates.biases,
                deltas**2,
            )
            shares = [kind[i] for kind in kinds]
            samples = _sampled_increments(rates, shares, used, numbers)
            if samples_per_point > 1:
                episodes = samples.reshape(len(samples), -1, samples_per_point)
                samples = episodes.mean(axis=2)
            samples -= (samples @ weight)[:, None]
            D = (weight * samples) @ samples.T
            if gains.shape[1] > 1:
                weight_of_sample = np.repeat(weight, samples_per_point)
                G = (deltas * weight_of_sample / samples_per_point**2) @ deltas.T
                moved = _left_open(level_covariances[i], gains[i], G)
                columns = flat_shares(
                    self.system,
                    rates,
                    state,
                    Increments(moved=moved),
                    factors=factors[i],
                )
                if directions is not None:
                    columns = columns @ directions[i]
                D = D + columns.T @ columns
            diffusions.append(D)
        return np.array(diffusions) / float(problem.optimizer.batch)

    def _updates(
        self,
        t: float,
        state: Overlaps,
        fields: Float[np.ndarray, "n samples"],
        draws: Float[np.ndarray, "draws samples"],
    ) -> tuple[Updates, Rates]:
        """Return the updates by samples (the last axis), in NumPy, and the rates.

        For committees nothing is compiled.
        """
        if self.committee is None or self._has_unseen:
            by_sample, rates = updates(self.system, t, state, fields.T, draws.T)
            samples_last = Updates(
                deltas=np.moveaxis(np.asarray(by_sample.deltas), 0, -1),
                readouts=np.moveaxis(np.asarray(by_sample.readouts), 0, -1),
                biases=np.moveaxis(np.asarray(by_sample.biases), 0, -1),
            )
            return samples_last, Rates(*(float(rate) for rate in rates))
        committee = self.committee.constants
        problem = self.system.problem
        K = committee.K
        student = problem.student.activation.in_numpy(fields[:K])
        teacher = problem.labeler.activation.in_numpy(fields[K:])
        labels = committee.v_teacher @ teacher.outputs
        noise = np.sqrt(committee.sigma_2) * draws[0]
        errors = labels - state.readout @ student.outputs + noise
        deltas = errors * state.readout[:, None] * student.slopes
        committee_updates = Updates(
            deltas=deltas, readouts=errors * student.outputs, biases=deltas
        )
        rates = Rates(committee.eta, committee.eta_v, committee.eta)
        return committee_updates, rates


def _state_at(states: Overlaps, i: int) -> Overlaps:
    """Return one of many states."""
    return jax.tree.map(lambda x: x[i], states._replace(velocity=None))


def _level_fields(
    system: OrderParameters, states: Overlaps
) -> tuple[Float[np.ndarray, "instants L n n"], Float[np.ndarray, "instants L n n"]]:
    """Return the covariance of the fields x_l of each level, and their gains.

    The gains give E[x_l | e] = gains_l e for standard normal numbers e that make the
    summed fields.
    """
    weights = np.asarray(system.problem.inputs.weights)[:, None, None]
    t = np.asarray(system.t)
    covariances = weights * joint_covariance(states.r, states.q, t)
    values, bases = np.linalg.eigh(covariances.sum(axis=1))
    known = values > LOST * values[:, -1:]
    inverse_roots = np.where(known, 1 / np.sqrt(np.where(known, values, 1.0)), 0.0)
    whiten = bases * inverse_roots[:, None]
    # largest variance first: the first axes of a point set are its best
    gains = (covariances @ whiten[:, None])[..., ::-1]
    return covariances, gains


@eqx.filter_jit
def updates(
    system: OrderParameters,
    t: ArrayLike,
    state: Overlaps,
    fields: Float[Any, "samples n"],
    draws: Float[Any, "samples d"],
) -> tuple[Updates, Rates]:
    """Return the updates of the student by samples with these fields, and the rates.

    fields: without biases. draws: normal numbers for label and rule.
    """
    R, Q, T = system.covariances(state)
    field_state = system.field_state(R, Q, T, state.readout, state.bias, t)
    K = system.problem.student.hidden
    if field_state.mean is not None:
        fields = fields + field_state.mean
    update = learn(
        system.problem,
        fields[:, :K],
        fields[:, K:],
        draws,
        field_state.parameters,
        field_state.context,
    )
    bias = update.parameters.bias
    by_sample = Updates(
        deltas=update.delta,
        readouts=update.parameters.readout,
        biases=update.delta if bias is None else bias,  # unused without biases
    )
    return by_sample, Rates(*system.rates(t))


def _shares_of_kinds(
    system: OrderParameters,
    states: Overlaps,
    gains: Float[np.ndarray, "instants L n n"],
    factors: Float[np.ndarray, "instants L_or_1 K_or_1"],
) -> list[Float[np.ndarray, "instants numbers size"]]:
    """Return the contributions to a share of all numbers that it is linear in.

    They are contributions of one unit of a number at unit rates. There are five kinds
    of numbers: delta_k e_b (the fields of level l are gains_l e), delta_i delta_k (i <=
    k), Delta g, delta, and delta_k^2 of the scales. factors: as of `flat_shares`.
    """
    K = states.q.shape[-1]
    n = gains.shape[-1]
    outputs = states.readout.shape[1:]
    rows, columns = np.triu_indices(K)
    ends = np.cumsum([K * n, rows.size, np.prod(outputs), K, K])
    moved, upper, readouts, biases, squares = np.split(
        np.eye(ends[-1]), ends[:-1], axis=1
    )
    pairs = np.zeros((ends[-1], 1, K, K))
    pairs[:, 0, rows, columns] = upper
    pairs[:, 0, columns, rows] = upper
    gains_of_levels = np.swapaxes(gains, -1, -2)[:, None]
    shares = flat_shares(
        system,
        Rates(vectors=1.0, readout=1.0, bias=1.0),
        jax.tree.map(lambda x: x[:, None], states),
        Increments(
            moved=moved.reshape(-1, 1, K, n) @ gains_of_levels,
            pairs=pairs,
            readouts=readouts.reshape(-1, *outputs),
            biases=biases,
            squares=squares[:, None, :],
        ),
        factors=factors[:, None],
    )
    return np.split(shares, ends[:-1], axis=1)


class Increments(NamedTuple):
    """The numbers of samples that shares are linear in.

    moved: delta_k x_la. pairs: delta_i delta_k. readouts, biases: their updates.
    squares: delta_k^2, which feeds the scales.
    """

    moved: Float[Any, "*lead L K n"]
    pairs: Float[Any, "*samples_1 K K"] | float = 0.0
    readouts: Float[Any, "*samples_outputs K"] | float = 0.0
    biases: Float[Any, "*samples K"] | float = 0.0
    squares: Float[Any, "*samples_1 K"] | float = 0.0


def flat_shares(
    system: OrderParameters,
    rates: Rates,
    state: Overlaps,
    increments: Increments,
    factors: Float[Any, "*lead L_or_1 K_or_1"],
) -> Float[Any, "*lead size"]:
    """Return shares in flat coordinates, by the equations at the top of this file.

    factors: what the optimizer multiplies updates of vectors by.
    """
    problem = system.problem
    student = problem.student
    inputs = problem.inputs
    eta, eta_v, eta_b = rates
    K = student.hidden
    xp = array_module(increments.moved)
    lam = xp.asarray(inputs.eigenvalues)[:, None, None]
    p = xp.asarray(inputs.fractions)[:, None, None]
    moved = factors[..., :, None] * increments.moved
    pairs = factors[..., :, None] * increments.pairs * factors[..., None, :]
    if problem.optimizer.trainable is not None:
        mask = xp.asarray(problem.trainable_mask())
        moved = mask[:, :, None] * moved
        pairs = mask[:, :, None] * pairs * mask[:, None, :]
    moved = eta / p * moved
    dr = moved[..., K:]
    on_students = moved[..., :K]
    dq = on_students + xp.swapaxes(on_students, -1, -2)
    if not system.gradient_flow:
        dq = dq + eta**2 / problem.samples_per_step * lam * pairs
    if problem.optimizer.spherical:
        dr, dq = system.onto_sphere(state, dr, dq)
    lead = moved.shape[:-3]
    readouts = xp.broadcast_to(increments.readouts, (*lead, *problem.readout_shape))
    dv = eta_v * float(student.train_readout) * readouts
    db = None
    if state.bias is not None:
        deltas = xp.broadcast_to(increments.biases, (*lead, K))
        db = eta_b * float(student.train_bias) * deltas
    scales = None
    if state.scales is not None:
        per_level = lam[..., 0] * increments.squares / problem.samples_per_step
        per_level = xp.broadcast_to(per_level, (*lead, *moved.shape[-3:-1]))
        scales = system.steps.scale_shares(problem, per_level)
    return flatten(Overlaps(r=dr, q=dq, readout=dv, bias=db, scales=scales))


def _sampled_increments(
    rates: Rates,
    shares: list[Float[np.ndarray, "numbers d"]],
    used: list[int],
    numbers: tuple[Float[np.ndarray, "... samples"], ...],
) -> Float[np.ndarray, "d samples"]:
    """Return the increments of the state by each sample.

    numbers: what samples change, by kind (delta with fields, delta with delta,
    readouts, biases, scales). shares: of each kind in the directions. used: the kinds
    that move.
    """
    factors = (rates.vectors, rates.vectors**2, rates.readout, rates.bias, 1.0)
    terms = []
    for kind in used:
        share = factors[kind] * shares[kind]
        terms.append(share.T @ numbers[kind].reshape(len(share), -1))
    return reduce(np.add, terms)


def _left_open(
    covariances: Float[np.ndarray, "L n n"],
    gains: Float[np.ndarray, "L n n"],
    G: Float[np.ndarray, "K K"],
) -> Float[np.ndarray, "columns L K n"]:
    """Return the part of delta_k x_l that the sum of the fields leaves open.

    Its columns are a root of G = E[delta delta^T] times the covariance of the fields
    x_l given their sum.
    """
    L, n, _ = covariances.shape
    flat_gains = gains.reshape(L * n, n)
    block_diagonal = np.zeros((L, n, L, n))
    block_diagonal[np.arange(L), :, np.arange(L)] = covariances
    conditional = block_diagonal.reshape(L * n, L * n) - flat_gains @ flat_gains.T
    root_of_G = _root(G)
    root_of_fields = _root(conditional).reshape(L, n, -1)
    columns = np.einsum("ki,laj->ijlka", root_of_G, root_of_fields)
    return columns.reshape(-1, L, len(G), n)


def _root(matrix: Float[np.ndarray, "a a"]) -> Float[np.ndarray, "a a"]:
    """Return X with X X^T = matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def point_dims(problem: Problem) -> int:
    """Return the number of normal numbers in one point of `diffusions`.

    They are fields, and what label and rule draw, of each sample of an episode.
    """
    fields = problem.student.hidden + problem.references.hidden
    return problem.rule.samples * (fields + normals_needed(problem))


@lru_cache(maxsize=4)
def point_sets(
    sets: int, count: int, dims: int, seed: int = 0
) -> tuple[Float[np.ndarray, "sets count dims"], Float[np.ndarray, "sets count"]]:
    """Return independently scrambled Sobol sets and their weights.

    The points follow a wider normal law, which the weights undo.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    streams = np.random.default_rng(seed).spawn(sets)
    uniform = np.stack([qmc.Sobol(dims, rng=rng).random(count) for rng in streams])
    variance = 1.0 + WIDER / dims
    points = np.sqrt(variance) * ndtri(np.clip(uniform, 1e-15, 1.0 - 1e-15))
    weights = np.exp((1.0 / variance - 1.0) / 2 * np.sum(points**2, axis=2))
    return points, weights / weights.sum(axis=1, keepdims=True)


def noise_covariances(
    local: LocalDynamics,
    times: Times,
    vectors: Vectors,
    directions: Float[np.ndarray, "instants size count"],
) -> Float[np.ndarray, "instants count count"]:
    """Return N times the covariance that the noise of the steps feeds into directions.

    It is a covariance per time.
    """
    rng = np.random.default_rng(0)
    dims = point_dims(local.system.problem)
    points = rng.standard_normal((SAMPLES, dims))

    def random_rotation() -> Float[np.ndarray, "dims dims"]:
        Q, _ = np.linalg.qr(rng.standard_normal((dims, dims)))
        return Q

    turned = (points @ random_rotation() for _ in vectors)
    weights = np.broadcast_to(1.0 / SAMPLES, (len(vectors), SAMPLES))
    return local.diffusions(vectors, times, turned, weights, directions)


def propagators(
    times: Float[np.ndarray, " instants"],
    jacobians: Float[np.ndarray, "instants size size"],
) -> Steps:
    """Return the matrices that carry a deviation from one instant to the next.

    They are exp of the mean Jacobian times the interval.
    """
    from scipy.linalg import expm  # takes long to import

    means = (jacobians[:-1] + jacobians[1:]) / 2
    return expm(means * np.diff(times)[:, None, None])


def propagate(steps: Steps, deviations: Float[np.ndarray, "size count"]) -> Path:
    """Return deviations at the first instant, carried to each later one."""
    path = accumulate(steps, lambda x, step: step @ x, initial=deviations)
    return np.array(list(path))


def propagate_adjoint(
    steps: Steps, directions: Float[np.ndarray, "size count"]
) -> Path:
    """Return the adjoint of directions at the last instant, at each earlier one."""
    return propagate(np.swapaxes(steps, 1, 2)[::-1], directions)[::-1]


def growing_directions(
    jacobian: Float[np.ndarray, "size size"],
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, "size count"]]:
    """Return rates and left eigenvectors (columns) of the fastest growing directions.

    Permutations make several of them nearly equal.
    """
    values, left = np.linalg.eig(jacobian.T)
    rates = np.real(values)
    largest = rates.max()
    is_fast = (rates > 0.8 * largest) & (largest > 0)
    is_real = np.abs(np.imag(values)) < 1e-9 * abs(largest)
    chosen = is_fast & is_real
    return rates[chosen], np.real(left[:, chosen])
