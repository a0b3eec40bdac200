"""What a hidden unit computes: an activation is a name, a function and its first two derivatives.

How its Gaussian averages are found is not said here (averages/ does that); a function without a closed form is simply
averaged by quadrature. To add one by name, add a line to `NAMED`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, factorial

import jax
import jax.numpy as jnp

from tutelage import _checks
from tutelage._errors import InputError

Function = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class Activation:
    """An elementwise function g of a field.

    `polynomial` holds the coefficients (constant first) when g is one: averages of polynomials are exact.
    `trainable` is False for functions that jump (sign): they have no slope to follow and serve as teachers only.
    `smooth` is False where g' may jump: its second derivative is then never evaluated pointwise.
    `parity` is 1 for even functions, -1 for odd ones, 0 where neither is known. `increasing`: known to be.

    >>> import tutelage as tu
    >>> g = tu.Network(1, "erf").activation
    >>> g.name, g.parity, round(float(g.slope(0.0)), 6)                 # sqrt(2/pi)
    ('erf', -1, 0.797885)
    """

    name: str
    function: Function
    polynomial: tuple[float, ...] | None = None
    trainable: bool = True
    smooth: bool = True
    parity: int = 0
    increasing: bool = False

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.function(x)

    @property
    def slope(self) -> Function:
        """g', elementwise."""
        return elementwise_derivative(self.function)

    @property
    def curvature(self) -> Function:
        """g'', elementwise."""
        return elementwise_derivative(self.slope)

    def __repr__(self) -> str:
        return f"<activation {self.name}>"


def elementwise_derivative(function: Function) -> Function:
    """f' of an elementwise f: the directional derivative along ones, exact and without a loop over entries."""

    def derivative(x: jax.Array) -> jax.Array:
        return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    return derivative


def _polynomial(name: str, coefficients: tuple[float, ...]) -> Activation:
    def function(x: jax.Array) -> jax.Array:
        return jnp.polyval(jnp.asarray(coefficients[::-1], dtype=jnp.result_type(float)), x)

    powers = {p % 2 for p, c in enumerate(coefficients) if c != 0}
    parity = {frozenset({0}): 1, frozenset({1}): -1}.get(frozenset(powers), 0)
    return Activation(name, function, polynomial=coefficients, parity=parity, increasing=coefficients == (0.0, 1.0))


def hermite(degree: int) -> tuple[float, ...]:
    """Coefficients of the probabilists' Hermite polynomial He_n, constant first."""
    coefficients = [0.0] * (degree + 1)
    for k in range(degree // 2 + 1):
        pairings = comb(degree, 2 * k) * factorial(2 * k) // (2**k * factorial(k))
        coefficients[degree - 2 * k] = float((-1) ** k * pairings)
    return tuple(coefficients)


def _erf(x: jax.Array) -> jax.Array:
    return jax.scipy.special.erf(x / jnp.sqrt(2.0))


def _gelu(x: jax.Array) -> jax.Array:
    return x * (1.0 + jax.scipy.special.erf(x / jnp.sqrt(2.0))) / 2.0


NAMED: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation("erf", _erf, parity=-1, increasing=True),
        _polynomial("linear", (0.0, 1.0)),
        _polynomial("quadratic", (0.0, 0.0, 1.0)),
        Activation("relu", jax.nn.relu, smooth=False),
        Activation("sign", jnp.sign, trainable=False, smooth=False, parity=-1, increasing=True),
        _polynomial("he2", hermite(2)),
        _polynomial("he3", hermite(3)),
        _polynomial("he4", hermite(4)),
        Activation("tanh", jnp.tanh, parity=-1, increasing=True),
        Activation("gelu", _gelu),
        Activation("sigmoid", jax.nn.sigmoid),
        Activation("softplus", jax.nn.softplus),
    )
}


def per_unit(activations: Sequence[Activation]) -> Activation:
    """Units with different activations: entry k of the last axis goes through activation k."""
    units = tuple(activations)
    parities = {unit.parity for unit in units}
    return Activation(
        name=", ".join(unit.name for unit in units),
        function=PerUnit(units),
        trainable=all(unit.trainable for unit in units),
        smooth=all(unit.smooth for unit in units),
        parity=parities.pop() if len(parities) == 1 else 0,
    )


@dataclass(frozen=True)
class PerUnit:
    """Each entry of the last axis through an activation of its own."""

    units: tuple[Activation, ...]

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.stack([unit(x[..., k]) for k, unit in enumerate(self.units)], axis=-1)


def as_activation(value: "str | Function | Activation") -> Activation:
    """An activation from its name, from a JAX function of an array, or as it is."""
    if isinstance(value, Activation):
        return value
    if isinstance(value, str):
        return NAMED[_checks.known("activation", value.lower(), NAMED)]
    if not callable(value):
        raise InputError(
            f"activation is {_checks.shown(value)}; it must be a name ({', '.join(NAMED)}) or a JAX function of an array."
        )
    _require_elementwise(value)
    return Activation(_name(value), value, trainable=not _jumps(value), smooth=False)


def _name(function: Function) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _jumps(function: Function) -> bool:
    """Does the integral of g' miss part of g's growth somewhere? Then g has a jump that its derivative cannot see."""
    x = jnp.linspace(-6.0, 6.0, 4097)
    g, slope = function(x), elementwise_derivative(function)(x)
    missed = jnp.abs(jnp.diff(g) - jnp.diff(x) * (slope[1:] + slope[:-1]) / 2)
    return bool(jnp.max(missed) > 0.02 * (jnp.max(g) - jnp.min(g)))


def _require_elementwise(function: Function) -> None:
    name = _name(function)
    try:
        out = jax.eval_shape(function, jax.ShapeDtypeStruct((2, 3), jnp.result_type(float)))
    except Exception as error:
        raise InputError(
            f"the activation {name!r} cannot be traced by JAX ({type(error).__name__}); write it with jax.numpy."
        ) from None
    if not hasattr(out, "shape") or out.shape != (2, 3):
        shape = getattr(out, "shape", type(out).__name__)
        raise InputError(f"the activation {name!r} maps shape (2, 3) to {shape}; it must act on each entry alone.")
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise InputError(f"the activation {name!r} returns {out.dtype}; it must return real numbers, such as jnp.sign does.")
    x = jnp.linspace(-6.0, 6.0, 97)
    bad = ~jnp.isfinite(function(x))
    if bad.any():
        raise InputError(
            f"the activation {name!r} is not finite at x = {float(x[jnp.argmax(bad)]):g}; it must be finite everywhere."
        )
