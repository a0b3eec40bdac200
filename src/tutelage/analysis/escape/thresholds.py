"""When a curve has escaped from a plateau: below which error, and since when for good.

One definition for solved curves, runs, and predictions, so that their times can be compared.
"""

import numpy as np


def escape_threshold(plateau: float, end: float) -> float:
    """Half of the plateau's error, or its geometric mean with the error at the end where that is higher."""
    return max(plateau / 2, float(np.sqrt(plateau * max(end, 0.0))))


def last_fall(times: np.ndarray, error: np.ndarray, threshold: float) -> float:
    """When a curve falls below the threshold for good, between recorded times by interpolation; inf: not yet."""
    above = np.flatnonzero(error >= threshold)
    if above.size == 0:
        return float(times[0])
    i = int(above[-1])
    if i == times.size - 1:
        return np.inf
    high, low, wanted = np.log(np.maximum([error[i], error[i + 1], threshold], 1e-300))
    return float(times[i] + (times[i + 1] - times[i]) * (high - wanted) / (high - low))
