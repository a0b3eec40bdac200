"""Many linear students side by side, each with its own inputs: one-pass SGD on the weights as it is written, in NumPy.

With the mismatch D = W* - W, one step is D -= (lr/N) (D . x) x on the components that are trained. Deliberately no part of
the library takes part: this is what its closed forms are held against.
"""

from collections.abc import Callable

import numpy as np

BLOCK = 2**18  # numbers drawn at a time


def linear_sgd(
    mismatch: np.ndarray,
    draw: Callable[[int], np.ndarray],
    lr: float,
    steps: np.ndarray,
    error: Callable[[np.ndarray], np.ndarray],
    trained: np.ndarray | None = None,
) -> np.ndarray:
    """The error after each number of steps (ascending), (cases, runs, steps).

    mismatch: (cases, runs, N), D at the start. draw(count): (count, runs, N) inputs, which all cases share. trained:
    (cases, N), which components learn (default: all). error: (cases, runs, N) -> (cases, runs).
    """
    D = np.array(mismatch, dtype=float)
    cases, runs, N = D.shape
    rates = lr / N * (np.ones((cases, N)) if trained is None else np.asarray(trained, dtype=float))[:, None, :]
    out = np.empty((cases, runs, len(steps)))
    taken = 0
    for i, stop in enumerate(steps):
        while taken < stop:
            count = min(int(stop) - taken, max(1, BLOCK // (runs * N)))
            for x in draw(count):
                field = np.einsum("crn,rn->cr", D, x)
                D -= field[:, :, None] * (rates * x)
            taken += count
        out[:, :, i] = error(D)
    return out


def gaussian(rng: np.random.Generator, eigenvalues: np.ndarray, runs: int) -> Callable[[int], np.ndarray]:
    """Independent normal inputs with these variances."""
    root = np.sqrt(eigenvalues)
    return lambda count: rng.standard_normal((count, runs, root.size)) * root


def diagonal_error(eigenvalues: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """e_g = sum_k lam_k D_k^2 / (2 N)."""
    return lambda D: np.square(D) @ eigenvalues / (2 * eigenvalues.size)


def z_scores(runs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """(mean over runs - mean over expected) in standard errors of the difference; runs on the axis before the last."""
    gap = runs - expected
    return gap.mean(axis=-2) / (gap.std(axis=-2, ddof=1) / np.sqrt(gap.shape[-2]))
