"""When does what happen on a learning curve: specialization, the smallest error, and named phases.

Specialization: which student copies which teacher, how far it has come, and when it happened. With the cosines
c_km = R_km / sqrt(Q_kk T_mm) at the last time, students are assigned to teachers one to one so that the sum
of |c| (of c, for an activation that is neither odd nor even) is largest. Let student k be assigned teacher m(k) and let
s_k be the sign of that cosine at the end. The index at any time compares each assigned student with the other assigned
students on its own teacher,
    index = mean_k [ s_k c_k,m(k) - mean_{j != k} s_j c_j,m(k) ] / mean_k [ 1 - mean_{j != k} tau_m(j),m(k) ],
with tau the cosines of the teachers themselves: 0 if all students have the same cosines, 1 if each has the
direction of its own teacher. It is clipped to [0, 1]: below 0 students are nearer to another's teacher than to their own.
Lengths are left out: a student may have its teacher's direction long before its norm.

Early stopping: on fresh samples nothing is fitted twice, yet the error can pass through a minimum: the noise in the labels is
learned in directions, or by units, that the task does not need, and more slowly than the task itself; or a schedule raises
the rate. Between recorded times of a smooth curve the minimum is that of the cubic spline of ln e_g through the recorded
points around it; at a jump of the learning rate, where the curve has a corner, the recorded minimum stands. The lowest point
of a run is partly chance, so runs are read off their running median, and a minimum counts only if the end lies above it by
three times the run's fluctuation.

Phases are built on `plateaus` and `specialization` and cover all recorded times: search until the first plateau; each
plateau; specialization after it until the index reaches 0.9; convergence; and, if the error has stopped changing at the end,
the noise floor (without label noise: the final level) from when it stays within 10% of its last height. An error that ends
well above its minimum rises from there, or diverges. A symmetric level that is never left is called a symmetric plateau, too.
"""

from dataclasses import dataclass

import numpy as np

from tutelage import checks
from tutelage._html import ResultCard
from tutelage.analysis.curve_plateaus import LEAST_TIMES, Plateaus, find_plateaus, is_symmetric_at, span_around
from tutelage.analysis.result import Curve, CurveResult, ResultSequence, RunResults, read_curves
from tutelage.errors import InputError
from tutelage.problem.schedules import bend_times
from tutelage.trajectory import Trajectory

TRANSITION_INDEX = 0.5  # the transition: the index rises through this value for good
SPLINE_NEIGHBORS = 3  # recorded points on each side of the lowest that the spline goes through
LEAST_GAIN = 1e-6  # a smaller gain, relative to the error, is rounding
CHANCE_DEVIATIONS = 3.0  # a smaller gain of a run, in units of its fluctuation, is chance
SEARCH, SYMMETRIC, PLATEAU, ESCAPE = "search", "symmetric plateau", "plateau", "escape"
SPECIALIZATION, CONVERGENCE, RISE = "specialization", "convergence", "rise"
NOISE_FLOOR, FINAL_LEVEL, DIVERGENCE = "noise floor", "final level", "divergence"
SPECIALIZED_INDEX = 0.9  # index at which specialization is over
FLAT_SLOPE = 0.1  # |d ln e_g / d ln alpha| at the end below which the error has stopped changing


@dataclass(frozen=True, repr=False)
class Specialization(CurveResult, figure="plot_specialization"):
    """Which student copies which teacher, and since when.

    index: (time,), from 0 (symmetric) to 1 (each student unit copies its own teacher); see the module docstring.
    permutation: (K,), the teacher of each student, -1 for a student without one (K > M). signs: (K,), -1 for a student that
    copies the mirrored teacher. cosines: (K, M) at the last time. transition_time: when the index rises through one half for
    good; None if it does not. own: (time, pairs), the cosine of each assigned student with its own teacher.
    """

    times: np.ndarray
    index: np.ndarray
    permutation: np.ndarray
    signs: np.ndarray
    cosines: np.ndarray
    own: np.ndarray
    transition_time: float | None
    curve: Curve

    @property
    def final(self) -> float:
        """The index at the last time."""
        return float(self.index[-1])

    def reaches(self, value: float) -> float | None:
        """When the index rises through a value for good; None if it does not, or was above it from the first time on."""
        return _last_rise(self.times, self.index, value)

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
                nearest = int(np.argmax(np.abs(self.cosines[k])))
                lines.append(f"student unit {k + 1}: no assigned teacher unit (nearest {nearest + 1})")
            else:
                mirrored = " mirrored" if self.signs[k] < 0 else ""
                lines.append(f"student unit {k + 1}: teacher unit {m + 1}{mirrored}, cosine {self.cosines[k, m]:.4f}")
        missed = sorted(set(range(self.cosines.shape[1])) - set(self.permutation.tolist()))
        return "\n".join(lines + [f"teacher unit {m + 1}: no assigned student unit" for m in missed])


def specialization(trajectory: Trajectory, run: int | None = None) -> Specialization | RunResults:
    """Which teacher unit each student unit copies at the end, and how specialized the units are along the way.

    Parameters
    ----------
    trajectory : Trajectory
        The result of `solve` or `simulate`.
    run : int, optional
        One run of a simulation, counted from 0. Default: all runs, as a `RunResults`.

    Returns
    -------
    Specialization or RunResults
        Units are counted from 0, like the rows of R.

    Notes
    -----
    At least two student and two teacher units are needed.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> found = tu.analysis.specialization(theory)
    >>> found.permutation, round(found.final, 3)
    (array([0, 1]), 0.999)
    """
    return read_curves(trajectory, run, "specialization", find_specialization)


def find_specialization(curve: Curve) -> Specialization:
    """The specialization of one curve, or a message why there is nothing to assign."""
    from scipy.optimize import linear_sum_assignment

    if curve.kind == "equations" or curve.T is None:
        raise InputError(
            f"specialization needs the overlaps R, Q and T of a Problem; this trajectory has {', '.join(curve.variables)}."
        )
    R, Q, T = curve.variables["R"], curve.variables["Q"], curve.T
    K, M = R.shape[1:]
    if not can_specialize(curve):
        raise InputError(f"there are {K} student and {M} teacher units; specialization compares at least two of each.")
    cosines = _cosines(R, np.diagonal(Q, axis1=1, axis2=2), np.diagonal(T))
    mirrored = curve.problem is None or curve.problem.student.activation.parity != 0
    students, teachers = linear_sum_assignment(np.abs(cosines[-1]) if mirrored else cosines[-1], maximize=True)
    signs = np.where(mirrored & (cosines[-1, students, teachers] < 0), -1.0, 1.0)
    tau = _cosines(T[None], np.diagonal(T)[None], np.diagonal(T))[0]
    facing = signs[:, None] * cosines[:, students][:, :, teachers]  # (time, pair's student, pair's teacher)
    whole = float(_own_minus_others(tau[np.ix_(teachers, teachers)]))
    if whole < 1e-9:
        raise InputError("the teachers all have the same direction; there is nothing to specialize in. Change their gram.")
    index = np.clip(_own_minus_others(facing) / whole, 0.0, 1.0)
    permutation, all_signs = np.full(K, -1), np.ones(K)
    permutation[students], all_signs[students] = teachers, signs
    return Specialization(
        times=curve.times,
        index=index,
        permutation=permutation,
        signs=all_signs,
        cosines=cosines[-1],
        own=np.diagonal(facing, axis1=1, axis2=2),
        transition_time=_last_rise(curve.times, index, TRANSITION_INDEX),
        curve=curve,
    )


def can_specialize(curve: Curve) -> bool:
    """Has the curve two students and two teachers whose overlaps are known?"""
    known = curve.kind != "equations" and curve.T is not None and {"R", "Q"} <= curve.variables.keys()
    return known and min(curve.variables["R"].shape[1:]) >= 2


def _cosines(R: np.ndarray, student: np.ndarray, teacher: np.ndarray) -> np.ndarray:
    """R_km / sqrt(Q_kk T_mm), (time, K, M); a unit of length zero has none, 0."""
    lengths = np.sqrt(np.maximum(student[:, :, None] * teacher[None, None, :], 0.0))
    return np.clip(np.divide(R, lengths, out=np.zeros_like(R), where=lengths > 0), -1.0, 1.0)


def _own_minus_others(facing: np.ndarray) -> np.ndarray:
    """Mean over teachers of (own student - mean of the others), over the last two axes (student, teacher)."""
    count = facing.shape[-1]
    own = np.trace(facing, axis1=-2, axis2=-1)
    others = (facing.sum(axis=(-2, -1)) - own) / (count - 1)
    return (own - others) / count


def _last_rise(times: np.ndarray, index: np.ndarray, through: float) -> float | None:
    """When the index rises through a value and stays above it, between recorded times by interpolation."""
    below = np.flatnonzero(index < through)
    if below.size == 0 or below[-1] == times.size - 1:
        return None
    i = int(below[-1])
    part = (through - index[i]) / (index[i + 1] - index[i])
    return float(times[i] + part * (times[i + 1] - times[i]))


@dataclass(frozen=True, repr=False)
class EarlyStopping(CurveResult, figure="plot_early_stopping"):
    """When the error is smallest.

    time, value: of the smallest error e_g (the test loss, e_g + sigma^2/2, is smallest at the same time).
    bracket: the recorded times around it. end_value: the error at the last recorded time. inside: is the minimum within
    the record, rather than at its end (train on) or at its beginning (training only harms)?
    """

    time: float
    value: float
    bracket: tuple[float, float]
    end_time: float
    end_value: float
    inside: bool
    curve: Curve

    @property
    def gain(self) -> float:
        """Error at the end over the smallest error: by what factor stopping early is better; 1 if it is not."""
        return self.end_value / self.value if self.value > 0 else 1.0

    @property
    def marks(self) -> dict[str, float]:
        """When the error is smallest, if that is before the end."""
        return {"smallest error": self.time} if self.inside else {}

    def __str__(self) -> str:
        if self.inside:
            low, high = self.bracket
            return (
                f"stop at {self.time:.5g} (between {low:.5g} and {high:.5g}): the error is smallest, {self.value:.5g}; "
                f"at {self.end_time:.5g} it is {self.end_value:.5g}, {self.gain:.5g} times as large"
            )
        if self.time == self.end_time:
            up_to = " up to fluctuations" if self.curve.noisy else ""
            return (
                f"train on: the error is smallest{up_to}, {self.value:.5g}, at the last recorded time, {self.end_time:.5g}"
            )
        return f"do not train: the error is smallest, {self.value:.5g}, at the first recorded time, {self.time:.5g}"


def early_stopping(trajectory: Trajectory, run: int | None = None) -> EarlyStopping | RunResults:
    """The time of the smallest error, and the gain over training to the end of the record.

    Parameters
    ----------
    trajectory : Trajectory
        The result of `solve` or `simulate`.
    run : int, optional
        One run of a simulation, counted from 0. Default: all runs, as a `RunResults`.

    Returns
    -------
    EarlyStopping or RunResults

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> inputs = tu.Spectrum([25.0, 0.5102], [0.02, 0.98])
    >>> problem = tu.Problem(tu.Network(1, "linear"), tu.Network(1, "linear"), inputs=inputs, sgd=tu.SGD(lr=0.5), noise=0.5)
    >>> nothing = np.zeros((2, 1, 1))
    >>> start = tu.Start(R=nothing, Q=nothing, T=[[[1.0]], [[0.0]]])     # the teacher has no second part
    >>> theory = tu.solve(problem, start, tu.linear_times(6))
    >>> found = tu.analysis.early_stopping(theory)
    >>> round(found.time, 2), round(found.gain, 2)
    (0.29, 1.84)
    """
    return read_curves(trajectory, run, "early_stopping", find_minimum, 2)


def find_minimum(curve: Curve) -> EarlyStopping:
    """The smallest error of one curve."""
    times, error = curve.times, np.exp(curve.log_error) if curve.noisy else curve.error
    lowest, last = int(np.argmin(error)), times.size - 1
    margin = max(LEAST_GAIN, CHANCE_DEVIATIONS * curve.fluctuation) * abs(error[lowest])
    if error[last] <= error[lowest] + margin or error[last] <= curve.rounding:
        lowest = last
    before, after = times[max(lowest - 1, 0)], times[min(lowest + 1, last)]
    time, value = float(times[lowest]), float(error[lowest])
    inside = 0 < lowest < last
    if inside and not curve.noisy:
        sgd = None if curve.problem is None else curve.problem.sgd
        jumps = [] if sgd is None else [bend_times(rate, after) for rate in (sgd.lr, sgd.readout_lr, sgd.bias_lr)]
        if not any(np.any((jump >= before) & (jump <= after)) for jump in jumps):
            time, value = _refined(times, error, lowest)
    return EarlyStopping(
        time=time,
        value=value,
        bracket=(float(before), float(after)),
        end_time=float(times[last]),
        end_value=float(error[last]),
        inside=inside,
        curve=curve,
    )


def _refined(times: np.ndarray, error: np.ndarray, lowest: int) -> tuple[float, float]:
    """The minimum of the spline of ln e_g, in units of the recorded index so that uneven times cost no accuracy."""
    from scipy.interpolate import CubicSpline
    from scipy.optimize import fminbound

    near = np.arange(max(0, lowest - SPLINE_NEIGHBORS), min(times.size, lowest + SPLINE_NEIGHBORS + 1))
    if np.any(error[near] <= 0):
        return float(times[lowest]), float(error[lowest])
    height, moment = CubicSpline(near, np.log(error[near])), CubicSpline(near, times[near])
    at, value, *_ = fminbound(height, lowest - 1, lowest + 1, xtol=1e-9, full_output=True)
    if value > np.log(error[lowest]):
        return float(times[lowest]), float(error[lowest])
    return float(moment(at)), float(np.exp(value))


@dataclass(frozen=True)
class Phase(ResultCard):
    """name, and the times between which it lasts."""

    name: str
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.name} from {self.start:.4g} to {self.end:.4g}"


@dataclass(frozen=True, repr=False)
class Phases(ResultSequence[Phase], CurveResult, figure="plot_phases"):
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
    """Divide a solved trajectory, one run, or every run of a simulation into named phases.

    Parameters
    ----------
    trajectory : Trajectory
        The result of `solve` or `simulate`.
    run : int, optional
        One run of a simulation, counted from 0. Default: all runs, as a `RunResults`.

    Returns
    -------
    Phases or RunResults
        `phases(theory).at(alpha)` names the phase at a time.

    Notes
    -----
    The module docstring defines the phases.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> [phase.name for phase in tu.analysis.phases(theory)]
    ['search', 'symmetric plateau', 'specialization', 'convergence']
    """
    return read_curves(trajectory, run, "phases", find_phases, LEAST_TIMES)


def find_phases(curve: Curve) -> Phases:
    """The phases of one curve."""
    found = find_plateaus(curve)
    special = find_specialization(curve) if can_specialize(curve) else None
    begins = _with_end(curve, found, special, _up_to_convergence(curve, found, special))
    intervals: list[Phase] = []
    for (start, name), end in zip(begins, [*(t for t, _ in begins[1:]), float(curve.times[-1])], strict=True):
        if intervals and intervals[-1].name == name:  # equal neighbors become one, those of no length vanish
            intervals[-1] = Phase(name, intervals[-1].start, end)
        elif end > start:
            intervals.append(Phase(name, start, end))
    return Phases(tuple(intervals), found, special, curve)


def _up_to_convergence(curve: Curve, found: Plateaus, special: Specialization | None) -> list[tuple[float, str]]:
    """(time, name of what begins there), as if the error fell for ever."""
    first = float(curve.times[0])
    begins = [(first, SEARCH)]
    for plateau in found:
        begins.append((plateau.start, SYMMETRIC if plateau.symmetric else PLATEAU))
        begins.append((plateau.end, ESCAPE if special is None else SPECIALIZATION))
    learned = None if special is None else special.reaches(SPECIALIZED_INDEX)
    if learned is not None:
        begins = begins if found else [(first, SPECIALIZATION)]
        begins.append((max(learned, begins[-1][0]), CONVERGENCE))
    elif special is None:
        begins[-1] = (begins[-1][0], CONVERGENCE)
    return begins


def _with_end(
    curve: Curve, found: Plateaus, special: Specialization | None, begins: list[tuple[float, str]]
) -> list[tuple[float, str]]:
    """The same with what becomes of the error at last: a rise, a divergence, a level that it keeps."""

    def followed_by(name: str, time: float) -> list[tuple[float, str]]:
        return [*((t, before) for t, before in begins if t < time), (time, name)]

    times, y, lowest = curve.times, curve.log_error, find_minimum(curve)
    if curve.diverged:
        return followed_by(DIVERGENCE, lowest.time)
    if lowest.gain > 1 + found.share:
        begins = followed_by(RISE, lowest.time)
    level = _final_level(curve)
    if level is None:
        return begins
    left = found[-1].end if found else float(times[0])
    settled = max(span_around(times, y, times.size - 1, level, float(np.log1p(found.share)))[0], left)
    symmetric = special is not None and special.final < TRANSITION_INDEX and is_symmetric_at(curve, float(times[-1]))
    return followed_by(SYMMETRIC if symmetric else NOISE_FLOOR if curve.label_noise > 0 else FINAL_LEVEL, settled)


def _final_level(curve: Curve) -> float | None:
    """ln of the error that the curve keeps at its end; None if it still changes, or has no digits left."""
    times, y = curve.times, curve.log_error
    span, tenth = times[-1] - times[0], np.linspace(0.0, 0.1, 101)
    last, before = (float(np.median(np.interp(times[-1] - span * part, times, y))) for part in (tenth, 0.1 + tenth))
    if last <= np.log(curve.rounding) + 1e-6:
        return None
    width = float(np.log((times[-1] - 0.05 * span) / (times[-1] - 0.15 * span)))
    return last if abs(last - before) <= FLAT_SLOPE * width + curve.fluctuation else None
