"""What a hidden unit computes: an activation is a name, a function and its first two derivatives.

Gaussian averages are found elsewhere; a function without a closed form is averaged by quadrature. To add an activation by
name, add a line to `NAMED`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._types import Array
from tutelage.errors import InputError
from tutelage.problem.elementwise import (
    NEAR,
    PROBES,
    Function,
    Recorded,
    bends_of,
    elementwise_derivative,
    erf,
    jumps_of,
    kinks_of,
)

HIGHEST = 6  # degree of a polynomial that is recognized; averages of higher ones cost too many graphs


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

    def __call__(self, x: Array) -> Array:
        return self.function(x)

    @property
    def slope(self) -> Function:
        """g', elementwise."""
        return elementwise_derivative(self.function)

    @property
    def curvature(self) -> Function:
        """g'', elementwise."""
        return elementwise_derivative(self.slope)

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where g, g' or g'' jumps, sorted; of units with different activations, the places of all of them."""
        if self.smooth:
            return ()
        if isinstance(self.function, ActivationPerUnit):
            return tuple(sorted({x for unit in self.function.units for x in unit.breaks}))
        return tuple(sorted((*jumps_of(self.function), *kinks_of(self.function), *bends_of(self.function))))

    def __repr__(self) -> str:
        return f"<activation {self.name}>"


def _polynomial(name: str, coefficients: tuple[float, ...]) -> Activation:
    def function(x: Array) -> Array:
        return jnp.polyval(jnp.asarray(coefficients[::-1], dtype=jnp.result_type(float)), x)

    increasing = coefficients == (0.0, 1.0)
    return Activation(name, function, polynomial=coefficients, parity=_parity(coefficients), increasing=increasing)


def _parity(coefficients: tuple[float, ...]) -> int:
    powers = {p % 2 for p, c in enumerate(coefficients) if c != 0}
    return 1 - 2 * powers.pop() if len(powers) == 1 else 0


def _erf(x: Array) -> Array:
    return erf(x * 0.5**0.5)


def _gelu(x: Array) -> Array:
    return x * (1.0 + erf(x * 0.5**0.5)) / 2.0


NAMED: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation("erf", _erf, parity=-1, increasing=True),
        _polynomial("linear", (0.0, 1.0)),
        _polynomial("quadratic", (0.0, 0.0, 1.0)),
        Activation("relu", jax.nn.relu, smooth=False),
        Activation("sign", jnp.sign, trainable=False, smooth=False, parity=-1, increasing=True),
        _polynomial("he2", (-1.0, 0.0, 1.0)),  # Hermite polynomials He_n
        _polynomial("he3", (0.0, -3.0, 0.0, 1.0)),
        _polynomial("he4", (3.0, 0.0, -6.0, 0.0, 1.0)),
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
        function=ActivationPerUnit(units),
        trainable=all(unit.trainable for unit in units),
        smooth=all(unit.smooth for unit in units),
        parity=parities.pop() if len(parities) == 1 else 0,
    )


@dataclass(frozen=True)
class ActivationPerUnit:
    """The function of a layer whose units have different activations."""

    units: tuple[Activation, ...]

    def __call__(self, x: Array) -> Array:
        return jnp.stack([unit(x[..., k]) for k, unit in enumerate(self.units)], axis=-1)


ActivationLike: TypeAlias = str | Function | Activation


def as_activation(value: ActivationLike) -> Activation:
    """An activation from its name, from a JAX function of an array, or as it is.

    A function is recorded as it is now, whatever its name: closed forms belong to what is computed. It is examined for
    jumps, and a polynomial is recognized.
    """
    if isinstance(value, str):
        return NAMED[checks.known("activation", value.lower(), NAMED)]
    if isinstance(value, Activation):
        known = value in NAMED.values() or isinstance(value.function, Recorded)
        return value if known else _as_declared(value)
    for named in NAMED.values():
        if value is named.function:
            return named
    if not callable(value):
        raise InputError(
            f"activation is {checks.shown(value)}; it must be a name ({', '.join(NAMED)}) or a JAX function of an array."
        )
    name = checks.name_of(value)
    recorded = Recorded(value, name)
    polynomial = _recognized(recorded)
    if polynomial is not None:
        return Activation(name, recorded, polynomial, parity=_parity(polynomial))
    return Activation(name, recorded, trainable=not jumps_of(recorded), smooth=False)


def _recognized(g: Recorded) -> tuple[float, ...] | None:
    """The coefficients, constant first, of a function that is a polynomial of degree up to `HIGHEST` wherever one looks."""
    if not np.all(np.isfinite(g.probe)):
        return None
    fit = np.polynomial.Chebyshev.fit(NEAR, g.probe[: NEAR.size], HIGHEST, domain=(-6, 6))
    share = np.abs(c := fit.convert(kind=np.polynomial.Polynomial).coef) * 3.0 ** np.arange(HIGHEST + 1)
    coefficients = np.trim_zeros(np.where(share > 1e-11 * np.max(share), c, 0.0), "b")
    coefficients = tuple(float(f"{each:.13g}") for each in coefficients) or (0.0,)
    return coefficients if _is_polynomial(g, coefficients) else None


def _is_polynomial(g: Recorded, coefficients: tuple[float, ...]) -> bool:
    powers = PROBES[:, None] ** np.arange(len(coefficients))
    gap, size = np.abs(powers @ coefficients - g.probe), np.abs(powers) @ np.abs(coefficients)
    return bool(np.all(gap <= 5e4 * np.finfo(g.dtype).eps * size))


def _as_declared(activation: Activation) -> Activation:
    """A custom `Activation`: what it declares must hold of its function."""
    name, polynomial, parity = activation.name, activation.polynomial, activation.parity
    recorded = Recorded(activation.function, name)
    if polynomial is not None and not _is_polynomial(recorded, polynomial):
        raise InputError(
            f"the activation {name!r} is not the polynomial {polynomial}; give its coefficients, constant first, or leave "
            "them out."
        )
    near = recorded.probe[: NEAR.size]
    if parity and not np.allclose(near[::-1], parity * near, rtol=1e-9, atol=1e-9 * float(np.max(np.abs(near)))):
        raise InputError(
            f"the activation {name!r} does not have parity {parity}; use 1 for an even function, -1 for an odd one, 0 "
            "otherwise."
        )
    jumps = jumps_of(recorded)
    return replace(
        activation,
        function=recorded,
        polynomial=None if polynomial is None else tuple(np.trim_zeros(polynomial, "b")) or (0.0,),
        trainable=activation.trainable and not jumps,
        smooth=activation.smooth and not (jumps or kinks_of(recorded)),
    )
