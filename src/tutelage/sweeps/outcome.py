"""What goes to a worker and what comes back: a task, its outcome, and the points that failed.

These are the words shared by whoever computes (compute.py), whoever carries (executors/) and whoever keeps (store.py). They
hold NumPy arrays and text only, so that a worker needs JAX for its numbers and for nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage._errors import InputError


@dataclass(frozen=True)
class Task:
    """One chunk to compute.

    index: its number, 0 .. tasks - 1, which names its file.
    payload: all that `compute` needs, as plain JSON-able data: the same on every executor.
    points: the numbers, in the sweep, of the points of this chunk; each point of a sweep is in exactly one chunk.
    """

    index: int
    payload: dict[str, Any]
    points: tuple[int, ...]


@dataclass(frozen=True)
class Failure:
    """A point without numbers. point: its place in the chunk, from 0; error: one sentence."""

    point: int
    error: str


@dataclass(frozen=True)
class Outcome:
    """What `compute(payload)` returns: arrays with the chunk's points as leading axis, and the points that failed.

    Every point is there, also a failed one (NaN where numbers would be). dims: names of the axes after the first, for those
    arrays whose axes have a meaning; others are called after the array, name_1, name_2, ...
    """

    arrays: Mapping[str, np.ndarray]
    failures: tuple[Failure, ...] = ()
    dims: Mapping[str, tuple[str, ...]] | None = None

    def require_points(self, points: int) -> None:
        """Refuse an outcome that does not fit its chunk."""
        for name, values in self.arrays.items():
            if np.shape(values)[:1] != (points,):
                shape = f"the array {name!r} has the shape {np.shape(values)}"
                raise InputError(f"{shape}; its first axis must be the chunk's {points} points.")
        for failure in self.failures:
            if not 0 <= failure.point < points:
                raise InputError(f"a failure names point {failure.point} of the chunk; it has points 0 to {points - 1}.")


@dataclass(frozen=True)
class WorkerError:
    """Instead of an outcome: the whole chunk was lost, with the workers that tried it or by an error of its own."""

    error: str

    def outcome(self, points: int) -> Outcome:
        """As kept in the store: no numbers, every point failed for this reason."""
        return Outcome({}, tuple(Failure(point, self.error) for point in range(points)))
