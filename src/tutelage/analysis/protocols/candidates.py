"""The protocols from which descents begin."""

from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from tutelage.analysis.protocols.descents import descend
from tutelage.analysis.protocols.evaluation import Evaluation, by_value
from tutelage.analysis.protocols.search import FAILED, Search
from tutelage.errors import InputError

SMALLEST = 1e-12  # errors below this are not solved to a digit

# The protocols from which descents begin
SCANNED = 16  # constant protocols that are tried for each control
CORNERS = 16  # protocols between extreme values that are tried
PHASES = 8  # of the greedy protocol from which a descent may begin, at most
LEVELS = 5  # values of each control that are tried in each of these phases
CONSTANT_STARTS = 2  # descents among constant protocols
CONSTANT_ITERATIONS = 100
APART = 0.15  # of the range: protocols this far apart are different starts


class Candidate(NamedTuple):
    """A protocol from which a descent may begin, and its value."""

    point: np.ndarray
    value: float


def candidate_at(search: Search, point: np.ndarray) -> Candidate:
    """Return a candidate at a point."""
    return Candidate(point, search.value_at(point))


def _finite(candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates that do not diverge, best first."""
    finite = [candidate for candidate in candidates if candidate.value < FAILED]
    return sorted(finite, key=by_value)


def best_constants(search: Search) -> tuple[Evaluation, list[Candidate]]:
    """Return the best constant protocol, and all that were tried and stay finite.

    The latter are ordered, best first.
    """
    size = sum(search.rows)
    halton = qmc.Halton(size, scramble=False).random(SCANNED * size + 1)
    points = np.vstack([np.full(size, 0.5), halton[1:]])
    candidates = _finite([candidate_at(search, point) for point in points])
    kept: list[Evaluation] = []
    for point in _apart(candidates, CONSTANT_STARTS):
        descend(search, point, CONSTANT_ITERATIONS, kept)
    if not kept:
        raise InputError(
            f"no constant protocol stays finite up to t_max = {search.edges[-1]:g}; "
            "give lower bounds."
        )
    best = min(kept, key=by_value)
    if not callable(search.objective) and np.exp(best.value) < SMALLEST:
        raise InputError(
            f"a constant protocol reaches {np.exp(best.value):.1g}, mere rounding; "
            "shorten t_max or add noise."
        )
    return best, candidates


def within_budgets(search: Search, point: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the point nearest to `point` that keeps the budgets.

    It lies on the line to a point inside them.
    """
    for share in np.linspace(1.0, 0.0, 21):
        mixed = inside + share * (point - inside)
        if search.keeps_budgets(mixed):
            return mixed
    return inside


def corner_protocols(search: Search) -> list[np.ndarray]:
    """Return some protocols whose controls jump between their bounds.

    Constant ones are left out.
    """
    rows = sum(search.rows)
    most_phases = 3 if rows == 1 else 2
    phases = min(search.shares.size, most_phases)
    size = rows * phases
    if size <= np.log2(CORNERS):
        corners = np.array(list(np.ndindex(*[2] * size)), float)
    else:
        halton = qmc.Halton(size, scramble=False).random(CORNERS)
        corners = np.unique(np.round(halton), axis=0)
    changing = np.ptp(corners.reshape(-1, rows, phases), axis=2).max(axis=1) > 0
    return [search.whole(corner) for corner in corners[changing]]


def greedy_protocol(search: Search) -> np.ndarray:
    """Return the protocol that is best at the end of each phase in turn."""
    rows = sum(search.rows)
    phases = min(search.shares.size, PHASES)
    table = np.full((rows, phases), 0.5)
    ends = search.edges[-1] * np.arange(1, phases + 1) / phases
    for phase, end in enumerate(ends):
        for row in range(rows):
            choices = []
            for level in np.linspace(0.0, 1.0, LEVELS):
                table[row, phase:] = level
                choices.append((search.value_at(table.ravel(), end), level))
            _, best_level = min(choices)
            table[row, phase:] = best_level
    return search.whole(table.ravel())


def first_points(
    search: Search, constant: Evaluation, constants: list[Candidate], count: int
) -> list[np.ndarray]:
    """Return the points from which descents begin.

    These are the best constant protocol, the middle, the greedy protocol and then the
    best ones of all constants and corners that differ from those before them.
    """
    inside = search.whole(constant.point)
    middle = search.whole(np.full(sum(search.rows), 0.5))
    first = [inside, middle]
    if not callable(search.objective):
        first.append(greedy_protocol(search))
    more = [search.whole(candidate.point) for candidate in constants]
    if search.shares.size > 1:
        more += corner_protocols(search)
    always = [
        Candidate(within_budgets(search, point, inside), -np.inf) for point in first
    ]
    scanned = [
        candidate_at(search, within_budgets(search, point, inside)) for point in more
    ]
    return _apart([*always, *_finite(scanned)], count)


def _apart(candidates: list[Candidate], count: int) -> list[np.ndarray]:
    """Return the first points that differ; fewer if there are no more."""
    chosen: list[np.ndarray] = []
    for point, _ in candidates:
        if all(np.max(np.abs(point - other)) >= APART for other in chosen):
            chosen.append(point)
    return chosen[:count]
