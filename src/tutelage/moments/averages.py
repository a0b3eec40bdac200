"""What the theory averages (`Averages`, `Moments`), and safe roots, ratios and arcsines for it.

The fields z_a, a = 1..n, are the K student fields and then the M teacher fields, jointly Gaussian with covariance C and
means m (the hidden biases; None where there are none). g_a is the activation of field a. Indices i, j run over students.

To add a closed form: subclass `Averages` and add to `FAMILIES` in moments/matrices.py for which pairs it
holds. Tests compare each family with quadrature and with Monte Carlo.

arcsin is one polynomial, so that a loop over many of them is vectorized: they are most of the right-hand side. XLA's own
goes through atan2, one number at a time: 8 ns each on a CPU against 1.3. With P(s) = arcsin(sqrt s) / sqrt s,
    arcsin x = x P(x^2)                               for 0 <= x <= 1/2,
    arcsin x = pi/2 - 2 z P(z^2),  z^2 = (1 - x) / 2  for 1/2 <= x <= 1,
so that P is needed on [0, 1/4] only, far from its singularity at 1: thirteen terms give 1e-16. The result is within three
units in the last place of the true one everywhere (tests/moments/test_numerics.py).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from math import comb
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.problem import Problem
from tutelage.problem.activation import Activation
from tutelage.rules import Context, Parameters

Covariance = Float[Array, "n n"]  # of the fields
Means = Float[Array, " n"] | None  # of the fields
ROOM = 2**22  # numbers that one array of an average may hold: 32 MiB
TERMS = 13


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


class Situation(eqx.Module):
    """What the moments of a rule depend on: covariance and mean of the fields, readout and biases, what else a rule sees."""

    problem: Problem
    C: Covariance
    mean: Means
    parameters: Parameters
    context: Context

    def of_task(self, task: int) -> "Situation":
        """What one task sees of it: its own teacher and head."""
        problem, K, units = self.problem, self.problem.student.hidden, self.problem.teacher.units(task)
        fields, context = np.r_[0:K, K + units.start : K + units.stop], self.context
        own = Parameters(problem.teacher.head(self.parameters.readout, task), self.parameters.bias)
        if context.overlaps is not None:
            R, Q, T = context.overlaps
            context = replace(context, overlaps=(R[:, units], Q, T[units, units]))
        mean = None if self.mean is None else self.mean[fields]
        return Situation(problem.tasks[task], self.C[fields][:, fields], mean, own, context)


class MeanUpdate(eqx.Module):
    """The mean of what one sample does: A, B for the vectors, and what moves the readout and the biases.

    For a gradient rule these are minus the derivatives of the loss by Q (twice), R, readout and bias.
    """

    A: Float[Array, "K K"]
    B: Float[Array, "K M"]
    readout: Float[Array, "*outputs K"]
    bias: Float[Array, " K"]


class Moments(eqx.Module):
    """Mean and covariance of the update of one sample. A mixture has them for each level (`MixtureMoments.of_levels`)."""

    def matrices(self, at: Situation, flow: bool) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        """The mean update and G; G = 0 for gradient flow."""
        raise NotImplementedError


def _coefficients() -> list[float]:
    """(P(s) - 1) / s in powers of s: its Taylor series, whose terms are all positive, interpolated at Chebyshev points."""
    taylor = np.polynomial.Polynomial([comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(1, 60)])
    fit = np.polynomial.Chebyshev.interpolate(taylor, TERMS - 1, domain=(0, 0.25))
    return fit.convert(kind=np.polynomial.Polynomial).coef.tolist()


COEFFICIENTS = _coefficients()


@jax.custom_jvp
def safe_arcsin(x: ArrayLike) -> Array:
    """arcsin that stays finite, with finite gradient, where rounding has pushed |x| to one or beyond."""
    size = jnp.minimum(jnp.abs(x), 1.0)
    far = size > 0.5
    s = jnp.where(far, (1 - size) / 2, size**2)
    z = jnp.where(far, jnp.sqrt(s), size)
    rest = COEFFICIENTS[-1]
    for c in COEFFICIENTS[-2::-1]:
        rest = rest * s + c
    angle = z + z * s * rest
    angle = jnp.where(far, jnp.pi / 2 - 2 * angle, angle)
    return jnp.where(x < 0, -angle, angle)


@safe_arcsin.defjvp
def _slope(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """d arcsin x = dx / sqrt(1 - x^2), and nothing where |x| has reached one."""
    (x,), (dx,) = primals, tangents
    return safe_arcsin(x), safe_ratio(dx, safe_sqrt((1 - x) * (1 + x)))


def safe_sqrt(x: ArrayLike) -> Array:
    """sqrt that is zero, with zero gradient, where rounding has made x negative (or x is zero)."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def safe_ratio(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, and zero where y is zero (a unit of zero norm is correlated with nothing)."""
    nonzero = y != 0
    return jnp.where(nonzero, x / jnp.where(nonzero, y, 1.0), 0.0)


def in_turn(function: Callable[..., Array], *arguments: ArrayLike, size: int) -> Array:
    """`jax.vmap(function)`, but only as many at once as there is `ROOM` for, where one of them holds `size` numbers.

    Nor do derivatives hold more: what was computed in an earlier turn is computed again.
    """
    at_once = max(1, ROOM // size)
    if np.shape(arguments[0])[0] <= at_once:
        return jax.vmap(function)(*arguments)
    return jax.lax.map(jax.checkpoint(lambda each: function(*each)), arguments, batch_size=at_once)
