"""Importance of units, against sampled errors of cut networks."""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu
from tests.analysis.continual.cases import START, TIMES, two_tasks
from tutelage import InputError
from tutelage.analysis import forgetting, node_reuse, transfer


def test_importance_is_the_error_of_a_network_without_the_unit(theory):
    found = node_reuse(theory)
    rng = np.random.default_rng(5)
    for task, left in ((0, 240), (1, 480)):
        C = np.block(
            [
                [theory.Q[left], theory.R[left][:, [task]]],
                [theory.R[left][:, [task]].T, np.ones((1, 1))],
            ]
        )
        fields = rng.multivariate_normal(np.zeros(3), C, size=200_000)
        outputs = erf(fields / np.sqrt(2))
        v = theory.readout[left, task]
        whole = np.mean((outputs[:, 2] - outputs[:, :2] @ v) ** 2) / 2
        for k in range(2):
            cut = np.where(np.arange(2) == k, 0.0, v)
            rise = np.mean((outputs[:, 2] - outputs[:, :2] @ cut) ** 2) / 2 - whole
            assert found.importance[task, k] == pytest.approx(rise, abs=1e-3)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    assert (found.shares > 0.1).all(axis=0).tolist() == [
        True,
        False,
    ]  # at V = 0.5 the same unit serves both tasks
    assert found.reuse[0, 1] > 0.9


def test_unrelated_tasks_take_different_units():
    apart = tu.solve(two_tasks(tu.Switch(60.0), similarity=0.0), START, TIMES)
    found = node_reuse(apart)
    assert (found.shares > 0.1).tolist() == [[True, False], [False, True]]
    assert found.reuse[0, 1] < 0.1
    assert "unit 2" in str(found).splitlines()[1]


@pytest.mark.full
def test_three_tasks_of_different_widths_with_one_head():
    """Second routes again:

    differences of errors, the first task never shown, and a run against its own
    overlaps.
    """
    teachers = [
        tu.Network(1, "erf"),
        tu.Network(2, "erf", readout=[1.0, 0.5]),
        tu.Network(1, "erf", readout=0.5),
    ]
    tasks = tu.Tasks(teachers, tu.Switch([5.0, 10.0]), heads="shared", similarity=0.4)
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=0.5)
    )
    start = tu.asymmetric_start(problem, dim=100)
    times = tu.linear_times(15, 31)
    theory = tu.solve(problem, start, times)
    found = forgetting(theory)
    np.testing.assert_allclose(found.left, [5.0, 10.0, 15.0])
    np.testing.assert_allclose(
        found.amount,
        theory.error[-1] - theory.error[[10, 20, 30], [0, 1, 2]],
        atol=1e-15,
    )
    moved = transfer(problem, start, times, task=1)
    alone = tu.Start(start.R[:, 1:3], start.Q, readout=start.readout)
    only = tu.solve(problem.task(1), alone, times)
    np.testing.assert_allclose(moved.alone.error, only.error, rtol=1e-6)
    assert moved.begin == 5.0
    runs = tu.simulate(problem, start, dim=100, times=times, runs=2, seed=0)
    of_run = node_reuse(runs, run=1)
    assert of_run.shares.shape == (3, 2)
    R, Q, v = (np.asarray(runs[name])[1, 20] for name in ("R", "Q", "readout"))
    whole, cut = (
        float(
            tu.generalization_error(problem.task(1), R[:, 1:3], Q, np.eye(2), readout)
        )
        for readout in (v, v * [0.0, 1.0])
    )
    assert of_run.importance[1, 0] == pytest.approx(cut - whole, rel=1e-9)
    with pytest.raises(InputError, match="2 runs; node_reuse looks at one"):
        node_reuse(runs)
