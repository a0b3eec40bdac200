"""Events on a learning curve: plateaus, specialization, smallest error, named phases.

docs/how-to/plateaus-and-phases.md, specialization.md and early-stopping.md have the
definitions and their formulas.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

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
from tutelage.analysis.subspaces import (
    compared_overlaps,
    has_rotations,
    principal_cosines,
)
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.result.trajectory import Trajectory
from tutelage.training.schedules import switch_times

LEAST_TIMES = 8  # recorded times that plateaus and phases need
DWELL_DROP = 3.0  # the dwell time falls by at least this factor when a plateau is left
# Students whose rows of R differ by less than this share are symmetric.
SYMMETRIC_SHARE = 0.3
# A difference that grows by less than this factor is not a departure.
LEAST_GROWTH = 5.0
# Growth is fitted from a quarter of the final departure down by two decades.
TOP_SHARE = 0.25
FITTED_RANGE = 100.0
TRANSITION_INDEX = 0.5  # index at the transition to specialized units
SPECIALIZED_INDEX = 0.9  # index at which specialization is over
STEADY_SLOPE = 0.1  # |d ln e_g / d ln alpha| up to which a final error is steady
SPLINE_REACH = 3  # recorded times on either side of a minimum that the spline takes


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
    spans = [_span_around(times, y, i, y[i], band) for i in range(times.size)]
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
            symmetric=_is_symmetric_at(curve, (span.start + span.end) / 2),
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
    for i in _slow_moments(spans):
        first, last = spans[i]
        inner_times = np.linspace(first, min(last, times[-1]), 1001)
        height = float(np.median(np.interp(inner_times, times, y)))
        inside = np.flatnonzero((times >= first) & (times <= last))
        nearest = int(inside[np.argmin(np.abs(y[inside] - height))])
        heights[_span_around(times, y, nearest, height, band)] = height
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


def _span_around(
    times: np.ndarray, y: np.ndarray, place: int, center: float, band: float
) -> Span:
    """Return the span around an index in which the curve is within `band` of `center`.

    An end of inf is beyond the record.
    """
    distance = np.abs(y - center)
    start = final_crossing(times[: place + 1], distance[: place + 1], band)
    end = -final_crossing(-times[place:][::-1], distance[place:][::-1], band)
    return Span(max(start, float(times[0])), end)


def _slow_moments(spans: list[Span]) -> list[int]:
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


def _is_symmetric_at(curve: Curve, time: float) -> bool | None:
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


@dataclass(frozen=True, repr=False)
class Specialization(AnalysisResult, figure="plot_specialization"):
    """The teacher unit that each student unit copies, and the course of specialization.

    index: (time,), from 0 (symmetric) to 1 (each student unit copies its own teacher);
    final: its last value. permutation: (K,), the teacher of each student, -1 for a
    student without one (K > M). signs: (K,), -1 for a student that copies the mirrored
    teacher. cosines: (K, M) at the last time. own: (time, pairs), the cosine of each
    assigned student with its own teacher.
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
        """Return the time at which the index rises through a value for good.

        It is None if the index does not, or was above it from the first time on.
        """
        time = final_crossing(self.times, -self.index, -value)
        return time if np.isfinite(time) else None

    @property
    def transition_time(self) -> float | None:
        """The time at which the index rises through one half for good, or None."""
        return self.reaches(TRANSITION_INDEX)

    @property
    def student_units(self) -> np.ndarray:
        """The student units that have a teacher unit, in the order of `own`."""
        return np.flatnonzero(self.permutation >= 0)

    @property
    def pair_labels(self) -> list[str]:
        """The pairs of `own` in words."""
        labels = []
        for student in self.student_units:
            sign = "−" if self.signs[student] < 0 else ""
            teacher = self.permutation[student] + 1
            labels.append(f"student {student + 1}, teacher {sign}{teacher}")
        return labels

    @property
    def cosine_label(self) -> str:
        """What `own` is, for an axis."""
        return "cosine with\nits own teacher"

    @property
    def marks(self) -> dict[str, float]:
        """The time of the transition."""
        time = self.transition_time
        return {} if time is None else {"specializes": time}

    def __str__(self) -> str:
        if self.transition_time is not None:
            when = f"specializes at {self.transition_time:.4g}"
        elif self.final >= TRANSITION_INDEX:
            when = f"specialized from the first time, {self.times[0]:.4g}, on"
        else:
            span = f"between {self.times[0]:.4g} and {self.times[-1]:.4g}"
            when = f"does not specialize {span}"
        index = f"index {self.index[0]:.3f} at first, {self.final:.3f} at the end"
        lines = [f"{when}: {index}"]
        # units are counted from one, as in figures and papers
        for k in range(self.permutation.size):
            lines.append(f"student unit {k + 1}: {self._assignment(k)}")
        for m in range(self.cosines.shape[1]):
            if m not in self.permutation:
                lines.append(f"teacher unit {m + 1}: no assigned student unit")
        return "\n".join(lines)

    def _assignment(self, k: int) -> str:
        """Return the teacher unit of student unit k, in words."""
        m = self.permutation[k]
        if m < 0:
            nearest = int(np.argmax(np.abs(self.cosines[k]))) + 1
            return f"no assigned teacher unit (nearest {nearest})"
        mirrored = " mirrored" if self.signs[k] < 0 else ""
        return f"teacher unit {m + 1}{mirrored}, cosine {self.cosines[k, m]:.4f}"


@dataclass(frozen=True, repr=False)
class SubspaceSpecialization(Specialization):
    """How far student and teacher span the same directions.

    For students whose units can rotate among themselves without a change of the output:
    quadratic and linear ones without biases. No unit is assigned to a teacher unit, so
    `permutation` is -1 everywhere. own: (time, angles), the cosines of the principal
    angles between the two spans, largest first. index: (time,), the mean of their
    squares, from 0 (orthogonal) to 1 (one span contains the other). cosines: (K, M) of
    the units at the last time, which depend on the rotation.
    """

    @property
    def student_units(self) -> np.ndarray:
        """The principal angles, counted from 0: they take the place of units."""
        return np.arange(self.own.shape[1])

    @property
    def pair_labels(self) -> list[str]:
        """The principal angles in words."""
        return [f"principal angle {place + 1}" for place in self.student_units]

    @property
    def cosine_label(self) -> str:
        """What `own` is, for an axis."""
        return "cosine between\nthe spans"

    @property
    def angles(self) -> np.ndarray:
        """The principal angles in radians, (time, angles), smallest first."""
        return np.arccos(self.own)

    def __str__(self) -> str:
        first_line = super().__str__().splitlines()[0]
        angles = ", ".join(f"{angle:.4g}" for angle in self.angles[-1])
        return (
            f"{first_line}\nprincipal angles at the end: {angles} (units can rotate, so "
            "spans are compared)"
        )


def specialization(
    trajectory: Trajectory, run: int | None = None
) -> Specialization | RunResults:
    """Assign teacher units to student units, and measure how specialized they are.

    The assignment is that at the end; the specialization is measured at each time. If
    rotations of the student units leave its output as it is (quadratic and linear units
    without biases), the spans of student and teacher are compared instead.

    Parameters
    ----------
    trajectory, run
        As in `plateaus`, of at least two student and two teacher units.

    Returns
    -------
    Specialization, SubspaceSpecialization or RunResults
        Units are counted from 0, like the rows of R.

    Examples
    --------
    >>> import tutelage as tu
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, 400.0)
    >>> tu.analysis.specialization(theory).permutation
    array([0, 1])
    """
    return read_curves(trajectory, run, "specialization", _find_specialization)


def _find_specialization(curve: Curve) -> Specialization:
    """Return the specialization of one curve; raise if there is none to assign."""
    from scipy.optimize import linear_sum_assignment

    if curve.kind == "equations" or curve.T is None:
        raise InputError(
            "specialization needs R, Q and T of a Problem; "
            f"this trajectory has {', '.join(curve.variables)}."
        )
    R = curve.variables["R"]
    Q = curve.variables["Q"]
    T = curve.T
    _, K, M = R.shape
    if curve.problem is not None and has_rotations(curve.problem):
        return _compare_subspaces(curve, curve.problem, T)
    if min(K, M) < 2:
        raise InputError(
            f"there are {K} student and {M} teacher units; "
            "specialization compares at least two of each."
        )
    squared_lengths = np.diagonal(T)
    cosines = _cosines(R, np.diagonal(Q, axis1=1, axis2=2), squared_lengths)
    last_cosines = cosines[-1]
    # a unit may copy the mirrored teacher, -w*, if its activation is odd or even
    may_mirror = curve.problem is None or curve.problem.student.activation.parity != 0
    similarities = last_cosines
    if may_mirror:
        similarities = np.abs(last_cosines)
    students, teachers = linear_sum_assignment(similarities, maximize=True)
    permutation = np.full(K, -1)
    permutation[students] = teachers
    is_mirrored = may_mirror & (last_cosines[students, teachers] < 0)
    signs = np.ones(K)
    signs[students] = np.where(is_mirrored, -1.0, 1.0)

    # the cosines of assigned units, (time, student of a pair, teacher of a pair)
    facing = signs[students, None] * cosines[:, students][:, :, teachers]
    teacher_cosines = _cosines(T, squared_lengths, squared_lengths)
    of_teachers = teacher_cosines[np.ix_(teachers, teachers)]
    largest = float(_own_minus_others(of_teachers))
    if largest < 1e-9:
        raise InputError(
            "the teachers all have the same direction; there is nothing to specialize "
            "in. Change their gram."
        )
    index = np.clip(_own_minus_others(facing) / largest, 0.0, 1.0)
    return Specialization(
        times=curve.times,
        index=index,
        permutation=permutation,
        signs=signs,
        cosines=last_cosines,
        own=np.diagonal(facing, axis1=1, axis2=2),
        final=float(index[-1]),
        curve=curve,
    )


def _compare_subspaces(
    curve: Curve, problem: Problem, T: np.ndarray
) -> SubspaceSpecialization:
    """Return the principal angles between the spans of student and teacher."""
    R = curve.variables["R"]
    Q = curve.variables["Q"]
    cosines = principal_cosines(*compared_overlaps(problem, curve.variables, T))
    index = np.mean(cosines**2, axis=1)
    _, K, _ = R.shape
    of_units = _cosines(R[-1], np.diagonal(Q[-1]), np.diagonal(T))
    return SubspaceSpecialization(
        times=curve.times,
        index=index,
        permutation=np.full(K, -1),
        signs=np.ones(K),
        cosines=of_units,
        own=cosines,
        final=float(index[-1]),
        curve=curve,
    )


def _cosines(R: np.ndarray, student: np.ndarray, teacher: np.ndarray) -> np.ndarray:
    """Return R_km / sqrt(Q_kk T_mm), (..., K, M); 0 for a unit of length zero."""
    lengths = np.sqrt(np.maximum(student[..., None] * teacher, 0.0))
    cosines = np.divide(R, lengths, out=np.zeros_like(R), where=lengths > 0)
    return np.clip(cosines, -1.0, 1.0)


def _own_minus_others(facing: np.ndarray) -> np.ndarray:
    """Return the mean over teachers of (own student - mean of the others).

    The last two axes of `facing` are student and teacher.
    """
    count = facing.shape[-1]
    own = np.trace(facing, axis1=-2, axis2=-1)
    others = (facing.sum(axis=(-2, -1)) - own) / (count - 1)
    return (own - others) / count


@dataclass(frozen=True, repr=False)
class EarlyStopping(AnalysisResult, figure="plot_early_stopping"):
    """The time of the smallest error.

    time, value: of the smallest error e_g (the test loss, e_g + sigma^2/2, is smallest
    at the same time). bracket: the recorded times around it. end_value: the error at
    the last recorded time. gain: the factor by which it exceeds the smallest error (inf
    if that is zero). inside: is the minimum within the record, rather than at its end
    (train on) or at its beginning (training only harms)?
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
        """The time of the smallest error, if that is before the end."""
        return {"smallest error": self.time} if self.inside else {}

    def __str__(self) -> str:
        if self.inside:
            low, high = self.bracket
            end = f"at {self.end_time:.5g} it is {self.end_value:.5g}"
            if np.isfinite(self.gain):
                end += f", {self.gain:.5g} times as large"
            when = f"{self.time:.5g} (between {low:.5g} and {high:.5g})"
            return f"stop at {when}: the error is smallest, {self.value:.5g}; {end}"
        up_to = " up to fluctuations" if self.curve.noisy else ""
        if float(np.ptp(_smoothed(self.curve))) <= _least_gain(self.curve):
            return f"the error does not change{up_to}: it stays at {self.value:.5g}"
        smallest = f"the error is smallest{up_to}, {self.value:.5g}"
        if self.time == self.end_time:
            return (
                f"train on: {smallest}, at the last recorded time, {self.end_time:.5g}"
            )
        return (
            f"do not train: the error is smallest, {self.value:.5g}, "
            f"at the first recorded time, {self.time:.5g}"
        )


def _smoothed(curve: Curve) -> np.ndarray:
    """Return the error without the fluctuations of a finite network."""
    return np.exp(curve.log_error) if curve.noisy else curve.error


def _least_gain(curve: Curve) -> float:
    """Return the gain below which a minimum is rounding, or chance."""
    relative = max(1e-6, 3 * curve.fluctuation)
    return relative * abs(float(np.min(_smoothed(curve))))


def early_stopping(
    trajectory: Trajectory, run: int | None = None
) -> EarlyStopping | RunResults:
    """Find the time of the smallest error, and the gain over training to the end.

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
    >>> unit = tu.Network(1, "linear")
    >>> inputs = tu.Spectrum([25.0, 0.5102], [0.02, 0.98])
    >>> sgd = tu.SGD(lr=0.5)
    >>> problem = tu.Problem(unit, unit, inputs=inputs, optimizer=sgd, noise=0.5)
    >>> zero = np.zeros((2, 1, 1))
    >>> T = [[[1.0]], [[0.0]]]  # the teacher has no part in the second level
    >>> theory = tu.solve(problem, tu.Start(zero, zero, T), tu.linear_times(6))
    >>> stop = tu.analysis.early_stopping(theory)
    >>> round(stop.time, 2), round(stop.gain, 2)
    (0.29, 1.84)
    """
    return read_curves(trajectory, run, "early_stopping", _find_minimum)


def _find_minimum(curve: Curve) -> EarlyStopping:
    """Return the smallest error of one curve."""
    times = curve.times
    error = _smoothed(curve)
    lowest = int(np.argmin(error))
    last = times.size - 1
    margin = _least_gain(curve)
    if error[last] <= error[lowest] + margin or error[last] <= curve.rounding:
        lowest = last
    elif error[0] <= error[lowest] + margin:
        lowest = 0
    bracket = (float(times[max(lowest - 1, 0)]), float(times[min(lowest + 1, last)]))
    time = float(times[lowest])
    value = float(error[lowest])
    inside = 0 < lowest < last
    if inside and _is_smooth_between(curve, *bracket):
        near = slice(max(0, lowest - SPLINE_REACH), lowest + SPLINE_REACH + 1)
        if np.all(error[near] > 0):
            time, value = _spline_minimum(times, error, lowest, near)
    end_value = float(error[last])
    gain = 1.0
    if value > 0:
        gain = end_value / value
    elif end_value > 0:
        gain = np.inf
    return EarlyStopping(
        time=time,
        value=value,
        bracket=bracket,
        end_time=float(times[last]),
        end_value=end_value,
        gain=gain,
        inside=inside,
        curve=curve,
    )


def _is_smooth_between(curve: Curve, start: float, end: float) -> bool:
    """Return True if the curve has no noise, and no bend where a schedule switches."""
    if curve.noisy:
        return False
    rates = []
    if curve.problem is not None:
        optimizer = curve.problem.optimizer
        rates = [optimizer.lr, optimizer.readout_lr, optimizer.bias_lr]
    switches = np.asarray(switch_times(end, *rates, known=[np.inf]))
    return not np.any((switches >= start) & (switches <= end))


def _spline_minimum(
    times: np.ndarray, error: np.ndarray, lowest: int, near: slice
) -> tuple[float, float]:
    """Return time and value of the minimum of a spline through the log error.

    If the spline finds no lower value, they are those of the lowest recorded one.
    """
    from scipy.interpolate import CubicSpline
    from scipy.optimize import fminbound

    # the index is the unit of the spline, so that uneven times cost no accuracy
    index = np.arange(times.size)[near]
    log_error = CubicSpline(index, np.log(error[near]))
    time_at = CubicSpline(index, times[near])
    place, log_value, *_ = fminbound(
        log_error, lowest - 1, lowest + 1, xtol=1e-9, full_output=True
    )
    if log_value <= np.log(error[lowest]):
        return float(time_at(place)), float(np.exp(log_value))
    return float(times[lowest]), float(error[lowest])


@dataclass(frozen=True)
class Phase(ResultCard):
    """A named phase, and the times between which it lasts."""

    name: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.name} from {self.start:.4g} to {self.end:.4g}"


@dataclass(frozen=True, repr=False)
class Phases(ResultSequence[Phase], figure="plot_phases"):
    """Phases in the order of time, without gaps: a sequence.

    They are built on `plateaus` and `specialization`, which is None for a single unit
    or custom equations.
    """

    intervals: tuple[Phase, ...]
    plateaus: Plateaus
    specialization: Specialization | None
    curve: Curve

    def at(self, time: float) -> str:
        """Return the name of the phase at a time.

        At a boundary it is that of the phase that begins there.
        """
        first = self.intervals[0].start
        last = self.intervals[-1].end
        time = float(checks.as_array("time", time)) if np.ndim(time) == 0 else np.nan
        if not first <= time <= last:
            raise InputError(
                f"time is {time:g}; it must be one number between {first:g} and "
                f"{last:g}, the recorded times."
            )
        begun = [phase for phase in self.intervals if phase.start <= time]
        return begun[-1].name

    @property
    def marks(self) -> dict[str, float]:
        """The times at which the phases after the first one begin."""
        begins: dict[str, float] = {}
        for phase in self.intervals[1:]:
            begins.setdefault(f"{phase.name} begins", phase.start)
        return begins

    def __str__(self) -> str:
        return "; ".join(str(phase) for phase in self.intervals)


def phases(trajectory: Trajectory, run: int | None = None) -> Phases | RunResults:
    """Divide a trajectory, one run or every run into named phases.

    docs/how-to/plateaus-and-phases.md defines them.

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
    >>> units = tu.Network(2, "erf")
    >>> problem = tu.Problem(units, units, optimizer=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, 400.0)
    >>> [phase.name for phase in tu.analysis.phases(theory)]
    ['search', 'symmetric plateau', 'specialization', 'convergence']
    """
    return read_curves(trajectory, run, "phases", _find_phases, LEAST_TIMES)


class Beginning(NamedTuple):
    """The time from which a phase lasts until the next one begins."""

    time: float
    name: str


def _find_phases(curve: Curve) -> Phases:
    """Return the phases of one curve."""
    plateaus = find_plateaus(curve)
    special = _find_specialization(curve) if _can_specialize(curve) else None
    begins = _beginnings(curve, plateaus, special)
    # the final behavior of the error replaces all phases that would begin later
    for ending in _endings(curve, plateaus, special):
        earlier = [beginning for beginning in begins if beginning.time < ending.time]
        begins = [*earlier, ending]
    ends = [beginning.time for beginning in begins[1:]] + [float(curve.times[-1])]
    intervals: list[Phase] = []
    for (start, name), end in zip(begins, ends, strict=True):
        # equal neighbors become one, those of no length vanish
        if intervals and intervals[-1].name == name:
            intervals[-1] = Phase(name, intervals[-1].start, end)
        elif end > start:
            intervals.append(Phase(name, start, end))
    return Phases(tuple(intervals), plateaus, special, curve)


def _can_specialize(curve: Curve) -> bool:
    """Return True if the curve has at least two student and two teacher units."""
    if curve.kind == "equations" or curve.T is None or curve.rows is None:
        return False
    return min(curve.rows.shape[1:]) >= 2


def _beginnings(
    curve: Curve, plateaus: Plateaus, special: Specialization | None
) -> list[Beginning]:
    """Return the phases as if the error fell for ever."""
    first = float(curve.times[0])
    begins = [Beginning(first, "search")]
    departure = "escape" if special is None else "specialization"
    for plateau in plateaus:
        name = "symmetric plateau" if plateau.symmetric else "plateau"
        begins.append(Beginning(plateau.start, name))
        begins.append(Beginning(plateau.end, departure))
    if special is None:
        begins[-1] = Beginning(begins[-1].time, "convergence")
        return begins
    learned = special.reaches(SPECIALIZED_INDEX)
    if learned is not None:
        if not plateaus:
            begins = [Beginning(first, "specialization")]
        begins.append(Beginning(max(learned, begins[-1].time), "convergence"))
    return begins


def _endings(
    curve: Curve, plateaus: Plateaus, special: Specialization | None
) -> Iterator[Beginning]:
    """Yield the last phases: a rise, a divergence, a level that the error keeps."""
    times = curve.times
    y = curve.log_error
    lowest = _find_minimum(curve)
    if curve.diverged:
        yield Beginning(lowest.time, "divergence")
        return
    if lowest.gain > 1 + plateaus.share:
        yield Beginning(lowest.time, "rise")

    # the levels of the last tenth of the time and of the tenth before
    end = times[-1]
    span = end - times[0]
    tenth = np.linspace(0.0, 0.1, 101)
    level = float(np.median(np.interp(end - span * tenth, times, y)))
    before = float(np.median(np.interp(end - span * (0.1 + tenth), times, y)))
    log_duration = float(np.log((end - 0.05 * span) / (end - 0.15 * span)))
    largest_change = STEADY_SLOPE * log_duration + curve.fluctuation
    has_digits = level > np.log(curve.rounding) + 1e-6
    if not has_digits or abs(level - before) > largest_change:
        return
    band = float(np.log1p(plateaus.share))
    settled = _span_around(times, y, times.size - 1, level, band).start
    earliest = plateaus[-1].end if plateaus else float(times[0])
    settled = min(max(settled, earliest), float(end))
    is_unspecialized = special is not None and special.final < TRANSITION_INDEX
    if is_unspecialized and _is_symmetric_at(curve, float(end)):
        yield Beginning(settled, "symmetric plateau")
    elif curve.label_noise > 0:
        yield Beginning(settled, "noise floor")
    else:
        yield Beginning(settled, "final level")
