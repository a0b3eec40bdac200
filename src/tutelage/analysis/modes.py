"""Symmetric states, and the modes of a state: how small deviations grow, decay or rotate, and names for what they do.

Equal student units (same readout and bias) may be exchanged, and so may teachers that their overlaps and readouts do not
tell apart; an even activation also allows each unit to change sign. States that all of this leaves alone stay so for ever:
they form the subspace in which plateaus live, with one coordinate per orbit of entries.

J = sum_i rate_i right_i left_i^T, in the flat coordinates of `dynamics.linearized`; entries that do not learn are left out
of J and are zero in the vectors. A deviation u contains mode i with amplitude left_i . u, which grows as exp(rate_i alpha).

Names are measured on the vectors, not guessed from the place in a list. Two questions are asked of the space that modes of
one rate span. How does it behave when units are exchanged that the state itself does not tell apart: unchanged, or without
any unchanged part (the mode breaks the symmetry)? And what does it move: overlaps with teachers (dr), those among students
(dq), readouts, biases; and does the student leave the teachers' span,
    dX_l = dq_l - dr_l t_l^-1 r_l^T - r_l t_l^-1 dr_l^T  != 0 ?
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from tutelage._html import ResultCard
from tutelage._types import NumpyOrJax
from tutelage.dynamics.order_parameters import Overlaps, flatten, unflatten
from tutelage.problem import Problem

Teachers: TypeAlias = Float[NumpyOrJax, "L M M"]

EQUAL_NUMBERS = 1e-9  # relative difference up to which two numbers are the same
EQUAL_OVERLAPS = 1e-7  # the same for overlaps of a state that was solved for
EQUAL_RATES = 1e-7  # rates closer than this, relative to the largest, are one rate
ABSENT_SHARE, MINOR_SHARE = 1e-6, 0.1  # shares of a mode below which something is absent, or only comes along
UNEQUAL_GROWTH = "some grow, some shrink"
ZERO_RATE = 1e-9  # rates below this, relative to the largest, are zero


@dataclass(frozen=True)
class Subspace:
    """States `base` + `embed` y in flat coordinates: one y per set of entries that move as one; the rest is held at base."""

    embed: Float[np.ndarray, "n d"]
    base: Float[np.ndarray, " n"]

    @property
    def average(self) -> np.ndarray:
        """(d, n): the mean over each set of entries, which turns a flat vector into coordinates."""
        return self.embed.T / self.embed.sum(axis=0)[:, None]

    def coordinates(self, vector: Float[NumpyOrJax, " n"]) -> Float[np.ndarray, " d"]:
        """y of the nearest state inside."""
        return self.average @ np.asarray(vector)

    def inside(self, y: Float[NumpyOrJax, " d"]) -> Float[np.ndarray, " n"]:
        """The flat vector with coordinates y."""
        return self.base + self.embed @ np.asarray(y)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.embed.shape[1]


def free_subspace(problem: Problem, state: Overlaps) -> Subspace:
    """Every entry that learns, on its own."""
    return _subspace(np.arange(flatten(state).size), problem, state)


def symmetric_subspace(problem: Problem, t: Teachers, state: Overlaps, *, copies: bool) -> Subspace:
    """States that no exchange of equal units (nor change of sign, for even activations) alters.

    state: supplies what does not learn. copies: equal units have equal vectors too (q_ij = q_ii).
    """
    labels = orbits(state, equal_students(problem, state), equal_teachers(problem, t), copies=copies)
    return _subspace(labels, problem, state, _vanishing(problem, t, state))


def copied_subspace(problem: Problem, state: Overlaps, copied: np.ndarray) -> Subspace:
    """States in which the student units with one label in `copied` are copies of each other."""
    labels = orbits(state, copied, np.arange(problem.teacher.hidden), copies=True)
    return _subspace(labels, problem, state)


def _subspace(labels: np.ndarray, problem: Problem, state: Overlaps, zero: np.ndarray | bool = False) -> Subspace:
    """One coordinate for each label of the entries that learn and are not forced to zero."""
    learns = _learns(problem)
    free = learns & ~np.broadcast_to(zero, learns.shape)
    _, orbit = np.unique(labels[free], return_inverse=True)
    embed = np.zeros((labels.size, int(orbit.max(initial=-1)) + 1))
    embed[free, orbit.ravel()] = 1.0
    return Subspace(embed, np.where(learns, 0.0, np.asarray(flatten(state))))


def orbits(like: Overlaps, students: np.ndarray, teachers: np.ndarray, *, copies: bool = False) -> np.ndarray:
    """A label for every flat coordinate; equal for entries that exchanges within the classes of units can reach."""
    L, K, M = like.r.shape
    level, s, s2 = np.arange(L)[:, None, None], students[:, None], students
    r = (level * K + s) * M + teachers
    distinct = ~np.eye(K, dtype=bool) & ~(copies & (s == s2))
    q = ((level * K + np.minimum(s, s2)) * K + np.maximum(s, s2)) * 2 + distinct
    readout = L * K * (M + 2 * K) + students
    return _flat(r, L * K * M + q, readout, None if like.bias is None else readout + K).astype(int)


def _learns(problem: Problem) -> np.ndarray:
    """Which flat coordinates learn."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    mask = problem.trainable_mask()
    mask = np.ones((L, K)) if mask is None else mask
    r, q = np.repeat(mask[:, :, None], M, axis=2), np.maximum(mask[:, :, None], mask[:, None, :])
    bias = np.full(K, problem.student.train_bias) if problem.biased else None
    return _flat(r, q, np.full(K, problem.student.train_readout), bias) > 0


def _vanishing(problem: Problem, t: Teachers, like: Overlaps) -> np.ndarray:
    """Flat coordinates that changes of sign force to zero.

    An even student may flip each unit, so its overlaps with all others vanish; those of students and teachers also vanish
    if the teacher is even and its units are orthogonal.
    """
    (L, K, M), t = like.r.shape, np.asarray(t)
    even = problem.student.activation.parity == 1 and not problem.biased
    alone = problem.teacher.activation.parity == 1 and not problem.biased and nearly_equal(t, t * np.eye(M))
    q = np.broadcast_to(even & ~np.eye(K, dtype=bool), (L, K, K))
    return _flat(np.full((L, K, M), even or alone), q, np.zeros(K), None if like.bias is None else np.zeros(K)) > 0


def equal_students(problem: Problem, state: Overlaps) -> np.ndarray:
    """Labels of student units that nothing but their weights tells apart."""
    v, b = np.asarray(state.readout), _biases(state.bias, state.readout)
    return interchangeable(v.size, (np.concatenate([v[None], b[None], problem.rule.unit_marks(v)]), (1,)))


def equal_teachers(problem: Problem, t: Teachers) -> np.ndarray:
    """Labels of teachers that may be exchanged: overlaps t (L, M, M), readouts and biases stay the same."""
    teacher = problem.teacher
    v, b = np.asarray(teacher.readout), _biases(teacher.bias, teacher.readout)
    return interchangeable(v.size, (np.asarray(t), (1, 2)), (v, (0,)), (b, (0,)))


def exchangeable(state: Overlaps, t: Teachers) -> tuple[np.ndarray, np.ndarray]:
    """Labels of student units, and of teachers, whose exchange leaves this state as it is."""
    r, q, v, t = (np.asarray(x) for x in (state.r, state.q, state.readout, t))
    own = (q, (1, 2)), (v, (0,)), (_biases(state.bias, v), (0,))
    students = interchangeable(v.size, (r, (1,)), *own, tolerance=EQUAL_OVERLAPS)
    return students, interchangeable(t.shape[-1], (r, (2,)), (t, (1, 2)), tolerance=EQUAL_OVERLAPS)


def interchangeable(
    count: int, *arrays: tuple[np.ndarray, tuple[int, ...]], tolerance: float = EQUAL_NUMBERS
) -> Int[np.ndarray, " count"]:
    """A label per unit: the first one whose exchange with it, along the given axes, leaves every array as it is."""

    def equivalent(i: int, j: int) -> bool:
        swap = np.arange(count)
        swap[[i, j]] = j, i
        for array, axes in arrays:
            other = array
            for axis in axes:
                other = np.take(other, swap, axis)
            if not np.allclose(other, array, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(array)))):
                return False
        return True

    return np.array([next(i for i in range(j + 1) if i == j or equivalent(i, j)) for j in range(count)])


def nearly_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal up to rounding."""
    return np.allclose(a, b, rtol=0, atol=EQUAL_NUMBERS * max(1.0, float(np.max(np.abs(a)))))


def _biases(bias: NumpyOrJax | None, like: NumpyOrJax) -> np.ndarray:
    return np.zeros_like(like, float) if bias is None else np.asarray(bias)


def _flat(r: ArrayLike, q: ArrayLike, readout: ArrayLike, bias: ArrayLike | None) -> np.ndarray:
    r, q, readout = (np.asarray(x, float) for x in (r, q, readout))
    return flatten(Overlaps(r, q, readout, None if bias is None else np.asarray(bias, float), None))


@dataclass(frozen=True)
class Mode(ResultCard):
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

    Rounding splits a repeated real rate into complex pairs; the real span of their vectors is what they stand for: an
    orthonormal basis of it, each vector with a positive largest entry.
    """
    from scipy.sparse.csgraph import connected_components

    values, vectors = np.linalg.eig(J)
    width = EQUAL_RATES * max(float(np.max(np.abs(values), initial=0.0)), 1e-300)
    count, group = connected_components(np.abs(values[:, None] - values) <= width)
    groups: list[tuple[float | complex, np.ndarray]] = []
    for members in (group == i for i in range(count)):
        mean, span = complex(values[members].mean()), vectors[:, members]
        if abs(mean.imag) > width:
            groups.append((mean, span))
            continue
        basis = np.linalg.svd(np.concatenate([np.real(span), np.imag(span)], axis=1), full_matrices=False)[0]
        basis = basis[:, : span.shape[1]]
        largest = np.take_along_axis(basis, np.argmax(np.abs(basis), axis=0)[None], axis=0)
        groups.append((mean.real, basis * np.sign(largest)))
    return sorted(groups, key=lambda group: (-np.real(group[0]), -np.imag(group[0])))


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
            return f"breaks the symmetry between {units}: {'each turns to different teacher units' if turns else UNEQUAL_GROWTH}"
        if (self.all_teachers and shares.teachers < ABSENT_SHARE) or (together and turns):
            return f"turns {'all student units together' if together else 'student units'} toward some teacher units"
        if together and shares.r < ABSENT_SHARE:
            return "changes the norms of all student units equally"
        return "changes norms and overlaps of all student units equally" if together else None

    def _shares(self, vectors: np.ndarray) -> _Shares:
        total, d, at = _square(vectors), unflatten(vectors.T, self.state), np.asarray(self.state.r)
        turn = d.r @ np.linalg.pinv(self.t, rcond=1e-9, hermitian=True) @ np.swapaxes(at, -1, -2)
        moved, left = _square(d.r), _square(d.q - turn - np.swapaxes(turn, -1, -2))
        length = np.sum(at**2, axis=-1, keepdims=True)
        along = np.sum(d.r * at, axis=-1, keepdims=True) * at / np.where(length > 0, length, 1.0)
        return _Shares(
            students=_unchanged(vectors, self._by_students) / total,
            teachers=_unchanged(vectors, self._by_teachers) / total,
            r=moved / total,
            q=_square(d.q[..., *np.triu_indices(at.shape[1])]) / total,
            readout=_square(d.readout) / total,
            bias=0.0 if d.bias is None else _square(d.bias) / total,
            outside=left / max(left + moved, 1e-300),
            own=_square(along) / moved if moved > 0 else 0.0,
        )


def _square(vectors: np.ndarray) -> float:
    return float(np.sum(np.abs(vectors) ** 2))


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
