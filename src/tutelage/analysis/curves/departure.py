"""How fast a plateau is left: the exponential growth of what tells units apart.

Near a saddle the units that are alike separate as u = a e^(rate alpha), while the error, which is even in u, departs at
twice that rate. So the fit uses the overlaps: rows R_k that are (nearly) equal on the plateau, or (nearly) zero, and grow
while it is left. Growth ends in saturation, du = rate u - b u^3 for a departure whose sign means nothing, so
    ln u(alpha) = ln a + rate alpha - b int u^2 dalpha,
which is linear in the three unknowns.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.analysis.curves.curve import Curve, first_index, roughness
from tutelage.analysis.curves.lines import LEAST, fit_line

GROWN = 5.0  # a difference that grows by less than this factor is not a departure
TOP, RANGE = 0.25, 100.0  # fitted: from a quarter of the final departure down by two decades
CLEAR = 4.0  # a departure this many times the noise is clear of it


@dataclass(frozen=True)
class Growth:
    """rate of the exponential growth, its error (drift of the rate included), and the times between which it was fitted.

    departure: (time,), what grows.
    """

    rate: float
    error: float
    window: tuple[float, float]
    departure: np.ndarray


def growth(curve: Curve, start: float, end: float, until: float) -> Growth | str:
    """The growth of the departure from a plateau between `start` and `end`, which may go on `until` the next one.

    A sentence instead where nothing grows out of a symmetry (say, a schedule ended the plateau), or it cannot be resolved.
    """
    u = departure(curve, start, end, until)
    if u is None:
        return f"no overlap, or difference of overlaps, grows at least {GROWN:g}-fold while it is left"
    times = curve.times
    final = float(np.max(u[times <= until]))
    middle = int(np.searchsorted(times, (start + end) / 2))
    last = middle + first_index(u[middle:] >= TOP * final, times.size - middle)
    noise = roughness(times, u) if curve.noisy else 0.0
    floor = max(final * TOP / RANGE, CLEAR * noise)
    low = (u[:last] <= floor) | (times[:last] < start)
    first = last - first_index(low[::-1], last)
    if last - first < LEAST:
        why = "the departure stands out of the noise" if curve.noisy else "the overlaps depart"
        return f"no growth rate: only {last - first} recorded times while {why}, {LEAST} are needed"
    t, inside = times[first:last], u[first:last]
    saturation = _integral_of_square(t, inside)
    terms = np.stack([np.ones_like(t), t - t[0], -saturation], axis=1)
    b = np.linalg.lstsq(terms, np.log(inside), rcond=None)[0][2]
    line = fit_line(t, np.log(inside) + b * saturation, smooth=True)
    by_noise = noise / inside[0] / (t[-1] - t[0])  # what the noise in u at the beginning does to the rate
    return Growth(line.slope, float(np.hypot(line.error, by_noise)), (float(t[0]), float(t[-1])), u)


def departure(curve: Curve, start: float, end: float, until: float) -> np.ndarray | None:
    """u(alpha), (time,): the rows, and differences of rows, that grow from the plateau on, along the direction they take."""
    rows, times = curve.rows, curve.times
    if rows is None:
        return None
    first, second = np.triu_indices(rows.shape[1], 1)
    vectors = np.concatenate([rows, rows[:, first] - rows[:, second]], axis=1)
    middle = int(np.clip(np.searchsorted(times, (start + end) / 2), 1, times.size - 2))
    after = (times > end) & (times <= until)
    if not after.any():
        return None
    sizes = np.linalg.norm(vectors, axis=2)
    least = np.min(sizes[(times >= start) & (np.arange(times.size) <= middle)], axis=0, initial=np.inf)
    grown = np.max(sizes[after], axis=0) > GROWN * np.minimum(least, sizes[middle])
    if not grown.any():
        return None
    vectors = vectors[:, grown].reshape(times.size, -1)
    size = np.linalg.norm(vectors, axis=1)
    leaving = middle + first_index(size[middle:] >= TOP * np.max(size[after]), 1)
    return vectors @ vectors[leaving] / size[leaving]


def _integral_of_square(times: np.ndarray, u: np.ndarray) -> np.ndarray:
    """int u^2 dalpha from the first time, u exponential between recorded times."""
    square = u**2
    change, ratio = np.diff(square), np.diff(np.log(square))
    mean = np.where(np.abs(ratio) > 1e-6, change / np.where(ratio == 0, 1.0, ratio), square[:-1])
    return np.concatenate([[0.0], np.cumsum(mean * np.diff(times))])
