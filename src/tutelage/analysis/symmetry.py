"""The symmetric states of a problem: those that no relabelling of equal units changes.

Equal student units (same readout and bias) may be exchanged, and so may teachers that their overlaps and readouts do not
tell apart; an even activation also allows each unit to change sign. States that all of this leaves alone stay so for ever:
they form the subspace in which plateaus live, with one coordinate per orbit of entries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage.dynamics.linearised import flatten
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem

ALIKE = 1e-9  # relative difference up to which two numbers are the same


@dataclass(frozen=True)
class Subspace:
    """States `base` + `embed` y in flat coordinates: one y per set of entries that move as one; the rest is held at base."""

    embed: np.ndarray
    base: np.ndarray

    @property
    def average(self) -> np.ndarray:
        """(d, n): the mean over each set of entries, which turns a flat vector into coordinates."""
        return self.embed.T / self.embed.sum(axis=0)[:, None]

    def coordinates(self, vector: Any) -> np.ndarray:
        """y of the nearest state inside."""
        return self.average @ np.asarray(vector)

    def inside(self, y: Any) -> np.ndarray:
        """The flat vector with coordinates y."""
        return self.base + self.embed @ np.asarray(y)


def classes(count: int, alike: Callable[[int, int], bool]) -> np.ndarray:
    """A label per unit: the first unit that is like it."""
    return np.array([next(i for i in range(j + 1) if i == j or alike(i, j)) for j in range(count)])


def equal_students(problem: Problem, readout: Any, bias: Any) -> np.ndarray:
    """Labels of student units that nothing but their weights tells apart."""
    v = np.asarray(readout)
    b = np.zeros_like(v) if bias is None else np.asarray(bias)
    return classes(problem.student.hidden, lambda i, j: _same(v[i], v[j]) and _same(b[i], b[j]))


def equal_teachers(problem: Problem, t: Any) -> np.ndarray:
    """Labels of teachers that may be exchanged: the overlaps t (L, M, M), readouts and biases stay the same."""
    t, v = np.asarray(t), np.asarray(problem.teacher.readout)
    b = np.zeros_like(v) if problem.teacher.bias is None else np.asarray(problem.teacher.bias)

    def alike(i: int, j: int) -> bool:
        swap = exchanged(v.size, i, j)
        return _same(v[i], v[j]) and _same(b[i], b[j]) and _same(t, t[:, swap][:, :, swap])

    return classes(v.size, alike)


def exchanged(count: int, i: int, j: int) -> np.ndarray:
    """The permutation that exchanges i and j."""
    swap = np.arange(count)
    swap[[i, j]] = j, i
    return swap


def moving(problem: Problem) -> Overlaps:
    """Which entries of a state learn: ones and zeros in the shape of a state."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    mask = problem.trainable_mask()
    mask = np.ones((L, K)) if mask is None else mask
    r = np.repeat(mask[:, :, None], M, axis=2)
    q = np.maximum(mask[:, :, None], mask[:, None, :])
    bias = np.full(K, float(problem.student.train_bias)) if problem.biased else None
    return Overlaps(r, q, np.full(K, float(problem.student.train_readout)), bias, None)


def free_subspace(problem: Problem, state: Overlaps) -> Subspace:
    """Every entry that learns on its own."""
    free = np.asarray(flatten(moving(problem))) > 0
    return Subspace(np.eye(free.size)[:, free], np.where(free, 0.0, np.asarray(flatten(state))))


def symmetric_subspace(problem: Problem, t: Any, state: Overlaps, *, copies: bool) -> Subspace:
    """States that no exchange of equal units (nor change of sign, for even activations) alters.

    state: supplies what does not learn. copies: equal units also have equal vectors (q_ij = q_ii). Without the eta^2 term
    nothing drives them apart, and what separates them fades only algebraically, so gradient flow is asked there.
    """
    students, teachers = equal_students(problem, state.readout, state.bias), equal_teachers(problem, t)
    L, K, M = np.shape(state.r)
    even, r_vanishes = vanishing(problem, t)
    level, s, s2 = np.arange(L)[:, None, None], students[:, None], students[None, :]
    r = (level * K + s) * M + teachers
    other = ~np.eye(K, dtype=bool) & ~(copies & (s == s2))
    q = ((level * K + np.minimum(s, s2)) * K + np.maximum(s, s2)) * 2 + other
    held = np.asarray(flatten(moving(problem))) == 0
    zero = np.asarray(
        flatten(
            _like(state, np.full(r.shape, r_vanishes), np.broadcast_to(even & ~np.eye(K, dtype=bool), q.shape), 0 * s[:, 0])
        )
    )
    kind = np.asarray(flatten(_like(state, 0 * r, 0 * q + 1, 0 * students + 2, 3)))
    label = np.asarray(flatten(_like(state, r, q, students)))
    free = ~held & (zero == 0)
    _, orbit = np.unique(np.stack([kind, label])[:, free], axis=1, return_inverse=True)
    embed = np.zeros((free.size, orbit.max() + 1))
    embed[free, orbit.ravel()] = 1.0
    return Subspace(embed, np.where(held, np.asarray(flatten(state)), 0.0))


def vanishing(problem: Problem, t: Any) -> tuple[bool, bool]:
    """Does a change of sign of one student unit alter nothing (even g)? Do the overlaps with teachers then vanish?

    They also vanish where the teacher is even and its units are orthogonal.
    """
    t = np.asarray(t)
    even = problem.student.activation.parity == 1 and not problem.biased
    orthogonal = _same(t, t * np.eye(t.shape[-1]))
    return even, even or (problem.teacher.activation.parity == 1 and not problem.biased and orthogonal)


def _like(state: Overlaps, r: Any, q: Any, unit: Any, shift: float = 2) -> Overlaps:
    """A state-shaped holder of labels: those of readouts, and those of biases (`shift` tells their kind)."""
    unit = np.asarray(unit, float)
    bias = None if state.bias is None else unit + (shift - 2)
    return Overlaps(np.asarray(r, float), np.asarray(q, float), unit, bias, None)


def _same(a: Any, b: Any) -> bool:
    return bool(np.all(np.abs(a - b) <= ALIKE * max(1.0, float(np.max(np.abs(a))))))
