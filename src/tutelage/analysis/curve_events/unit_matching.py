"""Specialization: the teacher unit, or the subspace, that student units learn.

docs/how-to/specialization.md has the definitions and their formulas.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.analysis.result import (
    AnalysisResult,
    Curve,
    RunResults,
    final_crossing,
    read_curves,
)
from tutelage.analysis.subspaces import (
    compared_overlaps,
    has_rotations,
    principal_cosines,
)
from tutelage.errors import InputError
from tutelage.problem import Problem
from tutelage.result.trajectory import Trajectory

TRANSITION_INDEX = 0.5  # index at the transition to specialized units
SPECIALIZED_INDEX = 0.9  # index at which specialization is over


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
    return read_curves(trajectory, run, "specialization", find_specialization)


def find_specialization(curve: Curve) -> Specialization:
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
