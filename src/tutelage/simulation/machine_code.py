"""How loops become machine code, and when cached machine code is still right.

numba compiles again when the file of a function changes. It does not see changes of the functions and layouts in other
files, which the machine code contains. The text of all these files goes into a hash in the function's `__qualname__`, after
which numba names its cached files.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit

# Division by zero gives infinity, not an exception. Sums may be reordered (fast dot products); NaN stays NaN.
MATH = ("reassoc", "contract", "arcp", "nsz")
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
FILES = ("machine_code", "layout", "response", "compiled")
DIGEST = sha256(b"".join(Path(__file__).with_name(f"{name}.py").read_bytes() for name in FILES)).hexdigest()[:12]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function as machine code, cached for this text of all files only."""
    function.__qualname__ = f"{function.__qualname__}-{DIGEST}"
    return njit(**OPTIONS, **options, fastmath=set(MATH))(function)


def inlined(function: Callable[..., Any]) -> Any:
    """The same, always a part of its caller: a call would copy all fields of its layouts, a fifth of the time of a step."""
    return compiled(function, forceinline=True)
