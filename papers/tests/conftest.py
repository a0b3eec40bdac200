"""Figures are computed once for all tests."""

import os
import shutil
from functools import cache
from pathlib import Path

import pytest
from papers.tests.toys import CALLS

from tutelage_papers import find, replicate

KEPT = Path(__file__).parents[2] / "output" / "quick"


@pytest.fixture(autouse=True)
def no_calls_yet():
    CALLS.clear()


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """The result of a figure's quick version, computed once.

    The gallery of `make docs` takes it from output/quick.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # all processes of a run share the folder
        base = base.parent
    folder = base / "figures"
    folder.mkdir(exist_ok=True)

    @cache
    def result(name):
        found = replicate(find([name])[0], folder, quick=True, formats=("png", "svg"))
        keep(found.files.values())
        return found

    return result


def keep(files):
    """Copy files to output/quick, each completely or not at all.

    Two processes may do so at once.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    for path in files:
        copy = KEPT / f"{path.name}.{os.getpid()}"
        shutil.copyfile(path, copy)
        copy.replace(KEPT / path.name)
