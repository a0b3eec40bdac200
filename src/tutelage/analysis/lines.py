"""A straight line through a curve, with an error that does not shrink just because the curve was sampled finely.

The textbook error of a slope assumes independent residuals. Those of a smooth curve are one long wave, so two things are
added. Residuals that resemble their neighbours (lag-one correlation rho) count as fewer, n (1 - rho) / (1 + rho), as for
an autoregressive process of first order. And the slopes of the parts of the curve are compared: what they differ by, beyond
what independent noise explains, is a drift, counted as a systematic error: from one end of the curve to the other, or to
where slopes that change less and less would end (Aitken's limit of their sequence), whichever is further.
"""

from dataclasses import dataclass

import numpy as np

LEAST = 5  # points
FEWEST_IN_PART = 3
SLOWEST = 0.8  # ratio of successive changes up to which a sequence of slopes is taken to end somewhere
SIGNIFICANT = 4.1  # the range of three equal slopes exceeds this many of their errors once in a hundred times


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x. statistical, systematic: errors of the slope, from residuals and from its drift.

    parts: slopes of the first, middle and last third (of two halves, if the points are few). drift: their range, carried on
    from the centres of the parts to the ends of the line.
    """

    slope: float
    intercept: float
    statistical: float
    systematic: float
    parts: tuple[float, ...]
    drift: float

    @property
    def error(self) -> float:
        """Both errors, added in quadrature."""
        return float(np.hypot(self.statistical, self.systematic))

    @property
    def drifts(self) -> bool:
        """Do the parts differ by more than noise explains?"""
        return self.systematic > 0


def fit_line(x: np.ndarray, y: np.ndarray, sd: np.ndarray | None = None, *, smooth: bool = False) -> Line:
    """Least squares through at least `LEAST` points, x increasing. sd: errors of y, which then weigh the points.

    smooth: the points carry no noise, so that every difference between the parts is drift.
    """
    weights = np.ones_like(x) if sd is None else 1 / sd**2
    slope, intercept = _least_squares(x, y, weights)
    parts = _parts(x)
    slopes = tuple(_least_squares(x[p], y[p], weights[p])[0] for p in parts)
    noise = 0.0 if smooth else max(_white_error(x, y, weights, p) for p in parts)
    difference = max(slopes) - min(slopes)
    drift = difference * len(parts) / (len(parts) - 1)
    return Line(
        slope=slope,
        intercept=intercept,
        statistical=_statistical(x, y - intercept - slope * x, weights, sd is not None),
        systematic=max(drift, abs(_limit(slopes) - slope)) if difference > SIGNIFICANT * noise else 0.0,
        parts=slopes,
        drift=drift,
    )


def _least_squares(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    centre, mean = np.average(x, weights=weights), np.average(y, weights=weights)
    slope = np.sum(weights * (x - centre) * (y - mean)) / _spread(x, weights)
    return float(slope), float(mean - slope * centre)


def _spread(x: np.ndarray, weights: np.ndarray) -> float:
    return float(np.sum(weights * (x - np.average(x, weights=weights)) ** 2))


def _parts(x: np.ndarray) -> list[np.ndarray]:
    """Indices of thirds of equal width; of halves, sharing their middle point, where a third would have too few points."""
    place = np.clip(((x - x[0]) / (x[-1] - x[0]) * 3).astype(int), 0, 2)
    thirds = [np.flatnonzero(place == i) for i in range(3)]
    if min(len(part) for part in thirds) >= FEWEST_IN_PART:
        return thirds
    middle = x.size // 2
    return [np.arange(middle + 1), np.arange(middle, x.size)]


def _limit(slopes: tuple[float, ...]) -> float:
    """Where a, b, c, ... ends if its changes shrink by the same factor: exact for a slope that nears its limit as x^-w."""
    *first, a, b = slopes
    if not first or a == first[0]:
        return b
    ratio = np.clip((b - a) / (a - first[0]), 0.0, SLOWEST)
    return float(b + (b - a) * ratio / (1 - ratio))


def _statistical(x: np.ndarray, residual: np.ndarray, weights: np.ndarray, known: bool) -> float:
    """Error of the slope from the residuals and their correlation; at least what given errors of y imply."""
    spread, scaled = _spread(x, weights), residual * np.sqrt(weights)
    square = float(np.sum(scaled**2))
    rho = float(np.sum(scaled[1:] * scaled[:-1])) / square if square > 0 else 0.0
    rho = np.clip(rho, 0.0, 1 - 2 / x.size)
    from_residuals = np.sqrt(square / (x.size - 2) / spread * (1 + rho) / (1 - rho))
    return float(max(from_residuals, spread**-0.5 if known else 0.0))


def _white_error(x: np.ndarray, y: np.ndarray, weights: np.ndarray, part: np.ndarray) -> float:
    """What noise that is independent from point to point leaves as the error of a part's slope.

    Its size is measured all along the curve: the distance of each point from the line between its neighbours.
    """
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    off = y[1:-1] - (1 - share) * y[:-2] - share * y[2:]
    variance = 1 / weights[1:-1] + (1 - share) ** 2 / weights[:-2] + share**2 / weights[2:]
    size = float(np.mean(off**2 / variance))
    return float(np.sqrt(size / _spread(x[part], weights[part])))
