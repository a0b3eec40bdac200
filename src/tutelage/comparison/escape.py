"""The escape from a plateau: when the theory and each run leave it, and why.

If SGD noise determines the escape, single runs escape at different times at any N. The
mean over runs then follows no single curve, and the verdict counts only the times
before the first departure.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tutelage.analysis.escapes import escape_threshold, last_fall
from tutelage.comparison.pairing import Pair
from tutelage.stream.validity import START_DECIDES, Validity, slowest_before_rise

DEPARTED = 0.9  # a curve departs when its error has fallen to this share of its plateau
LEAST_TIMES = 5  # fewer recorded times show no plateau


@dataclass(frozen=True)
class Escape:
    """The escape from a plateau, of the theory and of each run.

    Attributes
    ----------
    plateau : float
        The error on the plateau that the theory passes.
    threshold : float
        The error below which a curve has escaped.
    theory : float
        Time at which the theory escapes (inf: not within these times).
    runs : array (run,)
        Times at which the runs escape.
    first_departure : float
        Until then all curves are on the plateau.
    start_to_noise : float
        Asymmetry of the initial condition / SGD noise; NaN where unknown.
    """

    plateau: float
    threshold: float
    theory: float
    runs: Float[np.ndarray, " run"]
    first_departure: float
    start_to_noise: float

    @property
    def by_noise(self) -> bool:
        """True if noise, not the start, decides the escape of single runs."""
        return self.start_to_noise < START_DECIDES

    @property
    def escaped(self) -> np.ndarray:
        """Times of the runs that did escape."""
        return self.runs[np.isfinite(self.runs)]

    @property
    def earlier(self) -> int:
        """The number of runs that escape before the theory does."""
        return int(np.sum(self.runs < self.theory))

    def lines(self) -> list[str]:
        """Return the distribution of the runs' times, and the theory's place in it."""
        theory_escapes = np.isfinite(self.theory)
        when = "not within these times"
        if theory_escapes:
            when = f"at {self.theory:.4g}"
        fall = f"the error falls below {self.threshold:.3g}"
        out = [f"{fall} (plateau {self.plateau:.3g}); theory {when}"]
        times = self.escaped
        count = self.runs.size
        if times.size == 0:
            return [*out, f"none of {count} runs within these times"]
        who = f"{count} runs"
        if times.size < count:
            who = f"{times.size} of {count} runs"
        mean = f"{times.mean():.4g}"
        if times.size > 1:
            mean += f" ± {times.std(ddof=1):.3g}"
        span = f"from {times.min():.4g} to {times.max():.4g}"
        out.append(f"{who} at {mean} (mean ± sd), {span}")
        if theory_escapes:
            out.append(f"{self.earlier} of {count} runs escape before the theory does")
        return out


def find_escape(pair: Pair, validity: Validity | None) -> Escape | None:
    """Return the escape from the slowest plateau that the theory leaves.

    It is None if the theory leaves no plateau within these times.
    """
    if pair.problem is None or pair.times.size < LEAST_TIMES:
        return None
    error = pair.theory["error"]
    if error.ndim > 1:
        return None  # of several tasks: an error may rise again
    times = pair.times
    slowest = slowest_before_rise(_speed_of_overlaps(pair))
    if slowest is None:
        return None
    plateau = float(error[slowest])
    threshold = escape_threshold(plateau, float(error[-1]))
    if not np.min(error[slowest:]) < threshold:
        return None
    # a curve first departs from the plateau, then escapes from it
    departure_threshold = max(threshold, DEPARTED * plateau)
    curves = np.concatenate([error[None], pair.runs["error"]])
    escapes = np.array([last_fall(times, curve, threshold) for curve in curves])
    departures = [last_fall(times, curve, departure_threshold) for curve in curves]
    return Escape(
        plateau=plateau,
        threshold=threshold,
        theory=float(escapes[0]),
        runs=escapes[1:],
        first_departure=float(np.min(departures)),
        start_to_noise=_start_to_noise(pair, validity),
    )


def _start_to_noise(pair: Pair, validity: Validity | None) -> float:
    """Return asymmetry / noise at the N of the runs; NaN where it is unknown."""
    if validity is None or validity.noise_dim is None or pair.dim is None:
        return np.nan
    return float(np.sqrt(pair.dim / validity.noise_dim))


def _speed_of_overlaps(pair: Pair) -> Float[np.ndarray, " time"]:
    """Return the norm of d(R, Q)/dalpha of the theory."""
    count = pair.times.size
    slopes = [
        np.gradient(pair.theory[name], pair.times, axis=0).reshape(count, -1)
        for name in ("R", "Q")
    ]
    return np.linalg.norm(np.concatenate(slopes, axis=1), axis=1)
