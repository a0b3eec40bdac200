"""Laws of the randomness xi that a label or a learning rule draws at each step, independent of the input.

The theory averages over `nodes()`, weighted values of xi. Simulations and error bars use `from_normal`: xi as a function of
a standard normal number.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array, ArrayLike

Draws: TypeAlias = Float[Array | np.ndarray, "*draws"]  # of xi
Weighted: TypeAlias = tuple[Float[Array | np.ndarray, "X ..."], Float[Array | np.ndarray, " X"]]  # values and weights
QuantileFunction: TypeAlias = Callable[[np.ndarray], np.ndarray]
MOST_NODES = 2**10  # combinations of all units that are enumerated
HERMITE, LENGTHS = 24, 3  # nodes of a normal number per unit; of the length of several
QUANTILES = 400  # mid-quantiles that stand for a continuous law
AFFINE = np.sqrt(3.0) * np.array([-1.0, 0.0, 1.0]), np.array([1.0, 4.0, 1.0]) / 6  # exact up to fifth moments


@lru_cache
def even_nodes(count: int, reach: float) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Even nodes and weights for a standard normal number: exponentially accurate for smooth functions."""
    z = np.linspace(-reach, reach, count)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


class Law(eqx.Module):
    """The law of the randomness xi of a label or a rule: weighted values, and draws."""

    @abstractmethod
    def nodes(self, affine: bool) -> Weighted:
        """Values and weights. affine: the update is affine in xi, so its first four moments are enough."""

    @abstractmethod
    def from_normal(self, z: Draws) -> Draws:
        """Draws of xi from standard normal numbers."""


class Normal(Law):
    """A standard normal number."""

    def nodes(self, affine: bool) -> Weighted:
        return AFFINE if affine else even_nodes(101, 5.0)

    def from_normal(self, z: Draws) -> Draws:
        return z


class Quantile(Law):
    """A continuous law by its quantile function f(u), 0 < u < 1, such as `scipy.stats.t(3).ppf`."""

    function: QuantileFunction = eqx.field(static=True)

    def __check_init__(self) -> None:
        must = "a function of an array, such as scipy.stats.t(3).ppf"
        checks.as_kind("the quantile function", self.function, Callable, must)

    def nodes(self, affine: bool) -> Weighted:
        u = (np.arange(QUANTILES) + 0.5) / QUANTILES
        values, weights = np.asarray(self.function(u), dtype=float), np.full(QUANTILES, 1.0 / QUANTILES)
        return _few_nodes(values, weights) if affine else (values, weights)

    def from_normal(self, z: Draws) -> Draws:
        if self.function is np.positive:  # u itself
            return ndtr(z)
        at = np.linspace(-8.0, 8.0, 4097)  # JAX cannot call the user's function: it is interpolated
        from scipy.special import ndtr as normal_cdf  # slow to import, and a solve does not need it

        u = normal_cdf(at)
        return jnp.interp(z, at, np.asarray(self.function(np.clip(u, 1e-300, 1 - 2**-53)), dtype=float))


def _few_nodes(values: Float[np.ndarray, " X"], weights: Float[np.ndarray, " X"]) -> Weighted:
    """Three values with the same moments up to the fifth: Gauss quadrature of a discrete law."""
    roots = np.sqrt(weights)
    basis = np.linalg.qr(roots[:, None] * np.vander(values / np.max(np.abs(values), initial=1e-300), 3, increasing=True))[0]
    nodes, vectors = np.linalg.eigh(basis.T @ (values[:, None] * basis))
    return nodes, (roots @ basis @ vectors) ** 2


UNIFORM = Quantile(np.positive)  # on (0, 1): the law of xi in a label function of your own


class Discrete(Law):
    """Finitely many values with probabilities."""

    values: ArrayLike = eqx.field(converter=lambda x: jnp.asarray(checks.as_array("values", x)))
    probabilities: ArrayLike = eqx.field(converter=lambda x: jnp.asarray(checks.as_array("probabilities", x)))

    def __check_init__(self) -> None:
        checks.require_shape("probabilities", self.probabilities, np.shape(self.values)[:1], fix="One for each value.")
        checks.require_probabilities("probabilities", self.probabilities)

    def nodes(self, affine: bool) -> Weighted:
        return jnp.asarray(self.values), jnp.asarray(self.probabilities)

    def from_normal(self, z: Draws) -> Draws:
        values, edges = jnp.asarray(self.values), jnp.cumsum(jnp.asarray(self.probabilities))
        return values[jnp.sum(ndtr(z)[..., None] > edges[:-1], axis=-1)]


class PerUnit(Law):
    """An independent draw of one law for each hidden unit: xi has shape (K,).

    Up to 2^10 combinations of discrete values are enumerated. Otherwise a sampled average (`Sampled`) draws xi at each of its
    points, and `trajectory.sampling_error` includes what these draws miss. A normal xi gets a pattern at each point, turned
    by a random rotation: three lengths, from the law of |xi|^2, times directions that average polynomials of degree 5 exactly.

    >>> import tutelage as tu
    >>> law = tu.rules.PerUnit(tu.rules.Discrete([0.0, 2.0], [0.5, 0.5]), units=3)
    >>> law.nodes(affine=False)[0].shape
    (8, 3)
    """

    law: Law
    units: int = eqx.field(static=True, default=1)

    @property
    def enumerable(self) -> bool:
        """Are there few combinations of discrete values?"""
        return isinstance(self.law, Discrete) and np.shape(self.law.values)[0] ** self.units <= MOST_NODES

    def numbers(self, points: int, seed: int) -> Float[np.ndarray, "points numbers"]:
        """What xi is made from at each point of a sampled average: normal numbers, or rotations of the units' axes."""
        rng = np.random.default_rng([seed, self.units])
        if not isinstance(self.law, Normal):
            return rng.standard_normal((points, self.units))
        return np.linalg.qr(rng.standard_normal((points, self.units, self.units)))[0].reshape(points, -1)

    def patterns(self) -> Weighted:
        """What is averaged at each point: (patterns, units) and weights."""
        return _turned_pattern(self.units) if isinstance(self.law, Normal) else (np.zeros((1, self.units)), np.ones(1))

    def at_points(
        self, pattern: Float[Array, " units"], numbers: Float[Array, "points numbers"]
    ) -> Float[Array, "points units"]:
        """xi at every point."""
        if not isinstance(self.law, Normal):
            return jnp.asarray(self.from_normal(numbers))
        return jnp.einsum("k,pkj->pj", pattern, numbers.reshape(-1, self.units, self.units))

    def nodes(self, affine: bool) -> Weighted:
        normal = isinstance(self.law, Normal)  # updates have high powers of xi
        each = np.polynomial.hermite_e.hermegauss(HERMITE) if normal else self.law.nodes(affine)
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
    pairs = [s * np.eye(n)[i] + t * np.eye(n)[j] for i in range(n) for j in range(i) for s in (1, -1) for t in (1, -1)]
    directions = np.concatenate([axes, halves * np.reshape(pairs, (-1, n))])
    weights = np.repeat([(4 - n) / (2 * n * (n + 2)), 1 / (n * (n + 2))], [2 * n, len(pairs)])
    points = np.sqrt(2 * squares)[:, None, None] * directions
    return points.reshape(-1, n), np.outer(share / share.sum(), weights).ravel()
