"""Every wrong argument of `optimize` and `greedy` has one message."""

import jax.numpy as jnp
import pytest

import tutelage as tu
from tests.analysis.protocols.cases import (
    END,
    LINE,
    SMALL,
    SMOOTH,
    TWO,
    TWO_START,
    line,
)
from tests.problem.messages import require_refusal
from tests.problems import linear_regression, pair

PLAIN = pair(2, 2)
optimize = tu.schedules.optimize
LR = {"lr": (0.0, 1.0)}
FUNCTIONS = {
    "vector": lambda trajectory: trajectory.error[-1] * jnp.ones(2),
    "fails": lambda trajectory: trajectory.eror[-1],
    "integer": lambda trajectory: jnp.argmax(trajectory.error),
}
REFUSED = {
    "equations": (
        lambda: optimize(linear_regression(), LINE, 5.0, LR),
        ["Equations", "Problem"],
    ),
    "no start": (lambda: optimize(PLAIN, None, 5.0, LR), ["start", "random_start"]),
    "zero time": (lambda: optimize(PLAIN, SMALL, 0.0, LR), ["t_max", "0", "positive"]),
    "unknown control": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"learning_rate": (0, 1)}),
        ["learning_rate", "'lr'"],
    ),
    "near control": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"weight_deccay": (0, 1)}),
        ["'weight_decay'"],
    ),
    "no controls": (lambda: optimize(PLAIN, SMALL, 5.0, {}), ["controls", "'lr'"]),
    "batch": (lambda: optimize(PLAIN, SMALL, 5.0, {"batch": (1, 4)}), ["batch", "lr"]),
    "empty bounds": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"lr": (1.0, 1.0)}),
        ["lr", "1", "below"],
    ),
    "negative bounds": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"lr": (-1.0, 1.0)}),
        ["lr", "-1"],
    ),
    "three bounds": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"lr": (0.0, 1.0, 2.0)}),
        ["lr", "(2,)"],
    ),
    "a probability": (
        lambda: optimize(TWO, TWO_START, 5.0, {"tasks": (0.0, 2.0)}),
        ["tasks", "at most 1"],
    ),
    "one teacher": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"tasks": (0, 1)}),
        ["tasks", "tu.Tasks"],
    ),
    "no dropout": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"keep": (0.1, 1)}),
        ["keep", "Dropout"],
    ),
    "no feedback": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"feedback": (0, 1)}),
        ["feedback", "FeedbackAlignment"],
    ),
    "no replay": (
        lambda: optimize(TWO, TWO_START, 5.0, {"replay": (0, 1)}),
        ["replay", "Replay"],
    ),
    "no flips": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"flip": (0, 0.5)}),
        ["flip", "noise"],
    ),
    "fixed readout": (
        lambda: optimize(PLAIN, SMALL, 5.0, {"readout_lr": (0, 1)}),
        ["readout", "train_readout=True"],
    ),
    "force": (
        lambda: optimize(
            pair(2, 2, momentum=tu.SlowMomentum(2.0, 0.3)), SMALL, 5.0, LR
        ),
        ["k", "first layer"],
    ),
    "objective": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, "finale"),
        ["objective", "'final'"],
    ),
    "a level reached at once": (
        lambda: optimize(
            line(), LINE, END, {"lr": (0.0, 5.0)}, "time", level=0.6, **SMOOTH
        ),
        ["0.6", "time 0", "0.55"],
    ),
    "no level": (lambda: optimize(PLAIN, SMALL, 5.0, LR, "time"), ["level"]),
    "not a number": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, FUNCTIONS["vector"]),
        ["objective", "(2,)", "number"],
    ),
    "a failing objective": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, FUNCTIONS["fails"]),
        ["objective", "fails", "eror"],
    ),
    "an integer": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, FUNCTIONS["integer"]),
        ["objective", "int", "number"],
    ),
    "segments": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, segments=0),
        ["segments", "0"],
    ),
    "edges beyond": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, segments=[0.0, 6.0]),
        ["segments", "t_max = 5"],
    ),
    "shape": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, shape="round"),
        ["shape", "smooth"],
    ),
    "infeasible budget": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, budgets={"lr": (6.0, 9.0)}),
        ["budget", "6", "5"],
    ),
    "a word as a budget": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, budgets={"lr": "much"}),
        ["budget", "lr", "number"],
    ),
    "unknown budget": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, budgets={"noise": 1.0}),
        ["budget", "noise", "lr"],
    ),
    "baseline": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, baselines={"a": 0.5}),
        ["baseline", "'a'", "table"],
    ),
    "baselines": (
        lambda: optimize(PLAIN, SMALL, 5.0, LR, baselines=[0.5]),
        ["baselines", "table"],
    ),
    "divergence": (
        lambda: optimize(line(), LINE, END, {"lr": (9.0, 90.0)}, **SMOOTH),
        ["finite", "lower"],
    ),
    "nothing to learn": (
        lambda: optimize(
            line(noise=0.0),
            tu.Start([[1.0]], [[1.0]]),
            END,
            {"lr": (0.0, 5.0)},
            **SMOOTH,
        ),
        ["rounding", "t_max"],
    ),
    "greedy bounds": (
        lambda: tu.schedules.greedy(PLAIN, SMALL, 5.0, (1.0, 0.5)),
        ["bounds", "below"],
    ),
    "greedy slow": (
        lambda: tu.schedules.greedy(
            pair(2, 2, momentum=tu.SlowMomentum(2.0)), SMALL, 5.0
        ),
        ["greedy", "SlowMomentum"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused_in_one_sentence(case):
    call, mentions = REFUSED[case]
    with pytest.raises(tu.InputError) as caught:
        call()
    require_refusal(caught.value, *mentions)
