"""The way from equations to numbers: a solve, recorded at the requested times.

Committees of erf units take the machine code of dynamics/committee_kernel.py outside of
jit, vmap and grad: nothing is compiled for a new shape. Everything else takes
`integrate`, a compiled program that serves all problems of equal shape: all numbers are
data to it. diffrax takes half a second to import and is loaded only for reverse-mode
gradients, stiff and implicit solvers.
The error is integrated next to the overlaps only to guide the steps: near perfect
learning a tolerance on overlaps of order one says nothing about an error of 1e-9.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, PyTree

from tutelage import checks
from tutelage._types import Array, NumpyOrJax
from tutelage.errors import Status
from tutelage.problem import Problem, SlowMomentum
from tutelage.problem.traits import CLASSIC, missing_traits, said_instead
from tutelage.solvers import ClosedSystem, dormand_prince
from tutelage.stream import OrderParameters, Overlaps
from tutelage.stream.moments import Moments
from tutelage.stream.moments.matrices import (
    ClosedMoments,
    joint_covariance,
    population_error,
    shared_parity,
    single_moments,
)
from tutelage.stream.moments.node_moments import NodeMoments
from tutelage.stream.moments.quadrature import BrokenAverages, QuadratureAverages
from tutelage.stream.order_parameters import as_arrays, is_committee
from tutelage.training.schedules import rate_at, scan_grid

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
# Points over which the error is averaged at once, and recorded times.
AT_ONCE = 2**17
TIMES_AT_ONCE = 8
# Compiled programs are made for these numbers of times.
COUNTS = (256, 512, 1024, 2048, 4096)

# The costs by which `choose` decides. An explicit method must resolve the fastest
# level, whether or not anything still happens there: its steps are about STABLE / (eta
# lam_max |v|^2) long. The stiff one takes a few hundred steps whatever the spectrum,
# but each also needs the derivatives of A, B, G with respect to every field.
STABLE = 8.0  # measured: erf, K = M = 2, 1024 levels, beta = 1
EVALUATIONS = 12  # of A, B, G in an explicit step
STIFF_STEPS = 400
STIFF_EVALUATIONS = 20  # in a stiff step, besides one for each derivative
OVERHEAD = 150  # levels that cost as much as the rest of an evaluation
# The stiff method compiles for longer, by about so many evaluations times levels.
WORTH = 6e7
MOST_FIELDS = 200  # the dense system grows with the square of their number


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


class Raw(NamedTuple):
    """The output of the compiled function."""

    variables: dict[str, Array]
    error: Array
    loss: Array
    status_code: Array
    end_time: Array
    steps: Array
    T: Array | None


def run(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    initial: PyTree,
    times: np.ndarray,
    tolerances: np.ndarray,
    options: Options,
) -> Raw:
    """Solve by the machine code or the program.

    The result has NumPy arrays unless something is traced.
    """
    is_known = not checks.is_traced(initial)
    if has_machine_code(problem, moments, options) and is_known:
        return run_committee(problem, moments, initial, times, tolerances, options)
    is_forward = options.gradient == "forward"
    is_traced = checks.is_traced(problem, initial)
    if is_forward and not is_traced and jax.default_backend() == "cpu":
        moments = _in_blocks(moments)  # a GPU averages all points at once
    solved_times = padded(times)
    if _each_time_costs(moments) and options.gradient == "reverse":
        solved_times = times
    raw = integrate(
        as_arrays(problem),
        moments,
        as_arrays(initial),
        solved_times,
        tolerances,
        options,
    )
    if not checks.is_traced(raw):
        raw = eager(raw)
    return first_times(raw, times.size)


def has_machine_code(
    problem: object, moments: Moments | None, options: Options
) -> TypeGuard[Problem]:
    """Return True if the kernel integrates this problem.

    Its numbers must be known: no part of it may be traced.
    """
    if options.solver != "explicit" or options.gradient != "forward":
        return False
    return not options.progress and is_committee(problem, moments)


def run_committee(
    problem: Problem,
    moments: Moments | None,
    initial: tuple[Overlaps, Float[np.ndarray, "L M M"]],
    times: np.ndarray,
    tolerances: np.ndarray,
    options: Options,
) -> Raw:
    """Solve a committee by the machine code."""
    # numba takes a third of a second to import
    from tutelage.stream import committee_kernel as kernel

    assert isinstance(moments, ClosedMoments)
    state, t = initial
    L, K, M = state.r.shape
    n = K + M
    committee = kernel.committee_of(problem, moments, t, options.gradient_flow, FINE)
    times = np.array(times, float)

    # y: the overlaps (K, n, L), the readout and the error, which only guides the steps
    C = joint_covariance(
        np.tensordot(committee.weights, state.r, 1),
        np.tensordot(committee.weights, state.q, 1),
        committee.T,
    )
    error = population_error(
        moments.averages, C, None, state.readout, committee.v_teacher, None
    )
    by_level = np.concatenate([state.q, state.r], 2)
    overlaps = np.moveaxis(by_level, 0, -1)
    y = np.concatenate([overlaps.ravel(), state.readout, [FINE * error]])
    bound = 1.0 + np.max(np.abs(y[:-1]))
    states = np.full((times.size, y.size), np.nan)
    states[times <= 0] = y  # known even if no step is accepted

    outcome = kernel.integrate(
        committee,
        kernel.workspace_for(committee),
        y,
        times,
        float(tolerances[0]),
        float(tolerances[1]),
        BOUND * bound,
        SHORTEST * max(times[-1], 1.0),
        options.max_steps,
        kernel.Tableau(
            stages=dormand_prince.STAGES,
            errors=dormand_prince.ERRORS,
            weights=dormand_prince.WEIGHTS,
        ),
        states,
    )
    code, end_time, steps, largest = outcome
    if code == Status.FAILED and largest > GROWN * bound:
        code = int(Status.DIVERGED)

    end_of_overlaps = K * n * L
    overlaps = states[:, :end_of_overlaps].reshape(-1, K, n, L)
    readout = states[:, end_of_overlaps:-1].copy()
    fields = overlaps @ committee.weights
    R = fields[..., K:].copy()
    Q = fields[..., :K].copy()
    errors = population_error(
        moments.averages,
        joint_covariance(R, Q, committee.T),
        None,
        readout,
        committee.v_teacher,
        shared_parity(problem),
    )
    variables = {"R": R, "Q": Q, "readout": readout}
    if options.keep:
        levels = np.moveaxis(overlaps, -1, 1)
        variables |= {"r": levels[..., K:].copy(), "q": levels[..., :K].copy()}
    # NumPy arrays in place of those of JAX
    output: dict[str, Any] = {
        "variables": variables,
        "error": errors,
        "loss": errors + committee.sigma_2 / 2,
        "status_code": np.array(code),
        "end_time": np.array(end_time),
        "steps": np.array(steps),
        "T": committee.T,
    }
    return Raw(**output)


class _Setup(NamedTuple):
    """A system at its initial state.

    is_guided: the error guides the steps. error_rounding: the rounding of the error. T:
    the teacher's covariance of a problem.
    """

    system: ClosedSystem
    state: PyTree
    is_guided: bool
    error_rounding: float
    T: Array | None


def _set_up(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    initial: PyTree,
    options: Options,
) -> _Setup:
    """Return the system of a problem, or of equations, at its initial state."""
    if isinstance(problem, ClosedSystem):
        return _Setup(
            system=problem, state=initial, is_guided=True, error_rounding=0.0, T=None
        )
    state, t = initial
    system = OrderParameters(
        problem, t, options.gradient_flow, options.keep, moments=moments
    )
    return _Setup(
        system=system,
        state=state,
        # an error that is an average over nodes costs too much to guide the steps
        is_guided=system.closed,
        error_rounding=system.error_rounding,
        T=system.teacher_covariance,
    )


@eqx.filter_jit
def integrate(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    initial: PyTree,
    times: NumpyOrJax,
    tolerances: NumpyOrJax,
    options: Options,
) -> Raw:
    """Integrate the dynamics from a state and record it at the times.

    initial: of a problem, its `initial_overlaps`; of equations, a state.
    """
    # Inside another jit, where some of these are constants, XLA must not compute with
    # them beforehand: it rounds otherwise.
    numbers, rest = eqx.partition((problem, moments, initial), eqx.is_array)
    numbers = jax.lax.optimization_barrier(numbers)
    problem, moments, initial = eqx.combine(numbers, rest)
    times = jnp.asarray(times)
    setup = _set_up(problem, moments, initial, options)
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
        from tutelage.stream.diffrax_solvers import ProgressBar

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
        solution = dormand_prince.integrate(ode, options.axis)
    else:
        from tutelage.stream import diffrax_solvers

        solver = diffrax_solvers.solver_for(options.solver, system, FINE)
        is_reverse = options.gradient == "reverse"
        solution = diffrax_solvers.integrate(ode, solver, is_reverse)
    errors, losses = _errors_and_losses(
        system, moments, solution.records, times, options
    )
    has_failed = solution.code == int(Status.FAILED)
    is_blow_up = has_failed & (_largest(state_of(solution.y)) > GROWN * bound)
    return Raw(
        variables=solution.records,
        error=errors,
        loss=losses,
        status_code=jnp.where(is_blow_up, int(Status.DIVERGED), solution.code),
        end_time=solution.t,
        steps=solution.steps,
        T=setup.T,
    )


def _errors_and_losses(
    system: ClosedSystem,
    moments: Moments | None,
    records: PyTree,
    times: Array,
    options: Options,
) -> tuple[Array, Array]:
    """Return error and loss of everything that was recorded."""
    if not _each_time_costs(moments):
        return jax.vmap(system.error_and_loss)(records, times)
    nodes = by_nodes(moments)
    points = 0 if nodes is None else nodes.points
    at_once = max(1, min(AT_ONCE // max(points, 1), TIMES_AT_ONCE))
    is_reverse = options.gradient == "reverse"
    return _in_turns(system.error_and_loss, records, times, at_once, whole=is_reverse)


def _in_turns(
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


def tolerances(rtol: float | None = None, atol: float | None = None) -> np.ndarray:
    """Return the relative and the absolute tolerance of a step.

    Their defaults are what the precision of JAX's numbers allows.
    """
    usual_rtol, usual_atol = USUAL[np.dtype(jnp.result_type(float)).name]
    rtol = usual_rtol if rtol is None else checks.as_positive("rtol", rtol)
    atol = usual_atol if atol is None else checks.as_positive("atol", atol)
    return np.array([rtol, atol])


def _closed_averages(moments: Moments | None) -> list[Any]:
    """Return the averages of all tasks with squared loss."""
    return [
        task.averages
        for task in single_moments(moments)
        if isinstance(task, ClosedMoments)
    ]


def by_quadrature(moments: Moments | None) -> bool:
    """Return True if squared loss is averaged by quadrature."""
    return any(isinstance(x, QuadratureAverages) for x in _closed_averages(moments))


def random_points(moments: Moments | None, flow: bool) -> int:
    """Return the smallest number of random points behind an average by quadrature.

    It is 0 if there are none. flow: without G.
    """
    counts = [
        averages.random_points(flow)
        for averages in _closed_averages(moments)
        if isinstance(averages, BrokenAverages)
    ]
    return min((count for count in counts if count), default=0)


def by_nodes(moments: Moments | None) -> NodeMoments | None:
    """Return the averages over nodes of the first task that has them.

    The result is None if all are of squared loss.
    """
    for task in single_moments(moments):
        if isinstance(task, NodeMoments):
            return task
    return None


def _in_blocks(moments: Moments | None) -> Moments | None:
    """Return averages over points by a program that serves any number of them."""

    def is_node_moments(x: object) -> TypeGuard[NodeMoments]:
        return isinstance(x, NodeMoments)

    def converted(x: Any) -> Any:
        return x.in_blocks() if is_node_moments(x) else x

    return jax.tree.map(converted, moments, is_leaf=is_node_moments)


def _each_time_costs(moments: Moments | None) -> bool:
    """Return True if the error at a recorded time is more than a formula."""
    return by_nodes(moments) is not None or by_quadrature(moments)


def padded(times: np.ndarray) -> np.ndarray:
    """Return times with the last one repeated up to a standard count.

    Another number of times then needs no other program.
    """
    count = next((n for n in COUNTS if n >= times.size), times.size)
    return np.pad(times, (0, count - times.size), mode="edge")


def first_times(raw: Raw, count: int, lead: int = 0) -> Raw:
    """Return the records of the first times.

    lead: the number of axes before that of times.
    """
    first = (slice(None),) * lead + (slice(count),)
    return raw._replace(
        variables=jax.tree.map(lambda x: x[first], raw.variables),
        error=jax.tree.map(lambda x: x[first], raw.error),
        loss=jax.tree.map(lambda x: x[first], raw.loss),
    )


def choose(solver: str, problem: object, times: np.ndarray) -> str:
    """Return the solver that is asked for, or choose one for "auto".

    "auto" is "stiff" where that saves more than it costs to compile, else "explicit".
    It is also "explicit" if the cost cannot be estimated (traced values, custom
    Equations).
    """
    if checks.known("solver", solver, ("auto", *SOLVERS)) != "auto":
        return solver
    if not isinstance(problem, Problem) or checks.is_traced(problem):
        return "explicit"
    if isinstance(problem.optimizer.momentum, SlowMomentum):
        return "explicit"
    student = problem.student
    K = student.hidden
    M = problem.references.hidden
    fields = K * M + K * (K + 1) // 2
    fields += K * student.train_readout + K * student.train_bias
    if fields > MOST_FIELDS:
        return "explicit"
    explicit = EVALUATIONS * natural_time(problem, float(times[-1])) / STABLE
    stiff = STIFF_STEPS * (STIFF_EVALUATIONS + fields)
    # of an evaluation, in units of that of K = M = 2
    price = (problem.inputs.levels + OVERHEAD) * K * (K + M) / 8
    saved = (explicit - stiff) * price
    if saved > WORTH and not unsuited(problem):
        return "stiff"
    return "explicit"


def natural_time(problem: Problem, end: float) -> float:
    """Return lam_max |v|^2 times the integral of eta.

    So many time constants of the fastest level pass. The result is 0 if it is not
    known.
    """
    lr = problem.optimizer.lr
    largest_eigenvalue = np.max(problem.inputs.eigenvalues)
    fastest = largest_eigenvalue * np.sum(np.square(problem.student.readout))
    fastest = fastest / (1.0 - float(problem.optimizer.momentum))
    if not callable(lr):
        return float(end * lr * fastest)
    times = scan_grid(end)
    rates = jax.vmap(lambda t: rate_at(lr, t))(times)
    if checks.is_traced(rates):  # the function holds traced numbers
        return 0.0
    return float(np.trapezoid(np.asarray(rates), np.asarray(times)) * fastest)


def unsuited(problem: Problem) -> str | None:
    """Return the reason why the stiff solver does not serve a problem.

    Its dynamics then lacks the form that the solver needs. None: it has this form.
    """
    needed = (*CLASSIC, "plain SGD", "fixed momentum", "free norms")
    missing = missing_traits(problem, needed)
    if missing:
        return said_instead(problem, missing[:1])
    if {"noise", "weight_decay"} & set(problem.schedules()):
        return "the label noise or the weight decay is a schedule"
    mask = problem.trainable_mask()
    if mask is not None and np.any(mask != mask[:, :1]):
        return "trainable differs between student units of one level"
    return None
