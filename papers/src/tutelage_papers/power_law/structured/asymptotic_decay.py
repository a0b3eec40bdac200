"""The last stage of learning, when every student is near its teacher.

How the error decays, for any spectrum, to order eta. Linear in the weights, not in the
overlaps. Per level, W = (1 + u_l) W* + z_l, z_l orthogonal to all teachers:

    u_l' = eta lam_l (A u_l + Y[sum_k p_k lam_k u_k t_k])
    z_l' = eta lam_l A z_l                                      (A < 0: response.py)

and r_l = (1 + u_l) t_l, q_l = (1 + u_l) t_l (1 + u_l)^T + z_l z_l^T then enter the exact
e_g. The error is of second order in u and z, so a theory linear in the overlaps (Worschech
and Rosenow 2024, eqs. 16-17 and 121-122; `first_order` here) drops terms as large as those
that it keeps: it takes u t u^T for a free overlap that decays by A alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from tutelage import InputError, Problem, Start, checks, generalization_error
from tutelage_papers.assumptions import (
    constant_rate,
    first_layer_problem,
    require_start,
)
from tutelage_papers.power_law.structured.response import (
    as_numpy,
    perfect_response,
    without_inputs,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_MODE_MATRIX = 3000  # L K M: largest matrix that is decomposed


@dataclass(frozen=True)
class AsymptoticDecay:
    """A start near perfect learning and its linear dynamics.

    t: teachers per level, in the order of their students. u (L, K, M), zz (L, K, K):
    deviations of the weights inside and outside the teachers' span. A (K, K): response.py.
    values, vectors: the modes inside. rates: theirs, the slowest first; own_rates: of those
    outside, eta lam_l times the eigenvalues of -A.
    """

    problem: Problem
    t: Float[np.ndarray, "L M M"]
    u: Float[np.ndarray, "L K M"]
    zz: Float[np.ndarray, "L K K"]
    A: Float[np.ndarray, "K K"]
    values: np.ndarray
    vectors: np.ndarray

    @property
    def rates(self) -> np.ndarray:
        """Decay rates of u; it enters the error squared."""
        return np.sort(-np.real(self.values))

    @property
    def own_rates(self) -> np.ndarray:
        """Decay rates of z, (L, K)."""
        lam = np.asarray(self.problem.inputs.eigenvalues)
        rates = self._rate * lam[:, None]
        return rates * -np.linalg.eigvalsh(self.A)[::-1]

    @property
    def _rate(self) -> float:
        """eta."""
        return constant_rate(self.problem, "asymptotic_decay")

    def overlaps(self, times: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return R (time, K, M), Q (time, K, K) and T at times after the start."""
        times = np.atleast_1d(checks.as_array("times", times))
        weights = np.asarray(self.problem.inputs.weights)
        first = self.u.ravel().astype(self.vectors.dtype)
        amplitudes = np.linalg.solve(self.vectors, first)
        decay = np.exp(np.outer(times, self.values))
        u = np.einsum("nk,tk->tn", self.vectors, decay * amplitudes).real
        inside = np.eye(self.u.shape[-1]) + u.reshape(-1, *self.u.shape)
        R = np.einsum("l,tlab,lbc->tac", weights, inside, self.t)
        Q = np.einsum(
            "l,tlab,lbc,tldc->tad", weights, inside, self.t, inside, optimize=True
        )
        T = np.einsum("l,lab->ab", weights, self.t)
        return R, Q + self._outside(times, self.zz), T

    def _outside(self, times: np.ndarray, zz: np.ndarray) -> np.ndarray:
        """sum_l p_l lam_l exp(eta lam_l A s) zz_l exp(eta lam_l A s)."""
        weights = np.asarray(self.problem.inputs.weights)
        lam = np.asarray(self.problem.inputs.eigenvalues)
        values, vectors = np.linalg.eigh(self.A)
        decay = np.exp(self._rate * np.einsum("t,l,k->tlk", times, lam, values))
        rotated = np.einsum("ab,lac,cd->lbd", vectors, zz, vectors, optimize=True)
        back = np.einsum(
            "l,tlb,lbd,tld->tbd", weights, decay, rotated, decay, optimize=True
        )
        return np.einsum("ab,tbd,cd->tac", vectors, back, vectors, optimize=True)

    def error(self, times: ArrayLike) -> np.ndarray:
        """Return e_g at times after the start.

        Exact in the overlaps, linear in the weights.
        """
        R, Q, T = self.overlaps(times)
        error = generalization_error(without_inputs(self.problem), R, Q, T)
        return np.asarray(error)

    def first_order(self, times: ArrayLike) -> np.ndarray:
        """Return e_g linear in the overlaps (eqs. 121-122).

        e_g = -tr(A E)/2, E the rest of Q beside R to first order.
        """
        times = np.atleast_1d(checks.as_array("times", times))
        free = self.zz + self.u @ self.t @ np.swapaxes(self.u, -1, -2)
        return -np.einsum("ab,tab->t", self.A, self._outside(times, free)) / 2

    def __str__(self) -> str:
        L, K, _ = self.u.shape
        slow = self.rates[0]
        fast = self.rates[-1]
        error = float(self.error(0.0)[0])
        first_order = float(self.first_order(0.0)[0])
        own = self.own_rates
        return (
            f"{K} students near their teachers on {L} level{'s' * (L > 1)}: "
            f"e_g = {error:.5g} (to first order in the overlaps {first_order:.5g})\n"
            "deviations inside the teachers' span decay at rates from "
            f"{slow:.4g} to {fast:.4g}, outside from {own.min():.4g} to {own.max():.4g}; "
            "the error at twice that"
        )

    def plot(
        self, times: ArrayLike | None = None, *, title: str | None = None
    ) -> "Figure":
        """Draw the decay of the error, both ways (see `plot.save_figure`)."""
        from tutelage_papers.power_law.plots import plot_asymptotic_decay

        return plot_asymptotic_decay(self, times, title=title)


def asymptotic_decay(problem: Problem, start: Start) -> AsymptoticDecay:
    """Return the decay from a start near perfect learning, to order eta, without noise.

    Such as a late state of a solve. K = M, readouts of students equal to those of their
    teachers. Each student is assigned the teacher that it overlaps with most. Holds as long
    as |u| and |z| are small; L K M <= 3000.

    >>> import numpy as np
    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> inputs = tu.PowerLaw(beta=1.0, levels=3)
    >>> problem = tutelage_papers.power_law.committee(2, inputs=inputs, lr=0.25)
    >>> near = tu.Start(0.99 * np.eye(2), 0.99 * np.eye(2), np.eye(2))
    >>> decay = tutelage_papers.power_law.asymptotic_decay(problem, near)
    >>> decay.error([0.0, 1000.0]).round(7)
    array([1.8362e-03, 5.0000e-07])
    """
    problem = first_layer_problem(problem, "asymptotic_decay")
    K = problem.student.hidden
    M = problem.labeler.hidden
    one_activation = problem.student.activation == problem.labeler.activation
    if K != M or not one_activation or float(problem.noise_deviation) != 0:
        raise InputError(
            "this problem has no zero error to come to; asymptotic_decay needs K = M, one "
            "activation and no noise. Change it with problem.replace."
        )
    r, q, t = as_numpy(*require_start(start).blocks(problem))
    if r.size > LARGEST_MODE_MATRIX:
        raise InputError(
            f"L K M is {r.size}; modes are decomposed up to {LARGEST_MODE_MATRIX}. Use "
            "weight_flow or solve instead."
        )
    weights = np.asarray(problem.inputs.weights)
    order = matching_teachers(problem, np.einsum("l,lab->ab", weights, r))
    r = r[:, :, order]
    t = t[:, order][:, :, order]
    problem = problem.replace(**{"teacher.gram": t})
    T = np.einsum("l,lab->ab", weights, t)
    A, Y = as_numpy(*perfect_response(without_inputs(problem), T))
    inside = r @ np.linalg.pinv(t, hermitian=True)
    zz = q - inside @ t @ np.swapaxes(inside, -1, -2)
    rate = constant_rate(problem, "asymptotic_decay")
    values, vectors = np.linalg.eig(rate * _modes_inside(problem, A, Y, t))
    return AsymptoticDecay(
        problem=problem,
        t=t,
        u=inside - np.eye(M),
        zz=zz,
        A=A,
        values=values,
        vectors=vectors,
    )


def matching_teachers(problem: Problem, R: np.ndarray) -> np.ndarray:
    """Return the teacher that each student comes to.

    The assignment with the largest overlaps; refuses a problem that cannot be learned.
    """
    v = np.asarray(problem.student.readout)
    v_teacher = np.asarray(problem.labeler.readout)
    one_activation = problem.student.activation == problem.labeler.activation
    learnable = one_activation and v.shape == v_teacher.shape
    if learnable:
        learnable = (
            np.allclose([v, v_teacher], v[0]) and float(problem.noise_deviation) == 0
        )
    if not learnable:
        raise InputError(
            "this problem has no zero error to come to; it needs K = M, one activation, "
            "equal readouts and no noise. Change it with problem.replace."
        )
    _, teachers = linear_sum_assignment(-R)
    return teachers


def _modes_inside(
    problem: Problem, A: np.ndarray, Y: np.ndarray, t: np.ndarray
) -> np.ndarray:
    """The matrix of u' / eta, (L K M, L K M).

    lam_l (A u_l + Y[sum_k p_k lam_k u_k t_k]).
    """
    L = len(t)
    M = t.shape[1]
    K = A.shape[0]
    lam = np.asarray(problem.inputs.eigenvalues)
    weights = np.asarray(problem.inputs.weights)
    own = np.einsum("l,lk,ab,mn->lamkbn", lam, np.eye(L), A, np.eye(M))
    shared = np.einsum("l,k,ambc,knc->lamkbn", lam, weights, Y, t)
    return (own + shared).reshape(L * K * M, L * K * M)
