"""Perfect learning: the state in which each teacher has its copy among the students, and extra students are silent."""

import jax.numpy as jnp
import numpy as np

from tutelage._errors import InputError
from tutelage._types import Array
from tutelage.dynamics.overlaps import Overlaps
from tutelage.problem import Problem


def copies_of_teachers(problem: Problem) -> np.ndarray:
    """U0 (K, M): which student is a copy (1) or a mirror image (-1) of which teacher; extra students have a row of zeros."""
    from scipy.optimize import linear_sum_assignment

    student, teacher = problem.student, problem.teacher
    K, M = student.hidden, teacher.hidden
    if student.activation != teacher.activation:
        raise InputError(
            f"the student is {student.activation.name!r} and the teacher {teacher.activation.name!r}; only equal "
            "activations have a perfect solution. Give both the same."
        )
    if K < M:
        raise InputError(f"{K} student units cannot copy {M} teachers, so there is no perfect solution; use hidden={M}.")
    if K > M and not _silent_when_extra(problem):
        raise InputError(
            f"{K - M} student units are left over, and their outputs are not held at zero (trained readouts or biases, or "
            f"g(0) != 0); there is no isolated perfect solution. Use hidden={M}."
        )
    mirror = -1.0 if student.activation.parity == -1 and not problem.biased else 1.0
    fits = np.stack([_fits(problem, 1.0), _fits(problem, mirror)])
    out_of_order = np.abs(np.arange(K)[:, None] - np.arange(M)) / (1e3 * K * K)  # of equal choices, take the natural one
    cost = np.where(fits[0], 0.0, np.where(fits[1], 1e-2, 1.0)) + out_of_order
    rows, columns = linear_sum_assignment(cost)
    if not np.all(fits[:, rows, columns].any(axis=0)):
        raise InputError(
            f"no assignment of students to teachers matches readouts {np.asarray(student.readout).tolist()} to "
            f"{np.asarray(teacher.readout).tolist()} (and biases); set them equal, or train them."
        )
    U0 = np.zeros((K, M))
    U0[rows, columns] = np.where(fits[0][rows, columns], 1.0, mirror)
    return U0


def _fits(problem: Problem, sign: float) -> np.ndarray:
    """(K, M): can this student, with its fixed readout and bias, be this teacher (or its mirror image)?"""
    student, teacher = problem.student, problem.teacher
    v, v_teacher = np.asarray(student.readout), np.asarray(teacher.readout)
    fits = np.full((v.size, v_teacher.size), True)
    if not student.train_readout:
        fits &= np.isclose(v[:, None], sign * v_teacher, rtol=1e-12, atol=0)
    if problem.biased and not student.train_bias:
        b, b_teacher = (np.zeros(n.hidden) if n.bias is None else np.asarray(n.bias) for n in (student, teacher))
        fits &= np.isclose(b[:, None], b_teacher, rtol=1e-12, atol=0)
    return fits


def _silent_when_extra(problem: Problem) -> bool:
    student = problem.student
    fixed = not (student.train_readout or problem.biased)
    return fixed and abs(float(student.activation(jnp.zeros(())))) < 1e-12


def perfect_overlaps(problem: Problem, t: Array, U0: np.ndarray) -> Overlaps:
    """The state in which students are U0 times the teachers, with the readouts and biases of those."""
    copied, student, teacher = np.abs(U0).sum(axis=1) > 0, problem.student, problem.teacher
    readout = np.where(copied, U0 @ np.asarray(teacher.readout), np.asarray(student.readout))
    if student.activation.parity != -1:
        readout = np.where(copied, np.abs(U0) @ np.asarray(teacher.readout), readout)
    bias = None
    if problem.biased:
        bias = jnp.asarray(U0 @ (np.zeros(teacher.hidden) if teacher.bias is None else np.asarray(teacher.bias)))
    r = jnp.asarray(U0) @ t
    return Overlaps(r, r @ U0.T, jnp.asarray(readout), bias, None)
