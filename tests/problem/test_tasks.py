"""Tasks as plain data:

probabilities over time, overlaps, messages, files and changes by name.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problem.messages import require_refusal

ONE = tu.Network(1, "erf")
TWO = tu.Network(2, "relu")
STUDENT = tu.Network(2, "erf", train_readout=True)


def problem(*teachers, **options):
    return tu.Problem(
        STUDENT,
        tu.Tasks(list(teachers) or [ONE, ONE], **options),
        optimizer=tu.SGD(lr=1.0),
    )


def uneven(t):
    return np.array([0.7, 0.7])


def uneven_between(t):
    return jnp.where(jnp.abs(t - 0.5) < 0.1, 0.7, 0.5) * jnp.ones(2)


CASES = {
    "shares": (lambda: tu.Interleave([0.5, 0.6]), ["0.6", "1.1", "sum 1"]),
    "shares negative": (lambda: tu.Interleave([1.5, -0.5]), ["-0.5", "zero or more"]),
    "shares count": (
        lambda: problem(schedule=tu.Interleave([0.2, 0.3, 0.5])),
        ["Interleave", "3 tasks", "2 tasks"],
    ),
    "shares matrix": (lambda: tu.Interleave([[0.5, 0.5]]), ["(1, 2)", "list"]),
    "function": (
        lambda: tu.solve(problem(schedule=uneven), times=1.0),
        ["1.4", "time 0", "sum 1"],
    ),
    "function between records": (
        lambda: tu.solve(problem(schedule=uneven_between), times=[0.0, 1.0]),
        ["1.4", "sum 1"],
    ),
    "function shape": (
        lambda: tu.solve(problem(schedule=lambda t: 0.5 * t), times=1.0),
        ["()", "2 probabilities"],
    ),
    "function fails": (
        lambda: tu.solve(problem(schedule=lambda t: 1 / 0), times=1.0),
        ["cannot be traced", "jax.numpy"],
    ),
    "switches": (lambda: tu.Switch([60.0, 30.0]), ["from 60 to 30", "increase"]),
    "switches negative": (lambda: tu.Switch(-1.0), ["-1", "zero or more"]),
    "switches ragged": (
        lambda: tu.Switch([[1.0, 2.0], [3.0]]),
        ["switches", "array of numbers"],
    ),
    "switches empty": (lambda: tu.Switch([]), ["(0,)", "list"]),
    "switches too many": (
        lambda: problem(schedule=tu.Switch([1.0, 2.0])),
        ["Switch", "3 tasks", "2 tasks"],
    ),
    "order unknown": (
        lambda: problem(schedule=tu.Switch(1.0, order=[0, 5])),
        ["order=(0, 5)", "6 tasks", "2 tasks"],
    ),
    "order length": (
        lambda: tu.Switch(1.0, order=[0, 1, 0]),
        ["3 phases", "1 switches"],
    ),
    "order negative": (lambda: tu.Switch(1.0, order=[0, -1]), ["-1", "0 or more"]),
    "replay": (lambda: tu.Replay(1.5, after=1.0), ["1.5", "between 0 and 1"]),
    "replay unsorted": (
        lambda: tu.Replay(0.5, after=[2.0, 1.0]),
        ["from 2 to 1", "increase"],
    ),
    "replay tasks": (
        lambda: problem(schedule=tu.Replay(0.5, after=[1.0, 2.0])),
        ["Replay", "3 tasks", "2 tasks"],
    ),
    "drift": (lambda: tu.Drift(-0.1), ["-0.1", "zero or more"]),
    "drift number": (lambda: problem(drift=0.1), ["0.1", "Drift(0.01)"]),
    "schedule": (lambda: problem(schedule="switch"), ["'switch'", "Switch(60.0)"]),
    "heads": (lambda: problem(heads="both"), ["both", "separate, shared"]),
    "no teachers": (lambda: tu.Tasks([]), ["[]", "list of Networks"]),
    "one network": (lambda: tu.Tasks(ONE), ["list of Networks"]),
    "teacher word": (lambda: tu.Tasks(["erf"]), ["'erf'", "Network"]),
    "teacher learns": (lambda: tu.Tasks([STUDENT]), ["train_readout", "student"]),
    "outputs": (lambda: tu.Tasks([ONE, tu.Network(2, outputs=2)]), ["1, 2 outputs"]),
    "similarity": (
        lambda: problem(similarity=1.5),
        ["eigenvalue", "Gram matrix of the teachers"],
    ),
    "similarity shape": (lambda: problem(similarity=[0.5, 0.5]), ["(2,)", "(2, 2)"]),
    "similarity and gram": (
        lambda: problem(similarity=0.5, gram=np.eye(2)),
        ["similarity and gram"],
    ),
    "gram": (
        lambda: problem(gram=[[1.0, 2.0], [2.0, 1.0]]),
        ["eigenvalue", "positive semidefinite"],
    ),
    "gram shape": (
        lambda: problem(ONE, TWO, gram=np.eye(2)),
        ["(2, 2)", "3 units", "(3, 3)"],
    ),
    "gram of a level": (
        lambda: problem(tu.Network(1, gram=np.ones((2, 1, 1)))),
        ["each level", "Tasks(gram=...)"],
    ),
    "joint": (
        lambda: tu.solve(
            problem(similarity=1.0),
            tu.Start([[0.05, 0.02], [-0.01, 0.03]], [[0.3, 0.02], [0.02, 0.2]]),
            1.0,
        ),
        ["eigenvalue", "joint Gram matrix"],
    ),
    "head unknown": (
        lambda: tu.solve(
            problem(),
            tu.Start(np.zeros((2, 2)), np.eye(2), readout=np.ones((3, 2))),
            1.0,
        ),
        ["(3, 2)", "(2, 2)", "one head for each task"],
    ),
    "head shared": (
        lambda: tu.solve(
            problem(heads="shared"),
            tu.Start(np.zeros((2, 2)), np.eye(2), readout=np.ones((2, 2))),
            1.0,
        ),
        ["(2, 2)", "(2,)"],
    ),
    "freeze": (lambda: problem(freeze_heads=-1.0), ["-1", "zero or more"]),
    "freeze unknown": (lambda: problem(freeze_heads=[1.0, 2.0, 3.0]), ["(3,)", "(2,)"]),
    "freeze shared": (
        lambda: problem(heads="shared", freeze_heads=[1.0, 2.0]),
        ["(2,)", "single number"],
    ),
    "restart": (lambda: tu.schedules.Restarted(0.5, [1.0]), ["0.5", "PowerDecay(0.5)"]),
    "restart unsorted": (
        lambda: tu.schedules.Restarted(tu.schedules.PowerDecay(0.5), [2.0, 1.0]),
        ["from 2 to 1", "increase"],
    ),
    "labels": (
        lambda: tu.Problem(STUDENT, tu.Tasks([ONE, ONE]), loss="logistic"),
        ["logistic", "labels='sign'"],
    ),
    "TOML teachers": (
        lambda: toml("teachers = 2\n"),
        ["teachers", "2", "list of Networks"],
    ),
    "TOML schedule": (
        lambda: toml('teachers = [{hidden=1}]\nschedule = {kind="swap"}\n'),
        ["swap", "switch"],
    ),
    "TOML name": (
        lambda: toml("teachers = [{hidden=1}]\nlikeness = 0.5\n"),
        ["likeness", "similarity"],
    ),
    "analysis": (
        lambda: tu.analysis.fixed_point(problem()),
        ["2 tasks", "one teacher"],
    ),
    "curve": (
        lambda: tu.analysis.plateaus(
            tu.solve(problem(), tu.asymmetric_start(problem()), [0.0, 1.0])
        ),
        ["2 tasks", "task(0)"],
    ),
    "sweep": (lambda: tu.sweep(problem(), {"lr": [0.1]}), ["2 tasks", "one teacher"]),
    "stiff": (
        lambda: tu.solve(
            problem(), tu.asymmetric_start(problem()), 1.0, solver="stiff"
        ),
        ["2 tasks", "explicit"],
    ),
    "validity": (
        lambda: (
            tu.solve(problem(), tu.asymmetric_start(problem()), [0.0, 1.0]).validity
        ),
        ["several tasks", "compare"],
    ),
}


def toml(teacher):
    return tu.Problem.from_toml(f"[student]\nhidden = 2\n[teacher]\n{teacher}")


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_message(name):
    call, mentions = CASES[name]
    with pytest.raises(tu.InputError) as caught:
        call()
    require_refusal(caught.value, *mentions)


def test_probabilities_over_time():
    at = lambda schedule, *times: [schedule.probabilities(t, 3).tolist() for t in times]  # noqa: E731
    assert at(tu.Switch([1.0, 2.0]), 0.0, 0.999, 1.0, 5.0) == [
        [1, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
    ]
    assert at(tu.Switch([1.0, 2.0], order=[1, 0, 1]), 0.0, 1.5, 2.0) == [
        [0, 1, 0],
        [1, 0, 0],
        [0, 1, 0],
    ]
    np.testing.assert_allclose(
        at(tu.Replay(0.2, [1.0, 2.0]), 0.0, 1.5, 2.5),
        [[1, 0, 0], [0.2, 0.8, 0], [0.1, 0.1, 0.8]],
        rtol=1e-15,
    )
    assert problem().teacher.probabilities(3.0).tolist() == [0.5, 0.5]


def test_similarity_is_the_overlap_of_equal_units():
    own = [[1.0, 0.3], [0.3, 2.0]]
    tasks = tu.Tasks(
        [tu.Network(2, gram=own), tu.Network(3), tu.Network(1)], similarity=0.25
    )
    expected = np.eye(6)
    expected[:2, :2] = own
    for i, j in ((0, 2), (1, 3), (0, 5), (2, 5)):
        expected[i, j] = expected[j, i] = 0.25
    np.testing.assert_array_equal(tasks.gram, expected)
    assert tasks.task_of_units.tolist() == [0, 0, 1, 1, 1, 2]
    assert tasks.units(1) == slice(2, 5)
    assert tu.Tasks([ONE, ONE]).gram is None


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": tu.Switch([1.0, 2.0], order=[0, 1, 0]), "similarity": 0.5},
        {
            "schedule": tu.Interleave([0.25, 0.75]),
            "heads": "shared",
            "gram": np.eye(3) + 0.1,
        },
        {
            "schedule": tu.Replay(0.1, 3.0),
            "drift": tu.Drift(0.01),
            "freeze_heads": [1.0, np.inf],
        },
    ],
)
def test_files_keep_tasks(options):
    made = problem(ONE, TWO, **options).replace(
        lr=tu.schedules.Restarted(tu.schedules.PowerDecay(0.5), [1.0])
    )
    for again in (
        tu.Problem.from_toml(made.to_toml()),
        tu.Problem.from_json(made.to_json()),
    ):
        assert again.to_dict() == made.to_dict()
        assert repr(again) == repr(made)


def test_changes_by_name():
    made = problem(
        ONE, TWO, schedule=tu.Replay(0.1, 3.0), drift=tu.Drift(0.01), similarity=0.5
    )
    new = made.replace(
        similarity=0.2,
        **{"schedule.fraction": 0.4, "drift.rate": 0.3, "teacher.schedule.after": 4.0},
    ).teacher
    assert float(new.similarity) == 0.2
    assert float(new.schedule.fraction) == 0.4
    assert new.schedule.after.tolist() == [4.0]
    assert float(new.drift.rate) == 0.3
    gram = made.replace(**{"teacher.gram": np.eye(3), "similarity": None}).teacher
    assert gram.similarity is None
    np.testing.assert_array_equal(gram.gram, np.eye(3))
    with pytest.raises(tu.InputError, match=r"schedule\.fraction"):
        made.replace(**{"schedule.fractions": 0.4})


def test_starts_for_tasks():
    made = problem(ONE, TWO, similarity=0.5)
    start = tu.asymmetric_start(made)
    np.testing.assert_allclose(
        start.R, [[0.4, 0.35, 0.2], [0.3375, 0.375, 0.2]], rtol=1e-12
    )  # a T
    for each in (tu.random_start(made, dim=100), tu.random_start(made), start):
        assert each.blocks(made)[0].shape == (1, 2, 3)
        assert each.readout_of(made).shape == (2, 2)
    weights = np.random.default_rng(0).standard_normal((5, 40))
    own = problem(ONE, TWO)
    assert tu.start_from_weights(own, weights[:2], weights[2:]).R.shape == (2, 3)
