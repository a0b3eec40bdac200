"""One step of the finite network, and the diffusion D = N^2 Cov(one step) of the overlaps.

The fields of each level, x_l = (lambda_l, rho_l), are Gaussian with that level's covariance; Delta and delta_k = Delta v_k
g'(lambda_k) follow from their sum, and with them a sample's share of a step with batch B,
    N dr_l = eta delta_k rho_ml / p_l,
    N dq_l = eta (delta_i lambda_kl + delta_k lambda_il) / p_l + (eta^2 / B) lam_l delta_i delta_k,
    N dv   = eta_v Delta g(lambda_k),    N db = eta_b delta_k.
A step is the mean of the shares of its B samples: what two samples do to q together, (eta/B)^2 x.x' delta_i delta'_k / N,
is smaller by N^(-1/2), for x.x' is of order sqrt(N). So the mean share is the drift (but for weight decay, which is the same
for all samples and left out) and Cov(share) / B the diffusion D. Frozen parts lose their force, spherical
weights are pulled back as in the drift, a fixed momentum divides every rate by 1 - beta. The samples of an episode are not
independent of each other: its share is their mean, and B counts episodes.

D is what SGD's noise feeds into the overlaps per unit of time, times N. It has no closed form (it holds averages such as
E[Delta^4 g'^4]), so it is averaged over a scrambled Sobol set. Rare large fields rule the average: points are drawn from a
slightly wider normal law and weighted back, which halves the error. Measured for K = M = 3, erf and ReLU: the rate of
Var(e_g) from 2^12 points is good to 2%, from 2^14 to 0.6%.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.dynamics.error import field_means
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten, unflatten
from tutelage.moments.matrices import joint_covariance
from tutelage.problem import Problem
from tutelage.problem.sample import learn, normals_needed
from tutelage.rules import Parameters

if TYPE_CHECKING:
    from tutelage.dynamics.committee import CommitteeDynamics

LOST = 1e-13  # relative variance below which a combination of fields has none
WIDER = 3.0  # points have variance 1 + WIDER / dims


Parts: TypeAlias = Float[Any, "samples L n"]  # fields of samples by level
Draws: TypeAlias = Float[Any, "samples draws"]  # normal numbers for what label and rule draw


def shares(
    system: OrderParameters, t: ArrayLike, state: Overlaps, parts: Parts, draws: Draws
) -> Float[Array, "samples size"]:
    """Shares of samples in a step, in flat coordinates."""

    def one(parts: Array, delta: Array, readout: Array) -> Array:
        moved = jnp.einsum("k,la->lka", delta, parts)
        return _flat_share(system, t, state, moved, jnp.outer(delta, delta), readout, delta)

    return jax.vmap(one)(parts, *_updates(system, t, state, parts, draws))


def increments(
    system: OrderParameters, t: ArrayLike, state: Overlaps, parts: Parts, draws: Draws
) -> Float[Array, "count size"]:
    """The same for a rule of episodes: the mean share of the samples of each."""
    each, T = shares(system, t, state, parts, draws), system.problem.rule.samples
    return each if T == 1 else each.reshape(-1, T, each.shape[1]).mean(axis=1)


def _updates(
    system: OrderParameters, t: ArrayLike, state: Overlaps, parts: Parts, draws: Draws
) -> tuple[Float[Array, "samples K"], Float[Array, "samples *outputs K"]]:
    """delta_k, and what moves the readout, of samples with these fields by level."""
    problem, fields = system.problem, parts.sum(axis=1)
    mean, K = field_means(problem, state.bias), problem.student.hidden
    fields = fields if mean is None else fields + mean
    context = system.context(t, *system.covariances(state))
    parameters = Parameters(state.readout, state.bias)
    update = learn(problem, fields[:, :K], fields[:, K:], draws, parameters, context)
    return update.delta, update.parameters.readout


def _flat_share(
    system: OrderParameters,
    t: ArrayLike,
    state: Overlaps,
    moved: Float[Array, "L K n"],
    pairs: Float[Array, "K K"],
    readout: Float[Array, "*outputs K"],
    bias: Float[Array, " K"],
) -> Float[Array, " size"]:
    """The share in flat coordinates, linear in delta_k x_la (`moved`), delta_i delta_k (`pairs`), Delta g and delta."""
    problem, (eta, eta_v, eta_b) = system.problem, system.rates(t)
    student, inputs, K = problem.student, problem.inputs, problem.student.hidden
    lam, p = (jnp.asarray(x)[:, None, None] for x in (inputs.eigenvalues, inputs.fractions))
    mask = problem.trainable_mask()
    if mask is not None:
        mask = jnp.asarray(mask)
        moved, pairs = mask[:, :, None] * moved, mask[:, :, None] * pairs * mask[:, None, :]
    dr, half = eta * moved[..., K:] / p, eta * moved[..., :K] / p
    kicks = 0.0 if system.gradient_flow else eta**2 / problem.samples_per_step * lam * pairs
    dq = half + jnp.swapaxes(half, 1, 2) + kicks
    dr, dq = system.onto_sphere(state, dr, dq) if problem.sgd.spherical else (dr, dq)
    dv = eta_v * float(student.train_readout) * readout
    db = None if state.bias is None else eta_b * float(student.train_bias) * bias
    return flatten(Overlaps(dr, dq, dv, db, None))


class SampledSteps(eqx.Module):
    """Single steps of any problem at flat vectors, by JAX; `CommitteeDynamics` has the same functions in machine code."""

    system: OrderParameters
    like: Overlaps

    @eqx.filter_jit
    def shares(
        self,
        t: ArrayLike,
        vector: Float[NumpyOrJax, " size"],
        gains: Float[NumpyOrJax, "L n n"],
        normals: Float[NumpyOrJax, "samples dims"],
    ) -> tuple[Float[Array, "samples K"], Float[Array, "count size"]]:
        """delta_k of samples, whose fields by level are gains times normal numbers, and their shares."""
        state, n = unflatten(vector, self.like), gains.shape[1]
        parts, draws = jnp.einsum("lab,cb->cla", gains, normals[:, :n]), normals[:, n:]
        return _updates(self.system, t, state, parts, draws)[0], increments(self.system, t, state, parts, draws)

    @eqx.filter_jit
    def linear_shares(
        self, t: ArrayLike, vector: Float[NumpyOrJax, " size"], moved: Float[NumpyOrJax, "count L K n"]
    ) -> Float[Array, "count size"]:
        """The part of shares that is linear in delta_k x_la (`moved`)."""
        state, none = unflatten(vector, self.like), jnp.zeros(self.like.q.shape[-1])
        pairs, readout = jnp.outer(none, none), jnp.zeros_like(self.like.readout)
        return jax.vmap(lambda x: _flat_share(self.system, t, state, x, pairs, readout, none))(moved)


def diffusions(
    steps: "SampledSteps | CommitteeDynamics",
    system: OrderParameters,
    states: Overlaps,
    times: Float[np.ndarray, " moments"],
    points: Iterable[Float[np.ndarray, "count dims"]],
    weights: Iterable[Float[np.ndarray, " count"]],
    directions: Float[np.ndarray, "moments size d"] | None = None,
) -> Float[np.ndarray, "moments d d"]:
    """D at each of the states, in all flat coordinates or in some directions.

    Each has its own points (of `point_dims` numbers) with weights that make them standard normal; there may be more of them.
    Only the summed fields (and normal numbers for what label and rule draw) are sampled: given their sum the fields of a
    level are Gaussian, the increments linear in them, and that part of D is added in closed form. D is a sum of squares:
    where the gradient of e_g nearly cancels in it, it is as accurate as elsewhere.
    """
    problem, T = system.problem, system.problem.rule.samples
    level_covariances = joint_covariance(np.asarray(states.r), np.asarray(states.q), np.asarray(system.t))
    W = np.asarray(problem.inputs.weights)[:, None, None] * level_covariances
    values, bases = np.linalg.eigh(W.sum(axis=1))
    known = values > LOST * values[:, -1:]
    whiten = bases * np.where(known, 1 / np.sqrt(np.where(known, values, 1.0)), 0.0)[:, None]
    # E[x_l | normals], largest variance first: the first axes of a point set are its best
    gains = np.ascontiguousarray((W @ whiten[:, None])[..., ::-1])
    found = []
    for i, (vector, normals, weight) in enumerate(zip(flatten(states), points, weights, strict=False)):
        of_samples = steps.shares(times[i], vector, gains[i], normals.reshape(len(weight) * T, -1))
        deltas, samples = (np.asarray(x) for x in of_samples)
        samples = samples if directions is None else samples @ directions[i]
        samples = samples - weight @ samples
        D = samples.T @ (weight[:, None] * samples)
        if W.shape[1] > 1:
            G = (deltas.T * np.repeat(weight, T) / T**2) @ deltas
            columns = np.asarray(steps.linear_shares(times[i], vector, _left_open(W[i], gains[i], G)))
            columns = columns if directions is None else columns @ directions[i]
            D = D + columns.T @ columns
        found.append(D)
    return np.array(found) / float(problem.sgd.batch)


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
    """Normal numbers of one point of `diffusion`: fields, and what label and rule draw, of each sample of an episode."""
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
