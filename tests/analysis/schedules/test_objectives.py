"""The pieces of the objectives of `optimize`: against closed forms, without a search."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import tutelage as tu
from tests.problems import pair
from tutelage.analysis import protocols
from tutelage.analysis.protocols import Evaluation
from tutelage.solvers.program import step_tolerances
from tutelage.stream.moments import moments_for
from tutelage.stream.order_parameters import as_arrays

EDGES = np.array([0.0, 100.0, 200.0])
RATES = np.array([0.7, 0.1])
NOISE, E0 = 0.5, 0.55


def test_the_integral_over_time_is_exact():
    """One linear unit: e' = -2 eta e + eta^2 (e + sigma^2 / 2), piece by piece."""
    error, integral = E0, 0.0
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
    assert protocols.integrated_error(*arguments)[-1] == pytest.approx(
        integral, rel=1e-7
    )


def falling(times):
    return 1 / (1 + times) ** 2


def test_the_time_to_a_level_is_that_of_the_curve_itself():
    times = np.linspace(0.0, 40.0, 17)
    for level in (0.5, 0.01, 0.001):
        exact = level**-0.5 - 1
        assert protocols.time_to_level(level, times, falling) == pytest.approx(
            exact, rel=3e-6
        )
    between = float(protocols.first_time_at(0.5, times, falling(times)))
    assert (
        abs(between / (0.5**-0.5 - 1) - 1) > 0.1
    )  # what interpolation between recorded times gives


def test_a_level_that_is_not_reached_is_said_not_extrapolated():
    assert protocols.time_to_level(1e-6, np.linspace(0.0, 40.0, 17), falling) == np.inf
    found = SimpleNamespace(
        objective="time", trajectory=SimpleNamespace(times=np.array([0.0, 40.0]))
    )
    assert protocols.OptimalProtocol._shown(found, np.inf) == "not reached within 40"
    assert protocols.OptimalProtocol._shown(found, 25.571) == "25.57"


def two_parts(at):
    """Two parabolas in the first number, the second of which bends less, and one in the other number."""
    x, y = at
    parts = np.array([4 * (x - 0.2) ** 2 + y**2, (x - 0.9) ** 2 + y**2])
    return Evaluation(
        np.array(at), parts, np.array([[8 * (x - 0.2), 2 * y], [2 * (x - 0.9), 2 * y]])
    )


def free(spent=None, most=np.inf):
    """A search without bounds that are met, with a budget for `spent`."""
    given = (lambda at: np.array([0.0])) if spent is None else spent
    return SimpleNamespace(
        whole=lambda at: at, spent=given, budgets=np.array([[-np.inf, most]])
    )


def test_the_maximum_itself_is_minimized():
    """Where 4 (x - .2)^2 = (x - .9)^2: x = 13/30. The smooth maximum is smallest elsewhere."""
    smooth = minimize_scalar(
        lambda x: two_parts([x, 0.0]).smooth[0], bounds=(0.2, 0.9), method="bounded"
    ).x
    begin = two_parts(np.array([smooth, 0.1]))
    visited = []

    def tried_at(at):
        visited.append(two_parts(at))
        return visited[-1]

    protocols.lower_the_largest(begin, tried_at, [], 50)
    best = min(visited, key=protocols.by_value)
    np.testing.assert_allclose(best.point, [13 / 30, 0.0], atol=1e-6)
    assert best.value < begin.value * (1 - 1e-3)
    assert abs(smooth - 13 / 30) > 1e-3
    assert protocols.free_slope(free(), best) < 1e-5
    assert protocols.free_slope(free(), begin) > 0.1


def test_a_budget_that_should_not_be_used_up_leaves_a_slope():
    """A budget holds a number down, but not up."""
    at = np.array([0.3, 0.4])
    search = free(lambda z: np.array([z.mean()]), most=0.35)
    for slope, wanted in ((-1.0, 0.0), (1.0, 1.0)):
        tried = Evaluation(at, np.array([0.0]), np.full((1, 2), slope))
        assert protocols.free_slope(search, tried) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("place", "slope", "wanted"),
    [(0.0, 1.0, 0.0), (0.0, -1.0, 1.0), (1.0, -1.0, 0.0), (1.0, 1.0, 1.0)],
)
def test_at_a_bound_only_the_way_inside_counts(place, slope, wanted):
    tried = Evaluation(np.array([place]), np.array([0.0]), np.array([[slope]]))
    search = SimpleNamespace(
        whole=lambda at: at,
        spent=lambda at: np.zeros(1),
        budgets=np.array([[-np.inf, np.inf]]),
    )
    assert protocols.free_slope(search, tried) == wanted


def test_points_of_phases_stand_for_segments():
    search = SimpleNamespace(rows=(1, 1), size=12)
    whole = protocols.Search.whole(search, np.array([0.0, 1.0, 0.2, 0.7]))
    np.testing.assert_array_equal(
        whole, [0, 0, 0, 1, 1, 1, 0.2, 0.2, 0.2, 0.7, 0.7, 0.7]
    )
    np.testing.assert_array_equal(protocols.Search.whole(search, whole), whole)
