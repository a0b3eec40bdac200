"""The gap that a right theory leaves at finite N: of order 1/N, and no failure.

The mean over networks obeys d<u>/dalpha = <f(u)> + (c - u''/2)/N with f the drift of the theory, so its gap b to the theory,
to first order in 1/N, obeys a linear equation along the solved curve (J: Jacobian of f):

    db/dalpha = J b + [<f(u)> - f(<u>)] + (c - u''/2) / N,     b(0) = 0.
    c_ql = X_l C_l X_l^T - Y_l C_l Y_l^T / batch + 2 (eta^2 / batch) lam_l dG[lam_l C_l],
    X_l = eta (lam_l (A|B) - kappa (1|0)), Y_l = eta lam_l (A|B), C_l: the overlaps of all vectors in level l.

docs/compare.md says where each term is from. The bracket is measured on the runs, where its first-order noise cancels exactly;
so is <e(u)> - e(<u>), which the error adds. Where this does not hold (mixtures, episodes, ...) `rough_sizes` has the size alone.

A fixed momentum beta with velocities v (w <- w + v) leaves z = w + v beta/(1 - beta), which makes the steps of plain SGD
with eta/(1 - beta) and forces at w. So the equation above holds for z with J b_w in place of J b and one more source, and
b_w follows from b_z (`_memory`).
"""

import warnings
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._solve import solve
from tutelage._types import Array, ArrayLike, NumpyOrJax, Rate, Schedule
from tutelage.analysis.noise import state_size, states_of, variables_of
from tutelage.comparison.pairing import Pair
from tutelage.comparison.verdict import AGREE, BIASED, LIMIT, Gap, Verdict, holds
from tutelage.errors import TutelageWarning
from tutelage.problem import Mixture, Problem, SlowMomentum, Spectrum, Start
from tutelage.problem.traits import missing_traits
from tutelage.result.trajectory import Trajectory
from tutelage.simulation.prepare import drift_rate
from tutelage.stream.linearized import (
    DIFFERENCES,
    LARGEST_STATE,
    LocalDynamics,
    propagate,
    propagators,
)
from tutelage.stream.moments import Quadrature, Sampled
from tutelage.stream.moments.matrices import joint_covariance
from tutelage.stream.moments.node_moments import is_cheap
from tutelage.stream.order_parameters import (
    OrderParameters,
    Overlaps,
    flatten,
    initial_overlaps,
    unflatten,
)
from tutelage.stream.program import SOLVERS
from tutelage.stream.validity import MOMENTS
from tutelage.times import steps_at
from tutelage.training.schedules import rate_at

RUNS = 256  # at most so many runs enter the estimate
FEWEST = 8  # recorded times below which the equation for b cannot be integrated
STEP = 1e-3  # of ln eta, to either side
LENGTH_STEP = 1e-3  # relative change of a level's overlaps, for the derivative of G
CHANGES = np.geomspace(1e-4, 0.5, 400)  # relative changes of the rate that are tried
POWER = 0.9  # probability with which a stated change is noticed
LEVELS = (np.arange(100) + 0.5) / 100  # of a standard error that runs measure


class Steps(NamedTuple):
    """The mean of one step at each moment, by level; vectors: student units, then teacher units.

    weights: X, what a student moves along each vector, (moment, level, K, K + M). overlaps: C of all vectors.
    beyond: c, N^2 times what the mean step adds to q beyond the limit.
    """

    weights: np.ndarray
    overlaps: np.ndarray
    beyond: np.ndarray


class Memory(NamedTuple):
    """The effects of a fixed momentum, times N, in flat coordinates at each moment.

    lag: overlaps of z minus overlaps of w. source: what dq/dalpha of z gains because z and w differ.
    """

    lag: np.ndarray
    source: np.ndarray


Updates: TypeAlias = tuple[
    ArrayLike, ArrayLike, NumpyOrJax, NumpyOrJax
]  # at moments: eta, eta kappa, (A|B), dG by level


def expected_gaps(pair: Pair) -> tuple[dict[str, np.ndarray], bool]:
    """The finite-N gap of each compared quantity, (time, ...) by name: computed for SGD, else its rough size (True)."""
    found = _computed(pair)
    if found is None or not all(
        np.all(np.isfinite(found[name])) for name in pair.compared
    ):
        return rough_sizes(pair), True
    assert pair.dim is not None
    late = steps_at(pair.times, pair.dim) / pair.dim - pair.times
    lag = {
        name: (_speed(pair, name).T * late).T for name in pair.compared
    }  # after ceil(alpha N) steps instead of alpha N
    return {name: found[name] + lag[name] for name in pair.compared}, False


def rough_sizes(pair: Pair) -> dict[str, np.ndarray]:
    """Variance over range (a curve bends on the scale of its own range), and the delay of a step and of a momentum's memory."""
    memory = 1.0
    if pair.problem is not None:
        memory += pair.problem.optimizer.lag
    delay = 0.0 if pair.dim is None else memory / pair.dim
    out = {}
    for name in pair.compared:
        theory = pair.theory[name]
        variance = (
            np.var(pair.runs[name], axis=0, ddof=1)
            if pair.count > 1
            else np.zeros_like(theory)
        )
        size = np.max(np.ptp(theory, axis=0), initial=1e-12)
        out[name] = variance / size + delay * np.abs(_speed(pair, name))
    return out


def _speed(pair: Pair, name: str) -> np.ndarray:
    values = pair.theory[name]
    return (
        np.gradient(values, pair.times, axis=0)
        if pair.times.size > 1
        else np.zeros_like(values)
    )


def _computed(pair: Pair) -> dict[str, np.ndarray] | None:
    """b by variable at all recorded times; None where it is not known."""
    from scipy.interpolate import make_interp_spline

    problem, start, dim = pair.problem, pair.start, pair.dim
    if (
        problem is None
        or start is None
        or dim is None
        or pair.times.size < FEWEST
        or "r" not in pair.theory
    ):
        return None
    if missing_traits(
        problem,
        (
            "one Gaussian",
            "plain SGD",
            "fixed momentum",
            "free norms",
            "all levels",
            "differentiable",
        ),
    ):
        return None
    if (
        problem.rule.samples > 1 or problem.rule.uses_norm or drift_rate(problem)
    ):  # c holds for independent deltas of fields
        return None
    if state_size(problem) > LARGEST_STATE or not is_cheap(problem):
        return None
    beta = float(problem.optimizer.momentum)
    if (
        beta > 0 and pair.gradient_flow
    ):  # the theory then lacks the squared steps that the velocities keep
        return None
    like, t = initial_overlaps(problem, start)
    local = LocalDynamics(OrderParameters(problem, t, pair.gradient_flow, True), like)
    chosen = _moments(pair)
    moments = pair.times[chosen]
    states = states_of(
        {name: value[chosen] for name, value in pair.theory.items()}, like
    )
    runs = states_of(
        {name: value[:RUNS, chosen] for name, value in pair.runs.items()}, like
    )
    along, points = np.asarray(flatten(states)), np.asarray(flatten(runs))
    at = np.concatenate(
        [points, points.mean(axis=0)[None], along[None]]
    )  # (run, moment, size)
    flat = at.reshape(-1, at.shape[-1])
    drifts, errors = (
        local.drifts(flat, np.tile(moments, len(at))).reshape(at.shape),
        local.errors(flat),
    )
    errors = errors.reshape(*at.shape[:-1], *errors.shape[1:])
    curved, jensen = (
        drifts[:-2].mean(axis=0) - drifts[-2],
        errors[:-2].mean(axis=0) - errors[-2],
    )
    jacobians = local.jacobians(along, moments)
    acceleration = np.einsum("tij,tj->ti", jacobians, drifts[-1])
    tasks: Any = getattr(problem.teacher, "schedule", None)
    if (
        problem.schedules()
        or callable(tasks)
        or (hasattr(tasks, "schedules") and tasks.schedules())
    ):  # it changes by itself
        acceleration = np.gradient(drifts[-1], moments, axis=0)
    steps = _mean_steps(local, moments, states)
    memory = _memory(beta, steps, unflatten(drifts[-1], like))
    beyond = np.asarray(flatten(_of_q(states, steps.beyond)))
    sources = curved + (beyond - acceleration / 2) / dim
    lag = memory.lag / dim
    sources = sources + memory.source / dim - np.einsum("tij,tj->ti", jacobians, lag)
    size = along.shape[1]
    system = np.zeros(
        (moments.size, size + 1, size + 1)
    )  # of (b, 1): J and the source, held at their mean between moments
    system[:, :size, :size], system[:, :size, size] = jacobians, sources
    b = propagate(propagators(moments, system), np.eye(size + 1)[:, size:])[:, :size, 0]
    smooth = _gaps_at(local, along, b, errors[-1])
    smooth["error"] = smooth["error"] + jensen
    found = {
        name: make_interp_spline(moments, smooth[name], k=1)(pair.times)
        for name in pair.compared
    }
    if beta == 0:
        return found
    # w lags behind z after some steps only: the velocities are zero at first, and 1 - beta^n of their size after n steps
    lagging = _gaps_at(local, along, b - lag, local.errors(along + b))
    arrived = 1.0 - beta ** steps_at(pair.times, dim)
    for name in pair.compared:
        behind = lagging[name] if name == "error" else lagging[name] - smooth[name]
        found[name] = (
            found[name]
            + (make_interp_spline(moments, behind, k=1)(pair.times).T * arrived).T
        )
    return found


def _gaps_at(
    local: LocalDynamics, along: np.ndarray, b: np.ndarray, errors: np.ndarray
) -> dict[str, np.ndarray]:
    """By name, the variables of b (linear in the flat coordinates) and how far it moves the error from `errors`."""
    gaps = variables_of(local.system.problem, unflatten(b, local.like))
    moved = local.errors(along + b) - errors
    gaps["error"] = np.where(np.isfinite(moved), moved, 0.0)
    return gaps


def _moments(pair: Pair) -> np.ndarray:
    """Indices of at most MOMENTS times, close together where the curve moves."""
    if pair.times.size <= MOMENTS:
        return np.arange(pair.times.size)
    moved = sum(
        np.abs(np.diff(pair.theory[n], axis=0)).reshape(pair.times.size - 1, -1).sum(1)
        for n in ("r", "q")
    )
    passed = np.diff(pair.times) / np.ptp(pair.times) + moved / max(
        float(np.sum(moved)), 1e-300
    )
    length = np.concatenate([[0.0], np.cumsum(passed)])
    return np.unique(
        np.searchsorted(length, np.linspace(0.0, length[-1], MOMENTS)).clip(
            0, pair.times.size - 1
        )
    )


def _mean_steps(local: LocalDynamics, times: np.ndarray, states: Overlaps) -> Steps:
    """X, C and c at each moment (see the head of this file)."""
    if local.committee is not None:
        updates = _committee_updates(local, states)
    else:
        padded = np.minimum(
            np.arange(MOMENTS), times.size - 1
        )  # as many moments each time: one compiled program
        found = _updates_by_jax(
            local.system, times[padded], jax.tree.map(lambda x: x[padded], states)
        )
        updates = jax.tree.map(lambda x: x[: times.size], found)
    eta, pull, force, slopes = (np.asarray(x) for x in updates)
    eta = eta.reshape(-1, 1, 1, 1)
    pull = pull.reshape(-1, 1, 1, 1)
    problem = local.system.problem
    C = joint_covariance(states.r, states.q, local.system.t)
    lam = np.asarray(problem.inputs.eigenvalues)[:, None, None]
    batch = float(problem.optimizer.batch)
    Y = eta * lam * force[:, None]
    X = Y - pull * np.eye(*force.shape[1:])
    squares = X @ C @ np.swapaxes(X, -1, -2) - Y @ C @ np.swapaxes(Y, -1, -2) / batch
    return Steps(
        weights=X, overlaps=C, beyond=squares + 2 * (eta**2 / batch) * lam * slopes
    )


def _memory(beta: float, steps: Steps, rates: Overlaps) -> Memory:
    """What the velocities of a fixed momentum beta change, to first order in 1/N.

    Per level, U = N v.(w|w*) and S = N v.v are stationary after 1/(1 - beta) steps. With the squared noise of one step
    g = dq/dalpha - 2 sym X C (eta^2 lam G / batch, the rates of plain SGD with eta/(1 - beta)):

        S = g (1 - beta)/(1 + beta),   U = X C + (S/(1 - beta)|0),   q_z - q_w = memory (dq/dalpha + S) + memory^2 S,

    and u_z - u_w = memory du/dalpha for all other variables, with memory = beta/(1 - beta). A sample moves q_z by its
    force times the fields of z, not of w, which adds 2 sym memory X U^T.
    """
    memory = beta / (1 - beta)
    K = steps.weights.shape[-2]
    along = steps.weights @ steps.overlaps
    noise = np.asarray(rates.q) - _twice_symmetric(along[..., :K])
    squared = noise * (1 - beta) / (1 + beta)
    along[..., :K] += squared / (1 - beta)
    source = memory * _twice_symmetric(steps.weights @ np.swapaxes(along, -1, -2))
    behind = jax.tree.map(lambda rate: memory * np.asarray(rate), rates)
    behind = behind._replace(q=behind.q + memory * (1 + memory) * squared)
    return Memory(
        lag=np.asarray(flatten(behind)),
        source=np.asarray(flatten(_of_q(rates, source))),
    )


def _twice_symmetric(x: np.ndarray) -> np.ndarray:
    return x + np.swapaxes(x, -1, -2)


def _of_q(states: Overlaps, q: np.ndarray) -> Overlaps:
    """A change of q alone."""
    bias = None if states.bias is None else 0 * states.bias
    return Overlaps(0 * states.r, q, 0 * states.readout, bias, None)


def _committee_updates(local: LocalDynamics, states: Overlaps) -> Updates:
    """By machine code, at once for all moments; the slope of G by differences."""
    assert local.committee is not None
    system, one, p = (
        local.system,
        local.committee.one,
        local.system.error_derivatives(states),
    )
    C = joint_covariance(*system.covariances(states))
    own = joint_covariance(states.r, states.q, system.t) * one.lam[: one.L, None, None]
    moved = (
        LENGTH_STEP
        * np.arange(1, DIFFERENCES.size + 1)[:, None, None, None, None]
        * own
    )
    at = C[:, None] + np.stack([moved, -moved])  # (side, distance, moment, level, ., .)
    v = np.broadcast_to(states.readout[:, None], (*at.shape[:4], one.K)).reshape(
        -1, one.K
    )
    found = local.committee.update_covariances(at.reshape(-1, *C.shape[1:]), v).reshape(
        *at.shape[:4], one.K, one.K
    )
    slopes = np.tensordot(DIFFERENCES, found[0] - found[1], 1) / LENGTH_STEP
    return one.eta, one.pull, np.concatenate([p.A, p.B], axis=-1), slopes


@eqx.filter_jit
def _updates_by_jax(
    system: OrderParameters, times: NumpyOrJax, states: Overlaps
) -> Updates:
    """By a compiled program, for all other problems."""
    problem, lam = (
        system.problem,
        jnp.asarray(system.problem.inputs.eigenvalues)[:, None, None],
    )

    def at(t: Array, state: Overlaps) -> Updates:
        eta, (p, _) = system.rates(t)[0], system.matrices(state, t)

        def G(
            R: Array, Q: Array, T: Array
        ) -> Array:  # also where the theory is gradient flow
            return system.moments.matrices(
                system.situation(R, Q, T, state.readout, state.bias, t), False
            )[1]

        slope = lambda *along: jax.jvp(G, system.covariances(state), along)[1]  # noqa: E731
        slopes = jax.vmap(slope)(lam * state.r, lam * state.q, lam * system.t)
        return (
            eta,
            eta * rate_at(problem.optimizer.weight_decay, t),
            jnp.concatenate([p.A, p.B], axis=1),
            slopes,
        )

    return jax.lax.map(lambda moment: at(*moment), (times, states))


def level_shift(
    pair: Pair, theory: Trajectory
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """What solving with the shares n_l / N of the runs changes, by name, and a note on it; nothing where p_l N is whole."""
    problem = pair.problem
    if (
        problem is None
        or pair.start is None
        or pair.dim is None
        or pair.dim < problem.inputs.levels
    ):
        return {}, ()
    shares, fractions = (
        problem.inputs.level_dims(pair.dim) / pair.dim,
        np.asarray(problem.inputs.fractions),
    )
    off = np.abs(shares / fractions - 1)
    if np.max(off) < 1e-9:
        return {}, ()
    r, q, t = (
        np.asarray(x) for x in pair.start.blocks(problem)
    )  # the same weights, level by level
    if isinstance(problem.inputs, Mixture):
        given, inputs = (
            {},
            problem.inputs.with_shares(
                shares, t[:, problem.label_fields :, problem.label_fields :]
            ),
        )
    else:
        given = {"teacher.gram": t} if problem.teacher.gram is not None else {}
        inputs = Spectrum(problem.inputs.eigenvalues, shares, normalize=False)
    start = Start(
        R=r,
        Q=q,
        T=None if given else t,
        readout=pair.start.readout,
        bias=pair.start.bias,
    )
    shifted = _solved(problem.replace(inputs=inputs, **given), start, pair, theory)
    if shifted is None:
        return {}, ()
    level = int(np.argmax(off))
    change = f"(level {level + 1}: {shares[level]:.5g} of them instead of {fractions[level]:.5g})"
    note = f"of {pair.dim} dimensions the levels hold whole numbers {change}, which is part of the expected gap"
    return {name: shifted[name] - pair.theory[name] for name in pair.compared}, (note,)


def noticeable_change(
    pair: Pair, theory: Trajectory, gaps: dict[str, Gap], verdict: Verdict
) -> float | None:
    """The smallest relative change of lr that an agreement would have noticed; inf: more than half, None: not known.

    d theory / d ln eta, from two more solves, gives the gap that a wrong rate leaves. It is noticed if this gap makes the
    verdict "differ" in nine of ten comparisons with as many runs.
    """
    counted, agreed = (
        verdict.counted,
        {AGREE, BIASED} & {verdict.outcome, verdict.before},
    )
    if pair.problem is None or pair.start is None or not agreed or not counted.any():
        return None
    ends = [
        _solved(_scaled(pair.problem, factor), pair.start, pair, theory)
        for factor in (1 - STEP, 1 + STEP)
    ]
    if ends[0] is None or ends[1] is None:
        return None
    slopes = {name: np.abs(ends[1][name] - ends[0][name]) / (2 * STEP) for name in gaps}
    limit = detected_ratio(pair.count)

    def noticed(change: float) -> bool:
        ratios = {
            name: np.maximum(change * slopes[name] - gap.allowed, 0.0) / gap.unit
            for name, gap in gaps.items()
        }
        return not holds(
            [gap.entries(ratios[name])[counted] < limit for name, gap in gaps.items()]
        )

    return next((float(change) for change in CHANGES if noticed(change)), np.inf)


def detected_ratio(runs: int) -> float:
    """The gap, over its measured standard error, that has |z| > LIMIT in nine of ten comparisons.

    Standard errors of few runs scatter, both those that are known now and those of the
    comparison that is to notice: with s their ratios to the true one, independent of each
    other, P(ratio s_now + normal > limit s_then) = POWER.
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri, ndtr, stdtrit

    freedom = runs - 1
    limit = -float(stdtrit(freedom, ndtr(-LIMIT)))  # the ratio whose z-score is LIMIT
    measured = np.sqrt(chdtri(freedom, 1 - LEVELS) / freedom)

    def missing(ratio: float) -> float:
        beyond = ratio * measured[:, None] - limit * measured
        return float(np.mean(ndtr(beyond))) - POWER

    root: Any = brentq(missing, 0.0, 100 * limit)
    return float(root)


def _scaled(problem: Problem, factor: float) -> Problem:
    """All that moves the first layer, faster by a factor, which is data to the compiled program."""

    def faster(rate):
        return (
            eqx.Partial(_times, np.float64(factor), rate)
            if callable(rate)
            else rate * factor
        )

    changes: dict[str, Rate | SlowMomentum] = {"lr": faster(problem.optimizer.lr)}
    momentum = problem.optimizer.momentum
    if isinstance(momentum, SlowMomentum) and momentum.k is not None:
        changes["momentum"] = SlowMomentum(momentum.gamma, faster(momentum.k))
    return problem.replace(**changes)


def _times(factor: ArrayLike, schedule: Schedule, t: Array) -> Array:
    return rate_at(schedule, t) * factor


def _solved(
    problem: Problem, start: Start, pair: Pair, theory: Trajectory
) -> dict[str, np.ndarray] | None:
    """The compared quantities of a changed problem, solved as the theory was; None if it was not, or ends too early here."""
    settings = dict(theory.settings)
    if theory.kind != "theory" or settings.get("solver") not in SOLVERS:
        return None
    how = {
        name: settings[name]
        for name in ("gradient_flow", "rtol", "solver")
        if name in settings
    }
    averages = {"moments": Sampled, "quadrature": Quadrature}
    how |= {
        name: kind(*settings[name])
        for name, kind in averages.items()
        if name in settings
    }
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", TutelageWarning
        )  # said when the theory itself was solved
        found = solve(problem, start, pair.times, **how)
    if len(found.times) != pair.times.size:
        return None
    return {
        name: np.asarray(found.error if name == "error" else found[name], dtype=float)
        for name in pair.compared
    }
