"""The plateau of any teacher and any spectrum: all students are one vector, and it is a combination of the teachers.

Small weights first learn what all units have in common. To order eta they become copies of one student w, whose force
vanishes in every level at once: A w + sum_m B_m w*_m = 0. So w = sum_m c_m w*_m with the same M numbers c in all levels,
    R^(j)_n = sum_m c_m T^(j)_mn,    Q^(j) = c T^(j) c     for every moment j (or level),
and c depends on T^(1) alone, whatever the spectrum. Units then specialize as u' = eta T^(2) X u, u the overlaps of a unit's own
deviation with the teachers (response.py): M rates, from T^(1) and T^(2) only, each K - 1 times. (This holds for erf, whose
deviations outside the teachers' span stay as they are.) Eq. 15 of Worschech and Rosenow 2024 is this rate for a teacher
with symmetric rows; for others it is about the mean of the M - 1 rates that grow.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import optimize

from tutelage import InputError, Network, Problem, Start, checks, generalization_error
from tutelage.analysis import drift_matrices
from tutelage_papers.assumptions import (
    constant_rate,
    first_layer_problem,
    require_start,
)
from tutelage_papers.power_law.structured.response import (
    as_numpy,
    specialization_response,
    without_inputs,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROUNDS = 200  # of c <- -B/A, which walks to the basin of the root
VANISHING_SHARE = 1e-8  # |a| below this, in units of X, vanishes


@dataclass(frozen=True)
class SymmetricPlateau:
    """The plateau on which all student units are identical.

    coefficients: c (M,). R (M,), Q: covariances of the common field. error: e_g there. t: teachers per level (L, M, M).
    rates: growth rates of the differences between units, all of them, the fastest first, each K - 1 times.
    """

    problem: Problem
    coefficients: Float[np.ndarray, " M"]
    t: Float[np.ndarray, "L M M"]
    R: Float[np.ndarray, " M"]
    Q: float
    error: float
    rates: np.ndarray

    @property
    def rate(self) -> float:
        """The fastest growth; overlaps leave the plateau as exp(rate alpha), the error as exp(2 rate alpha)."""
        return float(self.rates[0])

    @property
    def time_constant(self) -> float:
        """1 / rate."""
        return 1 / self.rate

    def heights(self, order: int) -> tuple[np.ndarray, float]:
        """R^(j) with each teacher (M,) and Q^(j), for a moment j = 0, 1, 2, ..."""
        inputs = self.problem.inputs
        T = np.einsum(
            "l,lab->ab",
            np.asarray(inputs.fractions) * np.asarray(inputs.eigenvalues) ** order,
            self.t,
        )
        return T @ self.coefficients, float(self.coefficients @ T @ self.coefficients)

    @property
    def start(self) -> Start:
        """The plateau as a `Start`, per level."""
        K = self.problem.student.hidden
        c = self.coefficients
        r = self.t @ c
        q = np.einsum("a,lab,b->l", c, self.t, c)
        return Start(
            np.repeat(r[:, None, :], K, axis=1),
            q[:, None, None] * np.ones((K, K)),
            self.t,
        )

    def plot(self, *, title: str | None = None) -> "Figure":
        """R with each teacher next to Q, and the growth rates, as a Matplotlib figure (see `plot.save_figure`)."""
        from tutelage_papers.power_law.plots import plot_symmetric_plateau

        return plot_symmetric_plateau(self, title=title)

    def __str__(self) -> str:
        K = self.problem.student.hidden
        return (
            f"plateau on which {K} units are identical: e_g = {self.error:.6g}, Q = {self.Q:.6g}\n"
            f"R with each teacher: {np.array2string(self.R, precision=5)}\n"
            f"left as exp({self.rate:.5g} alpha), a time constant of {self.time_constant:.4g} (error: half that)"
        )


def symmetric_plateau(problem: Problem, start: Start) -> SymmetricPlateau:
    """The plateau of identical students (equal readouts) that learn by gradient flow from the teachers of a start.

    Exact for any teachers, any spectrum, any number of levels: it costs the solution of M equations and the eigenvalues of
    an M x M matrix. K >= 2 students without biases; terms of order eta.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.power_law.committee(2, inputs=tu.PowerLaw(beta=1.0, levels=3), lr=0.25)
    >>> start = tu.random_start(problem, dim=3000, scale=0.01)
    >>> plateau = tutelage_papers.power_law.symmetric_plateau(problem, start)
    >>> plateau.coefficients.shape, plateau.rates.shape
    ((2,), (2,))
    """
    problem = first_layer_problem(problem, "symmetric_plateau")
    K = problem.student.hidden
    M = problem.labeler.hidden
    v = np.asarray(problem.student.readout)
    if K < 2 or not np.allclose(v, v[0]):
        raise InputError(
            f"the readouts of the student are {checks.shown(v)}; symmetric_plateau needs two or more units with equal readouts."
        )
    t = np.asarray(require_start(start).blocks(problem)[2])
    weights = np.asarray(problem.inputs.weights)
    lam = np.asarray(problem.inputs.eigenvalues)
    T, T2 = (np.einsum("l,lab->ab", w, t) for w in (weights, weights * lam))
    c = _stationary_combination(problem, T)
    R = T @ c
    Q = float(c @ T @ c)
    a, X = as_numpy(
        *specialization_response(without_inputs(problem), R, np.asarray(Q), T)
    )
    if abs(a) > VANISHING_SHARE * np.max(np.abs(X)):
        raise InputError(
            f"units of {problem.student.activation.name!r} specialize outside the span of the teachers, too (E[Delta g''] is not "
            "zero); their rates depend on every level. Use fixed_point(problem, near=plateau.start)."
        )
    mix = np.concatenate(
        [c[None], np.eye(M)]
    )  # overlaps with (common student, teachers) from those with the teachers
    rates = (
        constant_rate(problem, "symmetric_plateau")
        * np.linalg.eigvals(T2 @ mix.T @ X @ mix).real
    )
    error = generalization_error(
        without_inputs(problem), np.tile(R, (K, 1)), np.full((K, K), Q), T
    )
    return SymmetricPlateau(problem, c, t, R, Q, float(error), np.sort(rates)[::-1])


def _stationary_combination(problem: Problem, T: np.ndarray) -> np.ndarray:
    """c with A(c) c + B(c) = 0 for one student that stands for all of them."""
    M = problem.labeler.hidden
    v = np.sum(np.asarray(problem.student.readout))
    one = without_inputs(problem).replace(
        student=Network(1, problem.student.activation, readout=v)
    )

    def matrices(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        A, B = as_numpy(
            *_compiled_drift(
                one, jnp.asarray(T @ c)[None], jnp.asarray([[c @ T @ c]]), T
            )
        )
        return A[0, 0], B[0]

    v_teacher = np.asarray(problem.labeler.readout)
    c = v_teacher * np.sign(v) / (2 * np.sqrt(v_teacher @ T @ v_teacher))
    for _ in range(MOST_ROUNDS):
        A, B = matrices(c)
        new = (c - B / A) / 2 if A < 0 else c
        if np.max(np.abs(new - c)) < 1e-12:
            break
        c = new

    def force(c: np.ndarray) -> np.ndarray:
        A, B = matrices(c)
        return A * c + B

    out = optimize.root(force, c, tol=1e-14)
    if np.max(np.abs(out.fun)) > 1e-10 or out.x.shape != (M,):
        raise InputError(
            "no stationary common student was found; solve from small weights and give its plateau to fixed_point."
        )
    return out.x


_compiled_drift = eqx.filter_jit(drift_matrices)
