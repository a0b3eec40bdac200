"""The compiled part of a solve: any closed system, recorded at the requested times.

`integrate_system` packs a system and its error into one vector, integrates it by the
explicit solver or by diffrax, and evaluates the error at all recorded times. diffrax
takes half a second to import and is loaded only for reverse-mode gradients, stiff and
implicit solvers.
The error is integrated next to the state only to guide the steps: near perfect learning
a tolerance on overlaps of order one says nothing about an error of 1e-9.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from tutelage import checks
from tutelage._types import Array, NumpyOrJax
from tutelage.errors import Status
from tutelage.solvers import dormand_prince
from tutelage.solvers.equations import ClosedSystem

Tree = TypeVar("Tree")

SOLVERS = ("explicit", "stiff", "implicit")
MAX_STEPS = 100_000
# Overlaps this much larger than at the start have diverged.
BOUND = 1e8
# A step that has become too short to take is a blow-up in finite time after this
# growth.
GROWN = 1e2
# The shortest step, in units of the whole time.
SHORTEST = 1e-14
# The error is multiplied by this factor, so that its absolute tolerance is finer than
# that of the overlaps.
FINE = 1e4
# rtol and atol by the precision of JAX's numbers.
USUAL = {"float64": (1e-8, 1e-12), "float32": (1e-4, 1e-6)}
# Compiled programs are made for these numbers of times.
COUNTS = (256, 512, 1024, 2048, 4096)


class Options(NamedTuple):
    """The choices that the compiled function depends on, besides shapes.

    axis: the name of the vmapped axis of members, if any.
    """

    gradient_flow: bool
    solver: str
    keep: bool
    gradient: str = "forward"
    max_steps: int = MAX_STEPS
    progress: bool = False
    axis: str | None = None


class SolveOutput(NamedTuple):
    """The output of the compiled function."""

    variables: dict[str, Array]
    error: Array
    loss: Array
    status_code: Array
    end_time: Array
    steps: Array
    T: Array | None


class Setup(NamedTuple):
    """A system at its initial state.

    is_guided: the error guides the steps. error_rounding: the rounding of the error. T:
    the teacher's covariance of a problem. diffrax_solver(name): the solver of diffrax
    that serves the system under this name.
    """

    system: ClosedSystem
    state: PyTree
    is_guided: bool
    error_rounding: float
    T: Array | None
    diffrax_solver: Callable[[str], Any]


def integrate_system(
    setup: Setup,
    times: Array,
    tolerances: NumpyOrJax,
    options: Options,
    evaluate: Callable[[PyTree, Array], tuple[Array, Array]],
) -> SolveOutput:
    """Integrate a system from its initial state and record it at the times.

    evaluate(records, times): error and loss of everything that was recorded.
    """
    system = setup.system
    state = setup.state
    error = jnp.zeros(())
    if setup.is_guided:
        error = system.error(system.observe(state))
    bound = 1.0 + _largest(state)

    # The stiff solver looks at the parts of (state, error). The others combine the
    # stages of one vector once a step.
    is_stiff = options.solver == "stiff"
    _, unravel = ravel_pytree((state, error))

    def pack(parts: PyTree) -> PyTree:
        if is_stiff:
            return parts
        vector, _ = ravel_pytree(parts)
        return vector

    def state_of(y: PyTree) -> PyTree:
        parts = y if is_stiff else unravel(y)
        return parts[0]

    def rates(t: Array, y: PyTree) -> PyTree:
        drift, error_rate = system.drift_and_error_rate(t, state_of(y))
        # A GPU would otherwise sum this number term by term in the kernel that packs
        # the vector, and all of it would wait.
        return pack((drift, jax.lax.optimization_barrier(error_rate * FINE)))

    atol: Any = tolerances[1]
    if not is_stiff and setup.is_guided and setup.error_rounding:
        # no step is refused for what rounding alone does to the error
        atol_of_state = jax.tree.map(lambda x: jnp.full_like(x, atol), state)
        atol_of_error = jnp.full_like(error, atol)
        rounding = FINE * setup.error_rounding
        atol = pack((atol_of_state, jnp.maximum(atol_of_error, rounding)))
    meter = None
    if options.progress:
        from tutelage.solvers.diffrax_solvers import ProgressBar

        meter = ProgressBar()
    y0 = pack((state, error * FINE))
    ode = dormand_prince.ODE(
        rates=rates,
        y0=jax.lax.optimization_barrier(y0),  # no constant, as above
        times=times,
        observe=lambda y: system.observe(state_of(y)),
        # also true for NaN
        diverged=lambda y: ~(_largest(state_of(y)) < BOUND * bound),
        rtol=tolerances[0],
        atol=atol,
        shortest=SHORTEST * jnp.maximum(times[-1], 1.0),
        max_steps=options.max_steps,
        stops=system.switches(times[-1]),
        meter=meter,
    )
    if options.solver == "explicit" and options.gradient == "forward":
        solution = dormand_prince.integrate_explicitly(ode, options.axis)
    else:
        from tutelage.solvers.diffrax_solvers import integrate_by_diffrax

        solver = setup.diffrax_solver(options.solver)
        is_reverse = options.gradient == "reverse"
        solution = integrate_by_diffrax(ode, solver, is_reverse)
    errors, losses = evaluate(solution.records, times)
    has_failed = solution.code == int(Status.FAILED)
    is_blow_up = has_failed & (_largest(state_of(solution.y)) > GROWN * bound)
    return SolveOutput(
        variables=solution.records,
        error=errors,
        loss=losses,
        status_code=jnp.where(is_blow_up, int(Status.DIVERGED), solution.code),
        end_time=solution.t,
        steps=solution.steps,
        T=setup.T,
    )


def in_turns(
    function: Callable[..., Tree],
    records: PyTree,
    times: Array,
    at_once: int,
    whole: bool,
) -> Tree:
    """Return function(record, time) of all records, `at_once` of them in each turn.

    Repeated times at the end are left out. whole: they are not, as reverse mode needs a
    fixed number of turns.
    """
    count = times.shape[0]

    def value_at(place: Array) -> Tree:
        return function(jax.tree.map(lambda x: x[place], records), times[place])

    def fill(turn: Array, values: Tree) -> Tree:
        places = jnp.minimum(turn * at_once + jnp.arange(at_once), count - 1)
        new_values = jax.vmap(value_at)(places)
        return jax.tree.map(
            lambda array, new: array.at[places].set(new), values, new_values
        )

    shapes = jax.eval_shape(value_at, 0)
    empty = jax.tree.map(
        lambda x: jnp.full((count, *x.shape), jnp.nan, x.dtype), shapes
    )
    different = count
    if not whole:
        different = jnp.searchsorted(times, times[-1]) + 1
    turns = -(-different // at_once)
    return jax.lax.fori_loop(0, turns, fill, empty)


def _largest(state: PyTree) -> Array:
    """Return the largest absolute value in a state."""
    vector, _ = ravel_pytree(state)
    return jnp.max(jnp.abs(vector))


def eager(tree: Tree) -> Tree:
    """Return the tree with NumPy arrays: fetched once, sliced freely."""
    return jax.tree.map(np.asarray, jax.device_get(tree))


def step_tolerances(rtol: float | None = None, atol: float | None = None) -> np.ndarray:
    """Return the relative and the absolute tolerance of a step.

    Their defaults are what the precision of JAX's numbers allows.
    """
    usual_rtol, usual_atol = USUAL[np.dtype(jnp.result_type(float)).name]
    rtol = usual_rtol if rtol is None else checks.as_positive("rtol", rtol)
    atol = usual_atol if atol is None else checks.as_positive("atol", atol)
    return np.array([rtol, atol])


def padded(times: np.ndarray) -> np.ndarray:
    """Return times with the last one repeated up to a standard count.

    Another number of times then needs no other program.
    """
    count = next((n for n in COUNTS if n >= times.size), times.size)
    return np.pad(times, (0, count - times.size), mode="edge")


def first_times(output: SolveOutput, count: int, lead: int = 0) -> SolveOutput:
    """Return the records of the first times.

    lead: the number of axes before that of times.
    """
    first = (slice(None),) * lead + (slice(count),)
    return output._replace(
        variables=jax.tree.map(lambda x: x[first], output.variables),
        error=jax.tree.map(lambda x: x[first], output.error),
        loss=jax.tree.map(lambda x: x[first], output.loss),
    )
