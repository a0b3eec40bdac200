"""The error estimate of averages over a grid covers what the finer grid leaves, too."""

from types import SimpleNamespace

import numpy as np

import tutelage as tu
from tutelage.stream import OrderParameters, accuracy
from tutelage.stream.moments import moments_for


def test_a_grid_whose_finer_grid_is_not_exact_is_covered(monkeypatch):
    """With truth 1, the grid is off by 0.3 and the finer one by 0.05:

    they differ by 0.25.
    """
    unit = tu.Network(1, "erf")
    problem = tu.Problem(unit, unit, labels=tu.labels.Sign(), loss="logistic")
    grid = moments_for(problem)

    def matrices(system, moments, T, seen):
        value = 1.3 if moments.grid == grid.grid else 1.05
        return np.full((1, 1, 2), value), np.full((1, 1, 1), value)

    monkeypatch.setattr(accuracy, "_matrices", matrices)
    curve = SimpleNamespace(times=np.zeros(1), variables={}, T=np.eye(1))
    system = OrderParameters(problem, np.eye(1)[None])
    pairs, spread = accuracy.averages_error(system, grid, curve)
    assert 0.3 < pairs < 0.6
    assert 0.3 < spread < 0.6
