"""The scatter of single runs, predicted by the linear theory of fluctuations.

The verdict is about means and uses the measured scatter. This analysis says whether the
standard deviation of e_g over runs is the predicted one (`tutelage.analysis.noise`).
"""

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage._solve import solve
from tutelage.analysis.noise import WIDE_SCATTER, fluctuations_along, state_size
from tutelage.comparison.escape import Escape
from tutelage.comparison.pairing import Pair
from tutelage.errors import InputError, TutelageWarning
from tutelage.result.trajectory import Trajectory
from tutelage.stream.moments.node_moments import is_cheap
from tutelage.times import steps_at

SCATTER_POINTS = 2**10  # per instant: the standard deviation to about 1%
LARGEST_STATE = 64  # numbers of a state whose prediction takes a second or two
SMALLEST_ERROR = 1e-10  # below it rounding shows in the prediction
SCATTER_LIMIT = 3.0  # standard errors of the ratio of measured to predicted scatter
LEADING_ORDER = 0.1  # relative error of the scatter to leading order in 1/N
LATE = 0.01  # relative delay of ceil(alpha N) steps that shows in the scatter


@dataclass(frozen=True)
class Scatter:
    """The scatter of single runs, predicted by the theory and measured.

    Attributes
    ----------
    times : array (time,)
    predicted, measured : arrays (time,)
        Standard deviations of e_g over runs. The prediction is NaN where it does not
        hold: where rounding shows, or where it is not small against e_g.
    ratio, ratio_error : float
        Measured / predicted, in the mean square over times, and its standard error.
    accuracy : float
        The relative error of the prediction.
    wide_from : float
        The first time at which the prediction is not small against e_g (inf: none).
    rounded : bool
        True if rounding shows in the prediction at some time.
    count : int
        The number of runs.
    """

    times: Float[np.ndarray, " time"]
    predicted: Float[np.ndarray, " time"]
    measured: Float[np.ndarray, " time"]
    ratio: float
    ratio_error: float
    accuracy: float
    wide_from: float = np.inf
    rounded: bool = False
    count: int = 1

    @property
    def ratios(self) -> np.ndarray:
        """Measured / predicted at each time; NaN where nothing is predicted."""
        moved = self.predicted > 0
        divisor = np.where(moved, self.predicted, 1.0)
        return np.where(moved, self.measured / divisor, np.nan)

    @property
    def as_predicted(self) -> bool:
        """True if the ratio is one, up to chance and higher orders in 1/N."""
        allowed = LEADING_ORDER + SCATTER_LIMIT * self.ratio_error
        return bool(abs(self.ratio - 1.0) <= allowed)

    def lines(self) -> list[str]:
        """Return the ratio, its extremes, and the meaning of a deviation."""
        if not np.isfinite(self.ratio):
            size = f"e_g ± {np.nanmax(self.predicted):.2g} predicted at most"
            return [f"single runs: {size}; one run cannot show it"]
        ratio = f"{self.ratio:.2f} ± {self.ratio_error:.2g}"
        mean = f"{ratio} (root mean square over times)"
        measure = "sd of e_g over runs, measured / predicted"
        out = [f"{measure}: {mean}: {self._judgment()}"]
        smallest = f"smallest {self._ratio_at(int(np.nanargmin(self.ratios)))}"
        largest = f"largest {self._ratio_at(int(np.nanargmax(self.ratios)))}"
        chance = f"± {1 / np.sqrt(2 * (self.count - 1)):.0%} by chance"
        out.append(f"at single times ({chance}): {smallest}; {largest}")
        if np.isfinite(self.wide_from):
            first = f"(first at alpha = {self.wide_from:.4g})"
            where = f"sd exceeds {WIDE_SCATTER:g} e_g {first}"
            out.append(f"no prediction where {where}: e_g is not normal there")
        if self.rounded:
            out.append(f"no prediction where e_g falls below {SMALLEST_ERROR:g}")
        return out

    def _ratio_at(self, time: int) -> str:
        """Return the ratio at the time of this index, with both standard deviations."""
        sizes = f"{self.measured[time]:.3g} / {self.predicted[time]:.3g}"
        return f"{self.ratios[time]:.2f} = {sizes} at alpha = {self.times[time]:.4g}"

    def _judgment(self) -> str:
        """Return the meaning of the ratio in words."""
        if self.as_predicted:
            return "as predicted"
        wider = "less"
        if self.ratio > 1:
            wider = "more"
        reason = (
            "the verdict uses the measured scatter, the pale band the predicted one"
        )
        return f"runs scatter {wider} than predicted; {reason}"


def predict_scatter(pair: Pair, escape: Escape | None) -> Scatter | None:
    """Predict the scatter of the runs' errors, and measure it.

    The result is None where the scatter is not predicted, or would take long.
    """
    if not _is_predictable(pair, escape) or pair.dim is None:
        return None
    try:
        predicted, accuracy = _sd_after_steps(pair.solution, pair.times, pair.dim)
    except InputError:  # slow momentum, or times that span too many relaxations
        return None
    error = pair.theory["error"]
    rounded = error < SMALLEST_ERROR
    wide = ~rounded & (predicted >= WIDE_SCATTER * error)
    predicted = np.where(wide | rounded, np.nan, predicted)
    moved = predicted > 0
    if not moved.any():
        return None
    runs = pair.runs["error"]
    measured = np.full_like(predicted, np.nan)
    ratio = np.nan
    ratio_error = np.nan
    if pair.count > 1:
        measured = runs.std(axis=0, ddof=1)
        ratio, ratio_error = ratio_with_error(runs[:, moved], predicted[moved])
    wide_from = np.inf
    if wide.any():
        wide_from = float(pair.times[np.argmax(wide)])
    return Scatter(
        times=pair.times,
        predicted=predicted,
        measured=measured,
        ratio=ratio,
        ratio_error=float(np.hypot(ratio_error, accuracy * ratio)),
        accuracy=accuracy,
        wide_from=wide_from,
        rounded=bool(np.any(rounded)),
        count=pair.count,
    )


def _is_predictable(pair: Pair, escape: Escape | None) -> bool:
    """Return True if the linear theory of fluctuations applies and is cheap."""
    solution = pair.solution
    if pair.problem is None or solution.start is None or pair.dim is None:
        return False
    if "r" not in pair.theory or solution.tasks is not None or pair.gradient_flow:
        return False
    if escape is not None and escape.by_noise:
        return False
    return state_size(pair.problem) <= LARGEST_STATE and is_cheap(pair.problem)


def _sd_after_steps(
    solution: Trajectory, times: Float[np.ndarray, " time"], dim: int
) -> tuple[Float[np.ndarray, " time"], float]:
    """Return the predicted sd(e_g) after ceil(alpha N) steps, and its accuracy.

    At times of a few steps the number of steps differs from alpha N: at alpha = .001
    and N = 100 a network has made one whole step, and scatters as at alpha = .01.
    """
    taken = steps_at(times, dim) / dim
    if np.allclose(taken, times, rtol=LATE):
        fluctuations = fluctuations_along(solution, dim, points=SCATTER_POINTS)
        return fluctuations.sd("error"), float(np.max(fluctuations.accuracy))
    instants, place = np.unique(taken, return_inverse=True)
    shifted = _solved_at(solution, instants)
    fluctuations = fluctuations_along(shifted, dim, points=SCATTER_POINTS)
    return fluctuations.sd("error")[place], float(np.max(fluctuations.accuracy))


def _solved_at(
    solution: Trajectory, instants: Float[np.ndarray, " instant"]
) -> Trajectory:
    """Return the theory at other times, solved with the same settings."""
    assert solution.problem is not None
    names = ("gradient_flow", "rtol", "solver")
    settings = {name: value for name, value in solution.settings if name in names}
    with warnings.catch_warnings():
        # the first solve has warned
        warnings.simplefilter("ignore", TutelageWarning)
        return solve(
            solution.problem, solution.start, instants, keep="blocks", **settings
        )


def ratio_with_error(
    runs: Float[np.ndarray, "run time"], predicted: Float[np.ndarray, " time"]
) -> tuple[float, float]:
    """Return measured / predicted, in the mean square over times, and its error.

    The error is that of the jackknife, which leaves out one run at a time. It sees that
    neighboring times are correlated, and that e_g need not be normal.
    """
    scaled = (runs - runs.mean(axis=0)) / predicted
    count = len(scaled)
    ratio = np.sqrt(np.mean(np.sum(scaled**2, axis=0)) / (count - 1))
    if count == 2:  # none is left to compare
        return float(ratio), float(ratio)
    # without run i the sum of squares is smaller by count / (count - 1) of its square
    squares = np.sum(scaled**2, axis=0) - scaled**2 * count / (count - 1)
    ratios = np.sqrt(np.mean(squares, axis=1) / (count - 2))
    error = np.sqrt((count - 1) / count * np.sum((ratios - ratios.mean()) ** 2))
    return float(ratio), float(error)
