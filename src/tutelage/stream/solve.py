"""Theory as a curve: integrate closed systems and return a `Trajectory`.

`solve` integrates one problem, `solve_batch` many problems of one shape together. The
members of a batch take their steps side by side in one program, each with its own step
size, until the slowest has finished. On a CPU a few members at a time fit into the
cache, and threads keep every core busy with chunks of them; on a GPU as many as its
memory allows run at once.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from tutelage import checks
from tutelage._pool import cores
from tutelage._types import ArrayLike, Numbers, NumpyOrJax
from tutelage.errors import (
    DivergenceWarning,
    InputError,
    Status,
    SymmetryWarning,
    ValidityWarning,
    explained,
    kind_of,
)
from tutelage.problem import Problem, Start, random_start
from tutelage.problem.labels import Logistic, Real
from tutelage.problem.start import require_start
from tutelage.randomness import Quantile
from tutelage.result.trajectory import Trajectory
from tutelage.solvers import ClosedSystem
from tutelage.solvers.program import (
    MAX_STEPS,
    Options,
    SolveOutput,
    eager,
    first_times,
    padded,
    step_tolerances,
)
from tutelage.stream import Overlaps, initial_overlaps, program
from tutelage.stream.moments import Moments, Quadrature, Sampled, moments_for
from tutelage.stream.order_parameters import as_arrays
from tutelage.stream.program import by_nodes
from tutelage.training.losses import has_bounded_slope, loss_name

System: TypeAlias = Problem | ClosedSystem
Observers: TypeAlias = Mapping[str, Callable[..., ArrayLike]] | None
Settings: TypeAlias = tuple[tuple[str, Any], ...]
# Names that are taken by what is recorded anyway.
RECORDED = ("R", "Q", "readout", "bias", "r", "q", "error", "loss", "T", "time")
# Fields beside a kink at zero at which its two slopes are read, and the difference of
# slopes that counts as a kink.
BESIDE_ZERO = 1e-9
LEAST_KINK = 1e-6
LIMIT = 0.05  # largest eta lam_max / N at which the limit is used without a warning
# Relative tolerance times points where a sampled update jumps; its own error is larger.
STAIRS = 8.0
FINEST_STAIRS = 1e-5  # the smallest tolerance where a sampled update jumps
SMOOTH_SAMPLED_RTOL = 1e-6  # the tolerance where it does not
KEEP_LEVELS = 16  # overlaps per level are kept by default up to this many levels

# Arguments of a problem that the members of a batch must share.
SHAPES = (
    "hidden",
    "activation",
    "outputs",
    "levels",
    "student",
    "teacher",
    "inputs",
    "optimizer",
    "loss",
    "labels",
    "rule",
    "function",
    "metric",
    "teachers",
    "schedule",
    "drift",
)
FLAGS = (
    "train_readout",
    "train_bias",
    "trainable",
    "spherical",
    "norm",
    "normalize",
    "random",
    "jumps",
    "heads",
    "order",
)
INCREASING = ("switches", "times", "after", "at")  # lists of numbers in this order

MEMBERS = "members"  # the name of the batch axis inside the program
ON_CPU = 32  # members that step together
IN_MEMORY = 2**30  # numbers that averages over points may hold on a GPU: 8 GiB
# Numbers of the members that step together: more would not stay in a GPU's cache.
ON_GPU = 2**24
FETCHING = 6  # threads: a GPU computes some chunks while others are fetched


def solve_on_stream(
    problem: Problem | ClosedSystem,
    start: PyTree = None,
    times: ArrayLike | Sequence[float] = 100.0,
    *,
    gradient_flow: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    solver: str = "auto",
    quadrature: Quadrature | None = None,
    moments: Sampled | None = None,
    accuracy: float | None = 1e-3,
    keep: str | None = None,
    gradient: str = "reverse",
    max_steps: int = MAX_STEPS,
    observe: Observers = None,
    progress: bool = False,
) -> Trajectory:
    """Integrate the equations of fresh samples, or a custom system, as `tu.solve` says."""
    gradient = checks.known("gradient", gradient, ("reverse", "forward"))
    times = checks.as_times(times)
    start, initial = prepare(problem, start, times)
    averages = None
    if isinstance(problem, Problem):
        averages = moments_for(problem, quadrature, moments)
        averages = _differentiable(problem, start, averages)
    elif quadrature is not None or moments is not None:
        raise InputError(
            "quadrature and moments average the rule of a Problem; "
            "custom equations have none. Leave them out."
        )
    if accuracy is not None:
        accuracy = checks.as_positive("accuracy", accuracy)
    require_observers(problem, observe)
    if not _may_be_differentiated(problem, start):
        gradient = "forward"  # which is sooner compiled
    options = Options(
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        solver=program.choose(solver, problem, times),
        keep=keeps_blocks(problem, keep),
        gradient=gradient,
        max_steps=checks.as_count("max_steps", max_steps),
        progress=checks.as_flag("progress", progress),
    )

    def tolerances_for(averages: Moments | None, points: int) -> np.ndarray:
        if rtol is None and isinstance(problem, ClosedSystem):
            stairs = problem.sample_points
            return step_tolerances(stairs_rtol(stairs) if stairs else None, atol)
        if rtol is None:
            return step_tolerances(sampled_rtol(averages, points, gradient_flow), atol)
        return step_tolerances(rtol, atol)

    def solved(
        averages: Moments | None, points: int, options: Options = options
    ) -> SolveOutput:
        tolerances = tolerances_for(averages, points)
        return program.run(problem, averages, initial, times, tolerances, options)

    nodes = by_nodes(averages)
    points = 0 if nodes is None else nodes.points
    chooses_points = points > 0 and moments is None
    sampling = None
    if (
        isinstance(problem, Problem)
        and chooses_points
        and accuracy is not None
        and not checks.is_traced(problem, initial)
    ):
        from tutelage.stream.accuracy import sample

        # forward: one program serves all sizes of a set
        forward = partial(solved, options=options._replace(gradient="forward"))
        sampling = sample(
            forward,
            lambda count: moments_for(problem, None, Sampled(count)),
            points,
            accuracy,
            problem,
        )
    if sampling is None:
        output = solved(averages, points)
    else:
        points = sampling.points
        output = sampling.output
    if observe:
        output = _with_observed(output, observe)
    settings = _settings(options, tolerances_for(averages, points))
    if isinstance(quadrature, Quadrature):
        settings += (("quadrature", (quadrature.nodes, quadrature.points)),)
    if points:
        seed = 0 if moments is None else moments.seed
        settings += (("moments", (points, seed)),)
    if sampling is not None and np.isfinite(sampling.reached):
        settings += (("accuracy", sampling.reached),)
    trajectory = assemble(output, times, problem, start, settings)
    if checks.is_traced(output):
        return trajectory
    if sampling is not None:
        count = len(trajectory.times)
        bounds = {name: bound[:count] for name, bound in sampling.errors.items()}
        trajectory = replace(trajectory, estimates=bounds)
    for sentence in _caveats(trajectory, averages, sampling):
        warnings.warn(sentence, ValidityWarning, stacklevel=3)
    if output.status_code != Status.FINISHED:
        warnings.warn(f"the solve {trajectory.status}", DivergenceWarning, stacklevel=3)
    return trajectory


def _caveats(
    trajectory: Trajectory, averages: Moments | None, sampling: Any
) -> list[str]:
    """Return a sentence for each kind of averages that is not accurate.

    sampling: the `Sampling` of a solve whose points were chosen, else None.
    """
    sentences = []
    if averages is not None and program.by_quadrature(averages):
        from tutelage.stream.accuracy import quadrature_warning

        sentences.append(quadrature_warning(trajectory, averages))
    if sampling is not None:
        from tutelage.stream.accuracy import sampling_warning

        sentences.append(sampling_warning(sampling.points, sampling.reached))
    return [sentence for sentence in sentences if sentence is not None]


def _with_observed(
    output: SolveOutput, observe: Mapping[str, Callable[..., ArrayLike]]
) -> SolveOutput:
    """Return a solve with the user's functions of the overlaps among its variables."""
    R = output.variables["R"]
    Q = output.variables["Q"]
    readout = output.variables["readout"]
    observed: Any = {
        name: jax.vmap(function)(R, Q, readout) for name, function in observe.items()
    }
    if not checks.is_traced(observed):
        observed = eager(observed)
    return output._replace(variables=output.variables | observed)


def _require_variance(problem: Problem) -> None:
    """Refuse a loss like squared loss under label noise of infinite variance.

    G does not exist for it, though a sum over nodes does.
    """
    if problem.noise_law is None or not problem.rule.uses_loss:
        return
    if not has_bounded_slope(problem.loss):
        Quantile(problem.noise_law).mean_and_variance()  # raises


def _differentiable(problem: Problem, start: Start, averages: Moments) -> Moments:
    """Return averages that can be differentiated by whatever JAX traces.

    Refuse sampled averages of updates that jump where this is impossible.
    """
    # Labels that jump at fixed teacher fields jump at other points of the set if the
    # teacher's overlaps are traced: then all derivatives are taken from the density.
    # Where a readout decides the place of a jump they would be silently wrong.
    nodes = by_nodes(averages)
    if nodes is None or nodes.grid or not checks.is_traced(problem, start):
        return averages
    student = problem.student
    has_fixed_readout = not student.train_readout and not checks.is_traced(
        student.readout, start.readout
    )
    if problem.rule.uses_loss and problem.loss.jumps and not has_fixed_readout:
        raise InputError(
            f"the derivative of the loss {loss_name(problem.loss)!r} jumps where the "
            "readout says, and sampled averages cannot be differentiated there. Use a "
            "fixed, known readout or a smooth loss inside jax.grad, jit and vmap."
        )
    has_smooth_labels = isinstance(problem.labels, Real | Logistic) and all(
        task.labeler.activation.smooth for task in problem.tasks
    )
    if nodes.jumps or has_smooth_labels:
        return averages
    if not checks.is_traced(start.T, problem.teacher, problem.inputs):
        return averages
    if nodes is not averages:
        raise InputError(
            "tasks with labels that jump cannot be differentiated by the teachers' "
            "overlaps; fix these."
        )
    return replace(nodes, jumps=True)


def sampled_rtol(
    averages: Moments | None, points: int = 0, flow: bool = False
) -> float | None:
    """Return the tolerance for averages over a quasi-random set; None: the usual.

    points: of the whole set, where the averages are a part of it. flow: gradient flow,
    without G.
    """
    random_points = program.random_points(averages, flow)
    if random_points:  # behind G
        return stairs_rtol(random_points)
    nodes = by_nodes(averages)
    if nodes is None or not nodes.points:
        return None
    if not nodes.jumps:
        return SMOOTH_SAMPLED_RTOL
    return stairs_rtol(points or nodes.points)


def stairs_rtol(points: int) -> float:
    """Return the tolerance for an average over points of a function that jumps.

    It moves in steps of this relative size, which no finer tolerance should resolve.
    """
    return max(STAIRS / points, FINEST_STAIRS)


def require_observers(problem: System, observe: Observers) -> None:
    """Refuse, before anything is integrated, functions that cannot be recorded."""
    if observe is None:
        return
    is_table = isinstance(observe, Mapping)
    if not is_table or not all(callable(function) for function in observe.values()):
        raise InputError(
            f"observe is {checks.shown(observe)}; "
            "it must be a table of functions, as {'norm': f}."
        )
    if isinstance(problem, ClosedSystem):
        raise InputError(
            "observe needs the overlaps of a Problem; "
            "custom equations record their own variables."
        )
    K = problem.student.hidden
    M = problem.references.hidden
    shapes = ((K, M), (K, K), problem.readout_shape)
    dtype = jnp.result_type(float)
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    for name, function in observe.items():
        if not isinstance(name, str) or not name.isidentifier() or name in RECORDED:
            raise InputError(
                f"observe has the name {name!r}; "
                "it must be a new name made of letters, digits and '_'."
            )
        fix = "write it with jax.numpy, as f(R, Q, readout)."
        with explained(f"the function {name!r} of observe fails", fix):
            jax.eval_shape(lambda *x, f=function: jnp.asarray(f(*x)), *arguments)


def prepare(problem: System, start: PyTree, times: np.ndarray) -> tuple[PyTree, PyTree]:
    """Return the start and the initial state of the integration, after checking both.

    Warn where the result needs a caution.
    """
    if isinstance(problem, ClosedSystem):
        state = problem.initial_state(start)
        return state, state
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem is {kind_of(problem)}; "
            "solve takes a Problem, Equations or a ClosedSystem."
        )
    if start is None:
        start = random_start(problem, dim=problem.inputs.usual_dim)
    start = require_start(start)
    initial = initial_overlaps(problem, start)
    problem.require_rates_on(times)
    require_records(problem, times, 1, False)
    _require_variance(problem)
    if not checks.is_traced((problem, initial)):
        state, _ = initial
        sentence = symmetry_warning(problem, state)
        if sentence:
            warnings.warn(sentence, SymmetryWarning, stacklevel=4)
        sentence = limit_warning(problem, start.dim)
        if sentence:
            warnings.warn(sentence, ValidityWarning, stacklevel=4)
        sentence = zero_weights_warning(problem, state)
        if sentence:
            warnings.warn(sentence, ValidityWarning, stacklevel=4)
    return start, initial


def symmetry_warning(problem: Problem, state: Overlaps) -> str | None:
    """Return one sentence if two student units start exactly alike: they stay so."""
    r = state.r
    q = state.q
    K = r.shape[1]
    if len({r[:, unit].tobytes() for unit in range(K)}) == K:
        return None
    # all numbers that belong to single units, one column for each unit
    rows = (
        state.readout,
        state.bias,
        problem.rule.unit_marks(problem.student.readout),
        np.moveaxis(r, 1, -1),
    )
    columns = np.concatenate([np.reshape(x, (-1, K)) for x in rows if x is not None])
    for i, j in itertools.combinations(range(K), 2):
        swap = np.arange(K)
        swap[[i, j]] = j, i
        has_equal_columns = np.array_equal(columns[:, swap], columns)
        if has_equal_columns and np.array_equal(q[:, swap][:, :, swap], q):
            return (
                f"student units {i + 1} and {j + 1} begin exactly identical, so they "
                "never specialize: the curve stays on its plateau forever. Break the "
                "symmetry: random_start(problem, dim=N), or unequal rows of R."
            )
    return None


def zero_weights_warning(problem: Problem, state: Overlaps) -> str | None:
    """Return one sentence if a unit has zero weights and no slope there.

    Its field lies on a kink, as that of a ReLU unit does.

    The limit averages over fields of vanishing variance, on both sides of the kink. SGD
    only sees the slope at zero itself.
    """
    activation = problem.student.activation
    K = state.q.shape[1]
    unmoved = np.all(np.diagonal(state.q, axis1=1, axis2=2) == 0, axis=0)
    if state.bias is not None:
        unmoved &= np.asarray(state.bias) == 0
    if not np.any(unmoved) or not problem.rule.uses_loss:
        return None

    def slope(field: float) -> np.ndarray:
        return np.asarray(activation.slope(jnp.full(K, field)))

    kink = np.abs(slope(BESIDE_ZERO) - slope(-BESIDE_ZERO)) > LEAST_KINK
    stuck = unmoved & (slope(0.0) == 0) & kink
    if not np.any(stuck):
        return None
    return (
        f"student unit {np.argmax(stuck) + 1} begins with zero weights, where the slope "
        f"of {activation.name} is 0: SGD never moves it, while the theory follows the "
        "limit of small weights. Give it small weights, such as Q = 1e-6."
    )


def limit_warning(problem: Problem, dim: int | None) -> str | None:
    """Return one sentence if the largest eigenvalue is too large for this N."""
    dim = dim or problem.inputs.known_dim
    if dim is None:
        return None
    largest = largest_rate(problem)
    if largest <= LIMIT * dim:
        return None
    return (
        f"eta lam_max / N is {largest / dim:.3g} at N = {dim}; the limit drops terms "
        f"of that relative size, which should stay below {LIMIT}. Lower the learning "
        "rate, raise N, or simulate instead."
    )


def largest_rate(problem: Problem) -> float:
    """Return eta lam_max at time zero, a fixed momentum included."""
    lr: Any = problem.optimizer.lr
    if callable(lr):
        lr = lr(jnp.zeros(()))
    gain = 1 - float(problem.optimizer.fixed_momentum)
    return float(lr) / gain * float(np.max(problem.inputs.eigenvalues))


def require_records(problem: Problem, times: np.ndarray, runs: int, keep: bool) -> None:
    """Refuse more recorded overlaps than this machine can hold."""
    K = problem.student.hidden
    M = problem.references.hidden
    copies = 1 + keep * problem.inputs.levels  # R and Q, and r and q per level
    numbers = (K * M + K * K) * copies + 2 * K + 1  # of one record
    records = f"{times.size} records of {K} student units"
    fix = "Record fewer times."
    if runs > 1:
        records += f" in {runs} runs"
        fix = "Record fewer times or runs."
    checks.require_memory(records, float(runs) * times.size * numbers, fix)


def _may_be_differentiated(problem: System, start: PyTree) -> bool:
    """Return False if all that the answer depends on is numbers.

    A function of JAX may hold what it traces, a quantile function may not.
    """
    if isinstance(problem, ClosedSystem) or checks.is_traced(problem, start):
        return True
    quantiles = problem.noise_law
    return any(
        callable(leaf) and leaf is not quantiles for leaf in jax.tree.leaves(problem)
    )


def assemble(
    output: SolveOutput,
    times: np.ndarray,
    problem: System,
    start: PyTree,
    settings: Settings,
) -> Trajectory:
    """Return the trajectory of a solve, cut where it ended early.

    A batch is not cut, because other members go on.
    """
    is_single = not checks.is_traced(output) and np.ndim(output.status_code) == 0
    if is_single and output.status_code != Status.FINISHED:
        count = int(np.searchsorted(times, output.end_time, side="right"))
        output = first_times(output, count)
        times = times[:count]
    origin: dict[str, Any] = {"kind": "equations"}
    if isinstance(problem, Problem):
        origin = {"problem": problem, "start": start}
    return Trajectory(times=times, **output._asdict(), **origin, settings=settings)


def _settings(options: Options, tolerances: np.ndarray) -> Settings:
    """Return the settings of a solve that its trajectory records."""
    return (
        ("gradient_flow", options.gradient_flow),
        ("rtol", float(tolerances[0])),
        ("solver", options.solver),
    )


def keeps_blocks(problem: System, keep: str | None) -> bool:
    """Return True if r and q are kept per level.

    They are always kept for a mixture, whose error needs them.
    """
    if isinstance(problem, Problem) and problem.inputs.classes is not None:
        return True
    if keep is not None:
        return checks.known("keep", keep, ("blocks", "fields")) == "blocks"
    return isinstance(problem, Problem) and problem.inputs.levels <= KEEP_LEVELS


def solve_batch_on_stream(
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
    """Solve many problems of fresh samples, as `tu.solve_batch` says."""
    values = _values(problem, over)
    count = next(iter(values.values())).shape[0]
    smallest = _extreme_member(problem, values, np.min)
    largest = _extreme_member(problem, values, np.max)
    times = checks.as_times(times)
    if start is None:
        start = random_start(problem, dim=problem.inputs.usual_dim)
    starts = list(start) if isinstance(start, Sequence) else [start]
    if isinstance(start, Sequence) and len(starts) != count:
        raise InputError(
            f"{len(starts)} initial conditions are given for {count} problems; "
            "give one for all, or one each."
        )
    for member in (0, -1):
        numbers = {name: value[member] for name, value in values.items()}
        prepare(problem.replace(**numbers), starts[member], times)
    # a schedule of any other member may leave its range
    for extreme in (smallest, largest):
        extreme.require_rates_on(times, solved=False)
    options = Options(
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        solver=program.choose(solver, largest, times),
        keep=keeps_blocks(problem, keep),
        max_steps=checks.as_count("max_steps", max_steps),
    )
    problems = _stacked_problems(problem, values)
    initial = _stacked_starts(starts, count)
    averages = moments_for(problem, quadrature, others=[largest])
    if rtol is None and program.random_points(averages, gradient_flow):
        rtol = sampled_rtol(averages, flow=gradient_flow)
    if chunk is None:
        size = _fitting(problem, times, averages)
    else:
        size = checks.as_count("chunk", chunk)
    chunks = -(-count // min(count, size))
    workers = cores() if workers is None else checks.as_count("workers", workers)
    tolerances = step_tolerances(rtol, atol)
    output = side_by_side(
        problems,
        averages,
        initial,
        times,
        tolerances,
        options,
        size=-(-count // chunks),  # all chunks have equal size
        workers=workers,
    )
    settings = _settings(options, tolerances)
    trajectory = assemble(output, times, problems, initial, settings)
    if not trajectory.finished:
        sentence = f"of these problems {trajectory.status}"
        warnings.warn(sentence, DivergenceWarning, stacklevel=3)
    return trajectory


def _stacked_problems(problem: Problem, values: dict[str, np.ndarray]) -> PyTree:
    """Return the problem with a leading axis of members on every number."""

    def member(numbers: dict[str, Any]) -> PyTree:
        return as_arrays(problem.replace(**numbers))

    numbers, rest = eqx.partition(eqx.filter_vmap(member)(values), eqx.is_array)
    return eqx.combine(jax.tree.map(np.asarray, numbers), rest)


def _stacked_starts(starts: list[Start], count: int) -> PyTree:
    """Return the starts with a leading axis of members on every number."""

    def stacked(*numbers: np.ndarray) -> np.ndarray:
        array = np.stack(numbers)
        # one start is shared, not copied
        return np.broadcast_to(array, (count, *array.shape[1:]))

    return jax.tree.map(stacked, *(as_arrays(start) for start in starts))


def _values(problem: Problem, over: Mapping[str, Numbers]) -> dict[str, np.ndarray]:
    """Return the lists of `over` as arrays with a leading axis of members.

    The extremes of each are tried on the problem.
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"problem is {kind_of(problem)}; solve_batch takes a tutelage Problem."
        )
    if not isinstance(over, Mapping) or not over:
        raise InputError(
            f"over is {checks.shown(over)}; "
            "name what differs between the problems, as {'lr': rates}."
        )
    for name in over:
        is_fixed = _last_name(name) == "batch" and problem.optimizer.fixed_batch
        if is_fixed or _last_name(name) in SHAPES + FLAGS:
            raise InputError(
                f"over has {name!r}, which changes shapes, functions or flags; "
                "call solve_batch once for each, or use sweep."
            )
    values = {name: _entries(name, value) for name, value in over.items()}
    lengths = {
        name: value.shape[0] if value.ndim else 0 for name, value in values.items()
    }
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise InputError(
            f"over has lists of lengths {lengths}; "
            "give one entry per problem to each, and at least one."
        )
    for name, value in values.items():
        extremes: Any = (value.min(axis=0), value.max(axis=0))
        if _are_probabilities(name):
            extremes = value
        for extreme in extremes:
            problem.replace(**{name: extreme})
        if _last_name(name) in INCREASING and value.ndim > 1:
            # the extremes may be in order where a member is not
            is_unordered = np.any(np.diff(value, axis=1) <= 0, axis=1)
            for unordered in value[is_unordered]:
                problem.replace(**{name: unordered})
    return values


def _extreme_member(
    problem: Problem, values: dict[str, np.ndarray], extreme: Callable[..., Any]
) -> Problem:
    """Return the problem with the smallest or the largest number of each list.

    extreme: np.min or np.max. Of probabilities it has the last member's.
    """
    numbers = {}
    for name, value in values.items():
        if _are_probabilities(name):
            numbers[name] = value[-1]
        else:
            numbers[name] = extreme(value, axis=0)
    return problem.replace(**numbers)


def _last_name(name: object) -> str:
    """Return the last part of a dotted name."""
    return str(name).rpartition(".")[2]


def _are_probabilities(name: str) -> bool:
    """Return True if the numbers of each member sum to one.

    Then the largest of all members are no member.
    """
    return str(name).endswith("schedule.shares")


def _entries(name: str, value: Numbers) -> np.ndarray:
    """Return one list of `over` as an array of floats; batch sizes as whole numbers."""
    array = np.asarray(checks.as_array(name, value), dtype=float)
    if _last_name(name) != "batch" or not np.all(np.isfinite(array)):
        return array
    sizes = []
    for entry in array.ravel():
        # as the user wrote it, for the message about a size that is not whole
        size = int(entry) if entry == int(entry) else float(entry)
        sizes.append(checks.as_count(name, size))
    return np.array(sizes).reshape(array.shape)


def _fitting(problem: Problem, times: np.ndarray, moments: Moments) -> int:
    """Return the number of members that step together on this device."""
    if jax.default_backend() == "cpu":
        return ON_CPU
    K = problem.student.hidden
    M = problem.references.hidden
    L = problem.inputs.levels
    overlaps = K * (K + M)
    fitting = ON_GPU // (overlaps * (times.size + 20 * L + overlaps))
    nodes = by_nodes(moments)
    if nodes is not None and nodes.points:
        # fields, updates and their products at all points
        points = max(nodes.points, program.AT_ONCE)
        fitting = min(fitting, IN_MEMORY // (points * (2 * K + M + K**2)))
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
) -> SolveOutput:
    """Solve all members, `size` at a time.

    The last chunk repeats its last member, so that one program serves all chunks.

    problems, starts: one of each, with a leading axis of members on every number.
    tolerances: rtol, atol.
    """
    # a rate may be a function, the same for all members
    numbers, rest = eqx.partition((problems, starts), eqx.is_array)
    count = jax.tree.leaves(numbers)[0].shape[0]
    on_cpu = jax.default_backend() == "cpu"
    solved_times = padded(times) if on_cpu else times

    def solve_chunk(first: int) -> SolveOutput:
        chosen = np.minimum(np.arange(first, first + size), count - 1)
        members = eqx.combine(jax.tree.map(lambda x: x[chosen], numbers), rest)
        output = _together(members, moments, solved_times, tolerances, options)
        without_padding = first_times(eager(output), times.size, lead=1)
        return jax.tree.map(np.copy, without_padding)

    with ThreadPoolExecutor(workers if on_cpu else FETCHING) as pool:
        chunks = list(pool.map(solve_chunk, range(0, count, size)))
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *chunks)


@eqx.filter_jit
def _together(
    members: PyTree,
    moments: Moments,
    times: NumpyOrJax,
    tolerances: NumpyOrJax,
    options: Options,
) -> SolveOutput:
    """Integrate all members of a chunk in one program."""
    options = options._replace(axis=MEMBERS)

    def solve_member(problem: Problem, start: Start) -> SolveOutput:
        initial = initial_overlaps(problem, start)
        return program.integrate_equations(
            problem, moments, initial, times, tolerances, options
        )

    return eqx.filter_vmap(solve_member, axis_name=MEMBERS)(*members)
