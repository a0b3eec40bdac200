"""Committees of erf units as machine code: the twin of dormand_prince.py and of the closed forms of squared loss.

The state is one vector y: of every student k its overlaps with all n = K + M units on all L levels, (K, n, L), students
before teachers; then the readout v (K), and e_g in the unit 1/fine, which guides the steps (program.py). The letters and
equations are those of order_parameters.py, matrices.py and averages.py; tests/test_compiled.py compares the two.
Machine code is made when first needed and cached on disk, for all K, M and L at once. Short loops keep that to seconds.
"""

import math
from collections import namedtuple
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage._numba import compiler
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten, unflatten
from tutelage.errors import Status
from tutelage.moments.averages import COEFFICIENTS, ErfAverages
from tutelage.moments.matrices import ClosedMoments
from tutelage.problem import Problem

STEP, ALL = 12, 17  # these as in dormand_prince.py
SAFETY, SLOWEST, FASTEST, ALMOST, FIRST = 0.9, 0.2, 10.0, 1.0001, 1e-3
FINISHED, DIVERGED, MAX_STEPS, FAILED = (
    int(code) for code in (Status.FINISHED, Status.DIVERGED, Status.MAX_STEPS, Status.FAILED)
)
TWO_OVER_PI = 2 / math.pi
ARCSIN = np.array(COEFFICIENTS)
compiled = compiler(__file__)


class Committee(NamedTuple):
    """The numbers of the equations. softness: 1 for erf, 0 for sign.

    lam: of all units and levels. t: overlaps of the teachers with the teachers. T: of their fields. eta, eta_v: rates.
    pull: weight decay. eta_2: eta^2 / batch, zero for gradient flow. fine: the unit of the error next to the state.
    """

    K: int
    M: int
    L: int
    softness: Float[np.ndarray, " n"]
    lam: Float[np.ndarray, " n_and_levels"]
    weights: Float[np.ndarray, " L"]
    t: Float[np.ndarray, "M M_and_levels"]
    T: Float[np.ndarray, "M M"]
    v_teacher: Float[np.ndarray, " M"]
    eta: float
    eta_v: float
    pull: float
    eta_2: float
    sigma_2: float
    train_readout: bool
    fine: float


# Arrays to work in. C (n, n): covariance of the fields. w (n): Delta = sum_a w_a g_a. first, second: the students of a pair.
# overlaps (n, n L): of all units with all units, on all levels. both (K, n): A beside B. The rest: see `matrices`.
Room = namedtuple("Room", "C w first second overlaps both slopes G c d root total x y s sines")


def room_for(one: Committee) -> Room:
    """Made outside of the machine code, which is sooner compiled without it."""
    K, n = one.K, one.K + one.M
    C, overlaps, (first, second) = np.zeros((n, n)), np.zeros((n, n * one.L)), np.triu_indices(K)
    C[K:, K:], overlaps[K:, K * one.L :] = one.T, one.t
    P, fields = first.size, n * (n + 1) // 2
    work = map(np.zeros, ((K, n), (K, n), (K, K), (n, n), n, n, P, (n, P), (n, P), (n, P), (fields, P)))
    return Room(C, np.concatenate([np.zeros(K), one.v_teacher]), first, second, overlaps, *work)


def committee_of(
    problem: Problem, moments: ClosedMoments, t: Float[np.ndarray, "L M M"], gradient_flow: bool, fine: float = 1.0
) -> Committee:
    """The numbers of a problem for which `order_parameters.is_committee` holds."""
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
    """The drift of a committee at flat vectors (linearized.py), and G."""

    def __init__(self, system: OrderParameters, like: Overlaps):
        assert isinstance(system.moments, ClosedMoments)
        self.one = committee_of(system.problem, system.moments, np.asarray(system.t, float), system.gradient_flow)
        numbered = unflatten(np.arange(flatten(like).size), like)  # where each entry of a state is from
        overlaps = np.moveaxis(np.concatenate([numbered.q, numbered.r], 2), 0, -1)
        self.source = np.concatenate([overlaps.ravel(), numbered.readout])
        self.place = np.unique(self.source, return_index=True)[1]

    def drifts(self, vectors: Float[np.ndarray, "moments size"]) -> Float[np.ndarray, "moments size"]:
        """d vector / d alpha at each of the vectors."""
        states = np.zeros((len(vectors), self.source.size + 1))  # the last entry is the error, which moves nothing
        states[:, :-1] = vectors[:, self.source]
        found = np.empty_like(states)
        drifts(self.one, room_for(self.one), states, found)
        return found[:, self.place]

    def update_covariances(
        self, C: Float[np.ndarray, "count n n"], v: Float[np.ndarray, "count K"]
    ) -> Float[np.ndarray, "count K K"]:
        """G at covariances of the fields, those of the teachers included."""
        one, found = self.one._replace(eta_2=1.0), np.empty((len(C), self.one.K, self.one.K))
        room = room_for(one)
        for i in range(len(C)):
            room.C[:], room.w[: one.K] = C[i], -v[i]
            matrices(one, room)
            found[i] = room.G
        return found


@compiled
def arcsin(x):
    """As `safe_arcsin`: one polynomial without branches."""
    size = min(abs(x), 1.0)
    far = size > 0.5
    s = (1.0 - size) * 0.5 if far else size * size
    z = math.sqrt(s) if far else size
    p = ARCSIN[-1]
    for power in range(ARCSIN.size - 2, -1, -1):
        p = p * s + ARCSIN[power]
    angle = z + z * s * p
    angle = math.pi / 2 - 2.0 * angle if far else angle
    return -angle if x < 0 else angle


@compiled
def matrices(one, room):
    """A beside B (room.both) and G, from the covariance C and w; d = C_aa + s_a. All arcsines are in one vectorized loop."""
    K, n, C, c, w, d, root = one.K, one.K + one.M, room.C, room.c, room.w, room.d, room.root
    x, y, s, sines, total, pairs = room.x, room.y, room.s, room.sines, room.total, room.first.size
    for a in range(n):
        d[a] = C[a, a] + one.softness[a]
        root[a] = 1.0 / math.sqrt(d[a])
    for i in range(K):
        bend, v_i = 0.0, -w[i]
        for a in range(n):
            slope = TWO_OVER_PI / math.sqrt(d[i] * d[a] - C[i, a] * C[i, a])
            room.slopes[i, a] = slope
            room.both[i, a] = v_i * w[a] * slope
            bend -= w[a] * slope * C[i, a]
        room.both[i, i] += v_i * bend / d[i]
    if one.eta_2 == 0.0:
        return
    for a in range(n):
        for b in range(n):
            c[a, b] = C[a, b] * (root[a] * root[b])
    for p in range(pairs):
        c_ij = c[room.first[p], room.second[p]]
        total[p] = 1.0 / math.sqrt(1.0 - c_ij * c_ij)
    for a in range(n):
        for p in range(pairs):
            i, j = room.first[p], room.second[p]
            along = c[a, i]
            across = (c[a, j] - c[i, j] * along) * total[p]
            left = 1.0 / math.sqrt(1.0 - along * along - across * across)
            x[a, p] = along * left
            y[a, p] = across * left
            s[a, p] = left
    ab = 0
    for a in range(n):
        for b in range(a, n):
            c_ab = c[a, b]
            for p in range(pairs):
                sines[ab, p] = c_ab * s[a, p] * s[b, p] - x[a, p] * x[b, p] - y[a, p] * y[b, p]
            ab += 1
    flat = sines.reshape(-1)
    for p in range(flat.size):
        flat[p] = arcsin(flat[p])
    total[:] = 0.0
    ab = 0
    for a in range(n):
        for b in range(a, n):
            if a == b and one.softness[a] == 0.0:  # sign times itself is one
                sines[ab] = math.pi / 2
            factor = w[a] * w[b] * (1.0 if a == b else 2.0)
            for p in range(pairs):
                total[p] += factor * sines[ab, p]
            ab += 1
    for p in range(pairs):
        i, j = room.first[p], room.second[p]
        G = w[i] * w[j] * room.slopes[i, j] * (TWO_OVER_PI * total[p] + one.sigma_2)
        room.G[i, j] = G
        room.G[j, i] = G


@compiled
def drift(one, room, y, out):
    """dy / dalpha."""
    K, L, n = one.K, one.L, one.K + one.M
    C, both, overlaps, line = room.C, room.both, room.overlaps, (one.K + one.M) * one.L
    for k in range(K):
        for a in range(n):
            total = 0.0
            for level in range(L):
                value = y[k * line + a * L + level]
                total += one.weights[level] * value
                overlaps[k, a * L + level] = value
                if a >= K:
                    overlaps[a, k * L + level] = value
            C[k, a] = total
            C[a, k] = total
        room.w[k] = -y[K * line + k]
    matrices(one, room)
    for k in range(K):
        own = out[k * line : (k + 1) * line]
        for i in range(line):
            own[i] = 0.0
        for a in range(n):
            factor = one.eta * both[k, a]
            for i in range(line):
                own[i] += factor * overlaps[a, i]
        for i in range(line):
            own[i] = one.lam[i] * own[i] - one.pull * overlaps[k, i]
    slope = 0.0
    for k in range(K):
        for a in range(k, n):
            at, mirrored, noise, change = k * line + a * L, a * line + k * L, 0.0, 0.0
            if a < K:
                noise = one.eta_2 * room.G[k, a]
            for level in range(L):
                if a < K:
                    total = out[at + level] + out[mirrored + level] + noise * one.lam[level]
                    out[at + level] = total
                    out[mirrored + level] = total
                change += one.weights[level] * out[at + level]
            if a < K:
                change *= 0.25 * (both[k, a] + both[a, k]) * (1.0 if a == k else 2.0)
            else:
                change *= both[k, a]
            slope -= change
    for k in range(K):
        out[K * line + k] = 0.0
        if one.train_readout:
            h = 0.0  # E[Delta g_k]
            for a in range(n):
                h += room.w[a] * TWO_OVER_PI * arcsin(C[k, a] * room.root[k] * room.root[a])
            out[K * line + k] = one.eta_v * h
            slope -= one.eta_v * h * h
    out[K * line + K] = one.fine * slope


@compiled
def drifts(one, room, states, out):
    """dy / dalpha at each of some states: a call from Python costs more than a drift."""
    for i in range(len(states)):
        drift(one, room, states[i], out[i])


@compiled
def combine(y, h, factors, k, out):
    """y + h sum_s factors_s k_s."""
    for i in range(y.size):
        out[i] = y[i]
    for s in range(factors.size):
        factor = h * factors[s]
        if factor != 0.0:
            for i in range(y.size):
                out[i] += factor * k[s, i]


@compiled
def sizes(x, unit):
    """The mean square of numbers in a unit, and the largest of them."""
    total, largest = 0.0, 0.0
    for i in range(x.size):
        size = abs(x[i]) * unit[i]
        total += size * size
        largest = max(largest, size)
    return total / x.size, largest


@compiled
def record(y, h, x, k, weights, curve, out):
    """The state at the share x of a step."""
    for s in range(ALL):
        total = 0.0
        for p in range(7, -1, -1):
            total = total * x + weights[s, p]
        curve[s] = total
    combine(y, h, curve, k, out)


@compiled
def integrate(one, room, y, times, rtol, atol, bound, shortest, max_steps, tableau, states):
    """The loop of dormand_prince.py. tableau: its STAGES, ERRORS and WEIGHTS. states: recorded, (time, y).

    Returns code, last time, accepted steps and the size of the last state.
    """
    stages, errors, weights = tableau
    k, zero, at, y1, unit = np.zeros((ALL, y.size)), np.zeros(y.size), np.zeros(y.size), np.zeros(y.size), np.zeros(y.size)
    counted, curve = np.ones(y.size), np.zeros(ALL)
    counted[-1] = 0.0  # the error does not diverge
    count, end = times.size, max(times[-1], 1e-12)
    t, h, place, accepted, code = 0.0, FIRST * min(end, 1.0), 0, 0, MAX_STEPS
    drift(one, room, y, k[0])
    for _ in range(max_steps):
        clipped = t + h * ALMOST >= end
        step = end - t if clipped else h
        t1 = end if clipped else t + h
        stage, last, error = 1, STEP, 0.0
        while stage < last:
            combine(y, step, stages[stage], k, at)
            drift(one, room, at, k[stage])
            if stage == STEP - 1:
                combine(y, step, stages[STEP], k, y1)
                for i in range(y.size):
                    unit[i] = 1.0 / (atol + rtol * max(abs(y[i]), abs(y1[i])))
                combine(zero, 1.0, errors[0], k, at)
                fifth = sizes(at, unit)[0]
                combine(zero, 1.0, errors[1], k, at)
                error = step * fifth / math.sqrt(max(fifth + 0.01 * sizes(at, unit)[0], 1e-300))
                if error < 1.0:
                    last = ALL if place < count and times[place] <= t1 else STEP + 1
            stage += 1
        if last == ALL:
            combine(zero, step, errors[2], k, at)
            error = max(error, sizes(at, unit)[1])
        accept = error < 1.0
        if accept:
            while place < count and times[place] <= t1:
                record(y, step, (times[place] - t) / step, k, weights, curve, states[place])
                place += 1
        factor = SLOWEST
        if math.isfinite(error):
            factor = min(max(SAFETY * max(error, 1e-300) ** (-0.125), SLOWEST), FASTEST if accept else 1.0)
        longer = factor * step
        if accept and clipped:
            longer = max(longer, h)
        h = longer
        if accept:
            t = t1
            accepted += 1
            for i in range(y.size):
                y[i] = y1[i]
                k[0, i] = k[STEP, i]
            if sizes(y, counted)[1] >= bound:
                code = DIVERGED
                break
            if t >= end:
                code = FINISHED
                break
        if longer < shortest:
            code = FAILED
            break
    return code, t, accepted, sizes(y, counted)[1]
