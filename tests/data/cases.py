"""Samples that the tests of data share."""

import numpy as np


def mixture_samples(count, dim, seed):
    """Three classes with means of order one and isotropic noise, and their labels."""
    y = np.arange(count) % 3
    noise = np.random.default_rng(seed).standard_normal((count, dim))
    return 1.5 * np.eye(3, dim)[y] + noise, y
