"""Committees of erf units without JAX: which problems these are, their numbers, and what the linear theory needs of them.

committee_kernel.py has the drift and single steps as machine code. The rest is vectorized over states in NumPy. Nothing is
traced or compiled for a new problem. Everything is the twin of order_parameters.py, matrices.py, erf.py, error.py and
diffusion.py, with the same letters; tests compare the two.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage.dynamics.diffusion import LOST
from tutelage.dynamics.error import NEAR, PATH, shared_parity
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten, unflatten
from tutelage.moments import ClosedMoments, Moments
from tutelage.moments.erf import ErfAverages
from tutelage.problem import Problem, SlowMomentum

if TYPE_CHECKING:
    from tutelage.dynamics.committee_kernel import Committee

Vectors = Float[np.ndarray, "moments size"]


def is_committee(problem: object, moments: Moments | None) -> TypeGuard[Problem]:
    """Squared loss with one teacher, erf (or sign as teacher), plain SGD, known numbers?"""
    if not isinstance(problem, Problem) or not problem.classic:
        return False
    if not isinstance(moments, ClosedMoments) or not isinstance(moments.averages, ErfAverages):
        return False
    sgd = problem.sgd
    if sgd.spherical or sgd.trainable is not None or isinstance(sgd.momentum, SlowMomentum) or problem.schedules():
        return False
    return not checks.is_traced(problem) and jnp.result_type(float) == np.float64


def committee_of(
    problem: Problem, moments: ClosedMoments, t: Float[np.ndarray, "L M M"], gradient_flow: bool, fine: float = 1.0
) -> "Committee":
    """The numbers of the equations, for the machine code."""
    from tutelage.dynamics.committee_kernel import Committee  # numba takes a third of a second to import

    inputs, sgd, averages = problem.inputs, problem.sgd, moments.averages
    assert isinstance(averages, ErfAverages)
    weights, gain, unseen = np.array(inputs.weights, float), 1.0 - float(sgd.momentum), problem.unseen
    (L, M, _), K, T, eta = t.shape, problem.student.hidden, np.tensordot(weights, t, 1), float(sgd.lr) / gain
    return Committee(
        K=K,
        M=M,
        L=L,
        softness=np.array(averages.softness),
        lam=np.tile(np.asarray(inputs.eigenvalues, float), K + M),
        weights=weights,
        t=np.moveaxis(t, 0, -1).reshape(M, M * L).copy(),
        T=T if unseen is None else T + np.asarray(unseen, float),
        v_teacher=np.array(problem.teacher.readout, float),
        eta=eta,
        eta_v=eta if sgd.readout_lr is None else float(sgd.readout_lr) / gain,
        pull=eta * float(sgd.weight_decay),
        eta_2=0.0 if gradient_flow else eta**2 / problem.samples_per_step,
        sigma_2=float(problem.noise) ** 2,
        train_readout=bool(problem.student.train_readout),
        fine=fine,
    )


class CommitteeDynamics:
    """Drift, error and noise of a committee at flat vectors."""

    def __init__(self, system: OrderParameters, like: Overlaps):
        from tutelage.dynamics import committee_kernel

        problem, moments, self.kernel = system.problem, system.moments, committee_kernel
        assert isinstance(moments, ClosedMoments)
        self.one = committee_of(problem, moments, np.asarray(system.t, float), system.gradient_flow)
        self.room = committee_kernel.room_for(self.one)
        self.like, self.parity, self.batch = like, shared_parity(problem), float(problem.sgd.batch)
        self.t, self.fractions = np.asarray(system.t, float), np.array(problem.inputs.fractions, float)
        numbered = unflatten(np.arange(np.asarray(flatten(like)).size), like)  # where each entry of a state is from
        overlaps = np.moveaxis(np.concatenate([numbered.q, numbered.r], 2), 0, -1)
        self.source = np.concatenate([overlaps.ravel(), numbered.readout])
        self.place = np.unique(self.source, return_index=True)[1]

    def drifts(self, vectors: Vectors) -> Vectors:
        """d vector / d alpha at each of the vectors."""
        states = np.zeros((len(vectors), self.source.size + 1))  # the last entry is the error, which moves nothing
        states[:, :-1] = vectors[:, self.source]
        found = np.empty_like(states)
        for state, out in zip(states, found, strict=True):
            self.kernel.drift(self.one, self.room, state, out)
        return found[:, self.place]

    def errors(self, vectors: Vectors) -> Float[np.ndarray, " moments"]:
        """e_g at each of the vectors."""
        R, Q, v = self.fields(vectors)
        return errors_of(self.one, R, Q, v, self.parity)

    def gradients(self, vectors: Vectors) -> Vectors:
        """The derivative of e_g at each of the vectors; an off-diagonal entry of q stands for two."""
        (R, Q, v), K = self.fields(vectors), self.one.K
        C, w = joint(R, Q, self.one.T), self.error_weights(v)
        both, weights = mean_update(self.one, C, w)[:, None], self.one.weights[:, None, None]
        twice, h = 1.0 - np.eye(K) / 2, np.einsum("tka,ta->tk", outputs(self.one, C)[:, :K], w)
        return np.asarray(flatten(Overlaps(-weights * both[..., K:], -weights * twice * both[..., :K], -h, None, None)))

    def slopes(self, vector: Float[np.ndarray, " size"]) -> Float[np.ndarray, "K n"]:
        """E[g'_i g'_a] at a vector."""
        R, Q, _ = self.fields(vector[None])
        return _slopes(self.one, joint(R, Q, self.one.T))[0]

    def update_covariances(
        self, C: Float[np.ndarray, "count n n"], v: Float[np.ndarray, "count K"]
    ) -> Float[np.ndarray, "count K K"]:
        """G at covariances of the fields, those of the teachers included."""
        one, found = self.one._replace(eta_2=1.0), np.empty((len(C), self.one.K, self.one.K))
        room = self.kernel.room_for(one)
        for i in range(len(C)):
            room.C[:], room.w[: one.K] = C[i], -v[i]
            self.kernel.matrices(one, room)
            found[i] = room.G
        return found

    def diffusions(
        self,
        vectors: Vectors,
        points: Iterable[Float[np.ndarray, "count dims"]],
        weights: Iterable[Float[np.ndarray, " count"]],
        directions: Float[np.ndarray, "moments size d"] | None = None,
    ) -> Float[np.ndarray, "moments d d"]:
        """`diffusion.diffusion` at each of the vectors, in all flat coordinates or in some directions."""
        one, states, found = self.one, unflatten(vectors, self.like), []
        upper = np.concatenate([states.q, states.r], 3)
        lower = np.concatenate([np.swapaxes(states.r, 2, 3), np.broadcast_to(self.t, (len(vectors), *self.t.shape))], 3)
        W = one.weights[:, None, None] * np.concatenate([upper, lower], 2)
        values, bases = np.linalg.eigh(W.sum(axis=1))
        known = values > LOST * values[:, -1:]
        whiten = bases * np.where(known, 1 / np.sqrt(np.where(known, values, 1.0)), 0.0)[:, None]
        gains = np.ascontiguousarray((W @ whiten[:, None])[..., ::-1])
        for i, (own, weight) in enumerate(zip(points, weights, strict=False)):
            if i == len(vectors):
                break
            deltas, samples = np.empty((len(own), one.K)), np.empty((len(own), vectors.shape[1]))
            self.kernel.shares(one, states.readout[i], self.fractions, gains[i], own, deltas, samples)
            samples = samples if directions is None else samples @ directions[i]
            samples = samples - weight @ samples
            D = samples.T @ (weight[:, None] * samples)
            if one.L > 1:
                columns = self._left_open(W[i], gains[i], (deltas.T * weight) @ deltas)
                columns = columns if directions is None else columns @ directions[i]
                D = D + columns.T @ columns
            found.append(D)
        return np.array(found) / self.batch

    def _left_open(self, W: np.ndarray, gains: np.ndarray, G: np.ndarray) -> Float[np.ndarray, "columns size"]:
        """What the sum of the fields leaves open about each level: G = E[delta delta^T] times the covariance that is left."""
        (L, n), K = W.shape[:2], self.one.K
        flat, whole = gains.reshape(L * n, n), np.zeros((L, n, L, n))
        whole[np.arange(L), :, np.arange(L)] = W
        left, right = _root(G), _root(whole.reshape(L * n, L * n) - flat @ flat.T)
        moved = np.einsum("ki,laj->ijlka", left, right.reshape(L, n, -1)).reshape(-1, L, K, n)
        moved = self.one.eta * moved / self.fractions[:, None, None]
        dr, half = moved[..., K:], moved[..., :K]
        return np.asarray(flatten(Overlaps(dr, half + np.swapaxes(half, -1, -2), np.zeros((len(moved), K)), None, None)))

    def fields(self, vectors: Vectors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """R, Q and the readouts at each of the vectors."""
        states, weights = unflatten(vectors, self.like), self.one.weights
        R, Q = (np.einsum("l,tlab->tab", weights, x) for x in (states.r, states.q))
        return R, Q, np.asarray(states.readout)

    def error_weights(self, v: Float[np.ndarray, "time K"]) -> Float[np.ndarray, "time n"]:
        """w with Delta = sum_a w_a g_a."""
        return np.concatenate([-v, np.tile(self.one.v_teacher, (len(v), 1))], 1)


def _root(matrix: Float[np.ndarray, "a a"]) -> Float[np.ndarray, "a a"]:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def errors_of(
    one: "Committee",
    R: Float[np.ndarray, "time K M"],
    Q: Float[np.ndarray, "time K K"],
    v: Float[np.ndarray, "time K"],
    parity: int | None,
) -> Float[np.ndarray, " time"]:
    """e_g at all times, as `dynamics.error.population_error`."""
    K, T, reached = one.K, one.T, np.isfinite(v[:, 0])
    R, Q, w = R[reached], Q[reached], np.concatenate([-v[reached], np.tile(one.v_teacher, (reached.sum(), 1))], 1)
    found = (w[:, None] @ outputs(one, joint(R, Q, T)) @ w[..., None])[:, 0, 0] / 2
    if parity is not None:
        lengths = np.sqrt(np.diagonal(T))
        nearest = np.argmax(np.abs(R) / np.where(lengths > 0, lengths, np.inf), axis=2)  # a silent teacher unit is no target
        sign = (
            np.where(np.take_along_axis(R, nearest[..., None], 2) < 0, -1.0, 1.0) if parity else np.ones((*nearest.shape, 1))
        )
        copy = sign * np.eye(one.M)[nearest]
        R0 = copy @ T
        Q0 = R0 @ np.swapaxes(copy, 1, 2)
        dR, dQ = R - R0, Q - Q0
        near = np.maximum(np.abs(dR).max((1, 2)), np.abs(dQ).max((1, 2))) < NEAR
        if near.any():
            R0, Q0, dR, dQ, w, copy = (x[near] for x in (R0, Q0, dR, dQ, w, copy))
            acts = copy if parity < 0 else np.abs(copy)
            left = one.v_teacher + np.einsum("tk,tkm->tm", w[:, :K], acts)
            path = np.einsum("tm,mo,to->t", left, outputs(one, joint(R0, Q0, T)[:1])[0, K:, K:], left) / 2
            for node, weight in zip((PATH[0] + 1) / 2, PATH[1] / 2, strict=True):
                both = mean_update(one, joint(R0 + node * dR, Q0 + node * dQ, T), w)
                slope = np.sum(both[..., :K] * dQ, (1, 2)) / 2 + np.sum(both[..., K:] * dR, (1, 2))
                path -= weight * slope
            found[near] = path
    errors = np.full(reached.size, np.nan)
    errors[reached] = np.maximum(found, 0.0)
    return errors


def joint(R: np.ndarray, Q: np.ndarray, T: np.ndarray) -> Float[np.ndarray, "time n n"]:
    """The covariance of all fields, as `joint_covariance`."""
    across = np.swapaxes(R, 1, 2)
    upper = np.concatenate([(Q + np.swapaxes(Q, 1, 2)) / 2, R], 2)
    return np.concatenate([upper, np.concatenate([across, np.broadcast_to(T, (len(R), *T.shape))], 2)], 1)


def outputs(one: "Committee", C: Float[np.ndarray, "time n n"]) -> Float[np.ndarray, "time n n"]:
    """E[g_a g_b]."""
    variance = np.diagonal(C, axis1=1, axis2=2)
    root = np.sqrt(variance + one.softness)
    sines = np.clip(C / (root[:, :, None] * root[:, None]), -1.0, 1.0)
    hard = one.softness == 0
    sines[:, hard, hard] = 1.0  # sign times itself, whatever rounding says
    return (2 / np.pi) * np.arcsin(sines)


def mean_update(
    one: "Committee", C: Float[np.ndarray, "time n n"], w: Float[np.ndarray, "time n"]
) -> Float[np.ndarray, "time K n"]:
    """A beside B."""
    K, rows, slopes = one.K, C[:, : one.K], _slopes(one, C)
    d = np.diagonal(C, axis1=1, axis2=2)[:, :K] + one.softness[:K]
    bend = -np.sum(slopes * rows * w[:, None], axis=2) / d
    both = slopes * w[:, None]
    both[:, np.arange(K), np.arange(K)] += bend
    return -w[:, :K, None] * both


def _slopes(one: "Committee", C: Float[np.ndarray, "time n n"]) -> Float[np.ndarray, "time K n"]:
    """E[g'_i g'_a]."""
    K, d = one.K, np.diagonal(C, axis1=1, axis2=2) + one.softness
    return (2 / np.pi) / np.sqrt(d[:, :K, None] * d[:, None] - C[:, :K] ** 2)
