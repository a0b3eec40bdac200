"""Problems with one linear student unit, and slow second routes."""

import numpy as np
from scipy.optimize import brentq

import tutelage as tu

UNIT = tu.Network(1, "linear")


def linear(**options) -> tu.Problem:
    """A linear unit that learns from a linear unit."""
    return tu.Problem(UNIT, UNIT, **options)


def stieltjes(ridge: float, ratio: float) -> tuple[float, float]:
    """(1/N) tr (X^T X / N + ridge)^-1 by Marchenko and Pastur, and its derivative."""
    b = ridge + ratio - 1
    g = (-b + np.sqrt(b**2 + 4 * ridge)) / (2 * ridge)
    return g, -(g**2 + g) / (2 * ridge * g + b)


def ridge_regression(ratio: float, ridge: float, noise: float) -> tuple[float, float]:
    """m and q of ridge regression on labels of a linear teacher."""
    g, dg = stieltjes(ridge, ratio)
    m = 1 - ridge * g
    q = 1 - 2 * ridge * g - ridge**2 * dg + noise**2 * (g + ridge * dg)
    return m, q


def proximal(slope, omega: float, label: float, V: float) -> float:
    """h = omega - V l'(h), by bisection."""
    reach = abs(omega) + V * 10 + 10

    def gap(h):
        return h - omega + V * slope(h, label)

    return brentq(gap, -reach, reach, xtol=1e-13)
