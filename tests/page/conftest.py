"""One curve for all tests of the page."""

import pytest

import tutelage as tu
from tests.problems import pair


@pytest.fixture(scope="session")
def theory():
    """Through the specialization transition; student 1 ends with teacher 2."""
    start = tu.Start(R=[[0.0, 1e-2], [1e-2, 0.0]], Q=[[0.05, 0.0], [0.0, 0.05]])
    return tu.solve(pair(2, 2), start, tu.linear_times(300.0, 151))
