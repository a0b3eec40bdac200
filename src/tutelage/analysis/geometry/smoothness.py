"""Where the error has second derivatives.

Closed forms hold everywhere, with one exception: the error of ReLU units has none where a student vanishes (parallel vectors
are no harm: what diverges there in the space of overlaps cancels in the space of weights). Averages by quadrature hold
everywhere if both functions are declared smooth, else away from vectors that vanish or are parallel.
"""

import numpy as np

from tutelage._errors import InputError
from tutelage.dynamics.error import averages_of
from tutelage.moments.quadrature import QuadratureAverages
from tutelage.moments.relu import ReluAverages
from tutelage.problem import Problem

ALIKE = 1e-9  # vectors whose correlation is this close to one are parallel


def require_second_derivative(problem: Problem, students: np.ndarray, teachers: np.ndarray) -> None:
    """Refuse vectors (K, S), (M, S) at which the Hessian does not exist, or is not known to."""
    student, teacher = problem.student.activation, problem.teacher.activation
    family = averages_of(problem)
    by_rule = isinstance(family, QuadratureAverages) and not (student.smooth and teacher.smooth)
    if not by_rule and not isinstance(family, ReluAverages):
        return
    name = (teacher if student.smooth else student).name
    lengths = np.linalg.norm(students, axis=1)
    if np.any(lengths == 0):
        raise InputError(
            f"student unit {int(np.argmin(lengths)) + 1} has weights 0 and {name!r} is not known to be smooth; the error "
            f"needs a second derivative there. Move the unit away from 0{_declare(by_rule)}."
        )
    vectors = np.concatenate([students, teachers])
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    parallel = np.argwhere(np.abs(np.triu(unit @ unit.T, 1))[: len(students)] > 1 - ALIKE)
    if by_rule and parallel.size:
        i, j = (int(k) for k in parallel[0])
        other = f"student {j + 1}" if j < len(students) else f"teacher {j - len(students) + 1}"
        raise InputError(
            f"student {i + 1} and {other} are parallel and {name!r} is not known to be smooth; its averages need distinct "
            f"fields to be differentiated. Turn the vectors apart{_declare(by_rule)}."
        )


def _declare(by_rule: bool) -> str:
    return ", or declare a smooth function with Activation(name, function)" if by_rule else ""
