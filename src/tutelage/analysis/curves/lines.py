"""A straight line through a curve, with an error that does not shrink just because the curve was sampled finely.

The textbook error of a slope assumes independent residuals. Those of a smooth curve are one long wave, so two things are
added. Residuals that resemble their neighbours (lag-one correlation rho) count as fewer, n (1 - rho) / (1 + rho), as for
an autoregressive process of first order. And the slope may drift: the curvature of the best parabola says by how much it
changes from end to end. What independent noise would fake of that is taken off, drift (1 - (noise/drift)^2), and the rest
is a systematic error. Where the slopes of the three thirds differ beyond doubt, it is at least their range, from end to
end, and at least the distance to where slopes that change less and less would end (Aitken's limit of their sequence).
"""

from dataclasses import dataclass

import numpy as np

LEAST = 5  # points
FEWEST_IN_PART = 3
SLOWEST = 0.8  # ratio of successive changes up to which a sequence of slopes is taken to end somewhere
BEYOND_DOUBT = 4.1  # the range of three equal slopes exceeds this many of their errors once in a hundred times


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x. statistical, systematic: errors of the slope, from residuals and from its drift.

    parts: slopes of the first, middle and last third (of two halves, if the points are few). certainty: the drift in units
    of what independent noise would fake of it; infinite for points without noise.
    """

    slope: float
    intercept: float
    statistical: float
    systematic: float
    parts: tuple[float, ...]
    certainty: float

    @property
    def error(self) -> float:
        """Both errors, added in quadrature."""
        return float(np.hypot(self.statistical, self.systematic))


def fit_line(x: np.ndarray, y: np.ndarray, sd: np.ndarray | None = None, *, smooth: bool = False) -> Line:
    """Least squares through at least `LEAST` points, x increasing. sd: errors of y, which then weigh the points.

    smooth: the points carry no noise, so that every change of the slope is drift.
    """
    weights = np.ones_like(x) if sd is None else 1 / sd**2
    slope, intercept = _least_squares(x, y, weights)
    noise = 0.0 if smooth else _noise(x, y, weights, sd is not None)
    drift, faked = _bend(x, y, weights, noise)
    systematic = drift * max(0.0, 1 - (faked / drift) ** 2) if drift > 0 else 0.0
    certainty = drift / faked if faked > 0 else np.inf
    parts = _parts(x)
    slopes = tuple(_least_squares(x[p], y[p], weights[p])[0] for p in parts)
    spread = min(_spread(x[p], weights[p]) for p in parts)
    if max(slopes) - min(slopes) > BEYOND_DOUBT * noise / np.sqrt(spread):
        end_to_end = (max(slopes) - min(slopes)) * len(parts) / (len(parts) - 1)
        systematic, certainty = max(systematic, end_to_end, abs(_limit(slopes) - slope)), np.inf
    statistical = _statistical(x, y - intercept - slope * x, weights)
    if sd is not None:
        statistical = max(statistical, noise / np.sqrt(_spread(x, weights)))
    return Line(slope, intercept, statistical, systematic, slopes, certainty)


def _least_squares(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    centre, mean = np.average(x, weights=weights), np.average(y, weights=weights)
    slope = np.sum(weights * (x - centre) * (y - mean)) / _spread(x, weights)
    return float(slope), float(mean - slope * centre)


def _spread(x: np.ndarray, weights: np.ndarray) -> float:
    return float(np.sum(weights * (x - np.average(x, weights=weights)) ** 2))


def _bend(x: np.ndarray, y: np.ndarray, weights: np.ndarray, noise: float) -> tuple[float, float]:
    """By how much the slope of the best parabola changes from end to end, and what the noise would make of it."""
    width = x[-1] - x[0]
    z, root = (x - x.mean()) / width, np.sqrt(weights)
    powers = np.stack([np.ones_like(z), z, z**2], axis=1) * root[:, None]
    curvature = np.linalg.lstsq(powers, root * y, rcond=None)[0][2]
    error = noise * np.sqrt(np.linalg.inv(powers.T @ powers)[2, 2])
    return float(abs(2 * curvature) / width), float(2 * error / width)


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


def _statistical(x: np.ndarray, residual: np.ndarray, weights: np.ndarray) -> float:
    """Error of the slope from the residuals and their correlation."""
    spread, scaled = _spread(x, weights), residual * np.sqrt(weights)
    square = float(np.sum(scaled**2))
    rho = float(np.sum(scaled[1:] * scaled[:-1])) / square if square > 0 else 0.0
    rho = np.clip(rho, 0.0, 1 - 2 / x.size)
    return float(np.sqrt(square / (x.size - 2) / spread * (1 + rho) / (1 - rho)))


def _noise(x: np.ndarray, y: np.ndarray, weights: np.ndarray, known: bool) -> float:
    """Size of the noise, measured by the distance of each point from the line between its neighbours: a bend does not count.

    For points with known errors, in units of them; and if neighbours lie closer together than independent errors would, the
    errors are correlated (distance^2 ~ 1 - 4 rho/3 + rho^2/3 at lag-one correlation rho) and weigh (1 + rho)/(1 - rho) more.
    """
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    off = y[1:-1] - (1 - share) * y[:-2] - share * y[2:]
    variance = 1 / weights[1:-1] + (1 - share) ** 2 / weights[:-2] + share**2 / weights[2:]
    size = float(np.mean(off**2 / variance))
    if not known or size >= 1:
        return float(np.sqrt(size))
    rho = min(2 - np.sqrt(1 + 3 * size), 1 - 2 / x.size)
    return float(np.sqrt((1 + rho) / (1 - rho)))
