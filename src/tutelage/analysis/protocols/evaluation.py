"""Value and slopes of a point, as descents need them."""

from operator import attrgetter
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, softmax

from tutelage._types import Array
from tutelage.analysis.protocols.search import FAILED, Search

# Descents
SHARPNESS = 20.0  # of the smooth maximum over tasks, which a descent follows first


@eqx.filter_jit
def value_and_slope(search: Search, point: Array) -> tuple[Array, Array]:
    """Return ln(objective), (parts,), and its derivative, (parts, size).

    A custom objective is returned itself. Only "worst" has several parts, one for each
    task.
    """

    def value(point: Array) -> tuple[Array, Array]:
        measured = search.measure(point)
        if callable(search.objective):
            return measured, measured
        logarithm = jnp.log(jnp.maximum(measured, jnp.finfo(float).tiny))
        return logarithm, logarithm

    slope, parts = jax.jacfwd(value, has_aux=True)(point)
    return parts, slope


class Evaluation(NamedTuple):
    """A point, the parts of its value, and their slopes (parts, size).

    Of "worst" there is one part for each task.
    """

    point: np.ndarray
    parts: np.ndarray
    slopes: np.ndarray

    @property
    def value(self) -> float:
        """The value that is minimized: FAILED where the protocol diverges."""
        return float(np.max(self.parts))

    @property
    def smooth(self) -> tuple[float, np.ndarray]:
        """A maximum of the parts that is smooth everywhere, and its derivative."""
        value = logsumexp(SHARPNESS * self.parts, b=1 / self.parts.size) / SHARPNESS
        return float(value), softmax(SHARPNESS * self.parts) @ self.slopes


by_value = attrgetter("value")  # the key by which points are compared


def evaluate(search: Search, point: np.ndarray) -> Evaluation:
    """Return value and slopes of a point.

    It may have fewer numbers than there are segments.
    """
    whole = search.whole(point)
    if search.objective == "time":
        search = search.at_its_time(whole)
    values, derivatives = value_and_slope(search, jnp.asarray(whole))
    parts = np.asarray(values)
    slopes = np.asarray(derivatives)
    if not (np.all(np.isfinite(parts)) and np.all(np.isfinite(slopes))):
        return Evaluation(
            point=point.copy(),
            parts=np.full(parts.shape, FAILED),
            slopes=np.zeros((parts.size, point.size)),
        )
    # the segments that each number of the point stands for
    members = np.stack([search.whole(row) for row in np.eye(point.size)])
    return Evaluation(point.copy(), parts, slopes @ members.T)
