"""A real server in a process of its own, and pages of a real browser."""

import os
import re
import signal
import subprocess
import sys

import pytest

BASE = {
    "students": 2,
    "teachers": 2,
    "start": "asymmetric",
    "end": 20.0,
    "runs": 0,
    "band": False,
}


class Server:
    """`tutelage explore` on a free port."""

    def __init__(self, cache):
        environment = os.environ | {
            "XDG_CACHE_HOME": str(cache),
            "PYTHONWARNINGS": "error",
        }
        command = [sys.executable, "-m", "tutelage.cli", "explore", "--no-browser"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.address = re.search(r"http://\S+", self.process.stdout.readline())[0]
        self.port = int(self.address.rstrip("/").rsplit(":", 1)[1])

    def stop(self):
        """As Ctrl-C does; returns what it said."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.communicate(timeout=20)
        finally:
            self.process.kill()


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def server(cache):
    started = Server(cache)
    yield started
    ended = started.process.poll()
    _, error = started.stop()
    assert ended is None, error
    # when all processes are interrupted at once, Python's own tracker may find a
    # semaphore that is already gone
    assert "Traceback" not in error or "resource_tracker.py" in error, error


def address_of(server, **settings):
    """The address of a page with these settings beside the small ones."""
    from urllib.parse import urlencode

    values = {
        k: str(v).lower() if isinstance(v, bool) else v
        for k, v in (BASE | settings).items()
    }
    return f"{server.address}?{urlencode(values)}"


class LivePage:
    """One page of the explorer, with what it complained about."""

    def __init__(self, chromium, **options):
        self.page = chromium.new_page(**{"reduced_motion": "reduce"} | options)
        self.complaints = []
        self.page.on(
            "console",
            lambda m: (
                self.complaints.append(m.text)
                if m.type in ("error", "warning")
                else None
            ),
        )
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))

    def open(self, address):
        self.page.goto(address)
        return self.wait()

    def wait(self):
        """Until the curve of the newest settings is drawn."""
        self.page.wait_for_function("() => tutelageExplorer.settled()", timeout=90_000)
        return self

    def wait_for_all(self):
        """Until runs, band and marks are there, too."""
        self.page.wait_for_function(
            "() => document.body.dataset.state === 'done'", timeout=90_000
        )
        return self

    def wait_stopped(self):
        self.page.wait_for_function(
            "() => document.body.dataset.state === 'stopped'", timeout=20_000
        )

    def drawn(self):
        """x and y of the learning curve, as Plotly has them."""
        return self.page.evaluate(
            "() => { const t = document.getElementById('curve').data[0]; return [t.x, t.y]; }"
        )

    def change(self, **settings):
        self.page.evaluate("more => tutelageExplorer.change(more)", settings)
        return self.wait()


@pytest.fixture
def live(browser):
    made = LivePage(browser)
    yield made
    assert made.complaints == []
    made.page.close()
