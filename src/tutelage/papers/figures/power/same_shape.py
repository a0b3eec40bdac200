"""Problems of different sizes in one shape, so that one compiled program serves them all. Exact, not an approximation.

A level may be split into several of the same eigenvalue, and a unit with readout zero neither acts nor learns.
"""

from typing import Any

import numpy as np

import tutelage as tu

WORDS = "erf units, random teachers, gradient flow (terms of order $\\eta$)"
LATEST = 1e-2  # distance of the units beyond which they have left the plateau


def split_power_law(beta: float, levels: int, total: int) -> "tu.Spectrum":
    """The power law on `levels` levels, written as `total` levels, some of which share their eigenvalue."""
    lam = np.arange(1, levels + 1) ** -(1.0 + beta)
    parts = np.full(levels, total // levels) + (np.arange(levels) >= levels - total % levels)
    return tu.Spectrum(np.repeat(lam, parts), np.repeat(1 / (levels * parts), parts))


def padded_committee(units: int, total: int, inputs: Any, lr: float) -> "tu.Problem":
    """`committee(units)` with silent units up to `total`."""
    readout = np.where(np.arange(total) < units, 1 / np.sqrt(units), 0.0)
    network = tu.Network(total, "erf", readout=readout)
    return tu.Problem(network, network, inputs=inputs, sgd=tu.SGD(lr))


def resting_index(error: np.ndarray, times: np.ndarray, size: np.ndarray, earliest: float, largest: float) -> int:
    """Where the error moves least, after `earliest` and while the units are less than `largest` apart: on the plateau."""
    moving = np.abs(np.gradient(error, times))
    return int(np.argmin(np.where((size < largest) & (times > earliest), moving, np.inf)))


def growth_rate(times: np.ndarray, grows: np.ndarray, chosen: np.ndarray) -> float:
    """Slope of ln(grows) over the chosen times."""
    chosen = chosen & (grows > 0)
    return float(np.polyfit(times[chosen], np.log(grows[chosen]), 1)[0])


def parting(R: np.ndarray) -> np.ndarray:
    """How far units are apart, (time,): root mean square distance of their overlaps from those of the mean unit."""
    return np.sqrt(np.mean((R - R.mean(axis=1, keepdims=True)) ** 2, axis=(1, 2)))


def solved_committee(
    units: int, inputs: Any, dim: int, scale: float, lr: float, times: np.ndarray, seed: int
) -> "tuple[tu.Problem, tu.Start, tu.Trajectory]":
    """A random start of a scaled committee and its gradient flow, overlaps per level kept."""
    problem = tu.committee(units, inputs=inputs, lr=lr)
    start = tu.random_start(problem, dim=dim, scale=scale, seed=seed)
    return problem, start, tu.solve(problem, start, times, gradient_flow=True, keep="blocks")


def largest_gap(measured: Any, expected: Any) -> float:
    """Largest relative distance."""
    return float(np.max(np.abs(np.asarray(measured) / np.asarray(expected) - 1)))


def own_rates(T: np.ndarray) -> np.ndarray:
    """Eigenvalues of -A where each student is its teacher: v v^T o (2/pi) / sqrt((1 + T_aa)(1 + T_bb) - T_ab^2)."""
    d = 1 + np.diag(T)
    return np.linalg.eigvalsh((2 / np.pi) / np.sqrt(np.multiply.outer(d, d) - T**2)) / len(T)
