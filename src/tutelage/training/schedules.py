"""Schedules: numbers that change in time, and the times that the solver must not cross.

A learning rate is a number, one of these schedules, or any function of time that JAX
can trace. The numbers inside a schedule are leaves: they can be batched and
differentiated.

A burst of a custom function between two evaluations of the solver is invisible. So the
function is scanned on a fine grid, even in t and even in ln t, and the solver stops at
times that divide the variation of the function (of eta and of ln eta) into equal parts.
A stop is moved to where the function crosses the middle of the values of its cell: a
jump is found to the last digit. Features shorter than the grid, 1/65536 of the whole
time and 0.2% of the time that has passed, can be missed.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Part, by_name
from tutelage._types import Array, ArrayLike, NumpyOrJax, Rate, Schedule
from tutelage.errors import InputError, ValidityWarning, explained

# The grid on which custom functions of time are scanned.
EVEN_POINTS = 2**16
LOG_POINTS = 2**14
EARLIEST = 1e-12  # first of the points even in ln t, as a share of the end
# Stops of the solver for each rise or fall through the function's range, and in all.
STOPS_PER_SWING = 32
MOST_STOPS = 256
MOST_SWINGS = MOST_STOPS // 2  # rises and falls that the solver is sure to see
# Changes of ln eta count down to about this share of the largest rate.
LOG_FLOOR = 1e-3
HALVINGS = 64  # of a cell of the grid: to the last digit


def list_field(name: str, *requirements: checks.Requirement) -> Any:
    """Declare a field for a list of numbers; a single number is a list of one."""

    def convert(values: ArrayLike) -> NumpyOrJax:
        array = checks.as_array(name, values)
        if array.ndim == 0:
            array = array[None]
        return checks.as_array(name, array, *requirements)

    return eqx.field(converter=convert)


class Constant(Part):
    """A constant rate: eta(alpha) = value.

    A plain number means the same, and is what a problem keeps.
    """

    value: ArrayLike = checks.number_field(
        "value (the learning rate)", checks.require_positive
    )

    @property
    def constant_value(self) -> ArrayLike:
        """The number that replaces this schedule in a problem."""
        return self.value

    def __call__(self, t: Array) -> Array:
        return jnp.asarray(self.value)


class PowerDecay(Part):
    """A power law: eta(alpha) = initial / (1 + alpha / timescale)^exponent.

    >>> import tutelage as tu
    >>> float(tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=50.0)(50.0))
    0.25
    """

    initial: ArrayLike = checks.number_field(
        "initial (learning rate)", checks.require_positive
    )
    exponent: ArrayLike = checks.number_field(
        "exponent", checks.require_nonnegative, default=1.0
    )
    timescale: ArrayLike = checks.number_field(
        "timescale", checks.require_positive, default=1.0
    )

    def __call__(self, t: Array) -> Array:
        decay = (1.0 + t / self.timescale) ** self.exponent
        return jnp.asarray(self.initial / decay)


class Piecewise(Part):
    """A step function: eta(alpha) = values[i] between the switch times i-1 and i.

    There is one value more than switch times. The solver stops at each switch, so a
    jump costs no accuracy. A value of 0 freezes the parameters with this rate.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Piecewise([100.0], [0.5, 0.05])
    >>> float(rate(99.0)), float(rate(101.0))
    (0.5, 0.05)
    """

    switches: ArrayLike = list_field("switches", checks.require_positive)
    values: ArrayLike = list_field(
        "values (learning rates)", checks.require_nonnegative
    )

    def __check_init__(self) -> None:
        count = np.size(self.switches)
        fix = "One value more than switch times."
        checks.require_shape("values", self.values, (count + 1,), fix=fix)
        if count:
            checks.require_increasing("switches", self.switches)

    def __call__(self, t: Array) -> Array:
        segment = jnp.searchsorted(jnp.asarray(self.switches), t, side="right")
        return jnp.asarray(self.values)[segment]


class Linear(Part):
    """Straight lines through `values` at `times`, constant before and after.

    Values may be 0.

    >>> import tutelage as tu
    >>> float(tu.schedules.Linear([0.0, 100.0], [1.0, 0.0])(50.0))
    0.5
    """

    times: ArrayLike = list_field("times", checks.require_increasing)
    values: ArrayLike = list_field("values", checks.require_nonnegative)

    def __check_init__(self) -> None:
        fix = "One value for each time."
        checks.require_shape("values", self.values, np.shape(self.times), fix=fix)

    def __call__(self, t: Array) -> Array:
        return jnp.interp(t, jnp.asarray(self.times), jnp.asarray(self.values))


class Interpolated(Linear):
    """Straight lines of ln eta through `values` at `times`, constant before and after.

    >>> import tutelage as tu
    >>> round(float(tu.schedules.Interpolated([0.0, 100.0], [1.0, 0.01])(50.0)), 6)
    0.1
    """

    def __check_init__(self) -> None:
        checks.require_positive("values (learning rates)", self.values)

    def __call__(self, t: Array) -> Array:
        log_values = jnp.log(jnp.asarray(self.values))
        return jnp.exp(jnp.interp(t, jnp.asarray(self.times), log_values))


class Cosine(Part):
    """Half a cosine from `initial` to `final`, constant after `end`.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Cosine(1.0, 100.0)
    >>> round(float(rate(50.0)), 6), float(rate(200.0))
    (0.5, 0.0)
    """

    initial: ArrayLike = checks.number_field(
        "initial (learning rate)", checks.require_positive
    )
    end: ArrayLike = checks.number_field("end", checks.require_positive)
    final: ArrayLike = checks.number_field(
        "final (learning rate)", checks.require_nonnegative, default=0.0
    )

    def __call__(self, t: Array) -> Array:
        phase = jnp.pi * jnp.clip(t / self.end, 0.0, 1.0)
        fall = self.initial - self.final
        return jnp.asarray(self.final + fall * (1.0 + jnp.cos(phase)) / 2.0)


class Restarted(Part):
    """A schedule that begins again at every restart.

    eta(alpha) = rate(alpha - time of the last restart).

    Parameters
    ----------
    rate : schedule
        Another schedule of this module.
    at : list of float
        The restarts, increasing; for example the switch times of `Tasks`.

    Examples
    --------
    >>> import tutelage as tu
    >>> decay = tu.schedules.PowerDecay(0.5, timescale=10.0)
    >>> rate = tu.schedules.Restarted(decay, at=[60.0])
    >>> float(rate(10.0)), float(rate(70.0))
    (0.25, 0.25)
    """

    rate: Any
    at: ArrayLike = list_field(
        "at (the restarts)", checks.require_increasing, checks.require_positive
    )

    def __check_init__(self) -> None:
        if type(self.rate) not in NAMED_SCHEDULES.values() or isinstance(
            self.rate, Restarted
        ):
            raise InputError(
                f"rate is {checks.shown(self.rate)}; "
                "it must be a schedule, such as PowerDecay(0.5)."
            )

    @property
    def begins(self) -> Float[Array, " phases"]:
        """The times at which the schedule begins, zero included."""
        return jnp.concatenate([jnp.zeros(1), jnp.asarray(self.at)])

    def __call__(self, t: Array) -> Array:
        phase = jnp.searchsorted(jnp.asarray(self.at), t, side="right")
        return self.rate(t - self.begins[phase])


NAMED_SCHEDULES = by_name(
    Constant, PowerDecay, Piecewise, Interpolated, Linear, Cosine, Restarted
)
# The arguments that hold the times at which a schedule jumps or bends.
SWITCH_ARGUMENTS = {
    Piecewise: "switches",
    Interpolated: "times",
    Linear: "times",
    Cosine: "end",
}


class Range(NamedTuple):
    """Allowed values of a schedule, with the words for messages."""

    least: float
    most: float
    rule: str


RATE_RANGE = Range(0.0, np.inf, "finite and zero or more")
PROBABILITY_RANGES = {
    "keep": Range(np.finfo(float).tiny, 1.0, "above 0 and at most 1"),
    "flip": Range(0.0, 1.0, "between 0 and 1"),
}


def is_schedule(value: object) -> bool:
    """Return True for a schedule of this module, False for a custom function."""
    return isinstance(value, tuple(NAMED_SCHEDULES.values()))


def schedules_of(part: Part) -> dict[str, Any]:
    """Return the arguments of a part that are functions of time, by name."""
    schedules = {}
    for field in fields(part):
        if field.metadata.get("schedule"):
            value = getattr(part, field.name)
            if callable(value):
                schedules[field.name] = value
    return schedules


def rate_at(rate: Rate | Callable[..., object], t: ArrayLike) -> Float[Array, ""]:
    """Return a number, or the value of a schedule at time t."""
    value = rate(jnp.asarray(t)) if callable(rate) else rate
    return jnp.asarray(value, float)


def rate_values(rate: Rate | Callable[..., object], times: np.ndarray) -> np.ndarray:
    """Return a number, or the values of a schedule, at all times of an array."""
    if not callable(rate):
        return np.full(np.shape(times), float(np.asarray(rate)))
    of_times = jax.vmap(lambda t: jnp.asarray(rate(t), float))
    return np.asarray(of_times(jnp.ravel(times))).reshape(np.shape(times))


def _is_custom(rate: Rate | None) -> TypeGuard[Schedule]:
    """Return True for a user's function, of whose shape nothing is known."""
    return callable(rate) and not is_schedule(rate)


def switch_times(
    end: ArrayLike, *rates: Rate | None, known: Sequence[ArrayLike] = ()
) -> Float[Array, " S"] | None:
    """Return the times that the solver must not step across, up to `end`.

    A rate jumps, bends or changes quickly at these times. `known` are given times that
    join them.
    """
    times = list(known)
    for rate in rates:
        if _is_custom(rate):
            times.append(_feature_times(rate, end))
        else:
            times.append(_known_switches(rate))
    arrays = [jnp.ravel(jnp.asarray(t)) for t in times if np.size(t)]
    return jnp.concatenate(arrays) if arrays else None


def _known_switches(rate: Rate | None) -> ArrayLike:
    """Return the times at which a schedule of this module jumps or bends."""
    if isinstance(rate, Restarted):
        inside = jnp.asarray(_known_switches(rate.rate))
        switches_of_phases = jnp.ravel(rate.begins[:, None] + inside)
        return jnp.concatenate([jnp.asarray(rate.at), switches_of_phases])
    if type(rate) in SWITCH_ARGUMENTS:
        return getattr(rate, SWITCH_ARGUMENTS[type(rate)])
    return np.zeros(0)


def require_rate_on(
    name: str, rate: Schedule, times: Float[np.ndarray, " S"], *, solved: bool = True
) -> None:
    """Refuse a schedule that leaves its range, or is not one number, at any time.

    solved: also warn of features that the solver may miss.
    """
    scanned = times
    if _is_custom(rate):
        scanned = np.union1d(times, scan_grid(float(times[-1])))
    values = _checked_values(name, rate, scanned)
    if checks.is_traced(values):
        return
    _require_range(name, np.asarray(values), scanned)
    if solved and _is_custom(rate):
        _warn_of_swings(name, np.asarray(values), float(scanned[-1]))


def _checked_values(
    name: str, rate: Schedule, times: Float[np.ndarray, " T"]
) -> Float[Array, " T"]:
    """Return the values of a schedule; refuse anything but one number for each time."""
    fix = "write it with jax.numpy, as a function of time."
    with explained(f"{name} cannot be traced by JAX", fix):
        values = _values(rate, jnp.asarray(times))
    if values.shape != np.shape(times):
        raise InputError(
            f"{name} maps a time to shape {values.shape[1:]}; "
            "a schedule must return one number."
        )
    return values


def _require_range(name: str, values: np.ndarray, times: np.ndarray) -> None:
    """Refuse values of a schedule outside of its range, and name the worst."""
    allowed = PROBABILITY_RANGES.get(name, RATE_RANGE)
    excess = np.maximum(allowed.least - values, values - allowed.most)
    excess = np.where(np.isfinite(values), excess, np.inf)
    if np.any(excess > 0):
        worst = int(np.argmax(excess))
        raise InputError(
            f"{name} is {values[worst]:g} at time {times[worst]:g}; "
            f"a schedule must be {allowed.rule}."
        )


def _warn_of_swings(name: str, values: np.ndarray, end: float) -> None:
    """Warn if a custom function rises and falls more often than the solver sees."""
    swings = float(_swings(values))
    if swings > MOST_SWINGS:
        warnings.warn(
            f"{name} rises and falls about {swings:.0f} times up to {end:g}; "
            f"the solver surely sees {MOST_SWINGS}. Solve up to an earlier time, "
            "or give a Piecewise or Interpolated schedule.",
            ValidityWarning,
            stacklevel=5,
        )


def scan_grid(end: ArrayLike) -> Float[Array, " T"]:
    """Return the times of the scan, increasing from 0 to the end."""
    even = np.linspace(0.0, 1.0, EVEN_POINTS + 1)
    even_in_log = np.geomspace(EARLIEST, 1.0, LOG_POINTS)
    shares = np.unique(np.concatenate([even, even_in_log]))
    return jnp.asarray(shares) * end


def _values(rate: Schedule, times: Float[Array, " T"]) -> Float[Array, " T"]:
    return jax.vmap(lambda t: jnp.asarray(rate(t), float))(times)


def _feature_times(rate: Schedule, end: ArrayLike) -> Float[Array, " S"]:
    """Return `MOST_STOPS` increasing times that resolve a custom function.

    Times that are not needed lie beyond the end, so that traced numbers have a fixed
    shape.
    """
    times = jax.lax.stop_gradient(scan_grid(end))
    values = jax.lax.stop_gradient(_values(rate, times))
    tiny = jnp.finfo(float).tiny
    log_values = jnp.log(values + LOG_FLOOR * jnp.max(values) + tiny)
    # The measure of a cell is its share of the variation of eta plus that of ln eta.
    measure = 0
    for function in (values, log_values):
        variation = jnp.abs(jnp.diff(function))
        measure = measure + variation / jnp.maximum(jnp.sum(variation), tiny)
    count = STOPS_PER_SWING * _swings(values)
    count = jnp.clip(count, STOPS_PER_SWING, MOST_STOPS)
    levels = 2.0 * (jnp.arange(MOST_STOPS) + 0.5) / count
    cell = jnp.searchsorted(jnp.cumsum(measure), levels)
    cell = jnp.minimum(cell, times.size - 2)
    middle = (values[cell] + values[cell + 1]) / 2
    crossings = _crossings(rate, times[cell], times[cell + 1], middle)
    return jnp.where(levels < jnp.sum(measure), crossings, 2 * end)


def _swings(values: Float[NumpyOrJax, " T"]) -> Float[Array, ""]:
    """Return how often the function rises or falls by its whole range."""
    variation = jnp.sum(jnp.abs(jnp.diff(values)))
    return variation / jnp.maximum(jnp.ptp(values), jnp.finfo(float).tiny)


def _crossings(
    rate: Schedule, low: Array, high: Array, level: Array
) -> Float[Array, " S"]:
    """Return where the function passes the level within each cell, by bisection.

    The result is the first floating-point number on the other side.
    """
    starts_above = _values(rate, low) > level

    def halve(_: ArrayLike, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        is_above = jax.lax.stop_gradient(_values(rate, middle) > level)
        same_side = is_above == starts_above
        return jnp.where(same_side, middle, low), jnp.where(same_side, high, middle)

    _, first_beyond = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
    return first_beyond
