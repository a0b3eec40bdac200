"""From equations to numbers: a closed system from its initial condition to the last time, recorded on the way.

Committees of erf units take the machine code of dynamics/committee_kernel.py outside of jit, vmap and grad: nothing is compiled
for a new shape. Everything else takes `integrate`, a compiled program that serves all problems of equal shape: all numbers are
data to it. diffrax takes half a second to import and is loaded only for reverse-mode gradients, stiff and implicit solvers.
The error is integrated next to the overlaps only to guide the steps: near perfect learning a tolerance on overlaps of order
one says nothing about an error of 1e-9.
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
from tutelage.dynamics import ClosedSystem, OrderParameters, Overlaps
from tutelage.dynamics.order_parameters import as_arrays, is_committee
from tutelage.errors import Status
from tutelage.integrate import dormand_prince
from tutelage.moments import Moments
from tutelage.moments.matrices import ClosedMoments, joint_covariance, population_error, shared_parity, single_moments
from tutelage.moments.node_moments import NodeMoments
from tutelage.moments.quadrature import BrokenAverages, QuadratureAverages
from tutelage.problem import Problem, SlowMomentum
from tutelage.problem.schedules import rate_at, scan_grid
from tutelage.problem.traits import CLASSIC, missing_traits, said_instead

Tree = TypeVar("Tree")

SOLVERS = ("explicit", "stiff", "implicit")
MAX_STEPS = 100_000
BOUND = 1e8  # overlaps this much larger than at the start have diverged
GROWN = 1e2  # a step that has become too short to take after this much growth is a blow-up in finite time
SHORTEST = 1e-14  # shortest step, in units of the whole time
FINE = 1e4  # the error is taken in this unit, so that its absolute tolerance is finer than that of the overlaps
USUAL = {"float64": (1e-8, 1e-12), "float32": (1e-4, 1e-6)}  # rtol, atol
AT_ONCE, TIMES_AT_ONCE = 2**17, 8  # points over which the error is averaged at once, and recorded times
COUNTS = (256, 512, 1024, 2048, 4096)  # of times: compiled programs are made for these

# An explicit method must resolve the fastest level, whether or not anything still happens there: its steps are about
# STABLE / (eta lam_max |v|^2) long. The stiff one takes a few hundred steps whatever the spectrum, but each also needs the
# derivatives of A, B, G with respect to every field.
STABLE = 8.0  # measured: erf, K = M = 2, 1024 levels, beta = 1
EVALUATIONS = 12  # of A, B, G in an explicit step
STIFF_STEPS = 400
STIFF_EVALUATIONS = 20  # in each of them, besides one for each derivative
OVERHEAD = 150  # levels: an evaluation costs as much as so many of them before the first
WORTH = 6e7  # evaluations, times levels, that must be saved: the stiff method compiles for longer, by about so much
MOST_FIELDS = 200  # the dense system grows with the square of their number


class Options(NamedTuple):
    """What the compiled function depends on besides shapes. axis: the name of the vmapped axis of members, if any."""

    gradient_flow: bool
    solver: str
    keep: bool
    gradient: str = "forward"
    max_steps: int = MAX_STEPS
    progress: bool = False
    axis: str | None = None


class Raw(NamedTuple):
    """What comes out of the compiled function."""

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
    """A solve by the machine code or the program; NumPy arrays unless something is traced."""
    if has_machine_code(problem, moments, options) and not checks.is_traced(initial):
        return run_committee(problem, moments, initial, times, tolerances, options)
    if options.gradient == "forward" and not checks.is_traced(problem, initial) and jax.default_backend() == "cpu":
        moments = _in_blocks(moments)  # a GPU averages all points at once
    at = times if _each_time_costs(moments) and options.gradient == "reverse" else padded(times)
    raw = integrate(as_arrays(problem), moments, as_arrays(initial), at, tolerances, options)
    return first_times(raw if checks.is_traced(raw) else eager(raw), times.size)


def has_machine_code(problem: object, moments: Moments | None, options: Options) -> TypeGuard[Problem]:
    """Does the kernel integrate this problem? Its numbers must be known: no part of it may be traced."""
    plain = options.solver == "explicit" and options.gradient == "forward" and not options.progress
    return plain and is_committee(problem, moments)


def run_committee(
    problem: Problem,
    moments: Moments | None,
    initial: tuple[Overlaps, Float[np.ndarray, "L M M"]],
    times: np.ndarray,
    tolerances: np.ndarray,
    options: Options,
) -> Raw:
    """The way into the machine code and back."""
    from tutelage.dynamics import committee_kernel as kernel  # numba takes a third of a second to import

    assert isinstance(moments, ClosedMoments)
    (r, q, v, *_), t = initial
    L, K, M = r.shape
    n, one = K + M, kernel.committee_of(problem, moments, t, options.gradient_flow, FINE)
    R, Q = (np.tensordot(one.weights, x, 1) for x in (r, q))
    C = joint_covariance(R, Q, one.T)
    error = population_error(moments.averages, C, None, v, one.v_teacher, None)  # only guides the steps
    y = np.concatenate([np.moveaxis(np.concatenate([q, r], 2), 0, -1).ravel(), v, [FINE * error]])
    bound, times = 1.0 + np.max(np.abs(y[:-1])), np.array(times, float)
    states = np.full((times.size, y.size), np.nan)
    states[times <= 0] = y  # known even if no step is accepted
    code, end, steps, size = kernel.integrate(
        one,
        kernel.room_for(one),
        y,
        times,
        float(tolerances[0]),
        float(tolerances[1]),
        BOUND * bound,
        SHORTEST * max(times[-1], 1.0),
        options.max_steps,
        (dormand_prince.STAGES, dormand_prince.ERRORS, dormand_prince.WEIGHTS),
        states,
    )
    if code == Status.FAILED and size > GROWN * bound:
        code = int(Status.DIVERGED)
    overlaps, v = states[:, : K * n * L].reshape(-1, K, n, L), states[:, K * n * L : -1].copy()
    fields = overlaps @ one.weights
    R, Q = fields[..., K:].copy(), fields[..., :K].copy()
    C = joint_covariance(R, Q, one.T)
    errors = population_error(moments.averages, C, None, v, one.v_teacher, shared_parity(problem))
    variables = {"R": R, "Q": Q, "readout": v}
    if options.keep:
        levels = np.moveaxis(overlaps, -1, 1)
        variables |= {"r": levels[..., K:].copy(), "q": levels[..., :K].copy()}
    found: Any = (variables, errors, errors + one.sigma_2 / 2, *map(np.array, (code, end, steps)), one.T)
    return Raw(*found)


@eqx.filter_jit
def integrate(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    initial: PyTree,
    times: NumpyOrJax,
    tolerances: NumpyOrJax,
    options: Options,
) -> Raw:
    """The dynamics from a state, recorded at the times. initial: of a problem, its `initial_overlaps`; of equations, a state."""
    # inside another jit, where some of these are constants, XLA must not compute with them beforehand: it rounds otherwise
    numbers, rest = eqx.partition((problem, moments, initial), eqx.is_array)
    problem, moments, initial = eqx.combine(jax.lax.optimization_barrier(numbers), rest)
    T, atol, times = None, tolerances[1], jnp.asarray(times)
    if isinstance(problem, ClosedSystem):
        system, state, guided, rounding = problem, initial, True, 0.0
    else:
        state, t = initial
        system = OrderParameters(problem, t, options.gradient_flow, options.keep, moments=moments)
        # the error guides the steps, but not where each value of it is an average over nodes
        T, guided, rounding = system.teacher_covariance, system.closed, system.error_rounding
    error = system.error(system.observe(state)) if guided else jnp.zeros(())
    pack, parts = (lambda tree: ravel_pytree(tree)[0]), ravel_pytree((state, error))[1]
    if options.solver == "stiff":  # which looks at the parts; others combine the stages of one vector once a step
        pack = parts = lambda tree: tree
    elif guided and rounding:  # no step is refused for what rounding alone does to the error
        of_state, of_error = jax.tree.map(lambda x: jnp.full_like(x, atol), (state, error))
        atol = pack((of_state, jnp.maximum(of_error, FINE * rounding)))
    bound = 1.0 + _largest(state)

    def rates(t: Array, y: PyTree) -> PyTree:
        drift, error_rate = system.drift_and_error_rate(t, parts(y)[0])
        # a GPU would otherwise sum this number term by term in the kernel that packs the vector, and all of it would wait
        return pack((drift, jax.lax.optimization_barrier(error_rate * FINE)))

    meter = None
    if options.progress:
        from tutelage.integrate.diffrax_solvers import ProgressBar

        meter = ProgressBar()
    ode = dormand_prince.ODE(
        rates,
        jax.lax.optimization_barrier(pack((state, error * FINE))),  # no constant, as above
        times,
        observe=lambda y: system.observe(parts(y)[0]),
        diverged=lambda y: ~(_largest(parts(y)[0]) < BOUND * bound),  # also true for NaN
        rtol=tolerances[0],
        atol=atol,
        shortest=SHORTEST * jnp.maximum(times[-1], 1.0),
        max_steps=options.max_steps,
        stops=system.switches(times[-1]),
        meter=meter,
    )
    if options.solver == "explicit" and options.gradient == "forward":
        done = dormand_prince.integrate(ode, options.axis)
    else:
        from tutelage.integrate import diffrax_solvers

        solver = diffrax_solvers.solver_for(options.solver, system, FINE)
        done = diffrax_solvers.integrate(ode, solver, options.gradient == "reverse")
    if _each_time_costs(moments):
        nodes = by_nodes(moments)
        some = max(1, min(AT_ONCE // max(nodes.points if nodes else 0, 1), TIMES_AT_ONCE))
        errors, losses = _in_turns(system.error_and_loss, done.records, times, some, whole=options.gradient == "reverse")
    else:
        errors, losses = jax.vmap(system.error_and_loss)(done.records, times)
    blown_up = (done.code == int(Status.FAILED)) & (_largest(parts(done.y)[0]) > GROWN * bound)
    return Raw(done.records, errors, losses, jnp.where(blown_up, int(Status.DIVERGED), done.code), done.t, done.steps, T)


def _in_turns(function: Callable[..., Tree], records: PyTree, times: Array, some: int, whole: bool) -> Tree:
    """function(record, time), `some` times at once and only as long as they differ; whole: for all, as reverse mode needs it."""
    count = times.shape[0]
    at = lambda first: jnp.minimum(first + jnp.arange(some), count - 1)  # noqa: E731
    one = lambda place: function(jax.tree.map(lambda x: x[place], records), times[place])  # noqa: E731

    def turn(i: Array, found: Tree) -> Tree:
        return jax.tree.map(lambda x, new: x.at[at(i * some)].set(new), found, jax.vmap(one)(at(i * some)))

    empty = jax.tree.map(lambda x: jnp.full((count, *x.shape), jnp.nan, x.dtype), jax.eval_shape(one, 0))
    different = count if whole else jnp.searchsorted(times, times[-1]) + 1
    return jax.lax.fori_loop(0, -(-different // some), turn, empty)


def _largest(state: PyTree) -> Array:
    return jnp.max(jnp.abs(ravel_pytree(state)[0]))


def eager(tree: Tree) -> Tree:
    """The same tree with NumPy arrays: fetched once, sliced freely."""
    return jax.tree.map(np.asarray, jax.device_get(tree))


def tolerances(rtol: float | None = None, atol: float | None = None) -> np.ndarray:
    """Relative and absolute tolerance of a step; None: what the precision of JAX's numbers allows."""
    usual_rtol, usual_atol = USUAL[np.dtype(jnp.result_type(float)).name]
    rtol = usual_rtol if rtol is None else checks.as_positive("rtol", rtol)
    return np.array([rtol, usual_atol if atol is None else checks.as_positive("atol", atol)])


def by_quadrature(moments: Moments | None) -> bool:
    """Is squared loss averaged by quadrature?"""
    closed = [one for one in single_moments(moments) if isinstance(one, ClosedMoments)]
    return any(isinstance(one.averages, QuadratureAverages) for one in closed)


def random_points(moments: Moments | None, flow: bool) -> int:
    """The smallest number of random points behind an average by quadrature; 0: there are none. flow: without G."""
    closed = [one.averages for one in single_moments(moments) if isinstance(one, ClosedMoments)]
    found = [averages.random_points(flow) for averages in closed if isinstance(averages, BrokenAverages)]
    return min((points for points in found if points), default=0)


def by_nodes(moments: Moments | None) -> NodeMoments | None:
    """The averages over nodes, of the first task that has them; None where all are of squared loss."""
    return next((one for one in single_moments(moments) if isinstance(one, NodeMoments)), None)


def _in_blocks(moments: Moments | None) -> Moments | None:
    """Averages over points by a program that serves any number of them."""
    is_set = lambda x: isinstance(x, NodeMoments)  # noqa: E731
    return jax.tree.map(lambda x: x.in_blocks() if is_set(x) else x, moments, is_leaf=is_set)


def _each_time_costs(moments: Moments | None) -> bool:
    """Is the error at a recorded time more than a formula?"""
    return by_nodes(moments) is not None or by_quadrature(moments)


def padded(times: np.ndarray) -> np.ndarray:
    """The last time repeated up to a standard count: another number of times is then no other program."""
    count = next((n for n in COUNTS if n >= times.size), times.size)
    return np.pad(times, (0, count - times.size), mode="edge")


def first_times(raw: Raw, count: int, lead: int = 0) -> Raw:
    """What was recorded at the first times. lead: the number of axes before that of times."""
    first = (slice(None),) * lead + (slice(count),)
    variables, error, loss = jax.tree.map(lambda x: x[first], (raw.variables, raw.error, raw.loss))
    return raw._replace(variables=variables, error=error, loss=loss)


def choose(solver: str, problem: object, times: np.ndarray) -> str:
    """The solver that is asked for; for "auto" the stiff one where it saves more than it costs to compile, else "explicit"."""
    # That is also chosen if the cost cannot be estimated (traced values, custom Equations).
    if checks.known("solver", solver, ("auto", *SOLVERS)) != "auto":
        return solver
    if not isinstance(problem, Problem) or isinstance(problem.sgd.momentum, SlowMomentum) or checks.is_traced(problem):
        return "explicit"
    K, M, student = problem.student.hidden, problem.references.hidden, problem.student
    fields = K * M + K * (K + 1) // 2 + K * student.train_readout + K * student.train_bias
    explicit = EVALUATIONS * natural_time(problem, float(times[-1])) / STABLE
    stiff = STIFF_STEPS * (STIFF_EVALUATIONS + fields)
    price = (problem.inputs.levels + OVERHEAD) * K * (K + M) / 8  # of an evaluation; K = M = 2 is one
    worth = fields <= MOST_FIELDS and (explicit - stiff) * price > WORTH
    return "stiff" if worth and not unsuited(problem) else "explicit"


def natural_time(problem: Problem, end: float) -> float:
    """lam_max |v|^2 times the integral of eta: how many time constants of the fastest level pass; 0 if it is not known."""
    lr = problem.sgd.lr
    fastest = np.max(problem.inputs.eigenvalues) * np.sum(np.square(problem.student.readout))
    fastest = fastest / (1.0 - float(problem.sgd.momentum))
    if not callable(lr):
        return float(end * lr * fastest)
    times = scan_grid(end)
    rates = jax.vmap(lambda t: rate_at(lr, t))(times)
    if checks.is_traced(rates):  # the function holds traced numbers
        return 0.0
    return float(np.trapezoid(np.asarray(rates), np.asarray(times)) * fastest)


def unsuited(problem: Problem) -> str | None:
    """Why the dynamics of a problem does not have the form that the stiff solver needs; None if it has."""
    missing = missing_traits(problem, (*CLASSIC, "fixed momentum", "free norms"))
    if missing:
        return said_instead(problem, missing[:1])
    if {"noise", "weight_decay"} & set(problem.schedules()):
        return "the label noise or the weight decay is a schedule"
    mask = problem.trainable_mask()
    if mask is not None and np.any(mask != mask[:, :1]):
        return "trainable differs between student units of one level"
    return None
