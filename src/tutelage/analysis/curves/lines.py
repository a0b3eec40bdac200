"""A straight line through a curve, with an error that does not shrink just because the curve was sampled finely.

The textbook error of a slope assumes independent residuals. Those of a smooth curve are one long wave, so two things are
added. Residuals that resemble their neighbors (lag-one correlation rho) count as fewer, n (1 - rho) / (1 + rho), as for
an autoregressive process of first order; few points, and a window chosen among many, make the error larger (`covering`).
And the slope may drift: the curvature of the best parabola says by how much it changes from end to end. What noise, with
its correlation, would fake of that is taken off, drift (1 - (noise/drift)^2), and the rest is a systematic error. Where the
slopes of the three thirds differ beyond doubt, it is at least their range, from end to end, and at least the distance to
where slopes that change less and less would end (Aitken's limit of their sequence).
"""

from dataclasses import dataclass

import numpy as np

LEAST = 5  # points
FEWEST_IN_PART = 3
SLOWEST = 0.8  # ratio of successive changes up to which a sequence of slopes is taken to end somewhere
FEWEST_FOR_CUBIC = 8
SMOOTH = 0.9  # lag-one correlation above which residuals are no noise
COVERED = 3.0  # standard deviations
MANY = 1e6  # degrees of freedom, as good as infinite
MEDIAN = 0.455  # of the square of a standard normal variable
BEYOND_DOUBT = 4.1  # the range of three equal slopes exceeds this many of their errors once in a hundred times


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x. statistical, systematic: errors of the slope, from residuals and from its drift.

    parts: slopes of the first, middle and last third (of two halves, if the points are few). certainty: the drift in units
    of what noise would fake of it, as a normal deviate; infinite for points without noise.
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


def fit_line(x: np.ndarray, y: np.ndarray, sd: np.ndarray | None = None, *, smooth: bool = False, tries: int = 1) -> Line:
    """Least squares through at least `LEAST` points, x increasing. sd: errors of y, which then weigh the points.

    smooth: the points carry no noise, so that every change of the slope is drift. tries: these points were chosen as the
    last of so many windows, for which the statistical error pays.
    """
    weights = np.ones_like(x) if sd is None else 1 / sd**2
    slope, intercept = _least_squares(x, y, weights)
    noise, freedom = (0.0, np.inf) if smooth else _noise(x, y, weights, sd is not None)
    drift, faked = _bend(x, y, weights, noise)
    systematic = drift * max(0.0, 1 - (faked / drift) ** 2) if drift > 0 else 0.0
    certainty = _as_normal(drift / faked, freedom) if faked > 0 else np.inf
    parts = _parts(x)
    slopes = tuple(_least_squares(x[p], y[p], weights[p])[0] for p in parts)
    spread = min(_spread(x[p], weights[p]) for p in parts)
    if max(slopes) - min(slopes) > BEYOND_DOUBT * covering(freedom) * noise / np.sqrt(spread):
        end_to_end = (max(slopes) - min(slopes)) * len(parts) / (len(parts) - 1)
        systematic, certainty = max(systematic, end_to_end, abs(_limit(slopes) - slope)), np.inf
    statistical = _statistical(x, y - intercept - slope * x, weights, noise, tries)
    if sd is not None:
        statistical = max(statistical, covering(np.inf, tries) * noise / np.sqrt(_spread(x, weights)))
    return Line(slope, intercept, statistical, systematic, slopes, certainty)


def _least_squares(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    center, mean = np.average(x, weights=weights), np.average(y, weights=weights)
    slope = np.sum(weights * (x - center) * (y - mean)) / _spread(x, weights)
    return float(slope), float(mean - slope * center)


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


def _statistical(x: np.ndarray, residual: np.ndarray, weights: np.ndarray, noise: float, tries: int) -> float:
    """Error of the slope from the residuals, their correlation and, if they are noise rather than a bend, their number."""
    spread, scaled = _spread(x, weights), residual * np.sqrt(weights)
    square = float(np.sum(scaled**2))
    rho = float(np.sum(scaled[1:] * scaled[:-1])) / square if square > 0 else 0.0
    variance = square / (x.size - 2)
    by_chance = noise**2 > variance / 10
    rho = np.clip(rho + (1 + 3 * rho) / x.size * by_chance, 0.0, 1 - 2 / x.size)  # of few numbers it comes out too small
    longer = (1 + rho) / (1 - rho)
    return float(np.sqrt(variance / spread * longer)) * (covering(x.size / longer - 2, tries) if by_chance else 1.0)


def covering(freedom: float, tries: int = 1) -> float:
    """By what an error estimated from few numbers must be multiplied, so that three of it are exceeded as rarely as three
    standard deviations of a normal variable are; by the largest of so many independent tries."""
    from scipy.special import ndtr, stdtrit

    return -float(stdtrit(min(max(freedom, LEAST - 2), MANY), ndtr(-COVERED) / tries)) / COVERED


def _as_normal(ratio: float, freedom: float) -> float:
    """A ratio to an estimated error as the normal deviate that is exceeded equally often."""
    from scipy.special import ndtri, stdtr

    return -float(ndtri(max(stdtr(min(freedom, MANY), -ratio), 1e-299)))


def _noise(x: np.ndarray, y: np.ndarray, weights: np.ndarray, known: bool) -> tuple[float, float]:
    """Size of the noise, per square root of a point, and how many numbers it was measured with (inf: known, or a curve).

    The distance of each point from the line between its neighbors does not see a bend, nor noise that neighbors share;
    the distance from the best cubic sees both. From the ratio of the squares follows the lag-one correlation rho of noise
    (1 - 4 rho/3 + rho^2/3), of which a fit sees (1 + rho)/(1 - rho) times as much. What is smoother than noise with the
    correlation `SMOOTH` is a curve, not noise. Known errors are the unit; noise closer together than they say is correlated.
    """
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    off = y[1:-1] - (1 - share) * y[:-2] - share * y[2:]
    variance = 1 / weights[1:-1] + (1 - share) ** 2 / weights[:-2] + share**2 / weights[2:]
    squares = off**2 / variance
    near, usual = float(np.mean(squares)), float(np.median(squares)) / MEDIAN  # a kink is far off at one point alone
    if known and near < 1:
        rho = min(2 - np.sqrt(1 + 3 * near), 1 - 2 / x.size)
        return float(np.sqrt((1 + rho) / (1 - rho))), np.inf
    degree = 3 if x.size >= FEWEST_FOR_CUBIC else 2
    freedom = x.size - degree - 1
    root = np.sqrt(weights)
    powers = np.vander((x - x.mean()) / (x[-1] - x[0]), degree + 1) * root[:, None]
    far = float(np.sum((root * y - powers @ np.linalg.lstsq(powers, root * y, rcond=None)[0]) ** 2)) / freedom
    rho = max(0.0, 2 - np.sqrt(1 + 3 * usual / far)) if far > 0 else 1.0
    if rho > SMOOTH:
        return float(np.sqrt(near)), np.inf
    longer = (1 + rho) / (1 - rho)
    return float(np.sqrt(max(near, far * longer))), max(x.size / longer - degree - 1, 2.0)
