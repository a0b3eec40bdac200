"""The error of a mean over few runs."""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, stdtrit

TWO = 2.0  # errors that cover what 95% of all means stay within


def error_of_mean(values: Float[np.ndarray, "runs ..."]) -> Float[np.ndarray, "..."]:
    """Return the error of the mean over the first axis, two of which cover 95%.

    It is the standard error, widened for few runs by Student's factor, and for skewed
    runs by the shift of their interval. A mean of few skewed runs misses the rare large
    ones, and the standard error misses them with it.
    """
    count = len(values)
    deviations = values - values.mean(axis=0)
    standard_error = values.std(axis=0, ddof=1) / np.sqrt(count)
    variance = np.mean(deviations**2, axis=0)
    cubes = np.mean(deviations**3, axis=0)
    spread = np.where(variance > 0, variance, 1.0)
    skewness = np.abs(cubes) / spread**1.5
    t = float(stdtrit(count - 1, ndtr(TWO)))
    # Johnson, J. Am. Stat. Assoc. 73, 536 (1978): the interval of the mean of a skewed
    # law moves by skewness (1 + 2 t^2) / (6 sqrt(count)) standard errors. The side is
    # not used, as a plain error has none.
    shift = skewness * (1 + 2 * t**2) / (6 * np.sqrt(count))
    return standard_error * (t + shift) / TWO
