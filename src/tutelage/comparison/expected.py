"""The gap that a right theory leaves at finite N: of order 1/N, and no failure.

The mean over networks obeys d<u>/dalpha = <f(u)> + (c - u''/2)/N with f the drift of
the theory. To first order in 1/N, the gap b of the mean to the theory therefore obeys a
linear equation along the solved curve (J: Jacobian of f):

    db/dalpha = J b + [<f(u)> - f(<u>)] + (c - u''/2) / N,     b(0) = 0.

    <f(u)> - f(<u>)   fluctuations in a curved drift. Measured on the runs, where their
                      noise of first order cancels exactly.
    u''/2             each of the N steps per unit of time uses the drift at its
                      beginning.
    c                 what one step adds to q beyond the limit (mean_steps.py).

The error adds <e(u)> - e(<u>), measured in the same way. A state that is recorded after
ceil(alpha N) steps is late by up to 1/N, which adds the slope of the theory times this
delay.

With a fixed momentum, b is the gap of z = w + m v, and J b_w takes the place of J b
(momentum.py). Where the equation does not hold (mixtures, episodes, ...) `rough_sizes`
has the size alone. docs/compare.md says where each term is from.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from tutelage.analysis.noise import state_size, states_of, variables_of
from tutelage.comparison.mean_steps import MeanSteps, mean_steps
from tutelage.comparison.momentum import MomentumTerms, change_of_q, momentum_terms
from tutelage.comparison.pairing import Pair
from tutelage.problem import Problem
from tutelage.problem.traits import missing_traits
from tutelage.simulation.prepare import drift_rate
from tutelage.stream.linearized import (
    LARGEST_STATE,
    LocalDynamics,
    propagate,
    propagators,
)
from tutelage.stream.moments.node_moments import is_cheap
from tutelage.stream.order_parameters import (
    OrderParameters,
    Overlaps,
    flatten,
    initial_overlaps,
    unflatten,
)
from tutelage.stream.validity import INSTANTS
from tutelage.times import steps_at

MOST_RUNS = 256  # that enter the averages over runs
FEWEST_TIMES = 8  # recorded times below which the equation for b cannot be integrated
SMALLEST_RANGE = 1e-12  # of a curve that does not move
TINY = 1e-300  # keeps a quotient finite
# Traits of problems for which the equation holds.
NEEDED = (
    "fresh samples",
    "one Gaussian",
    "plain SGD",
    "fixed momentum",
    "free norms",
    "all levels",
    "differentiable",
)


@dataclass(frozen=True)
class ExpectedGap:
    """The gap that a right theory leaves at this N, of each compared quantity.

    Attributes
    ----------
    values : dict of arrays (time, ...)
        The mean over networks minus the theory, by name; its size if `rough`.
    rough : bool
        True if only the size is known, not the sign.
    """

    values: dict[str, np.ndarray]
    rough: bool


@dataclass(frozen=True)
class SolvedCurve:
    """The solved curve at the instants between which the equation is integrated.

    places: indices of the recorded times. vectors: the states in flat coordinates.
    """

    local: LocalDynamics
    places: Int[np.ndarray, " instant"]
    times: Float[np.ndarray, " instant"]
    states: Overlaps
    vectors: Float[np.ndarray, "instant size"]


@dataclass(frozen=True)
class RunAverages:
    """Drift f and error e on the solved curve, and how fluctuations change their means.

    drift: f(u) of the theory. drift_excess: <f(u)> - f(<u>) over runs. error,
    error_excess: the same of the error.
    """

    drift: Float[np.ndarray, "instant size"]
    drift_excess: Float[np.ndarray, "instant size"]
    error: Float[np.ndarray, "*instant_tasks"]
    error_excess: Float[np.ndarray, "*instant_tasks"]


def expected_gap(pair: Pair) -> ExpectedGap:
    """Compute the finite-N gap of each compared quantity, or else its rough size."""
    computed = None
    if _is_computable(pair):
        computed = _computed_gap(pair)
    if computed is None:
        return ExpectedGap(values=rough_sizes(pair), rough=True)
    assert pair.dim is not None
    # the runs are recorded after ceil(alpha N) steps instead of alpha N
    delay = steps_at(pair.times, pair.dim) / pair.dim - pair.times
    values = {}
    for name in pair.compared:
        late = (_slope(pair, name).T * delay).T
        values[name] = computed[name] + late
    return ExpectedGap(values=values, rough=False)


def rough_sizes(pair: Pair) -> dict[str, np.ndarray]:
    """Return the size of the gap of each compared quantity.

    It is variance over range (a curve bends on the scale of its own range), and the
    delay by a step and by the memory of a momentum.
    """
    memory = 1.0  # in steps
    problem = pair.problem
    if problem is not None:
        memory += problem.optimizer.lag
    delay = 0.0
    if pair.dim is not None:
        delay = memory / pair.dim
    sizes = {}
    for name in pair.compared:
        theory = pair.theory[name]
        variance = np.zeros_like(theory)
        if pair.count > 1:
            variance = np.var(pair.runs[name], axis=0, ddof=1)
        curve_range = np.max(np.ptp(theory, axis=0), initial=SMALLEST_RANGE)
        sizes[name] = variance / curve_range + delay * np.abs(_slope(pair, name))
    return sizes


def _slope(pair: Pair, name: str) -> np.ndarray:
    """Return the derivative of a theory's variable by time."""
    values = pair.theory[name]
    if pair.times.size < 2:
        return np.zeros_like(values)
    return np.gradient(values, pair.times, axis=0)


def _is_computable(pair: Pair) -> bool:
    """Return True if the equation for b holds and its terms are cheap enough."""
    problem = pair.problem
    if problem is None or pair.start is None or pair.dim is None:
        return False
    if pair.times.size < FEWEST_TIMES or "r" not in pair.theory:
        return False
    if missing_traits(problem, NEEDED):
        return False
    # c holds for deltas that depend on the fields of one sample alone
    if problem.rule.samples > 1 or problem.rule.uses_norm or drift_rate(problem):
        return False
    # the velocities keep the squared steps, which gradient flow lacks
    if pair.gradient_flow and float(problem.optimizer.momentum) > 0:
        return False
    return state_size(problem) <= LARGEST_STATE and is_cheap(problem)


def _computed_gap(pair: Pair) -> dict[str, np.ndarray] | None:
    """Return the gap by name at all recorded times; None if it is not finite."""
    problem = pair.problem
    dim = pair.dim
    assert problem is not None
    assert dim is not None
    beta = float(problem.optimizer.momentum)
    curve = _curve_at_moments(pair)
    local = curve.local
    averages = _averages_over_runs(pair, curve)
    jacobians = local.jacobians(curve.vectors, curve.times)
    steps = mean_steps(local, curve.times, curve.states)
    momentum = momentum_terms(beta, steps, unflatten(averages.drift, local.like))
    sources = _sources(problem, dim, curve, averages, jacobians, steps, momentum)
    lag = momentum.lag / dim

    # the gap of z, which for beta = 0 is that of the weights
    b_z = _integrated(curve.times, jacobians, sources)
    error_at_z = local.errors(curve.vectors + b_z)
    gaps = _variables(local, b_z)
    gaps["error"] = _finite(error_at_z - averages.error) + averages.error_excess
    if not all(np.all(np.isfinite(gaps[name])) for name in pair.compared):
        return None
    recorded = {}
    for name in pair.compared:
        recorded[name] = _at_recorded_times(pair, curve, gaps[name])
    if beta > 0:
        # the weights lag behind z after some steps only: the velocities are zero at
        # first, and have 1 - beta^n of their stationary size after n steps
        b_w = b_z - lag
        arrived = 1.0 - beta ** steps_at(pair.times, dim)
        variables = _variables(local, b_w)
        lags = {name: variables[name] - gaps[name] for name in variables}
        lags["error"] = _finite(local.errors(curve.vectors + b_w) - error_at_z)
        for name in pair.compared:
            behind = _at_recorded_times(pair, curve, lags[name])
            recorded[name] = recorded[name] + (behind.T * arrived).T
    return recorded


def _curve_at_moments(pair: Pair) -> SolvedCurve:
    """Return the solved curve at some of its recorded times."""
    assert pair.problem is not None
    assert pair.start is not None
    like, t = initial_overlaps(pair.problem, pair.start)
    system = OrderParameters(pair.problem, t, pair.gradient_flow, keep_blocks=True)
    local = LocalDynamics(system, like)
    places = _places_along(pair)
    variables = {name: values[places] for name, values in pair.theory.items()}
    states = states_of(variables, like)
    return SolvedCurve(
        local=local,
        places=places,
        times=pair.times[places],
        states=states,
        vectors=np.asarray(flatten(states)),
    )


def _places_along(pair: Pair) -> Int[np.ndarray, " instant"]:
    """Return indices of at most INSTANTS times, close together where the curve moves.

    They are equally spaced in the share of the time plus the share of the path.
    """
    count = pair.times.size
    if count <= INSTANTS:
        return np.arange(count)
    path = np.zeros(count - 1)
    for name in ("r", "q"):
        movement = np.abs(np.diff(pair.theory[name], axis=0))
        path = path + movement.reshape(count - 1, -1).sum(axis=1)
    share_of_time = np.diff(pair.times) / np.ptp(pair.times)
    share_of_path = path / max(float(np.sum(path)), TINY)
    length = np.concatenate([[0.0], np.cumsum(share_of_time + share_of_path)])
    even = np.linspace(0.0, length[-1], INSTANTS)
    return np.unique(np.searchsorted(length, even).clip(0, count - 1))


def _averages_over_runs(pair: Pair, curve: SolvedCurve) -> RunAverages:
    """Average drift and error over runs, all states in one call."""
    local = curve.local
    variables_of_runs = {
        name: values[:MOST_RUNS, curve.places] for name, values in pair.runs.items()
    }
    runs = np.asarray(flatten(states_of(variables_of_runs, local.like)))
    # along the first axis: each run, the mean over runs, the theory
    vectors = np.concatenate([runs, runs.mean(axis=0)[None], curve.vectors[None]])
    flat_vectors = vectors.reshape(-1, vectors.shape[-1])
    flat_times = np.tile(curve.times, len(vectors))
    drifts = local.drifts(flat_vectors, flat_times).reshape(vectors.shape)
    flat_errors = local.errors(flat_vectors)
    errors = flat_errors.reshape(*vectors.shape[:2], *flat_errors.shape[1:])
    return RunAverages(
        drift=drifts[-1],
        drift_excess=drifts[:-2].mean(axis=0) - drifts[-2],
        error=errors[-1],
        error_excess=errors[:-2].mean(axis=0) - errors[-2],
    )


def _sources(
    problem: Problem,
    dim: int,
    curve: SolvedCurve,
    averages: RunAverages,
    jacobians: Float[np.ndarray, "instant size size"],
    steps: MeanSteps,
    momentum: MomentumTerms,
) -> Float[np.ndarray, "instant size"]:
    """Return the inhomogeneous part of the equation for b.

    It is [<f(u)> - f(<u>)] + (c - u''/2) / N. Momentum adds a source of its own, and
    J b_w = J b_z - J lag.
    """
    # u'' = J f, unless the drift itself changes in time
    acceleration = np.einsum("tij,tj->ti", jacobians, averages.drift)
    if _changes_in_time(problem):
        acceleration = np.gradient(averages.drift, curve.times, axis=0)
    c = np.asarray(flatten(change_of_q(curve.states, steps.beyond)))
    sources = averages.drift_excess + (c - acceleration / 2) / dim
    lag = momentum.lag / dim
    return sources + momentum.source / dim - np.einsum("tij,tj->ti", jacobians, lag)


def _changes_in_time(problem: Problem) -> bool:
    """Return True if the drift depends on time, by a rate or by the order of tasks."""
    if problem.schedules:
        return True
    order_of_tasks: Any = getattr(problem.teacher, "schedule", None)
    if callable(order_of_tasks):
        return True
    return hasattr(order_of_tasks, "schedules") and bool(order_of_tasks.schedules)


def _integrated(
    times: Float[np.ndarray, " instant"],
    jacobians: Float[np.ndarray, "instant size size"],
    sources: Float[np.ndarray, "instant size"],
) -> Float[np.ndarray, "instant size"]:
    """Return the solution of db/dalpha = J b + source with b(0) = 0.

    The vector (b, 1) obeys a linear equation without a source. J and the source are
    held at their mean between instants.
    """
    instants, size = sources.shape
    generator = np.zeros((instants, size + 1, size + 1))
    generator[:, :size, :size] = jacobians
    generator[:, :size, size] = sources
    at_first = np.eye(size + 1)[:, size:]  # b = 0
    path = propagate(propagators(times, generator), at_first)
    return path[:, :size, 0]


def _variables(
    local: LocalDynamics, change: Float[np.ndarray, "instant size"]
) -> dict[str, np.ndarray]:
    """Return a change in flat coordinates by the names of the variables."""
    return variables_of(local.system.problem, unflatten(change, local.like))


def _finite(change: np.ndarray) -> np.ndarray:
    """Return a change of the error, zero where the gap leaves the allowed states."""
    return np.where(np.isfinite(change), change, 0.0)


def _at_recorded_times(
    pair: Pair, curve: SolvedCurve, values: Float[np.ndarray, "*instant_shape"]
) -> Float[np.ndarray, "*time_shape"]:
    """Return values at the instants, interpolated linearly to all recorded times."""
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(curve.times, values, k=1)(pair.times)
