"""Integration by diffrax: reverse-mode gradients, stiff and implicit solvers. It returns what dormand_prince.py returns."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import optimistix
from jaxtyping import PyTree

from tutelage._types import Array
from tutelage.dynamics import ClosedSystem, OrderParameters
from tutelage.dynamics.resolvent import unsuited
from tutelage.errors import InputError, Status
from tutelage.integrate.dormand_prince import Integrated
from tutelage.integrate.stiff import guided_norm, stiff_solver

CODES = (
    (diffrax.RESULTS.successful, Status.FINISHED),
    (diffrax.RESULTS.event_occurred, Status.DIVERGED),
    (diffrax.RESULTS.max_steps_reached, Status.MAX_STEPS),
)


def solver_for(name: str, system: ClosedSystem, fine: float) -> diffrax.AbstractSolver:
    """The diffrax solver of this name; `fine` is the factor of the error next to the state."""
    if name != "stiff":
        return diffrax.Dopri8() if name == "explicit" else diffrax.Kvaerno5()
    if not isinstance(system, OrderParameters):
        raise InputError("solver is 'stiff', which knows only the equations of a Problem; use solver='implicit'.")
    reason = unsuited(system.problem)
    if reason:
        raise InputError(f"solver is 'stiff' and {reason}; it does not support that. Use solver='explicit'.")
    return stiff_solver(system, fine)


def integrate(
    rates: Callable[[Array, PyTree], PyTree],
    y0: PyTree,
    times: Array,
    *,
    observe: Callable[[PyTree], PyTree],
    diverged: Callable[[PyTree], Array],
    rtol: Array,
    atol: Array,
    shortest: Array,
    max_steps: int,
    stops: Array | None,
    meter: diffrax.AbstractProgressMeter | None,
    solver: diffrax.AbstractSolver,
    reverse: bool,
) -> Integrated:
    """As `dormand_prince.integrate`; y0 is one vector, or a pair of state and error for the stiff solver."""
    controller = diffrax.PIDController(
        rtol=rtol,
        atol=atol,
        pcoeff=0.2,
        icoeff=0.5,
        dtmin=shortest,
        force_dtmin=False,
        norm=guided_norm if isinstance(y0, tuple) else optimistix.rms_norm,
    )
    if stops is not None:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=stops)
    recorded = diffrax.SubSaveAt(ts=times, fn=lambda t, y, args: observe(y))
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: rates(jnp.asarray(t), y)),
        solver,
        t0=0.0,
        t1=jnp.maximum(times[-1], 1e-12),
        dt0=None,
        y0=y0,
        saveat=diffrax.SaveAt(subs=[recorded, diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=controller,
        adjoint=diffrax.RecursiveCheckpointAdjoint() if reverse else diffrax.ForwardMode(),
        event=diffrax.Event(lambda t, y, args, **_: diverged(y)),
        max_steps=max_steps,
        throw=False,
        progress_meter=diffrax.NoProgressMeter() if meter is None else meter,
    )
    (saved, end), (records, last) = solution.ts, solution.ys
    reached = jnp.isfinite(saved)
    records = jax.tree.map(lambda x: jnp.where(reached.reshape(-1, *[1] * (x.ndim - 1)), x, jnp.nan), records)
    code = jnp.array(int(Status.FAILED))
    for reason, status in CODES:
        code = jnp.where(solution.result == reason, int(status), code)
    y = jax.tree.map(lambda x: x[-1], last)
    return Integrated(records, end[-1], y, solution.stats["num_accepted_steps"], code)
