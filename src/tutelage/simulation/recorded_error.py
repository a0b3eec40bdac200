"""The generalization error of recorded states: the problem's exact Gaussian average, state by state.

For inputs that are not Gaussian this is the error on Gaussian inputs of the same covariance, a good one when many
coordinates add up in each field. All states are evaluated after the runs, in batches of one compiled program. With averages
over nodes a state takes some milliseconds of one core, most of them for the loss under label noise.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array
from tutelage.dynamics import OrderParameters
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.integrate.program import by_nodes, by_quadrature
from tutelage.moments import Moments, moments_for
from tutelage.problem import Isotropic, Mixture, Problem, Tasks
from tutelage.trajectory import Trajectory


def errors_at_records(
    problem: Problem,
    R: Float[np.ndarray, "*lead K M"],
    Q: Float[np.ndarray, "*lead K K"],
    T: Float[np.ndarray, "*lead M M"],
    readout: np.ndarray,
    bias: Float[np.ndarray, "*lead K"],
    times: Float[np.ndarray, " time"],
) -> tuple[Float[np.ndarray, "*lead_task"], Float[np.ndarray, "*lead_task"]]:
    """Error and loss of states at times (the last axis of lead), of several tasks with a last axis of tasks; NaN states give
    NaN."""
    shape, tasks = R.shape[:-2], (problem.teacher.count,) if isinstance(problem.teacher, Tasks) else ()
    flat = [x.reshape(-1, *x.shape[len(shape) :]) for x in (R, Q, T, readout, bias, np.broadcast_to(times, shape))]
    known = np.isfinite(flat[0]).all(axis=(1, 2))
    both = np.full((2, known.size, *tasks), np.nan)
    if known.any():
        both[:, known] = _in_batches(problem, *(x[known] for x in flat))
    return both[0].reshape(*shape, *tasks), both[1].reshape(*shape, *tasks)


def mixture_errors(
    problem: Problem,
    shares: Float[np.ndarray, " L"],
    r: Float[np.ndarray, "*lead L K M"],
    q: Float[np.ndarray, "*lead L K K"],
    t: Float[np.ndarray, "*lead L M M"],
    readout: np.ndarray,
    bias: Float[np.ndarray, "*lead K"] | None,
    times: Float[np.ndarray, " time"],
) -> tuple[Float[np.ndarray, "*lead classes"], Float[np.ndarray, "*lead classes"]]:
    """Error and loss of states at times (the last axis of lead) in each class of a mixture. shares: of the dimensions, on
    each level."""
    mixture, shape = problem.inputs, r.shape[:-3]
    assert isinstance(mixture, Mixture)
    problem = eqx.tree_at(lambda p: p.inputs, problem, mixture.with_shares(shares))
    bias = np.zeros((*shape, 1)) if bias is None or not problem.biased else bias
    flat = [
        np.reshape(x, (-1, *x.shape[len(shape) :]))
        for x in (r, q, np.broadcast_to(t, (*shape, *t.shape[-3:])), readout, bias, np.broadcast_to(times, shape))
    ]
    known, moments = np.isfinite(flat[0]).all(axis=(1, 2, 3)), moments_for(problem)
    both = np.full((2, known.size, mixture.classes), np.nan)
    if known.any():
        both[:, known] = np.stack(_class_errors(as_arrays(problem), moments, tuple(x[known] for x in flat)))
    return both[0].reshape(*shape, -1), both[1].reshape(*shape, -1)


def class_errors(trajectory: Trajectory) -> Float[np.ndarray, "*lead time classes"]:
    """The error in each class at the recorded states of a trajectory."""
    problem, start = trajectory.problem, trajectory.start
    assert problem is not None
    assert start is not None
    shares, t = np.asarray(problem.inputs.fractions), np.asarray(start.blocks(problem)[2], dtype=float)
    if trajectory.kind == "simulation" and trajectory.dim is not None:
        shares = problem.inputs.level_dims(trajectory.dim) / trajectory.dim
    state = trajectory.r, trajectory.q, t, trajectory.readout, trajectory.variables.get("bias")
    return mixture_errors(problem, shares, *state, trajectory.times)[0]


@eqx.filter_jit
def _class_errors(problem: Problem, moments: Moments, states: tuple[np.ndarray, ...]) -> tuple[Array, Array]:
    def one(at: tuple[Array, ...]) -> tuple[Array, Array]:
        r, q, t, v, b, time = at
        seen = {"r": r, "q": q, "readout": v} | ({"bias": b} if problem.biased else {})
        return OrderParameters(problem, t, moments=moments).class_errors(seen, time)

    return jax.lax.map(one, tuple(jnp.asarray(x) for x in states))


def _in_batches(problem: Problem, *states: np.ndarray) -> Float[np.ndarray, "2 states *tasks"]:
    """A fixed number of states at a time: bounded memory, one compilation."""
    moments, count = moments_for(problem), len(states[0])
    on_cpu, costly = jax.default_backend() == "cpu", by_nodes(moments) is not None or by_quadrature(moments)
    size = (32 if costly else 512) if on_cpu else (256 if costly else 2**15)
    parts = []
    for first in range(0, count, size):
        which = np.minimum(np.arange(first, first + size), count - 1)
        left = np.asarray(min(size, count - first))
        parts.append(np.stack(_errors(as_arrays(problem), moments, left, tuple(x[which] for x in states))))
    return np.concatenate(parts, axis=1)[:, :count]


@eqx.filter_jit
def _errors(
    problem: Problem, moments: Moments, count: Array | np.ndarray, states: tuple[np.ndarray, ...]
) -> tuple[Float[Array, "*states_task"], Float[Array, "*states_task"]]:
    """Error and loss. A CPU averages over nodes for one state after the other, for the first `count` states alone."""

    def one(at: tuple[Array, ...]) -> tuple[Array, Array]:
        R, Q, T, v, b, t = at
        system = OrderParameters(_unit_inputs(problem.all_seen()), T[None], moments=moments)  # T: with all of the fields
        seen = {"R": R, "Q": Q, "readout": v} | ({"bias": b} if problem.biased else {})
        return system.error(seen), system.loss(seen, t)

    arrays = tuple(jnp.asarray(x) for x in states)
    if by_nodes(moments) is None or jax.default_backend() != "cpu":
        return jax.vmap(one)(arrays)

    def fill(i: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
        error, loss = one(tuple(x[i] for x in arrays))
        return both[0].at[i].set(error), both[1].at[i].set(loss)

    tasks = (problem.teacher.count,) if isinstance(problem.teacher, Tasks) else ()
    return jax.lax.fori_loop(0, jnp.asarray(count), fill, (jnp.zeros((arrays[0].shape[0], *tasks)),) * 2)


def _unit_inputs(problem: Problem) -> Problem:
    """The same problem with one level: the error depends on the covariance of the fields alone."""
    return eqx.tree_at(lambda p: p.inputs, problem, Isotropic())
