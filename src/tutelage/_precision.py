"""Float64 for every JAX array of the process: overlaps near perfect learning differ in the tenth digit.

Switched on when the package is imported, and without importing JAX (which takes a second) where nobody has yet: JAX reads
the environment when it is. TUTELAGE_X64=0 keeps JAX's own setting.
"""

import os
import sys


def enable_float64() -> None:
    """Now if JAX is there, else from the moment it is imported, by whomever."""
    if os.environ.get("TUTELAGE_X64", "1") == "0":
        return
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        os.environ["JAX_ENABLE_X64"] = "1"
