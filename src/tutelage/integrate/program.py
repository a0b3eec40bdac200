"""The compiled program: a closed system from its initial condition to the last time, recorded on the way.

One program serves all problems of equal shape; learning rates, noise, readouts, spectra, initial conditions, tolerances and
(up to a standard count) times are data to it. Plain solves use the explicit integrator of dormand_prince.py. diffrax, which
takes half a second to import, is loaded only for reverse-mode gradients, stiff and implicit solvers (diffrax_path.py).
The error is integrated next to the overlaps only to guide the steps: near perfect learning a tolerance on overlaps of order
one says nothing about an error of 1e-9.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from tutelage import checks
from tutelage._types import Array, NumpyOrJax
from tutelage.dynamics import ClosedSystem, OrderParameters, initial_overlaps
from tutelage.dynamics.resolvent import unsuited
from tutelage.errors import Status
from tutelage.integrate import dormand_prince
from tutelage.moments import ClosedMoments, Moments, NodeMoments, single_moments
from tutelage.moments.quadrature import QuadratureAverages
from tutelage.problem import Problem, SlowMomentum, Start
from tutelage.problem.schedules import rate_at, scan_grid

SOLVERS = ("explicit", "stiff", "implicit")
MAX_STEPS = 100_000
BOUND = 1e8  # overlaps this much larger than at the start have diverged
GROWN = 1e2  # a step that has become too short to take after this much growth is a blow-up in finite time
SHORTEST = 1e-14  # shortest step, in units of the whole time
FINE = 1e4  # the error is taken in this unit, so that its absolute tolerance is finer than that of the overlaps
USUAL = {"float64": (1e-8, 1e-12), "float32": (1e-4, 1e-6)}  # rtol, atol
AT_ONCE, MOST_AT_ONCE = 2**17, 8  # points over which the error is averaged at once, and recorded times
COUNTS = (64, 256, 512, 1024, 2048, 4096)  # of times: compiled programs are made for these

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


@eqx.filter_jit
def integrate(
    problem: Problem | ClosedSystem,
    moments: Moments | None,
    start: PyTree,
    times: NumpyOrJax,
    tolerances: NumpyOrJax,
    options: Options,
) -> Raw:
    """The dynamics of a problem (or of custom equations) from its initial condition, recorded at the times."""
    # inside another jit, where some of these are constants, XLA must not compute with them beforehand: it rounds otherwise
    numbers, rest = eqx.partition((problem, moments, start), eqx.is_array)
    problem, moments, start = eqx.combine(jax.lax.optimization_barrier(numbers), rest)
    system, state, T = _system(problem, moments, start, options)
    error = system.error(system.observe(state)) if _guided(system) else jnp.zeros(())
    bound = BOUND * (1.0 + _largest(state))
    pack, parts = _packing((state, error), options.solver)

    def rates(t: Array, y: PyTree) -> PyTree:
        drift, error_rate = system.drift_and_error_rate(t, parts(y)[0])
        # a GPU would otherwise sum this number term by term in the kernel that packs the vector, and all of it would wait
        return pack((drift, jax.lax.optimization_barrier(error_rate * FINE)))

    rtol, atol = tolerances
    done = _integrator(system, options)(
        rates,
        jax.lax.optimization_barrier(pack((state, error * FINE))),  # no constant, as above
        times,
        observe=lambda y: system.observe(parts(y)[0]),
        diverged=lambda y: ~(_largest(parts(y)[0]) < bound),  # also true for NaN
        rtol=rtol,
        atol=_absolute(atol, system, (state, error), pack) if options.solver != "stiff" else atol,
        shortest=SHORTEST * jnp.maximum(times[-1], 1.0),
        max_steps=options.max_steps,
        stops=system.switches(times[-1]),
        meter=_meter() if options.progress else None,
    )
    errors, losses = _judged(system, done.records, jnp.asarray(times))
    blown_up = _largest(parts(done.y)[0]) > GROWN * (1.0 + _largest(state))
    code = jnp.where((done.code == int(Status.FAILED)) & blown_up, int(Status.DIVERGED), done.code)
    return Raw(done.records, errors, losses, code, done.t, done.steps, T)


def _integrator(system: ClosedSystem, options: Options) -> Callable[..., dormand_prince.Integrated]:
    """The explicit integrator of this package, or diffrax for what it does not do."""
    if options.solver == "explicit" and options.gradient == "forward":
        return lambda *args, **options_: dormand_prince.integrate(*args, **options_, axis=options.axis)
    from tutelage.integrate import diffrax_path

    solver, reverse = diffrax_path.solver_for(options.solver, system, FINE), options.gradient == "reverse"
    return lambda *args, **options_: diffrax_path.integrate(*args, **options_, solver=solver, reverse=reverse)


def _meter() -> Any:
    from tutelage.progress import ProgressBar

    return ProgressBar()


def _system(
    problem: Problem | ClosedSystem, moments: Moments | None, start: PyTree, options: Options
) -> tuple[ClosedSystem, PyTree, Array | None]:
    if isinstance(problem, ClosedSystem):
        return problem, start, None
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(problem, t, options.gradient_flow, options.keep, moments=moments)
    return system, state, system.covariances(state)[2]


def _guided(system: ClosedSystem) -> bool:
    """Is the error integrated next to the state to guide the steps? Not where each value of it is an average over nodes."""
    return not isinstance(system, OrderParameters) or system.closed


def _judged(system: ClosedSystem, observed: dict[str, Array], times: Array) -> tuple[Array, Array]:
    """Error and training loss at every recorded time; averages over nodes for some times at once, as memory allows."""
    if isinstance(system, OrderParameters) and not _guided(system):
        nodes = by_nodes(system.moments)
        count = jax.tree.leaves(observed)[0].shape[0]
        some = max(1, min(AT_ONCE // max(nodes.points if nodes else 0, 1), MOST_AT_ONCE, count))
        turns = -(-count // some)

        def in_turns(rows: Array) -> Array:
            rows = jnp.pad(rows, [(0, turns * some - count)] + [(0, 0)] * (rows.ndim - 1), mode="edge")
            return rows.reshape(turns, some, *rows.shape[1:])

        both = jax.vmap(lambda seen, t: (system.error(seen), system.loss(seen, t)))
        errors, losses = jax.lax.map(lambda some: both(*some), jax.tree.map(in_turns, (observed, times)))
        return errors.reshape(-1, *errors.shape[2:])[:count], losses.reshape(-1, *losses.shape[2:])[:count]
    errors = jax.vmap(system.error)(observed)
    if isinstance(system, OrderParameters):
        noise = jax.vmap(lambda t: jnp.asarray(system.problem.labeled_at(t).noise))(times)
        return errors, errors + noise.reshape(-1, *[1] * (errors.ndim - 1)) ** 2 / 2
    return errors, jnp.full_like(errors, jnp.nan)


def _packing(like: PyTree, solver: str) -> tuple[Callable[[PyTree], PyTree], Callable[[PyTree], PyTree]]:
    """How the solver is given a state, and back: as one vector, whose stages are combined once a step, not once for each
    part of the state; but the stiff solver looks at the parts."""
    if solver == "stiff":
        return (lambda tree: tree), (lambda tree: tree)
    return (lambda tree: ravel_pytree(tree)[0]), ravel_pytree(like)[1]


def _absolute(atol: Array, system: ClosedSystem, like: tuple[PyTree, Array], pack: Callable[[PyTree], PyTree]) -> Array:
    """The tolerance of each number of the state, and of the error: no step is refused for what rounding alone does to it."""
    rounding = system.error_rounding if isinstance(system, OrderParameters) and system.closed else 0.0
    if not rounding:
        return atol
    state, error = jax.tree.map(lambda x: jnp.full_like(x, atol), like)
    return pack((state, jnp.maximum(error, FINE * rounding)))


def _largest(state: PyTree) -> Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(state)]))


def tolerances(rtol: float | None = None, atol: float | None = None) -> np.ndarray:
    """Relative and absolute tolerance of a step; None: what the precision of JAX's numbers allows."""
    usual = USUAL[np.dtype(jnp.result_type(float)).name]
    given = {"rtol": rtol, "atol": atol}
    return np.array([u if x is None else checks.as_positive(n, x) for (n, x), u in zip(given.items(), usual, strict=True)])


def anonymous(start: PyTree) -> PyTree:
    """A start without its N: the limit does not depend on it, so neither must the compiled program."""
    return start.without_dim() if isinstance(start, Start) else start


def by_quadrature(moments: Moments | None) -> bool:
    """Is squared loss averaged by quadrature?"""
    closed = [one for one in single_moments(moments) if isinstance(one, ClosedMoments)]
    return any(isinstance(one.averages, QuadratureAverages) for one in closed)


def by_nodes(moments: Moments | None) -> NodeMoments | None:
    """The averages over nodes, of the first task that has them; None where all are of squared loss."""
    return next((one for one in single_moments(moments) if isinstance(one, NodeMoments)), None)


def padded(times: np.ndarray, moments: Moments | None) -> np.ndarray:
    """The last time repeated up to a standard count: another number of times is then no other program.

    Not where each time costs a quadrature, nor for more times than the largest count.
    """
    costly = by_nodes(moments) is not None or by_quadrature(moments)
    count = next((n for n in COUNTS if n >= times.size and not costly), times.size)
    return np.pad(times, (0, count - times.size), mode="edge")


def first_times(raw: Raw, count: int) -> Raw:
    """What was recorded at the first times."""
    variables, error, loss = jax.tree.map(lambda x: x[:count], (raw.variables, raw.error, raw.loss))
    return raw._replace(variables=variables, error=error, loss=loss)


def choose(problem: object, times: np.ndarray) -> str:
    """The word "stiff" where the dynamics has the form for it and saves more than it costs to compile, else "explicit".

    Returns "explicit" if the cost cannot be estimated (traced values, custom Equations).
    """
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
    """lam_max |v|^2 times the integral of eta: how many time constants of the fastest level pass.

    0 if it cannot be known.
    """
    sgd = problem.sgd
    fastest = np.max(problem.inputs.eigenvalues) * np.sum(np.square(problem.student.readout))
    if callable(sgd.lr):
        times = scan_grid(end)
        rates = jax.vmap(lambda t: rate_at(sgd.lr, t))(times)
        if checks.is_traced(rates):  # the function holds traced numbers
            return 0.0
        clock = np.trapezoid(np.asarray(rates), np.asarray(times))
    else:
        clock = end * float(sgd.lr)
    return float(clock / (1.0 - float(sgd.momentum)) * fastest)
