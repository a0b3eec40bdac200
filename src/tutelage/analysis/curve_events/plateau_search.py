"""Plateaus of a learning curve, and the growth that ends them.

docs/how-to/plateaus-and-phases.md has the definitions and their formulas.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from tutelage import checks
from tutelage._html import ResultCard
from tutelage.analysis.power_laws import LEAST_POINTS, fit_line
from tutelage.analysis.result import (
    Curve,
    ResultSequence,
    RunResults,
    final_crossing,
    read_curves,
    roughness,
)
from tutelage.errors import InputError
from tutelage.result.trajectory import Trajectory

LEAST_TIMES = 8  # recorded times that plateaus and phases need
DWELL_DROP = 3.0  # the dwell time falls by at least this factor when a plateau is left

# Students whose rows of R differ by less than this share are symmetric.
SYMMETRIC_SHARE = 0.3

# A difference that grows by less than this factor is not a departure.
LEAST_GROWTH = 5.0

# Growth is fitted from a quarter of the final departure down by two decades.
TOP_SHARE = 0.25
FITTED_RANGE = 100.0


@dataclass(frozen=True)
class Plateau(ResultCard):
    """One plateau of a learning curve.

    start, end: the error is within `share` of `height` between them; height: its median
    over that time. growth_rate: exponential rate at which the overlaps depart from the
    plateau, with growth_error, fitted between the times growth_window; None, and `note`
    says why, where no such growth can be measured. departure: (time,), the growing
    length. symmetric: did all student units have the same overlaps with the teachers?
    None for one unit or custom equations.
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
        span = f"from {self.start:.4g} to {self.end:.4g} (length {self.length:.4g})"
        text = f"{kind} at {self.height:.5g} {span}"
        if self.growth_rate is None:
            return f"{text}; {self.note}"
        return f"{text}, escape rate {self.growth_rate:.4g} ± {self.growth_error:.1g}"


@dataclass(frozen=True, repr=False)
class Plateaus(ResultSequence[Plateau], figure="plot_plateaus"):
    """The plateaus of a curve in the order of time: a sequence.

    It is empty (and `note` says so) if the curve leaves none. share: the error counts
    as on a plateau within this share of its height.
    """

    found: tuple[Plateau, ...]
    share: float
    note: str
    curve: Curve

    @property
    def longest(self) -> Plateau | None:
        """The longest plateau; None if there is none."""
        return max(self.found, key=lambda plateau: plateau.length, default=None)

    @property
    def marks(self) -> dict[str, float]:
        """The times at which the longest plateau is reached and left."""
        longest = self.longest
        if longest is None:
            return {}
        return {
            "reaches the plateau": longest.start,
            "escapes from the plateau": longest.end,
        }

    def __str__(self) -> str:
        if not self.found:
            return self.note
        return "\n".join(str(plateau) for plateau in self.found)


def plateaus(
    trajectory: Trajectory, run: int | None = None, *, share: float = 0.1
) -> Plateaus | RunResults:
    """Find the plateaus of a trajectory, of one run or of every run.

    docs/how-to/plateaus-and-phases.md defines them.

    Parameters
    ----------
    trajectory : Trajectory
        The result of `solve` or `simulate`.
    run : int, optional
        One run of a simulation, counted from 0. Default: all runs, as a `RunResults`.
    share : float
        The error counts as on a plateau within this relative distance from its height;
        for runs three times their fluctuation if that is more.

    Returns
    -------
    Plateaus or RunResults

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, 400.0)
    >>> [round(plateau.height, 4) for plateau in tu.analysis.plateaus(theory)]
    [0.0146]
    """
    checked = checks.as_number(
        "share", share, checks.require_positive, checks.require_probability
    )
    find = partial(find_plateaus, share=float(checked))
    return read_curves(trajectory, run, "plateaus", find, LEAST_TIMES)


class Span(NamedTuple):
    """The times between which a curve stays near a level; end is inf if it goes on."""

    start: float
    end: float


def find_plateaus(curve: Curve, share: float = 0.1) -> Plateaus:
    """Return the plateaus of one curve."""
    least = np.min(curve.error)
    if least < -1e-12 * np.max(np.abs(curve.error)):  # rounding below zero is accepted
        raise InputError(
            f"the error falls to {least:.3g}; plateaus compares its logarithm, "
            "so it must be zero or more."
        )
    share = max(share, min(0.5, 3 * curve.fluctuation))
    band = float(np.log1p(share))
    fall = band
    if curve.noisy:  # chance alone moves a run by a band
        fall = 3 * band
    times, y = _with_midpoints(curve.times, curve.log_error, fall)
    spans = [span_around(times, y, i, y[i], band) for i in range(times.size)]
    heights = _plateau_heights(times, y, spans, band)
    left = [
        (span, height)
        for span, height in heights.items()
        if _is_left(times, y, span.end, height - band)
    ]
    # growth from a plateau may go on until the next one begins
    growth_ends = [span.start for span, _ in left[1:]] + [float(times[-1])]
    found = []
    for (span, height), growth_end in zip(left, growth_ends, strict=False):
        growth = _growth(curve, span, growth_end)
        plateau = Plateau(
            start=span.start,
            end=span.end,
            height=float(np.exp(height)),
            share=share,
            symmetric=is_symmetric_at(curve, (span.start + span.end) / 2),
            growth_rate=growth.rate,
            growth_error=growth.error,
            growth_window=growth.window,
            note=growth.note,
            departure=growth.departure,
        )
        found.append(plateau)
    note = ""
    if not found:
        note = f"no plateau is left between {times[0]:.4g} and {times[-1]:.4g}"
        steady_from = spans[-1].start
        last_error = curve.error[-1]
        if steady_from < times[-1] / 2 and last_error > 1e-12 * curve.error[0]:
            note += (
                f"; since {steady_from:.4g} the error stays near {last_error:.4g}: "
                "solve for longer to see whether it is left"
            )
    return Plateaus(tuple(found), share, note, curve)


def _plateau_heights(
    times: np.ndarray, y: np.ndarray, spans: list[Span], band: float
) -> dict[Span, float]:
    """Return the height of each plateau, as a logarithm, by its span.

    spans: the span around the curve at each time.
    """
    heights = {}
    for i in _slow_instants(spans):
        first, last = spans[i]
        inner_times = np.linspace(first, min(last, times[-1]), 1001)
        height = float(np.median(np.interp(inner_times, times, y)))
        inside = np.flatnonzero((times >= first) & (times <= last))
        nearest = int(inside[np.argmin(np.abs(y[inside] - height))])
        heights[span_around(times, y, nearest, height, band)] = height
    return heights


def _with_midpoints(
    times: np.ndarray, y: np.ndarray, fall: float
) -> tuple[np.ndarray, np.ndarray]:
    """Add the middle of each interval in which the curve moves by more than `fall`.

    The dwell time is short there. Without these points a fall between two records
    would not show, and would not separate a plateau from the next one.
    """
    steep = np.flatnonzero(np.abs(np.diff(y)) > fall)
    middle_times = (times[steep] + times[steep + 1]) / 2
    middle_values = (y[steep] + y[steep + 1]) / 2
    places = steep + 1
    return np.insert(times, places, middle_times), np.insert(y, places, middle_values)


def _is_left(times: np.ndarray, y: np.ndarray, end: float, level: float) -> bool:
    """Return True if the curve is below the level for most of the time after `end`."""
    if end >= times[-1]:
        return False
    later = np.linspace(end, times[-1], 1002)[1:]
    return bool(np.median(np.interp(later, times, y)) < level)


def span_around(
    times: np.ndarray, y: np.ndarray, place: int, center: float, band: float
) -> Span:
    """Return the span around an index in which the curve is within `band` of `center`.

    An end of inf is beyond the record.
    """
    distance = np.abs(y - center)
    start = final_crossing(times[: place + 1], distance[: place + 1], band)
    end = -final_crossing(-times[place:][::-1], distance[place:][::-1], band)
    return Span(max(start, float(times[0])), end)


def _slow_instants(spans: list[Span]) -> list[int]:
    """Return the indices of the prominent maxima of the dwell time.

    The record's end, where the dwell time is not known, counts as still slower.
    """
    from scipy.signal import find_peaks

    dwell = np.log(np.maximum(np.diff(spans)[:, 0], 1e-300))
    drop = np.log(DWELL_DROP)
    known = dwell[np.isfinite(dwell)]
    low = np.min(known, initial=0.0) - 2 * drop
    high = np.max(known, initial=0.0) + 2 * drop
    padded = np.concatenate([[low], np.minimum(dwell, high), [high]])
    peaks, _ = find_peaks(padded, prominence=drop)
    return [int(i) - 1 for i in peaks]


def is_symmetric_at(curve: Curve, time: float) -> bool | None:
    """Return True if all student units have (nearly) the same overlaps with teachers.

    It is None for one unit or custom equations.
    """
    if curve.kind == "equations" or curve.rows is None or curve.rows.shape[1] < 2:
        return None
    rows = curve.rows[int(np.argmin(np.abs(curve.times - time)))]
    gaps = np.linalg.norm(rows[:, None] - rows[None, :], axis=2)
    mean_length = np.mean(np.linalg.norm(rows, axis=1))
    return bool(np.max(gaps) <= SYMMETRIC_SHARE * mean_length)


class Growth(NamedTuple):
    """The growth of the departure from a plateau, or a note that there is none."""

    rate: float | None = None
    error: float | None = None
    window: tuple[float, float] | None = None
    note: str = ""
    departure: np.ndarray | None = None


def _growth(curve: Curve, span: Span, until: float) -> Growth:
    """Fit the growth of the departure from a plateau.

    It may go on `until` the next plateau. Growth ends in saturation,
    du = rate u - b u^3: ln u = ln a + rate alpha - b int u^2 dalpha, linear in three
    unknowns.
    """
    from scipy.integrate import cumulative_simpson

    times = curve.times
    u = _departure(curve, span, until)
    if u is None:
        grows = f"grows at least {LEAST_GROWTH:g}-fold while it is left"
        return Growth(note=f"no overlap, or difference of overlaps, {grows}")

    # the fitted times
    final = float(np.max(u[times <= until]))
    middle = int(np.searchsorted(times, (span.start + span.end) / 2))
    last = middle + _first(u[middle:] >= TOP_SHARE * final, times.size - middle)
    noise = roughness(times, u) if curve.noisy else 0.0
    floor = max(final * TOP_SHARE / FITTED_RANGE, 4 * noise)
    is_excluded = (u[:last] <= floor) | (times[:last] < span.start)
    first = last - _first(is_excluded[::-1], last)
    if last - first < LEAST_POINTS:
        reason = "the overlaps depart"
        if curve.noisy:
            reason = "the departure stands out of the noise"
        return Growth(
            note=f"no growth rate: only {last - first} recorded times while {reason}, "
            f"{LEAST_POINTS} are needed"
        )

    # least squares for ln a, rate and b; then a line through the unsaturated growth
    t = times[first:last]
    fitted = u[first:last]
    saturation = cumulative_simpson(fitted**2, x=t, initial=0.0)  # int u^2 dalpha
    terms = np.stack([np.ones_like(t), t - t[0], -saturation], axis=1)
    coefficients, *_ = np.linalg.lstsq(terms, np.log(fitted), rcond=None)
    b = coefficients[2]
    line = fit_line(t, np.log(fitted) + b * saturation, smooth=True)
    error_by_noise = noise / fitted[0] / (t[-1] - t[0])  # the first value has most
    return Growth(
        rate=line.slope,
        error=float(np.hypot(line.error, error_by_noise)),
        window=(float(t[0]), float(t[-1])),
        departure=u,
    )


def _departure(curve: Curve, span: Span, until: float) -> np.ndarray | None:
    """Return u(alpha), (time,), the departure from a plateau.

    It is the part of the rows, and differences of rows, that grow from the plateau on,
    along the direction that they take.
    """
    rows = curve.rows
    times = curve.times
    after = (times > span.end) & (times <= until)
    if rows is None or not after.any():
        return None
    first, second = np.triu_indices(rows.shape[1], 1)
    differences = rows[:, first] - rows[:, second]
    vectors = np.concatenate([rows, differences], axis=1)
    middle_time = (span.start + span.end) / 2
    middle = int(np.clip(np.searchsorted(times, middle_time), 1, times.size - 2))
    sizes = np.linalg.norm(vectors, axis=2)
    first_half = (times >= span.start) & (np.arange(times.size) <= middle)
    least = np.min(sizes[first_half], axis=0, initial=np.inf)
    largest = np.max(sizes[after], axis=0)
    grown = largest > LEAST_GROWTH * np.minimum(least, sizes[middle])
    if not grown.any():
        return None
    vectors = vectors[:, grown].reshape(times.size, -1)
    size = np.linalg.norm(vectors, axis=1)
    is_leaving = size[middle:] >= TOP_SHARE * np.max(size[after])
    leaving = middle + _first(is_leaving, 1)
    return vectors @ vectors[leaving] / size[leaving]


def _first(condition: np.ndarray, otherwise: int) -> int:
    """Return the first index at which the condition holds."""
    return int(np.argmax(condition)) if np.any(condition) else otherwise
