"""The moments of the power-law paper, R^(j) = W Omega^j W*^T / N, from overlaps per level.

The paper closes its equations with the moments of orders 0 .. L-1 (Cayley-Hamilton), which grow as lam_1^j: beyond small L
that needs arbitrary precision. Overlaps per level hold the same numbers and stay of order one; a moment of any order is
    R^(j) = sum_l p_l lam_l^j r_l,      so R^(1) = R, the covariance of the fields.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import InputError, Problem, Start, Trajectory, checks


@dataclass(frozen=True)
class Moments:
    """What `overlap_moments` returns: R^(j) = sum_l p_l lam_l^j r_l (..., K, M) of one order j, Q and T likewise."""

    order: int
    R: np.ndarray
    Q: np.ndarray
    T: np.ndarray

    def __str__(self) -> str:
        last = tuple(x.reshape(-1, *x.shape[-2:])[-1] for x in (self.R, self.Q))
        lines = [
            f"{name}^({self.order}) = {checks.shown(x, 5)}"
            for name, x in zip("RQ", last, strict=True)
        ]
        return "\n".join([*lines, f"T^({self.order}) = {checks.shown(self.T, 5)}"])


def overlap_moments(of: Any, order: int, problem: Problem | None = None) -> Moments:
    """The moments of an order (0, 1, 2, ...) of a `Trajectory` with overlaps per level, a `FixedPoint` or a `Start`.

    R^(j) = W Omega^j W*^T / N = sum_l p_l lam_l^j r_l, so that R^(1) = R; Q^(j) and T^(j) likewise (arXiv 2410.09005).
    problem: whose spectrum it is; needed for a `Start` only.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.power_law.committee(2, inputs=tu.PowerLaw(beta=1.0, levels=3), lr=0.25)
    >>> start = tu.random_start(problem, dim=3000, scale=0.01)
    >>> moments = tutelage_papers.power_law.overlap_moments(start, 2, problem)
    >>> moments.T.shape
    (2, 2)
    """
    order = checks.as_count("order", order, least=0)
    problem = getattr(of, "problem", None) if problem is None else problem
    if not isinstance(problem, Problem):
        raise InputError(
            "the spectrum is not known; give the problem, as in overlap_moments(start, 2, problem)."
        )
    r, q, t = _blocks(of, problem)
    lam = np.asarray(problem.inputs.eigenvalues)
    weights = np.asarray(problem.inputs.fractions) * lam**order
    R, Q, T = (np.einsum("l,...lab->...ab", weights, np.asarray(x)) for x in (r, q, t))
    return Moments(order, R, Q, T)


def _blocks(of: Any, problem: Problem) -> tuple[Any, Any, Any]:
    if isinstance(of, Start):
        return of.blocks(problem)
    if isinstance(of, Trajectory):
        if of.start is None:
            raise InputError(
                "this trajectory has lost its start, and with it its teachers; solve it again."
            )
        return of.r, of.q, of.start.blocks(problem)[2]
    if all(hasattr(of, name) for name in ("r", "q", "t")):
        return of.r, of.q, of.t
    raise InputError(
        f"of is {checks.shown(of)}; give a Trajectory, a FixedPoint or a Start."
    )
