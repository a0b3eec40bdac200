"""The theory against digits of a slow prototype, which SGD on weights has confirmed.

A digit is (value, its standard error). Names: training loss, training error, R and Q; of
two levels r and q.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.dataset import problems

START = tu.Start(R=[[0.2]], Q=[[0.5]])
ONE_UNIT = tu.Problem(
    problems.ERF,
    problems.ERF,
    noise=0.5,
    optimizer=tu.SGD(1.0),
    data=tu.DataSet(2.0),
)
CASES = {
    "one erf unit": (
        ONE_UNIT,
        START,
        {
            2.0: {
                "train_loss": [(0.15100, 0.00016)],
                "R": [(0.54507, 0.00014)],
                "Q": [(0.69971, 0.00039)],
            },
            6.0: {
                "train_loss": [(0.09726, 0.00012)],
                "R": [(0.76352, 0.00047)],
                "Q": [(1.01365, 0.00136)],
            },
        },
    ),
    "committee": (
        problems.COMMITTEE,
        problems.COMMITTEE_START,
        {
            2.4: {
                "train_loss": [(0.11224, 0.00010)],
                "R": [
                    (0.53343, 0.00007),
                    (0.28686, 0.00006),
                    (0.24257, 0.00005),
                    (0.46888, 0.00008),
                ],
                "Q": [
                    (0.64283, 0.00016),
                    (0.20049, 0.00009),
                    (0.20049, 0.00009),
                    (0.54235, 0.00013),
                ],
            },
        },
    ),
    "two levels": (
        problems.TWO_LEVELS,
        problems.TWO_LEVELS_START,
        {
            5.4: {
                "train_loss": [(0.04372, 0.00005)],
                "r": [(2 * 0.36177, 0.00008), (2 * 0.17606, 0.00004)],
                "q": [(2 * 0.31630, 0.00012), (2 * 0.17839, 0.00006)],
            },
        },
    ),
    "logistic": (
        problems.LOGISTIC,
        tu.Start(R=[[0.2]], Q=[[0.4]]),
        {
            5.4: {
                "train_loss": [(0.35235, 0.00074)],
                "train_error": [(0.12128, 0.00099)],
                "R": [(1.22680, 0.00028)],
                "Q": [(2.46234, 0.00160)],
            },
        },
    ),
    "descent on two levels": (
        problems.TWO_LEVELS.replace(
            optimizer=problems.Descent(0.8, weight_decay=0.01), ratio=2.0
        ),
        problems.TWO_LEVELS_START,
        {
            1.0: {
                "train_loss": [(0.07984, 0.00004)],
                "r": [(2 * 0.28988, 0.00012), (2 * 0.10242, 0.00002)],
                "q": [(2 * 0.31064, 0.00016), (2 * 0.18719, 0.00002)],
            },
            15.0: {
                "train_loss": [(0.01430, 0.00001)],
                "r": [(2 * 0.43568, 0.00004), (2 * 0.31424, 0.00008)],
                "q": [(2 * 0.41155, 0.00006), (2 * 0.28023, 0.00016)],
            },
        },
    ),
    "descent of logistic regression": (
        problems.LOGISTIC.replace(
            optimizer=problems.Descent(1.0, weight_decay=0.02), ratio=2.0
        ),
        tu.Start(R=[[0.1]], Q=[[0.5]]),
        {
            5.0: {
                "train_loss": [(0.30835, 0.00012)],
                "train_error": [(0.06950, 0.00025)],
                "R": [(1.04934, 0.00021)],
                "Q": [(1.92262, 0.00028)],
            },
        },
    ),
}
LATE = {
    "one erf unit": {
        20.0: {
            "train_loss": [(0.07459, 0.00036)],
            "R": [(0.99848, 0.00156)],
            "Q": [(1.69050, 0.00515)],
        }
    },
    "committee": {
        14.4: {
            "train_loss": [(0.06238, 0.00016)],
            "R": [
                (0.61331, 0.00039),
                (0.31228, 0.00056),
                (0.27976, 0.00047),
                (0.57475, 0.00048),
            ],
            "Q": [
                (0.69127, 0.00043),
                (0.24127, 0.00046),
                (0.24127, 0.00046),
                (0.62412, 0.00070),
            ],
        }
    },
    "logistic": {
        18.0: {
            "train_loss": [(0.29712, 0.00186)],
            "R": [(1.58168, 0.00058)],
            "Q": [(3.78434, 0.00832)],
        }
    },
}


def require_digits(theory: tu.Trajectory, digits: dict) -> None:
    """Compare with all digits: four standard errors of both, and 1e-3 of the value."""
    for time, by_name in digits.items():
        place = int(np.searchsorted(theory.times, time))
        for name, pairs in by_name.items():
            value, error = np.array(pairs).T
            bound = np.ravel(theory.sampling_errors[name][place])
            gap = np.abs(np.ravel(theory[name][place]) - value)
            allowed = np.hypot(4 * error, 2 * bound) + 1e-3 * np.abs(value)
            assert np.all(gap < allowed), (time, name, gap, allowed)


@pytest.mark.parametrize("name", CASES)
def test_the_digits(name):
    problem, start, digits = CASES[name]
    moments = tu.Sampled(2**14)
    theory = tu.solve(problem, start, np.array(sorted(digits)), moments=moments)
    require_digits(theory, digits)


@pytest.mark.full
@pytest.mark.parametrize("name", LATE)
def test_the_digits_after_many_epochs(name):
    problem, start, _ = CASES[name]
    digits = LATE[name]
    theory = tu.solve(problem, start, np.array(sorted(digits)))
    require_digits(theory, digits)


@pytest.mark.full
def test_descent_of_rectified_units_as_published():
    """ReLU, three samples per dimension; simulations with N = 5000 and 32 runs.

    Automatic differentiation loses the delta function of a jumping slope: it gives
    Q = .770 after one step.
    """
    import jax.numpy as jnp

    def label(rho, xi):
        return jnp.tanh(rho[0] + rho[1] ** 3 - 3 * rho[1])

    readout = np.array([1.0, -1.0]) / np.sqrt(2)
    problem = tu.Problem(
        tu.Network(2, "relu", readout=readout),
        tu.Network(2, "linear"),
        labels=tu.labels.Function(label),
        optimizer=problems.Descent(0.6),
        data=tu.DataSet(3.0),
    )
    start = tu.Start(R=np.zeros((2, 2)), Q=np.eye(2))
    theory = tu.solve(problem, start, np.arange(7.0), moments=tu.Sampled(2**17))
    published = [1.0, 0.85501, 0.80575, 0.79172, 0.79291, 0.80171, 0.81460]
    np.testing.assert_allclose(theory.Q[:, 0, 0], published, atol=4e-3)
    published = [0.0, 0.10994, 0.14912, 0.16025, 0.15910, 0.15215, 0.14266]
    np.testing.assert_allclose(theory.Q[:, 0, 1], published, atol=4e-3)
    np.testing.assert_allclose(theory.R[6, 0], [0.2147, -0.1722], atol=6e-3)
