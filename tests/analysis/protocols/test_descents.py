"""Descents to the least maximum, and the slope that constraints leave free."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tutelage.analysis.protocols.descents import free_slope, lower_the_largest
from tutelage.analysis.protocols.evaluation import Evaluation, by_value


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
    """Where 4 (x - .2)^2 = (x - .9)^2: x = 13/30.

    The smooth maximum is smallest elsewhere.
    """
    smooth = minimize_scalar(
        lambda x: two_parts([x, 0.0]).smooth[0], bounds=(0.2, 0.9), method="bounded"
    ).x
    begin = two_parts(np.array([smooth, 0.1]))
    visited = []

    def tried_at(at):
        visited.append(two_parts(at))
        return visited[-1]

    lower_the_largest(begin, tried_at, [], 50)
    best = min(visited, key=by_value)
    np.testing.assert_allclose(best.point, [13 / 30, 0.0], atol=1e-6)
    assert best.value < begin.value * (1 - 1e-3)
    assert abs(smooth - 13 / 30) > 1e-3
    assert free_slope(free(), best) < 1e-5
    assert free_slope(free(), begin) > 0.1


def test_a_budget_that_should_not_be_used_up_leaves_a_slope():
    """A budget holds a number down, but not up."""
    at = np.array([0.3, 0.4])
    search = free(lambda z: np.array([z.mean()]), most=0.35)
    for slope, wanted in ((-1.0, 0.0), (1.0, 1.0)):
        tried = Evaluation(at, np.array([0.0]), np.full((1, 2), slope))
        assert free_slope(search, tried) == pytest.approx(wanted, abs=1e-6)


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
    assert free_slope(search, tried) == wanted
