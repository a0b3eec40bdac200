"""How grids and scramblings are combined, and what Ctrl-C leaves."""

from concurrent.futures import Future
from time import sleep

import numpy as np
import pytest

import tutelage as tu
from tests.dataset import problems
from tutelage.dataset import accuracy, estimates, paths, scramblings
from tutelage.dataset.setting import setting_of

START = problems.REGRESSION_START
TIMES = np.array([0.0, 0.7, 1.5])


def test_bounds_of_two_independent_means():
    """95% intervals of a sum of two means cover its true value in 95% of all cases."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal((4, 4000))
    second = 3.0 * rng.standard_normal((12, 4000))
    gap = np.abs(first.mean(axis=0) + second.mean(axis=0))
    bound = estimates.error_bound([first, second], np.zeros(4000))
    assert 0.94 < np.mean(gap < bound) < 0.965
    too_small = estimates.error_bound([second], np.zeros(4000))
    assert np.mean(gap < too_small) < 0.93


def test_a_mixed_estimate_agrees_with_one_on_all_grids():
    """The coarsest grid alone is off by several times the bound."""
    times = np.array([0.0, 0.6, 1.5])
    theory = tu.solve(problems.REGRESSION, START, times, accuracy=1.5e-3)
    settings = dict(theory.settings)
    assert settings["scramblings"] > accuracy.PILOT
    every = tu.solve(problems.REGRESSION, START, times, moments=tu.Sampled(2**15))
    bound = np.hypot(theory.sampling_errors["Q"], every.sampling_errors["Q"])
    assert np.all(np.abs(theory.Q - every.Q) <= 1.5 * bound)
    setting = setting_of(problems.REGRESSION, START)
    plan = accuracy.first_plan(setting, times)
    coarse = plan._replace(grids=plan.grids[:1], paths=2**12)
    sampler = accuracy.Sampler(setting, times, coarse, 0, False)
    alone = np.sum(sampler.run(coarse).curves.Q, axis=1)
    assert np.max(np.abs(alone - every.Q) - 3 * bound) > 0


DESCENT = problems.COMMITTEE.replace(optimizer=problems.Descent(0.8), ratio=1.5)
STEPS = np.arange(7.0)


@pytest.mark.parametrize(
    ("activation", "share", "tolerance"),
    [("erf", 1.0, 1.5), ("erf", 0.5, 1.5), ("relu", 1.0, 1e-6)],
)
def test_shared_factors_agree_with_those_of_each_path(
    activation, share, tolerance, monkeypatch
):
    """Probed responses agree within their errors; Stein's lemma to rounding."""
    network = tu.Network(2, activation)
    optimizer = problems.Descent(0.5, share=share)
    problem = DESCENT.replace(student=network, teacher=network, optimizer=optimizer)
    start = problems.COMMITTEE_START
    moments = tu.Sampled(2**14)
    shared = tu.solve(problem, start, STEPS, moments=moments)
    monkeypatch.setattr(paths, "MANY", 1.0)
    each = tu.solve(problem, start, STEPS, moments=moments)
    for name in ("R", "Q", "train_loss"):
        gap = np.abs(shared[name] - each[name])
        bound = np.hypot(shared.sampling_errors[name], each.sampling_errors[name])
        assert np.all(gap <= tolerance * bound + 1e-12), name


def test_probes_of_the_wrong_sign_fail(monkeypatch):
    """The responses of the past matter: a probe that loses them is far off."""
    right = tu.solve(
        DESCENT, problems.COMMITTEE_START, STEPS, moments=tu.Sampled(2**14)
    )
    monkeypatch.setattr(
        "tutelage.dataset.averages.StepAverages._add_tangents",
        lambda self, cell, sums, response, J: sums.response.__iadd__(J.sum(axis=2)),
    )
    wrong = tu.solve(
        DESCENT, problems.COMMITTEE_START, STEPS, moments=tu.Sampled(2**14)
    )
    gap = np.abs(right.Q - wrong.Q)[-1]
    assert np.max(gap / right.sampling_errors["Q"][-1]) > 5


def interrupt_after(cells: int):
    """Return a wait that Ctrl-C ends when so many cells are done."""

    def wait(futures, taken, total, progress):
        while taken.sum() < cells:
            sleep(0.01)
        raise KeyboardInterrupt

    return wait


def test_an_interrupted_pilot_keeps_the_curve_so_far(monkeypatch):
    times = np.linspace(0.0, 9.0, 19)
    moments = tu.Sampled(2**13)
    whole = tu.solve(problems.REGRESSION, START, times, moments=moments)
    monkeypatch.setattr(scramblings, "_wait_for_all", interrupt_after(150))
    with pytest.warns(tu.errors.ValidityWarning, match="Ctrl-C ended the solve"):
        part = tu.solve(problems.REGRESSION, START, times, moments=moments)
    assert "interrupted" in part.status
    count = len(part.times)
    assert 1 < count < 19
    np.testing.assert_allclose(part.Q, whole.Q[:count], rtol=0.05)
    assert np.all(np.isfinite(part.sampling_errors["Q"]))


def test_an_interruption_at_once():
    def wait(futures, taken, total, progress):
        for future in futures:
            future.cancel()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scramblings, "ThreadPoolExecutor", _Idle)
        patch.setattr(scramblings, "_wait_for_all", wait)
        with pytest.raises(KeyboardInterrupt):
            tu.solve(problems.REGRESSION, START, TIMES)


class _Idle:
    """A pool that begins nothing."""

    def __init__(self, workers):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *details):
        return None

    def submit(self, function, index):
        return Future()
