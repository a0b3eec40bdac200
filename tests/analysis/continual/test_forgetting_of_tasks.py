"""Forgetting and interference, against differences of errors and NumPy's SGD."""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu
from tests.analysis.continual.cases import SIMILARITIES, START, TIMES, two_tasks
from tutelage.analysis import forgetting, interference


def test_forgetting_is_the_difference_of_errors(theory):
    found = forgetting(theory)
    np.testing.assert_allclose(
        found.amount, [theory.error[-1, 0] - theory.error[240, 0], 0.0], atol=1e-15
    )
    np.testing.assert_allclose(found.left, [60.0, 120.0])
    assert found.amount[0] == pytest.approx(0.1549, abs=1e-4)
    assert "forgetting 0.1549" in str(found)


def test_tasks_that_are_never_left_are_not_forgotten():
    mixed = tu.solve(two_tasks(tu.Interleave([0.5, 0.5])), START, TIMES)
    assert not forgetting(mixed).amount.any()
    assert "not left" in str(forgetting(mixed))


def numpy_sgd(similarity, switch, end, dim, runs, seed):
    """Plain online SGD of networks of two units, (run,) errors of task 1 at the switch and at the end."""
    rng = np.random.default_rng(seed)
    T = np.array([[1.0, similarity], [similarity, 1.0]])
    joint = np.block([[START.Q, START.R], [np.transpose(START.R), T]])
    vectors = np.zeros((4, dim))
    vectors[:, :4] = np.linalg.cholesky(joint) * np.sqrt(dim)
    w = np.tile(vectors[:2], (runs, 1, 1))
    b = vectors[2:]
    v = np.tile(np.asarray(START.readout), (runs, 1, 1))
    g = lambda x: erf(x / np.sqrt(2))  # noqa: E731
    errors = []
    for step in range(int(end * dim)):
        if step == int(switch * dim):
            errors.append(task_error(w, b[0], v[:, 0], dim))
        task = int(step >= switch * dim)
        x = rng.standard_normal((runs, dim))
        fields = np.einsum("rkn,rn->rk", w, x) / np.sqrt(dim)
        off = g(x @ b[task] / np.sqrt(dim)) - np.sum(v[:, task] * g(fields), axis=1)
        slope = np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)
        delta = off[:, None] * v[:, task] * slope
        w += delta[:, :, None] * x[:, None] / np.sqrt(dim)
        v[:, task] += off[:, None] * g(fields) / dim
    return np.array([*errors, task_error(w, b[0], v[:, 0], dim)])


def task_error(w, b, v, dim):
    """e_g from the overlaps, by the arcsine law."""
    vectors = np.concatenate([w, np.broadcast_to(b, (len(w), 1, dim))], axis=1)
    C = vectors @ np.swapaxes(vectors, 1, 2) / dim
    d = 1 + np.diagonal(C, axis1=1, axis2=2)
    means = 2 / np.pi * np.arcsin(C / np.sqrt(d[:, :, None] * d[:, None]))
    weights = np.concatenate([v, -np.ones((len(v), 1))], axis=1)
    return np.einsum("ra,rab,rb->r", weights, means, weights) / 2


def test_forgetting_of_networks_trained_in_numpy():
    switch = 15.0
    end = 30.0
    dim = 200
    at_switch, at_end = numpy_sgd(0.5, switch, end, dim, runs=40, seed=3)
    amounts = at_end - at_switch
    error = amounts.std(ddof=1) / np.sqrt(amounts.size)
    times = tu.linear_times(end, 481)
    found = forgetting(tu.solve(two_tasks(tu.Switch(switch)), START, times)).amount[0]
    assert abs(amounts.mean() - found) < 4 * error + 2 / dim * found
    other = forgetting(
        tu.solve(two_tasks(tu.Switch(switch), similarity=0.7), START, times)
    ).amount[0]
    assert (
        abs(amounts.mean() - other) > 4 * error + 2 / dim * other
    )  # the wrong similarity is told apart
    runs = tu.simulate(
        two_tasks(tu.Switch(switch)),
        START,
        dim=dim,
        times=[0.0, switch, end],
        runs=40,
        seed=1,
    )
    simulated = forgetting(runs)
    combined = np.hypot(error, simulated.standard_error[0])
    assert 0 < simulated.standard_error[0] < 0.02
    assert abs(simulated.amount[0] - amounts.mean()) < 4 * combined


def test_interference_is_one_solve_for_each_similarity(interfering):
    some = [5, 15, 25]  # similarities 0.1, 0.3, 0.5
    for v, amount in zip([0.1, 0.3, 0.5], interfering.forgetting[some, 0], strict=True):
        single = forgetting(
            tu.solve(two_tasks(tu.Switch(60.0), similarity=v), START, TIMES)
        )
        assert amount == pytest.approx(single.amount[0], rel=1e-5)
    assert interfering.forgetting[some, 0] == pytest.approx(
        [0.1072, 0.1645, 0.1549], abs=1e-4
    )
    assert interfering.time_to(0.01)[some] == pytest.approx(
        [12.4, 12.0, 10.75], abs=0.06
    )


def test_forgetting_is_worst_at_intermediate_similarity(interfering):
    found = interfering
    worst, amount = found.worst()
    assert worst == pytest.approx(0.325, abs=0.01)
    assert amount == pytest.approx(0.1647, abs=1e-4)
    assert amount >= found.forgetting[:, 0].max() - 1e-12
    one_unit = tu.Start(
        R=[[0.05, 0.05], [0.0, 0.0]],
        Q=0.3 * np.eye(2),
        readout=[[0.5, 0.01], [0.5, 0.01]],
    )
    assert (
        interference(two_tasks(tu.Switch(60.0)), one_unit, TIMES, SIMILARITIES).worst()[
            0
        ]
        == 0.0
    )  # both heads on one unit
