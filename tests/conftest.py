"""Tests compile quickly, and those of pages share one browser.

Most of a test's time is XLA's, spent on speed that a short solve does not need (cli/process.py). The commands that
tests start inherit the flags. COMPILE=fully compiles as for users: `make test` does so for one file of each layer (OPTIMIZED
in the Makefile), `make test-full` for all. JAX's cache of programs is not used: in a first run hardly a program is met twice.
Programs do not note the lines of Python that they come from, which takes a tenth of the time of a trace.
Python looks for cycles less often than it would: traces make many objects and leave few cycles behind. It does not look at
the modules, for they stay.
"""

import gc
import os
import shutil
import signal
from pathlib import Path

import pytest

from tutelage.cli.process import compile_quickly

if os.environ.get("COMPILE") != "fully":
    compile_quickly()
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
gc.set_threshold(50_000, 20, 20)
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell's background job; tests of Ctrl-C would wait in vain
    signal.signal(signal.SIGINT, signal.default_int_handler)

# memory maps of a process; Linux allows 65,530, and XLA ends the process beyond them
MAPS = 45_000


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Every compiled program holds memory maps.

    Forget the programs of earlier files before there are too many.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_text().count("\n") > MAPS:
        import jax

        jax.clear_caches()
        gc.collect()


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their markers
def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()) or item.path.parent.name in (
            "explorer",
            "page",
        ):
            item.add_marker("pages")


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium (.ci/browser installs it); without one the tests are skipped, except in continuous integration."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing = f"no browser: none of {', '.join(BROWSERS)} is installed"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()
