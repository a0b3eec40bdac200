"""Do two ensembles follow one law? Means and covariances of everything recorded, compared entry by entry.

Each entry gives a z-score: the difference of the two ensembles' means over its standard error; a covariance is the mean of a
product of deviations. The largest of them all is judged by its tail probability times the number of entries (Bonferroni).
"""

import numpy as np
from scipy.stats import norm

from tutelage.result.trajectory import Trajectory

LEVEL = 1e-4


def features(runs: Trajectory, time: int) -> np.ndarray:
    """(run, features):

    R, the upper triangle of Q, the readout, and (if kept) the same per level.
    """
    parts = []
    for name in ("R", "r"):
        if name in runs.variables:
            parts.append(runs[name][:, time].reshape(runs.error.shape[0], -1))
    rows, columns = np.triu_indices(runs.Q.shape[-1])
    parts.append(runs.Q[:, time][:, rows, columns])
    if "q" in runs.variables:
        parts.append(
            runs.q[:, time][:, :, rows, columns].reshape(runs.error.shape[0], -1)
        )
    parts.append(runs.readout[:, time].reshape(runs.error.shape[0], -1))
    if "bias" in runs.variables:
        parts.append(runs.bias[:, time])
    return np.concatenate(parts, axis=1)


def z_scores(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Standardized differences of the means, and of the covariances, of two samples (run, features)."""
    together = np.concatenate([a, b])
    moves = together.std(axis=0) > 1e-12 * (1 + np.abs(together).max(axis=0))
    a = a[:, moves]
    b = b[:, moves]
    center = together[:, moves].mean(axis=0)
    size = together[:, moves].std(axis=0)
    a = (a - center) / size
    b = (b - center) / size
    first, second = np.triu_indices(a.shape[1])
    samples = [np.concatenate([x, x[:, first] * x[:, second]], axis=1) for x in (a, b)]
    gap = samples[0].mean(axis=0) - samples[1].mean(axis=0)
    return gap / np.sqrt(sum(x.var(axis=0) / x.shape[0] for x in samples))


def probability(one: Trajectory, other: Trajectory) -> float:
    """Of a difference at least as large as the largest seen, if both follow one law (an upper bound)."""
    assert one.finished
    assert other.finished
    recorded = range(1, one.times.size)
    z = np.concatenate(
        [z_scores(features(one, i), features(other, i)) for i in recorded]
    )
    assert z.size
    assert np.all(np.isfinite(z))
    return float(min(1.0, 2 * norm.sf(np.abs(z).max()) * z.size))
