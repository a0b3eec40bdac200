"""All tests of papers, doctests too, carry the marker `papers`.

They share compiler settings and browser with the tests of the library.
"""

from pathlib import Path

import pytest
from tests.conftest import browser, few_programs

__all__ = ["browser", "few_programs"]
HOME = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their markers
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HOME):
            item.add_marker("papers")
