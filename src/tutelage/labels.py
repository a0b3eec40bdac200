"""The laws of the labels, given the fields of the teacher.

    tu.Problem(student, teacher, labels=tu.labels.Sign(flip=0.1), loss="logistic")

Any JAX function label(rho, xi) is a law of labels too.
"""

from tutelage.problem.labels import (
    Argmax,
    Function,
    Labels,
    Logistic,
    Real,
    Sign,
)

__all__ = [
    "Argmax",
    "Function",
    "Labels",
    "Logistic",
    "Real",
    "Sign",
]
