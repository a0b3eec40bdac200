"""The textbook integrals `I2`, `I3`, `I4`, `J2`: they check a derivation, or help to write custom equations."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tutelage import checks
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError
from tutelage.moments.averages import Averages
from tutelage.moments.matrices import averages_for
from tutelage.moments.nodes import Quadrature
from tutelage.problem.activation import Activation, as_activation


def I2(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g(a) g(b)] for jointly Gaussian (a, b) with covariance C of shape (..., 2, 2)."""
    return _average("I2", activation, C, 2, 2, quadrature)


def J2(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g'(a) g'(b)] for jointly Gaussian (a, b) with covariance C of shape (..., 2, 2)."""
    return _average("J2", activation, C, 2, 1, quadrature)


def I3(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g'(a) b g(c)] for jointly Gaussian (a, b, c) with covariance C of shape (..., 3, 3).

    By Stein's lemma C_ab E[g''(a) g(c)] + C_bc E[g'(a) g'(c)].
    """
    return _average("I3", activation, C, 3, 1, quadrature)


def I4(activation: str | Activation, C: ArrayLike, quadrature: Quadrature | None = None) -> Array:
    """E[g'(a) g'(b) g(c) g(d)] for jointly Gaussian (a, b, c, d) with covariance C of shape (..., 4, 4)."""
    return _average("I4", activation, C, 4, 2, quadrature)


def _polarized(e: Averages, c: Array) -> Array:
    third, fourth = jnp.array([0.0, 0, 1, 0]), jnp.array([0.0, 0, 0, 1])
    both = e.slopes_squared_error(c, None, third + fourth) - e.slopes_squared_error(c, None, third - fourth)
    return both[0, 1] / 4


FORMULAS = {
    "I2": lambda e, c: e.outputs(c, None)[0, 1],
    "J2": lambda e, c: e.slopes(c, None)[0, 1],
    "I3": lambda e, c: c[0, 1] * e.curvatures(c, None)[0, 2] + c[1, 2] * e.slopes(c, None)[0, 2],
    "I4": _polarized,
}


@eqx.filter_jit
def _evaluate(name: str, family: Averages, C: Array) -> Array:
    return jax.vmap(lambda c: FORMULAS[name](family, c))(C)


def _average(
    name: str, activation: str | Activation, C: ArrayLike, fields: int, students: int, quadrature: Quadrature | None
) -> Array:
    g = as_activation(activation)
    if name != "I2" and not g.trainable:
        raise InputError(f"{name} needs the derivative of {g.name!r}, which has none; use 'erf', or I2 alone.")
    C = jnp.asarray(checks.as_array("C", C))
    if C.ndim < 2 or C.shape[-2:] != (fields, fields):
        raise InputError(f"C has shape {C.shape}; {name} needs (..., {fields}, {fields}), the covariance of its fields.")
    checks.require_gram("C", C)
    family = averages_for(g, g, students, fields - students, quadrature=quadrature)
    return _evaluate(name, family, C.reshape(-1, fields, fields)).reshape(C.shape[:-2])
