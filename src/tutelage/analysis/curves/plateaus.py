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

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.curves.curve import Curve, RunResults, first_index, read_curves, require_positive_error, roughness
from tutelage.analysis.curves.exponents import LEAST_POINTS, fit_line
from tutelage.analysis.result import AnalysisResult
from tutelage.trajectory import Trajectory

LEAST_GROWTH = 5.0  # a difference that grows by less than this factor is not a departure
TOP_SHARE, FITTED_RANGE = 0.25, 100.0  # fitted: from a quarter of the final departure down by two decades
CLEAR_OF_NOISE = 4.0  # a departure this many times the noise is clear of it
LEAST_TIMES = 8  # recorded times that are needed
DWELL_DROP = 3.0  # the dwell time falls by at least this factor when a plateau is left
SHARE_PER_FLUCTUATION, WIDEST_SHARE = 3.0, 0.5  # the share of a run: at least 3 times its fluctuation, up to a half
SYMMETRIC_SHARE = 0.3  # students whose rows of R differ by less than this share are symmetric


class Growth(NamedTuple):
    """rate of the exponential growth, its error (drift of the rate included), the times between which it was fitted, and
    what grows, (time,)."""

    rate: float
    error: float
    window: tuple[float, float]
    departure: np.ndarray


def fit_growth(curve: Curve, start: float, end: float, until: float) -> Growth | str:
    """The growth of the departure from a plateau between `start` and `end`, which may go on `until` the next one.

    A message instead where nothing grows out of a symmetry (say, a schedule ended the plateau), or it cannot be resolved.
    """
    u = departure(curve, start, end, until)
    if u is None:
        return f"no overlap, or difference of overlaps, grows at least {LEAST_GROWTH:g}-fold while it is left"
    times = curve.times
    final = float(np.max(u[times <= until]))
    middle = int(np.searchsorted(times, (start + end) / 2))
    last = middle + first_index(u[middle:] >= TOP_SHARE * final, times.size - middle)
    noise = roughness(times, u) if curve.noisy else 0.0
    floor = max(final * TOP_SHARE / FITTED_RANGE, CLEAR_OF_NOISE * noise)
    low = (u[:last] <= floor) | (times[:last] < start)
    first = last - first_index(low[::-1], last)
    if last - first < LEAST_POINTS:
        why = "the departure stands out of the noise" if curve.noisy else "the overlaps depart"
        return f"no growth rate: only {last - first} recorded times while {why}, {LEAST_POINTS} are needed"
    t, inside = times[first:last], u[first:last]
    saturation = _integral_of_square(t, inside)
    terms = np.stack([np.ones_like(t), t - t[0], -saturation], axis=1)
    b = np.linalg.lstsq(terms, np.log(inside), rcond=None)[0][2]
    line = fit_line(t, np.log(inside) + b * saturation, smooth=True)
    by_noise = noise / inside[0] / (t[-1] - t[0])  # what the noise in u at the beginning does to the rate
    return Growth(line.slope, float(np.hypot(line.error, by_noise)), (float(t[0]), float(t[-1])), u)


def departure(curve: Curve, start: float, end: float, until: float) -> np.ndarray | None:
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
    leaving = middle + first_index(size[middle:] >= TOP_SHARE * np.max(size[after]), 1)
    return vectors @ vectors[leaving] / size[leaving]


def _integral_of_square(times: np.ndarray, u: np.ndarray) -> np.ndarray:
    """int u^2 dalpha from the first time, u exponential between recorded times."""
    square = u**2
    change, ratio = np.diff(square), np.diff(np.log(square))
    mean = np.where(np.abs(ratio) > 1e-6, change / np.where(ratio == 0, 1.0, ratio), square[:-1])
    return np.concatenate([[0.0], np.cumsum(mean * np.diff(times))])


@dataclass(frozen=True)
class Plateau:
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
    growth_rate: float | None
    growth_error: float | None
    growth_window: tuple[float, float] | None
    note: str
    symmetric: bool | None
    departure: np.ndarray | None = field(repr=False)

    @property
    def length(self) -> float:
        """end - start."""
        return self.end - self.start

    @property
    def middle(self) -> float:
        """The time halfway, where a curve that only falls has its height."""
        return (self.start + self.end) / 2

    def __str__(self) -> str:
        kind = {True: "symmetric plateau", False: "plateau", None: "plateau"}[self.symmetric]
        text = f"{kind} at {self.height:.5g} from {self.start:.4g} to {self.end:.4g} (length {self.length:.4g})"
        if self.growth_rate is None:
            return f"{text}; {self.note}"
        return f"{text}, left at the rate {self.growth_rate:.4g} ± {self.growth_error:.1g}"


@dataclass(frozen=True)
class Plateaus(AnalysisResult):
    """The plateaus of a curve in the order of time: a sequence, empty (and `note` says so) if it leaves none.

    share: within which share of its height the error counts as being on a plateau.
    """

    found: tuple[Plateau, ...]
    share: float
    note: str
    curve: Curve = field(repr=False)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, index: int) -> Plateau:
        return self.found[index]

    def __iter__(self) -> Iterator[Plateau]:
        return iter(self.found)

    @property
    def longest(self) -> Plateau | None:
        """The longest of them."""
        return max(self.found, key=lambda p: p.length, default=None)

    @property
    def marks(self) -> dict[str, float]:
        """When the longest plateau is reached and left."""
        longest = self.longest
        return {} if longest is None else {"reaches the plateau": longest.start, "leaves the plateau": longest.end}

    def __str__(self) -> str:
        return "\n".join([str(p) for p in self.found] or [self.note])


def plateaus(trajectory: Trajectory, run: int | None = None, *, share: float = 0.1) -> Plateaus | RunResults:
    """Find the plateaus of a solved trajectory, of one run, or of every run of a simulation (a `RunResults`).

    share: how far from its height the error may be, relative to it, while it counts as being on a plateau. For runs it is
    widened to three times their fluctuation where that is more. The module docstring states what counts as a plateau;
    docs/how-to/plateaus-and-phases.md how far to trust the rate.

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
    require_positive_error(curve, "plateaus")
    y, times = curve.log_error, curve.times
    share = max(share, min(WIDEST_SHARE, SHARE_PER_FLUCTUATION * curve.fluctuation))
    band = float(np.log1p(share))
    spans = [span_around(times, y, i, y[i], band) for i in range(times.size)]
    levels = [_level(times, y, spans[i], band) for i in _slow_moments(spans)]
    levels = [level for level in dict.fromkeys(levels) if _is_below_after(times, y, level[0] - band, level[2])]
    untils = [*(start for _, start, _ in levels[1:]), float(times[-1])][: len(levels)]
    found = [_measure_plateau(curve, level, until, share) for level, until in zip(levels, untils, strict=True)]
    return Plateaus(tuple(found), share, "" if found else _why_none(curve, spans[-1]), curve)


def span_around(times: np.ndarray, y: np.ndarray, at: int, center: float, band: float) -> tuple[float, float]:
    """Between which times around index `at` the curve stays within `band` of `center`; inf: to the end of the record."""
    out = np.abs(y - center) > band
    after, before = np.flatnonzero(out[at:]), np.flatnonzero(out[: at + 1])
    end = np.inf if after.size == 0 else _crossing(times, y, at + int(after[0]) - 1, at + int(after[0]), center, band)
    start = times[0] if before.size == 0 else _crossing(times, y, int(before[-1]) + 1, int(before[-1]), center, band)
    return float(start), float(end)


def _crossing(times: np.ndarray, y: np.ndarray, inside: int, outside: int, center: float, band: float) -> float:
    edge = center + band * np.sign(y[outside] - center)
    part = np.clip((edge - y[inside]) / (y[outside] - y[inside]), 0.0, 1.0)
    return float(times[inside] + part * (times[outside] - times[inside]))


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


def _measure_plateau(curve: Curve, level: tuple[float, float, float], until: float, share: float) -> Plateau:
    height, start, end = level
    growth = fit_growth(curve, start, end, until)
    level_of, symmetric = (start, end, float(np.exp(height)), share), is_symmetric_at(curve, (start + end) / 2)
    if isinstance(growth, str):
        return Plateau(*level_of, None, None, None, growth, symmetric, None)
    return Plateau(*level_of, growth.rate, growth.error, growth.window, "", symmetric, growth.departure)


def is_symmetric_at(curve: Curve, time: float) -> bool | None:
    """Do all student units have (nearly) the same overlaps with the teachers at this time?"""
    if curve.kind == "equations" or curve.rows is None or curve.rows.shape[1] < 2:
        return None
    rows = curve.rows[int(np.argmin(np.abs(curve.times - time)))]
    gaps = np.linalg.norm(rows[:, None] - rows[None, :], axis=2)
    return bool(np.max(gaps) <= SYMMETRIC_SHARE * np.mean(np.linalg.norm(rows, axis=1)))


def _is_below_after(times: np.ndarray, y: np.ndarray, height: float, end: float) -> bool:
    """Is the curve mostly below a height after a time, so that a plateau there was left for good?"""
    after = y[times > end]
    return after.size > 0 and bool(np.median(after) < height)


def _why_none(curve: Curve, last: tuple[float, float]) -> str:
    times, error = curve.times, curve.error
    words = f"no plateau is left between {times[0]:.4g} and {times[-1]:.4g}"
    if last[0] < times[-1] / 2 and error[-1] > 1e-12 * error[0]:
        words += f"; since {last[0]:.4g} the error stays near {error[-1]:.4g}: solve for longer to see whether it is left"
    return words
