"""How the loops of compiled.py become machine code, and when cached machine code is still right.

numba compiles again when the file of a function changes. It does not see changes of the layouts in another file, nor of the
options. Both go into a hash in the function's `__qualname__`, after which numba names its cached files.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from numba import njit

from tutelage.simulate.layout import LAYOUTS

# Division by zero gives infinity, not an exception. Sums may be reordered (fast dot products); NaN stays NaN.
MATH = ("reassoc", "contract", "arcp", "nsz")
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
DIGEST = sha256(repr([MATH, OPTIONS, *((kind.__name__, kind._fields) for kind in LAYOUTS)]).encode()).hexdigest()[:12]


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, cached for this layout and these options only."""
    function.__qualname__ = f"{function.__qualname__}-{DIGEST}"
    return njit(**OPTIONS, fastmath=set(MATH))(function)
