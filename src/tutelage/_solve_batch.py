"""Many problems of one shape, solved together on all cores or on a GPU.

A batch is one program: its members take their steps side by side, each with its own step size, until the slowest has
finished. On a CPU a few members at a time fit into the cache and end at about the same step, and threads keep every core
busy with chunks of them (compiled programs hold no lock); on a GPU as many as its memory allows run at once.
"""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from tutelage import checks
from tutelage._pool import cores
from tutelage._solve import assemble, keeps_blocks, prepare
from tutelage._types import ArrayLike, Numbers, NumpyOrJax
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import DivergenceWarning, InputError, kind_of
from tutelage.integrate.program import (
    AT_ONCE,
    MAX_STEPS,
    SOLVERS,
    Options,
    Raw,
    anonymous,
    by_nodes,
    choose,
    first_times,
    integrate,
    padded,
    tolerances,
)
from tutelage.moments import Moments, Quadrature, moments_for
from tutelage.problem import Problem, Start, random_start
from tutelage.times import check_times
from tutelage.trajectory import Trajectory, eager

SHAPES = (
    *("hidden", "activation", "outputs", "levels", "student", "teacher", "inputs", "sgd"),
    *("loss", "labels", "rule", "function", "metric", "teachers", "schedule", "drift"),
)
FLAGS = ("train_readout", "train_bias", "trainable", "spherical", "normalize", "random", "jumps", "heads", "order")
MEMBERS = "members"  # the name of the batch axis inside the program
ON_CPU = 32  # members that step together
IN_MEMORY = 2**30  # numbers that averages over points may hold on a GPU: 8 GiB
ON_GPU = 2**24  # numbers of the members that step together: more of them would not stay in a GPU's cache
FETCHING = 6  # threads: a GPU computes some chunks while others are fetched


def solve_batch(
    problem: Problem,
    over: Mapping[str, Numbers],
    start: Start | Sequence[Start] | None = None,
    times: ArrayLike | Sequence[float] = 100.0,
    *,
    gradient_flow: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    solver: str = "auto",
    quadrature: Quadrature | None = None,
    keep: str = "fields",
    max_steps: int = MAX_STEPS,
    chunk: int | None = None,
    workers: int | None = None,
) -> Trajectory:
    """Solve many problems that differ in numbers: one `Trajectory` with a leading axis `batch`.

    Parameters
    ----------
    problem : Problem
        The problem that all members share.
    over : dict of lists
        What differs, by the names of `Problem.replace`, with one entry per member: {"lr": rates, "noise": sigmas}. All
        lists have one length; make combinations with np.meshgrid.
    start : Start or list of Start, optional
        One initial condition for all members, or one each.
    times, gradient_flow, rtol, atol, solver, quadrature, max_steps
        As in `solve`.
    keep : str
        "blocks" also records r and q per level.
    chunk : int, optional
        Members that step together. Default: 32 on a CPU, as many as fit on a GPU.
    workers : int, optional
        Threads. Default: the cores.

    Returns
    -------
    Trajectory
        Each member equals the result of `solve`, to the tolerance. A member that diverges is NaN from there on;
        `status_code` marks it.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> rates = [0.1, 0.2, 0.5]
    >>> curves = tu.solve_batch(problem, {"lr": rates}, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> curves.error.shape, curves.error[:, -1].round(4)
    ((3, 11), array([0.028 , 0.0163, 0.0145]))
    """
    solver = checks.known("solver", solver, ("auto", *SOLVERS))
    values, count = _values(problem, over)
    largest = problem.replace(**{n: x[-1] if _are_probabilities(n) else x.max(axis=0) for n, x in values.items()})
    times, starts = check_times(times), _starts(problem, start, count)
    for index in (0, count - 1):
        prepare(
            problem.replace(**{name: value[index] for name, value in values.items()}),
            starts[min(index, len(starts) - 1)],
            times,
        )
    options = Options(
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        solver=choose(largest, times) if solver == "auto" else solver,
        keep=keeps_blocks(problem, keep),
        max_steps=checks.as_count("max_steps", max_steps),
    )
    problems = eqx.filter_vmap(lambda each: as_arrays(problem.replace(**each)))(values)
    problems = jax.tree.map(lambda x: np.asarray(x) if eqx.is_array(x) else x, problems)
    # one start is shared, not copied
    begin = jax.tree.map(lambda *x: np.stack(x).astype(float), *map(anonymous, starts))
    begin = jax.tree.map(lambda x: np.broadcast_to(x, (count, *x.shape[1:])), begin)
    averages = moments_for(problem, quadrature, others=[largest])
    size = min(count, _fitting(problem, times, averages) if chunk is None else checks.as_count("chunk", chunk))
    size = -(-count // -(-count // size))  # chunks of equal size
    workers = cores() if workers is None else checks.as_count("workers", workers)
    steps = tolerances(rtol, atol)
    raw = side_by_side(problems, averages, begin, times, steps, options, size=size, workers=workers)
    settings = (("gradient_flow", gradient_flow), ("rtol", float(steps[0])), ("solver", options.solver))
    trajectory = assemble(raw, times, problems, begin, settings)
    if not trajectory.finished:
        warnings.warn(f"of these problems {trajectory.status}", DivergenceWarning, stacklevel=2)
    return trajectory


def _values(problem: Problem, over: Mapping[str, Numbers]) -> tuple[dict[str, np.ndarray], int]:
    """What differs, as arrays with a leading axis of members; the extremes of each are tried on the problem."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {kind_of(problem)}; solve_batch takes a tutelage Problem.")
    if not isinstance(over, Mapping) or not over:
        raise InputError(f"over is {checks.shown(over)}; name what differs between the problems, as {{'lr': rates}}.")
    for name in over:
        if str(name).rpartition(".")[2] in SHAPES + FLAGS:
            raise InputError(
                f"over has {name!r}, which changes shapes, functions or flags; call solve_batch once for each, or use sweep."
            )
    values = {name: _entries(name, value) for name, value in over.items()}
    lengths = {name: value.shape[0] if value.ndim else 0 for name, value in values.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise InputError(f"over has lists of lengths {lengths}; give one entry per problem to each, and at least one.")
    for name, value in values.items():
        for extreme in value if _are_probabilities(name) else (value.min(axis=0), value.max(axis=0)):
            problem.replace(**{name: extreme})
    return values, next(iter(lengths.values()))


def _are_probabilities(name: str) -> bool:
    """Do the numbers of each member sum to one? Then the largest of all members are no member."""
    return str(name).endswith("schedule.shares")


def _entries(name: str, value: Numbers) -> np.ndarray:
    """One list of `over` as an array of floats; sizes of batches as whole numbers."""
    array = np.asarray(checks.as_array(name, value), dtype=float)
    if str(name).rpartition(".")[2] != "batch" or not np.all(np.isfinite(array)):
        return array
    sizes = [checks.as_count(name, int(x) if x == int(x) else float(x)) for x in array.ravel()]
    return np.array(sizes).reshape(array.shape)


def _starts(problem: Problem, start: Start | Sequence[Start] | None, count: int) -> list[Start]:
    """One start for all, or one for each."""
    if start is None:
        start = random_start(problem, dim=problem.inputs.usual_dim)
    starts = list(start) if isinstance(start, Sequence) else [start]
    if isinstance(start, Sequence) and len(starts) != count:
        raise InputError(
            f"{len(starts)} initial conditions are given for {count} problems; give one for all, or one for each."
        )
    return starts


def _fitting(problem: Problem, times: np.ndarray, moments: Moments) -> int:
    """Members that step together on this device."""
    if jax.default_backend() == "cpu":
        return ON_CPU
    K, M, L = problem.student.hidden, problem.references.hidden, problem.inputs.levels
    nodes, fitting = by_nodes(moments), ON_GPU // (K * (K + M) * (times.size + 20 * L + K * (K + M)))
    if nodes is not None and nodes.points:  # fields, updates and their products at all points
        fitting = min(fitting, IN_MEMORY // (max(nodes.points, AT_ONCE) * (2 * K + M + K**2)))
    return max(1, fitting)


def side_by_side(
    problems: PyTree,
    moments: Moments,
    starts: PyTree,
    times: np.ndarray,
    tolerances: np.ndarray,
    options: Options,
    *,
    size: int,
    workers: int,
) -> Raw:
    """All members, `size` at a time; the last chunk repeats its last member, so that one program serves all.

    problems, starts: one of each, with a leading axis of members on every number. tolerances: rtol, atol.
    """
    numbers, rest = eqx.partition((problems, starts), eqx.is_array)  # a rate may be a function, the same for all
    count, on_cpu = jax.tree.leaves(numbers)[0].shape[0], jax.default_backend() == "cpu"
    shared = padded(times, moments) if on_cpu else times, tolerances, options
    whole, claim = [], Lock()

    def one(first: int) -> None:
        which = np.minimum(np.arange(first, first + size), count - 1)
        raw = _together(eqx.combine(jax.tree.map(lambda x: x[which], numbers), rest), moments, *shared)
        part = eager(jax.vmap(lambda each: first_times(each, times.size))(raw))  # the padding stays on the device
        with claim:
            if not whole:
                whole.append(jax.tree.map(lambda x: np.empty((count, *x.shape[1:]), x.dtype), part))
        for all_members, these in zip(*map(jax.tree.leaves, (whole[0], part)), strict=True):
            all_members[first : first + size] = these[: count - first]

    with ThreadPoolExecutor(workers if on_cpu else FETCHING) as pool:
        try:
            list(pool.map(one, range(0, count, size)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return whole[0]


@eqx.filter_jit
def _together(members: PyTree, moments: Moments, times: NumpyOrJax, tolerances: NumpyOrJax, options: Options) -> Raw:
    options = options._replace(axis=MEMBERS)
    one = lambda problem, start: integrate(problem, moments, start, times, tolerances, options)  # noqa: E731
    return eqx.filter_vmap(one, axis_name=MEMBERS)(*members)
