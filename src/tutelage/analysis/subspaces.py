"""Subspaces of student and teacher, for students whose units can rotate.

A quadratic student y = sum_k v_k lambda_k^2 depends on W^T diag(v) W only, a linear one
on sum_k v_k w_k. Units that are rotated among themselves give the same output, so there
is no assignment of units. What can be compared are the spans of the vectors that
matter: for quadratic units all of them, for linear units the sums of each output.
"""

import numpy as np
from jaxtyping import Float

from tutelage.problem import Network, Problem

LEAST_SHARE = 1e-12  # of the largest eigenvalue: below it a direction is rounding


def has_rotations(problem: Problem | None) -> bool:
    """Return True if rotations among the student units leave the output as it is."""
    if problem is None:
        return False
    student = problem.student
    return student.bias is None and (_is_linear(student) or _is_quadratic(student))


def _is_linear(network: Network) -> bool:
    """Return True for g(x) = a x."""
    coefficients = network.activation.polynomial
    return coefficients is not None and _degrees(coefficients) == {1}


def _is_quadratic(network: Network) -> bool:
    """Return True for g(x) = a x^2 + c with one output.

    Several outputs weight the units differently, and so fix them.
    """
    coefficients = network.activation.polynomial
    if coefficients is None or np.ndim(network.readout) > 1:
        return False
    return _degrees(coefficients) - {0} == {2}


def _degrees(coefficients: tuple[float, ...]) -> set[int]:
    return {degree for degree, value in enumerate(coefficients) if value != 0}


def principal_cosines(
    R: Float[np.ndarray, "time K M"],
    Q: Float[np.ndarray, "time K K"],
    T: Float[np.ndarray, "M M"],
) -> Float[np.ndarray, "time angles"]:
    """Return the cosines of the principal angles between two spans, largest first.

    They are the singular values of Q^(-1/2) R T^(-1/2), as many as the smaller of the
    number of student units and the dimension of the teachers' span. Directions that
    are zero up to rounding belong to no span: their cosine is 0.
    """
    teacher_root = _inverse_root(T[None])
    rank = int(np.sum(np.any(teacher_root[0] != 0, axis=0)))
    whitened = np.swapaxes(_inverse_root(Q), 1, 2) @ R @ teacher_root
    cosines = np.linalg.svd(whitened, compute_uv=False)
    return np.clip(cosines[:, : min(R.shape[1], rank)], 0.0, 1.0)


def _inverse_root(gram: np.ndarray) -> np.ndarray:
    """Return U / sqrt(values) as columns, zero where a value is rounding."""
    values, vectors = np.linalg.eigh(gram)
    least = LEAST_SHARE * np.max(values, axis=-1, keepdims=True)
    counts = (values > least) & (values > 0)
    scale = np.zeros_like(values)
    scale[counts] = 1 / np.sqrt(values[counts])
    return vectors * scale[..., None, :]


def compared_overlaps(
    problem: Problem, variables: dict[str, np.ndarray], T: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return R, Q and T of the vectors that the output depends on.

    Those of linear units are one for each output, the sum of the units by the readouts.
    """
    R = variables["R"]
    Q = variables["Q"]
    if _is_linear(problem.student):
        fixed = np.broadcast_to(
            problem.student.readout, (len(R), *np.shape(problem.student.readout))
        )
        sums = _with_outputs(variables.get("readout", fixed))
        R = sums @ R
        Q = sums @ Q @ np.swapaxes(sums, 1, 2)
    if _is_linear(problem.labeler):
        sums = np.atleast_2d(np.asarray(problem.labeler.readout))
        R = R @ sums.T
        T = sums @ T @ sums.T
    return R, Q, T


def _with_outputs(readout: np.ndarray) -> np.ndarray:
    """Return readouts (time, units) or (time, outputs, units) as the latter."""
    return readout[:, None, :] if readout.ndim == 2 else readout
