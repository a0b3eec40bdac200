"""Plain SGD, and SGD with clipped coordinates."""

import jax.numpy as jnp

from tutelage.problem import Problem
from tutelage.stream.optimizers.base import SPREAD_NOTE, Moment, Motion, StepTheory
from tutelage.training.optimizers import SGD


class SGDTheory(StepTheory):
    """f_l = lam_l, noise (eta^2 / batch) lam_l G.

    The averages of clipped coordinates include the eigenvalues (`SGD.responses`).
    """

    serves = (SGD,)

    def notes(self, problem: Problem, dim: int | None) -> list[str]:
        if problem.optimizer.averages_batches:
            return [SPREAD_NOTE]
        return []

    def motion(self, moment: Moment) -> Motion:
        lam = moment.eigenvalues
        if moment.problem.optimizer.averages_batches:
            lam = jnp.ones_like(lam)
        noise = (moment.eta**2 / moment.samples) * lam * moment.G
        return Motion(force=lam, noise=noise, update=moment.update)
