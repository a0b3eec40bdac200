"""Linear units against their closed forms: Marchenko-Pastur and Volterra."""

import numpy as np
import pytest

import tutelage as tu
from tests.dataset import problems
from tests.dataset.closed_forms import Curve, Linear, descent, stochastic


def require_equal(theory: tu.Trajectory, exact: Curve, rtol: float) -> None:
    """Compare within the stated bounds and rtol of the largest entry."""
    arrays = {"R": exact.R, "Q": exact.Q, "train_loss": exact.train_loss}
    for name, values in arrays.items():
        gap = np.abs(np.ravel(theory[name]) - values)
        bound = 2 * np.ravel(theory.sampling_errors[name])
        allowed = np.minimum(bound, rtol * np.max(np.abs(values))) + 1e-9
        assert np.all(gap < allowed), (name, gap, bound)


def test_the_closed_forms_have_the_known_digits():
    unit = Linear(ratio=1.5, R=0.1, Q=0.5, noise=0.3, decay=0.0)
    curve = descent(unit, 0.4, np.array([1, 40]))
    np.testing.assert_allclose(curve.R, [0.46, 0.9681383], atol=1e-7)
    np.testing.assert_allclose(curve.Q, [0.5362667, 1.0806140], atol=1e-7)
    np.testing.assert_allclose(curve.train_loss, [0.1705556, 0.0157489], atol=1e-7)
    curve = stochastic(unit, 0.5, 15.0)
    assert curve.R[-1] == pytest.approx(0.913181, abs=2e-6)
    assert curve.Q[-1] == pytest.approx(0.984667, abs=2e-6)
    assert curve.train_loss[-1] == pytest.approx(0.025412, abs=2e-6)


@pytest.mark.parametrize("ratio", [0.7, 1.5])
def test_gradient_descent(ratio):
    problem = problems.REGRESSION.replace(
        optimizer=problems.Descent(0.4), data=tu.DataSet(ratio)
    )
    steps = np.array([1.0, 5.0, 20.0])
    moments = tu.Sampled(2**15)
    theory = tu.solve(problem, problems.REGRESSION_START, steps, moments=moments)
    exact = descent(Linear(ratio, 0.1, 0.5, 0.3, 0.0), 0.4, steps)
    require_equal(theory, exact, 5e-3)


@pytest.mark.parametrize(("ratio", "lr", "decay"), [(1.5, 0.5, 0.0), (3.0, 1.0, 0.05)])
def test_stochastic_gradient_descent(ratio, lr, decay):
    problem = problems.REGRESSION.replace(
        optimizer=tu.SGD(lr, weight_decay=decay), data=tu.DataSet(ratio)
    )
    unit = Linear(ratio, 0.1, 0.5, 0.3, decay)
    exact = stochastic(unit, lr, 4.5)
    places = np.array([0, 666, 2000])
    times = np.linspace(0.0, 4.5, 2001)[places]
    moments = tu.Sampled(2**14)
    theory = tu.solve(problem, problems.REGRESSION_START, times, moments=moments)
    require_equal(theory, Curve(*(x[places] for x in exact)), 1e-2)


@pytest.mark.full
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_closed_forms_to_a_thousandth(decay):
    problem = problems.REGRESSION.replace(
        optimizer=tu.SGD(0.5, weight_decay=decay), data=tu.DataSet(1.5)
    )
    exact = stochastic(Linear(1.5, 0.1, 0.5, 0.3, decay), 0.5, 9.0)
    places = np.array([0, 666, 2000])
    times = np.linspace(0.0, 9.0, 2001)[places]
    theory = tu.solve(problem, problems.REGRESSION_START, times, accuracy=5e-4)
    require_equal(theory, Curve(*(x[places] for x in exact)), 2e-3)


@pytest.mark.full
def test_the_bounds_cover_the_true_errors():
    """95% bounds cover nine of ten true errors, and are not ten times too large."""
    rng = np.random.default_rng(2)
    shares = []
    for _ in range(12):
        ratio = np.exp(rng.uniform(np.log(0.6), np.log(8.0)))
        lr = rng.uniform(0.2, 1.0)
        noise = rng.uniform(0.0, 0.6)
        end = rng.uniform(1.0, 4.0) * ratio
        exact = stochastic(Linear(ratio, 0.2, 0.5, noise, 0.05), lr, end)
        places = np.array([400, 800, 1200, 1600, 2000])
        problem = tu.Problem(
            problems.LINEAR,
            problems.LINEAR,
            noise=noise,
            optimizer=tu.SGD(lr, weight_decay=0.05),
            data=tu.DataSet(ratio),
        )
        start = tu.Start(R=[[0.2]], Q=[[0.5]])
        times = np.linspace(0.0, end, 2001)[places]
        theory = tu.solve(problem, start, times, accuracy=1e-2)
        truth = {"R": exact.R, "Q": exact.Q, "train_loss": exact.train_loss}
        for name, values in truth.items():
            gap = np.abs(np.ravel(theory[name]) - values[places])
            shares.append(gap / np.ravel(theory.sampling_errors[name]))
    shares = np.array(shares)
    assert np.mean(shares < 1) > 0.9
    assert 0.1 < np.median(shares) < 1.0
