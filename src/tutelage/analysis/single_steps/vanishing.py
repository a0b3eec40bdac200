"""Quantities that vanish as N grows where overlaps concentrate: what one step, a start and a whole run leave at finite N."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage._solve import solve
from tutelage._types import Array
from tutelage.analysis.single_steps.one_step import Steps
from tutelage.dynamics import OrderParameters, initial_overlaps
from tutelage.dynamics.increments import shares
from tutelage.dynamics.linearized import flatten
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem, Start
from tutelage.simulation import simulate
from tutelage.times import linear_times

DRAWS = 1000  # of random weights
TIMES = 33  # at which whole runs are compared


def mean_gap(problem: Problem, start: Start, steps: Steps, dim: int, f: np.ndarray, gaussian: bool) -> tuple[float, float]:
    """|N E[du] - f| and its standard error, the noise's own share taken off.

    For Gaussian inputs the limit's share of each sample has exactly the mean f: what the real step does beyond it is
    averaged instead, which is far less noisy.
    """
    values = steps.increments - f
    if gaussian and np.allclose(problem.inputs.level_dims(dim), np.asarray(problem.inputs.fractions) * dim):
        state, t = initial_overlaps(problem, start)
        seen = jnp.asarray(steps.fields), jnp.asarray(steps.noise)
        values = steps.increments - np.asarray(_limit(OrderParameters(problem, t), state, *seen))
    gap, error = values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))
    size = np.sqrt(max(float(np.sum(gap**2 - error**2)), 0.0))
    along = np.sqrt(np.sum((gap * error) ** 2)) / max(float(np.linalg.norm(gap)), 1e-300)
    return size, float(max(along, 1e-15))


@eqx.filter_jit
def _limit(system: OrderParameters, state: Overlaps, fields: Array, noise: Array) -> Array:
    """What the limit makes of each step: the mean share of its batch, and the decay."""
    count, batch = fields.shape[:2]
    each = shares(system, jnp.zeros(()), state, fields.reshape(-1, *fields.shape[2:]), noise.reshape(-1, noise.shape[-1]))
    rate, still = system.rates(jnp.zeros(()))[0] * system.problem.sgd.weight_decay, jnp.zeros_like(state.readout)
    decay = Overlaps(-rate * state.r, -2 * rate * state.q, still, None if state.bias is None else still, None)
    return each.reshape(count, batch, -1).mean(axis=1) + flatten(decay)


def total_variance(increments: np.ndarray) -> tuple[float, float]:
    """Trace of N^2 Cov(du), and its standard error."""
    squares = np.sum((increments - increments.mean(axis=0)) ** 2, axis=1)
    return float(squares.mean()), float(squares.std() / np.sqrt(squares.size))


def start_scatter(problem: Problem, start: Start, dim: int, seed: int) -> tuple[float, float, float]:
    """Root mean square distance of the overlaps of random weights from their mean, its error, and its exact value.

    Coordinates of all vectors are drawn with the start's overlaps as their covariance; then, in a level of n dimensions,
    Var(a.b/n) = ((a.a/n)(b.b/n) + (a.b/n)^2) / n on average. Gram matrices are drawn by Bartlett's factor, at any N alike.
    """
    rng, K = np.random.default_rng([seed, dim]), problem.student.hidden
    r, q, t = (np.asarray(x, dtype=float) for x in start.blocks(problem))
    squares, exact = np.zeros(DRAWS), 0.0
    for n, *level in zip(problem.inputs.level_dims(dim), r, q, t, strict=True):
        joint = np.block([[level[1], level[0]], [level[0].T, level[2]]])
        values, vectors = np.linalg.eigh(joint)
        size = len(joint)
        factor = np.tril(rng.standard_normal((DRAWS, size, size)), -1)
        factor[:, np.arange(size), np.arange(size)] = np.sqrt(rng.chisquare(n - np.arange(size), (DRAWS, size)))
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ factor
        kept = np.arange(size) >= np.arange(K)[:, None]  # each pair that holds a student once
        away = (root @ np.swapaxes(root, 1, 2) / n - joint)[:, :K][:, kept]
        squares += np.sum(away**2, axis=1)
        exact += float(np.sum((np.outer(np.diagonal(joint), np.diagonal(joint)) + joint**2)[:K][kept]) / n)
    distance = float(np.sqrt(squares.mean()))
    return distance, float(squares.std() / np.sqrt(DRAWS) / (2 * distance)), float(np.sqrt(exact))


def largest_distance(
    problem: Problem, start: Start, dim: int, end: float, runs: int, inputs: str, seed: int
) -> tuple[float, float]:
    """Mean over runs of the largest distance, over time, of all order parameters to the solved curve; its standard error."""
    times = linear_times(end, TIMES)
    method, law = ("overlaps", None) if inputs == "gaussian" else ("weights", inputs)
    theory = solve(problem, start, times)
    seen = simulate(problem, start, dim=dim, times=times, runs=runs, seed=seed, method=method, inputs=law)
    names = [name for name in ("R", "Q", "readout", "bias") if name in theory.variables]
    squares = sum(np.sum((seen[n] - theory[n]).reshape(runs, TIMES, -1) ** 2, axis=2) for n in names)
    far = np.sqrt(np.max(np.asarray(squares), axis=1))
    return float(far.mean()), float(far.std(ddof=1) / np.sqrt(runs))
