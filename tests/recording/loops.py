"""Training loops as a reader writes them: plain NumPy, fields W .

x, rates of autograd.
"""

import numpy as np
from scipy.special import erf

ROOT2 = np.sqrt(2)


def train(W, teacher, lr, steps, seed, record, activation=None):
    """SGD on (y - yhat)^2 / 2 for a committee with fields W . x and unit readouts.

    record(step, W) is called before each update. activation: (g, its derivative).
    """
    g, slope = activation or (erf_unit, erf_slope)
    rng = np.random.default_rng(seed)
    W = W.copy()
    record(0, W)
    for step in range(1, steps + 1):
        x = rng.standard_normal(W.shape[1])
        fields = W @ x
        gap = g(teacher @ x).sum() - g(fields).sum()
        W += lr * gap * np.outer(slope(fields), x)
        record(step, W)


def erf_unit(x):
    return erf(x / ROOT2)


def erf_slope(x):
    return np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)


def wide_erf(x):
    """What one gets without the library's sqrt(2)."""
    return erf(x)


def wide_erf_slope(x):
    return 2 / np.sqrt(np.pi) * np.exp(-(x**2))
