"""Averages of pairs of smooth functions, whose derivatives are again such averages (Price's theorem).

For two jointly Gaussian fields
    d E[f(a) h(b)] = E[f' h'] dC_ab + E[f'' h] dC_aa / 2 + E[f h''] dC_bb / 2 + E[f' h] dm_a + E[f h'] dm_b,
so nothing is ever differentiated through a square root: derivatives of any order hold also where the fields coincide (a
student that is a teacher) or one of them vanishes, where the rule itself, a and what is left of b given a, has none.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.averages._base import in_turn, safe_ratio, safe_sqrt
from tutelage.problem.elementwise import Function, elementwise_derivative

REACH = 7.0
LOST = 1e-13  # relative variance below which a conditional field has none

# Each field's own function: (of the students, of the teachers).
Functions = tuple[Function, Function]


def apply(functions: Functions, fields: Array, K: int, axis: int) -> Array:
    """The students' function on the first K fields along an axis, the teachers' on the others."""
    students, teachers = jnp.split(fields, [K], axis=axis)
    return jnp.concatenate([functions[0](students), functions[1](teachers)], axis=axis)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3, 4))
def pair_averages(nodes: int, K: int, rows: int, first: Functions, second: Functions, C: Array, mean: Array) -> Array:
    """E[f_i h_a] for the first `rows` fields i and all fields a, (rows, n): the trapezoid rule on two normals."""
    z, weights = trapezoid(nodes)
    variance = jnp.diagonal(C)
    s = safe_sqrt(variance)[:rows, None]
    along = safe_ratio(C[:rows], s)
    rest = variance - along**2
    across = safe_sqrt(jnp.where(rest > LOST * variance, rest, 0.0))
    values = apply(first, mean[:rows, None] + s * z, K, axis=0)

    def row(along: Array, across: Array, values: Array) -> Array:
        at = mean[:, None, None] + along[:, None, None] * z[:, None]
        given = apply(second, at + across[:, None, None] * z, K, axis=0) @ weights  # (n, z)
        return given @ (values * weights)

    return in_turn(row, along, across, values, size=C.shape[0] * nodes**2)


@partial(pair_averages.defjvp, symbolic_zeros=True)
def _price(nodes: int, K: int, rows: int, first: Functions, second: Functions, primals: Any, tangents: Any) -> Any:
    C, mean = primals
    dC, d_mean = tangents

    def average(f: Functions, h: Functions) -> Array:
        return pair_averages(nodes, K, rows, f, h, C, mean)

    slopes, curvatures = (_derivatives(first), _derivatives(second)), (_twice(first), _twice(second))
    total = jnp.zeros((rows, C.shape[0]))
    if not _is_zero(dC):
        d_own = jnp.diagonal(dC)
        total = total + average(*slopes) * dC[:rows]
        total = total + (average(curvatures[0], second) * d_own[:rows, None] + average(first, curvatures[1]) * d_own) / 2
    if not _is_zero(d_mean):
        total = total + average(slopes[0], second) * d_mean[:rows, None] + average(first, slopes[1]) * d_mean
    return average(first, second), total


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


def _derivatives(functions: Functions) -> Functions:
    return elementwise_derivative(functions[0]), elementwise_derivative(functions[1])


def _twice(functions: Functions) -> Functions:
    return _derivatives(_derivatives(functions))


@lru_cache
def trapezoid(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for a standard normal: exponentially accurate for smooth functions, the tails are below 1e-11."""
    z = np.linspace(-REACH, REACH, nodes)
    density = np.exp(-(z**2) / 2)
    return z, density / density.sum()
