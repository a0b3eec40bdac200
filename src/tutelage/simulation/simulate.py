"""Simulations: the network itself, at any size, as a `Trajectory` with a run axis."""

import warnings
from collections.abc import Sequence
from math import ceil
from os import PathLike
from typing import Any

import jax
import numpy as np

from tutelage import checks
from tutelage._pool import cores
from tutelage._types import ArrayLike
from tutelage.errors import (
    DivergenceWarning,
    InputError,
    Status,
    TutelageWarning,
    ValidityWarning,
)
from tutelage.problem import Problem, Start, random_start, start_from_weights
from tutelage.problem.inputs import as_rows
from tutelage.problem.problem import require_problem
from tutelage.problem.start import require_pair, require_start, weights_by_level
from tutelage.problem.traits import MIXTURES, OPTIMIZERS, TASKS, require_traits
from tutelage.result.trajectory import Trajectory
from tutelage.simulation import prepare, recorded_error
from tutelage.simulation.overlaps import OverlapsMethod
from tutelage.simulation.runs import Records, Request, Runs, run_in_threads
from tutelage.simulation.weights import LAWS, ORDERS, WeightsMethod
from tutelage.stream.solve import keeps_blocks, require_records
from tutelage.times import steps_at

USUAL_RUNS = 20
MANY = 1000  # runs from which a GPU pays
LONG_SECONDS = 3600.0  # `simulate` warns above
SPREAD = 0.03  # least share of the coordinates along which spread weights lie


def simulate_stream(
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
    """Run SGD on fresh samples, as `tu.simulate` says."""
    problem = require_problem(problem, "simulate", needs=(TASKS, MIXTURES, OPTIMIZERS))
    method = _method(problem, method, weights, inputs)
    order = checks.known("order", order, ORDERS)
    law = rows_or_law(problem, method, inputs)
    starts = checked_starts(problem, start, weights)
    origin = "start" if weights is None else "the weights"
    dim = agreed_dim(problem, dim, starts, origin, law)
    times = checks.as_times(times)
    steps = steps_at(times, dim)
    last = int(steps[-1])
    if isinstance(law, np.ndarray):
        require_traits(
            problem,
            "simulate with rows of data, which have no known classes,",
            (TASKS, OPTIMIZERS),
        )
        _check_rows(problem, law, dim, last, order)
    uses_rows_once = isinstance(law, np.ndarray) and order == "given"
    runs = number_of_runs(runs, start, uses_rows_once)
    kept = keeps_blocks(problem, keep)
    require_records(problem, times, runs, kept)
    _require_batch(problem, method, dim)
    problem.require_rates_on(times, solved=False)
    weights_in_eigenbasis = None
    if weights is not None and method == "weights":
        weights_in_eigenbasis = tuple(
            np.concatenate(levels, axis=1)
            for levels in weights_by_level(problem, *weights)
        )
        _warn_of_axes(problem, weights_in_eigenbasis)
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
        weights=weights_in_eigenbasis,
        inputs=law,
        order=order,
        keep=kept,
    )
    progress = checks.as_flag("progress", progress)
    if together is None:
        on_gpu = jax.default_backend() != "cpu"
        together = method == "overlaps" and runs >= MANY and on_gpu
    together = checks.as_flag("together", together)
    if together and method != "overlaps":
        raise InputError(
            "together=True holds for method='overlaps' only; "
            "leave it out to learn on actual weights."
        )
    seconds = estimated_seconds(problem, dim, last, runs, method, workers)
    if not together and seconds > LONG_SECONDS:
        sentence = f"{duration_warning(seconds, last, runs)}."
        warnings.warn(sentence, TutelageWarning, stacklevel=3)
    if method == "weights":
        run = WeightsMethod(request).run
        finished = run_in_threads(run, request, workers, progress)
    elif together or not prepare.has_kernels(problem):
        finished = OverlapsMethod(request).run_together(progress)
    else:
        run = OverlapsMethod(request).run
        finished = run_in_threads(run, request, workers, progress)
    trajectory = as_trajectory(request, finished, together)
    warn_if_unfinished(trajectory, request)
    return trajectory


def steps_per_time(problem: Problem, dim: int) -> int:
    """Return the steps in one unit of time: N, or 1 if times count steps."""
    return 1 if problem.optimizer.counts_steps else dim


def number_of_runs(runs: int | None, start: object, uses_rows_once: bool) -> int:
    """Return the number of runs: as asked for, else one for each start.

    Default: one for rows in their given order, because every run would see the same
    samples, else 20.
    """
    starts = len(start) if isinstance(start, Sequence) else None
    if starts is not None and runs not in (None, starts):
        raise InputError(
            f"runs is {runs}, but {starts} initial conditions are given; "
            "give one for each run."
        )
    if runs is None:
        runs = starts or (1 if uses_rows_once else USUAL_RUNS)
    return checks.as_count("runs", runs)


def _require_batch(problem: Problem, method: str, dim: int) -> None:
    """Refuse a batch of samples that does not fit into memory."""
    batch = problem.samples_per_step
    numbers = dim  # of one sample
    if method != "weights":
        units = 2 * problem.student.hidden + problem.references.hidden
        numbers = problem.inputs.levels * units
    checks.require_memory(
        f"a batch of {batch} samples", batch * numbers, "Use a smaller batch."
    )


def as_trajectory(request: Request, finished: Runs, together: bool) -> Trajectory:
    """Return the trajectory of recorded runs, with errors at all records."""
    problem = request.problem
    records, status, taken = finished
    overlaps = [start.blocks(problem)[2] for start in request.starts]
    t = np.stack([np.asarray(x, dtype=float) for x in overlaps])
    if len(request.starts) == 1:
        t = t[0]
    else:
        t = t[: status.size, None]  # of each run, at all times
    has_moving_teachers = bool(records.T.size)
    if has_moving_teachers:
        T = records.T
    else:
        T = np.einsum("l,...lab->...ab", request.field_weights, t)
    if problem.unseen is not None:
        T = T + np.asarray(problem.unseen)
    error, loss = _errors(request, records, t, T)
    return Trajectory(
        times=request.times,
        variables=_variables(request, records, T),
        error=error,
        loss=loss,
        status_code=status,
        end_time=np.where(
            status == Status.FINISHED,
            float(request.times[-1]),
            taken / steps_per_time(problem, request.dim),
        ),
        steps=taken,
        T=_fixed_covariance(T, has_moving_teachers),
        problem=problem,
        start=request.starts[0] if len(request.starts) == 1 else None,
        kind="simulation",
        settings=_settings(request, together),
    )


def _variables(
    request: Request, records: Records, T: np.ndarray
) -> dict[str, np.ndarray]:
    """Return what was recorded, by name; T only of teachers that drift."""
    variables = {"R": records.R, "Q": records.Q, "readout": records.readout}
    if request.problem.biased:
        variables["bias"] = records.bias
    if request.keep:
        variables["r"] = records.r
        variables["q"] = records.q
    if records.T.size:
        variables["T"] = T
    return variables


def _errors(
    request: Request, records: Records, t: np.ndarray, T: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return error and loss at the records; of a mixture the averages over classes."""
    problem = request.problem
    if problem.inputs.classes is None:
        return recorded_error.errors_at_records(
            problem,
            records.R,
            records.Q,
            T,
            records.readout,
            records.bias,
            request.times,
        )
    errors, losses = recorded_error.errors_at_records(
        problem,
        records.r,
        records.q,
        t,
        records.readout,
        records.bias,
        request.times,
        request.dim,
    )
    assert problem.mixture is not None
    probabilities = np.asarray(problem.mixture.probabilities)
    return errors @ probabilities, losses @ probabilities


def _fixed_covariance(T: np.ndarray, has_moving_teachers: bool) -> np.ndarray | None:
    """Return T of the trajectory, (M, M) or one for each run; None if it moves."""
    if has_moving_teachers:
        return None
    return T if T.ndim == 2 else T[:, 0]


def _settings(request: Request, together: bool) -> tuple[tuple[str, Any], ...]:
    """Return the settings that the trajectory records."""
    law = request.inputs
    settings = [
        ("method", request.method),
        ("dim", request.dim),
        ("runs", request.runs),
        ("seed", request.seed),
        ("inputs", law if isinstance(law, str) else f"rows, {request.order}"),
    ]
    if together:
        settings.append(("together", True))
    return tuple(settings)


def warn_if_unfinished(trajectory: Trajectory, request: Request) -> None:
    """Warn of runs that diverged, were interrupted or never began."""
    codes = np.asarray(trajectory.status_code)
    diverged = codes == Status.DIVERGED
    if np.any(diverged):
        warnings.warn(
            f"{np.sum(diverged)} of {request.runs} runs diverged, "
            f"{_when_first(trajectory, diverged)}, lower the learning rate.",
            DivergenceWarning,
            stacklevel=4,
        )
    interrupted = codes == Status.INTERRUPTED
    missing = request.runs - codes.size
    if np.any(interrupted) or missing:
        words = "were interrupted"
        if missing:
            words += f" and {missing} never began"
        warnings.warn(
            f"{np.sum(interrupted)} of {request.runs} runs {words}, "
            f"{_when_first(trajectory, interrupted)}, the finished ones are whole.",
            TutelageWarning,
            stacklevel=4,
        )


def _when_first(trajectory: Trajectory, chosen: np.ndarray) -> str:
    """Say when the first of the chosen runs ended."""
    end_times = np.asarray(trajectory.end_time)[chosen]
    first = float(np.min(end_times, initial=float(trajectory.times[-1])))
    return f"the first at alpha = {first:.6g}; their later values are NaN"


def usual_method(problem: Problem) -> str:
    """Return the method of `simulate` for a problem.

    "overlaps" if the steps of its optimizer move along fresh samples, else "weights".
    """
    if problem.data is not None:
        return "weights"
    moves_along_samples = prepare.optimizer_code(problem) == prepare.kernels.PLAIN
    return "overlaps" if moves_along_samples else "weights"


def _method(
    problem: Problem, method: str | None, weights: object, inputs: object
) -> str:
    """Return the method: as asked for, else the one that the other arguments need."""
    if method is None:
        if weights is not None or inputs is not None:
            return "weights"
        return usual_method(problem)
    known = checks.known("method", method, ("overlaps", "weights"))
    is_gaussian = inputs is None or (isinstance(inputs, str) and inputs == "gaussian")
    if known == "overlaps" and not is_gaussian:
        raise InputError(
            "method='overlaps' holds for Gaussian inputs only, and inputs were given; "
            "use method='weights'."
        )
    if known == "overlaps" and usual_method(problem) == "weights":
        raise InputError(
            f"the optimizer is {problem.optimizer}, whose steps depend on every "
            "coordinate of the weights and not on their overlaps alone; "
            "use method='weights'."
        )
    return known


def _warn_of_axes(problem: Problem, weights: tuple[np.ndarray, ...]) -> None:
    """Warn if an optimizer acts on coordinates and a vector lies along few of them.

    A vector counts (sum w_i^2)^2 / sum w_i^4 coordinates: N / 3 of Gaussian entries.
    """
    codes = (prepare.kernels.PLAIN, prepare.kernels.ADAGRAD_NORM, prepare.kernels.MUON)
    if prepare.optimizer_code(problem) in codes:
        return
    for name, vectors in zip(("student", "teacher"), weights, strict=True):
        squares = vectors**2
        fourth = np.maximum(np.sum(squares**2, axis=1), 1e-300)
        count = np.sum(squares, axis=1) ** 2 / fourth
        fewest = int(np.argmin(np.where(count > 0, count, np.inf)))
        if 0 < count[fewest] < SPREAD * vectors.shape[1]:
            warnings.warn(
                f"the weights of {name} unit {fewest + 1} lie along about "
                f"{count[fewest]:.0f} of {vectors.shape[1]} coordinates. "
                f"{type(problem.optimizer).__name__} acts on single coordinates, and its "
                "theory holds for weights that are spread over all of them. Rotate the "
                "weights into a random frame, or expect a gap.",
                ValidityWarning,
                stacklevel=3,
            )


def rows_or_law(problem: Problem, method: str, inputs: Any) -> str | np.ndarray:
    """Return a law's name, rows, or "features".

    "features": the samples of a `HiddenManifold` itself, unless others are asked for.
    """
    if isinstance(inputs, str) and not inputs.endswith(".npy"):
        return checks.known("inputs", inputs, LAWS)
    if inputs is not None:
        return as_rows(inputs, "inputs")
    if not problem.inputs.is_latent or method != "weights":
        return "gaussian"
    if prepare.drift_rate(problem):
        raise InputError(
            "the teachers drift, which samples of a HiddenManifold do not support; "
            "use inputs='gaussian'."
        )
    return "features"


def checked_starts(
    problem: Problem, start: Start | Sequence[Start] | None, weights: Any
) -> list[Start]:
    """Return one Start, one for each run, or none if none was given."""
    if weights is not None:
        if start is not None:
            raise InputError(
                "start and weights are both given; weights set the initial condition, "
                "too. Give one of them."
            )
        return [start_from_weights(problem, *require_pair(weights))]
    if start is None:
        return []
    starts = list(start) if isinstance(start, Sequence) else [start]
    if not starts:
        raise InputError(
            "start is an empty list; give one Start for all runs, or one for each."
        )
    for initial in starts:
        require_start(initial).blocks(problem)
    return starts


def agreed_dim(
    problem: Problem,
    dim: int | None,
    starts: list[Start],
    origin: str,
    rows: str | np.ndarray,
) -> int:
    """Return N, on which all arguments that state it must agree.

    origin: the source of the starts.
    """
    stated = []
    if dim is not None:
        stated.append(("dim", checks.as_count("dim", dim)))
    stated += [(origin, start.dim) for start in starts if start.dim is not None]
    if problem.inputs.known_dim is not None:
        stated.append(("the inputs of the problem", problem.inputs.known_dim))
    elif isinstance(rows, np.ndarray):
        stated.append(("the inputs", rows.shape[1]))
    if not stated:
        raise InputError(
            "dim is missing; give the number of input dimensions N, such as dim=1000."
        )
    (first, value), *others = stated
    for name, other in others:
        if other != value:
            raise InputError(
                f"N is {value} according to {first}, but {other} according to {name}; "
                f"set both to the same N, such as {other}."
            )
    vectors = problem.student.hidden + problem.references.hidden
    if value < vectors:
        raise InputError(
            f"dim is {value}; {vectors} vectors (student and teacher units) need at "
            f"least {vectors} dimensions."
        )
    return value


def _check_rows(
    problem: Problem, rows: np.ndarray, dim: int, steps: int, order: str
) -> None:
    """Refuse rows of data that do not fit the spectrum, or are too few."""
    require_rows(problem, rows, dim)
    batch = problem.samples_per_step
    if order != "sampled" and rows.shape[0] < steps * batch:
        reach = rows.shape[0] // batch / dim
        raise InputError(
            f"inputs have {rows.shape[0]} rows, but {steps} steps of batch {batch} "
            f"need {steps * batch}; stop at alpha = {reach:g}, "
            "or draw rows again and again with order='sampled'."
        )


def require_rows(problem: Problem, rows: np.ndarray, dim: int) -> None:
    """Refuse rows of data that do not fit the spectrum."""
    basis = problem.inputs.basis
    if basis is None and problem.inputs.known_dim is not None:
        raise InputError(
            "the spectrum has lost its eigenvectors, which rows of data need; "
            "measure it again with from_data."
        )
    columns = dim if basis is None else basis.shape[1]
    if rows.shape[1] != columns:
        raise InputError(
            f"inputs have {rows.shape[1]} columns; "
            f"the spectrum was measured on {columns}."
        )


def estimated_seconds(
    problem: Problem,
    dim: int,
    steps: float,
    runs: int,
    method: str,
    workers: int | None = None,
) -> float:
    """Return the time of runs of so many steps, within a factor of about three.

    They are spread over the workers (default: the cores). Fitted to measurements on a
    present-day core: K, M from 1 to 30, up to 50 levels, batches up to 10.
    """
    K = problem.student.hidden
    M = problem.references.hidden
    L = problem.inputs.levels
    B = problem.samples_per_step
    if method == "overlaps":
        step = 1e-6 * (1 + B) + 1e-8 * B * L * (K + M) ** 2
    else:
        step = 1e-8 * B * dim * (1 + (2 * K + M) / 10)
    return step * steps * ceil(runs / (workers or cores()))


def duration_warning(duration: float, steps: float, runs: int) -> str:
    """Say how long runs will take, and what shortens them."""
    hours = duration / 3600
    return (
        f"{runs} run{'s' * (runs != 1)} of {steps:.3g} steps will take about "
        f"{hours:.2g} hours; lower N, the last time or the number of runs"
    )
