"""The generalization error of recorded states, state by state.

It is the problem's exact Gaussian average. For inputs that are not Gaussian this is the
error on Gaussian inputs of the same covariance, a good one when many coordinates add up
in each field. All states are evaluated after the runs, in batches of one compiled
program.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array
from tutelage.problem import Problem
from tutelage.result.trajectory import Trajectory
from tutelage.stream import OrderParameters
from tutelage.stream.moments import Moments, moments_for
from tutelage.stream.order_parameters import as_arrays, at_covariances
from tutelage.stream.program import by_nodes, by_quadrature

# States that one program evaluates at once: bounded memory, one compilation.
CPU_STATES = 512
CPU_COSTLY_STATES = 32  # of averages by quadrature
CPU_NODE_STATES = 8  # of averages over nodes
GPU_STATES = 2**15
GPU_COSTLY_STATES = 256


class RecordedStates(NamedTuple):
    """Recorded states, by a leading axis, and their times.

    R, Q and T of a mixture are r, q and t per level.
    """

    R: Any
    Q: Any
    T: Any
    readout: Any
    bias: Any
    time: Any


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
    """Return error and loss of states at times, the last axis of lead.

    Each has a last axis of tasks or classes, if there are any. NaN gives NaN.

    R, Q and T of a mixture are r, q and t per level. dim: N, if its levels hold whole
    numbers of dimensions.
    """
    state_axes = 2
    parts = ()  # the axis of tasks or of classes, if any
    if problem.mixture is not None:
        state_axes = 3
        parts = (problem.mixture.classes,)
        if dim is not None:
            shares = problem.mixture.level_dims(dim) / dim
            problem = problem.with_parts(inputs=problem.mixture.with_shares(shares))
    elif problem.several_tasks is not None:
        parts = (problem.several_tasks.count,)
    lead = R.shape[:-state_axes]

    def flat(x: np.ndarray) -> np.ndarray:
        """Return an array with one leading axis of states."""
        return x.reshape(-1, *x.shape[len(lead) :])

    states = RecordedStates(
        R=flat(R),
        Q=flat(Q),
        T=flat(np.broadcast_to(T, (*lead, *T.shape[-state_axes:]))),
        readout=flat(readout),
        bias=flat(bias),
        time=flat(np.broadcast_to(times, lead)),
    )
    count = len(states.R)
    is_known = np.isfinite(states.R).reshape(count, -1).all(axis=1)
    known = np.flatnonzero(is_known)
    errors = np.full((count, *parts), np.nan)
    losses = np.full((count, *parts), np.nan)
    moments = moments_for(problem)
    size = _states_at_once(moments)
    # nodes fill the cores of a CPU with one state
    single = by_nodes(moments) is not None and jax.default_backend() == "cpu"
    for first in range(0, known.size, size):
        chosen = known[first : first + size]
        padded = np.pad(chosen, (0, size - chosen.size), mode="edge")
        batch = RecordedStates(*(x[padded] for x in states))
        error, loss = _errors(as_arrays(problem), moments, single, batch)
        errors[chosen] = np.asarray(error)[: chosen.size]
        losses[chosen] = np.asarray(loss)[: chosen.size]
    return errors.reshape(*lead, *parts), losses.reshape(*lead, *parts)


def _states_at_once(moments: Moments) -> int:
    """Return the number of states that one program evaluates."""
    has_nodes = by_nodes(moments) is not None
    is_costly = has_nodes or by_quadrature(moments)
    if jax.default_backend() != "cpu":
        return GPU_COSTLY_STATES if is_costly else GPU_STATES
    if has_nodes:
        return CPU_NODE_STATES
    return CPU_COSTLY_STATES if is_costly else CPU_STATES


def class_errors(trajectory: Trajectory) -> Float[np.ndarray, "*lead time classes"]:
    """Return the error in each class at the recorded states of a trajectory."""
    problem = trajectory.problem
    start = trajectory.start
    assert problem is not None
    assert start is not None
    _, _, t = start.blocks(problem)
    no_bias = np.zeros((*np.shape(trajectory.error), 1))
    errors, _ = errors_at_records(
        problem,
        R=np.asarray(trajectory.r),
        Q=np.asarray(trajectory.q),
        T=np.asarray(t),
        readout=np.asarray(trajectory.readout),
        bias=np.asarray(trajectory.variables.get("bias", no_bias)),
        times=trajectory.times,
        dim=trajectory.dim if trajectory.kind == "simulation" else None,
    )
    return errors


@eqx.filter_jit
def _errors(
    problem: Problem, moments: Moments, single: bool, states: RecordedStates
) -> tuple[Float[Array, "*states_each"], Float[Array, "*states_each"]]:
    """Return error and loss of states. single: of one state after the other."""

    def of_state(state: RecordedStates) -> tuple[Array, Array]:
        variables = {"readout": state.readout}
        if problem.biased:
            variables["bias"] = state.bias
        if problem.inputs.classes is not None:
            variables |= {"r": state.R, "q": state.Q}
            system = OrderParameters(problem, state.T, moments=moments)
            return system.class_errors(variables, state.time)
        variables |= {"R": state.R, "Q": state.Q}
        system = at_covariances(problem, state.T, moments)
        return system.error_and_loss(variables, state.time)

    arrays = jax.tree.map(jnp.asarray, states)
    if single:
        return jax.lax.map(of_state, arrays)
    return jax.vmap(of_state)(arrays)
