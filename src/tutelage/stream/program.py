"""The way from equations to numbers: a solve, recorded at the requested times.

Committees of erf units take the machine code of committee_kernel.py outside of
jit, vmap and grad: nothing is compiled for a new shape. Everything else takes
`integrate_equations`, a compiled program that serves all problems of equal shape: all numbers are
data to it. diffrax takes half a second to import and is loaded only for reverse-mode
gradients, stiff and implicit solvers.
The error is integrated next to the overlaps only to guide the steps: near perfect
learning a tolerance on overlaps of order one says nothing about an error of 1e-9.
"""

from functools import partial
from typing import Any, TypeGuard, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from tutelage import checks
from tutelage._types import Array, NumpyOrJax
from tutelage.errors import Status
from tutelage.problem import Problem
from tutelage.problem.traits import CLASSIC, missing_traits, said_instead
from tutelage.solvers import ClosedSystem
from tutelage.solvers.program import (
    BOUND,
    FINE,
    GROWN,
    SHORTEST,
    SOLVERS,
    Options,
    Setup,
    SolveOutput,
    eager,
    first_times,
    in_turns,
    integrate_system,
    padded,
)
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

# Points over which the error is averaged at once, and recorded times.
AT_ONCE = 2**17
TIMES_AT_ONCE = 8

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


def run(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    initial: PyTree,
    times: np.ndarray,
    tolerances: np.ndarray,
    options: Options,
) -> SolveOutput:
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
    output = integrate_equations(
        as_arrays(problem),
        moments,
        as_arrays(initial),
        solved_times,
        tolerances,
        options,
    )
    if not checks.is_traced(output):
        output = eager(output)
    return first_times(output, times.size)


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
) -> SolveOutput:
    """Solve a committee by the machine code."""
    # numba takes a third of a second to import
    from tutelage.solvers.step_kernel import TABLEAU
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

    outcome = kernel.integrate_committee(
        committee,
        kernel.workspace_for(committee),
        y,
        times,
        float(tolerances[0]),
        float(tolerances[1]),
        BOUND * bound,
        SHORTEST * max(times[-1], 1.0),
        options.max_steps,
        TABLEAU,
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
    return SolveOutput(**output)


def _set_up(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    initial: PyTree,
    options: Options,
) -> Setup:
    """Return the system of a problem, or of equations, at its initial state."""
    if isinstance(problem, ClosedSystem):
        return Setup(
            system=problem,
            state=initial,
            is_guided=True,
            error_rounding=0.0,
            T=None,
            diffrax_solver=partial(diffrax_solver, system=problem),
        )
    state, t = initial
    system = OrderParameters(
        problem, t, options.gradient_flow, options.keep, moments=moments
    )
    return Setup(
        system=system,
        state=state,
        # an error that is an average over nodes costs too much to guide the steps
        is_guided=system.closed,
        error_rounding=system.error_rounding,
        T=system.teacher_covariance,
        diffrax_solver=partial(diffrax_solver, system=system),
    )


def diffrax_solver(name: str, system: ClosedSystem) -> Any:
    """Return the diffrax solver of a system; diffrax is imported only now."""
    from tutelage.stream import stiff_overlaps

    return stiff_overlaps.solver_for(name, system, FINE)


@eqx.filter_jit
def integrate_equations(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    initial: PyTree,
    times: NumpyOrJax,
    tolerances: NumpyOrJax,
    options: Options,
) -> SolveOutput:
    """Integrate the dynamics from a state and record it at the times.

    initial: of a problem, its `initial_overlaps`; of equations, a state.
    """
    # Inside another jit, where some of these are constants, XLA must not compute with
    # them beforehand: it rounds otherwise.
    numbers, rest = eqx.partition((problem, moments, initial), eqx.is_array)
    numbers = jax.lax.optimization_barrier(numbers)
    problem, moments, initial = eqx.combine(numbers, rest)
    setup = _set_up(problem, moments, initial, options)

    def evaluate(records: PyTree, times: Array) -> tuple[Array, Array]:
        return _errors_and_losses(setup.system, moments, records, times, options)

    return integrate_system(setup, jnp.asarray(times), tolerances, options, evaluate)


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
    return in_turns(system.error_and_loss, records, times, at_once, whole=is_reverse)


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
    if problem.optimizer.slow_momentum is not None:
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
    if {"noise", "weight_decay"} & set(problem.schedules):
        return "the label noise or the weight decay is a schedule"
    mask = problem.trainable_mask()
    if mask is not None and np.any(mask != mask[:, :1]):
        return "trainable differs between student units of one level"
    return None
