"""Many problems at once are the problems one by one:

numbers, divergences, starts, and what is refused.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
from tests.problems import pair

PROBLEM = pair(2, 2)
START = tu.Start(R=[[0.3, 0.1], [0.05, 0.2]], Q=0.5 * np.eye(2))
TIMES = tu.linear_times(20, 5)


def test_each_member_is_its_own_solve():
    rates = np.linspace(0.1, 1.0, 7)
    noises = np.linspace(0.0, 0.3, 7)
    many = tu.solve_batch(
        PROBLEM, {"lr": rates, "noise": noises}, START, TIMES, chunk=3
    )  # the last chunk is padded
    assert many.error.shape == (7, 5)
    assert many.Q.shape == (7, 5, 2, 2)
    for i in (0, 3, 6):
        one = tu.solve(PROBLEM.replace(lr=rates[i], noise=noises[i]), START, TIMES)
        np.testing.assert_allclose(many.error[i], one.error, rtol=1e-6)
        np.testing.assert_allclose(many.Q[i], one.Q, atol=1e-7)
        np.testing.assert_allclose(many.loss[i], one.loss, rtol=1e-6)
    alone = tu.solve_batch(
        PROBLEM, {"lr": rates, "noise": noises}, START, TIMES, chunk=3, workers=1
    )
    np.testing.assert_array_equal(many.error, alone.error)  # threads change no digit
    data = many.to_dataset()
    np.testing.assert_allclose(data["optimizer.lr"], rates)
    assert data["error"].dims == ("batch", "time")


def test_every_member_may_have_its_own_start():
    starts = [
        tu.Start(R=[[0.3, 0.1], [0.05, r]], Q=0.5 * np.eye(2)) for r in (0.2, 0.3, 0.4)
    ]
    many = tu.solve_batch(PROBLEM, {"lr": [0.5] * 3}, starts, TIMES, chunk=3)
    np.testing.assert_allclose(many.R[:, 0, 1, 1], [0.2, 0.3, 0.4])
    np.testing.assert_allclose(
        many.error[2], tu.solve(PROBLEM, starts[2], TIMES).error, rtol=1e-6
    )
    assert np.unique(many.error[:, -1]).size == 3


def test_a_member_that_diverges_says_so_and_leaves_the_others_alone():
    problem = pair(2, 2, "quadratic")
    with pytest.warns(
        tu.errors.DivergenceWarning, match="1 of 3 did not finish; number 2 diverged"
    ):
        many = tu.solve_batch(problem, {"lr": [0.01, 0.02, 3.0]}, START, TIMES, chunk=3)
    assert many.status_code.tolist() == [
        tu.errors.Status.FINISHED,
        tu.errors.Status.FINISHED,
        tu.errors.Status.DIVERGED,
    ]
    assert np.isfinite(many.error[:2]).all()
    assert np.isnan(many.error[2, -1])


REFUSED = {
    "nothing": ({"over": {}}, "name what differs"),
    "no mapping": ({"over": [0.1]}, "name what differs"),
    "one number": ({"over": {"lr": 0.1}}, "one entry per problem"),
    "unequal lists": ({"over": {"lr": [0.1, 0.2], "noise": [0.1]}}, r"lengths \{'lr': 2, 'noise': 1\}"),
    "unknown name": ({"over": {"rate": [0.1]}}, "the name of a change"),
    "one bad rate": ({"over": {"lr": [0.1, -0.2, 0.3]}}, "lr is -0.2"),
    "not finite": ({"over": {"lr": [0.1, np.nan]}}, "nan"),
    "words": ({"over": {"lr": ["fast"]}}, "lr"),
    "starts": ({"over": {"lr": [0.1, 0.2]}, "start": [START]}, "1 initial conditions are given for 2 problems"),
    "start of words": ({"over": {"lr": [0.1]}, "start": 3}, "start is of type int"),
    "no problem": ({"problem": 3, "over": {"lr": [0.1]}}, "problem is of type int"),
    "chunk": ({"over": {"lr": [0.1]}, "chunk": 0}, "chunk is 0"),
    "a shape": ({"over": {"student.hidden": [2, 3]}}, "'student.hidden', which changes shapes"),
    "a function": ({"over": {"activation": ["erf", "relu"]}}, "'activation', which changes shapes, functions"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_wishes_are_refused(name):
    arguments, message = REFUSED[name]
    with pytest.raises(tu.InputError, match=message):
        tu.solve_batch(
            **({"problem": PROBLEM, "start": START, "times": TIMES} | arguments)
        )


def test_batches_of_several_sizes():
    problem = pair(2, 2, lr=0.5, noise=0.3)
    start = tu.asymmetric_start(problem)
    many = tu.solve_batch(problem, {"batch": [1, 2, 4]}, start, [0.0, 5.0])
    alone = [
        tu.solve(problem.replace(batch=batch), start, [0.0, 5.0]).error[-1]
        for batch in (1, 2, 4)
    ]
    np.testing.assert_allclose(many.error[:, -1], alone, rtol=1e-8)


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"batch": [1, 2.5]}, r"batch is 2\.5; it must be a whole number"),
        ({"batch": [0, 1]}, "batch is 0; it must be a whole number, 1 or more"),
        (
            {"spherical": [True, False]},
            "over has 'spherical', which changes shapes, functions or flags",
        ),
        ({"trainable": [[0], [1]]}, "over has 'trainable'"),
        ({"normalize": [True]}, "over has 'normalize'"),
    ],
)
def test_what_cannot_differ_is_named(over, words):
    with pytest.raises(tu.InputError, match=words):
        tu.solve_batch(pair(2, 2, lr=0.5), over, times=[0.0, 5.0])


def line_to_signs(rate, end, R, Q):
    """R and Q of a linear unit that learns the signs of a linear one by the usual loss, E[y sign y] = sqrt(2 / pi)."""
    c = np.sqrt(2 / np.pi)

    def flow(_, state):
        R, Q = state
        return rate * (c - R), 2 * rate * (c * R - Q) + rate**2 * (1 - 2 * c * R + Q)

    return solve_ivp(flow, (0.0, end), [R, Q], rtol=1e-10).y[:, -1]


def test_members_with_a_loss_of_one_s_own():
    """Twice the loss is twice the rate."""
    line = tu.Network(1, "linear")
    problem = tu.Problem(
        line, line, loss=lambda output, label: (label - output) ** 2, labels="sign"
    )
    start = tu.Start(R=[[0.2]], Q=[[0.3]])
    rates = [0.1, 0.4]
    many = tu.solve_batch(problem, {"lr": rates}, start, times=[0.0, 0.2], rtol=1e-4)
    for lr, R, Q, error in zip(
        rates, many.R[:, :, 0, 0], many.Q[:, :, 0, 0], many.error, strict=True
    ):
        right, wrong = (
            line_to_signs(2 * rate, 0.2, 0.2, 0.3) for rate in (lr, 1.01 * lr)
        )
        np.testing.assert_allclose([R[-1], Q[-1]], right, rtol=1e-4)
        np.testing.assert_allclose(error, np.arccos(R / np.sqrt(Q)) / np.pi, rtol=1e-3)
        assert np.max(np.abs(wrong / right - 1)) > 1e-3  # the test has power
    with pytest.raises(tu.InputError, match="changes shapes, functions"):
        tu.solve_batch(problem, {"loss": ["squared"]}, start, times=1.0)


STEPS = tu.schedules.Piecewise([5.0, 10.0], [0.5, 0.4, 0.3])
TASKS = tu.Tasks(
    [tu.Network(1)] * 2,
    tu.Interleave(tu.schedules.Piecewise([5.0], [0.5, 0.5])),
    similarity=0.5,
)
# the first, the last, and the smallest and largest numbers of all members are allowed
BETWEEN = {
    "order": (
        PROBLEM.replace(lr=STEPS),
        {"lr.switches": [[1, 2], [2.5, 1.5], [3, 4]]},
        "must increase",
    ),
    "range": (
        tu.Problem(tu.Network(2), TASKS, optimizer=tu.SGD(0.5)),
        {"schedule.shares.values": [[0.5, 0.5], [1.5, 0.5], [0.5, 0.5]]},
        "1.5, -0.5",
    ),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_a_bad_schedule_of_any_member_is_refused(case):
    problem, over, words = BETWEEN[case]
    with pytest.raises(tu.InputError, match=words):
        tu.solve_batch(problem, over, START, TIMES)
