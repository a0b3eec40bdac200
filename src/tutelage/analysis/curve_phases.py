"""What happens when on a learning curve: plateaus, specialization, the smallest error, and named phases.

docs/how-to/plateaus-and-phases.md, specialization.md and early-stopping.md have the definitions and their formulas.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._html import ResultCard
from tutelage.analysis.power_laws import LEAST_POINTS, fit_line
from tutelage.analysis.result import (
    AnalysisResult,
    Curve,
    ResultSequence,
    RunResults,
    final_crossing,
    read_curves,
    roughness,
)
from tutelage.errors import InputError
from tutelage.problem.schedules import switch_times
from tutelage.trajectory import Trajectory

LEAST_TIMES = 8  # recorded times that plateaus and phases need
DWELL_DROP = 3.0  # the dwell time falls by at least this factor when a plateau is left
SYMMETRIC_SHARE = 0.3  # students whose rows of R differ by less than this share are symmetric
LEAST_GROWTH = 5.0  # a difference that grows by less than this factor is not a departure
TOP_SHARE, FITTED_RANGE = 0.25, 100.0  # fitted: from a quarter of the final departure down by two decades
TRANSITION_INDEX, SPECIALIZED_INDEX = 0.5, 0.9  # indices at the transition, and when specialization is over


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
class Plateaus(ResultSequence[Plateau], figure="plot_plateaus"):
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
    """Find the plateaus of a trajectory, of one run or of every run; docs/how-to/plateaus-and-phases.md defines them.

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

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.Start([[0.11, 0.1], [0.1, 0.11]], [[0.1, 0.0], [0.0, 0.1]]), 400.0)
    >>> [round(plateau.height, 4) for plateau in tu.analysis.plateaus(theory)]
    [0.0146]
    """
    share = float(checks.as_number("share", share, checks.require_positive, checks.require_probability))
    return read_curves(trajectory, run, "plateaus", lambda curve: find_plateaus(curve, share), LEAST_TIMES)


def find_plateaus(curve: Curve, share: float = 0.1) -> Plateaus:
    """The plateaus of one curve."""
    least = np.min(curve.error)
    if least < -1e-12 * np.max(np.abs(curve.error)):  # rounding below zero is let through
        raise InputError(f"the error falls to {least:.3g}; plateaus compares its logarithm, so it must be zero or more.")
    share = max(share, min(0.5, 3 * curve.fluctuation))
    band = float(np.log1p(share))
    fall = 3 * band if curve.noisy else band  # chance alone moves a run by a band
    times, y = _with_midpoints(curve.times, curve.log_error, fall)
    spans = [_span_around(times, y, i, y[i], band) for i in range(times.size)]
    levels = {}  # the height of each plateau, as a logarithm, by its start and end
    for first, last in (spans[i] for i in _slow_moments(spans)):
        height = float(np.median(np.interp(np.linspace(first, min(last, times[-1]), 1001), times, y)))
        inside = np.flatnonzero((times >= first) & (times <= last))
        at = int(inside[np.argmin(np.abs(y[inside] - height))])
        levels[_span_around(times, y, at, height, band)] = height
    left = [(*span, h) for span, h in levels.items() if _is_left(times, y, span[1], h - band)]
    found = []
    for (start, end, height), until in zip(left, [*(start for start, *_ in left[1:]), float(times[-1])], strict=False):
        symmetric = _is_symmetric_at(curve, (start + end) / 2)
        found.append(Plateau(start, end, float(np.exp(height)), share, symmetric, **_growth(curve, start, end, until)))
    note = "" if found else f"no plateau is left between {times[0]:.4g} and {times[-1]:.4g}"
    stays, last = spans[-1][0], curve.error[-1]
    if not found and stays < times[-1] / 2 and last > 1e-12 * curve.error[0]:
        note += f"; since {stays:.4g} the error stays near {last:.4g}: solve for longer to see whether it is left"
    return Plateaus(tuple(found), share, note, curve)


def _with_midpoints(times: np.ndarray, y: np.ndarray, fall: float) -> tuple[np.ndarray, np.ndarray]:
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
    """Whether the curve lies below the level for most of the time after `end`."""
    if end >= times[-1]:
        return False
    later = np.linspace(end, times[-1], 1002)[1:]
    return bool(np.median(np.interp(later, times, y)) < level)


def _span_around(times: np.ndarray, y: np.ndarray, at: int, center: float, band: float) -> tuple[float, float]:
    """Between which times around index `at` the curve stays within `band` of `center`; inf: to the end of the record."""
    off = np.abs(y - center)
    start = final_crossing(times[: at + 1], off[: at + 1], band)
    end = -final_crossing(-times[at:][::-1], off[at:][::-1], band)
    return max(start, float(times[0])), end


def _slow_moments(spans: list[tuple[float, float]]) -> list[int]:
    """Indices of the prominent maxima of the dwell time; the record's end, where it is not known, counts as still slower."""
    from scipy.signal import find_peaks

    dwell, drop = np.log(np.maximum(np.diff(spans)[:, 0], 1e-300)), np.log(DWELL_DROP)
    known = dwell[np.isfinite(dwell)]
    low, high = np.min(known, initial=0.0) - 2 * drop, np.max(known, initial=0.0) + 2 * drop
    padded = np.concatenate([[low], np.minimum(dwell, high), [high]])
    return [int(i) - 1 for i in find_peaks(padded, prominence=drop)[0]]


def _is_symmetric_at(curve: Curve, time: float) -> bool | None:
    """Do all student units have (nearly) the same overlaps with the teachers at this time?"""
    if curve.kind == "equations" or curve.rows is None or curve.rows.shape[1] < 2:
        return None
    rows = curve.rows[int(np.argmin(np.abs(curve.times - time)))]
    gaps = np.linalg.norm(rows[:, None] - rows[None, :], axis=2)
    return bool(np.max(gaps) <= SYMMETRIC_SHARE * np.mean(np.linalg.norm(rows, axis=1)))


def _growth(curve: Curve, start: float, end: float, until: float) -> dict[str, Any]:
    """How the departure from a plateau grows, which may go on `until` the next one; a note where there is none.

    Growth ends in saturation, du = rate u - b u^3: ln u = ln a + rate alpha - b int u^2 dalpha, linear in three unknowns.
    """
    from scipy.integrate import cumulative_simpson

    times, u = curve.times, _departure(curve, start, end, until)
    if u is None:
        return {"note": f"no overlap, or difference of overlaps, grows at least {LEAST_GROWTH:g}-fold while it is left"}
    final = float(np.max(u[times <= until]))
    middle = int(np.searchsorted(times, (start + end) / 2))
    last = middle + _first(u[middle:] >= TOP_SHARE * final, times.size - middle)
    noise = roughness(times, u) if curve.noisy else 0.0
    floor = max(final * TOP_SHARE / FITTED_RANGE, 4 * noise)
    low = (u[:last] <= floor) | (times[:last] < start)
    first = last - _first(low[::-1], last)
    if last - first < LEAST_POINTS:
        why = "the departure stands out of the noise" if curve.noisy else "the overlaps depart"
        return {"note": f"no growth rate: only {last - first} recorded times while {why}, {LEAST_POINTS} are needed"}
    t, inside = times[first:last], u[first:last]
    saturation = cumulative_simpson(inside**2, x=t, initial=0.0)  # int u^2 dalpha
    terms = np.stack([np.ones_like(t), t - t[0], -saturation], axis=1)
    b = np.linalg.lstsq(terms, np.log(inside), rcond=None)[0][2]
    line = fit_line(t, np.log(inside) + b * saturation, smooth=True)
    window, early = (float(t[0]), float(t[-1])), noise / inside[0] / (t[-1] - t[0])  # what the noise at first does to it
    error = float(np.hypot(line.error, early))
    return {"growth_rate": line.slope, "growth_error": error, "growth_window": window, "departure": u}


def _departure(curve: Curve, start: float, end: float, until: float) -> np.ndarray | None:
    """u(alpha), (time,): the rows, and differences of rows, that grow from the plateau on, along the direction they take."""
    rows, times = curve.rows, curve.times
    after = (times > end) & (times <= until)
    if rows is None or not after.any():
        return None
    first, second = np.triu_indices(rows.shape[1], 1)
    vectors = np.concatenate([rows, rows[:, first] - rows[:, second]], axis=1)
    middle = int(np.clip(np.searchsorted(times, (start + end) / 2), 1, times.size - 2))
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


@dataclass(frozen=True, repr=False)
class Specialization(AnalysisResult, figure="plot_specialization"):
    """Which student copies which teacher, and since when.

    index: (time,), from 0 (symmetric) to 1 (each student unit copies its own teacher); final: its last value.
    permutation: (K,), the teacher of each student, -1 for a student without one (K > M). signs: (K,), -1 for a student that
    copies the mirrored teacher. cosines: (K, M) at the last time. own: (time, pairs), the cosine of each assigned student
    with its own teacher.
    """

    times: np.ndarray
    index: np.ndarray
    permutation: np.ndarray
    signs: np.ndarray
    cosines: np.ndarray
    own: np.ndarray
    final: float
    curve: Curve

    def reaches(self, value: float) -> float | None:
        """When the index rises through a value for good; None if it does not, or was above it from the first time on."""
        time = final_crossing(self.times, -self.index, -value)
        return time if np.isfinite(time) else None

    @property
    def transition_time(self) -> float | None:
        """When the index rises through one half for good; None if it does not."""
        return self.reaches(TRANSITION_INDEX)

    @property
    def marks(self) -> dict[str, float]:
        """When the transition happens."""
        return {} if self.transition_time is None else {"specializes": self.transition_time}

    def __str__(self) -> str:
        if self.transition_time is not None:
            when = f"specializes at {self.transition_time:.4g}"
        elif self.final >= TRANSITION_INDEX:
            when = f"specialized from the first time, {self.times[0]:.4g}, on"
        else:
            when = f"does not specialize between {self.times[0]:.4g} and {self.times[-1]:.4g}"
        lines = [f"{when}: index {self.index[0]:.3f} at first, {self.final:.3f} at the end"]
        for k, m in enumerate(self.permutation):  # units are counted from one, as in figures and papers
            if m < 0:
                found = f"no assigned teacher unit (nearest {int(np.argmax(np.abs(self.cosines[k]))) + 1})"
            else:
                mirrored = " mirrored" if self.signs[k] < 0 else ""
                found = f"teacher unit {m + 1}{mirrored}, cosine {self.cosines[k, m]:.4f}"
            lines.append(f"student unit {k + 1}: {found}")
        missed = sorted(set(range(self.cosines.shape[1])) - set(self.permutation.tolist()))
        return "\n".join(lines + [f"teacher unit {m + 1}: no assigned student unit" for m in missed])


def specialization(trajectory: Trajectory, run: int | None = None) -> Specialization | RunResults:
    """Which teacher unit each student unit copies at the end, and how specialized the units are along the way.

    Parameters
    ----------
    trajectory, run
        As in `plateaus`, of at least two student and two teacher units.

    Returns
    -------
    Specialization or RunResults
        Units are counted from 0, like the rows of R.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.Start([[0.11, 0.1], [0.1, 0.11]], [[0.1, 0.0], [0.0, 0.1]]), 400.0)
    >>> tu.analysis.specialization(theory).permutation
    array([0, 1])
    """
    return read_curves(trajectory, run, "specialization", _find_specialization)


def _find_specialization(curve: Curve) -> Specialization:
    """The specialization of one curve, or a message why there is nothing to assign."""
    from scipy.optimize import linear_sum_assignment

    if curve.kind == "equations" or curve.T is None:
        raise InputError(f"specialization needs R, Q and T of a Problem; this trajectory has {', '.join(curve.variables)}.")
    R, Q, T = curve.variables["R"], curve.variables["Q"], curve.T
    K, M = R.shape[1:]
    if min(K, M) < 2:
        raise InputError(f"there are {K} student and {M} teacher units; specialization compares at least two of each.")
    cosines = _cosines(R, np.diagonal(Q, axis1=1, axis2=2), np.diagonal(T))
    mirrored = curve.problem is None or curve.problem.student.activation.parity != 0
    students, teachers = linear_sum_assignment(np.abs(cosines[-1]) if mirrored else cosines[-1], maximize=True)
    permutation, signs = np.full(K, -1), np.ones(K)
    permutation[students] = teachers
    signs[students] = np.where(mirrored & (cosines[-1, students, teachers] < 0), -1.0, 1.0)
    tau = _cosines(T, np.diagonal(T), np.diagonal(T))
    facing = signs[students, None] * cosines[:, students][:, :, teachers]  # (time, pair's student, pair's teacher)
    whole = float(_own_minus_others(tau[np.ix_(teachers, teachers)]))
    if whole < 1e-9:
        raise InputError("the teachers all have the same direction; there is nothing to specialize in. Change their gram.")
    index, own = np.clip(_own_minus_others(facing) / whole, 0.0, 1.0), np.diagonal(facing, axis1=1, axis2=2)
    return Specialization(curve.times, index, permutation, signs, cosines[-1], own, float(index[-1]), curve)


def _cosines(R: np.ndarray, student: np.ndarray, teacher: np.ndarray) -> np.ndarray:
    """R_km / sqrt(Q_kk T_mm), (..., K, M); a unit of length zero has none, 0."""
    lengths = np.sqrt(np.maximum(student[..., None] * teacher, 0.0))
    return np.clip(np.divide(R, lengths, out=np.zeros_like(R), where=lengths > 0), -1.0, 1.0)


def _own_minus_others(facing: np.ndarray) -> np.ndarray:
    """Mean over teachers of (own student - mean of the others), over the last two axes (student, teacher)."""
    count, own = facing.shape[-1], np.trace(facing, axis1=-2, axis2=-1)
    others = (facing.sum(axis=(-2, -1)) - own) / (count - 1)
    return (own - others) / count


@dataclass(frozen=True, repr=False)
class EarlyStopping(AnalysisResult, figure="plot_early_stopping"):
    """When the error is smallest.

    time, value: of the smallest error e_g (the test loss, e_g + sigma^2/2, is smallest at the same time).
    bracket: the recorded times around it. end_value: the error at the last recorded time. gain: by what factor it exceeds the
    smallest error (inf if that is zero). inside: is the minimum within the record, rather than at its end (train on) or at its beginning
    (training only harms)?
    """

    time: float
    value: float
    bracket: tuple[float, float]
    end_time: float
    end_value: float
    gain: float
    inside: bool
    curve: Curve

    @property
    def marks(self) -> dict[str, float]:
        """When the error is smallest, if that is before the end."""
        return {"smallest error": self.time} if self.inside else {}

    def __str__(self) -> str:
        if self.inside:
            low, high = self.bracket
            end = f"at {self.end_time:.5g} it is {self.end_value:.5g}"
            if np.isfinite(self.gain):
                end += f", {self.gain:.5g} times as large"
            when = f"{self.time:.5g} (between {low:.5g} and {high:.5g})"
            return f"stop at {when}: the error is smallest, {self.value:.5g}; {end}"
        if float(np.ptp(_smoothed(self.curve))) <= _least_gain(self.curve):
            up_to = " up to fluctuations" if self.curve.noisy else ""
            return f"the error does not change{up_to}: it stays at {self.value:.5g}"
        if self.time == self.end_time:
            up_to = " up to fluctuations" if self.curve.noisy else ""
            where = f"{self.value:.5g}, at the last recorded time, {self.end_time:.5g}"
            return f"train on: the error is smallest{up_to}, {where}"
        return f"do not train: the error is smallest, {self.value:.5g}, at the first recorded time, {self.time:.5g}"


def _smoothed(curve: Curve) -> np.ndarray:
    """The error without the fluctuations of a finite network."""
    return np.exp(curve.log_error) if curve.noisy else curve.error


def _least_gain(curve: Curve) -> float:
    """The gain below which a minimum is rounding, or chance."""
    relative = max(1e-6, 3 * curve.fluctuation)
    return relative * abs(float(np.min(_smoothed(curve))))


def early_stopping(trajectory: Trajectory, run: int | None = None) -> EarlyStopping | RunResults:
    """The time of the smallest error, and the gain over training to the end of the record.

    Parameters
    ----------
    trajectory, run
        As in `plateaus`.

    Returns
    -------
    EarlyStopping or RunResults

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> inputs = tu.Spectrum([25.0, 0.5102], [0.02, 0.98])
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), inputs=inputs, sgd=tu.SGD(lr=0.5), noise=0.5)
    >>> start = tu.Start(np.zeros((2, 1, 1)), np.zeros((2, 1, 1)), T=[[[1.0]], [[0.0]]])  # the teacher has no second part
    >>> theory = tu.solve(problem, start, tu.linear_times(6))
    >>> found = tu.analysis.early_stopping(theory)
    >>> round(found.time, 2), round(found.gain, 2)
    (0.29, 1.84)
    """
    return read_curves(trajectory, run, "early_stopping", _find_minimum)


def _find_minimum(curve: Curve) -> EarlyStopping:
    """The smallest error of one curve."""
    from scipy.interpolate import CubicSpline
    from scipy.optimize import fminbound

    times, error = curve.times, _smoothed(curve)
    lowest, last = int(np.argmin(error)), times.size - 1
    margin = _least_gain(curve)
    if error[last] <= error[lowest] + margin or error[last] <= curve.rounding:
        lowest = last
    elif error[0] <= error[lowest] + margin:
        lowest = 0
    before, after = float(times[max(lowest - 1, 0)]), float(times[min(lowest + 1, last)])
    time, value = float(times[lowest]), float(error[lowest])
    inside, near = 0 < lowest < last, slice(max(0, lowest - 3), lowest + 4)
    rates = [] if (problem := curve.problem) is None else [problem.sgd.lr, problem.sgd.readout_lr, problem.sgd.bias_lr]
    stops = np.asarray(switch_times(after, *rates, known=[np.inf]))  # where the curve may bend, which the spline does not
    smooth = not (curve.noisy or np.any((stops >= before) & (stops <= after)))
    if inside and smooth and np.all(error[near] > 0):
        index = np.arange(times.size)[near]  # the unit of the spline, so that uneven times cost no accuracy
        height, moment = CubicSpline(index, np.log(error[near])), CubicSpline(index, times[near])
        at, log_value, *_ = fminbound(height, lowest - 1, lowest + 1, xtol=1e-9, full_output=True)
        if log_value <= np.log(error[lowest]):
            time, value = float(moment(at)), float(np.exp(log_value))
    end_time, end_value = float(times[last]), float(error[last])
    if value > 0:
        gain = end_value / value
    else:
        gain = np.inf if end_value > 0 else 1.0
    return EarlyStopping(time, value, (before, after), end_time, end_value, gain, inside, curve)


@dataclass(frozen=True)
class Phase(ResultCard):
    """name, and the times between which it lasts."""

    name: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.name} from {self.start:.4g} to {self.end:.4g}"


@dataclass(frozen=True, repr=False)
class Phases(ResultSequence[Phase], figure="plot_phases"):
    """Intervals in the order of time, without gaps: a sequence. plateaus, specialization: what they are built on.

    specialization is None for a single unit or custom equations.
    """

    intervals: tuple[Phase, ...]
    plateaus: Plateaus
    specialization: Specialization | None
    curve: Curve

    def at(self, time: float) -> str:
        """The name of the phase at a time; at a boundary, of the one that begins there."""
        first, last = self.intervals[0].start, self.intervals[-1].end
        time = float(checks.as_array("time", time)) if np.ndim(time) == 0 else np.nan
        if not first <= time <= last:
            raise InputError(f"time is {time:g}; it must be one number between {first:g} and {last:g}, the recorded times.")
        return next(phase.name for phase in reversed(self.intervals) if phase.start <= time)

    @property
    def marks(self) -> dict[str, float]:
        """When each phase begins, the first one aside."""
        begins: dict[str, float] = {}
        for phase in self.intervals[1:]:
            begins.setdefault(f"{phase.name} begins", phase.start)
        return begins

    def __str__(self) -> str:
        return "; ".join(str(phase) for phase in self.intervals)


def phases(trajectory: Trajectory, run: int | None = None) -> Phases | RunResults:
    """Divide a trajectory, one run or every run into named phases; docs/how-to/plateaus-and-phases.md defines them.

    Parameters
    ----------
    trajectory, run
        As in `plateaus`.

    Returns
    -------
    Phases or RunResults
        `phases(theory).at(alpha)` names the phase at a time.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> theory = tu.solve(problem, tu.Start([[0.11, 0.1], [0.1, 0.11]], [[0.1, 0.0], [0.0, 0.1]]), 400.0)
    >>> [phase.name for phase in tu.analysis.phases(theory)]
    ['search', 'symmetric plateau', 'specialization', 'convergence']
    """
    return read_curves(trajectory, run, "phases", _find_phases, LEAST_TIMES)


def _find_phases(curve: Curve) -> Phases:
    """The phases of one curve."""
    found, rows, first = find_plateaus(curve), curve.rows, float(curve.times[0])
    two = curve.kind != "equations" and curve.T is not None and rows is not None and min(rows.shape[1:]) >= 2
    special = _find_specialization(curve) if two else None
    begins = [(first, "search")]  # (time, name of what begins there), at first as if the error fell for ever
    for plateau in found:
        begins.append((plateau.start, "symmetric plateau" if plateau.symmetric else "plateau"))
        begins.append((plateau.end, "escape" if special is None else "specialization"))
    learned = None if special is None else special.reaches(SPECIALIZED_INDEX)
    if learned is not None:
        begins = begins if found else [(first, "specialization")]
        begins.append((max(learned, begins[-1][0]), "convergence"))
    elif special is None:
        begins[-1] = (begins[-1][0], "convergence")
    for name, time in _ends(curve, found, special):
        begins = [*((t, before) for t, before in begins if t < time), (time, name)]
    intervals: list[Phase] = []
    for (start, name), end in zip(begins, [*(t for t, _ in begins[1:]), float(curve.times[-1])], strict=True):
        if intervals and intervals[-1].name == name:  # equal neighbors become one, those of no length vanish
            intervals[-1] = Phase(name, intervals[-1].start, end)
        elif end > start:
            intervals.append(Phase(name, start, end))
    return Phases(tuple(intervals), found, special, curve)


def _ends(curve: Curve, found: Plateaus, special: Specialization | None) -> Iterator[tuple[str, float]]:
    """What becomes of the error at last, and since when: a rise, a divergence, a level that it keeps."""
    times, y, lowest = curve.times, curve.log_error, _find_minimum(curve)
    if curve.diverged:
        yield "divergence", lowest.time
        return
    if lowest.gain > 1 + found.share:
        yield "rise", lowest.time
    span, tenth = times[-1] - times[0], np.linspace(0.0, 0.1, 101)
    level, before = (float(np.median(np.interp(times[-1] - span * part, times, y))) for part in (tenth, 0.1 + tenth))
    width = float(np.log((times[-1] - 0.05 * span) / (times[-1] - 0.15 * span)))
    if level <= np.log(curve.rounding) + 1e-6 or abs(level - before) > 0.1 * width + curve.fluctuation:
        return  # no digits are left, or it still changes: |d ln e_g / d ln alpha| > 0.1
    settled = _span_around(times, y, times.size - 1, level, float(np.log1p(found.share)))[0]
    settled = min(max(settled, found[-1].end if found else float(times[0])), float(times[-1]))
    if special is not None and special.final < TRANSITION_INDEX and _is_symmetric_at(curve, float(times[-1])):
        yield "symmetric plateau", settled
    else:
        yield "noise floor" if curve.label_noise > 0 else "final level", settled
