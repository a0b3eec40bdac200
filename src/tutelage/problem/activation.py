"""The activation of a hidden unit: a name, a function and its known properties.

Compiled programs are found again by the function they hold. So a function must not
change after it was used, and equal functions must compute the same. A recording, the
JAX expression of a function at one moment, has both properties.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Float

from tutelage import checks
from tutelage._jump_search import ArrayFunction, breaks_of, elementwise_derivative
from tutelage._types import Array, ArrayLike
from tutelage.errors import InputError, explained

# Polynomials of higher degree are not recognized: their averages cost too many graphs.
HIGHEST_DEGREE = 6
# Functions are probed at fields that occur, and at others up to extreme ones.
NEAR_PROBES = np.linspace(-6.0, 6.0, 97)
FAR_PROBES = np.linspace(-31.3, 29.7, 38)
EXTREME_PROBES = [-900.0, -70.0, 80.0, 1000.0]
PROBES = np.concatenate([NEAR_PROBES, FAR_PROBES, EXTREME_PROBES])

# erf x = x P(x^2) for |x| < SMALL, and 1 - exp(-x^2) F(1/x) beyond, up to LARGE. Both
# are polynomials in a variable between -1 and 1.
SMALL = 2.0
LARGE = 6.0
P = (
    0.674933236039655, -0.2611118609312454, 0.11947913860985163,
    -0.04866277744915509, 0.017128344571823145, -0.005234875836158027,
    0.0014050914235853634, -0.0003351435335293146, 7.180100878143417e-05,
    -1.3946273727597251e-05, 2.475801058763217e-06, -4.045094947367635e-07,
    6.11973590542225e-08, -8.617665144205791e-09, 1.1331611787961273e-09,
    -1.401554063331593e-10, 1.7218858155484183e-11, -1.8874163743967482e-12,
)  # fmt: skip
F = (
    0.17900115118138996, 0.0815583900108431, -0.005039359895619625,
    -0.00023215792238330993, 0.00012459325170353816, -1.734068102754368e-05,
    -9.981933514454698e-08, 6.467796127327109e-07, -1.6583511409087178e-07,
    1.7978732215605648e-08, 2.7686384520589113e-09, -1.9107889262474767e-09,
    4.0386320715431037e-10,
)  # fmt: skip


@jax.custom_jvp
@partial(jax.jit, inline=True)  # one program outside of jit, not one for each operation
def erf(x: Array) -> Array:
    """Return the error function to 2e-16.

    Two polynomials in place of XLA's own function: loops over them are vectorized,
    which is 3 times faster.
    """
    size = jnp.abs(x)
    is_small = size < SMALL
    square = jnp.where(is_small, size**2, 0.0)
    inside = x * _horner(P, square * (2 / SMALL**2) - 1)
    far = jnp.clip(size, SMALL, LARGE)
    inverse_range = 1 / SMALL - 1 / LARGE
    inverse = (1 / far - 1 / LARGE) * (2 / inverse_range) - 1
    beyond = 1 - jnp.exp(-(far**2)) * _horner(F, inverse)
    return jnp.where(is_small, inside, jnp.where(x < 0, -beyond, beyond))


@erf.defjvp
def _erf_derivative(
    primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    (x,) = primals
    (dx,) = tangents
    return erf(x), 2 / math.sqrt(math.pi) * jnp.exp(-(x**2)) * dx


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    """Evaluate a polynomial, constant coefficient first."""
    highest = jnp.full_like(x, coefficients[-1])
    return reduce(lambda total, c: total * x + c, coefficients[-2::-1], highest)


class Recorded:
    """The recording of an elementwise JAX function.

    Anything else raises `InputError`.
    """

    def __init__(self, function: ArrayFunction, name: str):
        self.function = function
        self.name = name
        self.dtype = jnp.result_type(float)
        scalar = jax.ShapeDtypeStruct((), self.dtype)
        fails = f"the activation {name!r} cannot be traced by JAX"
        with explained(fails, "write it with jax.numpy."):
            make_expression = jax.make_jaxpr(function, return_shape=True)
            expression, out = make_expression(scalar)
        if not jnp.issubdtype(getattr(out, "dtype", object), jnp.floating):
            dtype = getattr(out, "dtype", "no array")
            raise InputError(
                f"the activation {name!r} returns {dtype}; it must return real numbers."
            )
        if checks.is_traced(expression.consts):
            raise InputError(
                f"the activation {name!r} has a parameter that JAX traces; "
                "build it outside grad, jit and vmap."
            )
        self._scalar = jaxpr_as_fun(expression)
        self.probe, probe_slope = self._probe()
        # The text of the expression does not show all constants: the probe does.
        constants = tuple(np.asarray(c).tobytes() for c in expression.consts)
        probes = (self.probe.tobytes(), probe_slope.tobytes())
        self._key = (name, str(expression), constants, *probes)

    def __call__(self, x: ArrayLike) -> Array:
        x = jnp.asarray(x)
        if x.dtype != self.dtype:  # another precision than at the time of recording
            return self.function(x)
        return jnp.vectorize(lambda entry: self._scalar(entry)[0])(x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recorded) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type, tuple[ArrayFunction, str]]:
        return Recorded, (self.function, self.name)

    def _probe(self) -> tuple[np.ndarray, np.ndarray]:
        """Return g and g' at `PROBES`; refuse a function that mixes entries."""

        def probed(x: Array) -> tuple[Array, Array, Array]:
            return self(x), elementwise_derivative(self)(x), self.function(x)

        fails = f"the activation {self.name!r} fails"
        with (
            jax.ensure_compile_time_eval(),
            explained(fails, "write it with jax.numpy."),
        ):
            arrays = jax.jit(probed)(PROBES)
        entry_by_entry, slope, all_at_once = (np.asarray(x) for x in arrays)
        near = entry_by_entry[: NEAR_PROBES.size]
        not_finite = ~np.isfinite(near)
        if not_finite.any():
            place = NEAR_PROBES[np.argmax(not_finite)]
            raise InputError(
                f"the activation {self.name!r} is not finite at x = {place:g}; "
                "make it finite."
            )
        tolerance = 1e-6 * float(np.max(np.abs(near)))
        if all_at_once.shape != PROBES.shape or not np.allclose(
            entry_by_entry, all_at_once, rtol=1e-6, atol=tolerance, equal_nan=True
        ):
            raise InputError(
                f"the activation {self.name!r} mixes the entries of an array; "
                "it must act on each entry alone."
            )
        return entry_by_entry, slope


@dataclass(frozen=True)
class Activation:
    """An elementwise function g of a field.

    Parameters
    ----------
    name : str
        The name in files and messages.
    function : function
        g, written with jax.numpy.
    polynomial : tuple of float, optional
        The coefficients, constant first, if g is a polynomial: its averages are exact.
    trainable : bool
        False for functions that jump (sign). They have no slope to follow and serve as
        teachers only.
    smooth : bool
        False where g' may jump: g'' is then never evaluated pointwise.
    parity : int
        1 for even functions, -1 for odd ones, 0 where neither is known.
    increasing : bool
        True if g is known to increase.

    Examples
    --------
    >>> import tutelage as tu
    >>> g = tu.Network(1, "erf").activation
    >>> g.name, g.parity, round(float(g.slope(0.0)), 6)                 # sqrt(2/pi)
    ('erf', -1, 0.797885)
    """

    name: str
    function: ArrayFunction
    polynomial: tuple[float, ...] | None = None
    trainable: bool = True
    smooth: bool = True
    parity: int = 0
    increasing: bool = False

    def __call__(self, x: Array) -> Array:
        return self.function(x)

    @property
    def slope(self) -> ArrayFunction:
        """The function g', elementwise."""
        return elementwise_derivative(self.function)

    @property
    def curvature(self) -> ArrayFunction:
        """The function g'', elementwise."""
        return elementwise_derivative(self.slope)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The sorted places at which g, g' or g'' of any unit jumps."""
        if self.smooth:
            return ()
        if isinstance(self.function, ActivationPerUnit):
            places = {x for unit in self.function.units for x in unit.breaks}
            return tuple(sorted(places))
        return tuple(
            sorted(x for order in range(3) for x in breaks_of(self.function, order))
        )

    def in_numpy(self, fields: Float[np.ndarray, "..."]) -> "Responses":
        """Return g and g' at fields without compiling a program (erf and sign only)."""
        return IN_NUMPY[self.name](fields)

    def __repr__(self) -> str:
        return f"<activation {self.name}>"


def _polynomial(name: str, coefficients: tuple[float, ...]) -> Activation:
    """Make the activation of a polynomial, constant coefficient first."""

    def function(x: Array) -> Array:
        highest_first = jnp.asarray(coefficients[::-1], dtype=jnp.result_type(float))
        return jnp.polyval(highest_first, x)

    return Activation(
        name=name,
        function=function,
        polynomial=coefficients,
        parity=_polynomial_parity(coefficients),
        increasing=coefficients == (0.0, 1.0),
    )


def _polynomial_parity(coefficients: tuple[float, ...]) -> int:
    """Return 1 if all powers are even, -1 if all are odd, else 0."""
    remainders = {power % 2 for power, c in enumerate(coefficients) if c != 0}
    if remainders == {0}:
        return 1
    if remainders == {1}:
        return -1
    return 0


def _erf(x: Array) -> Array:
    return erf(x * 0.5**0.5)


class Responses(NamedTuple):
    """Outputs g and slopes g' of units."""

    outputs: Float[np.ndarray, "..."]
    slopes: Float[np.ndarray, "..."]


def _erf_in_numpy(fields: Float[np.ndarray, "..."]) -> Responses:
    from scipy.special import erf  # takes long to import

    return Responses(
        outputs=erf(fields / math.sqrt(2)),
        slopes=math.sqrt(2 / math.pi) * np.exp(-(fields**2) / 2),
    )


def _sign_in_numpy(fields: Float[np.ndarray, "..."]) -> Responses:
    return Responses(outputs=np.sign(fields), slopes=np.zeros_like(fields))


IN_NUMPY: dict[str, Callable[[np.ndarray], Responses]] = {
    "erf": _erf_in_numpy,
    "sign": _sign_in_numpy,
}


def _gelu(x: Array) -> Array:
    return x * (1.0 + _erf(x)) / 2.0


_BUILT_IN = (
    Activation("erf", _erf, parity=-1, increasing=True),
    _polynomial("linear", (0.0, 1.0)),
    _polynomial("quadratic", (0.0, 0.0, 1.0)),
    Activation("relu", jax.nn.relu, smooth=False),
    Activation(
        name="sign",
        function=jnp.sign,
        trainable=False,
        smooth=False,
        parity=-1,
        increasing=True,
    ),
    # Hermite polynomials He_n
    _polynomial("he2", (-1.0, 0.0, 1.0)),
    _polynomial("he3", (0.0, -3.0, 0.0, 1.0)),
    _polynomial("he4", (3.0, 0.0, -6.0, 0.0, 1.0)),
    Activation("tanh", jnp.tanh, parity=-1, increasing=True),
    Activation("gelu", _gelu),
    Activation("sigmoid", jax.nn.sigmoid),
    Activation("softplus", jax.nn.softplus),
)
NAMED_ACTIVATIONS: dict[str, Activation] = {
    activation.name: activation for activation in _BUILT_IN
}


def per_unit(activations: Sequence[Activation]) -> Activation:
    """Make a layer whose unit k has activation k; units are the last axis."""
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
        outputs = [unit(x[..., k]) for k, unit in enumerate(self.units)]
        return jnp.stack(outputs, axis=-1)


ActivationLike: TypeAlias = str | ArrayFunction | Activation


def as_activation(value: ActivationLike) -> Activation:
    """Convert a name, or a JAX function of an array, to an activation.

    A function is recorded as it is now.
    """
    if isinstance(value, str):
        return NAMED_ACTIVATIONS[
            checks.known("activation", value.lower(), NAMED_ACTIVATIONS)
        ]
    if isinstance(value, Activation):
        is_known = value in NAMED_ACTIVATIONS.values() or isinstance(
            value.function, Recorded
        )
        return value if is_known else _examined(value)
    for named in NAMED_ACTIVATIONS.values():
        if value is named.function:
            return named
    if not callable(value):
        raise InputError(
            f"activation is {checks.shown(value)}; "
            f"it must be a name ({', '.join(NAMED_ACTIVATIONS)}) or a JAX function."
        )
    return _examined(Activation(checks.name_of(value), value, smooth=False))


def _examined(given: Activation) -> Activation:
    """Record the function of an activation, and find its jumps or its coefficients.

    Declared properties must hold.
    """
    recorded = Recorded(given.function, given.name)
    _require_declared(given, recorded)
    polynomial = given.polynomial
    if polynomial is None:
        polynomial = _recognized(recorded)
    if polynomial is not None:
        polynomial = tuple(np.trim_zeros(polynomial, "b")) or (0.0,)
        return replace(
            given,
            function=recorded,
            polynomial=polynomial,
            parity=_polynomial_parity(polynomial),
            smooth=True,
        )
    jumps = breaks_of(recorded, 0)
    kinks = breaks_of(recorded, 1)
    return replace(
        given,
        function=recorded,
        trainable=given.trainable and not jumps,
        smooth=given.smooth and not (jumps or kinks),
    )


def _require_declared(given: Activation, recorded: Recorded) -> None:
    """Refuse a declared polynomial or parity that the function does not have."""
    name = given.name
    polynomial = given.polynomial
    if polynomial is not None and not _is_polynomial(recorded, polynomial):
        raise InputError(
            f"the activation {name!r} is not the polynomial {polynomial}; "
            "give coefficients, constant first."
        )
    near = recorded.probe[: NEAR_PROBES.size]
    mirrored = near[::-1]
    tolerance = 1e-9 * float(np.max(np.abs(near)))
    parity = given.parity
    if parity and not np.allclose(mirrored, parity * near, rtol=1e-9, atol=tolerance):
        raise InputError(
            f"the activation {name!r} does not have parity {parity}; "
            "use 1 for even, -1 for odd, 0 otherwise."
        )


def _recognized(g: Recorded) -> tuple[float, ...] | None:
    """Return the coefficients of g, constant first, if it is a polynomial.

    Its degree may be up to `HIGHEST_DEGREE`, and it must agree at all probes.
    """
    if not np.all(np.isfinite(g.probe)):
        return None
    near = g.probe[: NEAR_PROBES.size]
    fit = np.polynomial.Chebyshev.fit(NEAR_PROBES, near, HIGHEST_DEGREE, domain=(-6, 6))
    fitted = fit.convert(kind=np.polynomial.Polynomial).coef
    share = np.abs(fitted) * 3.0 ** np.arange(HIGHEST_DEGREE + 1)
    rounded = np.where(share > 1e-11 * np.max(share), fitted, 0.0)
    coefficients = tuple(float(f"{c:.13g}") for c in rounded)
    return coefficients if _is_polynomial(g, coefficients) else None


def _is_polynomial(g: Recorded, coefficients: tuple[float, ...]) -> bool:
    """Compare g with a polynomial at all probes, up to rounding."""
    powers = PROBES[:, None] ** np.arange(len(coefficients))
    gap = np.abs(powers @ coefficients - g.probe)
    size = np.abs(powers) @ np.abs(coefficients)
    return bool(np.all(gap <= 5e4 * np.finfo(g.dtype).eps * size))
