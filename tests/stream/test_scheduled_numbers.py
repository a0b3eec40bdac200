"""Noise, flips, weight decay, feedback and shares of tasks that change in time:

theory, simulations and files.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.problem.messages import require_refusal
from tests.problems import pair
from tutelage.simulation.prepare import RateTable

SWITCH = 4.0
END = 8.0
START = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])
ONE = tu.Start([[0.1]], [[0.5]])
BASE = pair(2, 2, lr=1.0, noise=0.3)
LINEAR = tu.Network(1, "linear")
SIGNS = tu.Problem(
    LINEAR,
    LINEAR,
    optimizer=tu.SGD(1.0),
    labels=tu.labels.Sign(flip=0.1),
    loss="logistic",
)
CASES = {  # problem, start, name, two values
    "noise": (BASE, START, "noise", 1.0, 0.0),
    "weight decay": (BASE, START, "weight_decay", 0.5, 0.1),
    "slow momentum": (
        BASE.replace(momentum=tu.SlowMomentum(2.0)),
        START,
        "weight_decay",
        0.5,
        0.1,
    ),
    "flips": (SIGNS, ONE, "flip", 0.4, 0.0),
    "feedback": (
        BASE.replace(rule=tu.rules.FeedbackAlignment([1.0, 0.5])),
        START,
        "strength",
        0.5,
        2.0,
    ),
    "dropout": (BASE.replace(rule=tu.rules.Dropout(0.8)), START, "keep", 0.5, 0.9),
}


def scheduled(case):
    problem, start, name, first, second = CASES[case]
    return problem.replace(
        **{name: tu.schedules.Piecewise([SWITCH], [first, second])}
    ), start


SINGLE = [
    pytest.param(c, marks=pytest.mark.full if c == "feedback" else ())
    for c in CASES
    if c != "slow momentum"
]


@pytest.mark.parametrize("case", SINGLE)
def test_a_jump_is_two_solves(case):
    """The second one starts where the first ended; with the second value from the beginning it would end elsewhere."""
    problem, start, name, first, second = CASES[case]
    both, _ = scheduled(case)
    whole = tu.solve(both, start, [0.0, SWITCH, END])
    one = tu.solve(problem.replace(**{name: first}), start, [0.0, SWITCH])
    two = tu.solve(
        problem.replace(**{name: second}),
        tu.Start(one.R[-1], one.Q[-1]),
        [0.0, END - SWITCH],
    )
    np.testing.assert_allclose(
        whole.error, [one.error[0], one.error[-1], two.error[-1]], rtol=1e-6
    )
    np.testing.assert_allclose(
        whole.loss[[0, 2]], [one.loss[0], two.loss[-1]], rtol=1e-6
    )  # each with its own noise
    alone = tu.solve(problem.replace(**{name: second}), start, [0.0, END])
    assert abs(alone.error[-1] / whole.error[-1] - 1) > 1e-2


@pytest.mark.parametrize("case", CASES)
def test_a_file_holds_the_schedule(case):
    both, _ = scheduled(case)
    again = tu.Problem.from_toml(both.to_toml())
    assert (
        again.to_json()
        == both.to_json()
        == tu.Problem.from_json(both.to_json()).to_json()
    )
    assert "Piecewise(switches=[4.0]" in repr(again)


METHODS = ({"method": "overlaps"}, {"method": "weights"}, {"together": True})


@pytest.mark.parametrize(
    ("case", "method"),
    [
        *(
            (case, method)
            for case in ("noise", "weight decay", "flips")
            for method in METHODS[:2]
        ),
        *((case, METHODS[2]) for case in ("noise", "weight decay")),
        pytest.param("flips", METHODS[2], marks=pytest.mark.full),
    ],
)
def test_a_simulation_follows_the_schedule(case, method):
    """Up to the switch as with the first number, draw by draw; later not."""
    problem, start, name, first, _ = CASES[case]
    both, _ = scheduled(case)
    how = {"dim": 60, "times": [0.0, SWITCH, END], "runs": 2, "seed": 1, **method}
    runs, same = (
        np.asarray(tu.simulate(p, start, **how).R)
        for p in (both, problem.replace(**{name: first}))
    )
    np.testing.assert_allclose(runs[:, :2], same[:, :2], rtol=1e-9, atol=1e-12)
    assert np.abs(runs[:, 2] - same[:, 2]).max() > 1e-3


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", METHODS, ids=("overlaps", "weights", "together"))
def test_simulations_agree_with_the_theory(case, method):
    """Three means within 4.5 standard errors, and a 1/N gap of 2%:

    right code fails once in thousands of runs.
    """
    both, start = scheduled(case)
    times = [0.0, SWITCH, 6.0, END]
    theory = tu.solve(both, start, times)
    error = np.asarray(
        tu.simulate(both, start, dim=500, times=times, runs=60, seed=3, **method).error
    )[:, 1:]
    allowed = 4.5 * error.std(axis=0, ddof=1) / np.sqrt(60) + 0.02 * theory.error[1:]
    assert np.all(np.abs(error.mean(axis=0) - theory.error[1:]) < allowed)


def test_the_table_of_steps_has_decay_and_label_numbers():
    problem = scheduled("noise")[0].replace(
        weight_decay=tu.schedules.Linear([0.0, END], [0.0, 0.8])
    )
    table = RateTable(problem, 10, 80).table(0, 80)
    np.testing.assert_allclose(table[:, -1], np.where(np.arange(80) < 40, 1.0, 0.0))
    np.testing.assert_allclose(table[:, -2], np.arange(80) / 80 * 0.8 / 10)
    flips = RateTable(scheduled("flips")[0], 10, 80).table(30, 50)[:, -1]
    assert flips[0] == pytest.approx(
        0.2533471031
    )  # a standard normal number is above it with probability 0.4
    assert np.isinf(flips[-1])


# ---- shares of tasks
UNIT = tu.Network(1, "erf")
TASK_START = tu.Start(
    [[0.05, 0.02], [-0.01, 0.03]],
    [[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)


def tasks(schedule):
    teachers = tu.Tasks([UNIT, UNIT], schedule, similarity=0.5)
    return tu.Problem(
        tu.Network(2, "erf", train_readout=True), teachers, optimizer=tu.SGD(1.0)
    )


def require_equal_shares(*problems):
    for t in (0.0, 3.9, 4.1, END):
        np.testing.assert_allclose(
            *(problem.teacher.probabilities(t) for problem in problems), rtol=1e-12
        )


def test_shares_by_a_schedule_are_the_schedules_that_they_describe():
    step = tu.schedules.Piecewise([SWITCH], [1.0, 0.0])
    there = tasks(tu.Switch([SWITCH, END + 1], order=[0, 1, 0]))
    wanted = tu.solve(there, TASK_START, [0.0, SWITCH, END]).error
    one, two = (
        tasks(tu.Interleave(x))
        for x in (step, [step, tu.schedules.Piecewise([SWITCH], [0.0, 1.0])])
    )
    np.testing.assert_allclose(
        tu.solve(one, TASK_START, [0.0, SWITCH, END]).error, wanted, rtol=1e-7
    )
    require_equal_shares(one, two)
    require_equal_shares(one, tasks(tu.Switch(SWITCH)))
    require_equal_shares(tasks(tu.Interleave(0.5)), tasks(None))
    for problem in (one, two):
        assert tu.Problem.from_toml(problem.to_toml()).to_json() == problem.to_json()
    replayed = tasks(tu.Replay(tu.schedules.Piecewise([6.0], [0.0, 1.0]), after=SWITCH))
    back = tasks(tu.Switch([SWITCH, 6.0], order=[0, 1, 0]))
    times = [0.0, 5.0, END]
    np.testing.assert_allclose(
        *(tu.solve(p, TASK_START, times).error for p in (replayed, back)), rtol=1e-7
    )
    assert tu.Problem.from_toml(replayed.to_toml()).to_json() == replayed.to_json()


def test_a_simulation_draws_tasks_by_the_schedule():
    both = (
        tasks(tu.Interleave(tu.schedules.Piecewise([SWITCH], [1.0, 0.0]))),
        tasks(tu.Switch(SWITCH)),
    )
    runs = [
        np.asarray(
            tu.simulate(p, TASK_START, dim=50, times=[0.0, END], runs=2, seed=1).R
        )
        for p in both
    ]
    np.testing.assert_allclose(*runs, rtol=1e-9)


# ---- messages
REFUSED = {
    "negative decay": (
        lambda: tu.solve(BASE.replace(weight_decay=lambda t: -t), START, 1.0),
        ["weight_decay", "-1"],
    ),
    "flips above one": (
        lambda: tu.solve(
            SIGNS.replace(flip=tu.schedules.Linear([0, 1], [0, 2])), ONE, 1.0
        ),
        ["flip", "between 0 and 1"],
    ),
    "noise of signs": (
        lambda: SIGNS.replace(noise=tu.schedules.Linear([0, 1], [0, 2])),
        ["noise", "labels='real'", "flip"],
    ),
    "a sum above one": (
        lambda: tu.solve(
            tasks(tu.Interleave([tu.schedules.Linear([0, 1], [0, 1]), 0.5])),
            TASK_START,
            1.0,
        ),
        ["sum", "time"],
    ),
    "stiff": (
        lambda: tu.solve(scheduled("noise")[0], START, 1.0, solver="stiff"),
        ["stiff", "schedule", "explicit"],
    ),
    "fixed point": (
        lambda: tu.analysis.fixed_point(scheduled("noise")[0], START),
        ["noise", "schedule"],
    ),
    "spherical": (
        lambda: tu.SGD(
            0.5, spherical=True, weight_decay=tu.schedules.Linear([0, 1], [0, 1])
        ),
        ["weight_decay", "spherical"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_change_in_time_is_refused(case):
    call, mentions = REFUSED[case]
    with pytest.raises(tu.InputError) as caught:
        call()
    require_refusal(caught.value, *mentions)
