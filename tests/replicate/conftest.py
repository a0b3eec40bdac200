import pytest

from tests.replicate.toys import CALLS


@pytest.fixture(autouse=True)
def no_calls_yet():
    CALLS.clear()
