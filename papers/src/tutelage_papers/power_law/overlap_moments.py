"""The moments of the power-law paper, R^(j) = W Omega^j W*^T / N, from level overlaps.

The paper closes its equations with the moments of orders 0 .. L-1 (Cayley-Hamilton), which
grow as lam_1^j: beyond small L that needs arbitrary precision. Overlaps per level hold the
same numbers and stay of order one; a moment of any order is

    R^(j) = sum_l p_l lam_l^j r_l,      so R^(1) = R, the covariance of the fields.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import InputError, Problem, Start, Trajectory, checks


@dataclass(frozen=True)
class Moments:
    """Moments of one order j, from `overlap_moments`.

    R^(j) = sum_l p_l lam_l^j r_l, (..., K, M); Q and T likewise.
    """

    order: int
    R: np.ndarray
    Q: np.ndarray
    T: np.ndarray

    def __str__(self) -> str:
        lines = []
        for name, moments in (("R", self.R), ("Q", self.Q)):
            last = moments.reshape(-1, *moments.shape[-2:])[-1]
            lines.append(f"{name}^({self.order}) = {checks.shown(last, 5)}")
        lines.append(f"T^({self.order}) = {checks.shown(self.T, 5)}")
        return "\n".join(lines)


def overlap_moments(of: Any, order: int, problem: Problem | None = None) -> Moments:
    """Return the moments of an order (0, 1, 2, ...).

    Of a `Trajectory` with overlaps per level, a `FixedPoint` or a `Start`:
    R^(j) = W Omega^j W*^T / N = sum_l p_l lam_l^j r_l, so that R^(1) = R; Q^(j) and T^(j)
    likewise (arXiv 2410.09005). problem: whose spectrum it is; needed for a `Start` only.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> inputs = tu.PowerLaw(beta=1.0, levels=3)
    >>> problem = tutelage_papers.power_law.committee(2, inputs=inputs, lr=0.25)
    >>> start = tu.random_start(problem, dim=3000, scale=0.01)
    >>> moments = tutelage_papers.power_law.overlap_moments(start, 2, problem)
    >>> moments.T.shape
    (2, 2)
    """
    order = checks.as_count("order", order, least=0)
    if problem is None:
        problem = getattr(of, "problem", None)
    if not isinstance(problem, Problem):
        raise InputError(
            "the spectrum is not known; give the problem, as in "
            "overlap_moments(start, 2, problem)."
        )
    lam = np.asarray(problem.inputs.eigenvalues)
    weights = np.asarray(problem.inputs.fractions) * lam**order
    r, q, t = _blocks(of, problem)
    return Moments(
        order=order,
        R=_sum_over_levels(weights, r),
        Q=_sum_over_levels(weights, q),
        T=_sum_over_levels(weights, t),
    )


def _sum_over_levels(weights: np.ndarray, blocks: Any) -> np.ndarray:
    return np.einsum("l,...lab->...ab", weights, np.asarray(blocks))


def _blocks(of: Any, problem: Problem) -> tuple[Any, Any, Any]:
    """Overlaps per level: of students with teachers, of students, of teachers."""
    if isinstance(of, Start):
        return of.blocks(problem)
    if isinstance(of, Trajectory):
        if of.start is None:
            raise InputError(
                "this trajectory has lost its start, and with it its teachers; solve "
                "it again."
            )
        _, _, t = of.start.blocks(problem)
        return of.r, of.q, t
    if all(hasattr(of, name) for name in ("r", "q", "t")):
        return of.r, of.q, of.t
    raise InputError(
        f"of is {checks.shown(of)}; give a Trajectory, a FixedPoint or a Start."
    )
