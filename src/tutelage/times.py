"""Times alpha to record: even, or even in the logarithm.

`checks.as_times` takes times that are given. Also the steps of a finite network: its
state at time alpha is the one after ceil(alpha N) steps.
"""

from typing import Any

import numpy as np

from tutelage import checks
from tutelage.errors import InputError

EXACT = 1e-9  # alpha N this close (relatively) to a whole number is that number
# Decades by which logarithmic times begin before their end, where only the end is
# given.
DECADES = 4
USUAL_END = 300.0  # of a problem file that names none
USUAL_COUNT = 201


def linear_times(end: float, count: int = 201) -> np.ndarray:
    """Return `count` times from 0 to `end`, evenly spaced.

    Parameters
    ----------
    end : float
        The last time.
    count : int
        The number of times.

    Returns
    -------
    array (count,)

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.linear_times(10.0, 5)
    array([ 0. ,  2.5,  5. ,  7.5, 10. ])
    """
    end = checks.as_positive("end", end)
    count = checks.as_count("count", count, least=2, most=checks.MOST_TIMES)
    return np.linspace(0.0, end, count)


def log_times(first: float, end: float, count: int = 201) -> np.ndarray:
    """Return 0, and then times from `first` to `end`, even in the logarithm.

    Parameters
    ----------
    first, end : float
        The first positive time and the last time.
    count : int
        The number of times, with 0.

    Returns
    -------
    array (count,)

    Examples
    --------
    >>> import tutelage as tu
    >>> tu.log_times(0.1, 10.0, 3).round(6)
    array([ 0. ,  0.1, 10. ])
    """
    first = checks.as_positive("first", first)
    end = checks.as_positive("end", end)
    if first >= end:
        raise InputError(
            f"first is {first:g} and end is {end:g}; first must be below end."
        )
    count = checks.as_count("count", count, least=3, most=checks.MOST_TIMES)
    return np.concatenate([[0.0], np.geomspace(first, end, count - 1)])


def times_from_table(table: dict[str, Any]) -> np.ndarray:
    """Return the times of the table [times] of a problem file.

    They go from 0 to `end`, evenly spaced, or evenly in the logarithm (`log`).
    """
    for name in table:
        checks.known("a name in [times]", name, ("end", "points", "log"))
    end = checks.as_positive("the last time", table.get("end", USUAL_END))
    log = checks.as_flag("log in [times]", table.get("log", False))
    count = checks.as_count(
        "points (the number of times)",
        table.get("points", USUAL_COUNT),
        least=3 if log else 2,
        most=checks.MOST_TIMES,
    )
    if log:
        return log_times(end / 10**DECADES, end, count)
    return linear_times(end, count)


def steps_at(times: np.ndarray, dim: int) -> np.ndarray:
    """Return ceil(alpha N), the first number of steps that reaches each time.

    0.07 * 100 = 7.000000000000001 means 7.
    """
    exact = np.asarray(times, dtype=float) * dim
    nearest = np.rint(exact)
    whole = np.abs(exact - nearest) <= EXACT * np.maximum(1.0, exact)
    return np.where(whole, nearest, np.ceil(exact)).astype(np.int64)
