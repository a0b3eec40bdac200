"""Activation functions and their slopes in plain NumPy, by name. Nothing here comes from the package.

Each group has its own difficulty. A function of JUMPS serves teachers only. HARD holds functions that defeat a careless rule
of quadrature or a choice by name.
"""

import numpy as np
from scipy.special import erf


def normal(x):
    return np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


def logistic(x):
    return 1 / (1 + np.exp(-x))


def share(x):
    """P(z < x) of a standard normal z."""
    return (1 + erf(x / np.sqrt(2))) / 2


# name: (g, g')
CLOSED = {
    "erf": (lambda x: erf(x / np.sqrt(2)), lambda x: 2 * normal(x)),
    "linear": (lambda x: x, np.ones_like),
    "quadratic": (lambda x: x**2, lambda x: 2 * x),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "he2": (lambda x: x**2 - 1, lambda x: 2 * x),
}
STEEP = {  # heavy tails: single steps only
    "he3": (lambda x: x**3 - 3 * x, lambda x: 3 * x**2 - 3),
    "he4": (lambda x: x**4 - 6 * x**2 + 3, lambda x: 4 * x**3 - 12 * x),
}
SMOOTH = {
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "gelu": (lambda x: x * share(x), lambda x: share(x) + x * normal(x)),
    "sigmoid": (logistic, lambda x: logistic(x) * logistic(-x)),
    "softplus": (lambda x: np.logaddexp(0, x), logistic),
}
CUSTOM = {
    "sine": (lambda x: np.sin(x) + 0.1 * x, lambda x: np.cos(x) + 0.1),
    "cosine": (lambda x: np.cos(1.3 * x), lambda x: -1.3 * np.sin(1.3 * x)),
    "bump": (
        lambda x: x * np.exp(-(x**2) / 2),
        lambda x: (1 - x**2) * np.exp(-(x**2) / 2),
    ),
    "arctan": (lambda x: np.arctan(2 * x), lambda x: 2 / (1 + 4 * x**2)),
    "swish": (
        lambda x: x * logistic(x),
        lambda x: logistic(x) + x * logistic(x) * logistic(-x),
    ),
    "log_square": (lambda x: np.log1p(x**2), lambda x: 2 * x / (1 + x**2)),
}
KINKS = {
    "leaky": (
        lambda x: np.where(x > 0, x, 0.2 * x),
        lambda x: np.where(x > 0, 1.0, 0.2),
    ),
    "absolute": (np.abs, np.sign),
    "clipped": (lambda x: np.clip(x, -1, 1), lambda x: (np.abs(x) < 1) * 1.0),
    "shifted_relu": (lambda x: np.maximum(x - 0.7, 0), lambda x: (x > 0.7) * 1.0),
    "dead_zone": (
        lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
        lambda x: (np.abs(x) > 0.5) * 1.0,
    ),
    "exponential_unit": (
        lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1),
        lambda x: np.where(x > 0, 1.0, np.exp(np.minimum(x, 0))),
    ),
    "softsign": (lambda x: x / (1 + np.abs(x)), lambda x: 1 / (1 + np.abs(x)) ** 2),
    "signed_square": (lambda x: x * np.abs(x) / 2, np.abs),
    "two_kinks": (
        lambda x: np.maximum(x + 1.1, 0) - 1.7 * np.maximum(x - 0.4, 0),
        lambda x: (x > -1.1) * 1.0 - 1.7 * (x > 0.4),
    ),
}
JUMPS = {
    "sign": (np.sign, np.zeros_like),
    "step": (lambda x: (x > 0.3) * 1.0, np.zeros_like),
    "levels": (lambda x: np.clip(np.round(x), -2, 2), np.zeros_like),
    "jump_and_slope": (lambda x: x + np.sign(x), np.ones_like),
    "window": (lambda x: (np.abs(x) < 0.8) * 1.0, np.zeros_like),
    "jump_and_kink": (
        lambda x: np.maximum(x, 0) + 0.8 * (x > -0.5),
        lambda x: (x > 0) * 1.0,
    ),
}
HARD = {
    "fast_sine": (lambda x: np.sin(5 * x), lambda x: 5 * np.cos(5 * x)),
    "cubic": (lambda x: x**3 - 3 * x, lambda x: 3 * x**2 - 3),
    "far_kink": (lambda x: np.maximum(x, -9) / 3, lambda x: (x > -9) / 3),
    "erf_of_x": (erf, lambda x: 2 / np.sqrt(np.pi) * np.exp(-(x**2))),
    "leaky_called_relu": (
        lambda x: np.where(x > 0, x, 0.3 * x),
        lambda x: np.where(x > 0, 1.0, 0.3),
    ),
}
HARD_JUMPS = {
    "fine_levels": (lambda x: np.round(5 * x) / 5, np.zeros_like),
    "cube_and_sign": (lambda x: x**3 + np.sign(x), lambda x: 3 * x**2),
    "small_jump": (lambda x: x + 0.1 * np.sign(x), np.ones_like),
}
GROUPS = (CLOSED, STEEP, SMOOTH, CUSTOM, KINKS, JUMPS, HARD, HARD_JUMPS)
ALL = {name: pair for group in GROUPS for name, pair in group.items()}


def value(name, x):
    return ALL[name][0](x)


def slope(name, x):
    return ALL[name][1](x)
