"""What the averages of a rule must supply, and those of squared loss, which have closed forms."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp

from tutelage._types import Array
from tutelage.averages import Averages
from tutelage.moments.matrices import Pull, pull, spread
from tutelage.problem import Problem
from tutelage.rules import Context, Parameters


class Moments(eqx.Module):
    """Mean and covariance of the update, as functions of the covariance C (students first) and mean of the fields."""

    @abstractmethod
    def matrices(
        self, problem: Problem, C: Array, mean: Array | None, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[Pull, Array]:
        """A, B (with what moves readout and bias) and G; G = 0 for gradient flow."""


class ClosedMoments(Moments):
    """Squared loss on real labels: closed forms, or quadrature of pairs of fields."""

    averages: Averages

    def matrices(
        self, problem: Problem, C: Array, mean: Array | None, parameters: Parameters, context: Context, flow: bool
    ) -> tuple[Pull, Array]:
        v, v_teacher = parameters.readout, jnp.asarray(problem.teacher.readout)
        p = pull(self.averages, C, mean, v, v_teacher)
        if flow:
            return p, jnp.zeros_like(p.A)
        return p, spread(self.averages, C, mean, v, v_teacher, jnp.asarray(problem.noise))
