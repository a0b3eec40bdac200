"""Small problems that several tests share, so that each shape is compiled once."""

import numpy as np

import tutelage as tu


def pair(K, M, activation="erf", *, lr=0.5, teacher=None, noise=0.0, inputs=None, student=None, **sgd):
    """A problem with K students and M teachers."""
    return tu.Problem(
        tu.Network(K, activation, **(student or {})),
        tu.Network(M, activation, **(teacher or {})),
        inputs=inputs,
        sgd=tu.SGD(lr, **sgd),
        noise=noise,
    )


def generic_overlaps(K, M, seed=0, size=1.0):
    """Overlaps R, Q, T of K + M generic vectors."""
    vectors = np.random.default_rng(seed).standard_normal((K + M, 3 * (K + M)))
    gram = vectors @ vectors.T / vectors.shape[1]
    gram[:K] *= size
    gram[:, :K] *= size
    return gram[:K, K:], gram[:K, :K], gram[K:, K:]


def symmetric_overlaps(K, R, S, Q, C):
    """R on the diagonal, S off it; Q on the diagonal, C off it."""
    off = 1 - np.eye(K)
    return R * np.eye(K) + S * off, Q * np.eye(K) + C * off
