"""Point sets for standard normal numbers, how finely a user wants them (`Quadrature`, `Sampled`), and factors of covariances.

A rule on nodes serves wherever an average has no closed form. Even nodes (`trapezoid`) suit smooth functions, `panels` suit
functions that break at known places, and quasi-random sets suit many fields at once.
"""

from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float

from tutelage import checks
from tutelage._types import Array
from tutelage.errors import InputError
from tutelage.moments.averages import safe_ratio, safe_sqrt
from tutelage.problem.activation import Activation

REACH = 7.0  # standard deviations that a rule covers
TAIL = 9.0  # those that `hermite_transform` covers: high degrees reach farther out
BALL = 5.5  # radius of the held axes at the usual number of points: 3e-7 lies outside
NEAR, MANY = 12.0, 12  # kinks farther out are left to the smooth rule of G; more kinks than that are not followed one by one
MOST_HERMITE = 280  # nodes of a Gauss-Hermite rule: NumPy's weights overflow beyond
LOST = 1e-15  # relative variance below which a field is a combination of the fields before it
SETS = 8  # independent scramblings of a sampled set: their spread estimates its error
Rule1D = tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]  # nodes and weights


class Quadrature(eqx.Module):
    """How finely to average functions without a closed form.

    nodes: per axis, for pairs of fields (tanh: 1e-8 needs 49 at variance 1, 129 at 10, 401 at 100).
    points: for the four-field average of the eta^2 term, shared by its three axes (2**15: 32 x 32 x 28).

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
        """Nodes (Gauss-Hermite) on the axis of a field given those; fewer, for such a field varies less."""
        return min(round(0.875 * self.points ** (1 / 3)), MOST_HERMITE)

    def finer(self) -> "Quadrature":
        """The rule that estimates this one's error: 3/2 the nodes, four times the points."""
        return Quadrature(self.nodes * 3 // 2, self.points * 4)


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


@lru_cache
def trapezoid(count: int) -> Rule1D:
    """Even nodes: exponentially accurate for smooth functions; the tails are below 1e-11."""
    x = np.linspace(-REACH, REACH, count)
    weights = np.exp(-(x**2) / 2)
    return x, weights / weights.sum()


legendre = lru_cache(np.polynomial.legendre.leggauss)  # nodes and weights on (-1, 1)


def panels(
    breaks: Float[Array | np.ndarray, "... count"],
    nodes: int,
    fixed: Sequence[float] = (-REACH, 0.0, REACH),
    xp: ModuleType = jnp,
) -> tuple[Float[Array, "... nodes"], Float[Array, "... nodes"]]:
    """Nodes and weights: Gauss-Legendre between the breaks and the fixed ends, whose first and last bound them.

    xp: numpy, or jax.numpy for breaks that JAX traces.
    """
    ends = xp.broadcast_to(np.asarray(fixed), (*breaks.shape[:-1], len(fixed)))
    ends = xp.sort(xp.concatenate([ends, xp.clip(breaks, fixed[0], fixed[-1])], axis=-1), axis=-1)
    x, weights = legendre(nodes)
    length = xp.diff(ends)[..., None]
    z = (ends[..., :-1, None] + length * (x + 1) / 2).reshape(*breaks.shape[:-1], -1)
    return z, (length * weights).reshape(z.shape) * xp.exp(-(z**2) / 2) / np.sqrt(8 * np.pi)


@lru_cache
def hermite_rule(nodes: int) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, "nodes degrees"]]:
    """Gauss-Hermite nodes, and weights times the normalized Hermite polynomials for degrees below nodes."""
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return z, hermites(z, nodes) * (weights / weights.sum())[:, None]


@lru_cache
def hermite_transform(nodes: int) -> tuple[Float[np.ndarray, " z"], Float[np.ndarray, "z degrees"]]:
    """Even nodes as dense as those of `trapezoid(nodes)`, and weights times the Hermite polynomials that they resolve.

    h_k oscillates with the frequency sqrt(k): nodes at a distance d resolve it up to sqrt(k) = pi / d.
    """
    step = 2 * REACH / (nodes - 1)
    z = step * np.arange(-np.ceil(TAIL / step), np.ceil(TAIL / step) + 1)
    weights = np.exp(-(z**2) / 2)
    return z, hermites(z, int((np.pi / step) ** 2)) * (weights / weights.sum())[:, None]


def hermites(z: Float[np.ndarray, " z"], count: int) -> Float[np.ndarray, "z degrees"]:
    """The normalized Hermite polynomials of degrees below `count`."""
    h = [np.ones_like(z), z]
    for k in range(1, count - 1):
        h.append((z * h[k] - np.sqrt(k) * h[k - 1]) / np.sqrt(k + 1))
    return np.stack(h, axis=1)


@lru_cache
def disc(
    nodes: int, reach: float, axes: int, even: bool = False
) -> tuple[Float[np.ndarray, "points axes"], Float[np.ndarray, " points"]]:
    """The trapezoid rule on several normals within a ball; of even functions, one of each two mirror images."""
    z = np.linspace(-reach, reach, nodes)
    grid = np.stack(np.meshgrid(*[z] * axes), -1).reshape(-1, axes)
    grid = grid[np.sum(grid**2, axis=1) < (1.001 * reach) ** 2]
    density = np.exp(-np.sum(grid**2, axis=1) / 2)
    if even:  # the mirror image of a point stands as far from the end of the list as the point from its beginning
        half = len(grid) // 2
        grid, density = (x[: len(grid) - half] for x in (grid, density))
        density = np.where(np.arange(len(grid)) < half, 2.0, 1.0) * density
    return grid, density / density.sum()


@lru_cache(maxsize=8)
def sobol(points: int, axes: int, seed: int, sets: int = SETS) -> Float[np.ndarray, "points axes"]:
    """Scrambled Sobol sets one after the other, each with exact mean zero and unit covariance; at least `points` in all."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    log2_points, each = int(np.ceil(np.log2(points / sets))), []
    for rng in np.random.default_rng(seed).spawn(sets):
        uniform = qmc.Sobol(axes, scramble=True, rng=rng).random_base2(log2_points)
        e = ndtri(np.clip(uniform, 1e-15, 1 - 1e-15))
        e = e - e.mean(axis=0)
        each.append(np.linalg.solve(np.linalg.cholesky(e.T @ e / len(e)), e.T).T)
    return np.concatenate(each)


@lru_cache(maxsize=512)
def nearest_breaks(activation: Activation) -> tuple[float, ...]:
    """Where g, g' or g'' jumps, sorted: the `MANY` nearest to zero, or all within `NEAR` if these are more."""
    places = sorted(activation.breaks, key=abs)
    within = sum(abs(x) < NEAR for x in places)
    return tuple(sorted(places[: max(MANY, within)]))


def factor(C: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Lower triangular L with L L^T = C. A field that the fields before it determine has an empty column."""
    n = C.shape[0]
    L = jnp.zeros_like(C)
    for column in range(n):
        rest = C[:, column] - L @ L[column]
        pivot = jnp.where(rest[column] > LOST * C[column, column], rest[column], 0.0)
        values = safe_ratio(rest, safe_sqrt(pivot))
        L = L.at[:, column].set(jnp.where(jnp.arange(n) < column, 0.0, values))
    return L


def divide_right(D: Float[Array, "K n"], L: Float[Array, "n n"]) -> Float[Array, "K n"]:
    """c with c L = D, zero where L has an empty column."""
    empty = jnp.diagonal(L) == 0
    full = jnp.where(empty, jnp.eye(L.shape[0]), L)
    return solve_triangular(full, jnp.where(empty, 0.0, D).T, lower=True, trans=1).T


def divide_left(L: Float[Array, "n n"], right: Float[Array, "n P"]) -> Float[Array, "n P"]:
    """L^-1 right; rows of fields without variance of their own are zero."""
    empty = (jnp.diagonal(L) == 0)[:, None]
    return solve_triangular(jnp.where(empty, jnp.eye(L.shape[0]), L), jnp.where(empty, 0.0, right), lower=True)
