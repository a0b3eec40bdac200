"""The eigenvalues of a Hessian, each with its multiplicity and what its directions do, in words.

Equal eigenvalues share a space of directions. It is split wherever a question has the clear answer yes or no for every
direction in it (in the span of the teachers or beside it? all students alike or one against the other?); where the answer
is both, the word is left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tutelage.analysis.geometry.hessian import Hessian
from tutelage.analysis.geometry.orbit import Orbit

SAME = 1e-7  # eigenvalues this close, in units of the largest, are one; this close to zero they are flat
CLEAR = 1e-5  # how far from 0 and 1 the share of a direction in a subspace may be
EQUAL_ERROR, MERELY_FLAT = "along equal error", "merely flat"

# (project directions (count, K, S) on a subspace, its name, the name of the rest)
Question = tuple[Callable[[np.ndarray], np.ndarray], str, str]


@dataclass(frozen=True, eq=False)
class Curvature:
    """One eigenvalue: value (0 where flat), multiplicity, family (what its directions do).

    directions: (count, K, S) in coordinates of the span where level is None; else (count, K, 1), combinations of students
    that take any of the dimensions of that level outside the span. None where the value is predicted, not computed.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> problem = tu.papers.quadratic.quadratic_network(2, 2).problem
    >>> W = np.sqrt(5) * np.eye(2, 5)
    >>> lowest = tu.analysis.landscape(problem, W, W).spectrum[0]
    >>> abs(lowest.value) < 1e-9, lowest.multiplicity
    (True, 1)
    """

    value: float
    multiplicity: int
    family: str
    directions: np.ndarray | None = None
    level: int | None = None


def spectrum_of(hessian: Hessian, orbit: Orbit, critical: bool) -> tuple[Curvature, ...]:
    """All eigenvalues, lowest first. critical: are flat directions along the orbit to be told from others?"""
    parts = [(None, *np.linalg.eigh(hessian.matrix))]
    values, units = np.linalg.eigh(-hessian.A)
    parts += [(l, values * lam, units) for l, lam in enumerate(hessian.span.lam_levels) if hessian.span.outside[l] > 0]
    largest = max((float(np.max(np.abs(values), initial=0.0)) for _, values, _ in parts), default=0.0)
    found = []
    for level, values, vectors in parts:
        for value, directions in _groups(values, vectors, SAME * largest):
            shaped = directions.reshape(len(directions), hessian.A.shape[0], -1)
            for words, some in _told_apart(shaped, _questions(hessian, orbit, level, critical and value == 0.0)):
                times = 1 if level is None else int(hessian.span.outside[level])
                found.append(Curvature(value, len(some) * times, _family(hessian, level, words), some, level))
    return tuple(sorted(found, key=lambda c: (c.value, c.family)))


def _groups(values: np.ndarray, vectors: np.ndarray, tolerance: float) -> Iterator[tuple[float, np.ndarray]]:
    """Eigenvalues that are one, with their directions as rows."""
    breaks = np.flatnonzero(np.diff(values) > tolerance) + 1
    for chosen in np.split(np.arange(values.size), breaks):
        if chosen.size:
            value = float(values[chosen].mean())
            yield (0.0 if abs(value) <= tolerance else value), vectors[:, chosen].T


def _questions(hessian: Hessian, orbit: Orbit, level: int | None, flat: bool) -> list[Question]:
    K, taught = hessian.A.shape[0], hessian.span.taught
    asked: list[Question] = []
    if flat:
        moves = orbit.inside if level is None else orbit.outside[level][:, :, None]
        asked.append((_onto(moves), EQUAL_ERROR, MERELY_FLAT))
    if level is None:
        asked.append((lambda x: x * taught, "in the teachers' span", "beside the teachers' span"))
    if K > 1:
        asked.append((lambda x: np.broadcast_to(x.mean(1, keepdims=True), x.shape), "students alike", "students apart"))
    return asked


def _onto(basis: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.tensordot(np.tensordot(x, basis, ((1, 2), (1, 2))), basis, 1)


def _told_apart(directions: np.ndarray, asked: list[Question]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Split directions by each question that has a clear answer; the answers, and the directions they hold for."""
    if not asked:
        yield [], directions
        return
    (project, yes, no), rest = asked[0], asked[1:]
    shares, turn = np.linalg.eigh(np.tensordot(project(directions), directions, ((1, 2), (1, 2))))
    inside = shares > 0.5
    if np.all(np.abs(shares - inside) < CLEAR):
        for chosen, word in ((inside, yes), (~inside, no)):
            if chosen.any():
                for words, some in _told_apart(np.tensordot(turn[:, chosen].T, directions, 1), rest):
                    yield [word, *words], some
    else:
        yield from _told_apart(directions, rest)


def _family(hessian: Hessian, level: int | None, words: list[str]) -> str:
    if level is not None:
        where = "outside the span" + (f" (level {level + 1})" if len(hessian.span.outside) > 1 else "")
        words = [w for w in words if w in (EQUAL_ERROR, MERELY_FLAT)] + [where] + [w for w in words if w.startswith("stu")]
    return ", ".join(words) if words else "in the span"
