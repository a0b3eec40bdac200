"""What is compiled: a closed system from its start to the last time, recorded on the way, by diffrax. call.py calls it.

The error stands beside the overlaps only to guide the steps: near perfect learning a tolerance on overlaps of order one says
nothing about an error of 1e-9.
"""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import optimistix
from jax.flatten_util import ravel_pytree

from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.dynamics import ClosedSystem, OrderParameters, initial_overlaps
from tutelage.dynamics.resolvent import unsuited
from tutelage.integrate.call import BOUND, FINE, Options, Raw
from tutelage.integrate.guided import guided_norm, stiff_solver
from tutelage.progress import ProgressBar
from tutelage.status import Status

GROWN = 1e2  # a step that has become too short to take after this much growth is a blow-up in finite time
SHORTEST = 1e-14  # shortest step, in units of the whole time


def integrated(problem: Any, moments: Any, start: Any, times: Any, tolerances: Any, options: Options) -> Raw:
    """`integrate`, as it is traced (call.py)."""
    system, state, T = _system(problem, moments, start, options)
    error = system.error(system.observe(state)) if guided(system) else jnp.zeros(())
    bound = BOUND * (1.0 + _largest(state))
    pack, parts = _packing((state, error), options.solver)

    def rates(t: Any, y: Any, _: Any) -> Any:
        drift, error_rate = system.drift_and_error_rate(t, parts(y)[0])
        # a GPU would otherwise sum this number term by term in the kernel that packs the vector, and all of it would wait
        return pack((drift, jax.lax.optimization_barrier(error_rate * FINE)))

    def diverged(t: Any, y: Any, args: Any, **_: Any) -> Array:
        return ~(_largest(parts(y)[0]) < bound)  # also true for NaN

    rtol, atol = tolerances
    controller = diffrax.PIDController(
        rtol=rtol,
        atol=_absolute(atol, system, state, pack) if options.solver != "stiff" else atol,
        pcoeff=0.2,
        icoeff=0.5,
        dtmin=SHORTEST * jnp.maximum(times[-1], 1.0),
        force_dtmin=False,
        norm=guided_norm if options.solver == "stiff" else optimistix.rms_norm,
    )
    switches = system.switches(times[-1])
    if switches is not None:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=switches)
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(rates),
        _solver(system, options),
        t0=0.0,
        t1=jnp.maximum(times[-1], 1e-12),
        dt0=None,
        # inside another jit, where the start is a constant, XLA must not compute with it beforehand: it rounds otherwise
        y0=jax.lax.optimization_barrier(pack((state, error * FINE))),
        saveat=diffrax.SaveAt(
            subs=[
                diffrax.SubSaveAt(ts=times, fn=lambda t, y, args: system.observe(parts(y)[0])),
                diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: _largest(parts(y)[0])),
            ]
        ),
        stepsize_controller=controller,
        adjoint=diffrax.ForwardMode() if options.gradient == "forward" else diffrax.RecursiveCheckpointAdjoint(),
        event=diffrax.Event(diverged),
        max_steps=options.max_steps,
        throw=False,
        progress_meter=ProgressBar() if options.progress else diffrax.NoProgressMeter(),
    )
    (saved_times, end), (observed, size) = solution.ts, solution.ys
    reached = jnp.isfinite(saved_times)
    observed = jax.tree.map(lambda x: jnp.where(reached.reshape(-1, *[1] * (x.ndim - 1)), x, jnp.nan), observed)
    errors, losses = _judged(system, observed)
    blown_up = size[-1] > GROWN * (1.0 + _largest(state))
    code = _code(solution.result, blown_up)
    return Raw(observed, errors, losses, code, end[-1], solution.stats["num_accepted_steps"], T)


def guided(system: Any) -> bool:
    """Does the error stand next to the state to guide the steps? Not where each value of it is an average over nodes."""
    return not isinstance(system, OrderParameters) or system.closed


def _judged(system: Any, observed: dict[str, Array]) -> tuple[Array, Array]:
    """Error and training loss at every recorded time; states averaged over nodes one by one, for their memory."""
    if not guided(system):
        return jax.lax.map(lambda seen: (system.error(seen), system.loss(seen)), observed)
    errors = jax.vmap(system.error)(observed)
    if isinstance(system, OrderParameters):
        return errors, errors + jnp.asarray(system.problem.noise) ** 2 / 2
    return errors, jnp.full_like(errors, jnp.nan)


def _system(problem: Any, moments: Any, start: Any, options: Options) -> tuple[ClosedSystem, Any, Array | None]:
    if isinstance(problem, ClosedSystem):
        return problem, start, None
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, options.gradient_flow, options.keep, moments=moments)
    return system, state, system.covariances(state)[2]


def _solver(system: Any, options: Options) -> Any:
    if options.solver != "stiff":
        return diffrax.Dopri8() if options.solver == "explicit" else diffrax.Kvaerno5()
    if not isinstance(system, OrderParameters):
        raise InputError("solver is 'stiff', which knows only the equations of a Problem; use solver='implicit'.")
    reason = unsuited(system.problem)
    if reason:
        raise InputError(f"solver is 'stiff' and {reason}; it does not support that. Use solver='explicit'.")
    return stiff_solver(system)


def _packing(like: Any, solver: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How the solver is given a state, and back: as one vector, whose stages are combined once a step, not once for each
    part of the state; but the stiff solver looks at the parts."""
    if solver == "stiff":
        return (lambda tree: tree), (lambda tree: tree)
    return (lambda tree: ravel_pytree(tree)[0]), ravel_pytree(like)[1]


def _absolute(atol: Array, system: Any, state: Any, pack: Callable[[Any], Any]) -> Array:
    """The tolerance of each number of the state, and of the error: no step is refused for what rounding alone does to it."""
    rounding = system.averages.error_rounding if isinstance(system, OrderParameters) and system.closed else 0.0
    if not rounding:
        return atol
    each = jax.tree.map(lambda x: jnp.full_like(x, atol), state)
    return pack((each, jnp.maximum(atol, FINE * rounding)))


def _largest(state: Any) -> Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(state)]))


def _code(result: Any, blown_up: Array) -> Array:
    table = (
        (diffrax.RESULTS.successful, Status.FINISHED),
        (diffrax.RESULTS.event_occurred, Status.DIVERGED),
        (diffrax.RESULTS.max_steps_reached, Status.MAX_STEPS),
    )
    code = jnp.where(blown_up, int(Status.DIVERGED), int(Status.FAILED))
    for reason, status in table:
        code = jnp.where(result == reason, int(status), code)
    return code
