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
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.compare.pairing import Pair
from tutelage.dynamics.error import field_means
from tutelage.dynamics.linearised import flat_drift, flatten, unflatten
from tutelage.dynamics.matrices import pull, spread
from tutelage.dynamics.order_parameters import OrderParameters, initial_overlaps
from tutelage.dynamics.overlaps import Overlaps, joint_covariance
from tutelage.problem import SlowMomentum
from tutelage.steps import steps_at

MOMENTS, RUNS = 61, 256  # at most so many moments and runs enter the estimate
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
    plain = plain and not sgd.spherical and sgd.trainable is None
    return plain and problem.inputs.levels * (K * M + K * (K + 1) // 2) <= LARGEST


def _computed(pair: Pair) -> dict[str, np.ndarray]:
    """b by variable at all recorded times."""
    problem, dim = pair.problem, pair.dim
    assert problem is not None
    assert dim is not None
    like, t = initial_overlaps(problem, pair.start)
    system = OrderParameters(problem, t, pair.gradient_flow, True)
    chosen = _moments(pair)
    times = pair.times[chosen]
    states = _states({name: value[chosen] for name, value in pair.theory.items()}, like)
    clouds = _states({name: value[:RUNS, chosen].swapaxes(0, 1) for name, value in pair.runs.items()}, like)
    jacobians, sources, jensen = (np.asarray(x) for x in _sources(system, jnp.asarray(times), states, clouds, dim))
    b = _carried(times, jacobians, sources)
    gaps = {name: np.asarray(value) for name, value in _observed(system, states, jnp.asarray(b)).items()}
    gaps["error"] = gaps["error"] + jensen
    return {name: _between(pair.times, times, value) for name, value in gaps.items() if name in pair.compared}


def _moments(pair: Pair) -> np.ndarray:
    """Indices of up to MOMENTS times, close together where the curve moves."""
    if pair.times.size <= MOMENTS:
        return np.arange(pair.times.size)
    moved = sum(np.abs(np.diff(pair.theory[n], axis=0)).reshape(pair.times.size - 1, -1).sum(1) for n in ("r", "q"))
    passed = np.diff(pair.times) / np.ptp(pair.times) + moved / max(float(np.sum(moved)), 1e-300)
    length = np.concatenate([[0.0], np.cumsum(passed)])
    return np.unique(np.searchsorted(length, np.linspace(0.0, length[-1], MOMENTS)).clip(0, pair.times.size - 1))


def _states(values: dict[str, np.ndarray], like: Overlaps) -> Overlaps:
    r, q, readout = (jnp.asarray(values[name]) for name in ("r", "q", "readout"))
    return Overlaps(r, q, readout, None if like.bias is None else jnp.asarray(values["bias"]), None)


@eqx.filter_jit
def _sources(system: OrderParameters, times: Array, states: Overlaps, clouds: Overlaps, dim: Any) -> Any:
    """At each moment: J, the source of b, and <e(u)> - e(<u>)."""

    def one(moment: Any) -> Any:
        t, state, cloud = moment
        drift = flat_drift(system, state)
        x = flatten(state)
        J = jax.jacfwd(lambda y: drift(t, y))(x)
        acceleration = jax.jvp(drift, (t, x), (jnp.ones(()), drift(t, x)))[1]
        points = jax.vmap(flatten)(cloud)
        mean = points.mean(axis=0)
        curved = jax.vmap(lambda y: drift(t, y))(points).mean(axis=0) - drift(t, mean)
        error = lambda y: system.error(system.observe(unflatten(y, state)))  # noqa: E731
        jensen = jax.vmap(error)(points).mean() - error(mean)
        return J, curved + (_beyond(system, t, state) - acceleration / 2) / dim, jensen

    return jax.lax.map(one, (times, states, clouds))


def _beyond(system: OrderParameters, t: Array, state: Overlaps) -> Array:
    """c: N^2 times what the mean of one step adds to q beyond the limit, in flat coordinates."""
    problem, sgd = system.problem, system.problem.sgd
    K, eta = problem.student.hidden, system._rates(t)[0]
    R, Q, T = system.covariances(state)
    mean, v, v_teacher = field_means(problem, state.bias), state.readout, jnp.asarray(problem.teacher.readout)
    p = pull(system.averages, joint_covariance(R, Q, T), mean, v, v_teacher)
    force = jnp.concatenate([p.A, p.B], axis=1)
    decay = jnp.eye(K, force.shape[1]) * jnp.asarray(sgd.weight_decay)
    G = lambda C: spread(system.averages, C, mean, v, v_teacher, jnp.asarray(problem.noise))  # noqa: E731

    def level(lam: Array, r: Array, q: Array, teacher: Array) -> Array:
        C = joint_covariance(r, q, teacher)
        X, Y = eta * (lam * force - decay), eta * lam * force
        length = jax.jvp(G, (joint_covariance(R, Q, T),), (lam * C,))[1]
        return X @ C @ X.T - Y @ C @ Y.T / sgd.batch + 2 * (eta**2 / sgd.batch) * lam * length

    c = jax.vmap(level)(jnp.asarray(problem.inputs.eigenvalues), state.r, state.q, system.t)
    zero = None if state.bias is None else jnp.zeros_like(state.bias)
    return flatten(Overlaps(jnp.zeros_like(state.r), c, jnp.zeros_like(v), zero, None))


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


@eqx.filter_jit
def _observed(system: OrderParameters, states: Overlaps, b: Array) -> dict[str, Array]:
    """What b does to each recorded quantity."""

    def one(state: Overlaps, b: Array) -> dict[str, Array]:
        def seen(x: Array) -> dict[str, Array]:
            values = system.observe(unflatten(x, state))
            return values | {"error": system.error(values)}

        x = flatten(state)
        slope = jax.jvp(seen, (x,), (b,))[1]
        there = seen(x + b)["error"] - seen(x)["error"]
        return slope | {"error": jnp.where(jnp.isfinite(there), there, slope["error"])}

    return jax.vmap(one)(states, b)


def _between(times: np.ndarray, moments: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at the moments, interpolated to all times."""
    flat = values.reshape(moments.size, -1)
    out = np.stack([np.interp(times, moments, column) for column in flat.T], axis=1)
    return out.reshape(times.size, *values.shape[1:])
