"""The loss functions that a student may minimize.

    tu.Problem(student, teacher, loss=tu.losses.Huber(0.5))

Any JAX function loss(output, label) is a loss too.
"""

from tutelage.training.losses import (
    Absolute,
    CrossEntropy,
    Function,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Squared,
)

__all__ = [
    "Absolute",
    "CrossEntropy",
    "Function",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Squared",
]
