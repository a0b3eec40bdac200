"""Times and steps of a finite network: the state at time alpha is the one after ceil(alpha N) steps."""

import numpy as np

EXACT = 1e-9  # alpha N this close (relatively) to a whole number is that number


def steps_at(times: np.ndarray, dim: int) -> np.ndarray:
    """ceil(alpha N), the first step count that reaches each time; 0.07 * 100 = 7.000000000000001 means 7."""
    exact = np.asarray(times, dtype=float) * dim
    nearest = np.rint(exact)
    whole = np.abs(exact - nearest) <= EXACT * np.maximum(1.0, exact)
    return np.where(whole, nearest, np.ceil(exact)).astype(np.int64)
