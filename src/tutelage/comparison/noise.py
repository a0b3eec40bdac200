"""What SGD noise does to single runs: when they escape from a plateau, and how far their errors scatter.

Near a plateau the unstable amplitude obeys da = rate a dalpha + sqrt(D/N) dW. If the start's amplitude is not far above
the noise that reaches it (`validity.start_to_noise` below 10), runs leave at times and in permutations of their own however
large N is, and their mean follows no single curve. Then the times of escape are the right thing to compare, and the curves
only before the first departure.

The scatter is predicted by `fluctuations`: it holds for SGD without slow momentum, and not through an escape that noise
decides.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.analysis.escape.escape_time import escape_threshold, last_fall
from tutelage.analysis.noise.fluctuations import fluctuations_along, state_size
from tutelage.comparison.pairing import Pair
from tutelage.moments import is_cheap
from tutelage.trajectory import Trajectory
from tutelage.validity import Validity, slowest_before_rise

DECIDED = 10.0  # start / noise above which the start decides
DEPARTED = 0.9  # a curve departs when its error has fallen to this share of its plateau
POINTS = 2**10  # per moment: the standard deviation to about 1%
LARGEST = 64  # numbers of a state whose prediction takes a second or two
ROUNDING = 1e-10  # of e_g: below it rounding shows in the prediction


@dataclass(frozen=True)
class Escape:
    """plateau: the error on the plateau that the theory passes, slowest at plateau_time. threshold: below it, escaped.

    theory, runs: times of escape (inf: not within these times). first_departure: until then all are on the plateau.
    start_to_noise: None where unknown.
    """

    plateau: float
    plateau_time: float
    threshold: float
    theory: float
    runs: np.ndarray
    first_departure: float
    start_to_noise: float | None

    @property
    def by_noise(self) -> bool:
        """Does noise rather than the start decide when (and where to) single runs escape?"""
        return self.start_to_noise is not None and self.start_to_noise < DECIDED

    @property
    def escaped(self) -> np.ndarray:
        """Times of the runs that did escape."""
        return self.runs[np.isfinite(self.runs)]

    @property
    def earlier(self) -> int:
        """How many runs escape before the theory does."""
        return int(np.sum(self.runs < self.theory))

    def lines(self) -> list[str]:
        """The distribution of the runs' times, and the theory's place in it."""
        when = f"at {self.theory:.4g}" if np.isfinite(self.theory) else "not within these times"
        out = [f"the error falls below {self.threshold:.3g} (plateau {self.plateau:.3g}); theory {when}"]
        times, count = self.escaped, self.runs.size
        if times.size == 0:
            return [*out, f"none of {count} runs within these times"]
        spread = f" ± {times.std(ddof=1):.3g}" if times.size > 1 else ""
        who = f"{count} runs" if times.size == count else f"{times.size} of {count} runs"
        out.append(f"{who} at {times.mean():.4g}{spread} (mean ± sd), from {times.min():.4g} to {times.max():.4g}")
        if np.isfinite(self.theory):
            out.append(f"{self.earlier} of {count} runs escape before the theory does")
        return out


def find_escape(pair: Pair, validity: Validity | None) -> Escape | None:
    """The slowest plateau that the theory leaves within these times; None if there is none."""
    if pair.problem is None or pair.times.size < 5:
        return None
    at = slowest_before_rise(_speed(pair))
    if at is None:
        return None
    error, times = pair.theory["error"], pair.times
    plateau = float(error[at])
    threshold = escape_threshold(plateau, float(error[-1]))
    if not np.min(error[at:]) < threshold:
        return None
    curves = np.concatenate([error[None], pair.runs["error"]])
    escapes = np.array([last_fall(times, curve, threshold) for curve in curves])
    departures = np.array([last_fall(times, curve, max(threshold, DEPARTED * plateau)) for curve in curves])
    ratio = None
    if validity is not None and validity.noise_dim is not None and pair.dim is not None:
        ratio = float(np.sqrt(pair.dim / validity.noise_dim))
    return Escape(plateau, float(times[at]), threshold, float(escapes[0]), escapes[1:], float(np.min(departures)), ratio)


def _speed(pair: Pair) -> np.ndarray:
    """|d(R, Q)/dalpha| of the theory."""
    parts = [np.gradient(pair.theory[n], pair.times, axis=0).reshape(pair.times.size, -1) for n in ("R", "Q")]
    return np.linalg.norm(np.concatenate(parts, axis=1), axis=1)


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
    if not is_cheap(pair.problem):
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
