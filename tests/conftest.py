"""Compile quickly: most of a test's time is XLA's, spent on speed that a short solve does not need.

Without LLVM's optimisations and the newer emitters of fused loops a solve compiles in less than half the time and gives the
same numbers to rounding. JAX reads the flags when it first compiles, and the commands that tests start inherit them. Flags
that are given already are left alone: `make test-full` gives none (XLA_FLAGS=), so that it runs what a user runs.
"""

import os
import shutil
from importlib.metadata import version

import pytest

KNOWN_TO = "0.10."  # XLA ends the process at a flag it does not know
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"

if version("jaxlib").startswith(KNOWN_TO):
    os.environ.setdefault("XLA_FLAGS", FLAGS)

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
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
