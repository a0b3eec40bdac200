"""How the updates of single samples move the weights: `SGD` and its momentum.

tu.Problem(student, teacher, optimizer=tu.optimizers.SGD(lr=0.5, batch=4))
"""

from tutelage.training.optimizers import SGD, SlowMomentum

__all__ = ["SGD", "SlowMomentum"]
