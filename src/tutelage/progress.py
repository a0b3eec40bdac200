"""Progress bars: on stderr, silent for the first two seconds."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

SILENT_SECONDS = 2.0
TICK_SECONDS = 1.0


def progress_bar(total: int | None, what: str, shown: bool = True, **layout: Any) -> Any:
    """A bar of tqdm, as a context; it is gone when it is done."""
    from tqdm.auto import tqdm

    how = {"disable": not shown, "delay": SILENT_SECONDS, "leave": False, "file": sys.stderr} | layout
    return tqdm(total=total, desc=what, **how)


@contextmanager
def ticking_bar(total: int | None, what: str, shown: bool = True, **layout: Any) -> Iterator[Any]:
    """A bar whose clock goes on while nothing is finished, as during a compilation."""
    ended = threading.Event()
    with progress_bar(total, what, shown, **layout) as bar, ThreadPoolExecutor(1) as clock:

        def tick() -> None:
            silent = ended.wait(SILENT_SECONDS)
            while not silent and not ended.wait(TICK_SECONDS):
                bar.refresh()

        clock.submit(tick)
        try:
            yield bar
        finally:
            ended.set()
