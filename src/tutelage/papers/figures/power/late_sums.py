"""The last stage as a sum over levels: its rates, the middle of its window, and networks that begin near their teachers.

Near perfect learning e = (1/2L) sum_l lam_l sum_k a_k exp(-2 a_k lam_l t), t = eta alpha and a_k the eigenvalues of -A. For
orthonormal teachers K - 1 of them are (2 - sqrt3) u and one is (2 + (K-1) sqrt3) u, u = 1/(sqrt3 pi K) (decay.py, power-20).
"""

from typing import Any

import numpy as np

import tutelage as tu
from tutelage.papers.figures.power.same_shape import own_rates


def groups(K: int, fast: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rates of the slow and the fast group near orthonormal teachers, and how many directions have them."""
    rates = np.array([2 - np.sqrt(3), 2 + (K - 1) * np.sqrt(3) if fast is None else fast]) / (np.sqrt(3) * np.pi * K)
    return rates, np.array([K - 1.0, 1.0])


def middle(K: int, beta: float, L: int) -> float:
    """eta alpha in the middle of all levels, at the slow rate."""
    lam = np.asarray(tu.PowerLaw(beta, L).eigenvalues)
    return float(1 / np.sqrt(lam[0] * lam[-1]) / (2 * groups(K)[0][0]))


def level_sum(lam: np.ndarray, rates: np.ndarray, counts: np.ndarray, times: np.ndarray) -> np.ndarray:
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
    inputs, times, found = tu.PowerLaw(beta, N), middle(K, beta, N) * within, []
    problem, lam = tu.committee(K, inputs=inputs, lr=1.0), np.asarray(inputs.eigenvalues)
    for i in range(starts):
        teachers = np.random.default_rng(seed + i).standard_normal((K, N))
        moments = np.concatenate([[0.0], times])
        error = tu.analysis.weight_flow(problem, (near * teachers, teachers), moments, rtol=1e-5, atol=1e-8).trajectory.error[1:]
        rates = own_rates((teachers * lam) @ teachers.T / N)
        few = np.linspace(0, times.size - 1, min(times.size, 13)).astype(int)  # the sum is smooth
        found.append((slope(times, error), slope(times[few], level_sum(lam, rates, np.ones(K), times[few]))))
    return [x[0] for x in found], [x[1] for x in found]
