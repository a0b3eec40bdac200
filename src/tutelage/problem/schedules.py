"""Learning rates that change with time alpha.

A rate is a number, one of these, or any function of time that JAX can trace (scan.py finds its short features). The
numbers inside a schedule are leaves: they can be batched and differentiated like any other.
"""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._errors import InputError, ValidityWarning
from tutelage._types import Array, ArrayLike
from tutelage.problem import scan


class Constant(eqx.Module):
    """eta(alpha) = value. A plain number means the same.

    >>> import tutelage as tu
    >>> float(tu.schedules.Constant(0.5)(10.0))
    0.5
    """

    value: ArrayLike = eqx.field(converter=lambda x: checks.as_array("value", x))

    def __check_init__(self) -> None:
        _require_numbers(self)
        checks.require_positive("value (the learning rate)", self.value)

    def __call__(self, t: Array) -> Array:
        return jnp.asarray(self.value)


class PowerDecay(eqx.Module):
    """eta(alpha) = initial / (1 + alpha / timescale)^exponent.

    >>> import tutelage as tu
    >>> rate = tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=50.0)
    >>> float(rate(0.0)), float(rate(50.0))
    (0.5, 0.25)
    """

    initial: ArrayLike = eqx.field(converter=lambda x: checks.as_array("initial", x))
    exponent: ArrayLike = eqx.field(converter=lambda x: checks.as_array("exponent", x), default=1.0)
    timescale: ArrayLike = eqx.field(converter=lambda x: checks.as_array("timescale", x), default=1.0)

    def __check_init__(self) -> None:
        _require_numbers(self)
        checks.require_positive("initial (learning rate)", self.initial)
        checks.require_nonnegative("exponent", self.exponent)
        checks.require_positive("timescale", self.timescale)

    def __call__(self, t: Array) -> Array:
        return jnp.asarray(self.initial / (1.0 + t / self.timescale) ** self.exponent)


class Piecewise(eqx.Module):
    """eta(alpha) = values[i] between the switch times i-1 and i; one value more than switch times.

    The solver stops at each switch, so a jump costs no accuracy.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Piecewise([100.0], [0.5, 0.05])
    >>> float(rate(99.0)), float(rate(101.0))
    (0.5, 0.05)
    """

    switches: ArrayLike = eqx.field(converter=lambda x: checks.as_array("switches", x))
    values: ArrayLike = eqx.field(converter=lambda x: checks.as_array("values", x))

    def __check_init__(self) -> None:
        if np.ndim(self.switches) != 1 or np.shape(self.values) != (np.shape(self.switches)[0] + 1,):
            raise InputError(
                f"Piecewise got {np.size(self.switches)} switch times and {np.size(self.values)} values; "
                "give one value more than switch times."
            )
        checks.require_positive("switches", self.switches)
        checks.require_positive("values (learning rates)", self.values)
        if not checks.is_traced(self.switches) and np.any(np.diff(self.switches) <= 0):
            raise InputError(f"switches are {np.asarray(self.switches).tolist()}; they must increase. Sort them.")

    def __call__(self, t: Array) -> Array:
        return jnp.asarray(self.values)[jnp.searchsorted(jnp.asarray(self.switches), t, side="right")]


class Interpolated(eqx.Module):
    """eta(alpha) through `values` at `times`: straight lines of ln eta between them, constant before and after.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Interpolated([0.0, 100.0], [1.0, 0.01])
    >>> round(float(rate(50.0)), 6)
    0.1
    """

    times: ArrayLike = eqx.field(converter=lambda x: checks.as_array("times", x))
    values: ArrayLike = eqx.field(converter=lambda x: checks.as_array("values", x))

    def __check_init__(self) -> None:
        if np.ndim(self.times) != 1 or np.size(self.times) < 2 or np.shape(self.values) != np.shape(self.times):
            raise InputError(
                f"Interpolated got times of shape {np.shape(self.times)} and values of shape {np.shape(self.values)}; "
                "they must be two lists of equal length, two numbers or more each."
            )
        checks.require_nonnegative("times", self.times)
        checks.require_positive("values (learning rates)", self.values)
        if not checks.is_traced(self.times) and np.any(np.diff(self.times) <= 0):
            raise InputError(f"times are {checks.shown(self.times)}; they must increase. Sort them.")

    def __call__(self, t: Array) -> Array:
        return jnp.exp(jnp.interp(t, jnp.asarray(self.times), jnp.log(jnp.asarray(self.values))))


class Cosine(eqx.Module):
    """eta(alpha) from `initial` to `final` along half a cosine, constant after `horizon`.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Cosine(1.0, 100.0)
    >>> round(float(rate(50.0)), 6), float(rate(200.0))
    (0.5, 0.0)
    """

    initial: ArrayLike = eqx.field(converter=lambda x: checks.as_array("initial", x))
    horizon: ArrayLike = eqx.field(converter=lambda x: checks.as_array("horizon", x))
    final: ArrayLike = eqx.field(converter=lambda x: checks.as_array("final", x), default=0.0)

    def __check_init__(self) -> None:
        _require_numbers(self)
        checks.require_positive("initial (learning rate)", self.initial)
        checks.require_positive("horizon", self.horizon)
        checks.require_nonnegative("final (learning rate)", self.final)

    def __call__(self, t: Array) -> Array:
        phase = jnp.pi * jnp.clip(t / self.horizon, 0.0, 1.0)
        return jnp.asarray(self.final + (self.initial - self.final) * (1.0 + jnp.cos(phase)) / 2.0)


def _require_numbers(schedule: eqx.Module) -> None:
    for name, value in vars(schedule).items():
        checks.require_shape(name, value, (), fix="Batch over several with jax.vmap.")


Rate = ArrayLike | Callable[[Array], Array]
NAMED = {
    "constant": Constant,
    "power_decay": PowerDecay,
    "piecewise": Piecewise,
    "interpolated": Interpolated,
    "cosine": Cosine,
}
SWITCHING = {Piecewise: "switches", Interpolated: "times", Cosine: "horizon"}  # where they jump or bend
RESOLVED = scan.MOST // 2  # rises and falls of a function that the solver is sure to see


def as_rate(name: str, value: Any) -> Any:
    """A positive number as an array, or a schedule as it is."""
    if isinstance(value, type):
        raise InputError(f"{name} is the class {value.__name__}; it must be a schedule. Make one, such as PowerDecay(0.5).")
    if value is None or callable(value):
        return value
    array = checks.as_array(name, value)
    checks.require_shape(name, array, (), fix="Batch over several with jax.vmap.")
    checks.require_positive(name, array, fix="A network that should not learn needs no SGD.")
    return array


def rate_at(rate: Any, t: Array) -> Array:
    """The rate at time t, whatever kind it is."""
    return jnp.asarray(rate(t) if callable(rate) else rate)


def is_own(rate: Any) -> bool:
    """Is it a function of the user's own, whose shape nothing is known about?"""
    return callable(rate) and not isinstance(rate, tuple(NAMED.values()))


def switch_times(end: Any, *rates: Any) -> Array | None:
    """Times up to `end` at which a rate jumps, bends or changes quickly; the solver must not step across them."""
    known = [getattr(rate, SWITCHING[type(rate)]) for rate in rates if type(rate) in SWITCHING]
    found = [scan.stops(rate, end) for rate in rates if is_own(rate)]
    return jnp.concatenate([jnp.atleast_1d(jnp.asarray(t)) for t in known + found]) if known or found else None


def bend_times(rate: Any, end: float) -> np.ndarray:
    """Times up to `end` at which a rate jumps, and those at which a schedule of this module bends."""
    if is_own(rate):
        return scan.jumps(rate, end)
    return np.atleast_1d(getattr(rate, SWITCHING[type(rate)])) if type(rate) in SWITCHING else np.zeros(0)


def require_rates_on(sgd: Any, times: np.ndarray, *, solved: bool = True) -> None:
    """Every schedule must be one number, finite and not negative, at the asked times and between them.

    solved: warn where a function has more features than the solver is sure to resolve (single steps see them all).
    """
    rates = {name: getattr(sgd, name) for name in ("lr", "readout_lr", "bias_lr")}
    for name, rate in (rates | {"k": getattr(sgd.momentum, "k", None)}).items():
        if callable(rate) and not checks.is_traced(rate):
            _require_rate_on(name, rate, times, solved)


def _require_rate_on(name: str, rate: Any, times: np.ndarray, solved: bool) -> None:
    if is_own(rate):
        times = np.union1d(times, scan.grid(float(times[-1])))
    try:
        values = jax.vmap(lambda t: jnp.asarray(rate(t), float))(jnp.asarray(times))
    except Exception as error:
        raise InputError(
            f"{name} cannot be traced by JAX ({type(error).__name__}); write it with jax.numpy, as a function of time."
        ) from None
    if values.shape != np.shape(times):
        raise InputError(f"{name} maps a time to shape {values.shape[1:]}; a schedule must return one number.")
    if checks.is_traced(values):
        return
    values = np.asarray(values)
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        at = int(np.argmin(np.where(np.isfinite(values), values, -np.inf)))
        raise InputError(f"{name} is {values[at]:g} at time {times[at]:g}; a schedule must be finite and zero or more.")
    if solved and is_own(rate) and (turns := float(scan.swings(values))) > RESOLVED:
        warnings.warn(
            f"{name} rises and falls about {turns:.0f} times up to time {times[-1]:g}; the solver surely sees {RESOLVED}, "
            "and may step across short features among so many. Solve up to an earlier time, or give a Piecewise or "
            "Interpolated schedule.",
            ValidityWarning,
            stacklevel=5,
        )
