"""What a hidden unit computes: an activation is a name, a function and what is known about it.

Compiled programs are found again by the function they hold. So a function must not change after it was used, and equal
functions must compute the same. A recording, the JAX expression of a function at one moment, has both properties.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from tutelage import checks
from tutelage._jump_search import Function, breaks_of, elementwise_derivative
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError, explained

HIGHEST = 6  # degree of a polynomial that is recognized; averages of higher ones cost too many graphs
NEAR = np.linspace(-6.0, 6.0, 97)
PROBES = np.concatenate([NEAR, np.linspace(-31.3, 29.7, 38), [-900.0, -70.0, 80.0, 1000.0]])

# erf x = x P(x^2) for |x| < 2, and 1 - exp(-x^2) F(1/x) beyond, up to 6: both polynomials in a variable between -1 and 1
SMALL, LARGE = 2.0, 6.0
P = (
    0.674933236039655, -0.2611118609312454, 0.11947913860985163, -0.04866277744915509, 0.017128344571823145,
    -0.005234875836158027, 0.0014050914235853634, -0.0003351435335293146, 7.180100878143417e-05, -1.3946273727597251e-05,
    2.475801058763217e-06, -4.045094947367635e-07, 6.11973590542225e-08, -8.617665144205791e-09, 1.1331611787961273e-09,
    -1.401554063331593e-10, 1.7218858155484183e-11, -1.8874163743967482e-12,
)  # fmt: skip
F = (
    0.17900115118138996, 0.0815583900108431, -0.005039359895619625, -0.00023215792238330993, 0.00012459325170353816,
    -1.734068102754368e-05, -9.981933514454698e-08, 6.467796127327109e-07, -1.6583511409087178e-07,
    1.7978732215605648e-08, 2.7686384520589113e-09, -1.9107889262474767e-09, 4.0386320715431037e-10,
)  # fmt: skip


@jax.custom_jvp
@partial(jax.jit, inline=True)  # outside of a program one of its own, in place of one for each operation
def erf(x: Array) -> Array:
    """The error function to 2e-16, by two polynomials: loops over it are vectorized, 3 times faster than XLA's own."""
    size = jnp.abs(x)
    near = size < SMALL
    inside = x * _horner(P, jnp.where(near, size**2, 0.0) * (2 / SMALL**2) - 1)
    far = jnp.clip(size, SMALL, LARGE)
    beyond = 1 - jnp.exp(-(far**2)) * _horner(F, (1 / far - 1 / LARGE) * (2 / (1 / SMALL - 1 / LARGE)) - 1)
    return jnp.where(near, inside, jnp.where(x < 0, -beyond, beyond))


@erf.defjvp
def _erf_derivative(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return erf(x), 2 / math.sqrt(math.pi) * jnp.exp(-(x**2)) * dx


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    return reduce(lambda total, c: total * x + c, coefficients[-2::-1], jnp.full_like(x, coefficients[-1]))


class Recorded:
    """The recording of a function; raises `InputError` for what is not an elementwise function of JAX."""

    def __init__(self, function: Function, name: str):
        self.function, self.name, self.dtype = function, name, jnp.result_type(float)
        with explained(f"the activation {name!r} cannot be traced by JAX", "write it with jax.numpy."):
            expression, out = jax.make_jaxpr(function, return_shape=True)(jax.ShapeDtypeStruct((), self.dtype))
        if not jnp.issubdtype(getattr(out, "dtype", object), jnp.floating):
            given = getattr(out, "dtype", "no array")
            raise InputError(f"the activation {name!r} returns {given}; it must return real numbers.")
        if checks.is_traced(expression.consts):
            raise InputError(
                f"the activation {name!r} has a parameter that JAX traces; build it outside grad, jit and vmap."
            )
        self._scalar = jaxpr_as_fun(expression)
        self.probe, slope = self._probe()
        consts = tuple(np.asarray(c).tobytes() for c in expression.consts)
        self._key = (name, str(expression), consts, self.probe.tobytes(), slope.tobytes())

    def __call__(self, x: ArrayLike) -> Array:
        x = jnp.asarray(x)
        if x.dtype != self.dtype:  # another precision than at the time of recording
            return self.function(x)
        return jnp.vectorize(lambda entry: self._scalar(entry)[0])(x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recorded) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type, tuple[Function, str]]:
        return Recorded, (self.function, self.name)

    def _probe(self) -> tuple[np.ndarray, np.ndarray]:
        """g and g' at `PROBES`, which show what the text of the expression does not; each entry must stand alone."""
        with jax.ensure_compile_time_eval(), explained(f"the activation {self.name!r} fails", "write it with jax.numpy."):
            both = jax.jit(lambda x: (self(x), elementwise_derivative(self)(x), self.function(x)))(PROBES)
        g, slope, together = map(np.asarray, both)
        bad = ~np.isfinite(g[: NEAR.size])
        if bad.any():
            raise InputError(f"the activation {self.name!r} is not finite at x = {NEAR[np.argmax(bad)]:g}; make it finite.")
        size = 1e-6 * float(np.max(np.abs(g[: NEAR.size])))
        if together.shape != PROBES.shape or not np.allclose(g, together, rtol=1e-6, atol=size, equal_nan=True):
            raise InputError(f"the activation {self.name!r} mixes the entries of an array; it must act on each entry alone.")
        return g, slope


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
        return tuple(sorted(x for order in range(3) for x in breaks_of(self.function, order)))

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
    return x * (1.0 + _erf(x)) / 2.0


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
    """An activation from its name, from a JAX function of an array (recorded as it is now), or as it is."""
    if isinstance(value, str):
        return NAMED[checks.known("activation", value.lower(), NAMED)]
    if isinstance(value, Activation):
        return value if value in NAMED.values() or isinstance(value.function, Recorded) else _examined(value)
    for named in NAMED.values():
        if value is named.function:
            return named
    if not callable(value):
        raise InputError(f"activation is {checks.shown(value)}; it must be a name ({', '.join(NAMED)}) or a JAX function.")
    return _examined(Activation(checks.name_of(value), value, smooth=False))


def _examined(given: Activation) -> Activation:
    """An activation with its function recorded: what it declares must hold, jumps and polynomials are found."""
    name, polynomial, parity = given.name, given.polynomial, given.parity
    recorded = Recorded(given.function, name)
    near = recorded.probe[: NEAR.size]
    if polynomial is not None and not _is_polynomial(recorded, polynomial):
        raise InputError(f"the activation {name!r} is not the polynomial {polynomial}; give coefficients, constant first.")
    if parity and not np.allclose(near[::-1], parity * near, rtol=1e-9, atol=1e-9 * float(np.max(np.abs(near)))):
        raise InputError(f"the activation {name!r} does not have parity {parity}; use 1 for even, -1 for odd, 0 otherwise.")
    polynomial = _recognized(recorded) if polynomial is None else polynomial
    if polynomial is not None:
        polynomial = tuple(np.trim_zeros(polynomial, "b")) or (0.0,)
        return replace(given, function=recorded, polynomial=polynomial, parity=_parity(polynomial), smooth=True)
    jumps = breaks_of(recorded, 0)
    smooth = given.smooth and not (jumps or breaks_of(recorded, 1))
    return replace(given, function=recorded, trainable=given.trainable and not jumps, smooth=smooth)


def _recognized(g: Recorded) -> tuple[float, ...] | None:
    """The coefficients, constant first, of a function that is a polynomial of degree up to `HIGHEST` wherever one looks."""
    if not np.all(np.isfinite(g.probe)):
        return None
    fit = np.polynomial.Chebyshev.fit(NEAR, g.probe[: NEAR.size], HIGHEST, domain=(-6, 6))
    found = fit.convert(kind=np.polynomial.Polynomial).coef
    share = np.abs(found) * 3.0 ** np.arange(HIGHEST + 1)
    coefficients = tuple(float(f"{each:.13g}") for each in np.where(share > 1e-11 * np.max(share), found, 0.0))
    return coefficients if _is_polynomial(g, coefficients) else None


def _is_polynomial(g: Recorded, coefficients: tuple[float, ...]) -> bool:
    powers = PROBES[:, None] ** np.arange(len(coefficients))
    gap, size = np.abs(powers @ coefficients - g.probe), np.abs(powers) @ np.abs(coefficients)
    return bool(np.all(gap <= 5e4 * np.finfo(g.dtype).eps * size))
