"""What is said on standard error while a command works: notes of the library, and a sign of life after two seconds."""

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SILENT_SECONDS = 2.0


@contextmanager
def notes(*silent: type[Warning]) -> Iterator[None]:
    """Inside, a warning of the library is one line, 'note: ...'; the `silent` kinds are said elsewhere."""
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

    It knows no percentage: that takes calls from the compiled program, which then could not be kept (compile_cache.py).
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)

    bar = Progress(TextColumn(what), BarColumn(), TimeElapsedColumn(), console=console, transient=True)
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
