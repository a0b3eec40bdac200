"""Sign-SGD."""

import jax.numpy as jnp
import numpy as np

from tutelage.problem import Problem
from tutelage.stream.optimizers.base import SPREAD_NOTE, Moment, Motion, StepTheory
from tutelage.training.optimizers import SignSGD


class SignSGDTheory(StepTheory):
    """f_l = sqrt(2 lam_l / pi) with delta / |delta| averaged, noise without lam_l.

    A coordinate of the gradient is Gaussian, of deviation sqrt(lam_l) |delta_k| / sqrt(N).
    Its sign moves with its mean divided by this deviation, times sqrt(2 / pi); the sign's
    square is one in every level. For one sample delta / |delta| is the sign of delta.
    """

    serves = (SignSGD,)

    def notes(self, problem: Problem, dim: int | None) -> list[str]:
        return [SPREAD_NOTE]

    def motion(self, moment: Moment) -> Motion:
        lam = moment.eigenvalues
        moves = jnp.where(lam > 0, 1.0, 0.0)
        return Motion(
            force=np.sqrt(2.0 / np.pi) * jnp.sqrt(lam),
            noise=moment.eta**2 * moves * moment.G,
            update=moment.update,
        )
