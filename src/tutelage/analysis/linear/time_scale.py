"""How a mode decays: exp(-s alpha) in the limit of large N, (1 - s/N)^n after n = ceil(alpha N) steps of a finite network.

The closed solution of the linear network is the same in both; only the clock differs. Every formula here keeps its digits
for rates near zero, for equal rates, and for tens of millions of steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import checks
from tutelage._errors import InputError
from tutelage.times import steps_at

TINY = 1e-300


@dataclass(frozen=True)
class Clock:
    """dim: N, or None for the limit. Rates s and times alpha are arrays that broadcast."""

    dim: int | None = None

    def decay(self, rate: np.ndarray, times: np.ndarray) -> np.ndarray:
        """What is left of a mode: the solution of x' = -rate x, or of x += -(rate/N) x, from one."""
        left = np.exp(self._exponent(rate, times))
        if self.dim is None or not np.any(rate > self.dim):
            return left
        return np.where(rate > self.dim, np.power(1 - rate / self.dim, steps_at(times, self.dim)), left)  # alternates

    def filled(self, rate: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The response to a unit force, (1 - decay) / rate: the time itself where the rate is zero. Needs rate <= N."""
        rate = np.where(rate == 0, TINY, rate)
        return -np.expm1(self._exponent(rate, times)) / rate

    def beat(self, rate: np.ndarray, force: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The response to a force that decays itself, (decay(force) - decay(rate)) / (rate - force). Needs rate <= N."""
        gap = np.where(rate == force, TINY, rate - force)
        if self.dim is None:
            fall = -gap * times
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                fall = steps_at(times, self.dim) * np.maximum(np.log1p(-gap / (self.dim - force)), -1 / TINY)
        slower = np.maximum(self._exponent(rate, times), self._exponent(force, times))
        smooth = -np.exp(slower) * np.expm1(-np.abs(fall)) / np.abs(gap)
        if self.dim is None or not np.any(force > self.dim):
            return smooth
        return np.where(force > self.dim, (self.decay(force, times) - self.decay(rate, times)) / gap, smooth)

    def _exponent(self, rate: np.ndarray, times: np.ndarray) -> np.ndarray:
        """ln decay, for rates up to N; beyond, where a step overshoots and changes the sign, it is not used."""
        if self.dim is None:
            return -rate * times
        with np.errstate(divide="ignore", invalid="ignore"):
            per_step = np.where(rate <= self.dim, np.log1p(-rate / self.dim), 0.0)
        return steps_at(times, self.dim) * np.maximum(per_step, -1 / TINY)


def log_slope(times: np.ndarray, value: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """d ln value / d ln time = time * rate / value; refused where nothing is left to have a slope."""
    if np.any(value <= 0):
        raise InputError(
            f"by alpha = {times[value <= 0].min():g} the error is zero, or too small for a number; it has no slope there. "
            "Ask for earlier times."
        )
    return times * rate / value


def at_times(times: Any, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A function of a row of times, (T,) -> (T, ...), at times of any shape; refused where it leaves every bound."""
    checks.require_untraced("the list of times", "the closed solution", times)
    times = checks.as_array("times", times)
    checks.require_nonnegative("times", times)
    with np.errstate(over="ignore", invalid="ignore"):
        values = function(np.ravel(times))
    beyond = ~np.isfinite(values.reshape(times.size, -1)).all(axis=1)
    if beyond.any():
        raise InputError(
            f"by alpha = {np.ravel(times)[beyond].min():g} the mean error has grown beyond every bound; ask for earlier "
            "times, or lower lr below the critical rate."
        )
    return values.reshape((*times.shape, *values.shape[1:]))
