"""Directions along which the error cannot change: the continuous symmetries of a network and its inputs.

Students may be moved without changing the error
 - by rotations of the inputs within a level that leave the teacher as it is: D = J Psi, Psi antisymmetric. Any activation
   lets them turn in the directions that the teachers do not span; a quadratic teacher also where it is itself invariant;
 - among themselves, where the activation allows it: sum_k v_k lambda_k^2 keeps its value under D = V^-1 Psi J, a linear
   student under D = x d with v.x = 0, and a unit with readout 0 may do what it likes.
At a critical point all of these are flat directions of the Hessian: they lead along the manifold of equal error.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tutelage.analysis.geometry.hessian import Span
from tutelage.problem import Problem
from tutelage.problem.activation import Activation

RANK = 1e-8  # singular values below this share of the vectors' length are zero


@dataclass(frozen=True)
class Orbit:
    """inside (count, K, S): orthonormal directions in the span; outside: per level (count, K), each for every dimension
    outside the span."""

    inside: np.ndarray
    outside: list[np.ndarray]


def orbit_of(problem: Problem, span: Span, readout: np.ndarray) -> Orbit:
    """All symmetries of a problem at these vectors."""
    c = span.students
    units = _unit_symmetries(problem.student.activation, problem.student.bias is not None, readout)
    moves = [*_input_rotations(problem, span), *units.rotations(c), *units.shifts(c)]
    alone = [np.concatenate([c[:, (span.level == l) & ~span.taught].T, units.free]) for l in range(span.outside.size)]
    scale = float(np.linalg.norm(c))
    inside = _orthonormal(np.reshape(moves, (len(moves), c.size)), scale).reshape(-1, *c.shape)
    return Orbit(inside, [_orthonormal(x, scale) for x in alone])


def _orthonormal(rows: np.ndarray, scale: float) -> np.ndarray:
    """An orthonormal basis, as rows, of the row space; what is short in terms of `scale` is rounding."""
    if rows.size == 0:
        return rows[:0]
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[sizes > RANK * scale]


@dataclass(frozen=True)
class _Units:
    """rotating: scale 1 / v_k of the units that rotate among themselves (0: it does not). free (count, K): combinations of
    units that may move in any direction."""

    rotating: np.ndarray
    free: np.ndarray

    def rotations(self, c: np.ndarray) -> list[np.ndarray]:
        return [self.rotating[:, None] * (turn @ c) for turn in _turns(np.flatnonzero(self.rotating), c.shape[0])]

    def shifts(self, c: np.ndarray) -> list[np.ndarray]:
        return [np.outer(x, axis) for x in self.free for axis in np.eye(c.shape[1])]


def _unit_symmetries(activation: Activation, biased: bool, v: np.ndarray) -> _Units:
    polynomial = activation.polynomial or ()
    silent = np.eye(v.size)[v == 0]
    if len(polynomial) == 2 and np.any(v):  # linear: only v.w matters
        return _Units(np.zeros_like(v), np.linalg.svd(v[None])[2][1:])
    if len(polynomial) == 3 and polynomial[1] == 0 and not biased:
        return _Units(np.divide(1.0, v, out=np.zeros_like(v), where=v != 0), silent)
    return _Units(np.zeros_like(v), silent)


def _turns(chosen: np.ndarray, size: int) -> list[np.ndarray]:
    """Antisymmetric matrices, one for each pair of the chosen indices."""
    out = []
    for a, b in combinations(chosen, 2):
        turn = np.zeros((size, size))
        turn[a, b], turn[b, a] = 1.0, -1.0
        out.append(turn)
    return out


def _input_rotations(problem: Problem, span: Span) -> list[np.ndarray]:
    """Rotations within levels, inside the span, that keep the teacher."""
    t, S = span.teachers, span.lam.size
    turns = [x for l in range(span.outside.size) for x in _turns(np.flatnonzero(span.level == l), S)]
    if not turns:
        return []
    polynomial = problem.teacher.activation.polynomial or ()
    if len(polynomial) == 3 and polynomial[1] == 0 and problem.teacher.bias is None:
        form = t.T * np.asarray(problem.teacher.readout) @ t
        change = [x @ form - form @ x for x in turns]
    else:
        change = [t @ x for x in turns]
    rows = np.reshape(change, (len(turns), -1))
    sides, sizes, _ = np.linalg.svd(rows)
    kept = sides[:, np.sum(sizes > RANK * max(1.0, float(sizes.max(initial=0.0)))) :]
    return [span.students @ np.tensordot(x, turns, 1) for x in kept.T]
