"""Short features of a rate that is a user's own function of time: where the solver must not step across them.

An adaptive solver sees a function only where it evaluates it, and a burst between two evaluations is invisible. So the
function is scanned on a fine grid first, even in t and even in ln t, and the solver stops at times that divide the
variation of the function (of eta and of ln eta) into equal parts: many inside a burst, none where nothing changes. A stop
within one cell of the grid is moved to where the function crosses the middle of the cell's values; a jump is found to the
last digit. Features shorter than the grid, 1/65536 of the whole time and 0.2% of the time that has passed, can be missed.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array

EVEN, IN_LOG, EARLIEST = 2**16, 2**14, 1e-12  # points of the grid; first of those even in ln t, as a share of the end
PER_SWING, MOST = 32, 256  # stops for each rise or fall of the function's whole range, and altogether
FLOOR = 1e-3  # of the largest rate: changes of ln eta count down to about this share
HALVINGS = 64


def grid(end: Any) -> Array:
    """The times of the scan, increasing, from 0 to the end."""
    shares = np.concatenate([np.linspace(0.0, 1.0, EVEN + 1), np.geomspace(EARLIEST, 1.0, IN_LOG)])
    return jnp.asarray(np.unique(shares)) * end


def stops(rate: Callable[[Array], Array], end: Any) -> Array:
    """At most `MOST` times, increasing; those that are not needed lie beyond the end. Works on traced numbers too."""
    times = jax.lax.stop_gradient(grid(end))
    values = jax.lax.stop_gradient(_on(rate, times))
    parts = [jnp.abs(jnp.diff(v)) for v in (values, jnp.log(values + FLOOR * jnp.max(values) + jnp.finfo(float).tiny))]
    measure = sum(part / jnp.maximum(jnp.sum(part), jnp.finfo(float).tiny) for part in parts)
    count = jnp.clip(PER_SWING * swings(values), PER_SWING, MOST)
    levels = 2.0 * (jnp.arange(MOST) + 0.5) / count
    cell = jnp.minimum(jnp.searchsorted(jnp.cumsum(measure), levels), times.size - 2)
    found = _crossings(rate, times[cell], times[cell + 1], (values[cell] + values[cell + 1]) / 2)
    return jnp.where(levels < jnp.sum(measure), found, 2 * end)


def swings(values: Any) -> Any:
    """How many times the function rises or falls by its whole range."""
    return jnp.sum(jnp.abs(jnp.diff(values))) / jnp.maximum(jnp.ptp(values), jnp.finfo(float).tiny)


def jumps(rate: Callable[[Array], Array], end: float) -> np.ndarray:
    """Those stops at which the function jumps."""
    found = np.unique(np.asarray(stops(rate, end)))
    found = found[found < end]
    gap = 4 * np.finfo(found.dtype).eps * end
    before, after = (np.asarray(_on(rate, jnp.asarray(t))) for t in (np.maximum(found - gap, 0.0), found + gap))
    size = np.ptp(np.asarray(_on(rate, grid(end))))
    return found[np.abs(after - before) > 1e-6 * size]


def _on(rate: Callable[[Array], Array], times: Array) -> Array:
    return jax.vmap(lambda t: jnp.asarray(rate(t), float))(times)


def _crossings(rate: Callable[[Array], Array], low: Array, high: Array, level: Array) -> Array:
    """Where the function passes the level within each cell, by bisection: the first float on the other side."""
    above = _on(rate, low) > level

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        same = jax.lax.stop_gradient(_on(rate, middle) > level) == above
        return jnp.where(same, middle, ends[0]), jnp.where(same, ends[1], middle)

    return jax.lax.fori_loop(0, HALVINGS, halve, (low, high))[1]
