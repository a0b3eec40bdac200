"""The theory against plain SGD on weights, with theories that must fail."""

import numpy as np
import pytest

import tutelage as tu
from tests.dataset import naive
from tutelage.dataset.kernels import Kernels

TIMES = np.array([0.0, 1.5, 4.0])
R = np.array([[0.3, 0.05], [0.02, 0.2]])
Q = np.array([[0.5, 0.1], [0.1, 0.4]])
START = tu.Start(R=R, Q=Q)
MOMENTS = tu.Sampled(2**14)


def committee(activation: str, lr: float) -> tu.Problem:
    network = tu.Network(2, activation)
    return tu.Problem(
        network,
        network,
        noise=0.3,
        optimizer=tu.SGD(lr, weight_decay=0.02),
        data=tu.DataSet(1.5),
    )


def measured(unit, lr: float) -> naive.Measured:
    return naive.sgd_runs(
        unit,
        R=R,
        Q=Q,
        ratio=1.5,
        lr=lr,
        decay=0.02,
        noise=0.3,
        times=TIMES,
        dim=200,
        runs=60,
        seed=3,
    )


def largest_z(theory: dict, runs: naive.Measured, bounds: dict) -> float:
    """Return the largest |z|, with half of a 95% bound as a standard error."""
    largest = 0.0
    for name in ("R", "Q", "train_loss"):
        values = getattr(runs, name)[:, 1:]
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        error = np.hypot(error, np.asarray(bounds[name])[1:] / 2)
        gap = values.mean(axis=0) - np.asarray(theory[name])[1:]
        largest = max(largest, float(np.max(np.abs(gap) / error)))
    return largest


@pytest.fixture(scope="module")
def erf_runs():
    return measured(naive.erf_unit, 1.0)


@pytest.fixture(scope="module")
def erf_theory():
    return tu.solve(committee("erf", 1.0), START, TIMES, moments=MOMENTS)


def as_table(theory: tu.Trajectory) -> dict:
    return {name: theory[name] for name in ("R", "Q", "train_loss")}


def test_smooth_units(erf_theory, erf_runs):
    bounds = erf_theory.sampling_errors
    assert largest_z(as_table(erf_theory), erf_runs, bounds) < 4.5


def test_units_whose_slope_jumps():
    theory = tu.solve(committee("relu", 0.4), START, TIMES, moments=MOMENTS)
    runs = measured(naive.relu_unit, 0.4)
    assert largest_z(as_table(theory), runs, theory.sampling_errors) < 4.5


def test_the_theory_of_fresh_samples_fails(erf_theory, erf_runs):
    fresh = tu.solve(committee("erf", 1.0).replace(data=None), START, TIMES)
    table = {"R": fresh.R, "Q": fresh.Q, "train_loss": fresh.loss}
    assert largest_z(table, erf_runs, erf_theory.sampling_errors) > 10


def test_a_theory_without_memory_fails(erf_theory, erf_runs, monkeypatch):
    """Without d delta(t) / dZ(s) for s < t, the response kernel."""
    gamma = Kernels._gamma

    def forgetful(self, sums, count):
        memory = np.zeros_like(sums.memory_response)
        return gamma(self, sums._replace(memory_response=memory), count)

    monkeypatch.setattr(Kernels, "_gamma", forgetful)
    wrong = tu.solve(committee("erf", 1.0), START, TIMES, moments=MOMENTS)
    assert largest_z(as_table(wrong), erf_runs, erf_theory.sampling_errors) > 6


def test_tangents_that_lose_the_jumps_fail(monkeypatch):
    """Automatic derivatives of rectified units drop delta functions."""
    runs = measured(naive.relu_unit, 0.4)
    problem = committee("relu", 0.4)
    right = tu.solve(problem, START, TIMES, moments=MOMENTS)
    monkeypatch.setattr("tutelage.dataset.setting.update_jumps", lambda problem: False)
    wrong = tu.solve(problem, START, TIMES, moments=MOMENTS)
    assert largest_z(as_table(wrong), runs, right.sampling_errors) > 6
