"""The arguments of `simulate`, checked against each other, and an estimate of how long they will take.

The estimate is right within a factor of about three on a present-day core. Seconds per step, fitted to measurements (K, M
from 1 to 30, up to 50 levels, batches up to 10):
    overlaps   1e-6 (1 + B) + 1e-8 B L (K + M)^2
    weights    1e-8 B N (1 + (2 K + M) / 10)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from os import PathLike
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage._pool import cores
from tutelage._solve import keeps_blocks, require_records, require_tasks_on
from tutelage._types import ArrayLike
from tutelage.errors import InputError
from tutelage.problem import Problem, Start, random_start, start_from_weights
from tutelage.problem.hidden_manifold import HiddenManifold
from tutelage.problem.inputs import as_rows
from tutelage.problem.problem import require_problem
from tutelage.problem.schedules import require_rates_on
from tutelage.problem.start import require_pair, require_start
from tutelage.problem.traits import MIXTURES, TASKS, require_traits
from tutelage.simulation.coordinates import drift_rate
from tutelage.simulation.weights import LAWS, ORDERS
from tutelage.times import check_times, steps_at

Starts = Start | Sequence[Start] | None
METHODS = ("overlaps", "weights")
LONG_SECONDS = 3600.0  # `simulate` warns above
UNITS = {"years": 365.25 * 86400, "months": 30.4 * 86400, "days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True)
class Request:
    """weights: in eigencoordinates, or None. starts: one for all runs, or one each. inputs: a law's name, "features" (of a
    `HiddenManifold`) or rows."""

    problem: Problem
    method: str
    dim: int
    dims: Int[np.ndarray, " L"]
    times: Float[np.ndarray, " time"]
    steps: Int[np.ndarray, " time"]
    runs: int
    seed: int
    starts: list[Start]
    weights: tuple[Float[np.ndarray, "K N"], Float[np.ndarray, "M N"]] | None
    inputs: str | Float[np.ndarray, "samples N"]
    order: str
    keep: bool

    @property
    def field_weights(self) -> Float[np.ndarray, " L"]:
        """p_l lam_l with the actual share n_l / N of each level."""
        return self.dims / self.dim * np.asarray(self.problem.inputs.eigenvalues, dtype=float)


def checked_request(
    problem: Problem,
    start: Starts,
    dim: int | None,
    times: ArrayLike | Sequence[float],
    runs: int | None,
    seed: int,
    method: str | None,
    weights: tuple[ArrayLike, ArrayLike] | None,
    inputs: str | PathLike | ArrayLike | None,
    order: str,
    keep: str | None,
) -> Request:
    """The arguments of `simulate`, checked against each other."""
    problem = require_problem(problem, "simulate", needs=(TASKS, MIXTURES))
    method = _method(method, weights, inputs)
    order = checks.known("order", order, ORDERS)
    rows = "features" if _has_features(problem, method, inputs) else _inputs(inputs)
    if weights is not None and start is not None:
        raise InputError("start and weights are both given; weights already set the initial condition. Give one of them.")
    starts = _starts(problem, start) if weights is None else [start_from_weights(problem, *require_pair(weights))]
    dim = _dim(problem, dim, starts, "start" if weights is None else "the weights", rows)
    times = check_times(times)
    steps = steps_at(times, dim)
    if isinstance(rows, np.ndarray):
        require_traits(problem, "simulate with rows of data, which have no known classes,", (TASKS,))
        _check_rows(problem, rows, dim, int(steps[-1]), order)
    if isinstance(start, Sequence) and runs not in (None, len(start)):
        raise InputError(f"runs is {runs}, but {len(start)} initial conditions are given; give one for each run.")
    if runs is None:
        given_rows = isinstance(rows, np.ndarray) and order == "given"
        runs = len(start) if isinstance(start, Sequence) else 1 if given_rows else 20
    runs, kept = checks.as_count("runs", runs), keeps_blocks(problem, keep)
    require_records(problem, times, runs, kept)
    if method == "overlaps":
        units = 2 * problem.student.hidden + problem.references.hidden
        samples = f"a batch of {problem.samples_per_step} samples"
        checks.require_memory(samples, problem.samples_per_step * problem.inputs.levels * units, "Use a smaller batch.")
    require_rates_on(problem, times, solved=False)
    require_tasks_on(problem, times)
    return Request(
        problem=problem,
        method=method,
        dim=dim,
        dims=problem.inputs.level_dims(dim),
        times=times,
        steps=steps,
        runs=runs,
        seed=checks.as_count("seed", seed, least=0),
        starts=starts or [random_start(problem, dim)],
        weights=None if weights is None or method == "overlaps" else _eigencoordinates(problem, weights),
        inputs=rows,
        order=order,
        keep=kept,
    )


def _method(method: str | None, weights: object, inputs: object) -> str:
    if method is None:
        return "overlaps" if weights is None and inputs is None else "weights"
    known = checks.known("method", method, METHODS)
    if known == "overlaps" and inputs is not None and not (isinstance(inputs, str) and inputs == "gaussian"):
        raise InputError("method='overlaps' holds for Gaussian inputs only, and inputs were given; use method='weights'.")
    return known


def _eigencoordinates(problem: Problem, weights: tuple[ArrayLike, ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    """W and W*, rotated into the eigenvectors of the inputs."""
    W, W_teacher = (np.array(w, dtype=float, order="C") for w in weights)
    if isinstance(problem.inputs, HiddenManifold):
        W_teacher = problem.inputs.visible_teacher(W_teacher)
    basis = problem.inputs.basis
    if basis is None:
        return W, W_teacher
    return np.ascontiguousarray(W @ basis.T), np.ascontiguousarray(W_teacher @ basis.T)


def _has_features(problem: Problem, method: str, inputs: object) -> bool:
    """Are the samples those of a `HiddenManifold` itself? They are unless other ones are asked for."""
    if not isinstance(problem.inputs, HiddenManifold) or method != "weights" or inputs is not None:
        return False
    if drift_rate(problem):
        raise InputError("the teachers drift, which samples of a HiddenManifold do not support; use inputs='gaussian'.")
    return True


def _inputs(inputs: Any) -> str | np.ndarray:
    if inputs is None:
        return "gaussian"
    if isinstance(inputs, str) and not inputs.endswith(".npy"):
        return checks.known("inputs", inputs, LAWS)
    if isinstance(inputs, str | PathLike):
        return as_rows(inputs, "inputs")
    rows = inputs if isinstance(inputs, np.ndarray) else np.asarray(inputs)
    if rows.ndim < 2 or not (np.issubdtype(rows.dtype, np.number) or rows.dtype == bool):
        raise InputError(
            f"inputs have shape {rows.shape} and type {rows.dtype}; give numbers of shape (samples, N), images, the name "
            f"of a .npy file, or a law: {', '.join(LAWS)}."
        )
    return rows.reshape(rows.shape[0], prod(rows.shape[1:]))


def _starts(problem: Problem, start: Starts) -> list[Start]:
    """One Start, one for each run, or none if none was given."""
    if start is None:
        return []
    starts = list(start) if isinstance(start, Sequence) else [start]
    if not starts:
        raise InputError("start is an empty list; give one Start for all runs, or one for each.")
    for one in starts:
        require_start(one).blocks(problem)
    return starts


def _dim(problem: Problem, dim: int | None, starts: list[Start], origin: str, rows: str | np.ndarray) -> int:
    """N, from whatever knows it; all that know it must agree. origin: where the starts come from."""
    known: dict[str, int] = {}
    if dim is not None:
        known["dim"] = checks.as_count("dim", dim)
    for one in starts:
        if one.dim is not None:
            known[origin] = one.dim
    if problem.inputs.known_dim is not None:
        known["the inputs of the problem"] = problem.inputs.known_dim
    elif isinstance(rows, np.ndarray):
        known["the inputs"] = rows.shape[1]
    if not known:
        raise InputError("dim is missing; give the number of input dimensions N, such as dim=1000.")
    (first, value), *others = known.items()
    for name, other in others:
        if other != value:
            raise InputError(f"by {first} N is {value}, but by {name} it is {other}; make them agree.")
    vectors = problem.student.hidden + problem.references.hidden
    if value < vectors:
        raise InputError(
            f"dim is {value}; {vectors} vectors (student and teacher units) need at least {vectors} dimensions."
        )
    return value


def _check_rows(problem: Problem, rows: np.ndarray, dim: int, steps: int, order: str) -> None:
    basis = problem.inputs.basis
    if basis is None and problem.inputs.known_dim is not None:
        raise InputError(
            "the spectrum comes without its eigenvectors, which rows of data need; measure it again with from_data."
        )
    columns = dim if basis is None else basis.shape[1]
    if rows.shape[1] != columns:
        raise InputError(f"inputs have {rows.shape[1]} columns; the spectrum was measured on {columns}.")
    needed, batch = steps * problem.samples_per_step, problem.samples_per_step
    if order != "sampled" and rows.shape[0] < needed:
        reach = rows.shape[0] // batch / dim
        raise InputError(
            f"inputs have {rows.shape[0]} rows, but {steps} steps of batch {batch} need {needed}; stop at "
            f"alpha = {reach:g}, or draw rows again and again with order='sampled'."
        )
    if rows.shape[0] == 0:
        raise InputError("inputs have no rows; give at least one sample.")


def estimated_seconds(problem: Problem, dim: int, steps: float, runs: int, method: str, workers: int | None = None) -> float:
    """The estimated time of `runs` runs of so many steps, spread over the workers (default: the cores)."""
    K, M, L, B = problem.student.hidden, problem.references.hidden, problem.inputs.levels, problem.samples_per_step
    if method == "overlaps":
        step = 1e-6 * (1 + B) + 1e-8 * B * L * (K + M) ** 2
    else:
        step = 1e-8 * B * dim * (1 + (2 * K + M) / 10)
    return step * steps * ceil(runs / (workers or cores()))


def duration_in_words(duration: float) -> str:
    """A duration to one digit or two, in its own unit."""
    name, unit = next(((name, unit) for name, unit in UNITS.items() if duration >= 2 * unit), ("seconds", 1))
    return f"{duration / unit:.2g} {name}" if duration < 100 * unit else f"{duration / unit:.0f} {name}"


def duration_warning(duration: float, steps: float, runs: int) -> str:
    """What the estimate says and what shortens it."""
    return (
        f"{runs} run{'s' * (runs != 1)} of {steps:.3g} steps will take about {duration_in_words(duration)}; "
        "lower N, the last time or the number of runs"
    )
