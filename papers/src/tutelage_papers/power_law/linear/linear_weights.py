"""Every single weight of a linear unit at a small learning rate.

Eqs. 58 to 63 of Worschech and Rosenow 2024, with the noise of eq. 59 left out. With
readouts v and v* the weights follow
    dJ/dalpha = eta v Sigma (v* B - v J),
so that each component in the eigenbasis of Sigma relaxes alone,
    J_k = exp(-eta v^2 lam_k alpha) (J0_k - (v*/v) B_k) + (v*/v) B_k          (eq. 61),
    R^(1) = sum_k lam_k J_k B_k / N,    Q^(1) = sum_k lam_k J_k^2 / N    (eqs. 62, 63).
If only the first n of N inputs learn (eqs. 75-77 in the eigenbasis, 82-86 outside it),
they relax in the same way with the eigenvectors of their own block of Sigma. They end
where the regression of the frozen inputs on them is compensated (eq. 85).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from tutelage import InputError, Problem, checks
from tutelage_papers.assumptions import constant_rate, require_pair
from tutelage_papers.power_law.linear.linear_network import require_linear


@dataclass(frozen=True)
class LinearWeights:
    """The weights of a linear unit over time, and their overlaps.

    weights: J, (time, N), in the coordinates of the given ones. R, Q: the covariances
    R^(1) and Q^(1) of the fields, (time,). error: e_g, (time,).
    """

    problem: Problem
    times: Float[np.ndarray, " time"]
    weights: Float[np.ndarray, "time N"]
    R: Float[np.ndarray, " time"]
    Q: Float[np.ndarray, " time"]
    error: Float[np.ndarray, " time"]

    def __str__(self) -> str:
        count = self.weights.shape[1]
        return (
            f"{count} weights of a linear unit from {self.times[0]:.4g} to "
            f"{self.times[-1]:.4g}: e_g falls from {self.error[0]:.5g} to "
            f"{self.error[-1]:.5g}"
        )


def linear_weights(
    problem: Problem, weights: Any, times: Any, *, trained: int | None = None
) -> LinearWeights:
    """Follow every weight of one linear unit at a small learning rate.

    Equations 58 to 63 of arXiv 2410.09005, and 75 to 86 if only some inputs learn.

    Parameters
    ----------
    problem : Problem
        One linear student and one linear teacher unit, without weight decay.
    weights : pair
        (W, W_teacher), each (N,) or (1, N): raw coordinates if the spectrum was
        measured on data, else coordinates along the eigenvectors, level by level.
    times : array
        Times alpha.
    trained : int, optional
        Only the first `trained` components learn; default: all.

    Returns
    -------
    LinearWeights

    Examples
    --------
    >>> import numpy as np
    >>> import tutelage as tu
    >>> import tutelage_papers
    >>> unit = tu.Network(1, "linear")
    >>> inputs = tu.Spectrum([1.5, 0.5])
    >>> problem = tu.Problem(unit, unit, inputs=inputs, optimizer=tu.SGD(lr=0.1))
    >>> found = tutelage_papers.power_law.linear_weights(
    ...     problem, (np.zeros(2), np.ones(2)), [0.0, 10.0]
    ... )
    >>> found.weights[-1].round(4)  # 1 - exp(-1.5), 1 - exp(-0.5)
    array([0.7769, 0.3935])
    """
    problem = require_linear(problem, "linear_weights")
    _require_plain(problem)
    rate = constant_rate(problem, "linear_weights")
    times = np.atleast_1d(checks.as_array("times", times))
    checks.require_nonnegative("times", times)
    student, teacher = _vectors(weights)
    N = student.size
    learning = N if trained is None else checks.as_count("trained", trained)
    if learning > N:
        raise InputError(f"trained is {learning}; it must be at most {N}, the weights.")

    v = float(np.asarray(problem.student.readout)[0])
    v_teacher = float(np.asarray(problem.labeler.readout)[0])
    covariance = Covariance.of(problem, N)
    values, vectors = covariance.eigensystem(learning)
    # the mismatch of the output; its frozen part acts through the regression (eq. 85)
    target = v_teacher / v * teacher
    end = target[:learning] - covariance.regression(
        learning, student[learning:] - target[learning:]
    )
    distance = vectors.T @ (student[:learning] - end)
    left = np.exp(-rate * v**2 * values * times[:, None]) * distance
    path = np.tile(student, (times.size, 1))
    path[:, :learning] = end + left @ vectors.T

    R = covariance.apply(path) @ teacher / N
    Q = np.sum(covariance.apply(path) * path, axis=1) / N
    T = float(covariance.apply(teacher) @ teacher) / N
    error = (v**2 * Q - 2 * v * v_teacher * R + v_teacher**2 * T) / 2  # eq. 23
    return LinearWeights(
        problem=problem, times=times, weights=path, R=R, Q=Q, error=error
    )


@dataclass(frozen=True)
class Covariance:
    """The covariance of N inputs: a diagonal, or values (N,) with eigenvectors (N, N).

    basis: the eigenvectors as rows; None: the coordinates are those of the eigenbasis.
    """

    values: np.ndarray
    basis: np.ndarray | None

    @classmethod
    def of(cls, problem: Problem, dim: int) -> "Covariance":
        """Return the covariance of a problem in `dim` dimensions."""
        inputs = problem.inputs
        basis = inputs.basis
        if basis is not None and basis.shape != (dim, dim):
            raise InputError(
                f"there are {dim} weights; the spectrum was measured on "
                f"{basis.shape[1]} inputs, {basis.shape[0]} of which vary. Give one "
                "weight per input, all of which must vary."
            )
        values = np.repeat(np.asarray(inputs.eigenvalues), inputs.level_dims(dim))
        return cls(values=values, basis=None if basis is None else np.asarray(basis))

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """Return Sigma applied to the last axis."""
        if self.basis is None:
            return vectors * self.values
        return ((vectors @ self.basis.T) * self.values) @ self.basis

    def eigensystem(self, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Return eigenvalues and eigenvectors (as columns) of the first block."""
        if self.basis is None:
            return self.values[:first], np.eye(first)
        if first == self.values.size:
            return self.values, self.basis.T
        return np.linalg.eigh(self._matrix[:first, :first])

    def regression(self, first: int, rest: np.ndarray) -> np.ndarray:
        """Return S^-1 C rest: what the frozen inputs add to the first ones."""
        if self.basis is None or first == self.values.size:
            return np.zeros(first)
        matrix = self._matrix
        return np.linalg.solve(matrix[:first, :first], matrix[:first, first:] @ rest)

    @property
    def _matrix(self) -> np.ndarray:
        if self.basis is None:
            return np.diag(self.values)
        return (self.basis.T * self.values) @ self.basis


def _require_plain(problem: Problem) -> None:
    """Raise for weight decay and frozen levels."""
    optimizer = problem.optimizer
    if np.any(np.asarray(optimizer.weight_decay) != 0):
        raise InputError(
            "weight_decay is not 0; the closed form has none. Leave it out, or solve."
        )
    if optimizer.trainable is not None:
        raise InputError(
            "trainable freezes levels; linear_weights has an argument of its own. Use "
            "trained, the number of components that learn."
        )


def _vectors(weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return student and teacher weights as vectors of the same length."""
    student, teacher = (
        np.asarray(checks.as_array(name, array), dtype=float)
        for name, array in zip(("W", "W_teacher"), require_pair(weights), strict=True)
    )
    if student.size != teacher.size or student.size != student.shape[-1]:
        raise InputError(
            f"W has the shape {student.shape}, W_teacher {teacher.shape}; both must be "
            "(N,) or (1, N), the weights of one unit each."
        )
    for name, array in (("W", student), ("W_teacher", teacher)):
        checks.require_finite(name, array)
    return student.ravel(), teacher.ravel()
