"""Several teachers over time, and the analyses of continual learning."""

import numpy as np
import pytest

import tutelage as tu

START = tu.Start(
    R=[[0.05, 0.02], [-0.01, 0.03]],
    Q=[[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)


def two_tasks(schedule, similarity=0.5, **options) -> tu.Problem:
    teachers = [tu.Network(1, "erf"), tu.Network(1, "erf")]
    tasks = tu.Tasks(teachers, schedule, similarity=similarity, **options)
    student = tu.Network(2, "erf", train_readout=True)
    return tu.Problem(student, tasks, optimizer=tu.SGD(1.0))


@pytest.fixture(scope="module")
def switched() -> tu.Trajectory:
    times = [0.0, 30.0, 60.0, 63.0, 75.0, 120.0]
    return tu.solve(two_tasks(tu.Switch(60.0)), START, times)


@pytest.mark.parametrize(
    ("schedule", "probabilities"),
    [
        (tu.Switch(60.0), [[1.0, 0.0], [0.0, 1.0]]),
        (tu.Switch([60.0, 65.0], order=[1, 0, 1]), [[0.0, 1.0], [0.0, 1.0]]),
        (tu.Interleave([0.3, 0.7]), [[0.3, 0.7], [0.3, 0.7]]),
        (tu.Replay(0.2, after=60.0), [[1.0, 0.0], [0.2, 0.8]]),
    ],
)
def test_a_schedule_of_tasks_has_its_probabilities(schedule, probabilities):
    for time, expected in zip((59.0, 70.0), probabilities, strict=True):
        np.testing.assert_allclose(schedule.probabilities(time, 2), expected)


def test_the_errors_of_two_tasks(switched):
    """Digits of plain NumPy for teachers of overlap 1/2 and a switch at 60."""
    expected = [
        [0.000271391, 0.147902],
        [0.000138967, 0.147382],
        [0.0132751, 0.0998097],
        [0.147435, 0.00203482],
        [0.155074, 0.000114555],
    ]
    np.testing.assert_allclose(switched.error[1:], expected, rtol=6e-6)


def test_forgetting_is_the_rise_of_the_error(switched):
    lost = tu.analysis.forgetting(switched)
    assert isinstance(lost, tu.analysis.Forgetting)
    assert lost.left[0] == 60.0
    assert lost.amount[0] == pytest.approx(0.155074 - 0.000138967, rel=1e-5)
    assert tu.plot.plot_forgetting(lost) is not None


def test_node_reuse_shares_the_units(switched):
    reuse = tu.analysis.node_reuse(switched)
    assert isinstance(reuse, tu.analysis.NodeReuse)
    np.testing.assert_allclose(reuse.shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.diag(reuse.reuse), 1.0)
    assert tu.plot.plot_node_reuse(reuse) is not None


def test_moving_teachers_lose_their_overlap():
    """Once the first layer is frozen, dR / dalpha = -omega R."""
    task = two_tasks(tu.Switch(60.0), drift=tu.Drift(0.1))
    frozen = task.replace(lr=tu.schedules.Piecewise([0.5], [1.0, 0.0]))
    theory = tu.solve(frozen, START, [0.5, 2.5])
    np.testing.assert_allclose(theory.R[1], np.exp(-0.2) * theory.R[0], rtol=1e-7)


def test_interference_of_tasks_by_their_similarity():
    """With equal teachers (similarity near 1) little is lost."""
    found = tu.analysis.interference(
        two_tasks(tu.Switch(60.0)), START, [0.0, 60.0, 120.0], similarity=[0.5, 0.98]
    )
    assert isinstance(found, tu.analysis.Interference)
    assert found.forgetting[0, 0] == pytest.approx(0.155074 - 0.000138967, rel=1e-5)
    assert found.forgetting[1, 0] < 0.1 * found.forgetting[0, 0]
    assert tu.plot.plot_interference(found) is not None


def test_transfer_from_a_similar_task():
    task = two_tasks(tu.Switch(60.0), similarity=0.9)
    found = tu.analysis.transfer(task, START, tu.linear_times(90.0, 91), target=0.01)
    assert isinstance(found, tu.analysis.Transfer)
    assert found.after < found.scratch
    assert tu.plot.plot_transfer(found) is not None


def test_a_task_that_returns_is_learned_faster():
    task = two_tasks(tu.Switch([60.0, 120.0], order=[0, 1, 0]))
    theory = tu.solve(task, START, tu.linear_times(180.0, 181))
    found = tu.analysis.savings(theory, target=0.01)
    assert isinstance(found, tu.analysis.Savings)
    assert found.again < found.first
    assert tu.plot.plot_savings(found) is not None


def test_replay_lowers_the_final_errors():
    task = two_tasks(tu.Replay(0.0, after=60.0))
    found = tu.analysis.best_replay(
        task, START, [0.0, 60.0, 120.0], fractions=[0.0, 0.3, 0.6]
    )
    assert isinstance(found, tu.analysis.BestReplay)
    assert 0.0 < found.fraction < 1.0
    assert found.value < found.values[0]
    assert tu.plot.plot_best_replay(found) is not None
