"""The rules behind averages by quadrature: how fine they are, their nodes and weights, and where functions break."""

from functools import lru_cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.averages.price import REACH
from tutelage.problem.activation import Activation
from tutelage.problem.breaks import bends_of, jumps_of, kinks_of

BALL = 5.5  # radius of the held axes at the usual number of points: 3e-7 lies outside
NEAR, MANY = 12.0, 12  # kinks farther out are left to the smooth rule of G; more kinks than that are not followed one by one


class Quadrature(eqx.Module):
    """How finely to average functions without a closed form.

    nodes: per axis, for pairs of fields (tanh: 1e-8 needs 49 at variance 1, 129 at 10, 401 at 100).
    points: for the four-field average of the eta^2 term, shared by its three axes (2**15: 32 x 32 x 41).

    >>> import tutelage as tu
    >>> tu.Quadrature(nodes=32, points=4096)
    Quadrature(nodes=32, points=4096)
    """

    nodes: int = eqx.field(static=True, default=64)
    points: int = eqx.field(static=True, default=2**15)

    def __check_init__(self) -> None:
        checks.as_count("nodes", self.nodes, least=8)
        checks.as_count("points", self.points, least=2**9)

    @property
    def held(self) -> int:
        """Nodes (trapezoid) on each of the two axes of the student fields that are held."""
        return round(self.points ** (1 / 3))

    @property
    def reach(self) -> float:
        """How far the held axes go: more points are spent on both, smaller steps and what lies outside."""
        return BALL * max(1.0, self.points / 2**15) ** (1 / 6)

    @property
    def given(self) -> int:
        """Nodes (Gauss-Hermite) on the axis of a field given those; more, for its nodes reach farther out."""
        return round(1.28 * self.points ** (1 / 3))

    def finer(self) -> "Quadrature":
        """The rule that estimates this one's error: 3/2 the nodes, four times the points."""
        return Quadrature(self.nodes * 3 // 2, self.points * 4)


def as_rule(quadrature: Any) -> Quadrature | None:
    """A rule of quadrature, or None for the usual one."""
    if quadrature is not None and not isinstance(quadrature, Quadrature):
        raise InputError(
            f"quadrature is {checks.shown(quadrature)}; it must be a Quadrature, such as Quadrature(nodes=96)."
        )
    return quadrature


def panels(breaks: Array, nodes: int) -> tuple[Array, Array]:
    """A rule for a standard normal: Gauss-Legendre between 0, the breaks (..., count) and the ends; nodes last."""
    fixed = jnp.broadcast_to(np.array([-REACH, 0.0, REACH]), (*breaks.shape[:-1], 3))
    ends = jnp.sort(jnp.concatenate([fixed, jnp.clip(breaks, -REACH, REACH)], axis=-1), axis=-1)
    x, weights = np.polynomial.legendre.leggauss(nodes)
    length = jnp.diff(ends)[..., None]
    z = ends[..., :-1, None] + length * (x + 1) / 2
    weights = length * weights * jnp.exp(-(z**2) / 2) / np.sqrt(8 * np.pi)
    return z.reshape(*breaks.shape[:-1], -1), weights.reshape(*breaks.shape[:-1], -1)


@lru_cache
def hermite_rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite nodes, and weights times the normalized Hermite polynomials, (nodes, degree) for degrees below nodes."""
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return z, hermites(z, nodes) * (weights / weights.sum())[:, None]


def hermites(z: np.ndarray, count: int) -> np.ndarray:
    """The normalized Hermite polynomials of degrees below `count`, (z, degree)."""
    h = [np.ones_like(z), z]
    for k in range(1, count - 1):
        h.append((z * h[k] - np.sqrt(k) * h[k - 1]) / np.sqrt(k + 1))
    return np.stack(h, axis=1)


@lru_cache
def disc(nodes: int, reach: float, axes: int) -> tuple[np.ndarray, np.ndarray]:
    """The trapezoid rule (points, axes) on normals within a ball."""
    z = np.linspace(-reach, reach, nodes)
    grid = np.stack(np.meshgrid(*[z] * axes), -1).reshape(-1, axes)
    grid = grid[np.sum(grid**2, axis=1) < (1.001 * reach) ** 2]
    density = np.exp(-np.sum(grid**2, axis=1) / 2)
    return grid, density / density.sum()


@lru_cache
def normals(points: int, n: int) -> np.ndarray:
    """A fixed antithetic point set with the law of n standard normals, whitened so that its covariance is exact."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    uniform = qmc.Sobol(n, scramble=True, rng=np.random.default_rng(0)).random_base2(int(np.ceil(np.log2(points))) - 1)
    half = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / half.shape[0])).T
    return np.concatenate([half, -half])


@lru_cache(maxsize=512)
def breaks(activation: Activation) -> tuple[float, ...]:
    """Where g, g' or g'' jumps, sorted: the `MANY` nearest to zero, or all within `NEAR` if these are more."""
    if activation.smooth:
        return ()
    function = activation.function
    places = sorted((*jumps_of(function), *kinks_of(function), *bends_of(function)), key=abs)
    within = sum(abs(x) < NEAR for x in places)
    return tuple(sorted(places[: max(MANY, within)]))
