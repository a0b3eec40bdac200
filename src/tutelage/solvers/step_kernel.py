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
from tutelage.solvers.dormand_prince import (
    ALL_STAGES,
    FASTEST,
    SAFETY,
    SLOWEST,
    STEP_STAGES,
)

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
def end_and_error(step_work, tableau, y, h, rtol, atol):
    """Compute the end `y1` of a step of length h from its stages.

    Returns its error in units of the tolerance, by the estimates of orders 5 and 3.
    """
    k = step_work.k
    y1 = step_work.y1
    unit = step_work.unit
    point = step_work.point
    combine(y, h, tableau.stages[STEP_STAGES], k, y1)
    for i in range(y.size):
        unit[i] = 1.0 / (atol + rtol * max(abs(y[i]), abs(y1[i])))
    combine(step_work.zero, 1.0, tableau.errors[0], k, point)
    fifth, _ = sizes(point, unit)
    combine(step_work.zero, 1.0, tableau.errors[1], k, point)
    third, _ = sizes(point, unit)
    return h * fifth / math.sqrt(max(fifth + 0.01 * third, 1e-300))


@compiled
def curve_error(step_work, tableau, h):
    """Return the error of the curve between the ends of a step, in the same units."""
    point = step_work.point
    combine(step_work.zero, h, tableau.errors[2], step_work.k, point)
    _, largest = sizes(point, step_work.unit)
    return largest


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
