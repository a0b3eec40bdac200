"""Power laws: the slope of log y against log x, with an honest error, or a sentence saying that there is none.

A power law y = c x^s is a constant local slope d ln y / d ln x = s. Every smooth curve has a slope, and a fit over a short
window always finds one with small residuals; so the window is stated, the local slopes are shown, and their drift through
the window is an error of its own (`analysis/lines.py`). It covers the distance to s of a power law with a correction,
y = c x^s (1 + b x^-w), as long as the drift slows down visibly within the window.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.curves.lines import LEAST, Line, fit_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECADES = 0.5  # shortest window that may be called a power law
TOLERANCE = 0.05  # share of the slope by which local slopes of a power law may differ
LIKELY, CERTAIN = 1.5, 3.0  # drifts, in units of their noise, at which a window is passed over, and a given one flagged
EDGES = 60  # windows are searched between at most this many points
RANGES = 8  # a local slope is taken over this fraction of the data's range


@dataclass(frozen=True)
class Exponent:
    """y ~ x^slope in a window. error: statistical and systematic (drift of the local slope) in quadrature.

    constant: is the local slope constant within the tolerance (or the noise), so that this is a power law? window: first and
    last x of the fit; reason: how it came about. parts: slopes of its thirds (or halves). local_x, local_slope:
    d ln y / d ln x along all the data. amplitude: y = amplitude x^slope.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> x = np.geomspace(1, 1000, 61)
    >>> found = tu.analysis.fit_exponent(x, x**-0.5 * (1 + 1 / x), window=(1, 100))
    >>> found.constant                                                   # not a power law in this window
    False
    """

    slope: float
    error: float
    statistical: float
    systematic: float
    constant: bool
    window: tuple[float, float]
    points: int
    parts: tuple[float, ...]
    amplitude: float
    reason: str
    local_x: np.ndarray = field(repr=False)
    local_slope: np.ndarray = field(repr=False)
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    y_error: np.ndarray | None = field(repr=False)

    @property
    def decades(self) -> float:
        """Width of the window in decades of x."""
        return float(np.log10(self.window[1] / self.window[0]))

    @property
    def share(self) -> float:
        """Width of the window as a share of all the data's decades."""
        return float(self.decades / np.log10(self.local_x[-1] / self.local_x[0]))

    def plot(self, *, title: str | None = None) -> "Figure":
        """The data with the fitted line, and the local slopes below, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.exponent import plot_exponent

        return plot_exponent(self, title=title)

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
            lines.append(
                f"only {100 * self.share:.0f}% of the data's decades: over all of them the local slope lies between "
                f"{np.min(self.local_slope):.3g} and {np.max(self.local_slope):.3g}"
            )
        if not self.constant:
            lines.append("NOT a power law in this window: the local slope is not constant; s is an average of it")
        return "\n".join(lines)


def fit_exponent(
    x: Any, y: Any, window: tuple[float, float] | None = None, *, y_error: Any = None, tolerance: float = TOLERANCE
) -> Exponent:
    """The exponent s of y ~ x^s from the slope of ln y against ln x.

    x, y: positive numbers, x increasing. window: (first, last) x to fit; None: the longest window, of at least half a
    decade, through which the local slope drifts by less than `tolerance` times itself, or by no more than noise
    explains. y_error: standard errors of y, which weigh the points. A given window whose slope drifts is fitted and flagged
    (`constant` is False); if no window has a constant slope, that is said instead of an exponent.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> x = np.geomspace(1, 1000, 61)
    >>> found = tu.analysis.fit_exponent(x, 3 * x**-0.5)
    >>> round(found.slope, 9), round(found.decades, 9)
    (-0.5, 3.0)
    """
    x, y, sd = _checked(x, y, y_error)
    checks.require_positive("tolerance", checks.as_array("tolerance", tolerance))
    inside = np.ones(x.size, bool) if window is None else _given(x, window)
    _require_positive(x, y, inside)
    X, Y, S = np.log(x[inside]), np.log(y[inside]), None if sd is None else sd[inside] / y[inside]
    chosen, reason, tries = (slice(None), "given", 1) if window is not None else _longest(X, Y, S, tolerance)
    X, line = X[chosen], fit_line(X[chosen], Y[chosen], None if S is None else S[chosen], tries=tries)
    positive = (x > 0) & (y > 0)
    return Exponent(
        slope=line.slope,
        error=line.error,
        statistical=line.statistical,
        systematic=line.systematic,
        constant=_is_constant(line, tolerance, CERTAIN),
        window=(float(np.exp(X[0])), float(np.exp(X[-1]))),
        points=X.size,
        parts=line.parts,
        amplitude=float(np.exp(line.intercept)),
        reason=reason,
        **_local(np.log(x[positive]), np.log(y[positive])),
        x=x,
        y=y,
        y_error=sd,
    )


def _checked(x: Any, y: Any, y_error: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    x, y = checks.as_array("x", x), checks.as_array("y", y)
    sd = None if y_error is None else checks.as_array("y_error", y_error)
    checks.require_untraced("the curve", "fit_exponent", x, y, sd)
    if x.ndim != 1:
        raise InputError(f"x has shape {x.shape}; it must be a list of numbers. Fit one curve at a time.")
    checks.require_shape("y", y, x.shape, fix="One value for each x.")
    checks.require_finite("x", x)
    checks.require_finite("y", y)
    if sd is not None:
        checks.require_shape("y_error", sd, x.shape, fix="One error for each y.")
        checks.require_positive("y_error", sd, fix="Leave it out if the errors are not known.")
    if np.any(np.diff(x) <= 0):
        raise InputError("x does not increase from entry to entry; it must. Sort x and y, and keep each x once.")
    return x, y, sd


def _given(x: np.ndarray, window: Any) -> np.ndarray:
    edges = checks.as_array("window", window)
    checks.require_shape("window", edges, (2,), fix="Give the first and the last x.")
    low, high = (float(e) for e in edges)
    if not 0 < low < high:
        raise InputError(f"window is ({low:g}, {high:g}); it must be two positive numbers, the smaller one first.")
    inside = (x >= low * (1 - 1e-12)) & (x <= high * (1 + 1e-12))
    if not inside.any():
        raise InputError(f"window is ({low:g}, {high:g}), where there is no data; x runs from {x[0]:g} to {x[-1]:g}.")
    return inside


def _require_positive(x: np.ndarray, y: np.ndarray, inside: np.ndarray) -> None:
    """Enough positive points over a wide enough range."""
    for name, values in (("x", x), ("y", y)):
        if np.any(values[inside] <= 0):
            raise InputError(
                f"{name} contains {np.min(values[inside]):g}, which has no logarithm; every fitted entry must be positive. "
                "Leave it out (time zero, say), or give window=(first, last)."
            )
    count = int(inside.sum())
    if count < LEAST:
        raise InputError(f"there are {count} points to fit; an exponent with an error needs at least {LEAST}. Add points.")
    decades = float(np.log10(x[inside][-1] / x[inside][0]))
    if decades < DECADES * (1 - 1e-9):
        raise InputError(
            f"the points span {decades:.2g} decades of x; a power law needs at least {DECADES}. Widen the window, or read "
            "local slopes off np.gradient(np.log(y), np.log(x))."
        )


def _is_constant(line: Line, tolerance: float, doubt: float) -> bool:
    return line.certainty <= doubt or line.systematic <= tolerance * abs(line.slope)


def _longest(X: np.ndarray, Y: np.ndarray, S: np.ndarray | None, tolerance: float) -> tuple[slice, str, int]:
    """The longest window with a constant slope, the later of two equally long; why it was taken, after how many tries."""
    places = np.unique(np.searchsorted(X, np.linspace(X[0], X[-1], EDGES) - 1e-9))
    least = DECADES * np.log(10) * (1 - 1e-9)
    pairs = [(i, j) for a, i in enumerate(places) for j in places[a + 1 :] if X[j] - X[i] >= least and j - i + 1 >= LEAST]
    for tries, (i, j) in enumerate(sorted(pairs, key=lambda p: (X[p[0]] - X[p[1]], -p[0])), start=1):
        part = slice(int(i), int(j) + 1)
        line = fit_line(X[part], Y[part], None if S is None else S[part])
        if _is_constant(line, tolerance, LIKELY):
            whole = "all the data: " if part == slice(0, X.size) else f"the longest of {len(pairs)} tried: "
            how = f"less than {100 * tolerance:g}%" if line.certainty > LIKELY else "no more than noise explains"
            return part, whole + f"the local slope drifts by {how}", tries
    parts = fit_line(X, Y, S).parts
    raise InputError(
        f"no window of at least {DECADES} decades has a constant slope: it runs from {parts[0]:.3g} to {parts[-1]:.3g}, "
        "so this is not a power law. Give window= to fit an average slope all the same."
    )


def _local(X: np.ndarray, Y: np.ndarray) -> dict[str, np.ndarray]:
    """Slopes of straight lines through the neighbors of each point: an eighth of the range, at least three points."""
    if X.size < 3:
        return {"local_x": np.exp(X), "local_slope": np.full(X.size, np.nan)}
    reach = (X[-1] - X[0]) / (2 * RANGES)
    slopes = np.empty(X.size)
    for i in range(X.size):
        near = np.flatnonzero(np.abs(X - X[i]) <= reach)
        if near.size < 3:
            near = np.arange(3) + np.clip(i - 1, 0, X.size - 3)
        centered = X[near] - X[near].mean()
        slopes[i] = centered @ Y[near] / (centered @ centered)
    return {"local_x": np.exp(X), "local_slope": slopes}
