"""Committees of erf units as machine code.

This is the twin of dormand_prince.py and of the closed forms of squared loss. The state
is one vector y: of every student k its overlaps with all n = K + M units on all L
levels, (K, n, L), students before teachers; then the readout v (K), and e_g in the unit
1/fine, which guides the steps (program.py). The letters and equations are those of
order_parameters.py, matrices.py and averages.py; tests/stream/test_compiled.py compares
the two. Machine code is made when first needed and cached on disk, for all K, M and L
at once. Short loops keep that to seconds.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tutelage._numba import compiler
from tutelage.errors import Status
from tutelage.problem import Problem
from tutelage.solvers import dormand_prince, step_kernel
from tutelage.solvers.dormand_prince import ALL_STAGES, ALMOST, FIRST, STEP_STAGES
from tutelage.solvers.step_kernel import (
    combine,
    curve_error,
    end_and_error,
    record,
    sizes,
    step_factor,
    step_workspace,
)
from tutelage.stream.moments.averages import COEFFICIENTS, ErfAverages
from tutelage.stream.moments.matrices import ClosedMoments
from tutelage.stream.order_parameters import (
    OrderParameters,
    Overlaps,
    flatten,
    unflatten,
)

FINISHED = int(Status.FINISHED)
DIVERGED = int(Status.DIVERGED)
MAX_STEPS = int(Status.MAX_STEPS)
FAILED = int(Status.FAILED)
TWO_OVER_PI = 2 / math.pi
ARCSIN = np.array(COEFFICIENTS)
# the steps of the integrator become machine code together with the drift
FILES = (__file__, step_kernel.__file__, dormand_prince.__file__)
compiled = compiler(*FILES)
# Handing over so many arrays costs a third of a drift: what has one caller is part of it.
inlined = compiler(*FILES, forceinline=True)


class Committee(NamedTuple):
    """The numbers of the equations.

    softness: 1 for erf, 0 for sign.
    lam: of all units and levels.
    weights: p_l lam_l.
    t: overlaps of the teachers with the teachers. T: covariance of their fields.
    eta, eta_v: rates of vectors and readout.
    pull: eta kappa, of weight decay.
    eta_2: eta^2 / batch, zero for gradient flow.
    sigma_2: variance of the label noise.
    fine: factor of the error next to the state.
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


class Workspace(NamedTuple):
    """Arrays to work in, for n units, L levels and P pairs (i, j) of students.

    C: covariance of the fields. w: Delta = sum_a w_a g_a.
    first, second: the students of each pair, i <= j.
    overlaps: of all units with all units, on all levels.
    A_and_B, G: the matrices of the drift. slopes: E[g'_i g'_a].
    d: C_aa + softness_a. root: 1 / sqrt(d_a). c: C_ab / sqrt(d_a d_b).
    along, across, scale, pair_scale, sines, total: see `update_covariance`.
    """

    C: Float[np.ndarray, "n n"]
    w: Float[np.ndarray, " n"]
    first: Int[np.ndarray, " P"]
    second: Int[np.ndarray, " P"]
    overlaps: Float[np.ndarray, "n n_and_levels"]
    A_and_B: Float[np.ndarray, "K n"]
    slopes: Float[np.ndarray, "K n"]
    G: Float[np.ndarray, "K K"]
    c: Float[np.ndarray, "n n"]
    d: Float[np.ndarray, " n"]
    root: Float[np.ndarray, " n"]
    pair_scale: Float[np.ndarray, " P"]
    along: Float[np.ndarray, "n P"]
    across: Float[np.ndarray, "n P"]
    scale: Float[np.ndarray, "n P"]
    sines: Float[np.ndarray, "fields P"]
    total: Float[np.ndarray, " P"]


def workspace_for(committee: Committee) -> Workspace:
    """Return arrays to work in, with the numbers that do not change.

    They are made outside of the machine code, which is sooner compiled without it.
    """
    K = committee.K
    n = K + committee.M
    C = np.zeros((n, n))
    C[K:, K:] = committee.T
    overlaps = np.zeros((n, n * committee.L))
    overlaps[K:, K * committee.L :] = committee.t
    first, second = np.triu_indices(K)
    pairs = first.size
    return Workspace(
        C=C,
        w=np.concatenate([np.zeros(K), committee.v_teacher]),
        first=first,
        second=second,
        overlaps=overlaps,
        A_and_B=np.zeros((K, n)),
        slopes=np.zeros((K, n)),
        G=np.zeros((K, K)),
        c=np.zeros((n, n)),
        d=np.zeros(n),
        root=np.zeros(n),
        pair_scale=np.zeros(pairs),
        along=np.zeros((n, pairs)),
        across=np.zeros((n, pairs)),
        scale=np.zeros((n, pairs)),
        sines=np.zeros((n * (n + 1) // 2, pairs)),
        total=np.zeros(pairs),
    )


def committee_of(
    problem: Problem,
    moments: ClosedMoments,
    t: Float[np.ndarray, "L M M"],
    gradient_flow: bool,
    fine: float = 1.0,
) -> Committee:
    """Return the numbers of a problem that passes `order_parameters.is_committee`."""
    inputs = problem.inputs
    optimizer = problem.optimizer
    averages = moments.averages
    assert isinstance(averages, ErfAverages)
    weights = np.array(inputs.weights, float)
    L, M, _ = t.shape
    K = problem.student.hidden
    T = np.tensordot(weights, t, 1)
    if problem.unseen is not None:
        T = T + np.asarray(problem.unseen, float)
    # a fixed momentum beta divides every rate by 1 - beta
    fraction = 1.0 - float(optimizer.momentum)
    eta = float(optimizer.lr) / fraction
    eta_v = eta
    if optimizer.readout_lr is not None:
        eta_v = float(optimizer.readout_lr) / fraction
    eta_2 = 0.0
    if not gradient_flow:
        eta_2 = eta**2 / problem.samples_per_step
    return Committee(
        K=K,
        M=M,
        L=L,
        softness=np.array(averages.softness),
        lam=np.tile(np.asarray(inputs.eigenvalues, float), K + M),
        weights=weights,
        t=np.moveaxis(t, 0, -1).reshape(M, M * L).copy(),
        T=T,
        v_teacher=np.array(problem.labeler.readout, float),
        eta=eta,
        eta_v=eta_v,
        pull=eta * float(optimizer.weight_decay),
        eta_2=eta_2,
        sigma_2=float(problem.noise_deviation) ** 2,
        train_readout=bool(problem.student.train_readout),
        fine=fine,
    )


class CommitteeDynamics:
    """The drift of a committee at flat vectors (linearized.py), and G."""

    def __init__(self, system: OrderParameters, like: Overlaps):
        assert isinstance(system.moments, ClosedMoments)
        t = np.asarray(system.t, float)
        self.constants = committee_of(
            system.problem, system.moments, t, system.gradient_flow
        )
        # the place in the flat vector that each entry of y is from, and the reverse
        numbered = unflatten(np.arange(flatten(like).size), like)
        overlaps = np.moveaxis(np.concatenate([numbered.q, numbered.r], 2), 0, -1)
        self._source = np.concatenate([overlaps.ravel(), numbered.readout])
        _, self._place = np.unique(self._source, return_index=True)

    def drifts(
        self, vectors: Float[np.ndarray, "count size"]
    ) -> Float[np.ndarray, "count size"]:
        """Return d vector / d alpha at each of the vectors."""
        # the last entry is the error, which moves nothing
        states = np.zeros((len(vectors), self._source.size + 1))
        states[:, :-1] = vectors[:, self._source]
        state_drifts = np.empty_like(states)
        drifts(self.constants, workspace_for(self.constants), states, state_drifts)
        return state_drifts[:, self._place]

    def update_covariances(
        self, C: Float[np.ndarray, "count n n"], v: Float[np.ndarray, "count K"]
    ) -> Float[np.ndarray, "count K K"]:
        """Return G at covariances of the fields, those of the teachers included."""
        committee = self.constants._replace(eta_2=1.0)  # G is not computed for zero
        work = workspace_for(committee)
        K = committee.K
        covariances = np.empty((len(C), K, K))
        for i in range(len(C)):
            work.C[:] = C[i]
            work.w[:K] = -v[i]
            compute_matrices(committee, work)
            covariances[i] = work.G
        return covariances


@compiled
def arcsin(x):
    """Return the arcsine as `safe_arcsin`: by one polynomial without branches."""
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


@inlined
def compute_matrices(committee, work):
    """Compute (A | B) and, if the noise of steps counts, G, from C and w."""
    mean_update(committee, work)
    if committee.eta_2 != 0.0:
        update_covariance(committee, work)


@inlined
def mean_update(committee, work):
    """Compute (A | B).

    With E[g'_i g'_a] = (2/pi) / sqrt(d_i d_a - C_ia^2) and
    E[g''_i g_a] = -C_ia / d_i E[g'_i g'_a],
        (A | B)_ia = v_i w_a E[g'_i g'_a] + 1(i = a) v_i sum_b w_b E[g''_i g_b].
    """
    K = committee.K
    n = K + committee.M
    C = work.C
    w = work.w
    d = work.d
    for a in range(n):
        d[a] = C[a, a] + committee.softness[a]
        work.root[a] = 1.0 / math.sqrt(d[a])
    for i in range(K):
        bend = 0.0
        v_i = -w[i]
        for a in range(n):
            slope = TWO_OVER_PI / math.sqrt(d[i] * d[a] - C[i, a] * C[i, a])
            work.slopes[i, a] = slope
            work.A_and_B[i, a] = v_i * w[a] * slope
            bend -= w[a] * slope * C[i, a]
        work.A_and_B[i, i] += v_i * bend / d[i]


@inlined
def components_along_pairs(work, n):
    """Compute `along`, `across` and `scale` of `update_covariance` for all n units."""
    c = work.c
    root = work.root
    first = work.first
    second = work.second
    pair_scale = work.pair_scale
    pairs = first.size
    for a in range(n):
        for b in range(n):
            c[a, b] = work.C[a, b] * (root[a] * root[b])
    for p in range(pairs):
        c_ij = c[first[p], second[p]]
        pair_scale[p] = 1.0 / math.sqrt(1.0 - c_ij * c_ij)
    for a in range(n):
        for p in range(pairs):
            i = first[p]
            j = second[p]
            on_i = c[a, i]
            on_rest_of_j = (c[a, j] - c[i, j] * on_i) * pair_scale[p]
            variance = 1.0 - on_i * on_i - on_rest_of_j * on_rest_of_j
            scale = 1.0 / math.sqrt(variance)
            work.along[a, p] = on_i * scale
            work.across[a, p] = on_rest_of_j * scale
            work.scale[a, p] = scale


@inlined
def arcsines_of_pairs(work, n):
    """Compute arcsin(sine_ab) of `update_covariance`, into `sines`."""
    along = work.along
    across = work.across
    scale = work.scale
    sines = work.sines
    ab = 0
    for a in range(n):
        for b in range(a, n):
            c_ab = work.c[a, b]
            for p in range(scale.shape[1]):
                sines[ab, p] = (
                    c_ab * scale[a, p] * scale[b, p]
                    - along[a, p] * along[b, p]
                    - across[a, p] * across[b, p]
                )
            ab += 1
    flat = sines.reshape(-1)
    for p in range(flat.size):
        flat[p] = arcsin(flat[p])


@inlined
def update_covariance(committee, work):
    """Compute G_ij = w_i w_j (E[g'_i g'_j Delta0^2] + sigma^2 E[g'_i g'_j]).

    Given the fields i and j, weighed with g'_i g'_j, unit a keeps the variance
    1 - along^2 - across^2 of its c_aa = 1: along is its component in the direction of
    i, across that in the direction of the rest of j. So
        E[g'_i g'_j g_a g_b] = (2/pi) arcsin(sine_ab) E[g'_i g'_j],
        sine_ab = (c_ab - along_a along_b - across_a across_b) scale_a scale_b
    with scale = 1 / sqrt(1 - along^2 - across^2). `work` has scale times along and
    across. All arcsines are in one vectorized loop, pairs (i, j) are the inner loops.
    """
    n = committee.K + committee.M
    w = work.w
    first = work.first
    second = work.second
    sines = work.sines
    total = work.total
    pairs = first.size
    components_along_pairs(work, n)
    arcsines_of_pairs(work, n)
    # Delta0^2 = sum_ab w_a w_b g_a g_b
    total[:] = 0.0
    ab = 0
    for a in range(n):
        for b in range(a, n):
            if a == b and committee.softness[a] == 0.0:  # sign times itself is one
                sines[ab] = math.pi / 2
            factor = w[a] * w[b]
            if a != b:
                factor *= 2.0
            for p in range(pairs):
                total[p] += factor * sines[ab, p]
            ab += 1
    for p in range(pairs):
        i = first[p]
        j = second[p]
        mean_square = TWO_OVER_PI * total[p] + committee.sigma_2
        G_ij = w[i] * w[j] * work.slopes[i, j] * mean_square
        work.G[i, j] = G_ij
        work.G[j, i] = G_ij


@inlined
def drift(committee, work, y, out):
    """Compute dy / dalpha."""
    read_state(committee, work, y)
    compute_matrices(committee, work)
    force(committee, work, out)
    error_rate = symmetrize(committee, work, out)
    error_rate = readout_drift(committee, work, error_rate, out)
    out[-1] = committee.fine * error_rate


@inlined
def read_state(committee, work, y):
    """Read overlaps, the covariance C of the fields and w from a state."""
    K = committee.K
    L = committee.L
    n = K + committee.M
    line = n * L
    weights = committee.weights
    overlaps = work.overlaps
    for k in range(K):
        for a in range(n):
            total = 0.0
            for level in range(L):
                value = y[k * line + a * L + level]
                total += weights[level] * value
                overlaps[k, a * L + level] = value
                if a >= K:
                    overlaps[a, k * L + level] = value
            work.C[k, a] = total
            work.C[a, k] = total
        work.w[k] = -y[K * line + k]


@inlined
def force(committee, work, out):
    """Compute the force of students on all units: eta lam (A | B) overlaps - decay."""
    K = committee.K
    n = K + committee.M
    line = n * committee.L
    lam = committee.lam
    pull = committee.pull
    overlaps = work.overlaps
    for k in range(K):
        force_of_k = out[k * line : (k + 1) * line]
        for i in range(line):
            force_of_k[i] = 0.0
        for a in range(n):
            factor = committee.eta * work.A_and_B[k, a]
            for i in range(line):
                force_of_k[i] += factor * overlaps[a, i]
        for i in range(line):
            force_of_k[i] = lam[i] * force_of_k[i] - pull * overlaps[k, i]


@inlined
def symmetrize(committee, work, out):
    """Turn the force on students into dq, and return d e_g / dalpha by r and q.

    dq is the force, plus its transpose, plus eta^2 / batch lam G. The derivatives of
    e_g by R and Q are -B and -A / 2.
    """
    K = committee.K
    L = committee.L
    n = K + committee.M
    line = n * L
    weights = committee.weights
    lam = committee.lam
    A_and_B = work.A_and_B
    error_rate = 0.0
    for k in range(K):
        for a in range(k, n):
            offset = k * line + a * L
            change = 0.0
            if a < K:
                mirrored = a * line + k * L
                noise = committee.eta_2 * work.G[k, a]
                for level in range(L):
                    dq = (
                        out[offset + level] + out[mirrored + level] + noise * lam[level]
                    )
                    out[offset + level] = dq
                    out[mirrored + level] = dq
                    change += weights[level] * dq
                share = 0.25 * (A_and_B[k, a] + A_and_B[a, k])
                if a != k:
                    share *= 2.0
            else:
                for level in range(L):
                    change += weights[level] * out[offset + level]
                share = A_and_B[k, a]
            error_rate -= change * share
    return error_rate


@inlined
def readout_drift(committee, work, error_rate, out):
    """Compute dv = eta_v E[Delta g], and return d e_g / dalpha with it."""
    K = committee.K
    n = K + committee.M
    C = work.C
    root = work.root
    first = K * n * committee.L
    for k in range(K):
        out[first + k] = 0.0
        if committee.train_readout:
            mean = 0.0  # E[Delta g_k]
            for a in range(n):
                g_ka = TWO_OVER_PI * arcsin(C[k, a] * root[k] * root[a])
                mean += work.w[a] * g_ka
            out[first + k] = committee.eta_v * mean
            error_rate -= committee.eta_v * mean * mean
    return error_rate


@compiled
def drifts(committee, work, states, out):
    """Compute dy / dalpha at states: a call from Python costs more than a drift."""
    for i in range(len(states)):
        drift(committee, work, states[i], out[i])


@compiled
def compute_step(
    committee, work, step_work, tableau, y, h, begin, rtol, atol, is_recorded
):
    """Compute the stages and the end of a step of length h, and return its error.

    begin: the first stage to compute, 1 where the step before has computed stage 0.
    The stages of the curve between the ends are computed only for a step that is
    accepted and recorded. One offset calls `drift`, which becomes part of this function.
    """
    stage = begin
    end = STEP_STAGES
    error = 0.0
    while stage < end:
        combine(y, h, tableau.stages[stage], step_work.k, step_work.point)
        drift(committee, work, step_work.point, step_work.k[stage])
        stage += 1
        if stage == STEP_STAGES:
            error = end_and_error(step_work, tableau, y, h, rtol, atol)
            if error < 1.0:
                end = STEP_STAGES + 1
            if error < 1.0 and is_recorded:
                end = ALL_STAGES
    if end == ALL_STAGES:
        error = max(error, curve_error(step_work, tableau, h))
    return error


@compiled
def integrate_committee(
    committee,
    work,
    y,
    times,
    rtol,
    atol,
    bound,
    shortest,
    max_steps,
    tableau,
    states,
):
    """Integrate by the loop of dormand_prince.py; y moves along.

    states: recorded, (time, y). Returns code, last time, accepted steps and the size of
    the last state.
    """
    size = y.size
    step_work = step_workspace(size)
    k = step_work.k
    y1 = step_work.y1
    curve = np.zeros(ALL_STAGES)
    counted = np.ones(size)
    counted[-1] = 0.0  # the error does not diverge
    count = times.size
    end = max(times[-1], 1e-12)
    t = 0.0
    h = FIRST * min(end, 1.0)
    offset = 0
    accepted = 0
    code = MAX_STEPS
    begin = 0
    for _ in range(max_steps):
        # a step that would end just before the end of all ends there
        is_clipped = t + h * ALMOST >= end
        step = h
        t1 = t + h
        if is_clipped:
            step = end - t
            t1 = end
        is_recorded = offset < count and times[offset] <= t1
        error = compute_step(
            committee, work, step_work, tableau, y, step, begin, rtol, atol, is_recorded
        )
        begin = 1
        accept = error < 1.0
        if accept:
            while offset < count and times[offset] <= t1:
                x = (times[offset] - t) / step
                record(y, step, x, k, tableau.weights, curve, states[offset])
                offset += 1
        next_step = step_factor(error) * step
        if accept and is_clipped:
            next_step = max(next_step, h)
        h = next_step
        if accept:
            t = t1
            accepted += 1
            for i in range(size):
                y[i] = y1[i]
                k[0, i] = k[STEP_STAGES, i]
            _, largest = sizes(y, counted)
            if largest >= bound:
                code = DIVERGED
                break
            if t >= end:
                code = FINISHED
                break
        if next_step < shortest:
            code = FAILED
            break
    _, largest = sizes(y, counted)
    return code, t, accepted, largest
