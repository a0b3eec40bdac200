"""Where a black-box function of one variable jumps or bends: for losses and labels, which need not be elementwise.

Every short interval is bisected towards its steeper half: only across a jump does the difference not shrink.
(problem/activation.py searches activations, with their derivatives and more accurately.)
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Points = Float[np.ndarray, " x"]
Values = Float[np.ndarray, "x ..."]
CELLS, SHARE = 514, 1e-3  # intervals that are searched; a jump is at least this share of the function's range


def find_jumps(function: Callable[[Points], Values], reach: float) -> list[float]:
    """Where the function (any trailing shape) jumps within `reach`, increasing; two in one interval count once."""
    return _search(lambda x: _flat(function, x), reach, 44)


def find_breaks(function: Callable[[Points], Values], reach: float) -> list[float]:
    """Where the function or its slope jumps."""
    slope = lambda x: (_flat(function, x + 1e-7) - _flat(function, x - 1e-7)) / 2e-7  # noqa: E731
    places = np.sort([*find_jumps(function, reach), *_search(slope, reach, 28)])
    return places[np.diff(places, prepend=-np.inf) > 1e-4].tolist()


def _flat(function: Callable[[Points], Values], x: Points) -> Float[np.ndarray, "x values"]:
    return np.asarray(function(x), dtype=float).reshape(x.size, -1)


def _search(function: Callable[[Points], Float[np.ndarray, "x values"]], reach: float, halvings: int) -> list[float]:
    edges = np.linspace(-reach - 0.03, reach + 0.05, CELLS + 1)  # no edge on a round number, where a jump is likely
    left, right = edges[:-1].copy(), edges[1:].copy()
    for _ in range(halvings):
        middle = (left + right) / 2
        lower = np.abs(function(middle) - function(left)).sum(1) > np.abs(function(right) - function(middle)).sum(1)
        left, right = np.where(lower, left, middle), np.where(lower, middle, right)
    size = max(float(np.ptp(function(edges), axis=0).max()), 1e-300)
    jump = np.abs(function(right + 1e-6) - function(left - 1e-6)).max(1) > SHARE * size
    return ((left + right) / 2)[jump].tolist()
