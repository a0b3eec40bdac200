"""Specialization: which student copies which teacher, how far it has come, and when it happened.

With the cosines c_km = R_km / sqrt(Q_kk T_mm) at the last time, students are assigned to teachers one to one so that the sum
of |c| (of c, for an activation that is neither odd nor even) is largest. Let student k be assigned teacher m(k) and let
s_k be the sign of that cosine at the end. The index at any time compares each assigned student with the other assigned
students on its own teacher,
    index = mean_k [ s_k c_k,m(k) - mean_{j != k} s_j c_j,m(k) ] / mean_k [ 1 - mean_{j != k} tau_m(j),m(k) ],
with tau the cosines of the teachers themselves: 0 if all students are alike with respect to the teachers, 1 if each has the
direction of its own teacher. It is clipped to [0, 1]: below 0 students are nearer to another's teacher than to their own.
Lengths are left out: a student may have its teacher's direction long before its norm.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tutelage._errors import InputError
from tutelage.analysis.curves.curve import Curve, each
from tutelage.analysis.curves.run_results import RunResults
from tutelage.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HALF = 0.5  # the transition: the index rises through this value for good


@dataclass(frozen=True)
class Specialization:
    """Which student copies which teacher, and since when.

    index: (time,), from 0 (students alike) to 1 (each copies its own teacher); see the module docstring.
    permutation: (K,), the teacher of each student, -1 for a student without one (K > M). signs: (K,), -1 for a student that
    copies the mirrored teacher. cosines: (K, M) at the last time. transition_time: when the index rises through one half for
    good; None if it does not. own: (time, pairs), the cosine of each assigned student with its own teacher.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> found = tu.analysis.specialization(theory)
    >>> found.index.shape, 50 < found.transition_time < 300
    ((201,), True)
    """

    times: np.ndarray = field(repr=False)
    index: np.ndarray = field(repr=False)
    permutation: np.ndarray
    signs: np.ndarray
    cosines: np.ndarray = field(repr=False)
    own: np.ndarray = field(repr=False)
    transition_time: float | None
    curve: Curve = field(repr=False)

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

    def plot(self, *, title: str | None = None) -> "Figure":
        """The index and the cosines with the assigned teachers, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage.plot.specialized import plot_specialization

        return plot_specialization(self, title=title)

    def __str__(self) -> str:
        if self.transition_time is not None:
            when = f"specializes at {self.transition_time:.4g}"
        elif self.final >= HALF:
            when = f"specialized from the first time, {self.times[0]:.4g}, on"
        else:
            when = f"does not specialize between {self.times[0]:.4g} and {self.times[-1]:.4g}"
        lines = [f"{when}: index {self.index[0]:.3f} at first, {self.final:.3f} at the end"]
        return "\n".join([*lines, *self._pairs()])

    def _pairs(self) -> list[str]:
        """Who ends with whom; units are counted from one, as in figures and papers."""
        lines = []
        for k, m in enumerate(self.permutation):
            if m < 0:
                nearest = int(np.argmax(np.abs(self.cosines[k])))
                lines.append(f"student {k + 1}: no teacher of its own (nearest {nearest + 1})")
            else:
                mirrored = " mirrored" if self.signs[k] < 0 else ""
                lines.append(f"student {k + 1}: teacher {m + 1}{mirrored}, cosine {self.cosines[k, m]:.4f}")
        missed = sorted(set(range(self.cosines.shape[1])) - set(self.permutation.tolist()))
        return lines + [f"teacher {m + 1}: no student of its own" for m in missed]


def specialization(trajectory: Trajectory, run: int | None = None) -> Specialization | RunResults:
    """Who copies whom at the end, how specialized the students are along the way, and when they become so.

    Of a solved trajectory, of one run, or of every run of a simulation (a `RunResults`). Needs at least two students and two
    teachers, whose overlaps R and Q it reads. Counted from 0, as the rows of R are.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), sgd=tu.SGD(lr=0.5))
    >>> start = tu.Start(R=[[0.11, 0.1], [0.1, 0.11]], Q=[[0.1, 0.0], [0.0, 0.1]])
    >>> theory = tu.solve(problem, start, times=tu.linear_times(400))
    >>> found = tu.analysis.specialization(theory)
    >>> found.permutation, round(found.final, 3)
    (array([0, 1]), 0.999)
    """
    return each(trajectory, run, "specialization", find_specialization)


def find_specialization(curve: Curve) -> Specialization:
    """The specialization of one curve."""
    R, Q, T = _overlaps(curve)
    cosines = _cosines(R, np.diagonal(Q, axis1=1, axis2=2), np.diagonal(T))
    mirrored = curve.problem is None or curve.problem.student.activation.parity != 0
    students, teachers, signs = _assign(cosines[-1], mirrored)
    tau = _cosines(T[None], np.diagonal(T)[None], np.diagonal(T))[0]
    facing = signs[:, None] * cosines[:, students][:, :, teachers]  # (time, pair's student, pair's teacher)
    whole = float(_contrast(tau[np.ix_(teachers, teachers)]))
    if whole < 1e-9:
        raise InputError("the teachers all have the same direction; there is nothing to specialize in. Change their gram.")
    index = np.clip(_contrast(facing) / whole, 0.0, 1.0)
    K = R.shape[1]
    permutation, all_signs = np.full(K, -1), np.ones(K)
    permutation[students], all_signs[students] = teachers, signs
    return Specialization(
        times=curve.times,
        index=index,
        permutation=permutation,
        signs=all_signs,
        cosines=cosines[-1],
        own=np.diagonal(facing, axis1=1, axis2=2),
        transition_time=_last_rise(curve.times, index, HALF),
        curve=curve,
    )


def can_specialize(curve: Curve) -> bool:
    """Has the curve two students and two teachers whose overlaps are known?"""
    known = curve.kind != "equations" and curve.T is not None and {"R", "Q"} <= curve.variables.keys()
    return known and min(curve.variables["R"].shape[1:]) >= 2


def _overlaps(curve: Curve) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R, Q, T, or a sentence why there is nothing to assign."""
    if can_specialize(curve) and curve.T is not None:
        return curve.variables["R"], curve.variables["Q"], curve.T
    if curve.kind == "equations" or curve.T is None:
        raise InputError(
            "specialization needs the overlaps R, Q and T of a Problem's students and teachers; this trajectory has "
            f"{', '.join(curve.variables)}."
        )
    K, M = curve.variables["R"].shape[1:]
    raise InputError(f"there are {K} student and {M} teacher units; specialization compares at least two of each.")


def _cosines(R: np.ndarray, student: np.ndarray, teacher: np.ndarray) -> np.ndarray:
    """R_km / sqrt(Q_kk T_mm), (time, K, M); a unit of length zero has none, 0."""
    lengths = np.sqrt(np.maximum(student[:, :, None] * teacher[None, None, :], 0.0))
    return np.clip(np.divide(R, lengths, out=np.zeros_like(R), where=lengths > 0), -1.0, 1.0)


def _assign(cosines: np.ndarray, mirrored: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Students, their teachers and signs: the one-to-one assignment with the largest sum (Hungarian method)."""
    from scipy.optimize import linear_sum_assignment

    students, teachers = linear_sum_assignment(np.abs(cosines) if mirrored else cosines, maximize=True)
    signs = np.where(mirrored & (cosines[students, teachers] < 0), -1.0, 1.0)
    return students, teachers, signs


def _contrast(facing: np.ndarray) -> np.ndarray:
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
