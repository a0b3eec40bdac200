"""Exponents of power laws, with error bars: the slope of ln y against ln x, or a message that there is none.

docs/how-to/exponents.md explains window and errors. n residuals of lag-one correlation rho count as n (1 - rho) / (1 + rho), as
for an autoregressive process of first order. The drift of the slope is a systematic error; what noise would fake of it is taken
off, drift (1 - (noise/drift)^2). A spectrum that is a power law has lam_k ~ k^-(1+beta) (equation 1 of arXiv 2410.09005).
"""

from dataclasses import dataclass
from itertools import combinations

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
SLOPE_TOLERANCE = 0.05  # share of the slope by which the local slope of a power law may drift
LIKELY_DRIFT, CERTAIN_DRIFT = 1.5, 3.0  # drifts over noise at which a window is passed over, and a given one flagged


@dataclass(frozen=True)
class FittedLine:
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


def fit_line(
    x: np.ndarray, y: np.ndarray, sd: np.ndarray | None = None, *, smooth: bool = False, tries: int = 1
) -> FittedLine:
    """Least squares through at least `LEAST_POINTS` points, x increasing. sd: errors of y, which then weigh the points.

    smooth: the points carry no noise, so that every change of the slope is drift. tries: these points were chosen as the
    last of so many windows, for which the statistical error pays.
    """
    from scipy.special import ndtri, stdtr

    weights = np.ones_like(x) if sd is None else 1 / sd**2
    slope, intercept, spread = _least_squares(x, y, weights)
    noise, freedom = (0.0, np.inf) if smooth else _noise_of_points(x, y, weights, sd is not None)
    width = x[-1] - x[0]
    parabola, covariance = np.polyfit((x - x.mean()) / width, y, 2, w=np.sqrt(weights), cov="unscaled")
    drift, faked = abs(2 * parabola[0]) / width, 2 * noise * np.sqrt(covariance[0, 0]) / width
    systematic, certainty = drift * max(0.0, 1 - (faked / drift) ** 2) if drift > 0 else 0.0, np.inf
    if faked > 0:  # the ratio as the normal deviate that is exceeded equally often
        certainty = -float(ndtri(max(stdtr(min(freedom, INFINITE_FREEDOM), -drift / faked), 1e-299)))
    third = np.clip(((x - x[0]) / width * 3).astype(int), 0, 2)
    parts = [np.flatnonzero(third == i) for i in range(3)]
    if min(len(part) for part in parts) < 3:  # halves, which share their middle point
        parts = [np.arange(x.size // 2 + 1), np.arange(x.size // 2, x.size)]
    slopes, _, spreads = zip(*(_least_squares(x[p], y[p], weights[p]) for p in parts), strict=True)
    gap, limit = max(slopes) - min(slopes), slopes[-1]
    if gap > 4.1 * _coverage_factor(freedom) * noise / np.sqrt(min(spreads)):  # once in a hundred times for equal slopes
        if len(slopes) == 3 and slopes[1] != slopes[0]:  # Aitken's limit, if the changes shrink by the same factor
            ratio = np.clip((slopes[2] - slopes[1]) / (slopes[1] - slopes[0]), 0.0, 0.8)
            limit += (slopes[2] - slopes[1]) * ratio / (1 - ratio)
        systematic = max(systematic, gap * len(slopes) / (len(slopes) - 1), abs(limit - slope))
        certainty = np.inf
    statistical = _statistical_error((y - intercept - slope * x) * np.sqrt(weights), spread, noise, tries)
    if sd is not None:
        statistical = max(statistical, _coverage_factor(np.inf, tries) * noise / np.sqrt(spread))
    return FittedLine(slope, intercept, statistical, float(systematic), slopes, certainty)


def _least_squares(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[float, float, float]:
    """Slope, intercept and the sum of squares of x around its mean."""
    center, mean = np.average(x, weights=weights), np.average(y, weights=weights)
    spread = np.sum(weights * (x - center) ** 2)
    slope = np.sum(weights * (x - center) * (y - mean)) / spread
    return float(slope), float(mean - slope * center), float(spread)


def _statistical_error(scaled: np.ndarray, spread: float, noise: float, tries: int) -> float:
    """Error of the slope from the residuals, their correlation and, if they are noise rather than a bend, their number."""
    count, square = scaled.size, float(np.sum(scaled**2))
    rho = float(np.sum(scaled[1:] * scaled[:-1])) / square if square > 0 else 0.0
    variance = square / (count - 2)
    by_chance = noise**2 > variance / 10
    rho = np.clip(rho + (1 + 3 * rho) / count * by_chance, 0.0, 1 - 2 / count)  # of few numbers it comes out too small
    longer = (1 + rho) / (1 - rho)
    return float(np.sqrt(variance / spread * longer)) * (_coverage_factor(count / longer - 2, tries) if by_chance else 1.0)


def _coverage_factor(freedom: float, tries: int = 1) -> float:
    """Factor of an error from few numbers, so that three of it are exceeded (in any try) as rarely as three normal ones."""
    from scipy.special import ndtr, stdtrit

    freedom = min(max(freedom, LEAST_POINTS - 2), INFINITE_FREEDOM)
    return -float(stdtrit(freedom, ndtr(-COVERED_DEVIATIONS) / tries)) / COVERED_DEVIATIONS


def _noise_of_points(x: np.ndarray, y: np.ndarray, weights: np.ndarray, known: bool) -> tuple[float, float]:
    """Size of the noise, per square root of a point, and how many numbers it was measured with (inf: known, or a curve).

    The distance from the line between neighbors sees neither a bend nor noise that neighbors share, that from the best cubic
    sees both; the ratio of their squares is 1 - 4 rho/3 + rho^2/3. Known errors are the unit of noise.
    """
    squares = off_the_line(x, y, weights) ** 2
    near = float(np.mean(squares))
    usual = float(np.median(squares)) / 0.455  # the median for a normal variable; a kink is far off at one point
    if known and near < 1:
        rho = min(2 - np.sqrt(1 + 3 * near), 1 - 2 / x.size)
        return float(np.sqrt((1 + rho) / (1 - rho))), np.inf
    degree = 3 if x.size >= 8 else 2
    freedom = x.size - degree - 1
    scaled = (x - x.mean()) / (x[-1] - x[0])
    residual = y - np.polyval(np.polyfit(scaled, y, degree, w=np.sqrt(weights)), scaled)
    far = float(np.sum(weights * residual**2)) / freedom
    rho = max(0.0, 2 - np.sqrt(1 + 3 * usual / far)) if far > 0 else 1.0
    if rho > 0.9:  # a curve, not noise
        return float(np.sqrt(near)), np.inf
    longer = (1 + rho) / (1 - rho)
    return float(np.sqrt(max(near, far * longer))), max(x.size / longer - degree - 1, 2.0)


@dataclass(frozen=True, repr=False)
class Exponent(AnalysisResult, FittedLine, figure="plot_exponent"):
    """y = amplitude x^slope in a window. error: statistical and systematic (drift of the local slope) in quadrature.

    constant: is the local slope constant within the tolerance (or the noise), so that this is a power law? window: first and
    last x of the fit, decades wide, a share of all the data's decades; reason: how it came about. parts: slopes of its
    thirds (or halves). local_slope: d ln y / d ln x along all the data that have logarithms.
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
            f"y ~ x^s with s = {self.slope:.4g} ± {self.error:.2g} for {low:.4g} <= x <= {high:.4g} "
            f"({self.decades:.2g} decades, {self.points} points)",
            f"error: {self.statistical:.1e} from residuals, {self.systematic:.1e} from the drift of the local slope",
            f"window: {self.reason}",
        ]
        if self.systematic > 1e-9 * abs(self.slope):
            lines.append(f"through it the local slope runs {', '.join(f'{s:.4g}' for s in self.parts)}")
        if self.reason != "given" and self.share < 0.5:
            ends = f"between {np.min(self.local_slope):.3g} and {np.max(self.local_slope):.3g}"
            share = f"only {100 * self.share:.0f}% of the data's decades"
            lines.append(f"{share}: over all of them the local slope lies {ends}")
        if not self.constant:
            lines.append("NOT a power law in this window: the local slope is not constant; s is an average of it")
        return "\n".join(lines)


def fit_exponent(
    x: ArrayLike, y: ArrayLike, window: tuple[float, float] | None = None, *, y_error: ArrayLike | None = None
) -> Exponent:
    """The exponent s of y ~ x^s from the slope of ln y against ln x.

    Parameters
    ----------
    x, y : array
        Positive numbers, x increasing.
    window : (first, last), optional
        The range of x to fit. Default: the longest window of at least half a decade in which the local slope drifts by
        less than 5%, or by no more than noise explains.
    y_error : array, optional
        Standard errors of y, which weigh the points.

    Returns
    -------
    Exponent
        A given window whose slope drifts has `constant` False. If no window has a constant slope, InputError is raised.

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> x = np.geomspace(1, 1000, 61)
    >>> found = tu.analysis.fit_exponent(x, 3 * x**-0.5)
    >>> round(found.slope, 9), round(found.decades, 9)
    (-0.5, 3.0)
    """
    x, y, sd, inside = _fitted_points(x, y, y_error, window)
    X, Y, S = np.log(x[inside]), np.log(y[inside]), None if sd is None else sd[inside] / y[inside]
    chosen, reason, tries = (slice(None), "given", 1) if window is not None else _longest_window(X, Y, S)
    X, line = X[chosen], fit_line(X[chosen], Y[chosen], None if S is None else S[chosen], tries=tries)
    positive, ends = (x > 0) & (y > 0), (float(np.exp(X[0])), float(np.exp(X[-1])))
    whole = np.log(x[positive])
    return Exponent(
        **vars(line),
        amplitude=float(np.exp(line.intercept)),
        constant=_is_constant(line, CERTAIN_DRIFT),
        window=ends,
        decades=float(np.log10(ends[1] / ends[0])),
        share=float((X[-1] - X[0]) / (whole[-1] - whole[0])),
        points=X.size,
        reason=reason,
        local_slope=_local_slopes(whole, np.log(y[positive])),
        x=x,
        y=y,
        y_error=sd,
    )


def _fitted_points(
    given_x: ArrayLike, given_y: ArrayLike, y_error: ArrayLike | None, window: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
    """x, y and the errors of y as arrays, and which points lie in the window: enough positive ones over a wide enough range."""
    checks.require_untraced("the curve", "fit_exponent", given_x, given_y, y_error)
    x = checks.as_array("x", given_x, checks.require_increasing)
    y = checks.as_array("y", given_y, checks.require_finite, shapes=[x.shape], fix="One value for each x.")
    sd = checks.as_array("y_error", y_error, checks.require_positive, shapes=[x.shape], fix="One for each y.", optional=True)
    inside = np.ones(x.size, bool)
    if window is not None:
        low, high = checks.as_array("window", window, shapes=[(2,)], fix="Give the first and the last x.").tolist()
        if not 0 < low < high:
            raise InputError(f"window is ({low:g}, {high:g}); it must be two positive numbers, the smaller one first.")
        inside = (x >= low * (1 - 1e-12)) & (x <= high * (1 + 1e-12))
    for name, values in (("x", x[inside]), ("y", y[inside])):
        if np.any(values <= 0):
            fix = "every fitted entry must be positive. Leave it out (time zero, say), or give window=(first, last)"
            raise InputError(f"{name} contains {np.min(values):g}, which has no logarithm; {fix}.")
    if inside.sum() < LEAST_POINTS:
        fix = f"an exponent needs at least {LEAST_POINTS}. Add points, or widen the window"
        raise InputError(f"there are {inside.sum()} points to fit; {fix}: x runs from {x[0]:g} to {x[-1]:g}.")
    decades = float(np.log10(x[inside][-1] / x[inside][0]))
    if decades < LEAST_DECADES * (1 - 1e-9):
        fix = f"a power law needs at least {LEAST_DECADES}. Widen the window"
        raise InputError(f"the points span {decades:.2g} decades of x; {fix}.")
    return x, y, sd, inside


def _is_constant(line: FittedLine, doubt: float) -> bool:
    return line.certainty <= doubt or line.systematic <= SLOPE_TOLERANCE * abs(line.slope)


def _longest_window(X: np.ndarray, Y: np.ndarray, S: np.ndarray | None) -> tuple[slice, str, int]:
    """The longest window with a constant slope, the later of two equally long; why it was taken, after how many tries."""
    places = np.unique(np.searchsorted(X, np.linspace(X[0], X[-1], 60) - 1e-9))
    least = LEAST_DECADES * np.log(10) * (1 - 1e-9)
    pairs = [(i, j) for i, j in combinations(places, 2) if X[j] - X[i] >= least and j - i + 1 >= LEAST_POINTS]
    for tries, (i, j) in enumerate(sorted(pairs, key=lambda p: (X[p[0]] - X[p[1]], -p[0])), start=1):
        part = slice(int(i), int(j) + 1)
        line = fit_line(X[part], Y[part], None if S is None else S[part])
        if _is_constant(line, LIKELY_DRIFT):
            whole = "all the data: " if part == slice(0, X.size) else f"the longest of {len(pairs)} tried: "
            how = f"less than {100 * SLOPE_TOLERANCE:g}%" if line.certainty > LIKELY_DRIFT else "no more than noise explains"
            return part, whole + f"the local slope drifts by {how}", tries
    first, *_, last = fit_line(X, Y, S).parts
    runs = f"it runs from {first:.3g} to {last:.3g}, so this is not a power law"
    fix = "Give window= to fit an average slope all the same"
    raise InputError(f"no window of at least {LEAST_DECADES} decades has a constant slope: {runs}. {fix}.")


def _local_slopes(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Slopes of straight lines through the neighbors of each point: an eighth of the range, at least three points."""
    reach = (X[-1] - X[0]) / 16  # to each side
    slopes = []
    for i in range(X.size):
        near = np.flatnonzero(np.abs(X - X[i]) <= reach)
        if near.size < 3:
            near = np.arange(3) + np.clip(i - 1, 0, X.size - 3)
        slopes.append(_least_squares(X[near], Y[near], np.ones(near.size))[0])
    return np.array(slopes)


@dataclass(frozen=True, repr=False)
class SpectralExponent(AnalysisResult, figure="plot_spectral_exponent"):
    """beta ± error from the ranks in `fit.window`. ranks, eigenvalues: largest first. fit: the straight line in full.

    error: of the straight line (scatter of the eigenvalues around it), and half the range through which beta runs from the
    first to the last third of the window, in quadrature.
    """

    beta: float
    error: float
    ranks: np.ndarray
    eigenvalues: np.ndarray
    fit: Exponent

    def __str__(self) -> str:
        low, high = self.fit.window
        lines = [f"lam_k ~ k^-(1 + beta) with beta = {self.beta:.3g} ± {self.error:.2g} for k from {low:.0f} to {high:.0f}"]
        if not self.fit.constant:
            slopes = ", ".join(f"{-1 - s:.3g}" for s in self.fit.parts)
            lines.append(f"NOT a power law there: beta runs {slopes} through the window")
        return "\n".join(lines)


def spectral_exponent(inputs: Inputs, window: tuple[float, float] | None = None) -> SpectralExponent:
    """The exponent beta of a spectrum, eigenvalues ~ rank^-(1 + beta), with its error.

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
    >>> found = tu.analysis.spectral_exponent(tu.PowerLaw(beta=0.5, levels=200))
    >>> round(found.beta, 6), found.fit.constant
    (0.5, True)
    """
    if not isinstance(inputs, Inputs):
        raise InputError(f"inputs are {kind_of(inputs)}; measure one first, `tu.from_data(X).inputs`.")
    order = np.argsort(-np.asarray(inputs.eigenvalues), kind="stable")
    lam, p = np.asarray(inputs.eigenvalues, dtype=float)[order], np.asarray(inputs.fractions, dtype=float)[order]
    dim = inputs.known_dim or round(1 / float(p.min()))
    ranks = dim * (np.cumsum(p) - p / 2) + 0.5  # the middle of a level; k itself where each has one dimension
    fit = fit_exponent(ranks, lam, window)
    error = float(np.hypot(fit.statistical, np.ptp(fit.parts) / 2))
    return SpectralExponent(-1 - fit.slope, error, ranks, lam, fit)
