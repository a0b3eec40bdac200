"""Do single runs scatter as the theory says? The predicted standard deviation of e_g beside the measured one.

The prediction is `fluctuations`: it holds for SGD without slow momentum, and not through an escape that noise decides.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.analysis.noise.fluctuation import fluctuations_along, state_size
from tutelage.comparison.escape import Escape
from tutelage.comparison.pairing import Pair
from tutelage.trajectory import Trajectory

POINTS = 2**10  # per moment: the standard deviation to about 1%
LARGEST = 64  # numbers of a state whose prediction takes a second or two
ROUNDING = 1e-10  # of e_g: below it rounding shows in the prediction


@dataclass(frozen=True)
class Scatter:
    """predicted, measured: standard deviations of e_g over runs, (time,). ratio: measured / predicted, in the mean square.

    predicted is NaN where e_g is so small that rounding shows. ratio_error: its standard error, from the number of runs
    alone (times of one run are hardly independent). accuracy: the relative error of the prediction.
    """

    predicted: np.ndarray
    measured: np.ndarray
    ratio: float
    ratio_error: float
    accuracy: float

    def lines(self) -> list[str]:
        """In words."""
        if not np.isfinite(self.ratio):
            return [f"single runs: e_g ± {np.nanmax(self.predicted):.2g} predicted at most; one run cannot show it"]
        last = np.flatnonzero(np.isfinite(self.predicted))[-1]
        when = "at the last time" if last == self.predicted.size - 1 else f"where e_g falls below {ROUNDING:g}"
        return [
            f"of e_g over runs: {self.ratio:.2f} ± {self.ratio_error:.2f} of the predicted standard deviation "
            f"({self.predicted[last]:.2g} {when}, {self.measured[last]:.2g} measured)"
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, None for what one run cannot show."""
        known = bool(np.isfinite(self.ratio))
        return {
            "predicted": [sd if np.isfinite(sd) else None for sd in self.predicted.tolist()],
            "measured": self.measured.tolist() if known else None,
            "ratio": self.ratio if known else None,
            "ratio_error": self.ratio_error if known else None,
            "accuracy": self.accuracy,
        }


def predicted_scatter(pair: Pair, theory: Trajectory, escape: Escape | None) -> Scatter | None:
    """The scatter of the runs' errors; None where it is not predicted, or would take long."""
    if pair.problem is None or pair.start is None or pair.dim is None or "r" not in pair.theory:
        return None
    noisy = escape is not None and escape.by_noise
    if noisy or pair.gradient_flow or theory.start is None or state_size(pair.problem) > LARGEST:
        return None
    try:
        found = fluctuations_along(theory, pair.dim, points=POINTS)
    except InputError:  # slow momentum, or times that hold too many relaxations
        return None
    predicted = np.where(pair.theory["error"] >= ROUNDING, found.sd("error")[: pair.times.size], np.nan)
    if not np.isfinite(predicted).any():
        return None
    return _beside(predicted, pair.runs["error"], float(np.max(found.accuracy)))


def _beside(predicted: np.ndarray, errors: np.ndarray, accuracy: float) -> Scatter:
    count, moved = errors.shape[0], predicted > 0
    if count < 2 or not moved.any():
        return Scatter(predicted, np.full_like(predicted, np.nan), np.nan, np.nan, accuracy)
    measured = errors.std(axis=0, ddof=1)
    ratio = float(np.sqrt(np.mean((measured[moved] / predicted[moved]) ** 2)))
    return Scatter(predicted, measured, ratio, ratio / np.sqrt(2 * (count - 1)), accuracy)
