"""Gap, standard error and z-score of one quantity at every time.

gap = mean over runs - theory, standard error = sd / sqrt(runs). With few runs gap / standard error follows Student's law,
which has long tails (with 20 runs, 4 is exceeded ten times more often than by a normal variable), so z is the value of a
normal variable that is exceeded equally often: |z| < 4 then means the same for 5 runs and for 500 (6 in 100,000).
"""

from dataclasses import dataclass

import numpy as np

FINEST, FINEST_ERROR, ROUNDING = 1e-8, 1e-6, 1e-14  # accuracy of a solve: overlaps, error (relative), any error
CAP = 37.0  # larger z-scores have no probability in float64


@dataclass(frozen=True)
class Gap:
    """theory, mean, gap, standard_error, z, expected, beyond: (time, ...). runs: (run, time, ...), relabeled.

    expected: the gap that a right theory leaves at this N (its size if `rough`). beyond: the z-score of what is left of the
    gap when anything from zero to twice the expected gap (either sign, if rough) is allowed, besides a known shift.
    unit: the standard error, or what the solver resolves if that is more. allowed: by how much a gap may differ from the
    middle of what is allowed.
    """

    name: str
    theory: np.ndarray
    runs: np.ndarray
    mean: np.ndarray
    gap: np.ndarray
    standard_error: np.ndarray
    z: np.ndarray
    expected: np.ndarray
    beyond: np.ndarray
    rough: bool
    unit: np.ndarray
    allowed: np.ndarray

    def entries(self, values: np.ndarray) -> np.ndarray:
        """(time, entries): each independent number once (Q is symmetric)."""
        if self.name == "Q":
            return values[:, *np.triu_indices(values.shape[-1])]
        return values.reshape(values.shape[0], -1)

    def labels(self) -> list[str]:
        """Names of the entries, counted from one as in the figures."""
        shape = self.theory.shape[1:]
        pairs = zip(*np.triu_indices(shape[-1]), strict=True) if self.name == "Q" else np.ndindex(shape)
        comma = "," if max(shape, default=1) > 9 else ""
        return [self.name + ("_" + comma.join(str(int(i) + 1) for i in index) if len(index) else "") for index in pairs]


def measure(
    name: str,
    theory: np.ndarray,
    runs: np.ndarray,
    expected: np.ndarray,
    rough: bool,
    shift: np.ndarray | None = None,
    rtol: float = FINEST,
) -> Gap:
    """The gap of a quantity: theory (time, ...), runs (run, time, ...).

    shift: a gap that is known exactly, besides the expected one. rtol: the tolerance with which the theory was solved.
    """
    shift = np.zeros_like(theory) if shift is None else shift
    count = runs.shape[0]
    mean = runs.mean(axis=0)
    gap = mean - theory
    sd = runs.std(axis=0, ddof=1) if count > 1 else np.full_like(gap, np.nan)
    error = sd / np.sqrt(count)
    unit = np.fmax(error, _resolution(name, theory, rtol))
    low, high = (-2 * np.abs(expected), 2 * np.abs(expected)) if rough else _interval(2 * expected)
    left = gap - np.clip(gap, shift + low, shift + high)
    expected = expected + (np.abs(shift) if rough else shift)
    z, beyond = (z_score(x / unit, count) for x in (gap, left))
    return Gap(name, theory, runs, mean, gap, error, z, expected, beyond, rough, unit, (high - low) / 2)


def _resolution(name: str, theory: np.ndarray, rtol: float) -> np.ndarray:
    """What the solver itself cannot resolve: a smaller standard error (at time zero there is none) counts as this."""
    coarser = max(1.0, rtol / FINEST)
    if name == "error":
        return coarser * (FINEST_ERROR * np.abs(theory) + ROUNDING)
    return np.full_like(theory, coarser * FINEST * max(float(np.max(np.abs(theory), initial=0.0)), 1e-12))


def _interval(end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.minimum(end, 0.0), np.maximum(end, 0.0)


def z_score(ratio: np.ndarray, count: int) -> np.ndarray:
    """Gap over standard error of `count` runs, as the normal deviate of equal probability; NaN for one run."""
    from scipy import stats

    if count < 2:
        return np.full_like(ratio, np.nan)
    tail = np.maximum(stats.t.sf(np.abs(ratio), count - 1), 1e-299)
    return np.sign(ratio) * np.minimum(stats.norm.isf(tail), CAP)
