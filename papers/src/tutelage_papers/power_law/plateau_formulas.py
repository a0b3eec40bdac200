"""Closed forms for the plateau of K = M erf units.

Worschech and Rosenow 2024, eqs. 13, 15 and 95-99, corrected. They follow from a common
student w = c sum_m w*_m, which sees teacher n with R_n = c (T_nn + d_n), d_n the sum of the
row's other entries. If all rows are alike it rests where R^2 (1 + Q) = Q^2 (1 + T), that is
at

    Q = 1 / (M (1 + T) / (T + D) - 1),    R = sqrt(Q (T + D) / M),

D the sum of the off-diagonal entries of a row. `symmetric_plateau` solves the same plateau
exactly for any teacher; these forms are exact for alike rows only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage import InputError, Network, Problem, Start
from tutelage_papers.assumptions import require_problem
from tutelage_papers.power_law.overlap_moments import overlap_moments


@dataclass(frozen=True)
class PlateauFormulas:
    """Heights, error and time constant of a plateau in closed form.

    moments: T^(1) and T^(2). R_each (M,), Q_each: eq. 95, each teacher by its own row. R, Q,
    error: eqs. 97 and 99, all rows by their mean. time_constant: of the overlaps, eq. 15;
    the error departs at twice the rate.
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
        """Return R^(j) of each teacher and Q^(j) on the plateau, from T^(j).

        Eqs. 96 and 98, corrected: the common student is the same combination of teachers in
        every level, so each height goes with the row sum,
        R^(j)_n = R^(1)_n (T^(j)_nn + d^(j)_n) / (T^(1)_nn + d^(1)_n).
        """
        rows = np.asarray(T).sum(axis=1)
        first = self.moments[0].sum(axis=1)
        Q = self.Q_each * rows.sum() / first.sum()
        return self.R_each * rows / first, float(Q)

    def __str__(self) -> str:
        units = self.problem.student.hidden
        R_each = np.array2string(self.R_each, precision=5)
        lines = [
            f"plateau of {units} erf units in closed form: R = {self.R:.5g}, "
            f"Q = {self.Q:.5g}, e_g = {self.error:.5g}",
            f"teachers one by one: R = {R_each}, Q = {self.Q_each:.5g}",
            f"overlaps leave it with a time constant of {self.time_constant:.4g}, the "
            "error with half of that",
        ]
        return "\n".join(lines)


def plateau_formulas(problem: Problem, start: Start) -> PlateauFormulas:
    """Return the closed forms for a committee and the teachers of a start.

    Or the teacher's gram. K = M erf units, readouts sqrt(M)/K and 1/sqrt(M) as those of
    `committee`, constant learning rate, terms of order eta.

    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> inputs = tu.PowerLaw(beta=1.0, levels=3)
    >>> problem = tutelage_papers.power_law.committee(2, inputs=inputs, lr=0.25)
    >>> start = tu.random_start(problem, dim=3000, scale=0.01)
    >>> formulas = tutelage_papers.power_law.plateau_formulas(problem, start)
    >>> exact = tutelage_papers.power_law.symmetric_plateau(problem, start)
    >>> bool(abs(formulas.error / exact.error - 1) < 0.05)
    True
    """
    M = require_problem(problem, "plateau_formulas").labeler.hidden
    _require_committee(problem)
    T1 = overlap_moments(start, 1, problem).T
    T2 = overlap_moments(start, 2, problem).T
    if M < 2:
        raise InputError(
            "the problem has one teacher unit; a plateau needs two or more."
        )
    R_each, Q_each = _heights(np.diag(T1), T1.sum(axis=1), M)
    T, D = _mean_entries(T1)
    R, Q = _heights(T, T + D, M)
    own_2, others_2 = _mean_entries(T2)
    time_constant = _time_constant(T, D, own_2 - others_2 / (M - 1), M)
    return PlateauFormulas(
        problem=problem,
        moments=(T1, T2),
        R_each=R_each,
        Q_each=float(np.mean(Q_each)),
        R=float(R),
        Q=float(Q),
        error=_plateau_error(T, D, Q, R, M),
        time_constant=time_constant / float(problem.optimizer.lr),
    )


def _mean_entries(T: np.ndarray) -> tuple[float, float]:
    """Mean diagonal entry, and mean over rows of the sum of the others."""
    own = np.diag(T)
    return float(np.mean(own)), float(np.mean(T.sum(axis=1) - own))


def _heights(own: Any, rows: Any, M: int) -> tuple[Any, Any]:
    """Eqs. 95 and 97: R and Q from T_nn and T_nn + d_n."""
    Q = 1 / (M * (1 + own) / rows - 1)
    return np.sqrt(Q * rows / M), Q


def _plateau_error(T: float, D: float, Q: float, R: float, M: int) -> float:
    """Eq. 99, its second term corrected to asin(D / ((M - 1)(1 + T)))."""
    other_teachers = (M - 1) * np.arcsin(D / ((M - 1) * (1 + T)))
    teachers = np.arcsin(T / (1 + T)) + other_teachers
    students = M * np.arcsin(Q / (1 + Q))
    mixed = 2 * M * np.arcsin(R / np.sqrt((1 + Q) * (1 + T)))
    return float((students + teachers - mixed) / np.pi)


def _time_constant(T: float, D: float, contrast: float, M: int) -> float:
    """Eq. 15 times eta. contrast: T^(2) - D^(2)/(M-1)."""
    lengths = np.sqrt((M - 1) * T - D + M) * (D + (M + 1) * T + M) ** 1.5
    return np.pi / 2 * lengths / (contrast * (D + T))


def _require_committee(problem: Problem) -> None:
    """Refuse problems for which the closed forms do not hold."""
    K = problem.student.hidden
    M = problem.labeler.hidden
    erf = Network(1, "erf").activation
    only_erf = problem.student.activation == problem.labeler.activation == erf
    scaled_student = np.allclose(problem.student.readout, np.sqrt(M) / K)
    scaled_teacher = np.allclose(problem.labeler.readout, 1 / np.sqrt(M))
    constant = isinstance(problem.optimizer.lr, float | int | np.ndarray)
    holds = [K == M, only_erf, scaled_student, scaled_teacher, constant]
    if all(holds) and not problem.biased:
        return
    raise InputError(
        "the closed forms hold for K = M erf units with readouts 1/sqrt(M) and a "
        "constant learning rate; make the problem with committee, or use "
        "symmetric_plateau."
    )
