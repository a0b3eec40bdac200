"""The modes of a state: how small deviations grow, decay or rotate, with their vectors and with names for what they do.

J = sum_i rate_i right_i left_i^T, in the flat coordinates of `dynamics.linearized`; entries that do not learn are left out
of J and are zero in the vectors. A deviation u contains mode i with amplitude left_i . u, which grows as exp(rate_i alpha).

Names are measured on the vectors, not guessed from the place in a list. Two questions are asked of the space that modes of
one rate span. How does it behave when units are exchanged that the state itself does not tell apart: unchanged, or without
any unchanged part (the mode breaks the symmetry)? And what does it move: overlaps with teachers (dr), those among students
(dq), readouts, biases; and does the student leave the teachers' span,
    dX_l = dq_l - dr_l t_l^-1 r_l^T - r_l t_l^-1 dr_l^T  != 0 ?
"""

from dataclasses import dataclass

import numpy as np

from tutelage.analysis.fixed_points.symmetry import Subspace, exchangeable, orbits
from tutelage.dynamics.order_parameters import Overlaps

EQUAL_RATES = 1e-7  # rates closer than this, relative to the largest, are one rate
ABSENT_SHARE, MINOR_SHARE = 1e-6, 0.1  # shares of a mode below which something is absent, or only comes along
UNEQUAL_GROWTH = "some grow, some shrink"
ZERO_RATE = 1e-9  # rates below this, relative to the largest, are zero


@dataclass(frozen=True)
class Mode:
    """One mode of the linear dynamics around a fixed point.

    rate: per unit of alpha, a float where it is real. right, left: flat vectors with left @ right = 1.
    multiplicity: how many modes share this rate (each is listed). name: what the mode does, in words.
    """

    rate: float | complex
    right: np.ndarray
    left: np.ndarray
    multiplicity: int
    name: str

    @property
    def growth(self) -> float:
        """The real part of the rate: positive for a deviation that grows."""
        return float(np.real(self.rate))

    def __str__(self) -> str:
        times = f"  x{self.multiplicity}" if self.multiplicity > 1 else ""
        return f"{rate_in_words(self.rate)}{times}  {self.name}"


def rate_in_words(rate: float | complex) -> str:
    """+0.031618, or +0.01 ± 0.3i."""
    if isinstance(rate, complex):
        return f"{rate.real:+.6g} ± {abs(rate.imag):.6g}i"
    return f"{rate:+.6g}"


def rate_groups(J: np.ndarray) -> list[tuple[float | complex, np.ndarray]]:
    """(rate, right vectors (n, multiplicity)) of each group of equal rates, fastest growing first.

    Rounding splits a repeated real rate into complex pairs; the real span of their vectors is what they stand for.
    """
    values, vectors = np.linalg.eig(J)
    scale = max(float(np.max(np.abs(values), initial=0.0)), 1e-300)
    groups = []
    for members in _clusters(values, EQUAL_RATES * scale):
        mean = complex(values[members].mean())
        if abs(mean.imag) > EQUAL_RATES * scale:
            groups.append((mean, vectors[:, members]))
        else:
            groups.append((mean.real, _real_span(vectors[:, members])))
    return sorted(groups, key=lambda group: (-np.real(group[0]), -np.imag(group[0])))


def _clusters(values: np.ndarray, width: float) -> list[np.ndarray]:
    """Indices of values that a chain of steps shorter than `width` connects."""
    left, out = list(range(values.size)), []
    while left:
        group = [left.pop(0)]
        for member in group:
            near = [i for i in left if abs(values[i] - values[member]) <= width]
            left = [i for i in left if i not in near]
            group.extend(near)
        out.append(np.array(group))
    return out


def _real_span(vectors: np.ndarray) -> np.ndarray:
    """An orthonormal real basis of the span; one vector keeps its direction and gets a positive largest entry."""
    count = vectors.shape[1]
    basis = np.linalg.svd(np.concatenate([np.real(vectors), np.imag(vectors)], axis=1), full_matrices=False)[0][:, :count]
    largest = np.argmax(np.abs(basis), axis=0)
    return basis * np.sign(basis[largest, np.arange(count)])


def named_modes(state: Overlaps, t: np.ndarray, J: np.ndarray, free: Subspace) -> tuple[Mode, ...]:
    """All modes, fastest growing first, of a Jacobian in flat coordinates (only what learns counts)."""
    groups = rate_groups(free.embed.T @ J @ free.embed)
    right = np.concatenate([vectors for _, vectors in groups], axis=1)
    left = np.linalg.pinv(right, rcond=1e-13)
    largest = max(abs(rate) for rate, _ in groups)
    modes, at, namer = [], 0, _Namer(state, t)
    for rate, vectors in groups:
        count, real = vectors.shape[1], isinstance(rate, float)
        name = namer.name(rate, free.embed @ vectors, ZERO_RATE * largest)
        for r, l in zip(right[:, at : at + count].T, left[at : at + count], strict=True):
            r, l = (r.real, l.real) if real else (r, l)
            modes.append(Mode(rate, free.embed @ r, free.embed @ l, count, name))
        at += count
    return tuple(modes)


def name_of_growth(state: Overlaps, t: np.ndarray, vectors: np.ndarray) -> str:
    """What a deviation along these flat vectors (n, count) does when it grows."""
    return _Namer(state, t).name(1.0, vectors, 0.0)


@dataclass(frozen=True)
class _Shares:
    """Parts of the squared length of a group of modes."""

    students: float  # unchanged by exchanges of students
    teachers: float  # unchanged by exchanges of teachers
    r: float
    q: float
    readout: float
    bias: float
    outside: float  # of dX against dr
    own: float  # of dr: what only changes the length of a unit along its own direction in the span


class _Namer:
    """Names the modes at one state."""

    def __init__(self, state: Overlaps, t: np.ndarray):
        self.state, self.t = state, t
        students, teachers = exchangeable(state, t)
        classes = [np.flatnonzero(students == label) for label in np.unique(students)]
        self.equal_students = [units for units in classes if units.size > 1]
        self.all_students = np.all(students == students[0]) and students.size > 1
        self.all_teachers = np.all(teachers == teachers[0]) and teachers.size > 1
        self._by_students = orbits(state, students, np.arange(teachers.size))
        self._by_teachers = orbits(state, np.arange(students.size), teachers)

    def name(self, rate: float | complex, vectors: np.ndarray, still: float) -> str:
        """What the modes with these right vectors (n, count) do."""
        if abs(rate) <= still:
            return "moves along a flat direction"
        shares = self._shares(vectors)
        words = self._by_symmetry(shares) or _by_parts(shares, np.real(rate) > 0)
        also = [word for word, share in (("readouts", shares.readout), ("biases", shares.bias)) if share > MINOR_SHARE]
        return f"{words}, with {' and '.join(also)}" if also else words

    def _by_symmetry(self, shares: _Shares) -> str | None:
        breaks = bool(self.equal_students) and shares.students < ABSENT_SHARE
        together = self.all_students and shares.students > 1 - ABSENT_SHARE
        turns = shares.r > ABSENT_SHARE and shares.q < ABSENT_SHARE and shares.own < ABSENT_SHARE  # lengths stay as they are
        if breaks:
            which = " and ".join(", ".join(str(unit + 1) for unit in units) for units in self.equal_students)
            units = "student units" if self.all_students else f"the equal student units {which}"
            return f"breaks the symmetry between {units}: {'each turns to teachers of its own' if turns else UNEQUAL_GROWTH}"
        if (self.all_teachers and shares.teachers < ABSENT_SHARE) or (together and turns):
            return f"turns {'all student units alike' if together else 'student units'} towards some teachers"
        if together and shares.r < ABSENT_SHARE:
            return "changes the norms of all student units alike"
        return "changes norms and overlaps of all student units alike" if together else None

    def _shares(self, vectors: np.ndarray) -> _Shares:
        L, K, M = self.state.r.shape
        total = float(np.sum(np.abs(vectors) ** 2))
        sizes = np.cumsum([L * K * M, L * K * (K + 1) // 2, K])
        r, q, readout, bias = (float(np.sum(np.abs(part) ** 2)) / total for part in np.split(vectors, sizes))
        students, teachers = (_unchanged(vectors, labels) / total for labels in (self._by_students, self._by_teachers))
        outside, own = self._span(vectors)
        return _Shares(students, teachers, r, q, readout, bias, outside, own)

    def _span(self, vectors: np.ndarray) -> tuple[float, float]:
        """How much leaves the teachers' span; and how much of dr lies along the units themselves."""
        (L, K, M), count = self.state.r.shape, vectors.shape[1]
        rows, columns = np.triu_indices(K)
        dr = vectors[: L * K * M].T.reshape(count, L, K, M)
        upper = vectors[L * K * M :][: L * rows.size].T.reshape(count, L, rows.size)
        dq = np.zeros((count, L, K, K), upper.dtype)
        dq[..., rows, columns] = dq[..., columns, rows] = upper
        r = np.asarray(self.state.r)
        inverse = np.linalg.pinv(self.t, rcond=1e-9, hermitian=True)
        turn = dr @ inverse @ np.swapaxes(r, -1, -2)
        dX = dq - turn - np.swapaxes(turn, -1, -2)
        moved, left = float(np.sum(np.abs(dr) ** 2)), float(np.sum(np.abs(dX) ** 2))
        length = np.sum(r**2, axis=-1, keepdims=True)
        along = np.sum(dr * r, axis=-1, keepdims=True) * r / np.where(length > 0, length, 1.0)
        own = float(np.sum(np.abs(along) ** 2)) / moved if moved > 0 else 0.0
        return left / max(left + moved, 1e-300), own


def _by_parts(shares: _Shares, grows: bool) -> str:
    if shares.readout + shares.bias > 1 - ABSENT_SHARE:
        return "changes the output weights alone" if shares.bias < ABSENT_SHARE else "changes readouts and biases alone"
    if shares.r < ABSENT_SHARE:
        return f"{'grows' if grows else 'decays'} outside the teachers' span, in norms and overlaps of student units"
    if shares.q < ABSENT_SHARE:
        return "changes the overlaps of student units with teachers"
    if shares.outside > MINOR_SHARE**2:
        return f"{'grows' if grows else 'decays'} outside the teachers' span"
    if shares.own > 1 - ABSENT_SHARE:
        return "changes the norms of student units inside the teachers' span"
    if shares.own < ABSENT_SHARE:
        return "turns student units inside the teachers' span"
    return "changes norms and turns student units inside the teachers' span"


def _unchanged(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Squared length of the part that is equal within every orbit of entries."""
    _, orbit = np.unique(labels, return_inverse=True)
    counts = np.bincount(orbit)
    sums = np.zeros((counts.size, vectors.shape[1]), vectors.dtype)
    np.add.at(sums, orbit, vectors)
    return float(np.sum(np.abs(sums) ** 2 / counts[:, None]))
