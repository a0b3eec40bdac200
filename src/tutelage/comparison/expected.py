"""The gap that a right theory leaves at finite N: of order 1/N, and no failure.

The mean over networks obeys d<u>/dalpha = <f(u)> + (c - u''/2)/N with f the drift of the theory, so its gap b to the theory,
to first order in 1/N, obeys a linear equation along the solved curve (J: Jacobian of f):

    db/dalpha = J b + [<f(u)> - f(<u>)] + (c - u''/2) / N,     b(0) = 0.

- <f(u)> - f(<u>): a curved drift averages the fluctuations (tr(Hess f . Cov)/2, itself 1/N); measured on the runs, where its
  first-order noise cancels exactly.
- u'' / 2: a run takes N steps per unit of time, each with the drift of its beginning (Euler's error).
- c: what one step does to q beyond the limit, from the length of one input given its fields and from the square of the mean
  step; with X_l = eta (lam_l (A|B) - kappa (1|0)), Y_l = eta lam_l (A|B), C_l the overlaps of all vectors in level l:
      c_ql = X_l C_l X_l^T - Y_l C_l Y_l^T / batch + 2 (eta^2 / batch) lam_l dG[lam_l C_l].
- The error adds <e(u)> - e(<u>), measured likewise. A state after ceil(alpha N) steps is later than alpha by up to 1/N.

Exact to order 1/N for plain SGD; tests hold it against an exact recursion. Elsewhere (momentum, spherical, frozen parts,
episodes, reuse, one's own equations, large spectra) only its size is known, `rough_sizes`.
"""

import warnings
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._solve import solve
from tutelage._types import Array, ArrayLike, NumpyOrJax, Rate, Schedule, Table
from tutelage.analysis.noise import states_of, variables_of
from tutelage.comparison.pairing import Pair
from tutelage.comparison.verdict import LIMIT, Gap, holds, ratio_of
from tutelage.dynamics.linearized import DIFFERENCES, LocalDynamics, exponentials
from tutelage.dynamics.order_parameters import OrderParameters, Overlaps, flatten, initial_overlaps, unflatten
from tutelage.errors import TutelageWarning
from tutelage.integrate.program import SOLVERS
from tutelage.moments import is_cheap
from tutelage.moments.matrices import joint_covariance
from tutelage.problem import Mixture, Problem, SlowMomentum, Spectrum, Start
from tutelage.problem.schedules import rate_at
from tutelage.problem.traits import missing_traits
from tutelage.simulation.coordinates import drift_rate
from tutelage.times import steps_at
from tutelage.trajectory import Trajectory
from tutelage.validity import MOMENTS

RUNS = 256  # at most so many runs enter the estimate
FEWEST = 8  # recorded times below which the equation for b cannot be integrated
LARGEST = 400  # largest state whose Jacobian is taken
STEP = 1e-3  # of ln eta, to either side
LENGTH_STEP = 1e-3  # relative change of a level's overlaps, for the derivative of G
CHANGES = np.geomspace(1e-4, 0.5, 400)  # relative changes of the rate that are tried
CHANCE = 1.28  # standard errors by which chance reduces a gap once in ten times


def expected_gaps(pair: Pair) -> tuple[dict[str, np.ndarray], bool]:
    """The finite-N gap of each compared quantity, (time, ...) by name: computed for plain SGD, else its rough size (True)."""
    found = _computed(pair)
    if found is None or not all(np.all(np.isfinite(found[name])) for name in pair.compared):
        return rough_sizes(pair), True
    late = 0 * pair.times if pair.dim is None else steps_at(pair.times, pair.dim) / pair.dim - pair.times
    lag = {name: (_speed(pair, name).T * late).T for name in pair.compared}  # after ceil(alpha N) steps instead of alpha N
    return {name: found[name] + lag[name] for name in pair.compared}, False


def rough_sizes(pair: Pair) -> dict[str, np.ndarray]:
    """Where nothing better is known: variance over range (a curve that bends on the scale of its own range), and a delay.

    The delay is that of a step, 1/N, or of a momentum's memory, 1/(N (1 - beta)).
    """
    memory = 1.0
    if pair.problem is not None and not isinstance(pair.problem.sgd.momentum, SlowMomentum):
        memory += 1.0 / (1.0 - float(pair.problem.sgd.momentum))
    delay = 0.0 if pair.dim is None else memory / pair.dim
    out = {}
    for name in pair.compared:
        theory = pair.theory[name]
        variance = np.var(pair.runs[name], axis=0, ddof=1) if pair.count > 1 else np.zeros_like(theory)
        size = np.max(np.ptp(theory, axis=0), initial=1e-12) if theory.ndim > 1 else max(np.ptp(theory), 1e-12)
        out[name] = variance / size + delay * np.abs(_speed(pair, name))
    return out


def _speed(pair: Pair, name: str) -> np.ndarray:
    values = pair.theory[name]
    return np.gradient(values, pair.times, axis=0) if pair.times.size > 1 else np.zeros_like(values)


def _computed(pair: Pair) -> dict[str, np.ndarray] | None:
    """b by variable at all recorded times; None where it is not known."""
    problem, start, dim = pair.problem, pair.start, pair.dim
    if problem is None or start is None or dim is None or pair.times.size < FEWEST or "r" not in pair.theory:
        return None
    if missing_traits(problem, ("one Gaussian", "no momentum", "free norms", "all levels", "differentiable")):
        return None
    if problem.rule.samples > 1 or problem.rule.uses_norm:  # c holds for independent deltas of fields
        return None
    if drift_rate(problem) or not is_cheap(problem):
        return None
    if pair.theory["r"][0].size + pair.theory["q"][0][:, *np.triu_indices(problem.student.hidden)].size > LARGEST:
        return None
    like, t = initial_overlaps(problem, start)
    local = LocalDynamics(OrderParameters(problem, t, pair.gradient_flow, True), like)
    chosen = _moments(pair)
    moments = pair.times[chosen]
    states = states_of({name: value[chosen] for name, value in pair.theory.items()}, like)
    runs = states_of({name: value[:RUNS, chosen] for name, value in pair.runs.items()}, like)
    along, points = np.asarray(flatten(states)), np.asarray(flatten(runs))
    drifts, errors = _evaluate(local, moments, np.concatenate([points, points.mean(axis=0)[None], along[None]]))
    curved, jensen = drifts[:-2].mean(axis=0) - drifts[-2], errors[:-2].mean(axis=0) - errors[-2]
    jacobians = local.jacobians(along, moments)
    acceleration = np.einsum("tij,tj->ti", jacobians, drifts[-1])
    tasks: Any = getattr(problem.teacher, "schedule", None)
    if problem.schedules() or callable(tasks) or (hasattr(tasks, "schedules") and tasks.schedules()):  # it changes by itself
        different, first = np.unique(moments, return_index=True)
        acceleration = _between(moments, different, np.gradient(drifts[-1][first], different, axis=0))
    sources = curved + (_beyond(local, moments, along) - acceleration / 2) / dim
    b = _carried(moments, jacobians, sources)
    moved = local.errors(along + b) - errors[-1]
    gaps = variables_of(problem, unflatten(b, like))  # linear in the flat coordinates
    gaps["error"] = np.where(np.isfinite(moved), moved, 0.0) + jensen
    return {name: _between(pair.times, moments, value) for name, value in gaps.items() if name in pair.compared}


def _moments(pair: Pair) -> np.ndarray:
    """Indices of MOMENTS times, close together where the curve moves (repeated if there are fewer: shapes stay the same)."""
    if pair.times.size <= MOMENTS:
        return np.minimum(np.arange(MOMENTS), pair.times.size - 1)
    moved = sum(np.abs(np.diff(pair.theory[n], axis=0)).reshape(pair.times.size - 1, -1).sum(1) for n in ("r", "q"))
    passed = np.diff(pair.times) / np.ptp(pair.times) + moved / max(float(np.sum(moved)), 1e-300)
    length = np.concatenate([[0.0], np.cumsum(passed)])
    return np.searchsorted(length, np.linspace(0.0, length[-1], MOMENTS)).clip(0, pair.times.size - 1)


def _evaluate(local: LocalDynamics, times: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drift and error at points (run, moment, size)."""
    flat, when = points.reshape(-1, points.shape[-1]), np.broadcast_to(times, points.shape[:-1]).reshape(-1)
    drifts, errors = local.drifts(flat, when), local.errors(flat)
    return drifts.reshape(points.shape), errors.reshape(*points.shape[:-1], *errors.shape[1:])


def _beyond(local: LocalDynamics, times: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """c at each moment: N^2 times what the mean of one step adds to q beyond the limit, in flat coordinates."""
    if local.committee is None:
        return np.asarray(_beyond_by_jax(local.system, times, unflatten(vectors, local.like)))
    return _beyond_of_committee(local, float(local.system.problem.sgd.batch), vectors)


def _beyond_of_committee(local: LocalDynamics, batch: float, vectors: np.ndarray) -> np.ndarray:
    assert local.committee is not None
    system, one, states = local.system, local.committee.one, unflatten(vectors, local.like)
    C, v, lam = joint_covariance(*system.covariances(states)), states.readout, one.lam[: one.L]
    p = system.error_derivatives(states)
    force, decay = one.eta * np.concatenate([p.A, p.B], axis=-1), one.pull * np.eye(one.K, one.K + one.M)
    c = np.zeros_like(states.q)
    for level in range(one.L):
        own = joint_covariance(states.r[:, level], states.q[:, level], system.t[level])
        moved = LENGTH_STEP * np.arange(1, DIFFERENCES.size + 1)[:, None, None, None] * lam[level] * own
        at = C + np.stack([moved, -moved])
        found = local.committee.update_covariances(at.reshape(-1, *C.shape[1:]), np.tile(v, (2 * DIFFERENCES.size, 1)))
        found = found.reshape(*at.shape[:3], one.K, one.K)
        length = np.tensordot(DIFFERENCES, found[0] - found[1], 1) / LENGTH_STEP
        X, Y = lam[level] * force - decay, lam[level] * force
        squares = X @ own @ np.swapaxes(X, 1, 2) - Y @ own @ np.swapaxes(Y, 1, 2) / batch
        c[:, level] = squares + 2 * (one.eta**2 / batch) * lam[level] * length
    return np.asarray(flatten(Overlaps(0 * states.r, c, 0 * v, None, None)))


@eqx.filter_jit
def _beyond_by_jax(system: OrderParameters, times: NumpyOrJax, states: Overlaps) -> Array:
    return jax.lax.map(lambda moment: _beyond_at(system, *moment), (times, states))


def _beyond_at(system: OrderParameters, t: Array, state: Overlaps) -> Array:
    problem, sgd = system.problem, system.problem.sgd
    K, eta = problem.student.hidden, system.rates(t)[0]
    R, Q, T = system.covariances(state)
    p, _ = system.matrices(state, t)
    force = jnp.concatenate([p.A, p.B], axis=1)
    decay = jnp.eye(K, force.shape[1]) * rate_at(sgd.weight_decay, t)
    full = OrderParameters(problem, system.t, moments=system.moments)  # also where the theory is gradient flow
    G = lambda R, Q, T: full.matrices_at(R, Q, T, state.readout, state.bias, t)[1]  # noqa: E731

    def level(lam: Array, r: Array, q: Array, teacher: Array) -> Array:
        C = joint_covariance(r, q, teacher)
        X, Y = eta * (lam * force - decay), eta * lam * force
        length = jax.jvp(G, (R, Q, T), (lam * r, lam * q, lam * teacher))[1]
        return X @ C @ X.T - Y @ C @ Y.T / sgd.batch + 2 * (eta**2 / sgd.batch) * lam * length

    c = jax.vmap(level)(jnp.asarray(problem.inputs.eigenvalues), state.r, state.q, system.t)
    zero = None if state.bias is None else jnp.zeros_like(state.bias)
    return flatten(Overlaps(jnp.zeros_like(state.r), c, jnp.zeros_like(state.readout), zero, None))


def _carried(times: np.ndarray, jacobians: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """b at each moment: the linear equation with J and source held at their mean between moments."""
    size = sources.shape[1]
    blocks = np.zeros((times.size - 1, size + 1, size + 1))
    blocks[:, :size, :size] = (jacobians[:-1] + jacobians[1:]) / 2
    blocks[:, :size, size] = (sources[:-1] + sources[1:]) / 2
    b = [np.zeros(size)]
    for step in exponentials(blocks * np.diff(times)[:, None, None]):
        b.append(step[:size, :size] @ b[-1] + step[:size, size])
    return np.array(b)


def _between(times: np.ndarray, moments: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at the moments, interpolated to all times."""
    moments, first = np.unique(moments, return_index=True)
    columns = values[first].reshape(moments.size, -1).T
    out = np.stack([np.interp(times, moments, column) for column in columns], axis=1)
    return out.reshape(times.size, *values.shape[1:])


def solved_as(theory: Trajectory) -> Table | None:
    """How the theory was solved, as arguments of `solve`; None if it was not (a closed form, equations of one's own)."""
    settings = dict(theory.settings)
    if theory.kind != "theory" or settings.get("solver") not in SOLVERS:
        return None
    return {name: settings[name] for name in ("gradient_flow", "rtol", "solver") if name in settings}


def with_shift(pair: Pair, theory: Trajectory) -> Pair:
    """The pair with what the shares n_l / N of its dimensions change; unchanged where p_l N is whole.

    The theory has fractions p_l of the dimensions in the levels. It is solved again with n_l / N; the gap between both theories
    is expected of a right one.
    """
    how, problem = solved_as(theory), pair.problem
    if how is None or problem is None or pair.start is None or pair.dim is None or pair.dim < problem.inputs.levels:
        return pair
    shares = problem.inputs.level_dims(pair.dim) / pair.dim
    if np.max(np.abs(shares / np.asarray(problem.inputs.fractions) - 1)) < 1e-9:
        return pair
    r, q, t = (np.asarray(x) for x in pair.start.blocks(problem))  # the same weights, level by level
    if isinstance(problem.inputs, Mixture):
        given, inputs = {}, problem.inputs.with_shares(shares, t[:, problem.label_fields :, problem.label_fields :])
    else:
        given = {"teacher.gram": t} if problem.teacher.gram is not None else {}
        inputs = Spectrum(problem.inputs.eigenvalues, shares, normalize=False)
    changed = problem.replace(inputs=inputs, **given)
    start = Start(R=r, Q=q, T=None if given else t, readout=pair.start.readout, bias=pair.start.bias)
    shifted = _solved(changed, start, pair, how)
    if shifted is None:
        return pair
    fractions = np.asarray(problem.inputs.fractions)
    level = int(np.argmax(np.abs(shares / fractions - 1)))
    change = f"(level {level + 1}: {shares[level]:.5g} of them instead of {fractions[level]:.5g})"
    note = f"of {pair.dim} dimensions the levels hold whole numbers {change}, which is part of the expected gap"
    shift = {name: shifted[name] - pair.theory[name] for name in pair.compared}
    return replace(pair, shift=shift, notes=(*pair.notes, note))


def noticeable_change(pair: Pair, theory: Trajectory, gaps: dict[str, Gap], counted: np.ndarray) -> float | None:
    """The smallest relative change of lr that this comparison would have noticed; inf: more than half, None: not known.

    d theory / d ln eta, from two more solves, gives the gap that a wrong rate leaves. It is noticed if the verdict then is
    "differ" although chance takes away CHANCE standard errors: in about nine of ten comparisons.
    """
    how = solved_as(theory)
    if how is None or pair.problem is None or pair.start is None or pair.count < 2 or not counted.any():
        return None
    ends = [_solved(_scaled(pair.problem, factor), pair.start, pair, how) for factor in (1 - STEP, 1 + STEP)]
    if ends[0] is None or ends[1] is None:
        return None
    slopes = {name: np.abs(ends[1][name] - ends[0][name]) / (2 * STEP) for name in gaps}

    largest = ratio_of(LIMIT, pair.count)

    def noticed(change: float) -> bool:
        ratios = {name: np.maximum(change * slopes[name] - gap.allowed, 0.0) / gap.unit for name, gap in gaps.items()}
        return not holds([gap.entries(ratios[name])[counted] < largest + CHANCE for name, gap in gaps.items()])

    return next((float(change) for change in CHANGES if noticed(change)), np.inf)


class Scaled(eqx.Module):
    """A schedule times a number."""

    rate: Schedule
    factor: ArrayLike

    def __call__(self, t: Array) -> Array:
        return rate_at(self.rate, t) * self.factor


def _scaled(problem: Problem, factor: float) -> Problem:
    """All that moves the first layer, faster by a factor."""

    def faster(rate: Rate) -> Rate:
        return Scaled(rate, np.float64(factor)) if callable(rate) else rate * factor

    sgd = problem.sgd
    changes: dict[str, Rate | SlowMomentum] = {"lr": faster(sgd.lr)}
    if isinstance(sgd.momentum, SlowMomentum) and sgd.momentum.k is not None:
        changes["momentum"] = SlowMomentum(sgd.momentum.gamma, faster(sgd.momentum.k))
    return problem.replace(**changes)


def _solved(problem: Problem, start: Start, pair: Pair, how: Table) -> dict[str, np.ndarray] | None:
    """The compared quantities at the times of the pair; None if the solve does not reach the last."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TutelageWarning)  # said when the theory itself was solved
        found = solve(problem, start, pair.times, **how)
    if len(found.times) != pair.times.size:
        return None
    return {name: np.asarray(found.error if name == "error" else found[name], dtype=float) for name in pair.compared}
