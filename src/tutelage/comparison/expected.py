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
one's own equations, large spectra) only its size is known, `rough_sizes`.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.comparison.pairing import Pair
from tutelage.dynamics.deviations import jacobians_along
from tutelage.dynamics.linearized import flatten, unflatten
from tutelage.dynamics.order_parameters import OrderParameters, initial_overlaps
from tutelage.dynamics.overlaps import Overlaps, joint_covariance
from tutelage.problem import SlowMomentum
from tutelage.problem.traits import missing_traits
from tutelage.times import steps_at
from tutelage.validity import MOMENTS

RUNS, CHUNK = 256, 256  # at most so many runs enter the estimate; points evaluated at once
FEWEST = 8  # recorded times below which the equation for b cannot be integrated
LARGEST = 400  # largest state whose Jacobian is taken


@dataclass(frozen=True)
class Expected:
    """gaps: arrays (time, ...) by name. rough: only their sizes are known, not their signs."""

    gaps: dict[str, np.ndarray]
    rough: bool


def expected_gaps(pair: Pair) -> Expected:
    """The finite-N gap of each compared quantity: computed for plain SGD, else its rough size."""
    found = _computed(pair) if _computable(pair) else None
    if found is None or not all(np.all(np.isfinite(found[name])) for name in pair.compared):
        return Expected(rough_sizes(pair), rough=True)
    late = _lateness(pair.times, pair.dim)
    return Expected({name: found[name] + _speed(pair, name) * _column(late, found[name]) for name in pair.compared}, False)


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


def _lateness(times: np.ndarray, dim: int | None) -> np.ndarray:
    """ceil(alpha N)/N - alpha."""
    return np.zeros_like(times) if dim is None else steps_at(times, dim) / dim - times


def _column(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _computable(pair: Pair) -> bool:
    problem = pair.problem
    if problem is None or pair.start is None or pair.dim is None or pair.times.size < FEWEST or "r" not in pair.theory:
        return False
    sgd, K, M = problem.sgd, problem.student.hidden, problem.teacher.hidden
    plain = not isinstance(sgd.momentum, SlowMomentum) and float(sgd.momentum) == 0.0
    plain = plain and not sgd.spherical and sgd.trainable is None and not missing_traits(problem, ("differentiable",))
    return plain and problem.inputs.levels * (K * M + K * (K + 1) // 2) <= LARGEST


def _computed(pair: Pair) -> dict[str, np.ndarray]:
    """b by variable at all recorded times."""
    problem, dim = pair.problem, pair.dim
    assert problem is not None
    assert dim is not None
    like, t = initial_overlaps(problem, pair.start)
    system = OrderParameters(problem, t, pair.gradient_flow, True)
    chosen = _moments(pair)
    times, lead = jnp.asarray(pair.times[chosen]), {name: value[chosen] for name, value in pair.theory.items()}
    states = _states(lead, like)
    points = _flat({name: value[:RUNS, chosen] for name, value in pair.runs.items()})  # (run, moment, size)
    along, mean = _flat(lead), points.mean(axis=0)
    drifts, errors = _evaluate(system, like, pair.times[chosen], np.concatenate([points, mean[None], along[None]]))
    curved, jensen = drifts[:-2].mean(axis=0) - drifts[-2], errors[:-2].mean(axis=0) - errors[-2]
    jacobians = np.asarray(jacobians_along(system, times, states))
    acceleration = np.einsum("tij,tj->ti", jacobians, drifts[-1])
    if any(map(callable, (problem.sgd.lr, problem.sgd.readout_lr, problem.sgd.bias_lr))):  # the drift changes by itself
        acceleration = _slopes(pair.times[chosen], drifts[-1])
    sources = curved + (np.asarray(_beyond(system, times, states)) - acceleration / 2) / dim
    b = _carried(pair.times[chosen], jacobians, sources)
    moved = _evaluate(system, like, pair.times[chosen], (along + b)[None])[1][0] - errors[-1]
    gaps = _by_name(system, like, b) | {"error": np.where(np.isfinite(moved), moved, 0.0) + jensen}
    return {name: _between(pair.times, pair.times[chosen], value) for name, value in gaps.items() if name in pair.compared}


def _moments(pair: Pair) -> np.ndarray:
    """Indices of MOMENTS times, close together where the curve moves (repeated if there are fewer: shapes stay the same)."""
    if pair.times.size <= MOMENTS:
        return np.minimum(np.arange(MOMENTS), pair.times.size - 1)
    moved = sum(np.abs(np.diff(pair.theory[n], axis=0)).reshape(pair.times.size - 1, -1).sum(1) for n in ("r", "q"))
    passed = np.diff(pair.times) / np.ptp(pair.times) + moved / max(float(np.sum(moved)), 1e-300)
    length = np.concatenate([[0.0], np.cumsum(passed)])
    return np.searchsorted(length, np.linspace(0.0, length[-1], MOMENTS)).clip(0, pair.times.size - 1)


def _states(values: dict[str, np.ndarray], like: Overlaps) -> Overlaps:
    r, q, readout = (jnp.asarray(values[name]) for name in ("r", "q", "readout"))
    return Overlaps(r, q, readout, None if like.bias is None else jnp.asarray(values["bias"]), None)


def _flat(values: dict[str, np.ndarray]) -> np.ndarray:
    """Variables (..., ) as flat coordinates, in the order of `flatten`."""
    rows, columns = np.triu_indices(values["q"].shape[-1])
    lead = values["r"].shape[:-3]
    parts = [
        values["r"],
        values["q"][..., rows, columns],
        values["readout"],
        *([values["bias"]] if "bias" in values else []),
    ]
    return np.concatenate([part.reshape(*lead, -1) for part in parts], axis=-1)


def _evaluate(
    system: OrderParameters, like: Overlaps, times: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Drift and error at points (run, moment, size); in chunks of one shape, so that one program serves all."""
    flat, when = points.reshape(-1, points.shape[-1]), np.broadcast_to(times, points.shape[:-1]).reshape(-1)
    drifts, errors = [], []
    for first in range(0, len(flat), CHUNK):
        inside = np.minimum(np.arange(first, first + CHUNK), len(flat) - 1)
        drift, error = _chunk(system, like, jnp.asarray(when[inside]), jnp.asarray(flat[inside]))
        drifts.append(np.asarray(drift))
        errors.append(np.asarray(error))
    drift, error = (np.concatenate(parts)[: len(flat)] for parts in (drifts, errors))
    return drift.reshape(points.shape), error.reshape(points.shape[:-1])


@eqx.filter_jit
def _chunk(system: OrderParameters, like: Overlaps, times: Array, points: Array) -> tuple[Array, Array]:
    def one(t: Array, x: Array) -> tuple[Array, Array]:
        state = unflatten(x, like)
        return flatten(system.drift(t, state)), system.error(system.observe(state))

    return jax.vmap(one)(times, points) if system.closed else jax.lax.map(lambda x: one(*x), (times, points))


@eqx.filter_jit
def _beyond(system: OrderParameters, times: Array, states: Overlaps) -> Array:
    """c at each moment."""
    return jax.lax.map(lambda moment: _beyond_at(system, *moment), (times, states))


def _beyond_at(system: OrderParameters, t: Array, state: Overlaps) -> Array:
    """c: N^2 times what the mean of one step adds to q beyond the limit, in flat coordinates."""
    problem, sgd = system.problem, system.problem.sgd
    K, eta = problem.student.hidden, system.rates(t)[0]
    R, Q, T = system.covariances(state)
    p, _ = system.matrices(state, t)
    force = jnp.concatenate([p.A, p.B], axis=1)
    decay = jnp.eye(K, force.shape[1]) * jnp.asarray(sgd.weight_decay)
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
    from scipy.linalg import expm

    size = sources.shape[1]
    b = np.zeros((times.size, size))
    for i in range(times.size - 1):
        block = np.zeros((size + 1, size + 1))
        block[:size, :size] = (jacobians[i] + jacobians[i + 1]) / 2
        block[:size, size] = (sources[i] + sources[i + 1]) / 2
        step = expm(block * (times[i + 1] - times[i]))
        b[i + 1] = step[:size, :size] @ b[i] + step[:size, size]
    return b


def _by_name(system: OrderParameters, like: Overlaps, b: np.ndarray) -> dict[str, np.ndarray]:
    """b in flat coordinates as gaps of the recorded variables, which are linear in them."""
    weights = np.asarray(system.problem.inputs.weights)
    parts = [unflatten(jnp.asarray(x), like) for x in b]
    out = {name: np.stack([np.asarray(getattr(p, name)) for p in parts]) for name in ("r", "q", "readout")}
    out |= {big: np.einsum("l,tlab->tab", weights, out[small]) for big, small in (("R", "r"), ("Q", "q"))}
    return out | ({} if like.bias is None else {"bias": np.stack([np.asarray(p.bias) for p in parts])})


def _slopes(moments: np.ndarray, values: np.ndarray) -> np.ndarray:
    """d values / d time at moments of which some are repeated."""
    different, first = np.unique(moments, return_index=True)
    return _between(moments, different, np.gradient(values[first], different, axis=0))


def _between(times: np.ndarray, moments: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at the moments, interpolated to all times."""
    moments, first = np.unique(moments, return_index=True)
    values = values[first]
    flat = values.reshape(moments.size, -1)
    out = np.stack([np.interp(times, moments, column) for column in flat.T], axis=1)
    return out.reshape(times.size, *values.shape[1:])
