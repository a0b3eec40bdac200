"""Every result in words and as a figure, and one message for bad input."""

import numpy as np
import pytest

import tutelage as tu
from tests.analysis.continual.cases import START, TIMES, two_tasks
from tutelage import InputError
from tutelage.analysis import (
    best_replay,
    forgetting,
    interference,
    node_reuse,
    savings,
    transfer,
)


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
