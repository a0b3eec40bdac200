"""Numerical building blocks of the averages: safe roots, ratios and arcsines, Cholesky factors of singular covariances.

arcsin is one polynomial, so that a loop over many of them is vectorized: they are most of the right-hand side. XLA's own
goes through atan2, one number at a time: 8 ns each on a CPU against 1.3. With P(s) = arcsin(sqrt s) / sqrt s,
    arcsin x = x P(x^2)                               for 0 <= x <= 1/2,
    arcsin x = pi/2 - 2 z P(z^2),  z^2 = (1 - x) / 2  for 1/2 <= x <= 1,
so that P is needed on [0, 1/4] only, far from its singularity at 1: thirteen terms give 1e-16. The result is within three
units in the last place of the true one everywhere (tests/moments/test_numerics.py).
"""

from collections.abc import Callable
from math import comb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float

from tutelage._types import Array, ArrayLike

ROOM = 2**22  # numbers that one array of an average may hold: 32 MiB
LOST = 1e-15  # relative variance below which a field is a combination of the fields before it
TERMS = 13


def _coefficients() -> list[float]:
    """(P(s) - 1) / s in powers of s: its Taylor series, whose terms are all positive, interpolated at Chebyshev points."""
    taylor = np.polynomial.Polynomial([comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(1, 60)])
    fit = np.polynomial.Chebyshev.interpolate(taylor, TERMS - 1, domain=(0, 0.25))
    return fit.convert(kind=np.polynomial.Polynomial).coef.tolist()


COEFFICIENTS = _coefficients()


def array_module(*arrays: ArrayLike) -> Any:
    """numpy if all of these are NumPy arrays, so that nothing is traced or compiled; else jax.numpy."""
    return np if all(isinstance(x, np.ndarray) for x in arrays) else jnp


@jax.custom_jvp
def safe_arcsin(x: ArrayLike) -> Array:
    """arcsin that stays finite, with finite gradient, where rounding has pushed |x| to one or beyond."""
    size = jnp.minimum(jnp.abs(x), 1.0)
    far = size > 0.5
    s = jnp.where(far, (1 - size) / 2, size**2)
    z = jnp.where(far, jnp.sqrt(s), size)
    rest = COEFFICIENTS[-1]
    for c in COEFFICIENTS[-2::-1]:
        rest = rest * s + c
    angle = z + z * s * rest
    angle = jnp.where(far, jnp.pi / 2 - 2 * angle, angle)
    return jnp.where(x < 0, -angle, angle)


@safe_arcsin.defjvp
def _slope(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """d arcsin x = dx / sqrt(1 - x^2), and nothing where |x| has reached one."""
    (x,), (dx,) = primals, tangents
    square = (1 - x) * (1 + x)
    slope = jnp.where(square > 0, jax.lax.rsqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    return safe_arcsin(x), slope * dx


def safe_sqrt(x: ArrayLike) -> Array:
    """sqrt that is zero, with zero gradient, where rounding has made x negative (or x is zero)."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def safe_ratio(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, and zero where y is zero (a unit of zero norm is correlated with nothing)."""
    nonzero = y != 0
    return jnp.where(nonzero, x / jnp.where(nonzero, y, 1.0), 0.0)


def powers(x: Float[Array, "..."], count: int) -> Float[Array, "... count"]:
    """x^0 to x^(count - 1) on a new last axis, from squares of squares: a loop that is vectorized, unlike `pow`."""
    exponents, square = np.arange(count), x[..., None]
    found = jnp.ones((*x.shape, count))
    for bit in range(max(count - 1, 0).bit_length()):
        found = found * jnp.where(exponents >> bit & 1, square, 1.0)
        square = square**2
    return found


def in_turn(function: Callable[..., Array], *arguments: ArrayLike, size: int) -> Array:
    """`jax.vmap(function)`, but only as many at once as there is `ROOM` for, where one of them holds `size` numbers.

    Nor do derivatives hold more: what was computed in an earlier turn is computed again.
    """
    at_once = max(1, ROOM // size)
    if np.shape(arguments[0])[0] <= at_once:
        return jax.vmap(function)(*arguments)
    return jax.lax.map(jax.checkpoint(lambda each: function(*each)), arguments, batch_size=at_once)


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
