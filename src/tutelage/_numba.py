"""Machine code by numba, cached on disk for one text of one file.

numba looks at the date and size of a function's file only. A hash of the file's text is
therefore part of the name of every cached function: machine code runs only with the
text that it was compiled from. All that becomes machine code together must be in one
file, or in files that the name counts too; the order of the fields of its tuples
included.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit

# Sums may be reordered (fast dot products); NaN stays NaN.
MATH = ("reassoc", "contract", "arcp", "nsz")
OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",  # division by zero gives infinity, not an exception
}
HASH_DIGITS = 12


def compiler(*files: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that compiles the functions of a file.

    files: its `__file__`, then those of the modules whose functions or numbers it
    compiles in. forceinline=True: as parts of their callers.
    """
    text = b"".join(Path(file).read_bytes() for file in files)
    digest = sha256(text).hexdigest()[:HASH_DIGITS]

    def compiled(function: Callable[..., Any]) -> Any:
        function.__qualname__ = f"{function.__qualname__}-{digest}"
        return njit(**OPTIONS, **options, fastmath=set(MATH))(function)

    return compiled
