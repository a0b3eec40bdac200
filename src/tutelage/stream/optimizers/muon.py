"""Muon."""

import jax.numpy as jnp

from tutelage.stream.optimizers.base import Moment, Motion, StepTheory
from tutelage.training.optimizers import Muon


class MuonTheory(StepTheory):
    """f_l = lam_l / sqrt(m) with P averaged, noise eta^2 (lam_l / m) E[P P^T].

    P = (F F^T)^(-1/2) F with F = (delta_kb). The samples of a batch are orthogonal in the
    limit, of squared length N m with m the mean eigenvalue, so G G^T of the gradient is
    proportional to F F^T.
    """

    serves = (Muon,)

    def motion(self, moment: Moment) -> Motion:
        lam = moment.eigenvalues
        mean = jnp.sum(jnp.asarray(moment.problem.inputs.weights))
        return Motion(
            force=lam / jnp.sqrt(mean),
            noise=moment.eta**2 * (lam / mean) * moment.G,
            update=moment.update,
        )
