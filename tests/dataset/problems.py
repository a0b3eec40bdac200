"""Problems with a data set whose curves are known, by the names of their digits."""

import numpy as np

import tutelage as tu

ERF = tu.Network(1, "erf")
ERF_2 = tu.Network(2, "erf")
LINEAR = tu.Network(1, "linear")
LEVELS = tu.Spectrum([1.6, 0.4], [0.5, 0.5])
FLIPPED = tu.labels.Sign(flip=0.05)
Descent = tu.optimizers.GradientDescent


def by_level(*values: float) -> np.ndarray:
    """Return overlaps of single units on two levels."""
    return np.array(values).reshape(-1, 1, 1)


COMMITTEE = tu.Problem(
    ERF_2,
    ERF_2,
    noise=0.3,
    optimizer=tu.SGD(1.0, weight_decay=0.02),
    data=tu.DataSet(4.0),
)
COMMITTEE_START = tu.Start(R=[[0.3, 0.05], [0.02, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])
TWO_LEVELS = tu.Problem(
    ERF,
    ERF,
    inputs=LEVELS,
    noise=0.2,
    optimizer=tu.SGD(0.5, weight_decay=0.01),
    data=tu.DataSet(3.0),
)
TWO_LEVELS_START = tu.Start(
    R=by_level(0.2, 0.1), Q=by_level(0.6, 0.4), T=by_level(1.0, 1.0)
)
LOGISTIC = tu.Problem(
    LINEAR,
    LINEAR,
    labels=FLIPPED,
    loss="logistic",
    optimizer=tu.SGD(1.5, weight_decay=0.05),
    data=tu.DataSet(3.0),
)
REGRESSION = tu.Problem(
    LINEAR, LINEAR, noise=0.3, optimizer=tu.SGD(0.5), data=tu.DataSet(1.5)
)
REGRESSION_START = tu.Start(R=[[0.1]], Q=[[0.5]])
