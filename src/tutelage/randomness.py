"""Laws of the randomness xi that a label or a learning rule draws at each step.

xi is independent of the input. Every law is a function of standard normal numbers,
`from_normal`, which the theory, simulations and error bars share. The theory enumerates
the values of a discrete law (`enumerated`) and averages any other law over normal
numbers (stream/moments/noise_nodes.py).
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
# Values and their weights.
Weighted: TypeAlias = tuple[
    Float[Array | np.ndarray, "X ..."], Float[Array | np.ndarray, " X"]
]
QuantileFunction: TypeAlias = Callable[[np.ndarray], np.ndarray]
MOST_NODES = 2**10  # combinations of all units that are enumerated
LENGTHS = 3  # nodes of the length of several normal numbers
# 1 - 2^-48 is exact in double precision. Beyond it a quantile function is continued by
# a power law.
OCTAVES = 48
FARTHEST = 38.0  # normal numbers beyond have probability zero in double precision
RESOLVED = 1e-6  # relative error of the interpolation of a quantile function
PROBABLE = 7.0  # normal numbers beyond have probability 3e-12
EVEN = 512  # even entries of a table per unit of z
HALVINGS = 60  # of an interval between two entries of its table, at most
LARGEST = 700.0  # logarithm of the largest quantile of a table
# A tail exponent this close to 1/2, or beyond it, counts as infinite variance; to 1/4,
# as an infinite fourth moment.
INFINITE = 1e-4
# The probabilities of the median, of the quartiles, and of points far outside.
MEDIAN_AND_WIDTHS = np.array([0.5, 0.25, 0.75, 2.0**-10, 1 - 2.0**-10])


@lru_cache
def even_nodes(
    count: int, reach: float
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Return even nodes and weights for a standard normal number.

    They are exponentially accurate for smooth functions.
    """
    z = np.linspace(-reach, reach, count)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


class Law(eqx.Module):
    """The law of the randomness xi of a label or a rule."""

    @property
    def heavy(self) -> bool:
        """True if xi may have heavy tails."""
        return False

    def enumerated(self) -> Weighted | None:
        """Return all values and their probabilities, or None for a continuous law."""
        return None

    @abstractmethod
    def from_normal(self, z: Draws) -> Draws:
        """Return draws of xi, made from standard normal numbers."""


class Normal(Law):
    """A standard normal number."""

    def from_normal(self, z: Draws) -> Draws:
        return z

    def to_normal(self, xi: Draws) -> Draws:
        """Return the normal numbers that these draws are made from."""
        return xi


class Quantile(Law):
    """A continuous law by its quantile function, such as `scipy.stats.t(3).ppf`.

    JAX cannot call the function, so it is interpolated in a table of z with u = Phi(z).
    Beyond u = 2^-48 and 1 - 2^-48 it is continued by the power law of the tail: the
    share of these draws in a heavy-tailed variance can be large.

    Parameters
    ----------
    function : function
        f(u) for an array of u, 0 < u < 1.
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
        """Return the normal numbers that these draws are made from."""
        if self.function is np.positive:
            return ndtri(xi)
        table = quantile_table(self.function)
        size = jnp.arcsinh((xi - table.middle) / table.scale)
        return jnp.interp(size, table.size, table.z)

    def mean_and_variance(self) -> tuple[float, float]:
        """Return mean and variance; an infinite variance raises `InputError`.

        The tails are included.
        """
        table = quantile_table(self.function)
        if not np.isfinite(table.variance):
            raise InputError(
                "the label noise has infinite variance: squared loss has no theory. "
                "Use loss='huber', or simulate."
            )
        return table.mean, table.variance


def has_fourth_moment(function: QuantileFunction) -> bool:
    """Return True if the law of a quantile function has a finite fourth moment."""
    return quantile_table(function).exponent < 0.25 - INFINITE


class QuantileTable(NamedTuple):
    """A quantile function at normal numbers z: x = middle + scale sinh(size).

    size is nearly linear in z between entries. even_sizes: the same at even numbers z,
    which needs no search, if the function is smooth. exponent: quantiles grow as this
    power of 1 / probability, in the heavier tail.
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
    """Return the table of a quantile function, with its mean and variance.

    It is finer where the function is not smooth.
    """
    quantiles = np.asarray(function(MEDIAN_AND_WIDTHS), dtype=float)
    middle = float(quantiles[0])
    distances = np.abs(quantiles[1:] - middle)
    # the width of the center; of its outskirts, where half of all draws are equal
    scale = float(max(distances[:2])) or float(max(distances[2:])) or 1.0

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
    error_of_even = np.abs(np.interp(z, even, even_sizes) - size)
    is_smooth = np.max(error_of_even[np.abs(z) < PROBABLE]) < 10 * RESOLVED
    return QuantileTable(
        z=z,
        size=size,
        even_sizes=even_sizes if is_smooth else None,
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
    """Return quantiles of tail probabilities from 1/2 down to 2^-48, and beyond.

    Beyond 2^-48 they follow a power law.
    """
    # slow to import, and a solve does not need them
    from scipy.special import log_ndtr, ndtri

    # every probability is a multiple of 2^-53, so that 1 - tail has no rounding error
    tail = 2.0 ** -np.arange(1, OCTAVES + 1)
    size = np.arcsinh(values(tail))
    sixteenth = size[-5]
    for _ in range(HALVINGS):
        middle = (tail[:-1] + tail[1:]) / 2
        is_between = (middle != tail[1:]) & (1.0 - (1.0 - middle) == middle)
        z = -ndtri(tail)
        share = (-ndtri(middle) - z[:-1]) / np.diff(z)
        interpolated = size[:-1] + share * np.diff(size)
        # between ends that hardly differ a monotonic function cannot be elsewhere
        candidates = np.flatnonzero(is_between & (np.abs(np.diff(size)) > RESOLVED))
        exact = np.arcsinh(values(middle[candidates]))
        is_coarse = np.abs(exact - interpolated[candidates]) > RESOLVED
        if not np.any(is_coarse):
            break
        place = candidates[is_coarse] + 1
        tail = np.insert(tail, place, middle[candidates[is_coarse]])
        size = np.insert(size, place, exact[is_coarse])
    z = -ndtri(tail)
    # the power of 1 / probability by which the last four octaves grow
    last = np.sinh(size[-1])
    before = np.sinh(sixteenth)
    exponent = 0.0
    if last * before > 0 and abs(last) > abs(before):
        exponent = float(np.log(last / before) / np.log(16.0))
    z_beyond = np.arange(np.ceil(z[-1] * 64 + 1), FARTHEST * 64 + 1) / 64
    log_growth = exponent * (np.log(tail[-1]) - log_ndtr(-z_beyond))
    most = LARGEST - np.log(np.maximum(abs(last), 1.0))
    beyond = last * np.exp(np.minimum(log_growth, most))
    return _Tail(
        z=np.concatenate([z, z_beyond]),
        size=np.concatenate([size, np.arcsinh(beyond)]),
        exponent=exponent,
    )


def _moments(
    z: Float[np.ndarray, " entries"], size: Float[np.ndarray, " entries"]
) -> tuple[float, float]:
    """Return mean and variance of sinh(size), with `size` linear between entries."""
    from scipy.special import ndtr as normal_cdf

    nodes, weights = np.polynomial.legendre.leggauss(4)
    share = (nodes[:, None] + 1) / 2
    z_at_nodes = z[:-1] + share * np.diff(z)
    density = weights[:, None] * np.exp(-(z_at_nodes**2 - z[:-1] ** 2) / 2)
    # the smaller of the two tails, so that a difference of probabilities keeps digits
    sign = np.where(z[1:] > 0, -1.0, 1.0)
    probability = np.abs(normal_cdf(sign * z[1:]) - normal_cdf(sign * z[:-1]))
    density = density * (probability / density.sum(axis=0))
    value = np.sinh(size[:-1] + share * np.diff(size))
    # an infinite variance overflows; the caller knows it by the exponent of the tail
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.sum(density * value))
        return mean, float(np.sum(density * (value - mean) ** 2))


# On (0, 1): the law of xi in a custom label function.
UNIFORM = Quantile(np.positive)


class Discrete(Law):
    """Finitely many values with probabilities.

    Parameters
    ----------
    values, probabilities : array
        The values and one probability for each.
    """

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
        values = jnp.asarray(self.values)
        edges = jnp.cumsum(jnp.asarray(self.probabilities))
        number = jnp.sum(ndtr(z)[..., None] > edges[:-1], axis=-1)
        return values[number]


class PerUnit(Law):
    """An independent draw of one law for each hidden unit: xi has shape (K,).

    Up to 2^10 combinations of discrete values are enumerated. Otherwise a sampled
    average (`Sampled`) draws xi at each of its points, and `trajectory.sampling_error`
    includes the error of these draws. A normal xi gets a pattern at each point, rotated
    at random: three lengths, from the law of |xi|^2, times directions that average
    polynomials of degree 5 exactly.

    Parameters
    ----------
    law : Law
        The law of each entry.
    units : int
        K.

    Examples
    --------
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
        """True if there are few combinations of discrete values."""
        if not isinstance(self.law, Discrete):
            return False
        return np.shape(self.law.values)[0] ** self.units <= MOST_NODES

    def numbers(self, points: int, seed: int) -> Float[np.ndarray, "points numbers"]:
        """Return the random numbers that xi is made from at each point of an average.

        They are normal numbers, or for a normal xi rotations of the units' axes.
        """
        rng = np.random.default_rng([seed, self.units])
        if not isinstance(self.law, Normal):
            return rng.standard_normal((points, self.units))
        matrices = rng.standard_normal((points, self.units, self.units))
        rotations = np.linalg.qr(matrices)[0]
        return rotations.reshape(points, -1)

    def patterns(self) -> Weighted:
        """Return what is averaged at each point: (patterns, units) and weights."""
        if isinstance(self.law, Normal):
            return _normal_pattern(self.units)
        return np.zeros((1, self.units)), np.ones(1)

    def at_points(
        self, pattern: Float[Array, " units"], numbers: Float[Array, "points numbers"]
    ) -> Float[Array, "points units"]:
        """Return xi at every point."""
        if not isinstance(self.law, Normal):
            return jnp.asarray(self.from_normal(numbers))
        rotations = numbers.reshape(-1, self.units, self.units)
        return jnp.einsum("k,pkj->pj", pattern, rotations)

    def enumerated(self) -> Weighted | None:
        if not self.enumerable:
            return None
        of_one_unit = self.law.enumerated()
        assert of_one_unit is not None
        values = jnp.asarray(of_one_unit[0])
        weights = jnp.asarray(of_one_unit[1])
        combinations = np.indices((values.shape[0],) * self.units)
        combinations = combinations.reshape(self.units, -1).T
        probabilities = weights / weights.sum()
        return values[combinations], jnp.prod(probabilities[combinations], axis=1)

    def from_normal(self, z: Draws) -> Draws:
        return self.law.from_normal(z)


@lru_cache(maxsize=8)
def _normal_pattern(units: int) -> Weighted:
    """Return points and weights for standard normal numbers, exact to degree 5.

    They are lengths times directions. |xi|^2 / 2 has a Gamma law, which a
    Gauss-Laguerre rule averages. The directions are the axes and the diagonals of two
    axes, with the weights of the degree-5 rule for the surface of the sphere (Stroud
    1971, U_n: 5-2).
    """
    from scipy.special import roots_genlaguerre

    n = units
    half_squares, length_weights = roots_genlaguerre(LENGTHS, n / 2 - 1)
    identity = np.eye(n)
    axes = np.concatenate([identity, -identity])
    diagonals = []
    for i in range(n):
        for j in range(i):
            for sign_i in (1, -1):
                for sign_j in (1, -1):
                    diagonals.append(sign_i * identity[i] + sign_j * identity[j])
    unit_diagonals = np.sqrt(0.5) * np.reshape(diagonals, (-1, n))
    directions = np.concatenate([axes, unit_diagonals])
    axis_weight = (4 - n) / (2 * n * (n + 2))
    diagonal_weight = 1 / (n * (n + 2))
    direction_weights = np.repeat(
        [axis_weight, diagonal_weight], [2 * n, len(diagonals)]
    )
    points = np.sqrt(2 * half_squares)[:, None, None] * directions
    weights = np.outer(length_weights / length_weights.sum(), direction_weights)
    return points.reshape(-1, n), weights.ravel()
