"""SGD, its numbers that change with time alpha, and where the solver must not step across their features.

A learning rate is a number, one of these schedules, or any function of time that JAX can trace. The numbers inside a
schedule are leaves: they can be batched and differentiated.

A burst of a custom function between two evaluations of the solver is invisible. So the function is scanned on a fine grid,
even in t and even in ln t, and the solver stops at times that divide the variation of the function (of eta and of ln eta)
into equal parts. A stop is moved to where the function crosses the middle of the values of its cell: a jump is found to the
last digit. Features shorter than the grid, 1/65536 of the whole time and 0.2% of the time that has passed, can be missed.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage import checks
from tutelage._part import Part, by_name
from tutelage._types import Array, ArrayLike, Numbers, NumpyOrJax, Rate, Schedule, Table
from tutelage.errors import InputError, ValidityWarning, explained

if TYPE_CHECKING:
    from tutelage.problem.problem import Problem

EVEN, IN_LOG, EARLIEST = 2**16, 2**14, 1e-12  # points of the grid; first of those even in ln t, as a share of the end
PER_SWING, MOST_STOPS = 32, 256  # stops for each rise or fall of the function's whole range, and altogether
FLOOR = 1e-3  # of the largest rate: changes of ln eta count down to about this share
HALVINGS = 64


def list_field(name: str, *requirements: checks.Requirement) -> Any:
    """A field that holds a list of numbers; a single number is a list of one."""

    def convert(values: ArrayLike) -> NumpyOrJax:
        array = checks.as_array(name, values)
        return checks.as_array(name, array if array.ndim else array[None], *requirements)

    return eqx.field(converter=convert)


_rate_field = partial(checks.number_field, schedule=True)
_positive = partial(checks.require_positive, fix="To freeze weights use `trainable`.")


class Constant(Part):
    """eta(alpha) = value. A plain number means the same, and is what a problem keeps."""

    value: ArrayLike = checks.number_field("value (the learning rate)", checks.require_positive)

    @property
    def constant_value(self) -> ArrayLike:
        """The number that stands for this schedule."""
        return self.value

    def __call__(self, t: Array) -> Array:
        return jnp.asarray(self.value)


class PowerDecay(Part):
    """eta(alpha) = initial / (1 + alpha / timescale)^exponent.

    >>> import tutelage as tu
    >>> float(tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=50.0)(50.0))
    0.25
    """

    initial: ArrayLike = checks.number_field("initial (learning rate)", checks.require_positive)
    exponent: ArrayLike = checks.number_field("exponent", checks.require_nonnegative, default=1.0)
    timescale: ArrayLike = checks.number_field("timescale", checks.require_positive, default=1.0)

    def __call__(self, t: Array) -> Array:
        return jnp.asarray(self.initial / (1.0 + t / self.timescale) ** self.exponent)


class Piecewise(Part):
    """eta(alpha) = values[i] between the switch times i-1 and i; one value more than switch times.

    The solver stops at each switch, so a jump costs no accuracy. A value of 0 freezes what the rate moves.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Piecewise([100.0], [0.5, 0.05])
    >>> float(rate(99.0)), float(rate(101.0))
    (0.5, 0.05)
    """

    switches: ArrayLike = list_field("switches", checks.require_positive)
    values: ArrayLike = list_field("values (learning rates)", checks.require_nonnegative)

    def __check_init__(self) -> None:
        count = np.size(self.switches)
        checks.require_shape("values", self.values, (count + 1,), fix="One value more than switch times.")
        if count:
            checks.require_increasing("switches", self.switches)

    def __call__(self, t: Array) -> Array:
        return jnp.asarray(self.values)[jnp.searchsorted(jnp.asarray(self.switches), t, side="right")]


class Linear(Part):
    """Straight lines through `values` at `times`, constant before and after; values may be 0.

    >>> import tutelage as tu
    >>> float(tu.schedules.Linear([0.0, 100.0], [1.0, 0.0])(50.0))
    0.5
    """

    times: ArrayLike = list_field("times", checks.require_increasing)
    values: ArrayLike = list_field("values", checks.require_nonnegative)

    def __check_init__(self) -> None:
        checks.require_shape("values", self.values, np.shape(self.times), fix="One value for each time.")

    def __call__(self, t: Array) -> Array:
        return jnp.interp(t, jnp.asarray(self.times), jnp.asarray(self.values))


class Interpolated(Linear):
    """eta(alpha) through `values` at `times`: straight lines of ln eta between them, constant before and after.

    >>> import tutelage as tu
    >>> round(float(tu.schedules.Interpolated([0.0, 100.0], [1.0, 0.01])(50.0)), 6)
    0.1
    """

    def __check_init__(self) -> None:
        checks.require_positive("values (learning rates)", self.values)

    def __call__(self, t: Array) -> Array:
        return jnp.exp(jnp.interp(t, jnp.asarray(self.times), jnp.log(jnp.asarray(self.values))))


class Cosine(Part):
    """eta(alpha) from `initial` to `final` along half a cosine, constant after `end`.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Cosine(1.0, 100.0)
    >>> round(float(rate(50.0)), 6), float(rate(200.0))
    (0.5, 0.0)
    """

    initial: ArrayLike = checks.number_field("initial (learning rate)", checks.require_positive)
    end: ArrayLike = checks.number_field("end", checks.require_positive)
    final: ArrayLike = checks.number_field("final (learning rate)", checks.require_nonnegative, default=0.0)

    def __call__(self, t: Array) -> Array:
        phase = jnp.pi * jnp.clip(t / self.end, 0.0, 1.0)
        return jnp.asarray(self.final + (self.initial - self.final) * (1.0 + jnp.cos(phase)) / 2.0)


class Restarted(Part):
    """A schedule that begins again at each of the times: eta(alpha) = rate(alpha - the last restart).

    rate: another schedule of this module. at: times, increasing; for example the switch times of `Tasks`.

    >>> import tutelage as tu
    >>> rate = tu.schedules.Restarted(tu.schedules.PowerDecay(0.5, timescale=10.0), at=[60.0])
    >>> float(rate(10.0)), float(rate(70.0))
    (0.25, 0.25)
    """

    rate: Any
    at: ArrayLike = list_field("at (the restarts)", checks.require_increasing, checks.require_positive)

    def __check_init__(self) -> None:
        if type(self.rate) not in NAMED.values() or isinstance(self.rate, Restarted):
            raise InputError(f"rate is {checks.shown(self.rate)}; it must be a schedule, such as PowerDecay(0.5).")

    @property
    def begins(self) -> Float[Array, " phases"]:
        """The times at which the schedule begins."""
        return jnp.concatenate([jnp.zeros(1), jnp.asarray(self.at)])

    def __call__(self, t: Array) -> Array:
        return self.rate(t - self.begins[jnp.searchsorted(jnp.asarray(self.at), t, side="right")])


NAMED = by_name(Constant, PowerDecay, Piecewise, Interpolated, Linear, Cosine, Restarted)
SWITCHING = {Piecewise: "switches", Interpolated: "times", Linear: "times", Cosine: "end"}  # where they jump or bend
RANGES = {"keep": (np.finfo(float).tiny, 1.0, "above 0 and at most 1"), "flip": (0.0, 1.0, "between 0 and 1")}
USUAL_LR = 0.5  # of a problem, a file or a command that names no learning rate
RESOLVED = MOST_STOPS // 2  # rises and falls of a function that the solver is sure to see


def is_schedule(value: object) -> bool:
    """Is it a schedule of this module?"""
    return isinstance(value, tuple(NAMED.values()))


def schedules_of(part: Part) -> dict[str, Any]:
    """Numbers of a part that are functions of time, by name: the solver does not step across their jumps."""
    names = [field.name for field in fields(part) if field.metadata.get("schedule")]
    return {name: value for name in names if callable(value := getattr(part, name))}


def rate_at(rate: Rate | Callable[..., object], t: ArrayLike) -> Float[Array, ""]:
    """The rate at time t, whatever kind it is."""
    return jnp.asarray(rate(jnp.asarray(t)) if callable(rate) else rate)


def _is_custom(rate: Rate | None) -> TypeGuard[Schedule]:
    """Is it a user's function, of whose shape nothing is known?"""
    return callable(rate) and not is_schedule(rate)


def switch_times(end: ArrayLike, *rates: Rate | None, known: Sequence[ArrayLike] = ()) -> Float[Array, " S"] | None:
    """Times up to `end` at which a rate jumps, bends or changes quickly, and known ones; the solver must not step across them."""
    found = [_feature_times(rate, end) if _is_custom(rate) else _known_switches(rate) for rate in rates]
    times = [jnp.ravel(jnp.asarray(t)) for t in (*known, *found) if np.size(t)]
    return jnp.concatenate(times) if times else None


def _known_switches(rate: Rate | None) -> ArrayLike:
    """Where a schedule of this module jumps or bends."""
    if isinstance(rate, Restarted):
        inside = jnp.asarray(_known_switches(rate.rate))
        return jnp.concatenate([jnp.asarray(rate.at), jnp.ravel(rate.begins[:, None] + inside)])
    return getattr(rate, SWITCHING[type(rate)]) if type(rate) in SWITCHING else np.zeros(0)


def require_rates_on(problem: "Problem", times: Float[np.ndarray, " S"], *, solved: bool = True) -> None:
    """Every schedule must be one number in its range at all times. solved: warn of features that the solver may miss."""
    if hasattr(problem.teacher, "require_probabilities_on"):  # several tasks, whose module imports this one
        problem.teacher.require_probabilities_on(times)
    for name, rate in problem.schedules().items():
        at = np.union1d(times, scan_grid(float(times[-1]))) if _is_custom(rate) else times
        with explained(f"{name} cannot be traced by JAX", "write it with jax.numpy, as a function of time."):
            values = _values(rate, jnp.asarray(at))
        if values.shape != np.shape(at):
            raise InputError(f"{name} maps a time to shape {values.shape[1:]}; a schedule must return one number.")
        if checks.is_traced(values):
            continue
        values = np.asarray(values)
        least, most, rule = RANGES.get(name, (0.0, np.inf, "finite and zero or more"))
        beyond = np.where(np.isfinite(values), np.maximum(least - values, values - most), np.inf)
        if np.any(beyond > 0):
            worst = int(np.argmax(beyond))
            raise InputError(f"{name} is {values[worst]:g} at time {at[worst]:g}; a schedule must be {rule}.")
        if solved and _is_custom(rate) and (turns := float(_swings(values))) > RESOLVED:
            given = f"{name} rises and falls about {turns:.0f} times up to {at[-1]:g}; the solver surely sees {RESOLVED}"
            fix = "Solve up to an earlier time, or give a Piecewise or Interpolated schedule."
            warnings.warn(f"{given}. {fix}", ValidityWarning, stacklevel=4)


def scan_grid(end: ArrayLike) -> Float[Array, " T"]:
    """The times of the scan, increasing, from 0 to the end."""
    shares = np.concatenate([np.linspace(0.0, 1.0, EVEN + 1), np.geomspace(EARLIEST, 1.0, IN_LOG)])
    return jnp.asarray(np.unique(shares)) * end


def _values(rate: Schedule, times: Float[Array, " T"]) -> Float[Array, " T"]:
    return jax.vmap(lambda t: jnp.asarray(rate(t), float))(times)


def _feature_times(rate: Schedule, end: ArrayLike) -> Float[Array, " S"]:
    """At most `MOST_STOPS` times, increasing; those that are not needed lie beyond the end. Works on traced numbers too."""
    times = jax.lax.stop_gradient(scan_grid(end))
    values = jax.lax.stop_gradient(_values(rate, times))
    tiny = jnp.finfo(float).tiny
    variations = [jnp.abs(jnp.diff(v)) for v in (values, jnp.log(values + FLOOR * jnp.max(values) + tiny))]
    measure = sum(part / jnp.maximum(jnp.sum(part), tiny) for part in variations)
    count = jnp.clip(PER_SWING * _swings(values), PER_SWING, MOST_STOPS)
    levels = 2.0 * (jnp.arange(MOST_STOPS) + 0.5) / count
    cell = jnp.minimum(jnp.searchsorted(jnp.cumsum(measure), levels), times.size - 2)
    found = _crossings(rate, times[cell], times[cell + 1], (values[cell] + values[cell + 1]) / 2)
    return jnp.where(levels < jnp.sum(measure), found, 2 * end)


def _swings(values: Float[NumpyOrJax, " T"]) -> Float[Array, ""]:
    """How many times the function rises or falls by its whole range."""
    return jnp.sum(jnp.abs(jnp.diff(values))) / jnp.maximum(jnp.ptp(values), jnp.finfo(float).tiny)


def _crossings(rate: Schedule, low: Array, high: Array, level: Array) -> Float[Array, " S"]:
    """Where the function passes the level within each cell, by bisection: the first float on the other side."""
    above = _values(rate, low) > level

    def halve(_: ArrayLike, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        same = jax.lax.stop_gradient(_values(rate, middle) > level) == above
        return jnp.where(same, middle, ends[0]), jnp.where(same, ends[1], middle)

    return jax.lax.fori_loop(0, HALVINGS, halve, (low, high))[1]


class SlowMomentum(Part):
    """Momentum that forgets on the time scale of learning: 1 - beta = gamma / N.

        Om <- (1 - gamma/N) Om + (k / sqrt(N)) delta x,    w <- w + Om / N
    k: strength of the force; None: gamma * lr, which tends to plain SGD as gamma grows. With k given, lr moves only the
    readout and the biases. (A fixed beta is simply `momentum=beta`: in the limit, plain SGD with eta / (1 - beta).)

    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5, momentum=tu.SlowMomentum(gamma=2.0))
    SGD(lr=0.5, momentum=SlowMomentum(gamma=2))
    """

    gamma: ArrayLike = checks.number_field("gamma", checks.require_positive)
    k: Any = _rate_field("k", _positive, optional=True, default=None)


def _as_momentum(momentum: ArrayLike | SlowMomentum) -> Any:
    if isinstance(momentum, SlowMomentum):
        return momentum
    beta = checks.as_number("momentum", momentum, checks.require_nonnegative)
    if not checks.is_traced(beta) and beta >= 1:
        raise InputError(f"momentum is {float(beta):g}; it must be below 1. Try 0.9 or SlowMomentum(gamma).")
    return beta


def _frozen(trainable: Numbers | None) -> tuple[Any, ...] | None:
    """Hashable form of `trainable`: a tuple of level indices, or nested tuples of booleans."""
    if trainable is None:
        return None
    try:
        array = np.asarray(trainable)
    except ValueError:
        array = np.asarray("ragged")
    if array.size == 0 or (array.dtype.kind, array.ndim) not in (("b", 1), ("b", 2), ("i", 1), ("u", 1)):
        given = checks.shown(trainable)
        raise InputError(f"trainable is {given}; give a list of levels, or a mask (levels,) or (hidden, levels).")
    return tuple(map(tuple, array.tolist())) if array.ndim == 2 else tuple(array.tolist())


class SGD(Part):
    """How the student learns: one-pass SGD on fresh batches.

    One step, with Delta = y - yhat, fields lambda_k = w_k . x / sqrt(N) + b_k, and means over the batch:

        w_k += (eta / sqrt(N)) mean[ Delta v_k g'(lambda_k) x ] - (eta kappa / N) w_k
        v_k += (eta_v / N) mean[ Delta g(lambda_k) ],    b_k += (eta_b / N) mean[ Delta v_k g'(lambda_k) ]

    Parameters
    ----------
    lr : float or schedule
        The learning rate eta.
    batch : int
        Samples averaged per step.
    weight_decay : float or schedule
        kappa, of the first layer.
    readout_lr, bias_lr : float or schedule, optional
        eta_v and eta_b. Default: lr.
    momentum : float or SlowMomentum
        A fixed beta in [0, 1), or `SlowMomentum`.
    trainable : list or mask, optional
        Indices of the levels that learn, or a mask of shape (L,) or (K, L); the rest is frozen. Default: all learn.
    spherical : bool
        Rescale each student vector to its initial norm after every step.

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.SGD(lr=0.5)
    SGD(lr=0.5)
    >>> tu.SGD(lr=tu.schedules.PowerDecay(0.5, exponent=1.0, timescale=50.0), batch=4, weight_decay=1e-3)
    SGD(lr=PowerDecay(initial=0.5, timescale=50), batch=4, weight_decay=0.001)
    """

    lr: Any = _rate_field("lr", _positive)  # a number or a schedule, as the rates below; most callers know which
    batch: int = eqx.field(
        converter=lambda n: n if checks.is_traced(n) else checks.as_count("batch", n), default=1, kw_only=True
    )
    weight_decay: Any = _rate_field("weight_decay", checks.require_nonnegative, default=0.0, kw_only=True)
    readout_lr: Any = _rate_field("readout_lr", _positive, optional=True, default=None, kw_only=True)
    bias_lr: Any = _rate_field("bias_lr", _positive, optional=True, default=None, kw_only=True)
    momentum: Any = eqx.field(converter=_as_momentum, default=0.0, kw_only=True)
    trainable: tuple[Any, ...] | None = eqx.field(static=True, converter=_frozen, default=None, kw_only=True)
    spherical: bool = eqx.field(static=True, converter=partial(checks.as_flag, "spherical"), default=False, kw_only=True)

    def __check_init__(self) -> None:
        decay = self.weight_decay
        if self.spherical and isinstance(self.momentum, SlowMomentum):
            raise InputError("spherical is True and momentum is a SlowMomentum; they contradict each other. Drop one.")
        if self.spherical and (callable(decay) or (not checks.is_traced(decay) and decay > 0)):
            raise InputError(f"weight_decay is {checks.shown(decay)} and spherical is True; a held norm cannot decay.")

    def arguments(self) -> Table:
        return super().arguments() | {"trainable": None if self.trainable is None else np.asarray(self.trainable)}
