"""Methods that other layers attach to a trajectory: figure, page and reports.

These are computed in layers that import `Trajectory`. The root of the package fills
this table (`tutelage/_attached.py`), so that no layer imports one to its right.
"""

from collections.abc import Callable
from typing import Any

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def attach(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a function of a trajectory to the table, under its own name."""
    FUNCTIONS[function.__name__] = function
    return function


def attached(name: str) -> Callable[..., Any]:
    """Return the function of this name."""
    return FUNCTIONS[name]
