"""How the updates of single samples move the weights: `SGD` with its momentum, `GradientDescent`.

tu.Problem(student, teacher, optimizer=tu.optimizers.SGD(lr=0.5, batch=4))
"""

from tutelage.training.optimizers import SGD, GradientDescent, SlowMomentum

__all__ = ["SGD", "GradientDescent", "SlowMomentum"]
