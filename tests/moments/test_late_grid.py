"""Late in learning the student's field is nearly the teacher's: the grid must find the few samples near a break."""

import numpy as np
import pytest
from scipy.stats import norm

import tutelage as tu
from tutelage.dynamics import OrderParameters, initial_overlaps

ALONG, FLIP = 2.0, 0.1


@pytest.mark.parametrize("across", [1e-2, 1e-5, 1e-8, 1e-11])
def test_hinge_near_the_end(across):
    """A = -(density of label lambda at 1), and for a narrow field (1 - p) 2 phi(1/R)/R; corrections: of order `across`."""
    unit = tu.Network(1, "linear")
    problem = tu.Problem(unit, unit, loss="hinge", labels=tu.labels.Sign(flip=FLIP), sgd=tu.SGD(1.0))
    state, t = initial_overlaps(problem, tu.Start([[ALONG]], [[ALONG**2 + across]]))
    pull, G = OrderParameters(problem, t).matrices(state)
    curvature = (1 - FLIP) * 2 * norm.pdf(1 / ALONG) / ALONG
    share = (1 - FLIP) * (2 * norm.cdf(1 / ALONG) - 1) + FLIP
    np.testing.assert_allclose(-float(pull.A[0, 0]), curvature, rtol=5e-6 + across)
    np.testing.assert_allclose(float(G[0, 0]), share, rtol=5e-6 + across)
