"""The symmetric states of a problem: those that no relabeling of equal units changes.

Equal student units (same readout and bias) may be exchanged, and so may teachers that their overlaps and readouts do not
tell apart; an even activation also allows each unit to change sign. States that all of this leaves alone stay so for ever:
they form the subspace in which plateaus live, with one coordinate per orbit of entries.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tutelage._types import Array
from tutelage.dynamics.linearized import flatten
from tutelage.dynamics.order_parameters import Overlaps
from tutelage.problem import Problem

EQUAL_NUMBERS = 1e-9  # relative difference up to which two numbers are the same


@dataclass(frozen=True)
class Subspace:
    """States `base` + `embed` y in flat coordinates: one y per set of entries that move as one; the rest is held at base."""

    embed: Float[np.ndarray, "n d"]
    base: Float[np.ndarray, " n"]

    @property
    def average(self) -> np.ndarray:
        """(d, n): the mean over each set of entries, which turns a flat vector into coordinates."""
        return self.embed.T / self.embed.sum(axis=0)[:, None]

    def coordinates(self, vector: Float[Array | np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
        """y of the nearest state inside."""
        return self.average @ np.asarray(vector)

    def inside(self, y: Float[Array | np.ndarray, " d"]) -> Float[np.ndarray, " n"]:
        """The flat vector with coordinates y."""
        return self.base + self.embed @ np.asarray(y)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.embed.shape[1]


def free_subspace(problem: Problem, state: Overlaps) -> Subspace:
    """Every entry that learns, on its own."""
    return _subspace(np.arange(flatten(state).size), learns(problem), state, np.zeros(flatten(state).size, bool))


def symmetric_subspace(
    problem: Problem, t: Float[Array | np.ndarray, "L M M"], state: Overlaps, *, copies: bool
) -> Subspace:
    """States that no exchange of equal units (nor change of sign, for even activations) alters.

    state: supplies what does not learn. copies: equal units have equal vectors too (q_ij = q_ii).
    """
    labels = orbits(state, equal_students(problem, state), equal_teachers(problem, t), copies=copies)
    return _subspace(labels, learns(problem), state, _vanishing(problem, t, state))


def copied_subspace(problem: Problem, state: Overlaps, copied: np.ndarray) -> Subspace:
    """States in which the student units with one label in `copied` are copies of each other."""
    labels = orbits(state, copied, np.arange(problem.teacher.hidden), copies=True)
    return _subspace(labels, learns(problem), state, np.zeros(labels.size, bool))


def _subspace(labels: np.ndarray, learns: np.ndarray, state: Overlaps, zero: np.ndarray) -> Subspace:
    free = learns & ~zero
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


def learns(problem: Problem) -> np.ndarray:
    """Which flat coordinates learn."""
    L, K, M = problem.inputs.levels, problem.student.hidden, problem.teacher.hidden
    mask = problem.trainable_mask()
    mask = np.ones((L, K)) if mask is None else mask
    r, q = np.repeat(mask[:, :, None], M, axis=2), np.maximum(mask[:, :, None], mask[:, None, :])
    bias = np.full(K, problem.student.train_bias) if problem.biased else None
    return _flat(r, q, np.full(K, problem.student.train_readout), bias) > 0


def _vanishing(problem: Problem, t: Float[Array | np.ndarray, "L M M"], like: Overlaps) -> np.ndarray:
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
    v = np.asarray(state.readout)
    b = np.zeros_like(v) if state.bias is None else np.asarray(state.bias)
    marks = np.concatenate([v[None], b[None], problem.rule.unit_marks(v)]).T
    return equivalence_classes(v.size, lambda i, j: nearly_equal(marks[i], marks[j]))


def equal_teachers(problem: Problem, t: Float[Array | np.ndarray, "L M M"]) -> np.ndarray:
    """Labels of teachers that may be exchanged: overlaps t (L, M, M), readouts and biases stay the same."""
    t, v = np.asarray(t), np.asarray(problem.teacher.readout)
    b = np.zeros_like(v) if problem.teacher.bias is None else np.asarray(problem.teacher.bias)

    def equivalent(i: int, j: int) -> bool:
        swap = exchanged(v.size, i, j)
        return nearly_equal(v[i], v[j]) and nearly_equal(b[i], b[j]) and nearly_equal(t, t[:, swap][:, :, swap])

    return equivalence_classes(v.size, equivalent)


def exchangeable(
    state: Overlaps, t: Float[Array | np.ndarray, "L M M"], tolerance: float = 1e-7
) -> tuple[np.ndarray, np.ndarray]:
    """Labels of student units, and of teachers, whose exchange leaves this state as it is."""
    r, q, t, flat = (np.asarray(x) for x in (state.r, state.q, t, flatten(state)))
    v, b = np.asarray(state.readout), np.zeros(1) if state.bias is None else np.asarray(state.bias)

    def students(i: int, j: int) -> bool:
        swap = exchanged(v.size, i, j)
        pairs = ((r, r[:, swap]), (q, q[:, swap][:, :, swap]), (v, v[swap]), (b, b[swap] if b.size > 1 else b))
        return all(np.allclose(x, y, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(flat)))) for x, y in pairs)

    def teachers(i: int, j: int) -> bool:
        swap = exchanged(t.shape[-1], i, j)
        return np.allclose(r, r[:, :, swap], rtol=0, atol=tolerance) and nearly_equal(t, t[:, swap][:, :, swap])

    return equivalence_classes(v.size, students), equivalence_classes(t.shape[-1], teachers)


def equivalence_classes(count: int, equivalent: Callable[[int, int], bool]) -> np.ndarray:
    """A label per unit: the first unit that is like it."""
    return np.array([next(i for i in range(j + 1) if i == j or equivalent(i, j)) for j in range(count)])


def exchanged(count: int, i: int, j: int) -> np.ndarray:
    """The permutation that exchanges i and j."""
    swap = np.arange(count)
    swap[[i, j]] = j, i
    return swap


def nearly_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal up to rounding."""
    return bool(np.all(np.abs(a - b) <= EQUAL_NUMBERS * max(1.0, float(np.max(np.abs(a))))))


def _flat(r: ArrayLike, q: ArrayLike, readout: ArrayLike, bias: ArrayLike | None) -> np.ndarray:
    r, q, readout = (jnp.asarray(x, float) for x in (r, q, readout))
    return np.asarray(flatten(Overlaps(r, q, readout, None if bias is None else jnp.asarray(bias, float), None)))
