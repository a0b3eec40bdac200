"""One step of the explicit integrator as machine code.

This is the twin of dormand_prince.py, whose tables and constants it uses. Equations that
are machine code themselves make their loop of these functions (stream/committee_kernel.py):
numba caches no function that is given another one, so the loop is next to the rates.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tutelage._numba import compiler
from tutelage.solvers import dormand_prince
from tutelage.solvers.dormand_prince import ALL_STAGES, FASTEST, SAFETY, SLOWEST

compiled = compiler(__file__, dormand_prince.__file__)


class Tableau(NamedTuple):
    """The tables STAGES, ERRORS and WEIGHTS of dormand_prince.py."""

    stages: Float[np.ndarray, "stages stages"]
    errors: Float[np.ndarray, "estimates stages"]
    weights: Float[np.ndarray, "stages powers"]


class StepWorkspace(NamedTuple):
    """Arrays of one step, for a state of so many numbers.

    k: the rates at each stage. y1: the end of the step. unit: 1 / tolerance of each
    number. point: the point of a stage, or an error. zero: zeros.
    """

    k: Float[np.ndarray, "stages size"]
    y1: Float[np.ndarray, " size"]
    unit: Float[np.ndarray, " size"]
    point: Float[np.ndarray, " size"]
    zero: Float[np.ndarray, " size"]


TABLEAU = Tableau(
    stages=dormand_prince.STAGES,
    errors=dormand_prince.ERRORS,
    weights=dormand_prince.WEIGHTS,
)


@compiled
def step_workspace(size):
    """Return arrays for the steps of a state of so many numbers."""
    return StepWorkspace(
        k=np.zeros((ALL_STAGES, size)),
        y1=np.zeros(size),
        unit=np.zeros(size),
        point=np.zeros(size),
        zero=np.zeros(size),
    )


@compiled
def combine(y, h, factors, k, out):
    """Compute y + h sum_s factors_s k_s."""
    for i in range(y.size):
        out[i] = y[i]
    for s in range(factors.size):
        factor = h * factors[s]
        if factor != 0.0:
            for i in range(y.size):
                out[i] += factor * k[s, i]


@compiled
def sizes(x, unit):
    """Return the mean square of numbers in a unit, and the largest of them."""
    total = 0.0
    largest = 0.0
    for i in range(x.size):
        size = abs(x[i]) * unit[i]
        total += size * size
        largest = max(largest, size)
    return total / x.size, largest


@compiled
def record(y, h, x, k, weights, curve, out):
    """Compute the state at the share x of a step."""
    for s in range(ALL_STAGES):
        total = 0.0
        for p in range(7, -1, -1):
            total = total * x + weights[s, p]
        curve[s] = total
    combine(y, h, curve, k, out)


@compiled
def step_factor(error):
    """Return the length of the next step in units of that of this one.

    error: of this step in units of the tolerance; it was accepted if below 1.
    """
    if not math.isfinite(error):
        return SLOWEST
    most = FASTEST if error < 1.0 else 1.0
    factor = SAFETY * max(error, 1e-300) ** (-0.125)
    return min(max(factor, SLOWEST), most)
