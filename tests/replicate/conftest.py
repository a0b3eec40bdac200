from functools import cache

import pytest

from tests.replicate.toys import CALLS
from tutelage.replicate import find, run


@pytest.fixture(autouse=True)
def no_calls_yet():
    CALLS.clear()


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """The result of a figure's quick version, computed once."""
    folder = tmp_path_factory.mktemp("figures")
    return cache(lambda name: run(find([name])[0], folder, quick=True, formats=("png", "svg")))
