"""Counts, means and covariances of the samples of each class, read piece by piece."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tutelage import checks
from tutelage.data.reading import FeatureMap, pieces


@dataclass(frozen=True)
class ClassMoments:
    """Moments of the classes, and the covariance of features and real labels."""

    counts: Int[np.ndarray, " C"]
    means: Float[np.ndarray, "C N"]
    covariances: Float[np.ndarray, "C N N"]
    cross: Float[np.ndarray, " N"]


def measure_moments(
    rows: np.ndarray,
    feature_map: FeatureMap | None,
    class_numbers: Int[np.ndarray, " n"],
    real_labels: Float[np.ndarray, " n"] | None,
) -> ClassMoments:
    """Measure the moments, piece by piece: a file larger than memory is read once.

    The features are shifted by the first row, so that nothing cancels.
    """
    counts = np.bincount(class_numbers)
    done = 0
    shift = np.zeros(0)
    total = np.zeros(0)
    square = np.zeros(0)
    cross = np.zeros(0)
    for piece in pieces(rows, feature_map):
        if done == 0:
            shift = piece[0].copy()
            C = len(counts)
            N = piece.shape[1]
            arrays = f"covariances of {C} class{'es' * (C > 1)} in {N} features"
            checks.require_memory(arrays, C * N**2, "Use fewer features.")
            total = np.zeros((C, N))
            square = np.zeros((C, N, N))
            cross = np.zeros(N)
        here = slice(done, done + len(piece))
        done += len(piece)
        shifted = piece - shift
        for c in np.unique(class_numbers[here]):
            in_class = shifted[class_numbers[here] == c]
            total[c] += in_class.sum(axis=0)
            square[c] += in_class.T @ in_class
        if real_labels is not None:
            cross = cross + (real_labels[here] - real_labels.mean()) @ shifted
    means = total / counts[:, None]
    products = means[:, :, None] * means[:, None, :]
    covariances = square / counts[:, None, None] - products
    return ClassMoments(
        counts=counts,
        means=shift + means,
        covariances=(covariances + covariances.swapaxes(1, 2)) / 2,
        cross=np.asarray(cross / len(rows)),
    )
