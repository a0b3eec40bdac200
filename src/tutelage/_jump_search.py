"""Where a function of one variable breaks: a jump of g (order 0), of g' (1, a kink) or of g'' (2, a bend).

What g grows by on a short interval and the integral of g' there differ by a jump alone, up to the error of the rule. So every
interval is halved towards the half that misses more, and only a jump is still missed when nothing is left of it.
A function maps an array to an array of its shape, or with more axes behind it: several functions, searched together. Where
one of them is not finite it is left out.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array

Function = Callable[[Array], Array]
REACH = 64.0  # breaks farther out are not seen; fields of variance 50 come there once in 1e19
HALVINGS = 44


def elementwise_derivative(function: Function) -> Function:
    """f' of an elementwise f: the directional derivative along ones, exact and without a loop over entries."""

    def derivative(x: Array) -> Array:
        return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    return derivative


@lru_cache(maxsize=768)
def breaks_of(function: Function, order: int) -> tuple[float, ...]:
    """Where a function jumps (order 0), or only its slope (1) or second derivative (2); sorted, within `REACH`."""
    h = function
    for _ in range(order):
        h = elementwise_derivative(h)
    known = [x for lower in range(order) for x in breaks_of(function, lower)]
    places = _missed(h, elementwise_derivative(h))
    return tuple(x for x in places if all(abs(x - other) > 1e-6 for other in known))


def _missed(h: Function, slope: Function) -> tuple[float, ...]:
    """Where h grows by more than the integral of its slope."""
    near = np.linspace(-8.03, 8.05, 258)  # no end on a round number, where a break is likely
    far = np.geomspace(8.05, REACH, 130)[1:]
    edges = np.concatenate([0.02 - far[::-1], near, far]).astype(jnp.result_type(float))
    with jax.ensure_compile_time_eval():
        left, right, change, size = map(np.asarray, _search(h, slope, edges[:-1], edges[1:]))
    size = np.fmax(size, 1e-3 * np.max(size[np.abs(edges[1:]) < 8], axis=0))
    places = ((left + right) / 2)[np.any(change > 7 * np.sqrt(np.finfo(edges.dtype).eps) * size, axis=1)]
    return tuple(places[np.diff(places, prepend=-np.inf) > 1e-6].tolist())


@partial(jax.jit, static_argnums=(0, 1))
def _search(
    h: Function, slope: Function, left: Float[Array, " I"], right: Float[Array, " I"]
) -> tuple[Float[Array, " I"], Float[Array, " I"], Float[Array, "I V"], Float[Array, "I V"]]:
    """The ends of each interval after all halvings, the change of h that is left, and the size of h on the way."""
    nodes, weights = (each.astype(left.dtype)[:, None, None] for each in np.polynomial.legendre.leggauss(3))

    def values(function: Function, x: Float[Array, "..."]) -> Float[Array, "... V"]:
        found = function(x).reshape(*x.shape, -1)
        return jnp.where(jnp.isfinite(found), found, jnp.nan)

    def halve(_: int, at: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        left, right, size = at[0], at[1], at[3]
        middle = (left + right) / 2
        known = values(h, jnp.stack([left, middle, right]))
        low, half = jnp.stack([left, middle]), jnp.stack([middle - left, right - middle]) / 2
        integral = half[..., None] * jnp.sum(weights[..., None] * values(slope, low + half * (1 + nodes)), axis=0)
        missed = jnp.nansum(jnp.abs(jnp.diff(known, axis=0) - integral), axis=-1)
        lower = missed[0] > missed[1]
        size = jnp.fmax(size, jnp.nanmax(jnp.abs(known), axis=0))
        return jnp.where(lower, left, middle), jnp.where(lower, middle, right), jnp.abs(known[2] - known[0]), size

    zero = jnp.zeros_like(values(h, jnp.asarray(left)))
    return jax.lax.fori_loop(0, HALVINGS, halve, (jnp.asarray(left), jnp.asarray(right), zero, zero))
