"""Problems whose best protocols are known or cheap."""

import equinox as eqx
import numpy as np

import tutelage as tu
from tests.problems import pair
from tutelage.analysis.protocols.arguments import checked_controls
from tutelage.analysis.protocols.search import Search
from tutelage.solvers.program import step_tolerances

LEVELS = np.array([1.8, 0.2])
SHARES = np.array([0.5, 0.5])
R0 = 0.2
Q0 = 0.5
END = 30.0
E0 = (1 - 2 * R0 + Q0) / 2  # e_g of the linear start, whatever the spectrum
LINE = tu.Start([[R0]], [[Q0]])
KNOTS = END * (1 - np.cos(np.pi * np.arange(13) / 12)) / 2  # dense at both ends
SMOOTH = {"segments": KNOTS, "shape": "smooth"}


def line(levels=LEVELS, noise=0.5, batch=1, lr=0.5):
    """One linear unit on two levels (equal ones are isotropic inputs in the same program)."""
    return pair(
        1,
        1,
        "linear",
        inputs=tu.Spectrum(levels, SHARES),
        noise=noise,
        batch=batch,
        lr=lr,
    )


ORDER_ONE = tu.Start([[0.4, 0.05], [0.05, 0.41]], 0.5 * np.eye(2))
UNIT = tu.Network(1, "erf")
TWO = tu.Problem(
    tu.Network(2, "erf", train_readout=True),
    tu.Tasks([UNIT, UNIT], similarity=0.5),
    optimizer=tu.SGD(lr=1.0),
)
TWO_START = tu.Start(
    [[0.05, 0.02], [-0.01, 0.03]],
    [[0.3, 0.02], [0.02, 0.2]],
    readout=[[0.3, 0.1], [0.2, -0.1]],
)  # case 7 of the notes
SIGNS = tu.Problem(
    tu.Network(1, "linear"),
    tu.Network(1, "linear"),
    optimizer=tu.SGD(1.0),
    loss="logistic",
    labels="sign",
)
EVERYTHING = {
    "tasks, dropout": (
        TWO.replace(rule=tu.rules.Dropout(0.8), noise=0.1),
        TWO_START,
        {
            "lr": (0, 2),
            "readout_lr": (0, 2),
            "tasks": (0, 1),
            "noise": (0, 1),
            "weight_decay": (0, 0.1),
            "keep": (0.5, 1),
        },
    ),
    "flips": (SIGNS, tu.Start([[0.1]], [[0.5]]), {"flip": (0, 0.4)}),
    "feedback": (
        pair(2, 2).replace(rule=tu.rules.FeedbackAlignment([1.0, 0.5])),
        ORDER_ONE,
        {"feedback": (0, 2), "lr": (0, 1)},
    ),
    "replay": (
        TWO.replace(schedule=tu.Replay(0.2, after=5.0)),
        TWO_START,
        {"replay": (0, 1)},
    ),
}


def search_of(
    problem,
    start,
    controls,
    end=10.0,
    segments=2,
    objective="worst",
    shape="piecewise",
    level=1.0,
):
    """A search with fine steps:

    differences divide the error of a solve by their step.
    """
    edges = np.linspace(0.0, end, segments + 1)
    search = Search(
        problem,
        checked_controls(problem, controls),
        start=start,
        edges=edges,
        shape=shape,
        objective=objective,
        level=level,
        budgets={},
    )
    return eqx.tree_at(lambda s: s.steps, search, step_tolerances(1e-11, 1e-14))


SMALL = tu.Start([[0.004, -0.001], [-0.002, 0.003]], 0.01 * np.eye(2))
