"""Solutions that several tests read."""

import pytest

import tutelage as tu
from tests.analysis.continual.cases import SIMILARITIES, START, TIMES, two_tasks
from tutelage.analysis import best_replay, interference, transfer


@pytest.fixture(scope="package")
def theory():
    return tu.solve(two_tasks(tu.Switch(60.0)), START, TIMES)


@pytest.fixture(scope="package")
def returning():
    return tu.solve(two_tasks(tu.Switch([40.0, 80.0], order=[0, 1, 0])), START, TIMES)


@pytest.fixture(scope="package")
def transferred():
    return transfer(two_tasks(tu.Switch(60.0)), START, TIMES, target=0.01)


@pytest.fixture(scope="package")
def interfering():
    return interference(two_tasks(tu.Switch(60.0)), START, TIMES, SIMILARITIES)


@pytest.fixture(scope="package")
def replayed():
    return best_replay(
        two_tasks(tu.Replay(0.0, after=60.0)), START, tu.linear_times(120, 13)
    )
