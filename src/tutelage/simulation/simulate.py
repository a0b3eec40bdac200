"""`simulate`: the network itself, at any size, as a `Trajectory` with a run axis."""

import warnings
from collections.abc import Sequence
from math import ceil
from os import PathLike
from typing import Any

import jax
import numpy as np

from tutelage import checks
from tutelage._pool import cores
from tutelage._solve import keeps_blocks, require_records
from tutelage._types import ArrayLike
from tutelage.errors import DivergenceWarning, InputError, Status, TutelageWarning
from tutelage.problem import Mixture, Problem, Start, random_start, start_from_weights
from tutelage.problem.inputs import HiddenManifold, as_rows
from tutelage.problem.problem import require_problem
from tutelage.problem.schedules import require_rates_on
from tutelage.problem.start import require_pair, require_start, weights_by_level
from tutelage.problem.traits import MIXTURES, TASKS, require_traits
from tutelage.simulation import prepare, recorded_error
from tutelage.simulation.overlaps import OverlapsMethod
from tutelage.simulation.runs import Request, Runs, run_in_threads
from tutelage.simulation.weights import LAWS, ORDERS, WeightsMethod
from tutelage.times import steps_at
from tutelage.trajectory import Trajectory

MANY = 1000  # runs from which a GPU pays
LONG_SECONDS = 3600.0  # `simulate` warns above


def simulate(
    problem: Problem,
    start: Start | Sequence[Start] | None = None,
    *,
    dim: int | None = None,
    times: ArrayLike | Sequence[float] = 100.0,
    runs: int | None = None,
    seed: int = 0,
    method: str | None = None,
    weights: tuple[ArrayLike, ArrayLike] | None = None,
    inputs: str | PathLike | ArrayLike | None = None,
    order: str = "given",
    keep: str | None = None,
    workers: int | None = None,
    together: bool | None = None,
    progress: bool = False,
) -> Trajectory:
    """One-pass SGD on networks of input dimension N, `runs` times from the same initial condition.

    Parameters
    ----------
    problem : Problem
        What to learn, and how.
    start : Start or list of Start, optional
        The initial condition, or one for each run. Default: `random_start(problem, dim)`.
    dim : int, optional
        N, if neither start nor inputs give it.
    times : array or float
        As in `solve`. The state after ceil(alpha N) steps is recorded; `step` has these numbers.
    runs : int, optional
        The number of networks. Default: 20.
    seed : int
        Run i depends only on the seed, on i and on `together`.
    method : str, optional
        "overlaps": the exact law for Gaussian inputs, at a cost independent of N (the default). "weights": SGD on the
        weights (the default if weights or inputs are given).
    weights : pair of arrays, optional
        (W, W_teacher) of shapes (K, N) and (M, N) in input coordinates. Default: weights in a random frame with exactly
        the overlaps of `start`.
    inputs : str or array, optional
        "gaussian", "rademacher", "uniform", "student_t" or "student_t3" (unit variance, in eigencoordinates), or
        samples: rows (samples, N), images, or the name of a .npy file.
    order : str
        The order of given samples: "given", "shuffled" (each once) or "sampled" (with replacement).
    keep : str, optional
        "blocks" or "fields", as in `solve`.
    workers : int, optional
        Threads; they do not change the results. Default: the cores.
    together : bool, optional
        Run all networks in one JAX program (overlaps only), from other random numbers of the same law. Default: on a GPU
        for 1000 runs or more.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Trajectory
        With a leading axis of runs. The error is the exact population error at the recorded overlaps. A run that diverges,
        or that Ctrl-C interrupts, is NaN from there on; `status_code` marks it.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> runs = tu.simulate(problem, tu.asymmetric_start(problem), dim=1000, times=tu.linear_times(10, 11), runs=4, seed=1)
    >>> runs.error.shape
    (4, 11)
    """
    problem = require_problem(problem, "simulate", needs=(TASKS, MIXTURES))
    method, order = _method(method, weights, inputs), checks.known("order", order, ORDERS)
    law, starts = _inputs(problem, method, inputs), _starts(problem, start, weights)
    dim = _dim(problem, dim, starts, "start" if weights is None else "the weights", law)
    times = checks.as_times(times)
    steps, rows = steps_at(times, dim), law if isinstance(law, np.ndarray) else None
    if rows is not None:
        require_traits(problem, "simulate with rows of data, which have no known classes,", (TASKS,))
        _check_rows(problem, rows, dim, int(steps[-1]), order)
    each = len(start) if isinstance(start, Sequence) else None
    if each is not None and runs not in (None, each):
        raise InputError(f"runs is {runs}, but {each} initial conditions are given; give one for each run.")
    if runs is None:
        runs = each or (1 if rows is not None and order == "given" else 20)
    runs, kept = checks.as_count("runs", runs), keeps_blocks(problem, keep)
    require_records(problem, times, runs, kept)
    units, batch = 2 * problem.student.hidden + problem.references.hidden, problem.samples_per_step
    numbers = dim if method == "weights" else problem.inputs.levels * units  # of one sample
    checks.require_memory(f"a batch of {batch} samples", batch * numbers, "Use a smaller batch.")
    require_rates_on(problem, times, solved=False)
    given = None
    if weights is not None and method == "weights":
        given = tuple(np.concatenate(levels, axis=1) for levels in weights_by_level(problem, *weights))
    request = Request(
        problem=problem,
        method=method,
        dim=dim,
        dims=problem.inputs.level_dims(dim),
        times=times,
        steps=steps,
        runs=runs,
        seed=checks.as_count("seed", seed, least=0),
        starts=starts or [random_start(problem, dim)],
        weights=given,
        inputs=law,
        order=order,
        keep=kept,
    )
    progress = checks.as_flag("progress", progress)
    if together is None:
        together = method == "overlaps" and runs >= MANY and jax.default_backend() != "cpu"
    if checks.as_flag("together", together) and method != "overlaps":
        raise InputError("together=True holds for method='overlaps' only; leave it out to learn on actual weights.")
    seconds = estimated_seconds(problem, dim, int(steps[-1]), runs, method, workers)
    if not together and seconds > LONG_SECONDS:
        warnings.warn(f"{duration_warning(seconds, int(steps[-1]), runs)}.", TutelageWarning, stacklevel=2)
    if method == "weights":
        done = run_in_threads(WeightsMethod(request).run, request, workers, progress)
    elif together or not prepare.has_kernels(problem):
        done = OverlapsMethod(request).run_together(progress)
    else:
        done = run_in_threads(OverlapsMethod(request).run, request, workers, progress)
    trajectory = _as_trajectory(request, done, together)
    _warn_if_unfinished(trajectory, request)
    return trajectory


def _as_trajectory(request: Request, done: Runs, together: bool) -> Trajectory:
    problem, (records, status, taken) = request.problem, done
    t = np.stack([np.asarray(start.blocks(problem)[2], dtype=float) for start in request.starts])
    t = t[0] if len(request.starts) == 1 else t[: status.size, None]  # of all runs, or one each
    moving = bool(records.T.size)  # teachers that drift are recorded
    T = records.T if moving else np.einsum("l,...lab->...ab", request.field_weights, t)
    T = T if problem.unseen is None else T + np.asarray(problem.unseen)
    kept = {"R": True, "Q": True, "readout": True, "bias": problem.biased, "r": request.keep, "q": request.keep}
    variables = {name: getattr(records, name) for name in kept if kept[name]} | ({"T": T} if moving else {})
    parameters = records.readout, records.bias, request.times
    if isinstance(problem.inputs, Mixture):
        both = recorded_error.errors_at_records(problem, records.r, records.q, t, *parameters, request.dim)
        error, loss = (x @ np.asarray(problem.inputs.probabilities) for x in both)
    else:
        error, loss = recorded_error.errors_at_records(problem, records.R, records.Q, T, *parameters)
    law = request.inputs if isinstance(request.inputs, str) else f"rows, {request.order}"
    settings = {name: getattr(request, name) for name in ("method", "dim", "runs", "seed")} | {"inputs": law}
    settings |= {"together": True} if together else {}
    return Trajectory(
        times=request.times,
        variables=variables,
        error=error,
        loss=loss,
        status_code=status,
        end_time=np.where(status == Status.FINISHED, float(request.times[-1]), taken / request.dim),
        steps=taken,
        T=None if moving else T if T.ndim == 2 else T[:, 0],
        problem=problem,
        start=request.starts[0] if len(request.starts) == 1 else None,
        kind="simulation",
        settings=tuple(settings.items()),
    )


def _warn_if_unfinished(trajectory: Trajectory, request: Request) -> None:
    """Never silent about runs that did not finish."""
    codes, missing = np.asarray(trajectory.status_code), request.runs - np.size(trajectory.status_code)
    never = f" and {missing} never began" if missing else ""
    diverged = Status.DIVERGED, 0, DivergenceWarning, "diverged", "lower the learning rate"
    interrupted = Status.INTERRUPTED, missing, TutelageWarning, f"were interrupted{never}", "the finished ones are whole"
    for status, others, category, words, fix in (diverged, interrupted):
        which = np.flatnonzero(codes == status)
        if which.size + others:
            first = float(np.min(np.asarray(trajectory.end_time)[which], initial=float(request.times[-1])))
            when = f"the first at alpha = {first:.6g}; their later values are NaN, {fix}"
            warnings.warn(f"{which.size} of {request.runs} runs {words}, {when}.", category, stacklevel=3)


def _method(method: str | None, weights: object, inputs: object) -> str:
    if method is None:
        return "overlaps" if weights is None and inputs is None else "weights"
    known = checks.known("method", method, ("overlaps", "weights"))
    if known == "overlaps" and inputs is not None and not (isinstance(inputs, str) and inputs == "gaussian"):
        raise InputError("method='overlaps' holds for Gaussian inputs only, and inputs were given; use method='weights'.")
    return known


def _inputs(problem: Problem, method: str, inputs: Any) -> str | np.ndarray:
    """A law's name, rows, or "features": the samples of a `HiddenManifold` itself, unless other ones are asked for."""
    if inputs is None and isinstance(problem.inputs, HiddenManifold) and method == "weights":
        if prepare.drift_rate(problem):
            raise InputError("the teachers drift, which samples of a HiddenManifold do not support; use inputs='gaussian'.")
        return "features"
    if inputs is None:
        return "gaussian"
    if isinstance(inputs, str) and not inputs.endswith(".npy"):
        return checks.known("inputs", inputs, LAWS)
    return as_rows(inputs, "inputs")


def _starts(problem: Problem, start: Start | Sequence[Start] | None, weights: Any) -> list[Start]:
    """One Start, one for each run, or none if none was given."""
    if weights is not None:
        if start is not None:
            raise InputError("start and weights are both given; weights set the initial condition, too. Give one of them.")
        return [start_from_weights(problem, *require_pair(weights))]
    if start is None:
        return []
    starts = list(start) if isinstance(start, Sequence) else [start]
    if not starts:
        raise InputError("start is an empty list; give one Start for all runs, or one for each.")
    for one in starts:
        require_start(one).blocks(problem)
    return starts


def _dim(problem: Problem, dim: int | None, starts: list[Start], origin: str, rows: str | np.ndarray) -> int:
    """N, on which all arguments that state it must agree. origin: where the starts come from."""
    known = [] if dim is None else [("dim", checks.as_count("dim", dim))]
    known += [(origin, one.dim) for one in starts if one.dim is not None]
    if problem.inputs.known_dim is not None:
        known.append(("the inputs of the problem", problem.inputs.known_dim))
    elif isinstance(rows, np.ndarray):
        known.append(("the inputs", rows.shape[1]))
    if not known:
        raise InputError("dim is missing; give the number of input dimensions N, such as dim=1000.")
    (first, value), *others = known
    for name, other in others:
        if other != value:
            both = f"N is {value} according to {first}, but {other} according to {name}"
            raise InputError(f"{both}; set both to the same N, such as {other}.")
    vectors = problem.student.hidden + problem.references.hidden
    if value < vectors:
        raise InputError(
            f"dim is {value}; {vectors} vectors (student and teacher units) need at least {vectors} dimensions."
        )
    return value


def _check_rows(problem: Problem, rows: np.ndarray, dim: int, steps: int, order: str) -> None:
    basis = problem.inputs.basis
    if basis is None and problem.inputs.known_dim is not None:
        raise InputError("the spectrum has lost its eigenvectors, which rows of data need; measure it again with from_data.")
    columns, batch = dim if basis is None else basis.shape[1], problem.samples_per_step
    if rows.shape[1] != columns:
        raise InputError(f"inputs have {rows.shape[1]} columns; the spectrum was measured on {columns}.")
    if order != "sampled" and rows.shape[0] < steps * batch:
        needed, reach = f"{steps} steps of batch {batch} need {steps * batch}", rows.shape[0] // batch / dim
        fix = f"stop at alpha = {reach:g}, or draw rows again and again with order='sampled'"
        raise InputError(f"inputs have {rows.shape[0]} rows, but {needed}; {fix}.")


def estimated_seconds(problem: Problem, dim: int, steps: float, runs: int, method: str, workers: int | None = None) -> float:
    """The time of `runs` runs of so many steps, spread over the workers (default: the cores), within a factor of about three.

    Fitted to measurements on a present-day core: K, M from 1 to 30, up to 50 levels, batches up to 10.
    """
    K, M, L, B = problem.student.hidden, problem.references.hidden, problem.inputs.levels, problem.samples_per_step
    by_overlaps, by_weights = 1e-6 * (1 + B) + 1e-8 * B * L * (K + M) ** 2, 1e-8 * B * dim * (1 + (2 * K + M) / 10)
    return (by_overlaps if method == "overlaps" else by_weights) * steps * ceil(runs / (workers or cores()))


def duration_warning(duration: float, steps: float, runs: int) -> str:
    """What the estimate says and what shortens it."""
    work = f"{runs} run{'s' * (runs != 1)} of {steps:.3g} steps"
    return f"{work} will take about {duration / 3600:.2g} hours; lower N, the last time or the number of runs"
