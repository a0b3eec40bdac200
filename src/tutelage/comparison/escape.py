"""When a plateau is left, and whether the start or the noise decides it.

Near a plateau the unstable amplitude obeys da = rate a dalpha + sqrt(D/N) dW. If the start's amplitude is not far above
the noise that reaches it (`validity.start_to_noise` below 10), runs leave at times and in permutations of their own however
large N is, and their mean follows no single curve. Then the times of escape are the right thing to compare, and the curves
only before the first departure.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage.analysis.escape.thresholds import escape_threshold, last_fall
from tutelage.comparison.pairing import Pair
from tutelage.validity import slowest_before_rise

DECIDED = 10.0  # start / noise above which the start decides
DEPARTED = 0.9  # a curve departs when its error has fallen to this share of its plateau


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


def find_escape(pair: Pair, validity: Any) -> Escape | None:
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
