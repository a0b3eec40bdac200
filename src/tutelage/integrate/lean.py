"""Fewer instructions for diffrax's last step, which is stretched to the end if it falls short of it by less than 100 floats.

diffrax counts those floats back from the last time, one by one, with a function that serves every number: two fifths of all
instructions of a compiled program, none of which is ever repeated. A product and a difference do the same, to the last bit,
for every finite number that is not subnormal. While a program is traced, diffrax is given that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import equinox.internal as eqxi
import jax.numpy as jnp

from tutelage._types import Array

USUAL = eqxi.prevbefore


@contextmanager
def counting_back_quickly() -> Iterator[None]:
    """Within, diffrax finds the float before a time by `float_before`."""
    eqxi.prevbefore = float_before
    try:
        yield
    finally:
        eqxi.prevbefore = USUAL


def float_before(t: Array) -> Array:
    """The largest float below t. Between 1/2 and 3/2 of the distance to it are taken away, and the rest is rounded.

    With |t| = m 2^e, 1 <= m < 2, that distance is eps 2^e (half of it for t = 2^e), and .7 eps m 2^e is as much as that.
    """
    precision = jnp.finfo(t.dtype)
    return t - jnp.clip(0.7 * precision.eps * jnp.abs(t), precision.tiny, precision.max)  # infinity stays what it is
