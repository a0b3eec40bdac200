"""Laws of the randomness xi that a label or a learning rule draws at each step, independent of the input.

Every law is a function of standard normal numbers, `from_normal`, which the theory, simulations and error bars use alike. The
theory enumerates the values of a discrete law (`enumerated`) and averages any other one over normal numbers
(moments/noise_nodes.py).
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError

Draws: TypeAlias = Float[Array | np.ndarray, "*draws"]  # of xi
Weighted: TypeAlias = tuple[
    Float[Array | np.ndarray, "X ..."], Float[Array | np.ndarray, " X"]
]  # values and weights
QuantileFunction: TypeAlias = Callable[[np.ndarray], np.ndarray]
MOST_NODES = 2**10  # combinations of all units that are enumerated
LENGTHS = 3  # nodes of the length of several normal numbers
OCTAVES = 48  # 1 - 2^-48 is exact in double precision; beyond it a quantile function is continued by a power law
FARTHEST = 38.0  # normal numbers beyond have probability zero in double precision
RESOLVED = 1e-6  # relative error of the interpolation of a quantile function
PROBABLE = 7.0  # normal numbers beyond have probability 3e-12
EVEN = 512  # even entries of a table per unit of z
HALVINGS = 60  # of an interval between two entries of its table, at most
LARGEST = 700.0  # logarithm of the largest quantile of a table
# a tail exponent so near to 1/2, or beyond it, counts as infinite variance; to 1/4, as
# infinite fourth moment
INFINITE = 1e-4


@lru_cache
def even_nodes(
    count: int, reach: float
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Even nodes and weights for a standard normal number: exponentially accurate for smooth functions."""
    z = np.linspace(-reach, reach, count)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


class Law(eqx.Module):
    """The law of the randomness xi of a label or a rule."""

    @property
    def heavy(self) -> bool:
        """Whether xi may have heavy tails."""
        return False

    def enumerated(self) -> Weighted | None:
        """All values and their probabilities; None for a continuous law."""
        return None

    @abstractmethod
    def from_normal(self, z: Draws) -> Draws:
        """Draws of xi from standard normal numbers."""


class Normal(Law):
    """A standard normal number."""

    def from_normal(self, z: Draws) -> Draws:
        return z

    def to_normal(self, xi: Draws) -> Draws:
        """The normal numbers that these draws are made from."""
        return xi


class Quantile(Law):
    """A continuous law by its quantile function f(u), 0 < u < 1, such as `scipy.stats.t(3).ppf`.

    JAX cannot call the function, so it is interpolated in a table of z with u = Phi(z). Beyond u = 2^-48 and 1 - 2^-48 it is
    continued by the power law of the tail: the share of these draws in a heavy-tailed variance can be large.
    """

    function: QuantileFunction = eqx.field(static=True)

    def __check_init__(self) -> None:
        must = "a function of an array, such as scipy.stats.t(3).ppf"
        checks.as_kind("the quantile function", self.function, Callable, must)

    @property
    def heavy(self) -> bool:
        return self.function is not np.positive

    def from_normal(self, z: Draws) -> Draws:
        if self.function is np.positive:  # u itself
            return ndtr(z)
        table = quantile_table(self.function)
        if table.even_sizes is None:
            size = jnp.interp(z, table.z, table.size)
        else:
            place = jnp.clip((z + FARTHEST) * EVEN, 0.0, 2 * FARTHEST * EVEN - 1e-6)
            below = jnp.floor(place).astype(int)
            sizes = jnp.asarray(table.even_sizes)
            size = sizes[below] + (place - below) * (sizes[below + 1] - sizes[below])
        return table.middle + table.scale * jnp.sinh(size)

    def to_normal(self, xi: Draws) -> Draws:
        """The normal numbers that these draws are made from."""
        if self.function is np.positive:
            return ndtri(xi)
        table = quantile_table(self.function)
        return jnp.interp(
            jnp.arcsinh((xi - table.middle) / table.scale), table.size, table.z
        )

    def mean_and_variance(self) -> tuple[float, float]:
        """Mean and variance, tails included. An infinite variance raises `InputError`."""
        table = quantile_table(self.function)
        if not np.isfinite(table.variance):
            raise InputError(
                "the label noise has infinite variance: squared loss has no theory. Use loss='huber', or simulate."
            )
        return table.mean, table.variance


def has_fourth_moment(function: QuantileFunction) -> bool:
    """Whether the fourth moment of a law, by its quantile function, is finite."""
    return quantile_table(function).exponent < 0.25 - INFINITE


class QuantileTable(NamedTuple):
    """A quantile function at normal numbers z: x = middle + scale sinh(size), nearly linear in z between entries.

    even_sizes: the same at even numbers z, which needs no search, if the function is smooth.
    exponent: quantiles grow as this power of 1 / probability, in the heavier tail.
    """

    z: Float[np.ndarray, " entries"]
    size: Float[np.ndarray, " entries"]
    even_sizes: Float[np.ndarray, " even"] | None
    middle: float
    scale: float
    mean: float
    variance: float
    exponent: float


@lru_cache(maxsize=32)
def quantile_table(function: QuantileFunction) -> QuantileTable:
    """The table of a quantile function, finer where the function is not smooth, with its mean and variance."""
    quartiles = np.asarray(
        function(np.array([0.5, 0.25, 0.75, 2.0**-10, 1 - 2.0**-10])), dtype=float
    )
    middle = float(quartiles[0])
    away = np.abs(quartiles[1:] - middle)
    # the width of the center; of its outskirts, where half of all draws are equal
    scale = float(max(away[:2])) or float(max(away[2:])) or 1.0

    def upper(tail: np.ndarray) -> np.ndarray:
        return (np.asarray(function(1.0 - tail), dtype=float) - middle) / scale

    def lower(tail: np.ndarray) -> np.ndarray:
        return (np.asarray(function(tail), dtype=float) - middle) / scale

    above = _one_tail(upper)
    below = _one_tail(lower)
    z = np.concatenate([-below.z[::-1], above.z[1:]])
    size = np.concatenate([below.size[::-1], above.size[1:]])
    mean, variance = _moments(z, size)
    exponent = max(above.exponent, below.exponent)
    if exponent > 0.5 - INFINITE:
        variance = np.inf
    even = np.linspace(-FARTHEST, FARTHEST, int(2 * FARTHEST * EVEN) + 1)
    even_sizes = np.interp(even, z, size)
    inside = np.abs(z) < PROBABLE
    lost = np.max(np.abs(np.interp(z, even, even_sizes) - size)[inside])
    return QuantileTable(
        z=z,
        size=size,
        even_sizes=even_sizes if lost < 10 * RESOLVED else None,
        middle=middle,
        scale=scale,
        mean=middle + scale * mean,
        variance=scale**2 * variance,
        exponent=exponent,
    )


class _Tail(NamedTuple):
    """Half of a table. exponent: quantiles grow as this power of 1 / probability."""

    z: Float[np.ndarray, " entries"]
    size: Float[np.ndarray, " entries"]
    exponent: float


def _one_tail(values: Callable[[np.ndarray], np.ndarray]) -> _Tail:
    """Quantiles of tail probabilities from 1/2 down to 2^-48, and beyond by a power law."""
    from scipy.special import (  # slow to import, and a solve does not need them
        log_ndtr,
        ndtri,
    )

    # every probability is a multiple of 2^-53, so that 1 - tail has no rounding error
    tail = 2.0 ** -np.arange(1, OCTAVES + 1)
    size = np.arcsinh(values(tail))
    sixteenth = size[-5]
    for _ in range(HALVINGS):
        middle = (tail[:-1] + tail[1:]) / 2
        inside = (middle != tail[1:]) & (1.0 - (1.0 - middle) == middle)
        z = -ndtri(tail)
        at = (-ndtri(middle) - z[:-1]) / np.diff(z)
        guess = size[:-1] + at * np.diff(size)
        # between ends that hardly differ a monotonic function cannot be elsewhere
        open_ = np.flatnonzero(inside & (np.abs(np.diff(size)) > RESOLVED))
        found = np.arcsinh(values(middle[open_]))
        wrong = np.abs(found - guess[open_]) > RESOLVED
        if not np.any(wrong):
            break
        place = open_[wrong] + 1
        tail = np.insert(tail, place, middle[open_[wrong]])
        size = np.insert(size, place, found[wrong])
    z = -ndtri(tail)
    last = np.sinh(size[-1])
    before = np.sinh(sixteenth)
    exponent = 0.0
    if last * before > 0 and abs(last) > abs(before):
        exponent = float(np.log(last / before) / np.log(16.0))
    beyond = np.arange(np.ceil(z[-1] * 64 + 1), FARTHEST * 64 + 1) / 64
    growth = exponent * (np.log(tail[-1]) - log_ndtr(-beyond))
    farther = last * np.exp(
        np.minimum(growth, LARGEST - np.log(np.maximum(abs(last), 1.0)))
    )
    return _Tail(
        np.concatenate([z, beyond]),
        np.concatenate([size, np.arcsinh(farther)]),
        exponent,
    )


def _moments(
    z: Float[np.ndarray, " entries"], size: Float[np.ndarray, " entries"]
) -> tuple[float, float]:
    """Mean and variance of sinh(size), with `size` linear between the entries."""
    from scipy.special import ndtr as normal_cdf

    nodes, weights = np.polynomial.legendre.leggauss(4)
    at = (nodes[:, None] + 1) / 2
    here = z[:-1] + at * np.diff(z)
    density = weights[:, None] * np.exp(-(here**2 - z[:-1] ** 2) / 2)
    sign = np.where(z[1:] > 0, -1.0, 1.0)  # differences of small numbers
    probability = np.abs(normal_cdf(sign * z[1:]) - normal_cdf(sign * z[:-1]))
    density = density * (probability / density.sum(axis=0))
    value = np.sinh(size[:-1] + at * np.diff(size))
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # of an infinite variance, which the caller knows by its tail
        mean = float(np.sum(density * value))
        return mean, float(np.sum(density * (value - mean) ** 2))


UNIFORM = Quantile(
    np.positive
)  # on (0, 1): the law of xi in a label function of your own


class Discrete(Law):
    """Finitely many values with probabilities."""

    values: ArrayLike = eqx.field(
        converter=lambda x: jnp.asarray(checks.as_array("values", x))
    )
    probabilities: ArrayLike = eqx.field(
        converter=lambda x: jnp.asarray(checks.as_array("probabilities", x))
    )

    def __check_init__(self) -> None:
        checks.require_shape(
            "probabilities",
            self.probabilities,
            np.shape(self.values)[:1],
            fix="One for each value.",
        )
        checks.require_probabilities("probabilities", self.probabilities)

    def enumerated(self) -> Weighted:
        return jnp.asarray(self.values), jnp.asarray(self.probabilities)

    def from_normal(self, z: Draws) -> Draws:
        values, edges = (
            jnp.asarray(self.values),
            jnp.cumsum(jnp.asarray(self.probabilities)),
        )
        return values[jnp.sum(ndtr(z)[..., None] > edges[:-1], axis=-1)]


class PerUnit(Law):
    """An independent draw of one law for each hidden unit: xi has shape (K,).

    Up to 2^10 combinations of discrete values are enumerated. Otherwise a sampled average (`Sampled`) draws xi at each of its
    points, and `trajectory.sampling_error` includes what these draws miss. A normal xi gets a pattern at each point, turned
    by a random rotation: three lengths, from the law of |xi|^2, times directions that average polynomials of degree 5 exactly.

    >>> import tutelage as tu
    >>> law = tu.rules.PerUnit(tu.rules.Discrete([0.0, 2.0], [0.5, 0.5]), units=3)
    >>> law.enumerated()[0].shape
    (8, 3)
    """

    law: Law
    units: int = eqx.field(static=True, default=1)

    @property
    def heavy(self) -> bool:
        return self.law.heavy

    @property
    def enumerable(self) -> bool:
        """Are there few combinations of discrete values?"""
        return (
            isinstance(self.law, Discrete)
            and np.shape(self.law.values)[0] ** self.units <= MOST_NODES
        )

    def numbers(self, points: int, seed: int) -> Float[np.ndarray, "points numbers"]:
        """What xi is made from at each point of a sampled average: normal numbers, or rotations of the units' axes."""
        rng = np.random.default_rng([seed, self.units])
        if not isinstance(self.law, Normal):
            return rng.standard_normal((points, self.units))
        return np.linalg.qr(rng.standard_normal((points, self.units, self.units)))[
            0
        ].reshape(points, -1)

    def patterns(self) -> Weighted:
        """What is averaged at each point: (patterns, units) and weights."""
        return (
            _turned_pattern(self.units)
            if isinstance(self.law, Normal)
            else (np.zeros((1, self.units)), np.ones(1))
        )

    def at_points(
        self, pattern: Float[Array, " units"], numbers: Float[Array, "points numbers"]
    ) -> Float[Array, "points units"]:
        """xi at every point."""
        if not isinstance(self.law, Normal):
            return jnp.asarray(self.from_normal(numbers))
        return jnp.einsum(
            "k,pkj->pj", pattern, numbers.reshape(-1, self.units, self.units)
        )

    def enumerated(self) -> Weighted | None:
        if not self.enumerable:
            return None
        each = self.law.enumerated()
        assert each is not None
        values, weights = map(jnp.asarray, each)
        which = np.indices((values.shape[0],) * self.units).reshape(self.units, -1).T
        return values[which], jnp.prod((weights / weights.sum())[which], axis=1)

    def from_normal(self, z: Draws) -> Draws:
        return self.law.from_normal(z)


@lru_cache(maxsize=8)
def _turned_pattern(units: int) -> Weighted:
    """Points and weights for standard normal numbers, exact to degree 5: lengths times directions (Stroud)."""
    # |xi|^2 / 2 has a Gamma law, which a Gauss-Laguerre rule averages; directions are the axes and the diagonals of two axes
    n, halves = units, np.sqrt(0.5)
    from scipy.special import roots_genlaguerre

    squares, share = roots_genlaguerre(LENGTHS, n / 2 - 1)
    axes = np.concatenate([np.eye(n), -np.eye(n)])
    pairs = [
        s * np.eye(n)[i] + t * np.eye(n)[j]
        for i in range(n)
        for j in range(i)
        for s in (1, -1)
        for t in (1, -1)
    ]
    directions = np.concatenate([axes, halves * np.reshape(pairs, (-1, n))])
    weights = np.repeat(
        [(4 - n) / (2 * n * (n + 2)), 1 / (n * (n + 2))], [2 * n, len(pairs)]
    )
    points = np.sqrt(2 * squares)[:, None, None] * directions
    return points.reshape(-1, n), np.outer(share / share.sum(), weights).ravel()
