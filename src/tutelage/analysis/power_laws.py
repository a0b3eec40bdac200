"""Exponents of power laws, with error bars.

An exponent is the slope of ln y against ln x, or there is a message that it has none.
docs/how-to/exponents.md explains window and errors. n residuals of lag-one correlation
rho count as n (1 - rho) / (1 + rho), as for an autoregressive process of first order.
The drift of the slope is a systematic error; what noise would fake of it is taken off,
drift (1 - (noise/drift)^2). A spectrum that is a power law has lam_k ~ k^-(1+beta)
(equation 1 of arXiv 2410.09005).
"""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tutelage import checks
from tutelage.analysis.result import AnalysisResult, off_the_line
from tutelage.errors import InputError, kind_of
from tutelage.problem import Inputs

LEAST_POINTS = 5  # of a line
COVERED_DEVIATIONS = 3.0  # standard deviations that an error bar must cover
INFINITE_FREEDOM = 1e6  # degrees of freedom, as good as infinite
LEAST_DECADES = 0.5  # shortest window that may be called a power law
# Share of the slope by which the local slope of a power law may drift.
SLOPE_TOLERANCE = 0.05
LIKELY_DRIFT = 1.5  # drift over noise at which a window is passed over
CERTAIN_DRIFT = 3.0  # drift over noise at which a given window is flagged
# Gap of the slopes of parts, over its error, that equal slopes exceed once in a hundred
# times.
LARGEST_CHANCE_GAP = 4.1
LARGEST_RATIO = 0.8  # of successive changes of the slope, in Aitken's limit
CURVE_CORRELATION = 0.9  # residuals of neighbors this correlated are a curve, not noise


@dataclass(frozen=True)
class FittedLine:
    """The line y = intercept + slope x.

    statistical, systematic: errors of the slope, from residuals and from its drift.
    parts: slopes of the first, middle and last third (of two halves, if the points are
    few). certainty: the drift in units of what noise would fake of it, as a normal
    deviate; infinite for points without noise.
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


def fit_line(
    x: np.ndarray,
    y: np.ndarray,
    sd: np.ndarray | None = None,
    *,
    smooth: bool = False,
    tries: int = 1,
) -> FittedLine:
    """Fit a line by least squares through at least `LEAST_POINTS` points, x increasing.

    sd: errors of y, which then weigh the points. smooth: the points carry no noise, so
    that every change of the slope is drift. tries: these points were chosen as the last
    of so many windows, for which the statistical error pays.
    """
    weights = np.ones_like(x) if sd is None else 1 / sd**2
    slope, intercept, spread = _least_squares(x, y, weights)
    if smooth:
        points = PointNoise(size=0.0, freedom=np.inf)
    else:
        points = _noise_of_points(x, y, weights, sd is not None)
    noise, freedom = points
    systematic, certainty = _drift(x, y, weights, points)
    parts = [_least_squares(x[p], y[p], weights[p]) for p in _parts(x)]
    slopes = tuple([part.slope for part in parts])
    gap = max(slopes) - min(slopes)
    gap_error = _coverage_factor(freedom) * noise
    smallest_spread = min(part.spread for part in parts)
    if gap > LARGEST_CHANCE_GAP * gap_error / np.sqrt(smallest_spread):
        of_parts = gap * len(slopes) / (len(slopes) - 1)
        systematic = max(systematic, of_parts, abs(_limit_of_slopes(slopes) - slope))
        certainty = np.inf
    residuals = (y - intercept - slope * x) * np.sqrt(weights)
    statistical = _statistical_error(residuals, spread, noise, tries)
    if sd is not None:
        known = _coverage_factor(np.inf, tries) * noise / np.sqrt(spread)
        statistical = max(statistical, known)
    return FittedLine(
        slope=slope,
        intercept=intercept,
        statistical=statistical,
        systematic=float(systematic),
        parts=slopes,
        certainty=certainty,
    )


def _drift(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, points: "PointNoise"
) -> tuple[float, float]:
    """Return the drift of the slope along a parabola, and its certainty.

    The drift that noise would fake is taken off.
    """
    from scipy.special import ndtri, stdtr

    width = x[-1] - x[0]
    parabola, covariance = np.polyfit(
        (x - x.mean()) / width, y, 2, w=np.sqrt(weights), cov="unscaled"
    )
    drift = abs(2 * parabola[0]) / width
    faked = 2 * points.size * np.sqrt(covariance[0, 0]) / width
    systematic = 0.0
    if drift > 0:
        systematic = drift * max(0.0, 1 - (faked / drift) ** 2)
    if not faked > 0:
        return systematic, np.inf
    # the ratio as the normal deviate that is exceeded equally often
    freedom = min(points.freedom, INFINITE_FREEDOM)
    exceeded = max(stdtr(freedom, -drift / faked), 1e-299)
    return systematic, -float(ndtri(exceeded))


def _parts(x: np.ndarray) -> list[np.ndarray]:
    """Return the indices of the points in each third of the range.

    If the points are few, return those of halves, which share their middle point.
    """
    width = x[-1] - x[0]
    third = np.clip(((x - x[0]) / width * 3).astype(int), 0, 2)
    thirds = [np.flatnonzero(third == i) for i in range(3)]
    if min(part.size for part in thirds) >= 3:
        return thirds
    middle = x.size // 2
    return [np.arange(middle + 1), np.arange(middle, x.size)]


def _limit_of_slopes(slopes: tuple[float, ...]) -> float:
    """Return the last slope, or Aitken's limit of three.

    That is the limit if the changes shrink by the same factor.
    """
    limit = slopes[-1]
    if len(slopes) == 3 and slopes[1] != slopes[0]:
        last_change = slopes[2] - slopes[1]
        ratio = np.clip(last_change / (slopes[1] - slopes[0]), 0.0, LARGEST_RATIO)
        limit += last_change * ratio / (1 - ratio)
    return limit


class LeastSquares(NamedTuple):
    """Slope, intercept and the sum of squares of x around its mean."""

    slope: float
    intercept: float
    spread: float


def _least_squares(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> LeastSquares:
    """Fit a line by weighted least squares."""
    center = np.average(x, weights=weights)
    mean = np.average(y, weights=weights)
    spread = np.sum(weights * (x - center) ** 2)
    slope = np.sum(weights * (x - center) * (y - mean)) / spread
    return LeastSquares(
        slope=float(slope),
        intercept=float(mean - slope * center),
        spread=float(spread),
    )


def _statistical_error(
    scaled: np.ndarray, spread: float, noise: float, tries: int
) -> float:
    """Return the error of the slope from the residuals and their correlation.

    Their number counts too if they are noise rather than a bend.
    """
    count = scaled.size
    square = float(np.sum(scaled**2))
    rho = float(np.sum(scaled[1:] * scaled[:-1])) / square if square > 0 else 0.0
    variance = square / (count - 2)
    by_chance = noise**2 > variance / 10
    # the correlation of few numbers comes out too small
    missing = (1 + 3 * rho) / count * by_chance
    rho = np.clip(rho + missing, 0.0, 1 - 2 / count)
    longer = (1 + rho) / (1 - rho)
    error = float(np.sqrt(variance / spread * longer))
    if not by_chance:
        return error
    return error * _coverage_factor(count / longer - 2, tries)


def _coverage_factor(freedom: float, tries: int = 1) -> float:
    """Return the factor of an error from few numbers.

    With it three errors are exceeded (in any try) as rarely as three normal ones.
    """
    from scipy.special import ndtr, stdtrit

    freedom = min(max(freedom, LEAST_POINTS - 2), INFINITE_FREEDOM)
    rarely = ndtr(-COVERED_DEVIATIONS) / tries
    return -float(stdtrit(freedom, rarely)) / COVERED_DEVIATIONS


class PointNoise(NamedTuple):
    """The noise of points: its size, per square root of a point.

    freedom: the number of independent numbers that it was measured with; infinite if it
    is known, or if the points lie on a curve.
    """

    size: float
    freedom: float


def _noise_of_points(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, known: bool
) -> PointNoise:
    """Return the noise of points.

    The distance from the line between neighbors sees neither a bend nor noise that
    neighbors share, that from the best cubic sees both; the ratio of their squares is
    1 - 4 rho/3 + rho^2/3. Known errors are the unit of noise.
    """
    squares = off_the_line(x, y, weights) ** 2
    near = float(np.mean(squares))
    # the median for a normal variable; a kink is far off at one point
    usual = float(np.median(squares)) / 0.455
    if known and near < 1:
        rho = min(2 - np.sqrt(1 + 3 * near), 1 - 2 / x.size)
        return PointNoise(float(np.sqrt((1 + rho) / (1 - rho))), np.inf)
    degree = 3 if x.size >= 8 else 2
    freedom = x.size - degree - 1
    scaled = (x - x.mean()) / (x[-1] - x[0])
    polynomial = np.polyfit(scaled, y, degree, w=np.sqrt(weights))
    residual = y - np.polyval(polynomial, scaled)
    far = float(np.sum(weights * residual**2)) / freedom
    rho = max(0.0, 2 - np.sqrt(1 + 3 * usual / far)) if far > 0 else 1.0
    if rho > CURVE_CORRELATION:
        return PointNoise(float(np.sqrt(near)), np.inf)
    longer = (1 + rho) / (1 - rho)
    return PointNoise(
        size=float(np.sqrt(max(near, far * longer))),
        freedom=max(x.size / longer - degree - 1, 2.0),
    )


@dataclass(frozen=True, repr=False)
class Exponent(AnalysisResult, FittedLine, figure="plot_exponent"):
    """The power law y = amplitude x^slope in a window.

    Attributes
    ----------
    error
        Statistical and systematic (drift of the local slope) error in quadrature.
    constant
        True if the local slope is constant within the tolerance (or the noise), so that
        this is a power law.
    window
        First and last x of the fit, `decades` wide, a `share` of all the data's
        decades.
    reason
        The reason for the window.
    parts
        Slopes of its thirds (or halves).
    local_slope
        d ln y / d ln x along all the data that have logarithms.
    """

    amplitude: float
    constant: bool
    window: tuple[float, float]
    decades: float
    share: float
    points: int
    reason: str
    local_slope: np.ndarray
    x: np.ndarray
    y: np.ndarray
    y_error: np.ndarray | None

    def __str__(self) -> str:
        low, high = self.window
        lines = [
            f"y ~ x^s with s = {self.slope:.4g} ± {self.error:.2g} "
            f"for {low:.4g} <= x <= {high:.4g} "
            f"({self.decades:.2g} decades, {self.points} points)",
            f"error: {self.statistical:.1e} from residuals, "
            f"{self.systematic:.1e} from the drift of the local slope",
            f"window: {self.reason}",
        ]
        if self.systematic > 1e-9 * abs(self.slope):
            slopes = ", ".join([f"{slope:.4g}" for slope in self.parts])
            lines.append(f"through it the local slope runs {slopes}")
        if self.reason != "given" and self.share < 0.5:
            lines.append(
                f"only {100 * self.share:.0f}% of the data's decades: "
                "over all of them the local slope lies between "
                f"{np.min(self.local_slope):.3g} and {np.max(self.local_slope):.3g}"
            )
        if not self.constant:
            lines.append(
                "NOT a power law in this window: "
                "the local slope is not constant; s is an average of it"
            )
        return "\n".join(lines)


def fit_exponent(
    x: ArrayLike,
    y: ArrayLike,
    window: tuple[float, float] | None = None,
    *,
    y_error: ArrayLike | None = None,
) -> Exponent:
    """Return the exponent s of y ~ x^s from the slope of ln y against ln x.

    Parameters
    ----------
    x, y : array
        Positive numbers, x increasing.
    window : (first, last), optional
        The range of x to fit. Default: the longest window of at least half a decade in
        which the local slope drifts by less than 5%, or by no more than noise explains.
    y_error : array, optional
        Standard errors of y, which weigh the points.

    Returns
    -------
    Exponent
        A given window whose slope drifts has `constant` False. If no window has a
        constant slope, InputError is raised.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> x = np.geomspace(1, 1000, 61)
    >>> fit = tu.analysis.fit_exponent(x, 3 * x**-0.5)
    >>> round(fit.slope, 9), round(fit.decades, 9)
    (-0.5, 3.0)
    """
    x, y, sd, inside = _fitted_points(x, y, y_error, window)
    X = np.log(x[inside])
    Y = np.log(y[inside])
    S = None if sd is None else sd[inside] / y[inside]
    if window is None:
        chosen = _longest_window(X, Y, S)
    else:
        chosen = Window(slice(None), reason="given", tries=1)
    part = chosen.part
    line = fit_line(
        X[part], Y[part], None if S is None else S[part], tries=chosen.tries
    )
    X = X[part]
    first = float(np.exp(X[0]))
    last = float(np.exp(X[-1]))
    positive = (x > 0) & (y > 0)
    whole = np.log(x[positive])
    return Exponent(
        **vars(line),
        amplitude=float(np.exp(line.intercept)),
        constant=_is_constant(line, CERTAIN_DRIFT),
        window=(first, last),
        decades=float(np.log10(last / first)),
        share=float((X[-1] - X[0]) / (whole[-1] - whole[0])),
        points=X.size,
        reason=chosen.reason,
        local_slope=_local_slopes(whole, np.log(y[positive])),
        x=x,
        y=y,
        y_error=sd,
    )


class Points(NamedTuple):
    """A curve, the errors of y, and which of its points lie in the window."""

    x: np.ndarray
    y: np.ndarray
    sd: np.ndarray | None
    inside: np.ndarray


def _fitted_points(
    x: ArrayLike,
    y: ArrayLike,
    y_error: ArrayLike | None,
    window: ArrayLike | None,
) -> Points:
    """Return the points of a fit as arrays.

    Refuse a window without enough positive points over a wide enough range.
    """
    checks.require_untraced("the curve", "fit_exponent", x, y, y_error)
    xs = checks.as_array("x", x, checks.require_increasing)
    ys = checks.as_array(
        "y",
        y,
        checks.require_finite,
        shapes=[xs.shape],
        fix="One value for each x.",
    )
    sd = checks.as_array(
        "y_error",
        y_error,
        checks.require_positive,
        shapes=[xs.shape],
        fix="One for each y.",
        optional=True,
    )
    inside = np.ones(xs.size, bool)
    if window is not None:
        inside = _in_window(xs, window)
    for name, values in (("x", xs[inside]), ("y", ys[inside])):
        if np.any(values <= 0):
            raise InputError(
                f"{name} contains {np.min(values):g}, which has no logarithm; "
                "every fitted entry must be positive. "
                "Leave it out (time zero, say), or give window=(first, last)."
            )
    if inside.sum() < LEAST_POINTS:
        raise InputError(
            f"there are {inside.sum()} points to fit; "
            f"an exponent needs at least {LEAST_POINTS}. "
            "Add points, or widen the window: "
            f"x runs from {xs[0]:g} to {xs[-1]:g}."
        )
    decades = float(np.log10(xs[inside][-1] / xs[inside][0]))
    if decades < LEAST_DECADES * (1 - 1e-9):
        raise InputError(
            f"the points span {decades:.2g} decades of x; "
            f"a power law needs at least {LEAST_DECADES}. Widen the window."
        )
    return Points(x=xs, y=ys, sd=sd, inside=inside)


def _in_window(x: np.ndarray, window: ArrayLike) -> np.ndarray:
    """Return true for the points in a window, which is checked."""
    pair = checks.as_array(
        "window", window, shapes=[(2,)], fix="Give the first and the last x."
    )
    low, high = pair.tolist()
    if not 0 < low < high:
        raise InputError(
            f"window is ({low:g}, {high:g}); "
            "it must be two positive numbers, the smaller one first."
        )
    return (x >= low * (1 - 1e-12)) & (x <= high * (1 + 1e-12))


def _is_constant(line: FittedLine, doubt: float) -> bool:
    is_small = line.systematic <= SLOPE_TOLERANCE * abs(line.slope)
    return line.certainty <= doubt or is_small


class Window(NamedTuple):
    """A part of the points, the reason for it, and the number of windows tried."""

    part: slice
    reason: str
    tries: int


def _longest_window(X: np.ndarray, Y: np.ndarray, S: np.ndarray | None) -> Window:
    """Return the longest window with a constant slope.

    Of two equally long ones it is the later one.
    """
    places = np.unique(np.searchsorted(X, np.linspace(X[0], X[-1], 60) - 1e-9))
    least = LEAST_DECADES * np.log(10) * (1 - 1e-9)
    pairs = []
    for i, j in combinations(places, 2):
        if X[j] - X[i] >= least and j - i + 1 >= LEAST_POINTS:
            pairs.append((i, j))
    pairs.sort(key=lambda pair: (X[pair[0]] - X[pair[1]], -pair[0]))
    for tries, (i, j) in enumerate(pairs, start=1):
        part = slice(int(i), int(j) + 1)
        line = fit_line(X[part], Y[part], None if S is None else S[part])
        if not _is_constant(line, LIKELY_DRIFT):
            continue
        origin = f"the longest of {len(pairs)} tried"
        if part == slice(0, X.size):
            origin = "all the data"
        drift = "no more than noise explains"
        if line.certainty > LIKELY_DRIFT:
            drift = f"less than {100 * SLOPE_TOLERANCE:g}%"
        reason = f"{origin}: the local slope drifts by {drift}"
        return Window(part, reason=reason, tries=tries)
    parts = fit_line(X, Y, S).parts
    raise InputError(
        f"no window of at least {LEAST_DECADES} decades has a constant slope: "
        f"it runs from {parts[0]:.3g} to {parts[-1]:.3g}, so this is not a power law. "
        "Give window= to fit an average slope all the same."
    )


def _local_slopes(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return slopes of straight lines through the neighbors of each point.

    They span an eighth of the range, and are at least three points.
    """
    reach = (X[-1] - X[0]) / 16  # to each side
    slopes = []
    for i in range(X.size):
        near = np.flatnonzero(np.abs(X - X[i]) <= reach)
        if near.size < 3:
            near = np.arange(3) + np.clip(i - 1, 0, X.size - 3)
        slopes.append(_least_squares(X[near], Y[near], np.ones(near.size)).slope)
    return np.array(slopes)


@dataclass(frozen=True, repr=False)
class SpectralExponent(AnalysisResult, figure="plot_spectral_exponent"):
    """The exponent beta of a spectrum, with its error, from the ranks in `fit.window`.

    ranks, eigenvalues: largest first. fit: the straight line in full. error: that of
    the straight line (scatter of the eigenvalues around it), and half the range through
    which beta runs from the first to the last third of the window, in quadrature.
    """

    beta: float
    error: float
    ranks: np.ndarray
    eigenvalues: np.ndarray
    fit: Exponent

    def __str__(self) -> str:
        low, high = self.fit.window
        lines = [
            f"lam_k ~ k^-(1 + beta) with beta = {self.beta:.3g} ± {self.error:.2g} "
            f"for k from {low:.0f} to {high:.0f}"
        ]
        if not self.fit.constant:
            betas = ", ".join([f"{-1 - slope:.3g}" for slope in self.fit.parts])
            lines.append(f"NOT a power law there: beta runs {betas} through the window")
        return "\n".join(lines)


def spectral_exponent(
    inputs: Inputs, window: tuple[float, float] | None = None
) -> SpectralExponent:
    """Return the exponent beta of a spectrum, eigenvalues ~ rank^-(1 + beta).

    Parameters
    ----------
    inputs : Inputs
        A spectrum, such as `from_data(X).inputs`.
    window : (first, last), optional
        The range of ranks. Default: the longest one with a constant slope.

    Returns
    -------
    SpectralExponent

    Examples
    --------
    >>> import tutelage as tu
    >>> spectrum = tu.PowerLaw(beta=0.5, levels=200)
    >>> exponent = tu.analysis.spectral_exponent(spectrum)
    >>> round(exponent.beta, 6), exponent.fit.constant
    (0.5, True)
    """
    if not isinstance(inputs, Inputs):
        raise InputError(
            f"inputs are {kind_of(inputs)}; "
            "measure one first, `tu.from_data(X).inputs`."
        )
    order = np.argsort(-np.asarray(inputs.eigenvalues), kind="stable")
    lam = np.asarray(inputs.eigenvalues, dtype=float)[order]
    p = np.asarray(inputs.fractions, dtype=float)[order]
    dim = inputs.known_dim or round(1 / float(p.min()))
    # the middle of a level; k itself where each has one dimension
    ranks = dim * (np.cumsum(p) - p / 2) + 0.5
    fit = fit_exponent(ranks, lam, window)
    return SpectralExponent(
        beta=-1 - fit.slope,
        error=float(np.hypot(fit.statistical, np.ptp(fit.parts) / 2)),
        ranks=ranks,
        eigenvalues=lam,
        fit=fit,
    )
