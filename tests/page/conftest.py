"""One curve for all tests of the page, and a real browser."""

import os
import shutil

import pytest

import tutelage as tu
from tests.problems import pair

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def theory():
    """Through the specialisation transition; student 1 ends with teacher 2."""
    start = tu.Start(R=[[0.0, 1e-2], [1e-2, 0.0]], Q=[[0.05, 0.0], [0.0, 0.05]])
    return tu.solve(pair(2, 2), start, tu.linear_times(300.0, 151))


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium (.ci/browser installs it); without one the tests are skipped, except in continuous integration."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing = f"no browser: none of {', '.join(BROWSERS)} is installed"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
