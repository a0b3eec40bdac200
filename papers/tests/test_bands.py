"""The right theory is inside the band, the one with nine tenths of G is not."""

import numpy as np
import pytest

import tutelage as tu
from tests.comparison.cases import (
    TIMES,
    erf_problem,
    permuted,
    runs,
    scaled_spread,
    start_of,
    theory,
)
from tutelage_papers.bands import against_runs, band, inside_claims, wrong_theory


@pytest.fixture(scope="module")
def control():
    return wrong_theory(erf_problem(), start_of(2, 2, 200), TIMES)


def test_the_wrong_theory_has_nine_tenths_of_G(control):
    """Scaled rates and times against the drift with 0.9 of its noise term."""
    reference = scaled_spread(erf_problem(), start_of(2, 2, 200), TIMES, 0.9)
    for name in ("R", "Q"):
        np.testing.assert_allclose(control[name], reference[name], atol=1e-7)
    np.testing.assert_allclose(control.error, reference.error, rtol=1e-6)
    assert np.max(np.abs(control.error / theory().error - 1)) > 0.02
    assert np.array_equal(control.times, TIMES)


OPTIMIZERS = {
    "power": tu.SGD(tu.schedules.PowerDecay(1.0, exponent=0.5, timescale=5.0)),
    "piecewise": tu.SGD(tu.schedules.Piecewise([4.0, 9.0], [1.0, 0.5, 0.8])),
    "cosine": tu.SGD(tu.schedules.Cosine(1.0, 15.0, 0.2)),
    "own": tu.SGD(lambda t: 1.0 / (1.0 + 0.1 * t)),
    "momentum": tu.SGD(0.5, momentum=0.4, weight_decay=0.1, batch=2),
    "slow": tu.SGD(1.0, momentum=tu.SlowMomentum(2.0)),
    "slow-k": tu.SGD(1.0, momentum=tu.SlowMomentum(2.0, k=1.5)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.full
def test_the_wrong_theory_of_other_algorithms(name):
    student = tu.Network(2, "erf")
    teacher = tu.Network(2, "erf")
    problem = tu.Problem(student, teacher, optimizer=OPTIMIZERS[name], noise=0.2)
    start = start_of(2, 2, 200)
    wrong = wrong_theory(problem, start, TIMES)
    reference = scaled_spread(problem, start, TIMES, 0.9)
    tolerance = 1e-4 if name == "own" else 2e-6
    np.testing.assert_allclose(wrong.Q, reference.Q, atol=tolerance)
    assert np.max(np.abs(wrong.Q - tu.solve(problem, start, TIMES).Q)) > 1e-3


@pytest.mark.full
def test_a_trained_readout_is_scaled_too():
    student = tu.Network(2, "erf", train_readout=True)
    problem = tu.Problem(
        student, tu.Network(2, "erf"), optimizer=tu.SGD(1.0, readout_lr=0.3), noise=0.1
    )
    start = start_of(2, 2, 200)
    wrong = wrong_theory(problem, start, TIMES)
    reference = scaled_spread(problem, start, TIMES, 0.9)
    np.testing.assert_allclose(wrong.readout, reference.readout, atol=1e-7)


def test_the_right_theory_is_inside_and_the_wrong_one_is_not(control):
    data = band(theory(), runs(), control)
    assert float(data["inside"]) >= 0.95
    assert float(data["inside_wrong"]) < 0.5
    assert [claim.verdict for claim in inside_claims(data, "here")] == ["pass", "pass"]
    assert all(claim.name.startswith("here: ") for claim in inside_claims(data, "here"))


def test_a_wrong_theory_or_a_test_without_power_fails(control):
    swapped = band(control, runs(), theory())
    weak = band(theory(), runs(), theory())
    assert [claim.verdict for claim in inside_claims(swapped, "")] == ["fail", "fail"]
    assert [claim.verdict for claim in inside_claims(weak, "")] == ["pass", "fail"]


def test_one_bad_entry_is_enough(control):
    """The share is that of the worst entry: good ones do not average it away."""
    moved = permuted(runs(), [], [0, 1])
    moved.variables["Q"][:, 10:, 0, 0] += 1.0
    assert float(band(theory(), moved, control)["inside"]) == pytest.approx(10 / 41)


def test_units_are_matched_first(control):
    other = permuted(runs(), range(0, 100, 3), [1, 0])
    matched = band(theory(), runs(), control)
    exchanged = band(theory(), other, control)
    assert float(exchanged["inside"]) == float(matched["inside"])
    np.testing.assert_allclose(exchanged["R_mean"], matched["R_mean"], atol=1e-12)


def test_all_in_one_call():
    data = against_runs(
        erf_problem(), start_of(2, 2, 200), dim=200, times=TIMES, runs=100, seed=3
    )
    np.testing.assert_allclose(data["error"], theory().error)
    np.testing.assert_allclose(data["R_mean"], runs().R.mean(axis=0))
    np.testing.assert_allclose(data["error_se"], runs().error.std(axis=0, ddof=1) / 10)
    assert data["R"].dims == ("time", "student", "teacher")
    assert data["Q_wrong"].shape == (41, 2, 2)


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {"schedule": tu.Switch([4.0, 9.0], order=[0, 1, 0])},
        {"schedule": tu.Replay(0.2, after=6.0), "drift": tu.Drift(0.05)},
        {"schedule": tu.Interleave([0.3, 0.7]), "heads": "shared", "freeze_heads": 8.0},
    ],
    ids=["switch", "replay and drift", "shared head"],
)
def test_the_wrong_theory_of_tasks(options):
    """Switches, drift and freezing keep their own times."""
    tasks = tu.Tasks([tu.Network(1, "erf")] * 2, similarity=0.3, **options)
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True),
        tasks,
        noise=0.2,
        optimizer=tu.SGD(1.0),
    )
    start = tu.Start(R=[[0.2, 0.1], [0.0, 0.3]], Q=0.5 * np.eye(2))
    wrong = wrong_theory(problem, start, TIMES)
    reference = scaled_spread(problem, start, TIMES, 0.9)
    np.testing.assert_allclose(wrong.Q, reference.Q, atol=2e-6)
    assert np.max(np.abs(wrong.Q - tu.solve(problem, start, TIMES).Q)) > 1e-3
