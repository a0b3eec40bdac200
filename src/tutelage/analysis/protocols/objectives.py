"""Objectives of a protocol: the integral of the error, and the time to a level.

An integral over time is a variable of the differential equations. The time to a level
is read off a solve, and its derivative from two times next to it.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from tutelage._types import Array, ArrayLike
from tutelage.analysis.result import first_time_at
from tutelage.problem import Problem, Start
from tutelage.result.trajectory import Trajectory
from tutelage.solvers.program import Options
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.moments import Moments
from tutelage.stream.program import integrate_equations

Objective: TypeAlias = str | Callable[[Trajectory], ArrayLike]
OBJECTIVES = ("final", "integrated", "worst", "time")
LOOKS = 33  # recorded times in an interval in which the level is reached
ZOOMS = 2  # how often such an interval is divided by so many times


class AccumulatedError(OrderParameters):
    """The dynamics of a problem next to the integral of its error over time.

    A state is a pair: the overlaps, and the integral of the mean error over tasks. The
    tolerance of the integral guides the steps, not the error itself.
    """

    def drift_and_error_rate(self, t: ArrayLike, state: Any) -> tuple[Any, Array]:
        """Return the drift of both; no rate of the error."""
        overlaps = state[0]
        error = self.error_and_loss(OrderParameters.observe(self, overlaps), t)[0]
        drift = OrderParameters.drift(self, t, overlaps)
        return (drift, jnp.mean(error)), jnp.zeros_like(error)

    def observe(self, state: Any) -> dict[str, Array]:
        """Return the recorded overlaps, and the integral."""
        overlaps, integral = state
        return OrderParameters.observe(self, overlaps) | {"integral": integral}


PROGRAM = Options(gradient_flow=False, solver="explicit", keep=False)


def integrated_error(
    problem: Problem, start: Start, times: Any, moments: Moments, steps: Any
) -> Any:
    """Return the integral of the mean error over tasks, up to each of the times.

    It is NaN after a divergence.
    """
    overlaps, t = initial_overlaps(problem, start)
    system = AccumulatedError(
        problem, t, gradient_flow=False, keep_blocks=False, moments=moments
    )
    initial = (overlaps, np.zeros(()))
    solved = integrate_equations(system, moments, initial, times, steps, PROGRAM)
    return solved.variables["integral"]


def over_tasks(error: Any) -> Any:
    """Return the mean error over tasks, at each time."""
    return error.mean(axis=1) if error.ndim > 1 else error


def time_to_level(
    level: float, times: np.ndarray, error_at: Callable[[np.ndarray], np.ndarray]
) -> float:
    """Return the time at which an error first falls to a level.

    It is infinite if the error does not do so up to the last time. error_at(times)
    solves. The interval in which the level is reached is solved again at more times, so
    that nothing is interpolated over more than a thousandth of it.
    """
    error = error_at(times)
    for _ in range(ZOOMS):
        below = np.flatnonzero(error <= level)
        if not below.size:
            return np.inf
        first = below[0]
        if first == 0:
            return float(times[0])
        times = np.linspace(times[first - 1], times[first], LOOKS)
        error = error_at(times)
    return float(first_time_at(level, times, error))
