"""Plateaus: where learning stalls before it goes on, and how fast the overlaps depart from there.

For each recorded moment take the time that the error spends, without leaving, within a share (10%) of its value there: the
dwell time. A plateau is a local maximum of the dwell time in time, at least three times as long as what comes before it
(unless the record begins on it) and three times as long as some passage after it: the error stalls, then speeds up. So a
power law (dwell times that grow), an exponential (equal ones) and a final level (never left) are none. It must be left
downwards for good: afterwards the error is mostly below it.

The height is the error at which half the dwell time has passed (the median over time); start and end are where the error
comes and goes within the share of that height. None of this asks how finely or evenly times were recorded.

Near a saddle identical units separate as u = a e^(rate alpha), while the error, which is even in u, departs at twice that
rate. So the growth rate is fitted to the overlaps: rows R_k that are (nearly) equal on the plateau, or (nearly) zero, and
grow during the escape. Growth ends in saturation, du = rate u - b u^3 for a departure whose sign means nothing, so
    ln u(alpha) = ln a + rate alpha - b int u^2 dalpha,
which is linear in the three unknowns.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from tutelage import checks
from tutelage._html import ResultCard
from tutelage.analysis.power_laws import LEAST_POINTS, fit_line
from tutelage.analysis.result import Curve, CurveResult, ResultSequence, RunResults, read_curves, roughness
from tutelage.errors import InputError
from tutelage.trajectory import Trajectory

LEAST_GROWTH = 5.0  # a difference that grows by less than this factor is not a departure
TOP_SHARE, FITTED_RANGE = 0.25, 100.0  # fitted: from a quarter of the final departure down by two decades
CLEAR_OF_NOISE = 4.0  # a departure this many times the noise is clear of it
LEAST_TIMES = 8  # recorded times that are needed
DWELL_DROP = 3.0  # the dwell time falls by at least this factor when a plateau is left
SHARE_PER_FLUCTUATION, WIDEST_SHARE = 3.0, 0.5  # the share of a run: at least 3 times its fluctuation, up to a half
SYMMETRIC_SHARE = 0.3  # students whose rows of R differ by less than this share are symmetric


@dataclass(frozen=True)
class Plateau(ResultCard):
    """One plateau of a learning curve.

    start, end: the error is within `share` of `height` between them; height: its median over that time.
    growth_rate: exponential rate at which the overlaps depart from the plateau, with growth_error, fitted between the times
    growth_window; None, and `note` says why, where no such growth can be measured. departure: (time,), what grows.
    symmetric: did all student units have the same overlaps with the teachers? None for one unit or custom equations.
    """

    start: float
    end: float
    height: float
    share: float
    symmetric: bool | None
    growth_rate: float | None = None
    growth_error: float | None = None
    growth_window: tuple[float, float] | None = None
    note: str = ""
    departure: np.ndarray | None = field(default=None, repr=False)

    @property
    def length(self) -> float:
        """end - start."""
        return self.end - self.start

    def __str__(self) -> str:
        kind = "symmetric plateau" if self.symmetric else "plateau"
        text = f"{kind} at {self.height:.5g} from {self.start:.4g} to {self.end:.4g} (length {self.length:.4g})"
        if self.growth_rate is None:
            return f"{text}; {self.note}"
        return f"{text}, escape rate {self.growth_rate:.4g} ± {self.growth_error:.1g}"


@dataclass(frozen=True, repr=False)
class Plateaus(ResultSequence[Plateau], CurveResult, figure="plot_plateaus"):
    """The plateaus of a curve in the order of time: a sequence, empty (and `note` says so) if it leaves none.

    share: within which share of its height the error counts as being on a plateau.
    """

    found: tuple[Plateau, ...]
    share: float
    note: str
    curve: Curve

    @property
    def longest(self) -> Plateau | None:
        """The longest of them."""
        return max(self.found, key=lambda p: p.length, default=None)

    @property
    def marks(self) -> dict[str, float]:
        """When the longest plateau is reached and left."""
        longest = self.longest
        return {} if longest is None else {"reaches the plateau": longest.start, "escapes from the plateau": longest.end}

    def __str__(self) -> str:
        return "\n".join([str(p) for p in self.found] or [self.note])


def plateaus(trajectory: Trajectory, run: int | None = None, *, share: float = 0.1) -> Plateaus | RunResults:
    """Find the plateaus of a solved trajectory, of one run, or of every run of a simulation.

    Parameters
    ----------
    trajectory : Trajectory
        The result of `solve` or `simulate`.
    run : int, optional
        One run of a simulation, counted from 0. Default: all runs, as a `RunResults`.
    share : float
        The error counts as on a plateau within this relative distance from its height; for runs three times their
        fluctuation if that is more.

    Returns
    -------
    Plateaus or RunResults

    Notes
    -----
    The module docstring defines a plateau; docs/how-to/plateaus-and-phases.md discusses the accuracy of the rate.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> found = tu.analysis.plateaus(theory)
    >>> len(found), round(found[0].height, 4)
    (1, 0.0146)
    """
    given = float(checks.as_array("share", share)) if np.ndim(share) == 0 else np.nan
    if not 0 < given < 1:
        raise InputError(f"share is {checks.shown(share)}; it must be a number between 0 and 1, such as 0.1.")
    return read_curves(trajectory, run, "plateaus", lambda curve: find_plateaus(curve, given), LEAST_TIMES)


def find_plateaus(curve: Curve, share: float = 0.1) -> Plateaus:
    """The plateaus of one curve."""
    if np.min(curve.error) < -1e-12 * np.max(np.abs(curve.error)):  # rounding below zero is let through
        raise InputError(
            f"the error falls to {np.min(curve.error):.3g}; plateaus compares its logarithm, so it must be positive. "
            "Give the equations an error that is zero or more."
        )
    y, times = curve.log_error, curve.times
    share = max(share, min(WIDEST_SHARE, SHARE_PER_FLUCTUATION * curve.fluctuation))
    band = float(np.log1p(share))
    spans = [span_around(times, y, i, y[i], band) for i in range(times.size)]
    levels = dict.fromkeys(_level(times, y, spans[i], band) for i in _slow_moments(spans))
    left = [level for level in levels if times[-1] > level[2] and np.median(y[times > level[2]]) < level[0] - band]
    found = []
    for (height, start, end), until in zip(left, [*(start for _, start, _ in left[1:]), float(times[-1])], strict=False):
        plateau = Plateau(start, end, float(np.exp(height)), share, is_symmetric_at(curve, (start + end) / 2))
        found.append(_with_growth(plateau, curve, until))
    note = "" if found else f"no plateau is left between {times[0]:.4g} and {times[-1]:.4g}"
    stays, last = spans[-1][0], curve.error[-1]
    if not found and stays < times[-1] / 2 and last > 1e-12 * curve.error[0]:
        note += f"; since {stays:.4g} the error stays near {last:.4g}: solve for longer to see whether it is left"
    return Plateaus(tuple(found), share, note, curve)


def span_around(times: np.ndarray, y: np.ndarray, at: int, center: float, band: float) -> tuple[float, float]:
    """Between which times around index `at` the curve stays within `band` of `center`; inf: to the end of the record."""

    def crossing(inside: int, outside: int) -> float:
        edge = center + band * np.sign(y[outside] - center)
        part = np.clip((edge - y[inside]) / (y[outside] - y[inside]), 0.0, 1.0)
        return float(times[inside] + part * (times[outside] - times[inside]))

    out = np.abs(y - center) > band
    after, before = np.flatnonzero(out[at:]), np.flatnonzero(out[: at + 1])
    end = np.inf if after.size == 0 else crossing(at + int(after[0]) - 1, at + int(after[0]))
    start = float(times[0]) if before.size == 0 else crossing(int(before[-1]) + 1, int(before[-1]))
    return start, end


def _slow_moments(spans: list[tuple[float, float]]) -> list[int]:
    """Indices of the prominent maxima of the dwell time; the record's end, where it is not known, counts as still slower."""
    from scipy.signal import find_peaks

    dwell = np.array([np.log(max(end - start, 1e-300)) for start, end in spans])
    known = np.isfinite(dwell)
    if not known.any():
        return []
    low, high = dwell[known].min() - 2 * np.log(DWELL_DROP), dwell[known].max() + 2 * np.log(DWELL_DROP)
    padded = np.concatenate([[low], np.where(known, dwell, high), [high]])
    return [int(i) - 1 for i in find_peaks(padded, prominence=np.log(DWELL_DROP))[0]]


def _level(times: np.ndarray, y: np.ndarray, span: tuple[float, float], band: float) -> tuple[float, float, float]:
    """ln of the height, start and end of the plateau around a slow moment."""
    height = float(np.median(np.interp(np.linspace(span[0], min(span[1], times[-1]), 1001), times, y)))
    inside = np.flatnonzero((times >= span[0]) & (times <= span[1]))
    at = int(inside[np.argmin(np.abs(y[inside] - height))])
    return height, *span_around(times, y, at, height, band)


def is_symmetric_at(curve: Curve, time: float) -> bool | None:
    """Do all student units have (nearly) the same overlaps with the teachers at this time?"""
    if curve.kind == "equations" or curve.rows is None or curve.rows.shape[1] < 2:
        return None
    rows = curve.rows[int(np.argmin(np.abs(curve.times - time)))]
    gaps = np.linalg.norm(rows[:, None] - rows[None, :], axis=2)
    return bool(np.max(gaps) <= SYMMETRIC_SHARE * np.mean(np.linalg.norm(rows, axis=1)))


def _with_growth(plateau: Plateau, curve: Curve, until: float) -> Plateau:
    """The plateau with the growth of the departure from it, which may go on `until` the next one.

    With a note instead where nothing grows out of a symmetry (say, a schedule ended the plateau), or it cannot be resolved.
    """
    start, end, times = plateau.start, plateau.end, curve.times
    u = _departure(curve, start, end, until)
    if u is None:
        note = f"no overlap, or difference of overlaps, grows at least {LEAST_GROWTH:g}-fold while it is left"
        return replace(plateau, note=note)
    final = float(np.max(u[times <= until]))
    middle = int(np.searchsorted(times, (start + end) / 2))
    last = middle + _first(u[middle:] >= TOP_SHARE * final, times.size - middle)
    noise = roughness(times, u) if curve.noisy else 0.0
    floor = max(final * TOP_SHARE / FITTED_RANGE, CLEAR_OF_NOISE * noise)
    low = (u[:last] <= floor) | (times[:last] < start)
    first = last - _first(low[::-1], last)
    if last - first < LEAST_POINTS:
        why = "the departure stands out of the noise" if curve.noisy else "the overlaps depart"
        note = f"no growth rate: only {last - first} recorded times while {why}, {LEAST_POINTS} are needed"
        return replace(plateau, note=note)
    t, inside = times[first:last], u[first:last]
    change, ratio = np.diff(inside**2), np.diff(np.log(inside**2))  # u is exponential between recorded times
    mean = np.where(np.abs(ratio) > 1e-6, change / np.where(ratio == 0, 1.0, ratio), inside[:-1] ** 2)
    saturation = np.concatenate([[0.0], np.cumsum(mean * np.diff(t))])  # int u^2 dalpha
    terms = np.stack([np.ones_like(t), t - t[0], -saturation], axis=1)
    b = np.linalg.lstsq(terms, np.log(inside), rcond=None)[0][2]
    line = fit_line(t, np.log(inside) + b * saturation, smooth=True)
    by_noise = noise / inside[0] / (t[-1] - t[0])  # what the noise in u at the beginning does to the rate
    return replace(
        plateau,
        growth_rate=line.slope,
        growth_error=float(np.hypot(line.error, by_noise)),
        growth_window=(float(t[0]), float(t[-1])),
        departure=u,
    )


def _departure(curve: Curve, start: float, end: float, until: float) -> np.ndarray | None:
    """u(alpha), (time,): the rows, and differences of rows, that grow from the plateau on, along the direction they take."""
    rows, times = curve.rows, curve.times
    if rows is None:
        return None
    first, second = np.triu_indices(rows.shape[1], 1)
    vectors = np.concatenate([rows, rows[:, first] - rows[:, second]], axis=1)
    middle = int(np.clip(np.searchsorted(times, (start + end) / 2), 1, times.size - 2))
    after = (times > end) & (times <= until)
    if not after.any():
        return None
    sizes = np.linalg.norm(vectors, axis=2)
    least = np.min(sizes[(times >= start) & (np.arange(times.size) <= middle)], axis=0, initial=np.inf)
    grown = np.max(sizes[after], axis=0) > LEAST_GROWTH * np.minimum(least, sizes[middle])
    if not grown.any():
        return None
    vectors = vectors[:, grown].reshape(times.size, -1)
    size = np.linalg.norm(vectors, axis=1)
    leaving = middle + _first(size[middle:] >= TOP_SHARE * np.max(size[after]), 1)
    return vectors @ vectors[leaving] / size[leaving]


def _first(condition: np.ndarray, otherwise: int) -> int:
    return int(np.argmax(condition)) if np.any(condition) else otherwise
