"""Fewer instructions for diffrax's last step, which is stretched to the end if it falls short of it by less than 100 floats.

diffrax counts those floats back from the last time, one by one, with a function that serves every number: two fifths of all
instructions of a compiled program, none of which is ever repeated. Times are not negative, and for those a product does it,
to the last bit. While a program is traced, diffrax is given that.
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
    """The largest float below t >= 0: between half an ulp and one is taken away, and the rest is rounded to the next."""
    precision = jnp.finfo(t.dtype)
    return jnp.where(t == 0, -precision.tiny, t * (1 - precision.epsneg))
