"""The optimizers, which turn the updates of single samples into steps of the weights.

tu.Problem(student, teacher, optimizer=tu.optimizers.Adam(lr=0.3, memory=1.0))
"""

from tutelage.training.optimizers import (
    SGD,
    AdaGrad,
    Adam,
    GradientDescent,
    Muon,
    Optimizer,
    RMSprop,
    SignSGD,
    SlowMomentum,
)

__all__ = [
    "SGD",
    "AdaGrad",
    "Adam",
    "GradientDescent",
    "Muon",
    "Optimizer",
    "RMSprop",
    "SignSGD",
    "SlowMomentum",
]
