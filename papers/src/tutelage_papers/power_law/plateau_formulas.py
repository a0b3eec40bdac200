"""Closed forms for the plateau of K = M erf units (Worschech and Rosenow 2024, eqs. 13, 15 and 95-99, corrected).

They follow from a common student w = c sum_m w*_m, which sees teacher n with R_n = c (T_nn + d_n), d_n the sum of the row's
other entries. If all rows are alike it rests where R^2 (1 + Q) = Q^2 (1 + T), that is at
    Q = 1 / (M (1 + T) / (T + D) - 1),    R = sqrt(Q (T + D) / M),    D the sum of the off-diagonal entries of a row.
`symmetric_plateau` solves the same plateau exactly for any teacher; these forms are exact for alike rows only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import InputError, Network, Problem, Start
from tutelage_papers.assumptions import require_problem
from tutelage_papers.power_law.overlap_moments import overlap_moments


@dataclass(frozen=True)
class PlateauFormulas:
    """What the closed forms say of a plateau. T, D: mean diagonal entry and mean row sum of the rest of T^(1) and T^(2).

    R_each (M,), Q_each: eq. 95, each teacher by its own row. R, Q, error: eqs. 97 and 99, all rows by their mean.
    time_constant: of the overlaps, eq. 15; the error departs at twice the rate.
    """

    problem: Problem
    moments: tuple[np.ndarray, np.ndarray]
    R_each: np.ndarray
    Q_each: float
    R: float
    Q: float
    error: float
    time_constant: float

    def heights(self, T: Any) -> tuple[np.ndarray, float]:
        """R^(j) of each teacher and Q^(j) on the plateau, from T^(j): eqs. 96 and 98, corrected.

        The common student is the same combination of teachers in every level, so each height goes with the row sum:
        R^(j)_n = R^(1)_n (T^(j)_nn + d^(j)_n) / (T^(1)_nn + d^(1)_n).
        """
        rows = np.asarray(T).sum(axis=1)
        first = self.moments[0].sum(axis=1)
        return self.R_each * rows / first, float(self.Q_each * rows.sum() / first.sum())

    def __str__(self) -> str:
        return "\n".join(
            [
                f"plateau of {self.problem.student.hidden} erf units in closed form: R = {self.R:.5g}, Q = {self.Q:.5g}, "
                f"e_g = {self.error:.5g}",
                f"teachers one by one: R = {np.array2string(self.R_each, precision=5)}, Q = {self.Q_each:.5g}",
                f"overlaps leave it with a time constant of {self.time_constant:.4g}, the error with half of that",
            ]
        )


def plateau_formulas(problem: Problem, start: Start) -> PlateauFormulas:
    """The closed forms for a committee of `committee` and the teachers of a start (or the teacher's gram).

    K = M erf units, readouts sqrt(M)/K and 1/sqrt(M), constant learning rate, terms of order eta.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> problem = tutelage_papers.power_law.committee(2, inputs=tu.PowerLaw(beta=1.0, levels=3), lr=0.25)
    >>> start = tu.random_start(problem, dim=3000, scale=0.01)
    >>> formulas = tutelage_papers.power_law.plateau_formulas(problem, start)
    >>> exact = tutelage_papers.power_law.symmetric_plateau(problem, start)
    >>> bool(abs(formulas.error / exact.error - 1) < 0.05)
    True
    """
    M = require_problem(problem, "plateau_formulas").teacher.hidden
    _require_committee(problem)
    T1, T2 = (overlap_moments(start, order, problem).T for order in (1, 2))
    if M < 2:
        raise InputError(
            "the problem has one teacher unit; a plateau needs two or more."
        )
    own = np.diag(T1)
    rows = T1.sum(axis=1)
    R_each, Q_each = _heights(own, rows, M)
    (T, D), (T_2, D_2) = (_mean_entries(x) for x in (T1, T2))
    R, Q = _heights(T, T + D, M)
    return PlateauFormulas(
        problem=problem,
        moments=(T1, T2),
        R_each=R_each,
        Q_each=float(np.mean(Q_each)),
        R=float(R),
        Q=float(Q),
        error=_plateau_error(T, D, Q, R, M),
        time_constant=_time_constant(T, D, T_2 - D_2 / (M - 1), M)
        / float(problem.optimizer.lr),
    )


def _mean_entries(T: np.ndarray) -> tuple[float, float]:
    """Mean diagonal entry, and mean over rows of the sum of the others."""
    return float(np.mean(np.diag(T))), float(np.mean(T.sum(axis=1) - np.diag(T)))


def _heights(own: Any, rows: Any, M: int) -> tuple[Any, Any]:
    """Eqs. 95 and 97: R and Q from T_nn and T_nn + d_n."""
    Q = 1 / (M * (1 + own) / rows - 1)
    return np.sqrt(Q * rows / M), Q


def _plateau_error(T: float, D: float, Q: float, R: float, M: int) -> float:
    """Eq. 99, its second term corrected to asin(D / ((M - 1)(1 + T)))."""
    pairs = np.arcsin(T / (1 + T)) + (M - 1) * np.arcsin(D / ((M - 1) * (1 + T)))
    return float(
        (
            M * np.arcsin(Q / (1 + Q))
            + pairs
            - 2 * M * np.arcsin(R / np.sqrt((1 + Q) * (1 + T)))
        )
        / np.pi
    )


def _time_constant(T: float, D: float, contrast: float, M: int) -> float:
    """Eq. 15 times eta. contrast: T^(2) - D^(2)/(M-1)."""
    return (
        np.pi
        / 2
        * np.sqrt((M - 1) * T - D + M)
        * (D + (M + 1) * T + M) ** 1.5
        / (contrast * (D + T))
    )


def _require_committee(problem: Problem) -> None:
    K = problem.student.hidden
    M = problem.labeler.hidden
    erf = (
        problem.student.activation
        == problem.labeler.activation
        == Network(1, "erf").activation
    )
    alike = np.allclose(problem.student.readout, np.sqrt(M) / K) and np.allclose(
        problem.labeler.readout, 1 / np.sqrt(M)
    )
    if (
        K != M
        or not erf
        or not alike
        or problem.biased
        or not isinstance(problem.optimizer.lr, float | int | np.ndarray)
    ):
        raise InputError(
            "the closed forms hold for K = M erf units with readouts 1/sqrt(M) and a constant learning rate; make the "
            "problem with committee, or use symmetric_plateau."
        )
