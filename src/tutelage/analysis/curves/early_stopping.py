"""Early stopping: when is the error smallest, and what does training to the end cost?

On fresh samples nothing is fitted twice, yet the error can pass through a minimum: the noise in the labels is learned in
directions, or by units, that the task does not need, and more slowly than the task itself; or a schedule raises the rate.
Between recorded times of a smooth curve the minimum is that of the cubic spline of ln e_g through the recorded points around
it; at a jump of the learning rate, where the curve has a corner, the recorded minimum stands. The lowest point of a run is
partly chance, so runs are read off their running median, and a minimum counts only if the end lies above it by three times
the run's fluctuation.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tutelage.analysis.curves.curve import Curve, RunResults, read_curves
from tutelage.analysis.result import AnalysisResult
from tutelage.problem.schedules import bend_times
from tutelage.trajectory import Trajectory

SPLINE_NEIGHBORS = 3  # recorded points on each side of the lowest that the spline goes through
LEAST_GAIN = 1e-6  # a smaller gain, relative to the error, is rounding
CHANCE_DEVIATIONS = 3.0  # a smaller gain of a run, in units of its fluctuation, is chance


@dataclass(frozen=True)
class EarlyStopping(AnalysisResult):
    """When the error is smallest.

    time, value: of the smallest error e_g (the test loss, e_g + sigma^2/2, is smallest at the same time).
    bracket: the recorded times around it. end_value: the error at the last recorded time. inside: is the minimum within
    the record, rather than at its end (train on) or at its beginning (training only harms)?
    """

    time: float
    value: float
    bracket: tuple[float, float]
    end_time: float
    end_value: float
    inside: bool
    curve: Curve = field(repr=False)

    @property
    def gain(self) -> float:
        """Error at the end over the smallest error: by what factor stopping early is better; 1 if it is not."""
        return self.end_value / self.value if self.value > 0 else 1.0

    @property
    def marks(self) -> dict[str, float]:
        """When the error is smallest, if that is before the end."""
        return {"smallest error": self.time} if self.inside else {}

    def __str__(self) -> str:
        if self.inside:
            low, high = self.bracket
            return (
                f"stop at {self.time:.5g} (between {low:.5g} and {high:.5g}): the error is smallest, {self.value:.5g}; "
                f"going on to {self.end_time:.5g} makes it {self.end_value:.5g}, {self.gain:.5g} times as much"
            )
        if self.time == self.end_time:
            up_to = " up to fluctuations" if self.curve.noisy else ""
            return (
                f"train on: the error is smallest{up_to}, {self.value:.5g}, at the last recorded time, {self.end_time:.5g}"
            )
        return f"do not train: the error is smallest, {self.value:.5g}, at the first recorded time, {self.time:.5g}"


def early_stopping(trajectory: Trajectory, run: int | None = None) -> EarlyStopping | RunResults:
    """The time of the smallest error, and the gain over training to the end of the record.

    Of a solved trajectory, of one run, or of every run of a simulation (a `RunResults`). Says so if the error is smallest at
    the end.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> inputs = tu.Spectrum([25.0, 0.5102], [0.02, 0.98])
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), inputs=inputs, sgd=tu.SGD(lr=0.5), noise=0.5)
    >>> nothing = np.zeros((2, 1, 1))
    >>> start = tu.Start(R=nothing, Q=nothing, T=[[[1.0]], [[0.0]]])     # the teacher has no second part
    >>> theory = tu.solve(problem, start, tu.linear_times(6))
    >>> found = tu.analysis.early_stopping(theory)
    >>> round(found.time, 2), round(found.gain, 2)
    (0.29, 1.84)
    """
    return read_curves(trajectory, run, "early_stopping", find_minimum, 2)


def find_minimum(curve: Curve) -> EarlyStopping:
    """The smallest error of one curve."""
    times, error = curve.times, np.exp(curve.log_error) if curve.noisy else curve.error
    lowest, last = int(np.argmin(error)), times.size - 1
    margin = max(LEAST_GAIN, CHANCE_DEVIATIONS * curve.fluctuation) * abs(error[lowest])
    if error[last] <= error[lowest] + margin or error[last] <= curve.rounding:
        lowest = last
    before, after = times[max(lowest - 1, 0)], times[min(lowest + 1, last)]
    time, value = float(times[lowest]), float(error[lowest])
    inside = 0 < lowest < last
    if inside and not curve.noisy and not _rate_jumps(curve, before, after):
        time, value = _refined(times, error, lowest)
    return EarlyStopping(
        time=time,
        value=value,
        bracket=(float(before), float(after)),
        end_time=float(times[last]),
        end_value=float(error[last]),
        inside=inside,
        curve=curve,
    )


def _refined(times: np.ndarray, error: np.ndarray, lowest: int) -> tuple[float, float]:
    """The minimum of the spline of ln e_g, in units of the recorded index so that uneven times cost no accuracy."""
    from scipy.interpolate import CubicSpline
    from scipy.optimize import minimize_scalar

    near = np.arange(max(0, lowest - SPLINE_NEIGHBORS), min(times.size, lowest + SPLINE_NEIGHBORS + 1))
    if np.any(error[near] <= 0):
        return float(times[lowest]), float(error[lowest])
    height, moment = CubicSpline(near, np.log(error[near])), CubicSpline(near, times[near])
    found: Any = minimize_scalar(height, bounds=(lowest - 1, lowest + 1), method="bounded", options={"xatol": 1e-9})
    if found.fun > np.log(error[lowest]):
        return float(times[lowest]), float(error[lowest])
    return float(moment(found.x)), float(np.exp(found.fun))


def _rate_jumps(curve: Curve, before: float, after: float) -> bool:
    """Does a rate of the problem jump between these times?"""
    if curve.problem is None:
        return False
    sgd = curve.problem.sgd
    found = [bend_times(rate, after) for rate in (sgd.lr, sgd.readout_lr, sgd.bias_lr)]
    return any(np.any((switches >= before) & (switches <= after)) for switches in found)
