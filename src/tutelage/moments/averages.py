"""What a pair of activations must supply: five Gaussian averages. Everything else follows from them.

The fields z_a, a = 1..n, are the K student fields and then the M teacher fields, jointly Gaussian with covariance C and
means m (the hidden biases; None where there are none). g_a is the activation of field a. Indices i, j run over students.

To add a closed form: subclass `Averages` and add to `FAMILIES` in moments/matrices.py for which pairs it
holds. Tests compare each family with quadrature and with Monte Carlo.
"""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
from jaxtyping import Float

from tutelage._types import Array
from tutelage.problem.activation import Activation

Covariance = Float[Array, "n n"]  # of the fields
Means = Float[Array, " n"] | None  # of the fields


class Averages(eqx.Module):
    """Gaussian averages for K student units with one activation and M teacher units with another.

    error_rounding: a generalization error this small is moved by rounding alone, for networks of order one.
    """

    student: Activation = eqx.field(static=True)
    teacher: Activation = eqx.field(static=True)
    K: int = eqx.field(static=True)
    M: int = eqx.field(static=True)
    error_rounding: ClassVar[float] = 0.0

    @abstractmethod
    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        """E[g_a g_b]."""

    @abstractmethod
    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        """E[g'_i g'_a]."""

    @abstractmethod
    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        """E[g''_i g_a]."""

    @abstractmethod
    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        """E[g'_i g_a]: moves the biases, and nothing else."""

    @abstractmethod
    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        """E[g'_i g'_j Delta^2] with the error Delta = sum_a w_a g_a: the noise of a step."""
