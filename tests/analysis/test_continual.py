"""Continual learning: each analysis against a second route, a control that must fail, and bad input."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import erf

import tutelage as tu
from tutelage import InputError
from tutelage.analysis import (
    best_replay,
    forgetting,
    interference,
    node_reuse,
    savings,
    transfer,
)
from tutelage.analysis.continual import _begins_and_left

ONE = tu.Network(1, "erf")
START = tu.Start(
    R=[[0.05, 0.02], [-0.01, 0.03]],
    Q=[[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)
TIMES = tu.linear_times(120, 481)


def two_tasks(schedule, similarity=0.5, **options):
    tasks = tu.Tasks([ONE, ONE], schedule, similarity=similarity, **options)
    return tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=1.0)
    )


@pytest.fixture(scope="module")
def theory():
    return tu.solve(two_tasks(tu.Switch(60.0)), START, TIMES)


@pytest.fixture(scope="module")
def returning():
    return tu.solve(two_tasks(tu.Switch([40.0, 80.0], order=[0, 1, 0])), START, TIMES)


@pytest.fixture(scope="module")
def transferred():
    return transfer(two_tasks(tu.Switch(60.0)), START, TIMES, target=0.01)


SIMILARITIES = np.linspace(0.0, 0.98, 50)


@pytest.fixture(scope="module")
def interfering():
    return interference(two_tasks(tu.Switch(60.0)), START, TIMES, SIMILARITIES)


@pytest.fixture(scope="module")
def replayed():
    return best_replay(
        two_tasks(tu.Replay(0.0, after=60.0)), START, tu.linear_times(120, 13)
    )


# Forgetting


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


def test_a_task_that_fades_smoothly_is_left_in_the_middle_of_its_fall(theory):
    import jax.numpy as jnp

    def fading(t):
        p = jnp.clip((90.0 - t) / 60.0, 0.0, 1.0)
        return jnp.stack([p, 1 - p])

    found = forgetting(replace(theory, problem=two_tasks(fading)))
    assert found.left[0] == pytest.approx(60.0, abs=0.01)
    assert found.left[1] == 120.0


LINE = tu.schedules.Linear
FALLS = {
    "from the start": (LINE([0.0, 120.0], [1.0, 0.0]), 60.0),
    "in part": (LINE([0.0, 120.0], [0.8, 0.2]), 60.0),
    "after a while": (LINE([0.0, 30.0, 90.0], [1.0, 1.0, 0.0]), 60.0),
    "in steps": (
        tu.schedules.Piecewise([20.0, 30.0, 40.0], [1.0, 0.7, 0.3, 0.0]),
        30.0,
    ),
    "and returns": (LINE([0.0, 20.0, 40.0, 60.0], [1.0, 1.0, 0.0, 1.0]), 30.0),
    "nearly at once": (LINE([0.0, 59.99, 60.01], [1.0, 1.0, 0.0]), 60.0),
    "never": (LINE([0.0, 120.0], [0.2, 0.9]), 120.0),
}


@pytest.mark.parametrize("case", FALLS)
def test_shares_that_fade_are_left_in_the_middle_of_their_fall(theory, case):
    """As a jump is the limit of steep falls."""
    share, wanted = FALLS[case]
    found = forgetting(replace(theory, problem=two_tasks(tu.Interleave(share))))
    assert found.left[0] == pytest.approx(wanted, abs=1e-6 * wanted)
    learned = np.interp(wanted, theory.times, theory.error[:, 0])
    assert found.learned[0] == pytest.approx(learned, rel=1e-6)


def test_a_task_whose_share_rises_from_zero_begins_in_the_middle():
    rising = two_tasks(tu.Interleave(LINE([0.0, 20.0], [1.0, 0.0]))).teacher
    begins, left = _begins_and_left(rising, 60.0)
    np.testing.assert_allclose(begins, [[0.0], [10.0]], atol=1e-6)
    np.testing.assert_allclose(left, [10.0, 60.0], atol=1e-6)


@pytest.mark.full
def test_transfer_to_a_task_whose_share_rises():
    rising = tu.Interleave(LINE([0.0, 20.0], [1.0, 0.0]))
    times = tu.linear_times(60, 241)
    found = transfer(two_tasks(rising), START, times, target=0.01)
    assert found.begin == pytest.approx(10.0, abs=1e-6)
    learned = first_below(times, found.theory.error[:, 1], 0.01)
    assert found.after == pytest.approx(learned - 10.0, abs=0.25)


def numpy_sgd(similarity, switch, end, dim, runs, seed):
    """Plain online SGD of networks of two units, (run,) errors of task 1 at the switch and at the end."""
    rng = np.random.default_rng(seed)
    T = np.array([[1.0, similarity], [similarity, 1.0]])
    joint = np.block([[START.Q, START.R], [np.transpose(START.R), T]])
    vectors = np.zeros((4, dim))
    vectors[:, :4] = np.linalg.cholesky(joint) * np.sqrt(dim)
    w, b = np.tile(vectors[:2], (runs, 1, 1)), vectors[2:]
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
    switch, end, dim = 15.0, 30.0, 200
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


# Transfer and savings


def first_below(times, error, target):
    return times[np.argmax(error <= target)]


def test_transfer_against_learning_from_scratch(theory, transferred):
    found = transferred
    late = TIMES >= 60.0
    assert found.after == pytest.approx(
        first_below(TIMES[late] - 60.0, theory.error[late, 1], 0.01), abs=0.25
    )
    assert found.after == pytest.approx(10.75, abs=0.06)
    assert found.scratch == pytest.approx(10.45, abs=0.06)
    alone = tu.Start(
        START.R[:, 1:], START.Q, readout=START.readout[1]
    )  # scratch: the columns and the head of this task
    only = tu.solve(two_tasks(tu.Switch(60.0)).task(1), alone, TIMES)
    assert found.scratch == pytest.approx(
        first_below(TIMES, only.error, 0.01), abs=0.25
    )
    np.testing.assert_allclose(found.alone.error, only.error, rtol=1e-6)
    assert found.gain < 1
    assert "negative transfer" in str(found)


def test_the_sign_of_transfer_changes_with_similarity():
    found = transfer(
        two_tasks(tu.Switch(60.0), similarity=0.8), START, TIMES, target=0.01
    )
    assert found.after == pytest.approx(7.05, abs=0.06)
    assert found.gain > 1
    assert "positive transfer" in str(found)
    far = transfer(two_tasks(tu.Switch(60.0)), START, TIMES, target=1e-9)
    assert far.after is None
    assert "not reached" in str(far)


def test_savings(returning):
    found = savings(returning, target=0.01)
    first = first_below(TIMES, returning.error[:, 0], 0.01)
    late = TIMES >= 80.0
    again = first_below(TIMES[late] - 80.0, returning.error[late, 0], 0.01)
    assert found.first == pytest.approx(first, abs=0.25)
    assert found.again == pytest.approx(again, abs=0.25)
    assert found.fraction == pytest.approx(1 - found.again / found.first)
    assert found.fraction > 0.2
    assert "savings" in str(found)


# Interference


def test_interference_is_one_solve_for_each_similarity(interfering):
    some, found = [5, 15, 25], interfering  # similarities 0.1, 0.3, 0.5
    for v, amount in zip([0.1, 0.3, 0.5], found.forgetting[some, 0], strict=True):
        single = forgetting(
            tu.solve(two_tasks(tu.Switch(60.0), similarity=v), START, TIMES)
        )
        assert amount == pytest.approx(single.amount[0], rel=1e-5)
    assert found.forgetting[some, 0] == pytest.approx(
        [0.1072, 0.1645, 0.1549], abs=1e-4
    )
    assert found.time_to(0.01)[some] == pytest.approx([12.4, 12.0, 10.75], abs=0.06)


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


# Replay


def test_best_replay_is_a_minimum(replayed):
    problem, times, found = (
        two_tasks(tu.Replay(0.0, after=60.0)),
        tu.linear_times(120, 13),
        replayed,
    )

    def mean_error(fraction):
        return float(
            tu.solve(problem.replace(**{"schedule.fraction": fraction}), START, times)
            .error[-1]
            .mean()
        )

    second = minimize_scalar(
        mean_error, bounds=(0.1, 0.5), method="bounded", options={"xatol": 1e-4}
    )
    assert found.fraction == pytest.approx(second.x, abs=2e-3)
    assert found.value == pytest.approx(second.fun, rel=1e-5)
    assert found.gain == pytest.approx(mean_error(0.0) / second.fun, rel=1e-4)
    assert found.forgetting[0, 0] == pytest.approx(0.1549, abs=1e-4)


# Units


def test_importance_is_the_error_of_a_network_without_the_unit(theory):
    found = node_reuse(theory)
    rng = np.random.default_rng(5)
    for task, place in ((0, 240), (1, 480)):
        C = np.block(
            [
                [theory.Q[place], theory.R[place][:, [task]]],
                [theory.R[place][:, [task]].T, np.ones((1, 1))],
            ]
        )
        fields = rng.multivariate_normal(np.zeros(3), C, size=200_000)
        outputs, v = erf(fields / np.sqrt(2)), theory.readout[place, task]
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
    """Second routes again: differences of errors, the first task never shown, and a run against its own overlaps."""
    teachers = [
        tu.Network(1, "erf"),
        tu.Network(2, "erf", readout=[1.0, 0.5]),
        tu.Network(1, "erf", readout=0.5),
    ]
    tasks = tu.Tasks(teachers, tu.Switch([5.0, 10.0]), heads="shared", similarity=0.4)
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True), tasks, optimizer=tu.SGD(lr=0.5)
    )
    start, times = tu.asymmetric_start(problem, dim=100), tu.linear_times(15, 31)
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


# Figures and bad input


def test_every_result_draws_itself(
    theory, returning, transferred, interfering, replayed
):
    results = [forgetting(theory), node_reuse(theory), savings(returning, target=0.01)]
    for result in (*results, transferred, interfering, replayed):
        figure = result.plot()
        assert figure.axes
        assert str(result)
    legend = [
        text.get_text() for text in results[0].plot().axes[0].get_legend().get_texts()
    ]
    assert legend == ["task 1", "task 2"]


def one_teacher():
    return tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"))


BAD = {
    "no tasks": (lambda t, r: interference(one_teacher()), "one teacher"),
    "no trajectory": (lambda t, r: forgetting(3), "solve or simulate returned"),
    "one task of a trajectory": (
        lambda t, r: forgetting(t.task(0)),
        "trajectory of several tasks",
    ),
    "task that does not exist": (
        lambda t, r: savings(r, task=2),
        "task is 2; it must be at most 1",
    ),
    "no return": (lambda t, r: savings(t), "savings needs a task that returns"),
    "negative target": (lambda t, r: savings(r, target=-1.0), "target is -1"),
    "first task": (
        lambda t, r: transfer(two_tasks(tu.Switch(60.0)), START, TIMES, task=0),
        "begins at time 0",
    ),
    "unsorted similarity": (
        lambda t, r: interference(two_tasks(tu.Switch(60.0)), START, TIMES, [0.5, 0.1]),
        "increasing numbers",
    ),
    "a gram": (
        lambda t, r: interference(
            two_tasks(tu.Switch(60.0), similarity=None, gram=np.eye(2)), START, TIMES
        ),
        "varies the similarity",
    ),
    "no replay": (
        lambda t, r: best_replay(two_tasks(tu.Switch(60.0)), START, TIMES),
        "fraction of Replay",
    ),
    "run of a solve": (lambda t, r: node_reuse(t, run=0), "Leave run out"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_message(name, theory, returning):
    call, message = BAD[name]
    with pytest.raises(InputError, match=message) as found:
        call(theory, returning)
    assert "\n" not in str(found.value)


def test_other_analyses_ask_for_one_task(theory):
    with pytest.raises(InputError, match=r"trajectory.task\(0\)"):
        tu.analysis.plateaus(theory)
    assert tu.analysis.early_stopping(
        theory.task(0)
    ).inside  # the first task is best at the switch
