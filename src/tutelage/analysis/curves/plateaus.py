"""Plateaus: where learning stalls before it goes on.

For each recorded moment take the time that the error spends, without leaving, within a share (10%) of its value there: the
dwell time. A plateau is a local maximum of the dwell time in time, at least three times as long as what comes before it
(unless the record begins on it) and three times as long as some passage after it: the error stalls, then speeds up. So a
power law (dwell times that grow), an exponential (equal ones) and a final level (never left) are none. It must be left
downwards for good: afterwards the error is mostly below it.

The height is the error at which half the dwell time has passed (the median over time); start and end are where the error
comes and goes within the share of that height. None of this asks how finely or evenly times were recorded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.analysis.curves.curve import Curve, each, require_positive_error
from tutelage.analysis.curves.departure import growth
from tutelage.analysis.curves.run_results import RunResults
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 8  # recorded times
RISE = 3.0  # the dwell time falls by at least this factor when a plateau is left
NOISE, WIDEST = 3.0, 0.5  # for a run, the share is at least this many times its fluctuation, up to a half
ALIKE = 0.3  # students whose rows of R differ by less than this share are alike


@dataclass(frozen=True)
class Plateau:
    """One plateau of a learning curve.

    start, end: the error is within `share` of `height` between them; height: its median over that time.
    growth_rate: exponential rate at which the overlaps depart from the plateau, with growth_error, fitted between the times
    growth_window; None, and `note` says why, where no such growth can be measured. departure: (time,), what grows.
    symmetric: were all students alike in their overlaps with the teachers? None for one unit, or a system of one's own.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> plateau = tu.analysis.plateaus(theory)[0]
    >>> plateau.start < plateau.middle < plateau.end, round(plateau.growth_rate, 3)
    (True, 0.03)
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
class Plateaus:
    """The plateaus of a curve in the order of time: a sequence, empty (and `note` says so) if it leaves none.

    share: within which share of its height the error counts as being on a plateau.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> tu.analysis.plateaus(theory).longest.symmetric
    True
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

    def plot(self, *, title: str | None = None) -> "Figure":
        """The learning curve with its plateaus, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.stages import plot_plateaus

        return plot_plateaus(self, title=title)

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
    return each(trajectory, run, "plateaus", lambda curve: find_plateaus(curve, given), LEAST)


def find_plateaus(curve: Curve, share: float = 0.1) -> Plateaus:
    """The plateaus of one curve."""
    require_positive_error(curve, "plateaus")
    y, times = curve.log_error, curve.times
    share = max(share, min(WIDEST, NOISE * curve.fluctuation))
    band = float(np.log1p(share))
    spans = [span_around(times, y, i, y[i], band) for i in range(times.size)]
    levels = [_level(times, y, spans[i], band) for i in _slow_moments(spans)]
    levels = [level for level in dict.fromkeys(levels) if _left_for_good(curve, level, band)]
    untils = [*(start for _, start, _ in levels[1:]), float(times[-1])][: len(levels)]
    found = [_describe(curve, level, until, share) for level, until in zip(levels, untils, strict=True)]
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
    low, high = dwell[known].min() - 2 * np.log(RISE), dwell[known].max() + 2 * np.log(RISE)
    padded = np.concatenate([[low], np.where(known, dwell, high), [high]])
    return [int(i) - 1 for i in find_peaks(padded, prominence=np.log(RISE))[0]]


def _level(times: np.ndarray, y: np.ndarray, span: tuple[float, float], band: float) -> tuple[float, float, float]:
    """ln of the height, start and end of the plateau around a slow moment."""
    height = float(np.median(np.interp(np.linspace(span[0], min(span[1], times[-1]), 1001), times, y)))
    inside = np.flatnonzero((times >= span[0]) & (times <= span[1]))
    at = int(inside[np.argmin(np.abs(y[inside] - height))])
    return height, *span_around(times, y, at, height, band)


def _left_for_good(curve: Curve, level: tuple[float, float, float], band: float) -> bool:
    height, _, end = level
    after = curve.log_error[curve.times > end]
    return after.size > 0 and bool(np.median(after) < height - band)


def _describe(curve: Curve, level: tuple[float, float, float], until: float, share: float) -> Plateau:
    height, start, end = level
    rate = growth(curve, start, end, until)
    missing = rate if isinstance(rate, str) else ""
    rate = None if isinstance(rate, str) else rate
    return Plateau(
        start=start,
        end=end,
        height=float(np.exp(height)),
        share=share,
        growth_rate=None if rate is None else rate.rate,
        growth_error=None if rate is None else rate.error,
        growth_window=None if rate is None else rate.window,
        note=missing,
        symmetric=alike_at(curve, (start + end) / 2),
        departure=None if rate is None else rate.departure,
    )


def alike_at(curve: Curve, time: float) -> bool | None:
    """Do all students have (nearly) the same overlaps with the teachers at this time?"""
    if curve.kind == "equations" or curve.rows is None or curve.rows.shape[1] < 2:
        return None
    rows = curve.rows[int(np.argmin(np.abs(curve.times - time)))]
    gaps = np.linalg.norm(rows[:, None] - rows[None, :], axis=2)
    return bool(np.max(gaps) <= ALIKE * np.mean(np.linalg.norm(rows, axis=1)))


def _why_none(curve: Curve, last: tuple[float, float]) -> str:
    times, error = curve.times, curve.error
    words = f"no plateau is left between {times[0]:.4g} and {times[-1]:.4g}"
    if last[0] < times[-1] / 2 and error[-1] > 1e-12 * error[0]:
        words += f"; since {last[0]:.4g} the error stays near {error[-1]:.4g}: solve for longer to see whether it is left"
    return words
