"""What a pair of activations must supply: five Gaussian averages. Everything else follows from them.

The fields z_a, a = 1..n, are the K student fields and then the M teacher fields, jointly Gaussian with covariance C and
means m (the hidden biases; None where there are none). g_a is the activation of field a. Indices i, j run over students.

To add a closed form: subclass `Averages`, say in `covers` which pairs it serves, and add it to `FAMILIES` in
averages/__init__.py. Tests compare each family with quadrature and with Monte Carlo.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tutelage._types import Array
from tutelage.problem.activation import Activation

ROOM = 2**22  # numbers that one array of an average may hold: 32 MiB


class Averages(eqx.Module):
    """Gaussian averages for K students with one activation and M teachers with another.

    error_rounding: a generalization error this small is moved by rounding alone, for networks of order one.
    """

    error_rounding: ClassVar[float] = 0.0

    @classmethod
    @abstractmethod
    def covers(cls, student: Activation, teacher: Activation, biased: bool) -> bool:
        """Does this family hold for these activations (with hidden biases)?"""

    @abstractmethod
    def outputs(self, C: Array, mean: Array | None) -> Array:
        """E[g_a g_b], shape (n, n)."""

    @abstractmethod
    def slopes(self, C: Array, mean: Array | None) -> Array:
        """E[g'_i g'_a], shape (K, n)."""

    @abstractmethod
    def curvatures(self, C: Array, mean: Array | None) -> Array:
        """E[g''_i g_a], shape (K, n)."""

    @abstractmethod
    def forces(self, C: Array, mean: Array | None) -> Array:
        """E[g'_i g_a], shape (K, n): moves the biases, and nothing else."""

    @abstractmethod
    def contrast(self, C: Array, mean: Array | None, w: Array) -> Array:
        """E[g'_i g'_j (sum_a w_a g_a)^2], shape (K, K)."""


def in_turn(function: Callable[..., Array], *arguments: Any, size: int) -> Array:
    """`jax.vmap(function)`, but only as many at once as there is `ROOM` for, where one of them holds `size` numbers.

    Nor do derivatives hold more: what was computed in an earlier turn is computed again.
    """
    at_once = max(1, ROOM // size)
    if len(arguments[0]) <= at_once:
        return jax.vmap(function)(*arguments)
    return jax.lax.map(jax.checkpoint(lambda each: function(*each)), arguments, batch_size=at_once)


def safe_sqrt(x: Any) -> Array:
    """sqrt that is zero, with zero gradient, where rounding has made x negative (or x is zero)."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def safe_ratio(x: Any, y: Any) -> Array:
    """x / y, and zero where y is zero (a unit of zero norm is correlated with nothing)."""
    nonzero = y != 0
    return jnp.where(nonzero, x / jnp.where(nonzero, y, 1.0), 0.0)
