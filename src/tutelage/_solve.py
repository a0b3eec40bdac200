"""Theory as a curve: integrate a closed system, or many problems of one shape together, and return a `Trajectory`.

The members of a batch take their steps side by side in one program, each with its own step size, until the slowest has
finished. On a CPU a few members at a time fit into the cache, and threads keep every core busy with chunks of them; on a GPU
as many as its memory allows run at once.
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
from tutelage.dynamics import ClosedSystem, Overlaps, initial_overlaps
from tutelage.dynamics.order_parameters import as_arrays
from tutelage.errors import DivergenceWarning, InputError, Status, SymmetryWarning, ValidityWarning, explained, kind_of
from tutelage.integrate import program
from tutelage.integrate.program import MAX_STEPS, Options, Raw, by_nodes, first_times
from tutelage.labels import Logistic, Real
from tutelage.losses import has_bounded_slope, loss_name
from tutelage.moments import Moments, Quadrature, Sampled, moments_for
from tutelage.problem import Mixture, Problem, SlowMomentum, Start, random_start
from tutelage.problem.schedules import require_rates_on
from tutelage.problem.start import require_start
from tutelage.trajectory import Trajectory

System: TypeAlias = Problem | ClosedSystem
Observers: TypeAlias = Mapping[str, Callable[..., ArrayLike]] | None
Settings: TypeAlias = tuple[tuple[str, Any], ...]
RECORDED = ("R", "Q", "readout", "bias", "r", "q", "error", "loss", "T", "time")  # names that are taken
BESIDE = 1e-9  # of a kink at zero: fields at which its two slopes are read
KINK = 1e-6  # difference of slopes that counts as a kink
LIMIT = 0.05  # largest eta lam_max / N at which the limit is used without a warning
STAIRS = 8.0  # times 1/points: relative tolerance where a sampled update jumps; its own error is larger
KEEP_LEVELS = 16  # overlaps per level are kept by default up to this many levels
SHAPES = (
    *("hidden", "activation", "outputs", "levels", "student", "teacher", "inputs", "sgd"),
    *("loss", "labels", "rule", "function", "metric", "teachers", "schedule", "drift"),
)
FLAGS = ("train_readout", "train_bias", "trainable", "spherical", "normalize", "random", "jumps", "heads", "order")
INCREASING = ("switches", "times", "after", "at")  # lists of numbers in this order
MEMBERS = "members"  # the name of the batch axis inside the program
ON_CPU = 32  # members that step together
IN_MEMORY = 2**30  # numbers that averages over points may hold on a GPU: 8 GiB
ON_GPU = 2**24  # numbers of the members that step together: more of them would not stay in a GPU's cache
FETCHING = 6  # threads: a GPU computes some chunks while others are fetched


def solve(
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
    """The exact order-parameter dynamics of a problem in the limit of large N.

    Parameters
    ----------
    problem : Problem, Equations or ClosedSystem
        What to solve.
    start : Start, optional
        The initial condition; for custom equations their initial values. Default: `random_start(problem, dim=1000)`.
    times : array or float
        Increasing times alpha >= 0 to record, or the last one of 201 even times.
    gradient_flow : bool
        Include terms of order eta only; G is omitted.
    rtol, atol : float, optional
        Tolerances of a step. Default: 1e-8 and 1e-12; 1e-4 and 1e-6 if JAX computes in float32. For sampled averages
        rtol is 1e-6, or 8/points if the update jumps, because smaller steps do not resolve a finite set. Quadrature averages
        G of functions with kinks over 2^17 points: there rtol is 6e-5.
    solver : str
        "explicit": Dormand-Prince 8(5,3). "stiff": Rodas5P with the structure of the overlaps, whose cost does not grow
        with the largest eigenvalue. "implicit": Kvaerno5 with dense matrices, for stiff custom equations. "auto": stiff
        if it saves more time than it takes to compile, else explicit; always explicit inside jit, vmap and grad.
    quadrature : Quadrature, optional
        The resolution of averages without a closed form.
    moments : Sampled, optional
        Average over a quasi-random set of so many points, `Sampled(points, seed)`, also where a closed form or a grid exists.
        Its error is estimated when `sampling_error`, `validity` or `compare` needs it.
    accuracy : float, optional
        Where averages are sampled and `moments` does not fix the points: the relative error of the error curve that they
        may leave (95% confidence). `solve` estimates it by eight more solves with an eighth of the points each, and takes
        from 2^14 up to 2^17 points until it is reached or the curve would cost more than some seconds. `accuracy` of the
        result is what was reached; above 1e-2 there is a warning. None, and inside jit, vmap and grad: 2^14 points without
        an estimate.
    keep : str, optional
        "blocks" records r and q per level, "fields" only R and Q. Default: blocks up to 16 levels.
    gradient : str
        "reverse" for jax.grad, "forward" for jax.jvp and jacfwd.
    max_steps : int
        The largest number of steps.
    observe : dict of functions, optional
        {name: f} records f(R, Q, readout) under that name.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Trajectory
        Error, loss, overlaps and readouts at the recorded times, with a `validity` report.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.asymmetric_start(problem), times=tu.linear_times(10, 11))
    >>> round(float(theory.error[-1]), 6), theory.R.shape
    (0.014469, (11, 2, 2))
    """
    gradient = checks.known("gradient", gradient, ("reverse", "forward"))
    times = checks.as_times(times)
    start, initial = prepare(problem, start, times)
    averages = None
    if isinstance(problem, ClosedSystem) and (quadrature is not None or moments is not None):
        raise InputError("quadrature and moments average the rule of a Problem; custom equations have none. Leave them out.")
    if isinstance(problem, Problem):
        averages = _differentiable(problem, start, moments_for(problem, quadrature, moments))
    accuracy = None if accuracy is None else checks.as_positive("accuracy", accuracy)
    require_observers(problem, observe)
    options = Options(
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        solver=program.choose(solver, problem, times),
        keep=keeps_blocks(problem, keep),
        gradient=gradient if _may_be_differentiated(problem, start) else "forward",  # which is sooner compiled
        max_steps=checks.as_count("max_steps", max_steps),
        progress=checks.as_flag("progress", progress),
    )

    def solved(averages: Moments | None, points: int, options: Options = options) -> Raw:
        return program.run(problem, averages, initial, times, steps_for(averages, points), options)

    def steps_for(averages: Moments | None, points: int) -> np.ndarray:
        return program.tolerances(sampled_rtol(averages, points, gradient_flow) if rtol is None else rtol, atol)

    nodes, sampling = by_nodes(averages), None
    points = 0 if nodes is None else nodes.points
    if isinstance(problem, Problem) and points and moments is None and accuracy and not checks.is_traced(problem, initial):
        from tutelage.accuracy import sample

        forward = partial(solved, options=options._replace(gradient="forward"))  # one program serves all sizes of a set
        sampling = sample(forward, lambda n: moments_for(problem, None, Sampled(n)), points, accuracy, problem)
        points = points if sampling is None else sampling.points
    raw = solved(averages, points) if sampling is None else sampling.raw
    if observe:
        seen = raw.variables["R"], raw.variables["Q"], raw.variables["readout"]
        more = {name: jax.vmap(f)(*seen) for name, f in observe.items()}
        raw = raw._replace(variables=raw.variables | (more if checks.is_traced(more) else program.eager(more)))
    settings = _settings(options, steps_for(averages, points))
    if isinstance(quadrature, Quadrature):
        settings += (("quadrature", (quadrature.nodes, quadrature.points)),)
    if points:
        settings += (("moments", (points, 0 if moments is None else moments.seed)),)
    if sampling is not None and np.isfinite(sampling.reached):
        settings += (("accuracy", sampling.reached),)
    trajectory = assemble(raw, times, problem, start, settings)
    if checks.is_traced(raw):
        return trajectory
    if averages is not None and program.by_quadrature(averages):
        from tutelage.accuracy import quadrature_warning

        if sentence := quadrature_warning(trajectory, averages):
            warnings.warn(sentence, ValidityWarning, stacklevel=2)
    if sampling is not None:
        from tutelage.accuracy import sampling_warning

        known = {name: bound[: len(trajectory.times)] for name, bound in sampling.errors.items()}
        vars(trajectory)["sampling_errors"] = known  # which it would compute again when asked
        if sentence := sampling_warning(points, sampling.reached):
            warnings.warn(sentence, ValidityWarning, stacklevel=2)
    if raw.status_code != Status.FINISHED:
        warnings.warn(f"the solve {trajectory.status}", DivergenceWarning, stacklevel=2)
    return trajectory


def _require_variance(problem: Problem) -> None:
    """Refuse a loss like squared loss under label noise of infinite variance: G does not exist, though sums over nodes do."""
    if not problem.has_noise_law or not problem.rule.uses_loss or has_bounded_slope(problem.loss):
        return
    shares = np.array([1e-4, 1e-8, 1e-12])  # share * quantile^2 falls to zero if the variance is finite
    tails = shares * (np.asarray(problem.noise(shares)) ** 2 + np.asarray(problem.noise(1 - shares)) ** 2)
    if tails[0] > 0 and np.all(np.diff(tails) >= -1e-3 * tails[0]):
        raise InputError("the label noise has infinite variance: squared loss has no theory. Use loss='huber', or simulate.")


def _differentiable(problem: Problem, start: Start, averages: Moments) -> Moments:
    """The averages as derivatives need them where something is traced and sampled updates jump."""
    # Labels that jump at fixed teacher fields jump at other points of the set if the teacher's overlaps are traced: then all
    # derivatives are taken from the density. Where a readout decides the place of a jump they would be silently wrong.
    nodes = by_nodes(averages)
    if nodes is None or nodes.grid or not checks.is_traced(problem, start):
        return averages
    fixed_readout = not problem.student.train_readout and not checks.is_traced(problem.student.readout, start.readout)
    if problem.rule.uses_loss and problem.loss.jumps and not fixed_readout:
        what = f"the derivative of the loss {loss_name(problem.loss)!r} jumps where the readout says"
        fix = "Use a fixed, known readout or a smooth loss inside jax.grad, jit and vmap."
        raise InputError(f"{what}, and sampled averages cannot be differentiated there. {fix}")
    smooth = isinstance(problem.labels, Real | Logistic) and all(one.teacher.activation.smooth for one in problem.tasks)
    if nodes.jumps or smooth or not checks.is_traced(start.T, problem.teacher, problem.inputs):
        return averages
    if nodes is not averages:
        raise InputError("tasks with labels that jump cannot be differentiated by the teachers' overlaps; fix these.")
    return replace(nodes, jumps=True)


def sampled_rtol(averages: Moments | None, points: int = 0, flow: bool = False) -> float | None:
    """The tolerance for averages over a quasi-random set; None: the usual.

    points: of the whole set, where the averages are a part of it. flow: gradient flow, without G.
    """
    steps = program.random_points(averages, flow)
    if steps:  # G has steps of this relative size: a finer tolerance would resolve each of them
        return max(STAIRS / steps, 1e-5)
    nodes = by_nodes(averages)
    if nodes is None or not nodes.points:
        return None
    return max(STAIRS / (points or nodes.points), 1e-5) if nodes.jumps else 1e-6


def require_observers(problem: System, observe: Observers) -> None:
    """Refuse, before anything is integrated, what cannot be recorded next to the overlaps."""
    if observe is None:
        return
    if not isinstance(observe, Mapping) or not all(callable(f) for f in observe.values()):
        raise InputError(f"observe is {checks.shown(observe)}; it must be a table of functions, as {{'norm': f}}.")
    if isinstance(problem, ClosedSystem):
        raise InputError("observe needs the overlaps of a Problem; custom equations record their own variables.")
    K, M, readout = problem.student.hidden, problem.references.hidden, problem.readout_shape
    like = [jax.ShapeDtypeStruct(shape, jnp.result_type(float)) for shape in ((K, M), (K, K), readout)]
    for name, function in observe.items():
        if not isinstance(name, str) or not name.isidentifier() or name in RECORDED:
            raise InputError(f"observe has the name {name!r}; it must be a new name made of letters, digits and '_'.")
        with explained(f"the function {name!r} of observe fails", "write it with jax.numpy, as f(R, Q, readout)."):
            jax.eval_shape(lambda *x, f=function: jnp.asarray(f(*x)), *like)


def prepare(problem: System, start: PyTree, times: np.ndarray) -> tuple[PyTree, PyTree]:
    """The start, and what the integration begins with, after both were checked; warns where the result needs a caution."""
    if isinstance(problem, ClosedSystem):
        return (problem.initial_state(start),) * 2
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {kind_of(problem)}; solve takes a Problem, Equations or a ClosedSystem.")
    start = random_start(problem, dim=problem.inputs.usual_dim) if start is None else require_start(start)
    initial = initial_overlaps(problem, start)
    require_rates_on(problem, times)
    require_records(problem, times, 1, False)
    _require_variance(problem)
    if not checks.is_traced((problem, initial)):
        if sentence := symmetry_warning(problem, initial[0]):
            warnings.warn(sentence, SymmetryWarning, stacklevel=3)
        if sentence := limit_warning(problem, start.dim):
            warnings.warn(sentence, ValidityWarning, stacklevel=3)
        if sentence := zero_weights_warning(problem, initial[0]):
            warnings.warn(sentence, ValidityWarning, stacklevel=3)
    return start, initial


def symmetry_warning(problem: Problem, state: Overlaps) -> str | None:
    """One sentence if two student units start exactly alike (they stay so), or none sees the teacher at all."""
    r, q, K = state.r, state.q, state.r.shape[1]
    if len({r[:, k].tobytes() for k in range(K)}) == K:
        return None
    rows = state.readout, state.bias, problem.rule.unit_marks(problem.student.readout), np.moveaxis(r, 1, -1)
    own = np.concatenate([np.reshape(x, (-1, K)) for x in rows if x is not None])  # all that belongs to single units
    for i, j in itertools.combinations(range(K), 2):
        swap = np.arange(K)
        swap[[i, j]] = j, i
        if np.array_equal(own[:, swap], own) and np.array_equal(q[:, swap][:, :, swap], q):
            return (
                f"student units {i + 1} and {j + 1} begin exactly identical, so they never specialize: the curve stays "
                "on its plateau forever. Break the symmetry: random_start(problem, dim=N), or unequal rows of R."
            )
    return None


def zero_weights_warning(problem: Problem, state: Overlaps) -> str | None:
    """One sentence if a unit has zero weights and its field lies on a kink without slope.

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
    left, middle, right = (np.asarray(activation.slope(jnp.full(K, x))) for x in (-BESIDE, 0.0, BESIDE))
    stuck = unmoved & (middle == 0) & (np.abs(right - left) > KINK)
    if not np.any(stuck):
        return None
    return (
        f"student unit {np.argmax(stuck) + 1} begins with zero weights, where the slope of {activation.name} is 0: SGD "
        "never moves it, while the theory follows the limit of small weights. Give it small weights, such as Q = 1e-6."
    )


def limit_warning(problem: Problem, dim: int | None) -> str | None:
    """One sentence if the largest eigenvalue is too large for this N."""
    dim = dim or problem.inputs.known_dim
    if dim is None or (largest := largest_rate(problem)) <= LIMIT * dim:
        return None
    return (
        f"eta lam_max / N is {largest / dim:.3g} at N = {dim}; the limit drops terms of that relative size, which should stay below "
        f"{LIMIT}. Lower the learning rate, raise N, or simulate instead."
    )


def largest_rate(problem: Problem) -> float:
    """eta lam_max at time zero, a fixed momentum included."""
    lr, momentum = problem.sgd.lr, problem.sgd.momentum
    lr = lr(jnp.zeros(())) if callable(lr) else lr
    gain = 1.0 if isinstance(momentum, SlowMomentum) else 1 - float(momentum)
    return float(lr) / gain * float(np.max(problem.inputs.eigenvalues))


def require_records(problem: Problem, times: np.ndarray, runs: int, keep: bool) -> None:
    """Refuse more recorded overlaps than this machine can hold."""
    K, M = problem.student.hidden, problem.references.hidden
    each = (K * M + K * K) * (1 + keep * problem.inputs.levels) + 2 * K + 1
    what = f"{times.size} records of {K} student units" + (f" in {runs} runs" if runs > 1 else "")
    checks.require_memory(what, float(runs) * times.size * each, f"Record fewer {'times or runs' if runs > 1 else 'times'}.")


def _may_be_differentiated(problem: System, start: PyTree) -> bool:
    """Not where all that the answer depends on is numbers; a function of JAX may hold what it traces, a quantile function not."""
    if isinstance(problem, ClosedSystem) or checks.is_traced(problem, start):
        return True
    quantiles = problem.noise if problem.has_noise_law else None
    return any(callable(leaf) and leaf is not quantiles for leaf in jax.tree.leaves(problem))


def assemble(raw: Raw, times: np.ndarray, problem: System, start: PyTree, settings: Settings) -> Trajectory:
    """A trajectory of what was integrated, cut where it ended early; a batch is not cut, because other members go on."""
    if not checks.is_traced(raw) and np.ndim(raw.status_code) == 0 and raw.status_code != Status.FINISHED:
        end = int(np.searchsorted(times, raw.end_time, side="right"))
        raw, times = first_times(raw, end), times[:end]
    known = isinstance(problem, Problem)
    described: dict[str, Any] = {"problem": problem, "start": start} if known else {"kind": "equations"}
    return Trajectory(times=times, **raw._asdict(), **described, settings=settings)


def _settings(options: Options, steps: np.ndarray) -> Settings:
    return (("gradient_flow", options.gradient_flow), ("rtol", float(steps[0])), ("solver", options.solver))


def keeps_blocks(problem: System, keep: str | None) -> bool:
    """Are r and q kept per level? Always of a mixture, whose error needs them."""
    if isinstance(problem, Problem) and isinstance(problem.inputs, Mixture):
        return True
    if keep is not None:
        return checks.known("keep", keep, ("blocks", "fields")) == "blocks"
    return isinstance(problem, Problem) and problem.inputs.levels <= KEEP_LEVELS


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
        What all members share.
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
    values, count = _values(problem, over)
    largest = problem.replace(**{n: x[-1] if _are_probabilities(n) else x.max(axis=0) for n, x in values.items()})
    times, start = checks.as_times(times), random_start(problem, dim=problem.inputs.usual_dim) if start is None else start
    starts = list(start) if isinstance(start, Sequence) else [start]
    if isinstance(start, Sequence) and len(starts) != count:
        raise InputError(f"{len(starts)} initial conditions are given for {count} problems; give one for all, or one each.")
    for i in (0, -1):
        prepare(problem.replace(**{name: value[i] for name, value in values.items()}), starts[i], times)
    smallest = problem.replace(**{n: x[-1] if _are_probabilities(n) else x.min(axis=0) for n, x in values.items()})
    for extreme in (smallest, largest):  # a schedule of any other member may leave its range
        require_rates_on(extreme, times, solved=False)
    options = Options(
        gradient_flow=checks.as_flag("gradient_flow", gradient_flow),
        solver=program.choose(solver, largest, times),
        keep=keeps_blocks(problem, keep),
        max_steps=checks.as_count("max_steps", max_steps),
    )
    problems = eqx.filter_vmap(lambda each: as_arrays(problem.replace(**each)))(values)
    problems = jax.tree.map(lambda x: np.asarray(x) if eqx.is_array(x) else x, problems)
    # one start is shared, not copied
    begin = jax.tree.map(lambda *x: np.stack(x), *map(as_arrays, starts))
    begin = jax.tree.map(lambda x: np.broadcast_to(x, (count, *x.shape[1:])), begin)
    averages = moments_for(problem, quadrature, others=[largest])
    if rtol is None and program.random_points(averages, gradient_flow):
        rtol = sampled_rtol(averages, flow=gradient_flow)
    size = min(count, _fitting(problem, times, averages) if chunk is None else checks.as_count("chunk", chunk))
    size = -(-count // -(-count // size))  # chunks of equal size
    workers = cores() if workers is None else checks.as_count("workers", workers)
    steps = program.tolerances(rtol, atol)
    raw = side_by_side(problems, averages, begin, times, steps, options, size=size, workers=workers)
    trajectory = assemble(raw, times, problems, begin, _settings(options, steps))
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
            what = "changes shapes, functions or flags"
            raise InputError(f"over has {name!r}, which {what}; call solve_batch once for each, or use sweep.")
    values = {name: _entries(name, value) for name, value in over.items()}
    lengths = {name: value.shape[0] if value.ndim else 0 for name, value in values.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise InputError(f"over has lists of lengths {lengths}; give one entry per problem to each, and at least one.")
    for name, value in values.items():
        for extreme in value if _are_probabilities(name) else (value.min(axis=0), value.max(axis=0)):
            problem.replace(**{name: extreme})
        if name.rpartition(".")[2] in INCREASING and value.ndim > 1:
            for unordered in value[np.any(np.diff(value, axis=1) <= 0, axis=1)]:  # the extremes may be in order
                problem.replace(**{name: unordered})
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


def _fitting(problem: Problem, times: np.ndarray, moments: Moments) -> int:
    """Members that step together on this device."""
    if jax.default_backend() == "cpu":
        return ON_CPU
    K, M, L = problem.student.hidden, problem.references.hidden, problem.inputs.levels
    nodes, fitting = by_nodes(moments), ON_GPU // (K * (K + M) * (times.size + 20 * L + K * (K + M)))
    if nodes is not None and nodes.points:  # fields, updates and their products at all points
        fitting = min(fitting, IN_MEMORY // (max(nodes.points, program.AT_ONCE) * (2 * K + M + K**2)))
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
    shared = program.padded(times) if on_cpu else times, tolerances, options

    def some(first: int) -> Raw:
        which = np.minimum(np.arange(first, first + size), count - 1)
        raw = _together(eqx.combine(jax.tree.map(lambda x: x[which], numbers), rest), moments, *shared)
        return jax.tree.map(np.copy, first_times(program.eager(raw), times.size, lead=1))  # without the padding

    with ThreadPoolExecutor(workers if on_cpu else FETCHING) as pool:
        parts = list(pool.map(some, range(0, count, size)))
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


@eqx.filter_jit
def _together(members: PyTree, moments: Moments, times: NumpyOrJax, tolerances: NumpyOrJax, options: Options) -> Raw:
    options = options._replace(axis=MEMBERS)

    def one(problem: Problem, start: Start) -> Raw:
        return program.integrate(problem, moments, initial_overlaps(problem, start), times, tolerances, options)

    return eqx.filter_vmap(one, axis_name=MEMBERS)(*members)
