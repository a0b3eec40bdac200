"""Point sets for standard normal numbers: where a rule is evaluated when its averages have no closed form.

Axes of the teacher come first. They never move (the teacher does not learn), so a jump of the label is a fixed line there.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import numpy as np

from tutelage import checks
from tutelage._errors import InputError

REACH = 7.0  # standard deviations that a rule covers
SETS = 8  # independent scramblings of a sampled set: their spread estimates its error


class Sampled(eqx.Module):
    """Average over a fixed quasi-random set of `points` samples (scrambled Sobol, eight scramblings, whitened).

    The same points serve at every time, so a solve is repeatable; `trajectory.sampling_error` estimates what they miss.
    points: a power of two from 2^9 up. seed: which set.

    >>> import tutelage as tu
    >>> tu.Sampled(points=2**12)
    Sampled(points=4096)
    """

    points: int = eqx.field(static=True, default=2**14)
    seed: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        count = checks.as_count("points", self.points, least=2**9)
        checks.as_count("seed", self.seed, least=0)
        if count & (count - 1):
            raise InputError(f"points is {count}; it must be a power of two, such as {1 << count.bit_length()}.")
        if count > 2**22:
            raise InputError(f"points is {count}; it must be at most {2**22}. Memory grows with it.")


@lru_cache(maxsize=8)
def sobol(points: int, axes: int, seed: int) -> np.ndarray:
    """(points, axes): SETS scramblings, each with exact mean zero and unit covariance."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    each = points // SETS
    streams = np.random.default_rng(seed).spawn(SETS)
    sets = []
    for rng in streams:
        uniform = qmc.Sobol(axes, scramble=True, rng=rng).random_base2(int(np.log2(each)))
        e = ndtri(np.clip(uniform, 1e-15, 1 - 1e-15))
        e = e - e.mean(axis=0)
        sets.append(np.linalg.solve(np.linalg.cholesky(e.T @ e / each), e.T).T)
    return np.concatenate(sets)


def trapezoid(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Even nodes and weights for a standard normal number: exponentially accurate for smooth functions."""
    x = np.linspace(-REACH, REACH, count)
    weights = np.exp(-(x**2) / 2)
    return x, weights / weights.sum()


def jumps_of(function: Callable[[Any], Any], reach: float = REACH) -> tuple[float, ...]:
    """Where a function of one variable (NumPy in, NumPy out, any trailing shape) jumps or has a kink, up to 16 places.

    Every short interval is bisected towards its steeper half: only across a jump does the difference not shrink.
    """
    edges = np.linspace(-reach - 0.03, reach + 0.05, 515)
    values = lambda x: np.asarray(function(x), dtype=float).reshape(x.size, -1)  # noqa: E731
    found: list[float] = []
    for h in (values, lambda x: (values(x + 1e-7) - values(x - 1e-7)) / 2e-7):
        left, right = edges[:-1].copy(), edges[1:].copy()
        for _ in range(28 if h is not values else 44):
            middle = (left + right) / 2
            lower = np.abs(h(middle) - h(left)).sum(1) > np.abs(h(right) - h(middle)).sum(1)
            left, right = np.where(lower, left, middle), np.where(lower, middle, right)
        size = max(float(np.ptp(h(edges), axis=0).max()), 1e-300)
        jump = np.abs(h(right + 1e-6) - h(left - 1e-6)).max(1) > 1e-3 * size
        found += [float(x) for x in ((left + right) / 2)[jump]]
    places = np.sort(found)
    places = places[np.diff(places, prepend=-np.inf) > 1e-4]
    return tuple(places.tolist()) if places.size <= 16 else ()
