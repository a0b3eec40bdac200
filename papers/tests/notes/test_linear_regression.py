"""Linear regression of the notes."""

import numpy as np

import tutelage as tu
import tutelage_papers
from tests.problems import pair

TIMES = np.linspace(0, 10, 21)


def test_linear_regression_of_the_notes_equals_the_built_in():
    own = tu.solve(
        tutelage_papers.notes.linear_regression(
            rho=1.0, noise_variance=0.1, lr=0.5, ridge=0.01
        ),
        {"m": 0.0, "q": 0.1},
        TIMES,
    )
    problem = pair(1, 1, "linear", lr=0.5, noise=np.sqrt(0.1), weight_decay=0.01)
    built_in = tu.solve(problem, tu.Start([[0.0]], [[0.1]]), TIMES)
    np.testing.assert_allclose(own["m"], built_in.R[:, 0, 0], atol=1e-8)
    np.testing.assert_allclose(own["q"], built_in.Q[:, 0, 0], atol=1e-8)
    np.testing.assert_allclose(own.error, built_in.error, atol=1e-8)
