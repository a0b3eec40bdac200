"""The derivative of every objective by every control, against differences."""

import numpy as np
import pytest

from tests.analysis.protocols.cases import EVERYTHING, TWO, TWO_START, search_of
from tutelage.analysis.protocols.evaluation import evaluate


def require_derivative(search, seed=2, step=2e-3):
    rng = np.random.default_rng(seed)
    point = rng.uniform(0.3, 0.7, search.size)
    direction = rng.standard_normal(search.size)
    f = [evaluate(search, point + k * step * direction).parts for k in (-2, -1, 1, 2)]
    finite = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    slopes = evaluate(search, point).slopes
    np.testing.assert_allclose(slopes @ direction, finite, rtol=1e-6)
    assert np.all(np.abs(finite) > 1e-3)
    return slopes[0]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=[] if "tasks" in c else pytest.mark.full)
        for c in EVERYTHING
    ],
)
def test_gradient_equals_finite_differences(case):
    problem, start, controls = EVERYTHING[case]
    slope = require_derivative(search_of(problem, start, controls))
    rows = np.abs(slope).reshape(len(controls), -1).max(axis=1)
    assert np.all(rows > 1e-4), dict(
        zip(controls, rows, strict=True)
    )  # every control has a say


@pytest.mark.full
@pytest.mark.parametrize("objective", ["final", "integrated", "worst", "time"])
@pytest.mark.parametrize("shape", ["piecewise", "smooth"])
def test_gradient_of_every_objective(objective, shape):
    require_derivative(
        search_of(
            TWO,
            TWO_START,
            {"lr": (0, 2), "tasks": (0, 1)},
            objective=objective,
            shape=shape,
            level=0.12,
        ),
        step=2e-4
        if objective == "time"
        else 2e-3,  # it bends where the level is reached at a recorded time
    )
