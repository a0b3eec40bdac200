"""Simulated networks against plain SGD, and the comparison of theory with simulations."""

import numpy as np
import pytest

import tutelage as tu

TIMES = tu.linear_times(5.0, 6)


@pytest.fixture(scope="module")
def problem() -> tu.Problem:
    network = tu.Network(2, "erf")
    return tu.Problem(network, network, optimizer=tu.SGD(0.5))


@pytest.fixture(scope="module")
def start(problem) -> tu.Start:
    return tu.asymmetric_start(problem, dim=500)


@pytest.fixture(scope="module")
def theory(problem, start) -> tu.Trajectory:
    return tu.solve(problem, start, TIMES)


@pytest.fixture(scope="module")
def runs(problem, start) -> tu.Trajectory:
    return tu.simulate(problem, start, times=TIMES, runs=20, seed=1, workers=1)


@pytest.fixture(scope="module")
def comparison(theory, runs):
    return tu.compare(theory, runs)


def test_runs_follow_the_theory(comparison):
    assert comparison.agrees
    assert comparison.verdict.outcome == "agree"
    assert comparison["R"].z.shape == (6, 2, 2)


def test_another_theory_is_rejected(problem, start, runs):
    """A negative control: gradient flow leaves out the noise of SGD."""
    flow = tu.solve(problem, start, TIMES, gradient_flow=True)
    assert not tu.compare(flow, runs, fluctuations=False).agrees
    assert np.max(np.abs(tu.gaps(flow, runs)["error"].z)) > 4


def test_runs_are_reproducible(problem, start, runs):
    again = tu.simulate(problem, start, times=TIMES, runs=3, seed=1, workers=1)
    np.testing.assert_array_equal(again.R, runs.R[:3])
    other = tu.simulate(problem, start, times=TIMES, runs=3, seed=2, workers=1)
    assert not np.array_equal(other.R, runs.R[:3])


def test_given_weights_learn_from_given_samples_as_plain_sgd():
    """One linear unit, samples in their order: w += eta (y - yhat) x / sqrt N."""
    rng = np.random.default_rng(3)
    N = 20
    eta = 0.5
    samples = rng.standard_normal((40, N))
    student = rng.standard_normal((1, N))
    teacher = rng.standard_normal((1, N))
    unit = tu.Network(1, "linear")
    task = tu.Problem(unit, unit, optimizer=tu.SGD(eta))
    runs = tu.simulate(
        task,
        times=[0.0, 1.0, 2.0],
        runs=1,
        weights=(student, teacher),
        inputs=samples,
    )
    overlaps = []
    w = student[0].copy()
    for step in range(41):
        if step % N == 0:
            overlaps.append(w @ teacher[0] / N)
        if step < 40:
            x = samples[step]
            error = (teacher[0] - w) @ x / np.sqrt(N)
            w += eta * error * x / np.sqrt(N)
    np.testing.assert_allclose(runs.R[0, :, 0, 0], overlaps, rtol=1e-9)


def test_weights_and_overlaps_have_one_law(problem, start):
    """The mean overlaps of 40 runs of either method, within 5 standard errors."""
    setting = {"times": [0.0, 1.0], "runs": 40, "workers": 1}
    overlaps = tu.simulate(problem, start, seed=1, method="overlaps", **setting)
    weights = tu.simulate(problem, start, seed=2, method="weights", **setting)
    gap = overlaps.R[:, -1].mean(axis=0) - weights.R[:, -1].mean(axis=0)
    variance = overlaps.R[:, -1].var(axis=0) + weights.R[:, -1].var(axis=0)
    assert np.all(np.abs(gap) < 5 * np.sqrt(variance / 40))


def test_fluctuations_predict_the_scatter(problem, start, runs, theory):
    bars = tu.analysis.fluctuations(problem, start, TIMES, points=512)
    assert isinstance(bars, tu.analysis.Fluctuations)
    measured = runs.R[:, -1].std(axis=0, ddof=1)
    # Twenty runs: a standard deviation has the relative error 1 / sqrt(38) = 0.16.
    np.testing.assert_allclose(bars.sd("R")[-1], measured, rtol=0.7)
    np.testing.assert_allclose(bars.at(2000).sd("R"), bars.sd("R") / 2)
    assert tu.plot.plot_fluctuations(bars) is not None


def test_single_steps_have_the_drift_of_the_theory(problem, start):
    step = tu.analysis.step_moments(problem, start, dim=200, samples=2000)
    assert isinstance(step, tu.analysis.StepMoments)
    assert step.agrees
    assert tu.plot.plot_step_moments(step) is not None


def test_a_comparison_is_drawn_and_written(comparison, tmp_path):
    assert tu.plot.plot_comparison(comparison) is not None
    page = comparison.save_html(tmp_path / "report.html")
    assert "<html" in page.read_text()
