"""The best fraction of replay, against a search by SciPy."""

import pytest
from scipy.optimize import minimize_scalar

import tutelage as tu
from tests.analysis.continual.cases import START, two_tasks


def test_best_replay_is_a_minimum(replayed):
    problem = two_tasks(tu.Replay(0.0, after=60.0))
    times = tu.linear_times(120, 13)

    def mean_error(fraction):
        return float(
            tu.solve(problem.replace(**{"schedule.fraction": fraction}), START, times)
            .error[-1]
            .mean()
        )

    second = minimize_scalar(
        mean_error, bounds=(0.1, 0.5), method="bounded", options={"xatol": 1e-4}
    )
    assert replayed.fraction == pytest.approx(second.x, abs=2e-3)
    assert replayed.value == pytest.approx(second.fun, rel=1e-5)
    assert replayed.gain == pytest.approx(mean_error(0.0) / second.fun, rel=1e-4)
    assert replayed.forgetting[0, 0] == pytest.approx(0.1549, abs=1e-4)
