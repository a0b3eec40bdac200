"""The generalization error of recorded states: the problem's exact Gaussian average, state by state.

For inputs that are not Gaussian this is the error on Gaussian inputs of the same covariance, a good one when many
coordinates add up in each field. All states are evaluated after the runs, in batches of one compiled program.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array
from tutelage.dynamics import OrderParameters
from tutelage.dynamics.order_parameters import as_arrays, at_covariances
from tutelage.integrate.program import by_nodes, by_quadrature
from tutelage.moments import Moments, moments_for
from tutelage.problem import Mixture, Problem, Tasks
from tutelage.trajectory import Trajectory


def errors_at_records(
    problem: Problem,
    R: Float[np.ndarray, "*lead K M"],
    Q: Float[np.ndarray, "*lead K K"],
    T: Float[np.ndarray, "... M M"],
    readout: np.ndarray,
    bias: Float[np.ndarray, "*lead K"],
    times: Float[np.ndarray, " time"],
    dim: int | None = None,
) -> tuple[Float[np.ndarray, "*lead_each"], Float[np.ndarray, "*lead_each"]]:
    """Error and loss of states at times (the last axis of lead), each with a last axis of tasks or classes; NaN gives NaN.

    R, Q and T of a mixture are r, q and t per level. dim: N, if its levels hold whole numbers of dimensions.
    """
    axes, each = 2, ()  # each: the axis of tasks or of classes, if any
    if isinstance(problem.inputs, Mixture):
        axes, each = 3, (problem.inputs.classes,)
        if dim is not None:
            shared = problem.inputs.with_shares(problem.inputs.level_dims(dim) / dim)
            problem = eqx.tree_at(lambda p: p.inputs, problem, shared)
    elif isinstance(problem.teacher, Tasks):
        each = (problem.teacher.count,)
    lead = R.shape[:-axes]
    T = np.broadcast_to(T, (*lead, *T.shape[-axes:]))
    states = [x.reshape(-1, *x.shape[len(lead) :]) for x in (R, Q, T, readout, bias, np.broadcast_to(times, lead))]
    known = np.flatnonzero(np.isfinite(states[0]).reshape(len(states[0]), -1).all(axis=1))
    found = np.full((2, len(states[0]), *each), np.nan)
    moments = moments_for(problem)
    nodes, on_cpu = by_nodes(moments) is not None, jax.default_backend() == "cpu"
    costly, single = nodes or by_quadrature(moments), nodes and on_cpu  # nodes fill the cores of a CPU with one state
    size = (512, 32, 8)[costly + single] if on_cpu else (2**15, 256)[costly]  # bounded memory, one compilation
    for first in range(0, known.size, size):
        which = known[first : first + size]
        padded = np.pad(which, (0, size - which.size), mode="edge")
        both = _errors(as_arrays(problem), moments, single, tuple(x[padded] for x in states))
        found[:, which] = np.stack(both)[:, : which.size]
    error, loss = found.reshape(2, *lead, *found.shape[2:])
    return error, loss


def class_errors(trajectory: Trajectory) -> Float[np.ndarray, "*lead time classes"]:
    """The error in each class at the recorded states of a trajectory."""
    problem, start = trajectory.problem, trajectory.start
    assert problem is not None
    assert start is not None
    v, b = trajectory.readout, trajectory.variables.get("bias", np.zeros((*np.shape(trajectory.error), 1)))
    r, q, t, v, b = (np.asarray(x) for x in (trajectory.r, trajectory.q, start.blocks(problem)[2], v, b))
    dim = trajectory.dim if trajectory.kind == "simulation" else None
    return errors_at_records(problem, r, q, t, v, b, trajectory.times, dim)[0]


@eqx.filter_jit
def _errors(
    problem: Problem, moments: Moments, single: bool, states: tuple[np.ndarray, ...]
) -> tuple[Float[Array, "*states_each"], Float[Array, "*states_each"]]:
    """Error and loss. single: of one state after the other."""

    def one(at: tuple[Array, ...]) -> tuple[Array, Array]:
        R, Q, T, v, b, t = at
        seen = {"readout": v} | ({"bias": b} if problem.biased else {})
        if isinstance(problem.inputs, Mixture):
            return OrderParameters(problem, T, moments=moments).class_errors(seen | {"r": R, "q": Q}, t)
        return at_covariances(problem, T, moments).error_and_loss(seen | {"R": R, "Q": Q}, t)

    arrays = tuple(jnp.asarray(x) for x in states)
    return jax.lax.map(one, arrays) if single else jax.vmap(one)(arrays)
