"""The smallest error, against the closed form of a linear network whose noise is learned where there is nothing to learn."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize_scalar

import tutelage as tu
from tests.analysis.curves.cases import (
    EIGENVALUES,
    FRACTIONS,
    LR,
    NOISE,
    from_outside,
    linear,
    linear_problem,
    linear_start,
    of_curve,
    runs,
    scheduled,
    specialized_start,
    thinned,
)


def exact(t, lr=LR, noise=NOISE):
    """e_g of the linear network:

    dE_l = -2 eta lam_l E_l + eta^2 lam_l (sum_k p_k lam_k E_k + sigma^2), one matrix.
    """
    weights = FRACTIONS * EIGENVALUES
    A = -2 * lr * np.diag(EIGENVALUES) + lr**2 * np.outer(EIGENVALUES, weights)
    final = -np.linalg.solve(A, lr**2 * EIGENVALUES * noise**2)
    return float(weights @ (final + expm(A * t) @ (np.array([1.0, 0.0]) - final))) / 2


def best(lr=LR, noise=NOISE):
    found = minimize_scalar(
        lambda t: exact(t, lr, noise),
        bounds=(0.01, 3.0),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return found.x, found.fun


def test_the_minimum_of_a_linear_network():
    theory = linear()
    found = tu.analysis.early_stopping(theory)
    time, value = best()
    assert found.inside
    assert found.time == pytest.approx(time, rel=2e-3)  # recorded every 0.03
    assert found.value == pytest.approx(value, rel=1e-5)
    assert found.bracket[0] < time < found.bracket[1]
    assert found.gain == pytest.approx(exact(6.0) / value, rel=1e-4)
    assert found.gain > 1.8
    recorded = theory.times[np.argmin(theory.error)]
    assert abs(found.time - time) < 0.05 * abs(
        recorded - time
    )  # interpolation is worth having
    assert f"stop at {found.time:.5g}" in str(found)


def test_on_a_coarse_grid_the_bracket_holds():
    found = tu.analysis.early_stopping(thinned(linear(), 5))
    time, value = best()
    assert found.bracket[0] < time < found.bracket[1]
    assert found.value == pytest.approx(value, rel=0.1)


def test_uneven_times_cost_no_accuracy():
    """(t - 1)^2 + 1 in logarithmic time, where a parabola in the recorded index would be off."""
    times = np.geomspace(0.01, 100, 60)
    found = tu.analysis.early_stopping(
        of_curve(times, np.exp((np.log(times) - 0.3) ** 2))
    )
    assert found.time == pytest.approx(np.exp(0.3), rel=1e-4)
    assert found.value == pytest.approx(1.0, rel=1e-5)


def test_a_curve_that_stays_level_does_not_change():
    found = tu.analysis.early_stopping(of_curve(np.arange(9.0), np.full(9, 0.3)))
    assert not found.inside
    assert found.gain == 1.0
    assert str(found) == "the error does not change: it stays at 0.3"


def test_a_curve_that_leaves_zero_has_no_finite_gain():
    times = np.arange(9.0)
    found = tu.analysis.early_stopping(of_curve(times, np.abs(times - 3)))
    assert (found.time, found.value, found.inside) == (3.0, 0.0, True)
    assert found.gain == np.inf
    assert "times as large" not in str(found)


@pytest.mark.parametrize("dip", [1e-3, 0.5])
def test_a_minimum_after_the_start_counts_only_beyond_chance(dip):
    """A rise with noise of 1%, from a level that a dip may undercut."""
    times = np.linspace(0.0, 10.0, 401)
    noise = 0.01 * np.random.default_rng(3).standard_normal(times.size)
    error = (1 + 0.02 * times**2 - dip * np.exp(-((times - 1.5) ** 2))) * np.exp(noise)
    runs_of_it = replace(of_curve(times, error[None]), kind="simulation")
    found = tu.analysis.early_stopping(runs_of_it, run=0)
    if dip < 0.01:
        assert str(found).startswith("do not train")
        assert found.time == 0.0
    else:
        assert found.inside
        assert found.time == pytest.approx(1.4, abs=0.2)


def test_a_falling_curve_says_train_on():
    for theory in (specialized_start(), from_outside(1e-3)):
        found = tu.analysis.early_stopping(theory)
        assert not found.inside
        assert found.time == theory.times[-1]
        assert found.gain == 1.0
        assert found.marks == {}
        assert str(found).startswith("train on")


def test_a_growing_curve_says_do_not_train():
    found = tu.analysis.early_stopping(of_curve(np.arange(9.0), 1 + np.arange(9.0)))
    assert found.time == 0.0
    assert not found.inside
    assert str(found).startswith("do not train")


def test_noise_makes_the_minimum():
    """A negative control: without label noise the same network only improves."""
    assert not tu.analysis.early_stopping(linear(noise=0.0)).inside


def test_a_rate_that_is_raised_puts_the_minimum_at_the_switch():
    theory = scheduled((3.0,), (0.05, 0.5))
    found = tu.analysis.early_stopping(theory)
    assert found.time == pytest.approx(3.0, abs=0.03 + 1e-9)
    assert (
        found.time == theory.times[np.argmin(theory.error)]
    )  # a corner has no parabola
    assert found.bracket[0] <= 3.0 <= found.bracket[1]
    assert found.gain > 1.5


def test_lowering_the_rate_instead_removes_it():
    """At the minimum of the constant rate, a lower rate keeps what was learned:

    training on pays again.
    """
    found = tu.analysis.early_stopping(scheduled((0.25,), (0.5, 0.01)))
    assert found.end_value < tu.analysis.early_stopping(linear()).value
    assert found.gain < 1.05


def test_runs_have_their_minimum_where_the_theory_has():
    times = tu.linear_times(6.0, 201)
    networks = tu.simulate(
        linear_problem(), linear_start(dim=4000), times=times, runs=6, seed=1
    )
    found = tu.analysis.early_stopping(networks)
    assert all(run.inside for run in found)
    theory = tu.analysis.early_stopping(linear())
    assert np.median([run.time for run in found]) == pytest.approx(
        theory.time, abs=0.15
    )
    np.testing.assert_allclose([run.value for run in found], theory.value, rtol=0.2)
    np.testing.assert_allclose([run.gain for run in found], theory.gain, rtol=0.3)
    assert found.marks["smallest error"].shape == (6,)


def test_the_lowest_point_of_a_fluctuating_run_is_chance():
    networks = runs("linear", noise=0.3, dim=200)
    for run, found in enumerate(tu.analysis.early_stopping(networks)):
        assert np.min(networks.error[run]) < 0.9 * networks.error[run, -40:].mean()
        assert not found.inside
        assert "up to fluctuations" in str(found)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: tu.analysis.early_stopping([1.0, 2.0]),
            "got a value of type list; give it what solve or simulate returned",
        ),
        (
            lambda: tu.analysis.early_stopping(thinned(linear(), 300)),
            "has 1 recorded times; early_stopping needs at least 2",
        ),
        (lambda: tu.analysis.early_stopping(linear(), run=1), "single curve"),
    ],
)
def test_refusals(ask, sentence):
    with pytest.raises(tu.InputError, match=sentence):
        ask()
