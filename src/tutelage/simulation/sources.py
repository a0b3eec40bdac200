"""Where the samples of the weights method come from, in eigencoordinates: x_i = sqrt(lam_i) z_i, level by level.

Laws of z (unit variance, independent): gaussian, rademacher (signs), uniform, student_t (five degrees of freedom) and
student_t3 (three: an infinite fourth moment, and with it an infinite variance of one step). Or rows of an array, which is
then the user's x itself; with a spectrum measured on data, rows are centered, scaled and rotated as recorded there. Blocks of
rows have a fixed size, so that the samples of a run depend on its seed alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage.problem import Problem, Spectrum

BLOCK = 2**16  # numbers drawn at a time: small enough for a cache, large enough to hide a function call
LAWS = ("gaussian", "rademacher", "uniform", "student_t", "student_t3")
ORDERS = ("given", "shuffled", "sampled")

Fill = Callable[[np.random.Generator, np.ndarray], None]


def rows_per_block(dim: int) -> int:
    return max(1, BLOCK // dim)


def _gaussian(rng: np.random.Generator, rows: np.ndarray) -> None:
    from tutelage.simulation.compiled import fill_normal

    fill_normal(rng, rows)


def _rademacher(rng: np.random.Generator, rows: np.ndarray) -> None:
    bits = np.unpackbits(np.frombuffer(rng.bytes((rows.size + 7) // 8), dtype=np.uint8), count=rows.size)
    np.multiply(bits.reshape(rows.shape), 2.0, out=rows)
    rows -= 1.0


def _uniform(rng: np.random.Generator, rows: np.ndarray) -> None:
    rng.random(out=rows)
    rows -= 0.5
    rows *= np.sqrt(12.0)


def _student_t(degrees: float) -> Fill:
    def fill(rng: np.random.Generator, rows: np.ndarray) -> None:
        rows[:] = rng.standard_t(degrees, size=rows.shape)
        rows *= np.sqrt((degrees - 2) / degrees)

    return fill


FILL: dict[str, Fill] = {
    "gaussian": _gaussian,
    "rademacher": _rademacher,
    "uniform": _uniform,
    "student_t": _student_t(5.0),
    "student_t3": _student_t(3.0),
}


class DrawnInputs:
    """Independent coordinates of a law, scaled to the spectrum."""

    def __init__(self, problem: Problem, dims: np.ndarray, law: str, rng: np.random.Generator):
        lam = np.repeat(np.asarray(problem.inputs.eigenvalues, dtype=float), dims)
        self.root = None if np.all(lam == 1.0) else np.sqrt(lam)
        self.fill, self.rng = FILL[law], rng
        self.buffer = np.empty((rows_per_block(lam.size), lam.size))

    def rows(self, first: int, count: int) -> np.ndarray:
        """The next `count` samples; the array is reused at the next call."""
        block = self.buffer[:count]
        self.fill(self.rng, block)
        if self.root is not None:
            block *= self.root
        return block


class RowInputs:
    """Rows of a user's array: as given, each once in random order, or sampled with replacement."""

    def __init__(self, problem: Problem, data: np.ndarray, order: str, rng: np.random.Generator):
        self.data, self.order, self.rng = data, order, rng
        self.shuffled = rng.permutation(data.shape[0]) if order == "shuffled" else None
        inputs = problem.inputs
        self.basis: Any = inputs.basis
        self.center, self.scale = None, 1.0
        if isinstance(inputs, Spectrum) and self.basis is not None:
            self.center, self.scale = inputs.center, 1.0 / np.sqrt(float(np.asarray(inputs.scale)))

    def rows(self, first: int, count: int) -> np.ndarray:
        if self.order == "sampled":
            which: Any = self.rng.integers(self.data.shape[0], size=count)
        else:
            which = slice(first, first + count) if self.shuffled is None else self.shuffled[first : first + count]
        block = np.array(self.data[which], dtype=float, order="C")
        if not np.isfinite(block).all():
            raise InputError(f"inputs contain {block[~np.isfinite(block)][0]}; every entry must be a finite number.")
        if self.basis is None:
            return block
        if self.center is not None:
            block -= self.center
        return np.ascontiguousarray(block @ self.basis.T) * self.scale
