"""The integral of the error and the time to a level, against closed forms."""

import numpy as np
import pytest

import tutelage as tu
from tests.problems import pair
from tutelage.analysis.protocols.objectives import integrated_error, time_to_level
from tutelage.analysis.result import first_time_at
from tutelage.solvers.program import step_tolerances
from tutelage.stream.moments import moments_for
from tutelage.stream.order_parameters import as_arrays

EDGES = np.array([0.0, 100.0, 200.0])
RATES = np.array([0.7, 0.1])
NOISE = 0.5
INITIAL_ERROR = 0.55


def test_the_integral_over_time_is_exact():
    """One linear unit: e' = -2 eta e + eta^2 (e + sigma^2 / 2), piece by piece."""
    error = INITIAL_ERROR
    integral = 0.0
    for eta, length in zip(RATES, np.diff(EDGES), strict=True):
        decay = 2 * eta - eta**2
        floor = eta**2 * NOISE**2 / 2 / decay
        passed = 1 - np.exp(-decay * length)
        integral += floor * length + (error - floor) * passed / decay
        error = error - (error - floor) * passed
    problem = pair(
        1, 1, "linear", noise=NOISE, lr=tu.schedules.Piecewise(EDGES[1:-1], RATES)
    )
    arguments = (
        as_arrays(problem),
        tu.Start([[0.2]], [[0.5]]),
        EDGES[-1:],
        moments_for(problem),
        step_tolerances(),
    )
    assert integrated_error(*arguments)[-1] == pytest.approx(integral, rel=1e-7)


def falling(times):
    return 1 / (1 + times) ** 2


def test_the_time_to_a_level_is_that_of_the_curve_itself():
    times = np.linspace(0.0, 40.0, 17)
    for level in (0.5, 0.01, 0.001):
        exact = level**-0.5 - 1
        assert time_to_level(level, times, falling) == pytest.approx(exact, rel=3e-6)
    between = float(first_time_at(0.5, times, falling(times)))
    assert (
        abs(between / (0.5**-0.5 - 1) - 1) > 0.1
    )  # what interpolation between recorded times gives


def test_a_level_that_is_not_reached_is_not_extrapolated():
    assert time_to_level(1e-6, np.linspace(0.0, 40.0, 17), falling) == np.inf
