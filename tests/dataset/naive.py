"""SGD on a data set drawn once, written as plainly as possible, for all runs at a time."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf


class Measured(NamedTuple):
    """Overlaps and training loss of each run at the recorded steps."""

    R: np.ndarray  # (run, time, K, M)
    Q: np.ndarray
    train_loss: np.ndarray


def erf_unit(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return g and g'."""
    return erf(x / np.sqrt(2)), np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)


def relu_unit(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return g and g'."""
    return np.maximum(x, 0.0), (x > 0).astype(float)


def sgd_runs(
    unit: Any,
    *,
    R: np.ndarray,
    Q: np.ndarray,
    ratio: float,
    lr: float,
    decay: float,
    noise: float,
    times: np.ndarray,
    dim: int,
    runs: int,
    seed: int,
) -> Measured:
    """Train committees by single samples drawn with replacement, squared loss."""
    rng = np.random.default_rng(seed)
    K, M = R.shape
    n = round(ratio * dim)
    gram = np.block([[np.eye(M), R.T], [R, Q]])
    root = np.linalg.cholesky(gram)
    frames = np.linalg.qr(rng.standard_normal((runs, dim, K + M)))[0]
    vectors = np.sqrt(dim) * np.einsum("ab,rib->rai", root, frames)
    teacher = vectors[:, :M]
    W = vectors[:, M:].copy()
    X = rng.standard_normal((runs, n, dim))
    fields = np.einsum("rni,rmi->rnm", X, teacher) / np.sqrt(dim)
    y = unit(fields)[0].sum(-1) + noise * rng.standard_normal((runs, n))
    steps = np.round(times * dim).astype(int)
    records = []
    every_run = np.arange(runs)
    for step in range(steps[-1] + 1):
        if step in steps:
            fields = np.einsum("rni,rki->rnk", X, W) / np.sqrt(dim)
            loss = np.mean((unit(fields)[0].sum(-1) - y) ** 2, axis=1) / 2
            overlap = np.einsum("rki,rmi->rkm", W, teacher) / dim
            norm = np.einsum("rki,rji->rkj", W, W) / dim
            records.append((overlap, norm, loss))
        chosen = rng.integers(n, size=runs)
        x = X[every_run, chosen]
        g, slope = unit(np.einsum("ri,rki->rk", x, W) / np.sqrt(dim))
        delta = (y[every_run, chosen] - g.sum(1))[:, None] * slope
        W *= 1 - lr * decay / dim
        W += lr / np.sqrt(dim) * delta[:, :, None] * x[:, None, :]
    R, Q, loss = (np.stack(x, axis=1) for x in zip(*records, strict=True))
    return Measured(R, Q, loss)
