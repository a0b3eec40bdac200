"""The time to stop: the smallest error of a curve that rises again.

docs/how-to/early-stopping.md has the definitions and their formulas.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.analysis.result import AnalysisResult, Curve, RunResults, read_curves
from tutelage.result.trajectory import Trajectory
from tutelage.training.schedules import switch_times

SPLINE_REACH = 3  # recorded times on either side of a minimum that the spline takes


@dataclass(frozen=True, repr=False)
class EarlyStopping(AnalysisResult, figure="plot_early_stopping"):
    """The time of the smallest error.

    time, value: of the smallest error e_g (the test loss, e_g + sigma^2/2, is smallest
    at the same time). bracket: the recorded times around it. end_value: the error at
    the last recorded time. gain: the factor by which it exceeds the smallest error (inf
    if that is zero). inside: is the minimum within the record, rather than at its end
    (train on) or at its beginning (training only harms)?
    """

    time: float
    value: float
    bracket: tuple[float, float]
    end_time: float
    end_value: float
    gain: float
    inside: bool
    curve: Curve

    @property
    def marks(self) -> dict[str, float]:
        """The time of the smallest error, if that is before the end."""
        return {"smallest error": self.time} if self.inside else {}

    def __str__(self) -> str:
        if self.inside:
            low, high = self.bracket
            end = f"at {self.end_time:.5g} it is {self.end_value:.5g}"
            if np.isfinite(self.gain):
                end += f", {self.gain:.5g} times as large"
            when = f"{self.time:.5g} (between {low:.5g} and {high:.5g})"
            return f"stop at {when}: the error is smallest, {self.value:.5g}; {end}"
        up_to = " up to fluctuations" if self.curve.noisy else ""
        if float(np.ptp(_smoothed(self.curve))) <= _least_gain(self.curve):
            return f"the error does not change{up_to}: it stays at {self.value:.5g}"
        smallest = f"the error is smallest{up_to}, {self.value:.5g}"
        if self.time == self.end_time:
            return (
                f"train on: {smallest}, at the last recorded time, {self.end_time:.5g}"
            )
        return (
            f"do not train: the error is smallest, {self.value:.5g}, "
            f"at the first recorded time, {self.time:.5g}"
        )


def _smoothed(curve: Curve) -> np.ndarray:
    """Return the error without the fluctuations of a finite network."""
    return np.exp(curve.log_error) if curve.noisy else curve.error


def _least_gain(curve: Curve) -> float:
    """Return the gain below which a minimum is rounding, or chance."""
    relative = max(1e-6, 3 * curve.fluctuation)
    return relative * abs(float(np.min(_smoothed(curve))))


def early_stopping(
    trajectory: Trajectory, run: int | None = None
) -> EarlyStopping | RunResults:
    """Find the time of the smallest error, and the gain over training to the end.

    Parameters
    ----------
    trajectory, run
        As in `plateaus`.

    Returns
    -------
    EarlyStopping or RunResults

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> unit = tu.Network(1, "linear")
    >>> inputs = tu.Spectrum([25.0, 0.5102], [0.02, 0.98])
    >>> sgd = tu.SGD(lr=0.5)
    >>> problem = tu.Problem(unit, unit, inputs=inputs, optimizer=sgd, noise=0.5)
    >>> zero = np.zeros((2, 1, 1))
    >>> T = [[[1.0]], [[0.0]]]  # the teacher has no part in the second level
    >>> theory = tu.solve(problem, tu.Start(zero, zero, T), tu.linear_times(6))
    >>> stop = tu.analysis.early_stopping(theory)
    >>> round(stop.time, 2), round(stop.gain, 2)
    (0.29, 1.84)
    """
    return read_curves(trajectory, run, "early_stopping", find_minimum)


def find_minimum(curve: Curve) -> EarlyStopping:
    """Return the smallest error of one curve."""
    times = curve.times
    error = _smoothed(curve)
    lowest = int(np.argmin(error))
    last = times.size - 1
    margin = _least_gain(curve)
    if error[last] <= error[lowest] + margin or error[last] <= curve.rounding:
        lowest = last
    elif error[0] <= error[lowest] + margin:
        lowest = 0
    bracket = (float(times[max(lowest - 1, 0)]), float(times[min(lowest + 1, last)]))
    time = float(times[lowest])
    value = float(error[lowest])
    inside = 0 < lowest < last
    if inside and _is_smooth_between(curve, *bracket):
        near = slice(max(0, lowest - SPLINE_REACH), lowest + SPLINE_REACH + 1)
        if np.all(error[near] > 0):
            time, value = _spline_minimum(times, error, lowest, near)
    end_value = float(error[last])
    gain = 1.0
    if value > 0:
        gain = end_value / value
    elif end_value > 0:
        gain = np.inf
    return EarlyStopping(
        time=time,
        value=value,
        bracket=bracket,
        end_time=float(times[last]),
        end_value=end_value,
        gain=gain,
        inside=inside,
        curve=curve,
    )


def _is_smooth_between(curve: Curve, start: float, end: float) -> bool:
    """Return True if the curve has no noise, and no bend where a schedule switches."""
    if curve.noisy:
        return False
    rates = []
    if curve.problem is not None:
        optimizer = curve.problem.optimizer
        rates = [optimizer.lr, optimizer.readout_lr, optimizer.bias_lr]
    switches = np.asarray(switch_times(end, *rates, known=[np.inf]))
    return not np.any((switches >= start) & (switches <= end))


def _spline_minimum(
    times: np.ndarray, error: np.ndarray, lowest: int, near: slice
) -> tuple[float, float]:
    """Return time and value of the minimum of a spline through the log error.

    If the spline finds no lower value, they are those of the lowest recorded one.
    """
    from scipy.interpolate import CubicSpline
    from scipy.optimize import fminbound

    # the index is the unit of the spline, so that uneven times cost no accuracy
    index = np.arange(times.size)[near]
    log_error = CubicSpline(index, np.log(error[near]))
    time_at = CubicSpline(index, times[near])
    place, log_value, *_ = fminbound(
        log_error, lowest - 1, lowest + 1, xtol=1e-9, full_output=True
    )
    if log_value <= np.log(error[lowest]):
        return float(time_at(place)), float(np.exp(log_value))
    return float(times[lowest]), float(error[lowest])
