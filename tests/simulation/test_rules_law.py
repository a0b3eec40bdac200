"""Overlaps and weights follow one law for every loss, label and rule:

means, covariances and whole distributions.
"""

import numpy as np
import pytest
from scipy.stats import ks_2samp

import tutelage as tu
from tests.simulation.cases import FOUR, start
from tests.simulation.laws import LEVEL, features, probability
from tutelage.simulation import recorded_error

TIMES = [0.0, 1.0, 3.0]
TWO = tu.Network(2, "erf", train_readout=True)
ONE = tu.Network(1, "erf")
UNIT = tu.Network(1, "linear")
CASES = {
    "logistic": (
        tu.Problem(
            TWO,
            ONE,
            optimizer=tu.SGD(1.5),
            loss="logistic",
            labels=tu.labels.Sign(flip=0.1),
        ),
        start(2, 1),
        16,
    ),
    "hinge": (
        tu.Problem(
            TWO,
            ONE,
            optimizer=tu.SGD(1.2, batch=3),
            loss="hinge",
            labels=tu.labels.Logistic(slope=2.0),
        ),
        start(2, 1),
        16,
    ),
    "huber": (
        tu.Problem(
            tu.Network(2, "relu"),
            tu.Network(2, "relu"),
            inputs=FOUR,
            optimizer=tu.SGD(2.0),
            loss=tu.losses.Huber(0.6),
            noise=0.5,
        ),
        start(2, 2, 4),
        32,
    ),
    "perceptron": (
        tu.Problem(
            UNIT,
            UNIT,
            optimizer=tu.SGD(1.0),
            rule=tu.rules.Perceptron(0.2),
            labels=tu.labels.Sign(flip=0.1),
        ),
        start(1, 1),
        12,
    ),
    "adatron": (
        tu.Problem(
            UNIT,
            UNIT,
            optimizer=tu.SGD(1.0, weight_decay=0.1),
            rule="adatron",
            labels="sign",
        ),
        start(1, 1),
        12,
    ),
}


@pytest.fixture(autouse=True)
def states_alone(monkeypatch):
    """The law of the states is tested:

    the error at each of thousands of them is not needed, and takes most of the time.
    """
    monkeypatch.setattr(
        recorded_error,
        "errors_at_records",
        lambda problem, R, *rest: 2 * (np.zeros(np.shape(R)[:-2]),),
    )


def ensembles(name: str, runs: int, faster: float = 1.0):
    """Runs of both methods, those of the overlaps with a learning rate that is too large by a factor."""
    problem, begin, dim = CASES[name]
    options = {"dim": dim, "times": TIMES, "runs": runs}
    wrong = problem.replace(lr=faster * float(problem.optimizer.lr))
    return tu.simulate(wrong, begin, seed=1, **options), tu.simulate(
        problem, begin, seed=2, method="weights", **options
    )


def smallest_p(one, other) -> float:
    """Of two-sample Kolmogorov-Smirnov tests of every recorded quantity, times their number."""
    pairs = [
        (features(one, i).T, features(other, i).T) for i in range(1, one.times.size)
    ]
    p = [
        float(np.asarray(ks_2samp(a, b))[1])
        for pair in pairs
        for a, b in zip(*pair, strict=True)
    ]
    return min(p) * len(p)


@pytest.mark.parametrize("name", CASES)
def test_same_law(name):
    runs = ensembles(name, 1000)
    assert probability(*runs) > LEVEL
    assert smallest_p(*runs) > LEVEL


@pytest.mark.parametrize(
    "name",
    [
        "logistic",
        "perceptron",
        *(pytest.param(n, marks=pytest.mark.full) for n in ("hinge", "huber")),
    ],
)
def test_a_wrong_learning_rate_is_noticed(name):
    runs = ensembles(name, 1000, faster=1.1)
    assert min(probability(*runs), smallest_p(*runs)) < 1e-2 * LEVEL


def test_the_jax_loop_has_the_same_law():
    """The same loss as a function of one's own."""
    problem, begin, dim = CASES["logistic"]
    own = problem.replace(
        loss=tu.losses.Function(lambda output, label: problem.loss(output, label))
    )
    options = {"dim": dim, "times": TIMES, "runs": 500}
    runs = (
        tu.simulate(problem, begin, seed=3, **options),
        tu.simulate(own, begin, seed=4, **options),
    )
    assert probability(*runs) > LEVEL
    assert smallest_p(*runs) > LEVEL


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_same_law_with_many_runs(name):
    runs = ensembles(name, 20_000)
    assert probability(*runs) > LEVEL
    assert smallest_p(*runs) > LEVEL
