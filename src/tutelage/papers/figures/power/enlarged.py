"""Insets that enlarge a plateau inside the panel of a whole curve."""

from typing import Any

import numpy as np


def inset_axes(axes: Any, place: list[float]) -> Any:
    """Axes inside a panel, (left, bottom, width, height) in its units, with small numbers."""
    inset = axes.inset_axes(place)
    inset.tick_params(labelsize=6)
    return inset


def around(values: np.ndarray, room: float) -> tuple[float, float]:
    """Limits that hold the values, with room above and below."""
    low, high = float(np.min(values)), float(np.max(values))
    return low - room * (high - low), high + room * (high - low)
