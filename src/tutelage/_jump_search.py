"""Search for the places at which a function of one variable breaks.

A break is a jump of g (order 0), of g' (order 1, a kink) or of g'' (order 2, a bend).

The growth of g on a short interval and the integral of g' there differ by a jump alone,
up to the error of the quadrature. So every interval is halved towards the half in which
they differ more, and only a jump is still missed when nothing is left of the interval.

A function maps an array to an array of its shape, or with more axes behind it: several
functions, searched together. Where one of them is not finite it is left out.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array

ArrayFunction: TypeAlias = Callable[[Array], Array]
# Breaks farther out are not seen; fields of variance 50 come there once in 1e19.
REACH = 64.0
HALVINGS = 44
# Breaks nearer to each other than this are one.
SAME_PLACE = 1e-6


def elementwise_derivative(function: ArrayFunction) -> ArrayFunction:
    """Return f' of an elementwise function f.

    It is the directional derivative along ones, exact and without a loop over entries.
    """

    def derivative(x: Array) -> Array:
        return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    return derivative


@lru_cache(maxsize=768)
def breaks_of(function: ArrayFunction, order: int) -> tuple[float, ...]:
    """Return the places where a function breaks, sorted, within `REACH`.

    order: 0 for jumps of the function, 1 for places where only its slope jumps, 2 for
    those where only its second derivative does.
    """
    derivative = function
    for _ in range(order):
        derivative = elementwise_derivative(derivative)
    lower_breaks = []
    for lower_order in range(order):
        lower_breaks += breaks_of(function, lower_order)

    def is_new(place: float) -> bool:
        return all(abs(place - other) > SAME_PLACE for other in lower_breaks)

    places = _jumps_of(derivative, elementwise_derivative(derivative))
    return tuple(place for place in places if is_new(place))


def _jumps_of(h: ArrayFunction, slope: ArrayFunction) -> tuple[float, ...]:
    """Return the places where h grows by more than the integral of its slope."""
    # no end on a round number, where a break is likely
    near = np.linspace(-8.03, 8.05, 258)
    far = np.geomspace(8.05, REACH, 130)[1:]
    edges = np.concatenate([0.02 - far[::-1], near, far])
    edges = edges.astype(jnp.result_type(float))
    with jax.ensure_compile_time_eval():
        intervals = _halved(h, slope, edges[:-1], edges[1:])
    left = np.asarray(intervals.left)
    right = np.asarray(intervals.right)
    change = np.asarray(intervals.change)
    size = np.asarray(intervals.size)
    # a change is a jump if it exceeds rounding of h, and of the size of h around zero
    size_near_zero = np.max(size[np.abs(edges[1:]) < 8], axis=0)
    size = np.fmax(size, 1e-3 * size_near_zero)
    rounding = 7 * np.sqrt(np.finfo(edges.dtype).eps) * size
    has_jump = np.any(change > rounding, axis=1)
    places = ((left + right) / 2)[has_jump]
    is_first = np.diff(places, prepend=-np.inf) > SAME_PLACE
    return tuple(places[is_first].tolist())


class _Intervals(NamedTuple):
    """Intervals that are halved towards a jump.

    change: of h over the interval. size: the largest |h| met on the way.
    """

    left: Float[Array, " I"]
    right: Float[Array, " I"]
    change: Float[Array, "I V"]
    size: Float[Array, "I V"]


@partial(jax.jit, static_argnums=(0, 1))
def _halved(
    h: ArrayFunction,
    slope: ArrayFunction,
    left: Float[Array, " I"],
    right: Float[Array, " I"],
) -> _Intervals:
    """Return the intervals that are left after all halvings."""
    nodes, weights = np.polynomial.legendre.leggauss(3)
    nodes = nodes.astype(left.dtype)[:, None, None]
    weights = weights.astype(left.dtype)[:, None, None]

    def values(
        function: ArrayFunction, x: Float[Array, "..."]
    ) -> Float[Array, "... V"]:
        result = function(x).reshape(*x.shape, -1)
        return jnp.where(jnp.isfinite(result), result, jnp.nan)

    def halve(_: int, intervals: _Intervals) -> _Intervals:
        left = intervals.left
        right = intervals.right
        middle = (left + right) / 2
        h_values = values(h, jnp.stack([left, middle, right]))
        # the integral of the slope over both halves, by Gauss-Legendre
        lower_ends = jnp.stack([left, middle])
        half_lengths = jnp.stack([middle - left, right - middle]) / 2
        slopes = values(slope, lower_ends + half_lengths * (1 + nodes))
        weighted = jnp.sum(weights[..., None] * slopes, axis=0)
        integral = half_lengths[..., None] * weighted
        growth = jnp.diff(h_values, axis=0)
        missed = jnp.nansum(jnp.abs(growth - integral), axis=-1)
        in_lower_half = missed[0] > missed[1]
        largest = jnp.nanmax(jnp.abs(h_values), axis=0)
        return _Intervals(
            left=jnp.where(in_lower_half, left, middle),
            right=jnp.where(in_lower_half, middle, right),
            change=jnp.abs(h_values[2] - h_values[0]),
            size=jnp.fmax(intervals.size, largest),
        )

    zero = jnp.zeros_like(values(h, jnp.asarray(left)))
    intervals = _Intervals(
        left=jnp.asarray(left), right=jnp.asarray(right), change=zero, size=zero
    )
    return jax.lax.fori_loop(0, HALVINGS, halve, intervals)
