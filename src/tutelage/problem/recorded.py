"""A custom elementwise function, recorded once as the JAX expression that it is at that moment.

Compiled programs are found again by the function they hold, so a function must not change after it was used, and two
functions must be told apart by what they compute, never by their names. A recording has both properties: later changes of
the object (a parameter, a variable of a closure) do not reach it, and equal recordings compute the same.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from tutelage import checks
from tutelage._errors import InputError

Function = Callable[[jax.Array], jax.Array]
NEAR = np.linspace(-6.0, 6.0, 97)
PROBES = np.concatenate([NEAR, np.linspace(-31.3, 29.7, 38), [-900.0, -70.0, 80.0, 1000.0]])


def elementwise_derivative(function: Function) -> Function:
    """f' of an elementwise f: the directional derivative along ones, exact and without a loop over entries."""

    def derivative(x: jax.Array) -> jax.Array:
        return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    return derivative


class Recorded:
    """The recording of a function; raises `InputError` for what is not an elementwise function of JAX."""

    def __init__(self, function: Function, name: str):
        _require_elementwise(function, name)
        self.function, self.name, self.dtype = function, name, jnp.result_type(float)
        try:
            expression = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((), self.dtype))
        except Exception as error:
            raise InputError(_cannot_be_traced(name, error)) from None
        if checks.is_traced(expression.consts):
            raise InputError(
                f"the activation {name!r} depends on a number that JAX traces; a parameter of an activation must be known "
                "when the network is made. Build the network outside grad, jit and vmap, and compare two values instead."
            )
        self._scalar = jaxpr_as_fun(expression)
        self.probe, slope = self._probe()
        consts = tuple(np.asarray(c).tobytes() for c in expression.consts)
        self._key = (name, str(expression), consts, self.probe.tobytes(), slope.tobytes())

    def __call__(self, x: Any) -> jax.Array:
        x = jnp.asarray(x)
        if x.dtype != self.dtype:  # another precision than at the time of recording
            return self.function(x)
        each: Any = self._scalar
        for _ in range(x.ndim):
            each = jax.vmap(each)
        return each(x)[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recorded) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> Any:
        return Recorded, (self.function, self.name)

    def _probe(self) -> tuple[np.ndarray, np.ndarray]:
        """g and g' at `PROBES`, which show what the text of the expression does not; each entry must stand alone."""
        with jax.ensure_compile_time_eval():
            try:
                both = jax.jit(lambda x: (self(x), elementwise_derivative(self)(x), self.function(x)))(PROBES)
            except Exception as error:
                raise InputError(_cannot_be_traced(self.name, error)) from None
        g, slope, together = map(np.asarray, both)
        bad = ~np.isfinite(g[: NEAR.size])
        if bad.any():
            raise InputError(
                f"the activation {self.name!r} is not finite at x = {NEAR[np.argmax(bad)]:g}; it must be finite everywhere."
            )
        size = 1e-6 * float(np.max(np.abs(g[: NEAR.size])))
        if not np.allclose(g, together, rtol=1e-6, atol=size, equal_nan=True):
            raise InputError(
                f"the activation {self.name!r} gives an entry another value among others than alone; it must act on each "
                "entry alone."
            )
        return g, slope


def _cannot_be_traced(name: str, error: Exception) -> str:
    return f"the activation {name!r} cannot be traced by JAX ({type(error).__name__}); write it with jax.numpy."


def _require_elementwise(function: Function, name: str) -> None:
    try:
        out = jax.eval_shape(lambda x: function(x), jax.ShapeDtypeStruct((2, 3), jnp.result_type(float)))
    except Exception as error:
        raise InputError(_cannot_be_traced(name, error)) from None
    if not hasattr(out, "shape") or out.shape != (2, 3):
        shape = getattr(out, "shape", type(out).__name__)
        raise InputError(f"the activation {name!r} maps shape (2, 3) to {shape}; it must act on each entry alone.")
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise InputError(f"the activation {name!r} returns {out.dtype}; it must return real numbers, such as jnp.sign does.")
