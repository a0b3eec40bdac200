"""Hidden units in the same order: a permutation of them (with their readouts) is the same network.

A run that found the same solution with other units is relabeled before averaging: the assignment that brings its last R
nearest to the theory's (Hungarian method). A run may follow the theory first and swap units in an escape, so each run is
relabeled from the moment on at which that fits best. Choosing the nearest of K! labelings also pulls noise towards the
theory, so a run keeps its labels unless relabeling makes it clearly nearer (a quarter of the squared distance): units that
are alike, as on a plateau, are never swapped.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from tutelage.comparison.pairing import Pair
from tutelage.problem import Problem

CLEARLY = 0.25  # relabel if the squared distance falls below this share
ROWS = {"R": (-2,), "Q": (-2, -1), "r": (-2,), "q": (-2, -1), "readout": (-1,), "bias": (-1,)}  # axes that count units


@dataclass(frozen=True)
class Matching:
    """permutations: (run, K), theory's unit k is the run's unit permutations[run, k]. signs: (run, K), of odd units whose
    readout changed sign. since: index of the time from which a run is relabeled (number of times: never)."""

    permutations: np.ndarray
    signs: np.ndarray
    since: np.ndarray
    relabeled: np.ndarray

    @property
    def count(self) -> int:
        """How many runs took another permutation than the theory."""
        return int(np.sum(self.relabeled))


def match(pair: Pair) -> tuple[Pair, Matching | None]:
    """The pair with its runs relabeled; None where there are no units to permute."""
    if pair.problem is None or "R" not in pair.theory or pair.theory["R"].shape[-2] < 2:
        return pair, None
    allowed, odd = _exchangeable(pair.problem), _sign_free(pair.problem)
    found = [_match_one(pair, run, allowed, odd) for run in range(pair.count)]
    permutations, signs, since = (np.array(part) for part in zip(*found, strict=True))
    relabeled = since < pair.times.size
    runs = {name: value.copy() if name in ROWS else value for name, value in pair.runs.items()}
    for run in np.flatnonzero(relabeled):
        for name in ROWS.keys() & runs.keys():
            part = runs[name][run, since[run] :]
            runs[name][run, since[run] :] = relabel(name, part, permutations[run], signs[run])
    return pair.with_runs(runs), Matching(permutations, signs, since, relabeled)


def relabel(name: str, values: np.ndarray, permutation: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """A variable with its units in another order (and sign)."""
    for axis in ROWS[name]:
        shape = [1] * values.ndim
        shape[axis] = -1
        values = np.take(values, permutation, axis=axis) * signs.reshape(shape)
    return values


def _match_one(pair: Pair, run: int, allowed: np.ndarray, odd: bool) -> tuple[np.ndarray, np.ndarray, int]:
    from scipy.optimize import linear_sum_assignment

    model, seen = (_rows(x) for x in (pair.theory, {name: value[run] for name, value in pair.runs.items()}))
    K, never = model.shape[1], pair.times.size
    plain, flipped = (_distances(model[-1][:, None], s * seen[-1][None]) for s in (1.0, -1.0))
    cost = np.minimum(plain, flipped) if odd else plain
    permutation = linear_sum_assignment(np.where(allowed, cost, 1e12))[1]
    signs = np.where(odd & (flipped < plain), -1.0, 1.0)[np.arange(K), permutation]
    same = np.array_equal(permutation, np.arange(K)) and np.all(signs > 0)
    if same or cost[np.arange(K), permutation].sum() > CLEARLY * np.trace(plain):
        return np.arange(K), np.ones(K), never
    as_is = _distances(model, seen).sum(axis=1)
    swapped = _distances(model, seen[:, permutation] * signs[:, None]).sum(axis=1)
    before = np.concatenate([[0.0], np.cumsum(as_is)])
    after = swapped.sum() - np.concatenate([[0.0], np.cumsum(swapped)])
    return permutation, signs, min(int(np.argmin(before + after)), never - 1)


def _rows(values: dict[str, np.ndarray]) -> np.ndarray:
    """(time, K, M + 1): what tells units apart, their overlaps with the teachers and their readouts."""
    readout = values.get("readout", np.zeros(values["R"].shape[:-1]))
    return np.concatenate([values["R"], readout[..., None]], axis=-1)


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum((a - b) ** 2, axis=-1)


def _exchangeable(problem: Problem) -> np.ndarray:
    """(K, K): units that the problem treats alike (equal readouts and biases at first, equal frozen parts)."""
    student = problem.student
    marks: list[Any] = [np.asarray(student.readout, dtype=float)]
    if student.bias is not None:
        marks.append(np.asarray(student.bias, dtype=float))
    mask = problem.trainable_mask()
    if mask is not None:
        marks.extend(np.asarray(mask, dtype=float))
    alike = [np.broadcast_to(mark, (student.hidden,)) for mark in marks]
    return np.all([mark[:, None] == mark[None, :] for mark in alike], axis=0)


def _sign_free(problem: Problem) -> bool:
    """g(-x) = -g(x) with a trained readout: (w, v, b) and (-w, -v, -b) are the same unit."""
    x = jnp.linspace(0.1, 3.0, 7)
    g = problem.student.activation
    return bool(problem.student.train_readout) and bool(np.allclose(np.asarray(g(-x)), -np.asarray(g(x)), atol=1e-12))
