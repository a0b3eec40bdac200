"""The eigensystem of diag(d) - a a^T, with full relative accuracy.

Its eigenvalues s solve the secular equation 1 = sum_j a_j^2 / (d_j - s); one lies below the
smallest d and one between each pair of neighbors. Each root is found as an offset from its
nearest d, so that small eigenvalues and the gaps d_j - s_i, which make the eigenvectors,
keep all their digits, whatever the order of the entries. (A dense solver keeps them only
where the matrix happens to fall from large to small: on 1024 levels of a power law with
beta = 3, in ascending order, it is wrong by 1e-4.) About five passes over an n x n matrix
are needed, a third of the time of a dense solver.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

MAX_PASSES = 100  # five to ten are needed; bisection alone would end within these
# Entries of d nearer than this, relative to the matrix, are moved apart.
LEAST_GAP = 1e-32
MACHINE_EPSILON = np.finfo(float).eps


@dataclass(frozen=True)
class RankOneShift:
    """diag(d) - a a^T, decomposed.

    values: (n,) ascending. vectors: (n, n), orthonormal rows. along: (n,), vectors @ a.
    """

    values: Float[np.ndarray, " n"]
    vectors: Float[np.ndarray, "n n"]
    along: Float[np.ndarray, " n"]


def rank_one_shift(
    diagonal: Float[np.ndarray, " n"], vector: Float[np.ndarray, " n"]
) -> RankOneShift:
    """Decompose diag(diagonal) - vector vector^T; no entry of the vector may be zero."""
    order = np.argsort(diagonal, kind="stable")
    weights = vector[order] ** 2
    least = LEAST_GAP * (np.abs(diagonal).max() + weights.sum())
    d = _distinct(diagonal[order], least)
    origin, offset = _secular_roots(d, weights)
    gaps = np.empty((d.size, d.size))
    gaps[:, order] = (d - d[origin][:, None]) - offset[:, None]  # d_j - s_i
    vectors = vector / gaps
    # By the secular equation, vectors @ a is one before they are normalized.
    along = 1.0 / np.linalg.norm(vectors, axis=1)
    return RankOneShift(
        values=d[origin] + offset,
        vectors=vectors * along[:, None],
        along=along,
    )


def _distinct(ascending: np.ndarray, least: float) -> np.ndarray:
    """Numbers with equal ones moved apart by rounding.

    The matrix cannot be told from the one that was meant.
    """
    if np.all(np.diff(ascending) >= least):
        return ascending
    distinct = ascending.copy()
    for i in range(1, distinct.size):
        next_number = np.nextafter(distinct[i - 1], np.inf)
        distinct[i] = max(distinct[i], next_number, distinct[i - 1] + least)
    return distinct


def _secular_roots(d: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots of f(s) = 1 - sum_j weights_j / (d_j - s), d ascending.

    Which d each root is nearest to, and how far from it. Between two poles f falls from
    +infinity to -infinity. A step replaces the poles to the left, and those to the right, by
    one pole each with equal value and slope and solves that quadratic equation (Bunch,
    Nielsen and Sorensen 1978); it stays inside a bracket, which is halved where the step
    would leave it.
    """
    row = np.arange(d.size)
    # The lowest root lies above this bound, which is no pole.
    lowest = d[0] - weights.sum()
    left = np.concatenate([[lowest], d[:-1]])
    to_middle = (d - d[:, None]) + (d - left)[:, None] / 2
    f_middle = 1.0 - (weights / to_middle).sum(axis=1)
    origin = np.where((f_middle < 0) & (row > 0), row - 1, row)
    left_pole = left - d[origin]
    right_pole = d - d[origin]
    low = left_pole.copy()
    high = right_pole.copy()
    offset = (low + high) / 2
    open_rows = row
    for _ in range(MAX_PASSES):
        if open_rows.size == 0:
            break
        r = open_rows
        current = offset[r]
        f, step = _two_pole_step(
            gaps=(d - d[origin[r]][:, None]) - current[:, None],
            weights=weights,
            is_left=row < r[:, None],
            to_left=left_pole[r] - current,
            to_right=right_pole[r] - current,
        )
        low[r] = np.where(f > 0, current, low[r])
        high[r] = np.where(f < 0, current, high[r])
        middle = (low[r] + high[r]) / 2
        stepped = current + step
        inside = (stepped > low[r]) & (stepped < high[r])
        moved = np.where(inside, stepped, middle)
        offset[r] = np.where(f == 0, current, moved)
        change = np.abs(offset[r] - current)
        open_rows = r[change > MACHINE_EPSILON * np.abs(offset[r])]
    return origin, offset


def _two_pole_step(
    gaps: np.ndarray,
    weights: np.ndarray,
    is_left: np.ndarray,
    to_left: np.ndarray,
    to_right: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """f, and the step to the root of c - q_left / (to_left - step) - q_right / (to_right - step)."""
    inverse = 1.0 / gaps
    lefts = np.where(is_left, inverse, 0.0)
    f = 1.0 - inverse @ weights
    slope_left = np.square(lefts, out=lefts) @ weights
    slope_right = np.square(inverse, out=inverse) @ weights - slope_left
    c = f + slope_left * to_left + slope_right * to_right
    b = c * (to_left + to_right) - slope_left * to_left**2 - slope_right * to_right**2
    e = f * to_left * to_right
    half = b + np.copysign(np.sqrt(np.maximum(b * b - 4 * c * e, 0.0)), b)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = 2 * e / half
        far = half / (2 * c)
    return f, np.where((near > to_left) & (near < to_right), near, far)
