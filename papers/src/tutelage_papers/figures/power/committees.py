"""What the figures of committees share: problems of different sizes in one shape, plateaus, and the last stage of learning.

One shape, so that one compiled program serves all sizes; exact, not an approximation: a level may be split into several of
the same eigenvalue, and a unit with readout zero neither acts nor learns.

The last stage as a sum over levels: near perfect learning e = (1/2L) sum_l lam_l sum_k a_k exp(-2 a_k lam_l t), t = eta alpha
and a_k the eigenvalues of -A. For orthonormal teachers K - 1 of them are (2 - sqrt3) u and one is (2 + (K-1) sqrt3) u,
u = 1/(sqrt3 pi K) (decay.py, power-20).
"""

from typing import Any

import numpy as np

import tutelage as tu
import tutelage_papers

SETTING = "erf units, random teachers, gradient flow (terms of order $\\eta$)"
ESCAPED = 1e-2  # distance of the units beyond which they have left the plateau


def split_power_law(beta: float, levels: int, total: int) -> "tu.Spectrum":
    """The power law on `levels` levels, written as `total` levels, some of which share their eigenvalue."""
    lam = np.arange(1, levels + 1) ** -(1.0 + beta)
    parts = np.full(levels, total // levels) + (
        np.arange(levels) >= levels - total % levels
    )
    return tu.Spectrum(np.repeat(lam, parts), np.repeat(1 / (levels * parts), parts))


def padded_committee(units: int, total: int, inputs: Any, lr: float) -> "tu.Problem":
    """`committee(units)` with silent units up to `total`."""
    readout = np.where(np.arange(total) < units, 1 / np.sqrt(units), 0.0)
    network = tu.Network(total, "erf", readout=readout)
    return tu.Problem(network, network, inputs=inputs, optimizer=tu.SGD(lr))


def resting_index(
    error: np.ndarray,
    times: np.ndarray,
    size: np.ndarray,
    earliest: float,
    largest: float,
) -> int:
    """Where the error moves least, after `earliest` and while the units are less than `largest` apart: on the plateau."""
    moving = np.abs(np.gradient(error, times))
    return int(
        np.argmin(np.where((size < largest) & (times > earliest), moving, np.inf))
    )


def growth_rate(times: np.ndarray, grows: np.ndarray, chosen: np.ndarray) -> float:
    """Slope of ln(grows) over the chosen times."""
    chosen = chosen & (grows > 0)
    return float(np.polyfit(times[chosen], np.log(grows[chosen]), 1)[0])


def unit_spread(R: np.ndarray) -> np.ndarray:
    """How far units are apart, (time,): root mean square distance of their overlaps from those of the mean unit."""
    return np.sqrt(np.mean((R - R.mean(axis=1, keepdims=True)) ** 2, axis=(1, 2)))


def solved_committee(
    units: int,
    inputs: Any,
    dim: int,
    scale: float,
    lr: float,
    times: np.ndarray,
    seed: int,
) -> "tuple[tu.Problem, tu.Start, tu.Trajectory]":
    """A random start of a scaled committee and its gradient flow, overlaps per level kept."""
    problem = tutelage_papers.power_law.committee(units, inputs=inputs, lr=lr)
    start = tu.random_start(problem, dim=dim, scale=scale, seed=seed)
    return (
        problem,
        start,
        tu.solve(problem, start, times, gradient_flow=True, keep="blocks"),
    )


def largest_gap(measured: Any, expected: Any) -> float:
    """Largest relative distance."""
    return float(np.max(np.abs(np.asarray(measured) / np.asarray(expected) - 1)))


def own_rates(T: np.ndarray) -> np.ndarray:
    """Eigenvalues of -A where each student is its teacher: v v^T o (2/pi) / sqrt((1 + T_aa)(1 + T_bb) - T_ab^2)."""
    d = 1 + np.diag(T)
    return np.linalg.eigvalsh(
        (2 / np.pi) / np.sqrt(np.multiply.outer(d, d) - T**2)
    ) / len(T)


# The last stage


def groups(K: int, fast: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rates of the slow and the fast group near orthonormal teachers, and how many directions have them."""
    rates = np.array(
        [2 - np.sqrt(3), 2 + (K - 1) * np.sqrt(3) if fast is None else fast]
    ) / (np.sqrt(3) * np.pi * K)
    return rates, np.array([K - 1.0, 1.0])


def middle(K: int, beta: float, L: int) -> float:
    """eta alpha in the middle of all levels, at the slow rate."""
    lam = np.asarray(tu.PowerLaw(beta, L).eigenvalues)
    return float(1 / np.sqrt(lam[0] * lam[-1]) / (2 * groups(K)[0][0]))


def level_sum(
    lam: np.ndarray, rates: np.ndarray, counts: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """sum over groups and levels of n a lam exp(-2 a lam t) / L."""
    decay = np.exp(-2 * np.einsum("t,a,l->tal", times, rates, lam))
    return np.einsum("a,l,tal->t", counts * rates, lam, decay) / lam.size


def slope(t: Any, error: Any) -> float:
    """Fitted d ln e / d ln t."""
    return float(np.polyfit(np.log(t), np.log(np.asarray(error)), 1)[0])


def network_slopes(
    K: int, N: int, beta: float, near: float, starts: int, seed: int, within: np.ndarray
) -> tuple[list[float], list[float]]:
    """Networks of as many inputs as levels that begin at `near` times their random teachers: slopes of their gradient flow
    at times `within`, in units of the middle, and of the sum with the rates of their T."""
    inputs = tu.PowerLaw(beta, N)
    times = middle(K, beta, N) * within
    found = []
    problem = tutelage_papers.power_law.committee(K, inputs=inputs, lr=1.0)
    lam = np.asarray(inputs.eigenvalues)
    for i in range(starts):
        teachers = np.random.default_rng(seed + i).standard_normal((K, N))
        moments = np.concatenate([[0.0], times])
        error = tutelage_papers.power_law.weight_flow(
            problem, (near * teachers, teachers), moments, rtol=1e-5, atol=1e-8
        ).trajectory.error[1:]
        rates = own_rates((teachers * lam) @ teachers.T / N)
        few = np.linspace(0, times.size - 1, min(times.size, 13)).astype(
            int
        )  # the sum is smooth
        found.append(
            (
                slope(times, error),
                slope(times[few], level_sum(lam, rates, np.ones(K), times[few])),
            )
        )
    return [x[0] for x in found], [x[1] for x in found]


# Insets that enlarge a plateau


def inset_axes(axes: Any, place: list[float]) -> Any:
    """Axes inside a panel, (left, bottom, width, height) in its units, with small numbers."""
    inset = axes.inset_axes(place)
    inset.tick_params(labelsize=6)
    return inset


def around(values: np.ndarray, room: float) -> tuple[float, float]:
    """Limits that hold the values, with room above and below."""
    low = float(np.min(values))
    high = float(np.max(values))
    return low - room * (high - low), high + room * (high - low)
