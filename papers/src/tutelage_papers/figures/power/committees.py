"""Common parts of the figures of committees.

Problems of different sizes in one shape, so that one compiled program serves all of them.
That is exact: a level may be split into several of the same eigenvalue, and a unit with
readout zero neither acts nor learns.

Plateaus: where they are, and how fast the units part.

The last stage as a sum over levels: near perfect learning

    e = (1/2L) sum_l lam_l sum_k a_k exp(-2 a_k lam_l t),   t = eta alpha,

with a_k the eigenvalues of -A. For orthonormal teachers K - 1 of them are (2 - sqrt3) u and
one is (2 + (K-1) sqrt3) u, u = 1/(sqrt3 pi K) (decay.py, power-20).
"""

from typing import Any

import numpy as np

import tutelage as tu
import tutelage_papers

SETTING = "erf units, random teachers, gradient flow (terms of order $\\eta$)"
ESCAPED = 1e-2  # distance of the units beyond which they have left the plateau


# Problems


def split_power_law(beta: float, levels: int, total: int) -> "tu.Spectrum":
    """Return the power law on `levels` levels, written as `total` levels.

    Some of those share their eigenvalue.
    """
    lam = np.arange(1, levels + 1) ** -(1.0 + beta)
    # The last levels take one part more if the parts do not come out even.
    parts = np.full(levels, total // levels)
    parts = parts + (np.arange(levels) >= levels - total % levels)
    return tu.Spectrum(np.repeat(lam, parts), np.repeat(1 / (levels * parts), parts))


def padded_committee(units: int, total: int, inputs: Any, lr: float) -> "tu.Problem":
    """Return `committee(units)` with silent units up to `total`."""
    readout = np.where(np.arange(total) < units, 1 / np.sqrt(units), 0.0)
    network = tu.Network(total, "erf", readout=readout)
    return tu.Problem(network, network, inputs=inputs, optimizer=tu.SGD(lr))


def solved_committee(
    units: int,
    inputs: Any,
    dim: int,
    scale: float,
    lr: float,
    times: np.ndarray,
    seed: int,
) -> "tuple[tu.Problem, tu.Start, tu.Trajectory]":
    """Return a scaled committee, a random start, and its gradient flow.

    The flow keeps the overlaps per level.
    """
    problem = tutelage_papers.power_law.committee(units, inputs=inputs, lr=lr)
    start = tu.random_start(problem, dim=dim, scale=scale, seed=seed)
    flow = tu.solve(problem, start, times, gradient_flow=True, keep="blocks")
    return problem, start, flow


# Plateaus


def resting_index(
    error: np.ndarray,
    times: np.ndarray,
    size: np.ndarray,
    earliest: float,
    largest: float,
) -> int:
    """Return the index of the time at which the error moves least: on the plateau.

    After `earliest` and while the units are less than `largest` apart.
    """
    speed = np.abs(np.gradient(error, times))
    allowed = (size < largest) & (times > earliest)
    return int(np.argmin(np.where(allowed, speed, np.inf)))


def growth_rate(times: np.ndarray, grows: np.ndarray, chosen: np.ndarray) -> float:
    """Return the slope of ln(grows) over the chosen times."""
    chosen = chosen & (grows > 0)
    return float(np.polyfit(times[chosen], np.log(grows[chosen]), 1)[0])


def unit_spread(R: np.ndarray) -> np.ndarray:
    """Return the distance of the units from each other, (time,).

    Root mean square distance of their overlaps from those of the mean unit.
    """
    deviation = R - R.mean(axis=1, keepdims=True)
    return np.sqrt(np.mean(deviation**2, axis=(1, 2)))


def largest_gap(measured: Any, expected: Any) -> float:
    """Return the largest relative distance."""
    ratio = np.asarray(measured) / np.asarray(expected)
    return float(np.max(np.abs(ratio - 1)))


# The last stage


def own_rates(T: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of -A where each student is its teacher.

    -A = v v^T o (2/pi) / sqrt((1 + T_aa)(1 + T_bb) - T_ab^2).
    """
    d = 1 + np.diag(T)
    forces = (2 / np.pi) / np.sqrt(np.multiply.outer(d, d) - T**2)
    return np.linalg.eigvalsh(forces) / len(T)


def rate_groups(K: int, fast: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the slow and the fast rate near orthonormal teachers, and their counts.

    fast: another numerator of the fast rate, to compare with (default: the right one).
    """
    if fast is None:
        fast = 2 + (K - 1) * np.sqrt(3)
    slow = 2 - np.sqrt(3)
    rates = np.array([slow, fast]) / (np.sqrt(3) * np.pi * K)
    return rates, np.array([K - 1.0, 1.0])


def middle_time(K: int, beta: float, L: int) -> float:
    """Return eta alpha in the middle of all levels, at the slow rate."""
    lam = np.asarray(tu.PowerLaw(beta, L).eigenvalues)
    rates, _ = rate_groups(K)
    return float(1 / np.sqrt(lam[0] * lam[-1]) / (2 * rates[0]))


def level_sum(
    lam: np.ndarray, rates: np.ndarray, counts: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Return the sum over groups and levels of n a lam exp(-2 a lam t) / L."""
    decay = np.exp(-2 * np.einsum("t,a,l->tal", times, rates, lam))
    return np.einsum("a,l,tal->t", counts * rates, lam, decay) / lam.size


def slope(t: Any, error: Any) -> float:
    """Return the fitted d ln e / d ln t."""
    return float(np.polyfit(np.log(t), np.log(np.asarray(error)), 1)[0])


def network_slopes(
    K: int, N: int, beta: float, near: float, starts: int, seed: int, within: np.ndarray
) -> tuple[list[float], list[float]]:
    """Return late slopes of networks of as many inputs as levels, and of their sums.

    The networks begin at `near` times their random teachers and follow the gradient flow.
    The sums over levels have the rates of each network's T. within: times in units of the
    middle.
    """
    inputs = tu.PowerLaw(beta, N)
    lam = np.asarray(inputs.eigenvalues)
    problem = tutelage_papers.power_law.committee(K, inputs=inputs, lr=1.0)
    times = middle_time(K, beta, N) * within
    # The sum is smooth: few times will do.
    few = np.linspace(0, times.size - 1, min(times.size, 13)).astype(int)
    flow_slopes = []
    sum_slopes = []
    for i in range(starts):
        teachers = np.random.default_rng(seed + i).standard_normal((K, N))
        flow = tutelage_papers.power_law.weight_flow(
            problem,
            (near * teachers, teachers),
            np.concatenate([[0.0], times]),
            rtol=1e-5,
            atol=1e-8,
        )
        flow_slopes.append(slope(times, flow.trajectory.error[1:]))
        rates = own_rates((teachers * lam) @ teachers.T / N)
        error = level_sum(lam, rates, np.ones(K), times[few])
        sum_slopes.append(slope(times[few], error))
    return flow_slopes, sum_slopes


# Insets that enlarge a plateau


def inset_axes(axes: Any, place: list[float]) -> Any:
    """Return axes inside a panel, with small numbers.

    place: left, bottom, width and height in units of the panel.
    """
    inset = axes.inset_axes(place)
    inset.tick_params(labelsize=6)
    return inset


def limits_around(values: np.ndarray, room: float) -> tuple[float, float]:
    """Return limits that hold the values, with room above and below."""
    low = float(np.min(values))
    high = float(np.max(values))
    margin = room * (high - low)
    return low - margin, high + margin
