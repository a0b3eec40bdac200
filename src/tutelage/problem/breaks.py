"""Where a function breaks: jumps of g, kinks, where g' jumps, and bends, where g'' does.

What g grows by on a short interval and the integral of g' there differ by a jump alone, up to the error of the rule. So
every interval is halved towards the half that misses more, and only a jump is still missed when nothing is left of it.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.problem.recorded import Function, elementwise_derivative

REACH = 64.0  # breaks farther out are not seen; fields of variance 50 come there once in 1e19
HALVINGS = 44


@lru_cache(maxsize=256)
def jumps_of(function: Function) -> tuple[float, ...]:
    """Where an elementwise function jumps, sorted, within `REACH`."""
    return _missed(function, elementwise_derivative(function))


@lru_cache(maxsize=256)
def kinks_of(function: Function) -> tuple[float, ...]:
    """Where the slope of an elementwise function jumps, and the function does not."""
    slope = elementwise_derivative(function)
    return _without(_missed(slope, elementwise_derivative(slope)), jumps_of(function))


@lru_cache(maxsize=256)
def bends_of(function: Function) -> tuple[float, ...]:
    """Where only the second derivative of an elementwise function jumps."""
    second = elementwise_derivative(elementwise_derivative(function))
    return _without(_missed(second, elementwise_derivative(second)), (*jumps_of(function), *kinks_of(function)))


def _without(places: tuple[float, ...], others: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(x for x in places if all(abs(x - other) > 1e-6 for other in others))


def _missed(h: Function, slope: Function) -> tuple[float, ...]:
    """Where h grows by more than the integral of its slope."""
    near = np.linspace(-8.03, 8.05, 258)  # no end on a round number, where a break is likely
    far = np.geomspace(8.05, REACH, 130)[1:]
    edges = np.concatenate([0.02 - far[::-1], near, far]).astype(jnp.result_type(float))
    with jax.ensure_compile_time_eval():
        left, right, change, size = map(np.asarray, _search(h, slope, edges[:-1], edges[1:]))
    size = np.fmax(size, 1e-3 * np.max(size[np.abs(edges[1:]) < 8]))
    places = ((left + right) / 2)[change > 7 * np.sqrt(np.finfo(edges.dtype).eps) * size]
    return tuple(places[np.diff(places, prepend=-np.inf) > 1e-6].tolist())


@partial(jax.jit, static_argnums=(0, 1))
def _search(h: Function, slope: Function, left: Any, right: Any) -> tuple[Array, Array, Array, Array]:
    """The ends of each interval after all halvings, the change of h that is left, and the size of h on the way."""
    nodes, weights = (each.astype(left.dtype)[:, None, None] for each in np.polynomial.legendre.leggauss(3))

    def halve(_: int, at: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        left, right, size = at[0], at[1], at[3]
        middle = (left + right) / 2
        values = h(jnp.stack([left, middle, right]))
        low, half = jnp.stack([left, middle]), jnp.stack([middle - left, right - middle]) / 2
        integral = half * jnp.sum(weights * slope(low + half * (1 + nodes)), axis=0)
        missed = jnp.abs(jnp.diff(values, axis=0) - integral)
        lower = missed[0] > missed[1]
        size = jnp.fmax(size, jnp.max(jnp.abs(values), axis=0))
        return jnp.where(lower, left, middle), jnp.where(lower, middle, right), jnp.abs(values[2] - values[0]), size

    zero = jnp.zeros_like(left)
    return jax.lax.fori_loop(0, HALVINGS, halve, (jnp.asarray(left), jnp.asarray(right), zero, zero))
