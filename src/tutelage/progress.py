"""Progress bars: on stderr, silent for the first two seconds."""

import sys
from typing import Any

SILENT_SECONDS = 2.0


def progress_bar(
    total: int | None, what: str, shown: bool = True, **layout: Any
) -> Any:
    """Return a bar of tqdm, as a context; it is gone when it is done.

    layout: other options of tqdm.
    """
    from tqdm.auto import tqdm

    options = {
        "disable": not shown,
        "delay": SILENT_SECONDS,
        "leave": False,
        "file": sys.stderr,
    }
    return tqdm(total=total, desc=what, **(options | layout))
