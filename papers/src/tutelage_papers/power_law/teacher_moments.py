"""How much the moments of random teachers differ from teacher to teacher: the power-law paper's order parameters T^(j).

For weights N(0, 1) in N dimensions T^(j)_nm = w*_n Omega^j w*_m / N has

    mean  delta_nm sum_l p_l lam_l^j,        variance  (1 + delta_nm) sum_l p_l lam_l^(2j) / N

At a fixed spectrum the variance falls as 1/N. On a power law with L = N it does not (j >= 1): lam_1 grows with N and one
direction carries the moment. The overlaps per level, t_l, are averages over n_l = N p_l components of order one.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import InputError, Inputs, checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TeacherMoments:
    """How the moments T^(j) = W* Omega^j W*^T / N of random teachers scatter, for each order j.

    mean: of a diagonal entry (others: zero). diagonal_sd, other_sd: standard deviations of diagonal and other entries.

    eigenvalues, fractions: the spectrum, in N = dim dimensions.
    """

    dim: int
    orders: np.ndarray
    mean: np.ndarray
    diagonal_sd: np.ndarray
    other_sd: np.ndarray
    eigenvalues: np.ndarray = field(repr=False)
    fractions: np.ndarray = field(repr=False)

    @property
    def growth(self) -> float:
        """log10 of the mean of order L - 1, the highest that the source's closure needs; beyond 1e308 too."""
        logs = np.log(self.fractions) + (self.eigenvalues.size - 1) * np.log(
            self.eigenvalues
        )
        return float(np.logaddexp.reduce(logs) / np.log(10))

    @cached_property
    def condition(self) -> float:
        """log10 of the condition number (maximum norm) of V_jl = lam_l^j, which turns overlaps per level into moments.

        |V| = max_j sum_l lam_l^j and, for positive lam, |V^-1| = max_l prod_(k != l) (1 + lam_k)/|lam_l - lam_k| (Gautschi,
        Numer. Math. 4 (1962) 117). The overlaps per level themselves need no change of basis: condition one.
        """
        lam = np.unique(self.eigenvalues)
        if lam.size == 1:
            return 0.0
        grow = np.log1p(lam)
        logs = np.log(lam)
        rows = range(lam.size)
        inverse = max(
            grow.sum() - grow[i] - np.log(np.abs(np.delete(lam, i) - lam[i])).sum()
            for i in rows
        )
        return float(
            (inverse + max(np.logaddexp.reduce(j * logs) for j in rows)) / np.log(10)
        )

    def plot(self, *, title: str | None = None) -> "Figure":
        """Mean and spread against the order, as a Matplotlib figure."""
        from tutelage_papers.power_law.plots import plot_teacher_moments

        return plot_teacher_moments(self, title=title)

    def __str__(self) -> str:
        rows = zip(self.orders, self.mean, self.diagonal_sd, self.other_sd, strict=True)
        lines = [
            f"  T^({j}): {m:.6g} ± {d:.3g} on the diagonal, 0 ± {o:.3g} off it"
            for j, m, d, o in rows
        ]
        return "\n".join([f"moments of random teachers, N = {self.dim}", *lines])


def teacher_moments(
    inputs: Inputs, dim: int | None = None, orders: Any = (0, 1, 2, 3, 4)
) -> TeacherMoments:
    """Mean and spread of T^(j) = W* Omega^j W*^T / N over teachers with weights N(0, 1).

    Mean delta_nm sum_l p_l lam_l^j, variance (1 + delta_nm) sum_l p_l lam_l^(2j) / N. dim: N (default: one per level).

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> tutelage_papers.power_law.teacher_moments(tu.PowerLaw(1.0, 4), dim=1000).mean.round(3)
    array([ 1.   ,  1.   ,  2.129,  5.641, 15.645])
    """
    if not isinstance(inputs, Inputs):
        raise InputError(
            f"inputs is {checks.shown(inputs)}; it must be Isotropic, PowerLaw or Spectrum."
        )
    dim = (inputs.known_dim or inputs.levels) if dim is None else dim
    p = inputs.level_dims(dim) / dim
    lam = np.asarray(inputs.eigenvalues, dtype=float)
    orders = np.array(
        [
            checks.as_count("orders", j, least=0)
            for j in np.atleast_1d(np.asarray(orders)).tolist()
        ]
    )
    powers = lam ** orders[:, None]
    other = np.sqrt(powers**2 @ p / dim)
    return TeacherMoments(
        int(dim), orders, powers @ p, np.sqrt(2) * other, other, lam, p
    )
