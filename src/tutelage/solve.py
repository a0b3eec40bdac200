"""Theory as a curve: integrate a closed system with diffrax and hold the result in a `Trajectory`.

One compiled function serves all problems of equal shape; learning rates, noise, readouts, spectra, starts, tolerances and
(up to a standard count) times are data to it, and `jax.grad`, `jax.vmap` and `jax.jit` go through `solve`. The error stands
beside the overlaps only to guide the steps: near perfect learning a tolerance on overlaps of order one says nothing about
an error of 1e-9. How steps are made in wide spectra: integrate/.
"""

import warnings
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jax.flatten_util import ravel_pytree

from tutelage import _checks
from tutelage._errors import DivergenceWarning, InputError, SymmetryWarning, ValidityWarning
from tutelage._types import Array
from tutelage.averages import Quadrature
from tutelage.averages.quadrature import QuadratureAverages
from tutelage.dynamics import ClosedSystem, Equations, OrderParameters, initial_overlaps
from tutelage.dynamics.error import averages_of
from tutelage.dynamics.resolvent import unsuited
from tutelage.integrate import FINE, choose, guided_norm, stiff_solver
from tutelage.problem import Problem, SlowMomentum, Spectrum, Start, random_start
from tutelage.problem.schedules import require_rate_on
from tutelage.progress import ProgressBar
from tutelage.status import Status
from tutelage.trajectory import Trajectory, eager
from tutelage.validity import Validity, limit_warning, symmetry_warning

KEEP_LEVELS = 16  # overlaps per level are kept by default up to this many levels
BOUND = 1e8  # overlaps this much larger than at the start have diverged
GROWN = 1e2  # a step that has become too short to take after this much growth is a blow-up in finite time
SHORTEST = 1e-14  # shortest step, in units of the whole time
COUNTS = (64, 256, 512, 1024, 2048, 4096)  # of times: compiled programs are made for these
SOLVERS = ("explicit", "stiff", "implicit")


def linear_times(end: float, count: int = 201) -> np.ndarray:
    """`count` times from 0 to `end`, evenly spaced.

    >>> import tutelage as tu
    >>> tu.linear_times(10.0, 5)
    array([ 0. ,  2.5,  5. ,  7.5, 10. ])
    """
    return np.linspace(0.0, _positive("end", end), _checks.as_count("count", count, least=2))


def log_times(first: float, end: float, count: int = 201) -> np.ndarray:
    """0, and then `count` - 1 times from `first` to `end`, evenly spaced in the logarithm.

    >>> import tutelage as tu
    >>> tu.log_times(0.1, 10.0, 3).round(6)
    array([ 0. ,  0.1, 10. ])
    """
    first, end = _positive("first", first), _positive("end", end)
    if first >= end:
        raise InputError(f"first is {first:g} and end is {end:g}; first must be below end.")
    return np.concatenate([[0.0], np.geomspace(first, end, _checks.as_count("count", count, least=3) - 1)])


def solve(
    problem: Problem | Equations,
    start: Any = None,
    times: Any = 100.0,
    *,
    gradient_flow: bool = False,
    rtol: float = 1e-8,
    atol: float = 1e-12,
    solver: str = "auto",
    quadrature: Quadrature | None = None,
    keep: str | None = None,
    gradient: str = "reverse",
    max_steps: int = 100_000,
    progress: bool = False,
) -> Trajectory:
    """The exact order-parameter dynamics of a problem in the limit of large N.

    problem: a `Problem`, or a user's own `Equations`. start: a `Start` (default: `random_start(problem, dim=1000)`), or the
    initial values of the equations. times: increasing times alpha >= 0 to record, or the last one (201 even times).
    gradient_flow: terms of order eta only (G dropped). solver: "explicit" (Dopri8), "stiff" (Rodas5P with the structure of
    the overlaps: its cost does not grow with the largest eigenvalue; compiles for longer), "implicit" (Kvaerno5, dense: for
    stiff equations of one's own), or "auto": stiff where that saves more than it costs to compile, else explicit (also
    inside jit, vmap and grad, where numbers are not known). quadrature: how finely what has no closed form is averaged.
    keep: "blocks" or "fields", whether to keep r and q per level (default: up to 16 levels).
    gradient: "reverse" for jax.grad, "forward" for jax.jvp and jacfwd. Float64; accuracy is set by rtol.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> round(float(theory.error[-1]), 6)
    0.014469
    >>> np.round(theory.R[-1], 3)
    array([[0.472, 0.364],
           [0.355, 0.461]])
    """
    if quadrature is not None and not isinstance(quadrature, Quadrature):
        raise InputError(
            f"quadrature is {_checks.shown(quadrature)}; it must be a Quadrature, such as Quadrature(nodes=96)."
        )
    solver = _checks.known("solver", solver, ("auto", *SOLVERS))
    tolerances = np.array([_positive("rtol", rtol), _positive("atol", atol)])
    times = _check_times(times)
    problem_, start = _prepare(problem, start, times)
    options = _Options(
        gradient_flow=_checks.as_flag("gradient_flow", gradient_flow),
        solver=choose(problem, times) if solver == "auto" else solver,
        quadrature=quadrature,
        keep=_keep(problem, keep),
        gradient=_checks.known("gradient", gradient, ("reverse", "forward")),
        max_steps=_checks.as_count("max_steps", max_steps),
        progress=_checks.as_flag("progress", progress),
    )
    raw = _integrate(_arrays(problem_), _arrays(_anonymous(start)), _padded(times, problem), tolerances, options)
    raw = _first(raw if _checks.is_traced(raw) else eager(raw), times.size)
    settings = (("gradient_flow", gradient_flow), ("rtol", float(rtol)), ("solver", options.solver))
    if _checks.is_traced(raw):
        return _assemble(raw, times, problem, start, settings)
    return _finish(raw, times, problem, start, settings, options)


class _Options(eqx.Module):
    """What the compiled function depends on besides shapes."""

    gradient_flow: bool = eqx.field(static=True)
    solver: str = eqx.field(static=True)
    quadrature: Quadrature | None = eqx.field(static=True)
    keep: bool = eqx.field(static=True)
    gradient: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    progress: bool = eqx.field(static=True)


class _Raw(eqx.Module):
    """What comes out of the compiled function."""

    variables: dict[str, Array]
    error: Array
    status_code: Array
    end_time: Array
    steps: Array
    T: Array | None


@eqx.filter_jit
def _integrate(problem: Any, start: Any, times: Any, tolerances: Any, options: _Options) -> _Raw:
    system, state, T = _system(problem, start, options)
    error = system.error(system.observe(state))
    bound = BOUND * (1.0 + _largest(state))
    pack, parts = _packing((state, error), options.solver)

    def rates(t: Any, y: Any, _: Any) -> Any:
        drift, error_rate = system.drift_and_error_rate(t, parts(y)[0])
        return pack((drift, error_rate * FINE))

    def diverged(t: Any, y: Any, args: Any, **_: Any) -> Array:
        return ~(_largest(parts(y)[0]) < bound)  # also true for NaN

    rtol, atol = tolerances
    controller = diffrax.PIDController(
        rtol=rtol,
        atol=atol,
        pcoeff=0.2,
        icoeff=0.5,
        dtmin=SHORTEST * jnp.maximum(times[-1], 1.0),
        force_dtmin=False,
        norm=guided_norm if options.solver == "stiff" else optimistix.rms_norm,
    )
    switches = system.switches()
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
    errors = jax.vmap(system.error)(observed)
    blown_up = size[-1] > GROWN * (1.0 + _largest(state))
    code = _code(solution.result, blown_up)
    return _Raw(observed, errors, code, end[-1], solution.stats["num_accepted_steps"], T)


def _system(problem: Any, start: Any, options: _Options) -> tuple[ClosedSystem, Any, Array | None]:
    if isinstance(problem, Equations):
        return problem, start, None
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, options.gradient_flow, options.keep, options.quadrature)
    return system, state, system.covariances(state)[2]


def _solver(system: Any, options: _Options) -> Any:
    if options.solver != "stiff":
        return diffrax.Dopri8() if options.solver == "explicit" else diffrax.Kvaerno5()
    if not isinstance(system, OrderParameters):
        raise InputError("solver is 'stiff', which knows only the equations of a Problem; use solver='implicit'.")
    reason = unsuited(system.problem)
    if reason:
        raise InputError(f"solver is 'stiff' and {reason}; its levels are then coupled otherwise. Use solver='explicit'.")
    return stiff_solver(system)


def _packing(like: Any, solver: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How the solver is given a state, and back: as one vector, whose stages are combined once a step, not once for each
    part of the state; but the stiff solver looks at the parts."""
    if solver == "stiff":
        return (lambda tree: tree), (lambda tree: tree)
    return (lambda tree: ravel_pytree(tree)[0]), ravel_pytree(like)[1]


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


def _arrays(tree: Any) -> Any:
    """Numbers as arrays (data to the compiled function, which takes them to its device), functions and words as they are."""
    if isinstance(tree, Problem) and isinstance(tree.inputs, Spectrum):
        tree = eqx.tree_at(lambda p: p.inputs, tree, tree.inputs.without_basis())
    as_array = lambda x: jnp.asarray(x, float) if isinstance(x, jax.Array) else np.asarray(x, float)  # noqa: E731
    return jax.tree.map(lambda x: as_array(x) if eqx.is_array_like(x) else x, tree)


def _padded(times: np.ndarray, problem: Any) -> np.ndarray:
    """The last time repeated up to a standard count: another number of times is then no other program.

    Not where each time costs a quadrature, nor for more times than the largest count.
    """
    costly = isinstance(problem, Problem) and isinstance(averages_of(problem), QuadratureAverages)
    count = next((n for n in COUNTS if n >= times.size and not costly), times.size)
    return np.pad(times, (0, count - times.size), mode="edge")


def _first(raw: _Raw, count: int) -> _Raw:
    """What was recorded at the first times."""
    kept = jax.tree.map(lambda x: x[:count], (raw.variables, raw.error))
    return eqx.tree_at(lambda w: (w.variables, w.error), raw, kept)


def _anonymous(start: Any) -> Any:
    """A start without its N: the limit does not depend on it, so neither must the compiled program."""
    return Start(start.R, start.Q, start.T, start.readout, start.bias) if isinstance(start, Start) else start


def _prepare(problem: Any, start: Any, times: np.ndarray) -> tuple[Any, Any]:
    """Check problem and start against each other; warn where the answer will need a sentence beside it."""
    if isinstance(problem, Equations):
        if start is None:
            raise InputError(f"the equations have no start; give the initial values of {list(problem.names)}.")
        return problem, problem.initial_state(start)
    if not isinstance(problem, Problem):
        raise InputError(f"problem is of type {type(problem).__name__}; solve takes a tutelage Problem or Equations.")
    if start is None:
        start = random_start(problem, dim=problem.inputs.known_dim or max(1000, problem.inputs.levels))
    if not isinstance(start, Start):
        raise InputError(
            f"start is of type {type(start).__name__}; make one with Start, random_start or start_from_weights."
        )
    blocks = start.blocks(problem)
    sgd = problem.sgd
    rates = {name: getattr(sgd, name) for name in ("lr", "readout_lr", "bias_lr")}
    if isinstance(sgd.momentum, SlowMomentum):
        rates["k"] = sgd.momentum.k
    for name, rate in rates.items():
        require_rate_on(name, rate, times)
    if not _checks.is_traced((problem, blocks)):
        for category, sentence in (
            (SymmetryWarning, symmetry_warning(problem, start, blocks)),
            (ValidityWarning, limit_warning(problem, start.dim)),
        ):
            if sentence:
                warnings.warn(sentence, category, stacklevel=3)
    return problem, start


def _assemble(raw: Any, times: Any, problem: Any, start: Any, settings: Any, report: Any = None) -> Trajectory:
    known = isinstance(problem, Problem)
    return Trajectory(
        times=times,
        variables=raw.variables,
        error=raw.error,
        status_code=raw.status_code,
        end_time=raw.end_time,
        steps=raw.steps,
        T=raw.T,
        problem=problem if known else None,
        start=start if known else None,
        report=report,
        kind="theory" if known else "equations",
        settings=settings,
    )


def _finish(raw: _Raw, times: np.ndarray, problem: Any, start: Any, settings: Any, options: _Options) -> Trajectory:
    """Outside JAX transformations: cut at a divergence, say so, and attach the validity report."""
    end = int(np.searchsorted(times, raw.end_time, side="right"))
    if raw.status_code != Status.FINISHED:
        raw, times = _first(raw, end), times[:end]
    trajectory = _assemble(raw, times, problem, start, settings)
    if isinstance(problem, Problem):
        report = Validity.lazy(trajectory, options.quadrature, options.gradient_flow)
        trajectory = _assemble(raw, times, problem, start, settings, report)
    if not trajectory.finished:
        warnings.warn(f"the solve {trajectory.status}", DivergenceWarning, stacklevel=3)
    return trajectory


def _check_times(times: Any) -> np.ndarray:
    if _checks.is_traced(times):
        raise InputError("times are traced; they must be known when solve is called. Close over them instead.")
    times = _checks.as_array("times", times)
    if times.ndim == 0:
        return linear_times(float(times))
    if times.ndim != 1 or times.size == 0:
        raise InputError(f"times have shape {times.shape}; give a list of times, or the last one.")
    _checks.require_nonnegative("times", times)
    if np.any(np.diff(times) <= 0):
        first = int(np.argmax(np.diff(times) <= 0))
        raise InputError(
            f"times go from {times[first]:g} to {times[first + 1]:g}; they must increase. Use np.unique(times)."
        )
    return times


def _positive(name: str, value: Any) -> float:
    array = _checks.as_array(name, value)
    _checks.require_shape(name, array, ())
    _checks.require_positive(name, array)
    return float(array)


def _keep(problem: Any, keep: str | None) -> bool:
    if keep is not None:
        return _checks.known("keep", keep, ("blocks", "fields")) == "blocks"
    return isinstance(problem, Problem) and problem.inputs.levels <= KEEP_LEVELS
