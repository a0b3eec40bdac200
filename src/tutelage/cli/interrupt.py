"""Ctrl-C while JAX works.

Python's own way, an exception, can arrive inside JAX's callbacks: some swallow it and compute on, others are left in a state
that crashes the process at its exit. While nothing is being written there is nothing to clean up, so we just leave.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EXIT_CODE = 130
SENTENCE = "interrupted."


@contextmanager
def leave_on_interrupt() -> Iterator[None]:
    """Inside, Ctrl-C ends the process at once, with one line and exit code 130. Use it where no file is open."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _leave(*_: Any) -> None:
    if sys.stderr.isatty():
        os.write(2, b"\r\x1b[2K\x1b[?25h")  # clear the line of the progress bar, show the cursor again
    os.write(2, f"{SENTENCE}\n".encode())
    os._exit(EXIT_CODE)
