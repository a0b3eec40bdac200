"""Four numbers per level: what remains near a plateau, or near perfect learning, if units differ only in their own teacher.

R_im = R on and S off the diagonal, Q_ij = Q and C likewise, in every level, for orthonormal teachers. Small deviations
x_l = (r, s, q, c) of a level obey
    x_l' = eta lam_l (own x_l + shared sum_k p_k lam_k x_k),
own: the force moves with the level's overlaps; shared: A and B answer to the fields. Both are 4 x 4 for any spectrum. In the
moments of Worschech and Rosenow 2024 (eqs. 100-102, 118-119) this is G (x) A_1 + H (x) U with own = -prefactor G and
shared = prefactor H. On the plateau the only growth is along (1, -1/(M-1), 0, 0).
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tutelage import InputError, Problem, Start, checks
from tutelage.analysis import drift_matrices
from tutelage_papers.assumptions import (
    constant_rate,
    require_first_layer_sgd,
    require_problem,
)
from tutelage_papers.power_law.structured.symmetric_plateau import symmetric_plateau


@dataclass(frozen=True)
class ReducedSystem:
    """The linear dynamics of alike units, x_l' = eta lam_l (own x_l + shared sum_k p_k lam_k x_k), x_l = (r, s, q, c).

    point: (R, S, Q, C) of the fields there. own, shared: (4, 4), for r, s, q, c. near: "plateau" or "perfect".
    """

    problem: Problem
    near: str
    point: np.ndarray
    own: np.ndarray
    shared: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        """The derivative of (x_1, ..., x_L), (4L, 4L), eta included."""
        lam = np.asarray(self.problem.inputs.eigenvalues)
        weights = np.asarray(self.problem.inputs.weights)
        L = lam.size
        blocks = np.einsum("l,lk,ab->lakb", lam, np.eye(L), self.own)
        blocks = blocks + np.einsum("l,k,ab->lakb", lam, weights, self.shared)
        return constant_rate(self.problem, "reduced_system") * blocks.reshape(
            4 * L, 4 * L
        )

    @property
    def rates(self) -> np.ndarray:
        """All 4 L growth rates, the fastest growing first."""
        return np.sort(np.linalg.eigvals(self.matrix).real)[::-1]

    @property
    def own_rates(self) -> np.ndarray:
        """Eigenvalues of `own`, sorted: the rate of a level is eta lam_l times these where the fields do not answer."""
        return np.sort(np.linalg.eigvals(self.own).real)

    @property
    def shared_rates(self) -> np.ndarray:
        """Eigenvalues of `shared`, sorted."""
        return np.sort(np.linalg.eigvals(self.shared).real)

    def __str__(self) -> str:
        show = lambda x: np.array2string(x, precision=5, suppress_small=True)  # noqa: E731
        where = "on the plateau" if self.near == "plateau" else "near perfect learning"
        return "\n".join(
            [
                f"four overlaps per level {where}: R, S, Q, C = {show(self.point)}",
                f"eigenvalues of a level's own part {show(self.own_rates)}, of the shared part {show(self.shared_rates)}",
                f"growth rates from {self.rates[-1]:.4g} to {self.rates[0]:.4g}",
            ]
        )


def reduced_system(problem: Problem, near: str = "plateau") -> ReducedSystem:
    """The reduced linear system of K = M alike units and orthonormal teachers, near="plateau" or "perfect"; order eta.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.power_law.committee(3, lr=0.1)
    >>> tutelage_papers.power_law.reduced_system(problem, "perfect").own_rates.round(4)
    array([-0.6694, -0.3347, -0.0328, -0.0164])
    """
    require_first_layer_sgd(
        require_problem(problem, "reduced_system"), "reduced_system"
    )
    constant_rate(problem, "reduced_system")
    checks.known("near", near, ("plateau", "perfect"))
    K = problem.student.hidden
    M = problem.labeler.hidden
    v = np.concatenate(
        [np.asarray(problem.student.readout), np.asarray(problem.labeler.readout)]
    )
    if (
        K != M
        or M < 2
        or not np.allclose(v, v[0])
        or problem.student.activation != problem.labeler.activation
    ):
        raise InputError(
            f"the problem has {K} student and {M} teacher units; four overlaps per level need K = M >= 2 units with equal "
            "readouts and one activation."
        )
    mean = float(np.sum(problem.inputs.weights))
    if near == "plateau":
        orthonormal = Start(np.zeros((K, M)), np.eye(K), mean * np.eye(M))
        found = symmetric_plateau(
            problem.replace(**{"teacher.gram": None}), orthonormal
        )
        point = np.array([found.R[0], found.R[0], found.Q, found.Q])
    else:
        point = mean * np.array([1.0, 0.0, 1.0, 0.0])
    own, shared = _derivatives(problem, jnp.asarray(point), mean)
    return ReducedSystem(problem, near, point, np.asarray(own), np.asarray(shared))


@eqx.filter_jit
def _derivatives(problem: Problem, point: Array, mean: Any) -> tuple[Array, Array]:
    """Return two derivatives of the motion of a level's overlaps.

    The first is by these overlaps, the second by those of the fields.
    """
    M = problem.labeler.hidden
    one = jnp.eye(M)

    def matrices(x: Array) -> tuple[Array, Array]:
        return x[0] * one + x[1] * (1 - one), x[2] * one + x[3] * (1 - one)

    def motion(level: Array, fields: Array) -> Array:
        (r, q), (R, Q) = matrices(level), matrices(fields)
        p = drift_matrices(problem, R, Q, mean * one)
        dr = p.A @ r + p.B
        fq = p.A @ q + p.B @ r.T
        return jnp.stack([dr[0, 0], dr[0, 1], (fq + fq.T)[0, 0], (fq + fq.T)[0, 1]])

    return jax.jacfwd(motion, argnums=(0, 1))(point / mean, point)
