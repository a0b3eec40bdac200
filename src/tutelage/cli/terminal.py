"""The terminal while a command works: Ctrl-C, notes of the library, and a sign of life after two seconds.

Python turns Ctrl-C into an exception. It can arrive inside JAX's callbacks: some swallow it and compute on, others are left
in a state that crashes the process at its exit. While nothing is being written there is nothing to clean up, so we leave.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPT_CODE = 130
INTERRUPTED = "interrupted."
SILENT_SECONDS = 2.0


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
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(INTERRUPT_CODE)


@contextmanager
def notes(*silent: type[Warning]) -> Iterator[None]:
    """Inside, a warning of the library is one line, 'note: ...'; warnings of the `silent` kinds are not shown."""
    from tutelage import TutelageWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", TutelageWarning)
        for kind in silent:
            warnings.simplefilter("ignore", kind)
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, TutelageWarning):
                print(f"note: {' '.join(str(message).split())}", file=sys.stderr)
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


@contextmanager
def working(what: str) -> Iterator[None]:
    """On a terminal, a moving bar with the elapsed time once this has taken two seconds; gone when it is done.

    It shows no percentage: that takes calls from the compiled program, which then could not be cached (compile_cache.py).
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(what, total=None)
    timer = threading.Timer(SILENT_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
