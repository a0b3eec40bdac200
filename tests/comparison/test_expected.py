"""The expected finite-N gap is the real one.

It is compared with an exact recursion, and with large ensembles of small networks.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import erf_problem, exact_linear, start_of
from tutelage.comparison import expected
from tutelage.comparison.expected import expected_gap, rough_sizes
from tutelage.comparison.pairing import pair


@pytest.mark.parametrize(("batch", "decay"), [(1, 0.0), (3, 0.4)])
def test_linear_network_against_the_exact_recursion(batch, decay):
    optimizer = tu.SGD(0.8, batch=batch, weight_decay=decay)
    linear = tu.Network(1, "linear")
    problem = tu.Problem(linear, linear, optimizer=optimizer, noise=0.3)
    start = tu.Start(R=[[0.1]], Q=[[0.4]], dim=200)
    times = tu.linear_times(6.0, 41)
    theory = tu.solve(problem, start, times)
    # a linear drift has no curvature: any runs will do
    runs = tu.simulate(problem, start, times=times, runs=3, seed=0)
    gap = expected_gap(pair(theory, runs))
    assert not gap.rough
    exact = exact_linear(problem, start, 200, times)
    exact_gaps = {
        "R": exact[0] - theory.R[:, 0, 0],
        "Q": exact[1] - theory.Q[:, 0, 0],
        "error": exact[2] - theory.error,
    }
    # what is left are terms of order 1/N^2, and 41 times in place of all
    for name, exact_gap in exact_gaps.items():
        found = gap.values[name].reshape(times.size)
        allowed = 0.05 * np.max(np.abs(exact_gap))
        np.testing.assert_allclose(found, exact_gap, atol=allowed, err_msg=name)


def test_erf_network_against_many_small_ones():
    """The predicted gap explains the measured one, of many standard errors."""
    times = tu.linear_times(8.0, 21)
    start = start_of(2, 2, 25)
    runs = tu.simulate(erf_problem(), start, times=times, runs=4000, seed=5)
    together = pair(tu.solve(erf_problem(), start, times), runs)
    values = expected_gap(together).values
    for name in ("error", "R", "Q"):
        gap = together.runs[name].mean(axis=0) - together.theory[name]
        error = together.runs[name].std(axis=0, ddof=1) / np.sqrt(4000)
        assert np.max(np.abs(gap[1:] / error[1:])) > 4.5, name
        # at N = 25 the next order is up to a quarter of the first one
        allowed = 0.25 * np.max(np.abs(gap)) + 4 * np.max(error)
        assert np.max(np.abs(gap - values[name])) < allowed, name


def test_it_shrinks_as_1_over_N():
    sizes = []
    for dim in (100, 400):
        start = start_of(2, 2, dim)
        times = tu.linear_times(8.0, 41)
        theory = tu.solve(erf_problem(), start, times)
        runs = tu.simulate(erf_problem(), start, times=times, runs=256, seed=0)
        gap = expected_gap(pair(theory, runs))
        sizes.append(np.max(np.abs(gap.values["Q"])))
    # the averages over 256 runs are noisy
    assert sizes[0] / sizes[1] == pytest.approx(4.0, rel=0.35)


def test_a_state_recorded_late_is_expected_late():
    """At N = 20 the first time, 0.01, is recorded after one step, at 0.05."""
    start = start_of(2, 2, 20)
    times = np.linspace(0.01, 4.01, 41)
    problem = erf_problem(lr=0.1, noise=0.0)
    theory = tu.solve(problem, start, times)
    runs = tu.simulate(problem, start, times=times, runs=20, seed=0)
    shift = expected_gap(pair(theory, runs)).values["R"][0]
    slope = (theory.R[1] - theory.R[0]) / (times[1] - times[0])
    np.testing.assert_allclose(shift, 0.04 * slope, rtol=1e-6)


def test_elsewhere_a_rough_size():
    optimizer = tu.SGD(0.5, momentum=tu.SlowMomentum(5.0))
    network = tu.Network(2, "erf")
    problem = tu.Problem(network, network, optimizer=optimizer)
    start = start_of(2, 2, 100)
    times = tu.linear_times(5.0, 41)
    runs = tu.simulate(problem, start, times=times, runs=50, seed=0)
    theory = tu.solve(problem, start, times)
    together = pair(theory, runs)
    gap = expected_gap(together)
    assert gap.rough
    assert all(np.all(size >= 0) for size in gap.values.values())
    np.testing.assert_array_equal(gap.values["Q"], rough_sizes(together)["Q"])
    assert tu.compare(theory, runs).agrees


def test_a_gap_that_is_not_finite_has_a_rough_size(monkeypatch):
    start = start_of(2, 2, 100)
    times = tu.linear_times(5.0, 11)
    theory = tu.solve(erf_problem(), start, times)
    runs = tu.simulate(erf_problem(), start, times=times, runs=5, seed=0)
    together = pair(theory, runs)
    assert not expected_gap(together).rough

    def diverging(times, jacobians, sources):
        return np.full_like(sources, np.nan)

    monkeypatch.setattr(expected, "_integrated", diverging)
    assert expected_gap(together).rough
