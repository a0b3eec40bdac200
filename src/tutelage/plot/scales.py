"""Which axis a set of numbers asks for."""

from typing import Any

import numpy as np

DECADES = 1.5  # an error that spans more than this is drawn on a logarithmic axis
LARGE = 30.0  # overlaps beyond this are drawn linearly up to one and logarithmically beyond


def is_log_spaced(times: np.ndarray) -> bool:
    """Are the positive times nearer to even steps in the logarithm than to even steps?"""
    positive = times[times > 0]
    if positive.size < 4 or positive[-1] / positive[0] < 10**DECADES:
        return False
    return _unevenness(np.diff(np.log(positive))) < _unevenness(np.diff(positive))


def _unevenness(steps: np.ndarray) -> float:
    return float(np.std(steps) / np.mean(steps))


def wants_log(values: np.ndarray) -> bool:
    """Positive, and over more than a decade and a half? Zeros and rounding below zero do not count."""
    positive = values[np.isfinite(values) & (values > 0)]
    if positive.size < 2 or positive.size < 0.5 * values.size:
        return False
    return bool(np.log10(positive.max() / positive.min()) > DECADES)


def scale_error(axes: Any, errors: np.ndarray) -> None:
    """A logarithmic axis for a learning curve that needs one; otherwise down to zero, so that heights compare."""
    if wants_log(errors):
        axes.set_yscale("log", nonpositive="mask")
    elif np.all(errors[np.isfinite(errors)] >= 0):
        axes.set_ylim(bottom=0.0)


def scale_overlaps(axes: Any, values: np.ndarray) -> None:
    """Linear, unless something grew out of all proportion."""
    finite = values[np.isfinite(values)]
    if finite.size and np.max(np.abs(finite)) > LARGE:
        from matplotlib.ticker import SymmetricalLogLocator

        axes.set_yscale("symlog", linthresh=1.0)
        locator = SymmetricalLogLocator(base=10.0, linthresh=1.0)
        locator.set_params(numticks=6)
        axes.yaxis.set_major_locator(locator)
