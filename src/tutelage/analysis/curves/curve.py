"""Trajectories as single curves: what every verb that reads a curve starts from.

A solve is one curve; a simulation is one curve per run, and so is the answer (`RunResults`). After a divergence only the times
before it are kept. Everything here is NumPy: these verbs run outside JAX transformations and cost milliseconds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError, Status, require_fields
from tutelage.analysis.curves.run_results import RunResults
from tutelage.problem import Problem

ROUNDING = 1e-13  # of the largest error
STRIDES = 50


@dataclass(frozen=True)
class Curve:
    """One member of a trajectory: times (time,), error (time,), variables (time, ...) by name.

    noisy: a run, whose error fluctuates from time to time. diverged: it stopped because everything grew.
    """

    times: np.ndarray
    error: np.ndarray
    variables: dict[str, np.ndarray]
    T: np.ndarray | None
    problem: Problem | None
    label_noise: float
    kind: str
    diverged: bool

    @property
    def noisy(self) -> bool:
        """Does the curve carry the fluctuations of a finite network?"""
        return self.kind == "simulation"

    @property
    def log_error(self) -> np.ndarray:
        """ln e_g; where rounding takes over, near perfect learning, the curve is taken as flat.

        For a run, its running median over a twenty-fifth of the record: brief excursions vanish, falls stay as steep.
        """
        y = np.log(np.maximum(self.error, self.rounding))
        if not self.noisy:
            return y
        from scipy.ndimage import median_filter

        return median_filter(y, size=2 * _stride(y.size) + 1, mode="nearest")

    @property
    def fluctuation(self) -> float:
        """Relative standard deviation of the error from time to time; zero for theory."""
        return roughness(self.times, np.log(np.maximum(self.error, self.rounding))) if self.noisy else 0.0

    @property
    def rounding(self) -> float:
        """The error below which digits are lost."""
        return float(max(ROUNDING * np.max(np.abs(self.error)), np.finfo(float).tiny))

    @property
    def rows(self) -> np.ndarray | None:
        """(time, unit, component): R of the students; of one's own equations every number as a row of its own."""
        if self.kind == "equations":
            return np.concatenate([v.reshape(len(self.times), -1, 1) for v in self.variables.values()], axis=1)
        return self.variables.get("R")


def each(trajectory: Any, run: Any, verb: str, answer: Callable[[Curve], Any], least: int = 2) -> Any:
    """The answer for the one curve, for the chosen run, or for every run as a `RunResults`; `least`: recorded times needed."""
    require_fields(verb, trajectory, ("times", "variables", "error", "status_code"), "what solve or simulate returned")
    checks.require_untraced("the trajectory", verb, trajectory.times, trajectory.error)
    error = np.asarray(trajectory.error, dtype=float)
    count = int(np.prod(error.shape[:-1], dtype=int))
    if run is not None:
        return answer(_member(trajectory, _chosen(run, error.ndim, count), verb, least))
    if error.ndim == 1:
        return answer(_member(trajectory, 0, verb, least))
    return RunResults(tuple(answer(_member(trajectory, i, verb, least)) for i in range(count)))


def _chosen(run: Any, axes: int, count: int) -> int:
    if axes == 1:
        raise InputError(f"run is {checks.shown(run)}; this trajectory is a single curve. Leave run out.")
    index = checks.as_count("run", run, least=0)
    if index >= count:
        raise InputError(f"run is {index}; this trajectory has runs 0 to {count - 1}.")
    return index


def _member(trajectory: Any, index: int, verb: str, least: int) -> Curve:
    lead = np.ndim(trajectory.error) - 1

    def pick(value: Any, own: int) -> np.ndarray:
        """Entry `index` of the leading axes, or the value itself if all share it (`own`: axes without a lead)."""
        array = np.asarray(value, dtype=float)
        return array.reshape(-1, *array.shape[lead:])[index] if array.ndim > own else array

    error = pick(trajectory.error, 1)
    kept = int(np.argmin(np.isfinite(error))) if not np.all(np.isfinite(error)) else error.size
    if kept < least:
        who = f"run {index}" if lead else "the curve"
        raise InputError(f"{who} has {kept} recorded times; {verb} needs at least {least}. Record more, or ask another run.")
    variables = {}
    for name, value in trajectory.variables.items():
        array = np.asarray(value, dtype=float)
        variables[name] = array.reshape(-1, *array.shape[lead:])[index][:kept]
    codes = np.atleast_1d(np.asarray(trajectory.status_code)).ravel()
    return Curve(
        times=pick(trajectory.times, 1)[:kept],
        error=error[:kept],
        variables=variables,
        T=None if trajectory.T is None else pick(trajectory.T, 2),
        problem=trajectory.problem,
        label_noise=_label_noise(trajectory.problem, pick),
        kind=trajectory.kind,
        diverged=int(codes[index % codes.size]) == Status.DIVERGED,
    )


def _label_noise(problem: Problem | None, pick: Any) -> float:
    """Its standard deviation, where it is a number."""
    return 0.0 if problem is None or callable(problem.noise) else float(pick(problem.noise, 0))


def require_positive_error(curve: Curve, verb: str) -> None:
    """The logarithm of the error must mean something; rounding below zero at perfect learning is let through."""
    if np.min(curve.error) < -1e-12 * np.max(np.abs(curve.error)):
        raise InputError(
            f"the error falls to {np.min(curve.error):.3g}; {verb} compares its logarithm, so it must be positive. "
            "Give the equations an error that is zero or more."
        )


def roughness(x: np.ndarray, y: np.ndarray) -> float:
    """Standard deviation of the noise in a curve: how far points lie off the line between their neighbors.

    Neighbors are a fiftieth of the record away, so that noise which lasts for a few recorded times counts; the median over
    all points counts, so that a few sharp turns do not.
    """
    stride = _stride(x.size)
    if x.size < 2 * stride + 1:
        return 0.0
    before, here, after = slice(None, -2 * stride), slice(stride, -stride), slice(2 * stride, None)
    share = (x[here] - x[before]) / (x[after] - x[before])
    off = y[here] - (1 - share) * y[before] - share * y[after]
    off = off / np.sqrt(1 + share**2 + (1 - share) ** 2)
    return float(1.4826 * np.median(np.abs(off)))


def _stride(count: int) -> int:
    return max(1, count // STRIDES)


def first_index(condition: np.ndarray, otherwise: int) -> int:
    """Index of the first True."""
    return int(np.argmax(condition)) if np.any(condition) else otherwise
