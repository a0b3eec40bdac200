"""What the theory averages (`Averages`, `Moments`), the closed forms, and safe roots, ratios and arcsines for them.

The fields z_a, a = 1..n, are the K student fields and then the M teacher fields, jointly Gaussian with covariance C and
means m (the hidden biases; None where there are none). g_a is the activation of field a. Indices i, j run over students.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Container
from dataclasses import replace
from functools import partial
from itertools import product
from math import comb, factorial, prod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyder

from tutelage._types import Array, ArrayLike
from tutelage.problem import Problem
from tutelage.problem.activation import NAMED, Activation
from tutelage.rules import Context, Parameters

Covariance = Float[Array, "n n"]  # of the fields
Means = Float[Array, " n"] | None  # of the fields
ROOM = 2**22  # numbers that one array of an average may hold: 32 MiB
TERMS = 13  # of the polynomial in `safe_arcsin`
SOFTNESS = {NAMED["erf"]: 1.0, NAMED["sign"]: 0.0}
# pairs of pairs at once: XLA shares more than SMALL_TURN among threads, which pays from LARGE_TURN / 8 in all
SMALL_TURN, LARGE_TURN, ON_GPU = 2**9, 2**17, 2**24  # a GPU waits for launches
NODES = 48  # of the integral over four ReLU fields
ROUNDING = 4 * float(np.finfo(float).eps)  # a difference no larger than this share is none; its root would be 1e-8
SAME = 4e-15  # fields whose correlation differs from one by no more than rounding are one field (costs 1e-9 at most)
Index = Int[np.ndarray, "turns pairs"]


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
        return Situation(problem.task(task), self.C[fields][:, fields], mean, own, context)


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

    def error_and_loss(self, at: Situation) -> tuple[Float[Array, "*tasks"], Float[Array, "*tasks"]]:
        """The generalization error (or the metric of the labels) and the population training loss, of each task."""
        raise NotImplementedError


# (P(s) - 1) / s of `safe_arcsin` in powers of s: its Taylor series, whose terms are all positive, at Chebyshev points
_TAYLOR = Polynomial([comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(1, 60)])
_FIT = np.polynomial.Chebyshev.interpolate(_TAYLOR, TERMS - 1, domain=(0, 0.25))
COEFFICIENTS: list[float] = _FIT.convert(kind=Polynomial).coef.tolist()


@jax.custom_jvp
def safe_arcsin(x: ArrayLike) -> Array:
    """arcsin that stays finite, with finite gradient, where rounding has pushed |x| to one or beyond.

    One polynomial, so that a loop over many of them is vectorized: they are most of the right-hand side. XLA's own goes
    through atan2, one number at a time: 8 ns each on a CPU against 1.3. With P(s) = arcsin(sqrt s) / sqrt s,
        arcsin x = x P(x^2)                               for 0 <= x <= 1/2,
        arcsin x = pi/2 - 2 z P(z^2),  z^2 = (1 - x) / 2  for 1/2 <= x <= 1,
    so that P is needed on [0, 1/4] only, far from its singularity at 1: thirteen terms give 1e-16. The result is within
    three units in the last place of the true one everywhere (tests/moments/test_numerics.py).
    """
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


# d arcsin x = dx / sqrt(1 - x^2), and nothing where |x| has reached one
safe_arcsin.defjvps(lambda dx, _, x: safe_ratio(dx, safe_sqrt((1 - x) * (1 + x))))


def safe_sqrt(x: ArrayLike) -> Array:
    """sqrt that is zero, with zero gradient, where rounding has made x negative (or x is zero)."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def safe_ratio(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, and zero where y is zero (a unit of zero norm is correlated with nothing)."""
    nonzero = y != 0
    return jnp.where(nonzero, x / jnp.where(nonzero, y, 1.0), 0.0)


def array_module(*arrays: object) -> Any:
    """numpy if all of these are NumPy arrays, so that nothing is traced or compiled; else jax.numpy."""
    return np if all(isinstance(x, np.ndarray) for x in arrays) else jnp


def triangle(K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of the upper triangle of a matrix, and the place (K, K) of each entry among them."""
    rows, columns = np.triu_indices(K)
    place = np.zeros((K, K), int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return rows, columns, place


def in_turn(function: Callable[..., Array], *arguments: ArrayLike, size: int) -> Array:
    """`jax.vmap(function)`, but only as many at once as there is `ROOM` for, where one of them holds `size` numbers."""
    # Nor do derivatives hold more: what was computed in an earlier turn is computed again.
    at_once = max(1, ROOM // size)
    if np.shape(arguments[0])[0] <= at_once:
        return jax.vmap(function)(*arguments)
    return jax.lax.map(jax.checkpoint(lambda each: function(*each)), arguments, batch_size=at_once)


class ErfAverages(Averages):
    """Students erf(x / sqrt 2); teachers the same, or sign: all averages are arcsines (Saad & Solla 1995; I2, I3, I4, J2).

    Both are one family, because erf(x / sqrt(2 s)) is the mean of sign(x + sqrt(s) xi) over a standard normal xi: the field
    simply gains the variance s. With d_a = s_a + C_aa (s = 1 for erf, 0 for sign):
        E[g_a g_b]           = (2/pi) asin(C_ab / sqrt(d_a d_b))
        E[g'_a g'_b]         = (2/pi) / sqrt(d_a d_b - C_ab^2)
        E[g''_i g_a]         = -(2/pi) C_ia / (d_i sqrt(d_i d_a - C_ia^2))
    Four fields: g' is a Gaussian function, which only tilts the law of the other fields, as if the softened fields i and j
    were known to be zero. What is left of the others then is C_ab|ij = C_ab - x_a x_b - y_a y_b, d_a|ij likewise, where x
    and y are the parts along field i and along what is left of field j, and
        E[g'_i g'_j g_a g_b] = E[g'_i g'_j] (2/pi) asin(C_ab|ij / sqrt(d_a|ij d_b|ij)),
    which is the textbook's (4/pi^2) asin(L0 / sqrt(L1 L2)) / sqrt(L4) with L4 = d_i d_j - C_ij^2, L0 = L4 C_ab|ij.
    Averages of two fields also take NumPy arrays, with any leading axes: `LocalDynamics` needs no program for them.
    """

    @property
    def softness(self) -> tuple[float, ...]:
        """s of each field."""
        return (SOFTNESS[self.student],) * self.K + (SOFTNESS[self.teacher],) * self.M

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        d = _d(C, self.softness)
        sines = C / array_module(C).sqrt(d[..., :, None] * d[..., None, :])
        return (2 / np.pi) * _angles(sines, self.softness, *np.indices(C.shape[-2:]))

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        return (2 / np.pi) / _root(C, _d(C, self.softness), self.K)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        K, d = self.K, _d(C, self.softness)
        return -(2 / np.pi) * C[..., :K, :] / (d[..., :K, None] * _root(C, d, K))

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Any, "K n"]:
        return np.zeros((self.K, C.shape[-1]))  # g' is even and g odd: without biases nothing pulls on them

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        """Each pair of students i <= j and each pair of fields a <= b once; some pairs of fields at a time."""
        K, d = self.K, _d(C, self.softness)
        i, j, place = triangle(K)
        root = jax.lax.rsqrt(d)
        c = C * (root[:, None] * root)
        along, c_ij = c[:, i], c[i, j]
        across = (c[:, j] - c_ij * along) * jax.lax.rsqrt(1 - c_ij**2)  # (n, pairs of students)
        left = jax.lax.rsqrt(1 - along**2 - across**2)
        w, x, y, s = jnp.asarray(w), along * left, across * left, left
        a, b, counts = _in_turns(C.shape[0], i.size)

        @jax.checkpoint
        def some(turn: tuple[Array, Array, Array]) -> Array:
            """sum_ab w_a w_b arcsin over some pairs of fields, for all pairs of students."""
            a, b, count = turn
            sines = c[a, b][:, None] * s[a] * s[b] - x[a] * x[b] - y[a] * y[b]
            return (count * w[a] * w[b]) @ _angles(sines, self.softness, a[:, None], b[:, None])

        angles = jnp.sum(jax.lax.map(some, (a, b, counts)), axis=0)
        return (2 / jnp.pi) * self.slopes(C, mean)[:, :K] * angles[place]


def _d(C: Covariance, softness: tuple[float, ...]) -> Float[Any, " n"]:
    own, xp = np.eye(len(softness), dtype=bool), array_module(C)
    return xp.sum(xp.where(own, C, 0.0), axis=-1) + np.array(softness)  # a mask joins the loops around it, unlike a gather


def _root(C: Covariance, d: Float[Any, " n"], K: int) -> Float[Any, "K n"]:
    """sqrt(d_i d_a - C_ia^2)."""
    return array_module(C).sqrt(d[..., :K, None] * d[..., None, :] - C[..., :K, :] ** 2)


def _angles(sines: Array | np.ndarray, softness: tuple[float, ...], a: ArrayLike, b: ArrayLike) -> Any:
    """arcsin for fields a and b; sign times itself is one, which the arcsine of a rounded one would miss by 1e-8."""
    hard, xp = np.array(softness) == 0, array_module(sines)
    angles = np.arcsin(np.clip(sines, -1.0, 1.0)) if xp is np else safe_arcsin(sines)
    return xp.where((a == b) & xp.asarray(hard)[a], np.pi / 2, angles) if hard.any() else angles


def _in_turns(n: int, width: int) -> tuple[Index, Index, Float[np.ndarray, "turns pairs"]]:
    """The pairs a <= b of n fields and how often each counts, (turns, pairs): as many at a time as there is room for."""
    # Always two turns on a CPU: XLA computes what a loop reads before it, and would else compute roots for each pair of pairs.
    a, b = np.triu_indices(n)
    few, on_cpu = a.size * width <= LARGE_TURN // 8, jax.default_backend() == "cpu"
    at_once = ON_GPU if not on_cpu else SMALL_TURN if few else LARGE_TURN
    turns = max(2 if on_cpu else 1, -(-a.size * width // at_once))
    missing = -a.size % turns
    counts = np.pad(np.where(a == b, 1.0, 2.0), (0, missing))  # what fills the last turn counts nothing
    a, b = (np.pad(z, (0, missing)) for z in (a, b))
    return a.reshape(turns, -1), b.reshape(turns, -1), counts.reshape(turns, -1)


class ReluAverages(Averages):
    """Students and teachers both ReLU: arc-cosine averages, and the four-point one as a smooth one-dimensional integral.

    With c the correlation of fields a and b and theta their angle (cos theta = c):
        E[g_a g_b]   = sqrt(C_aa C_bb) (sin theta + (pi - theta) cos theta) / 2 pi       (Cho & Saul 2009)
        E[g'_a g'_b] = (pi - theta) / 2 pi
        E[g''_i g_a] = sqrt(C_ii C_aa - C_ia^2) / (2 pi C_ii)
    Four points, F = E[th_1 th_2 z3+ z4+] (th: step, z+: positive part): scale the covariances between {1,2} and {3,4} by t.
    By Price's theorem dF/dt = sum_{i in 12, j in 34} C_ij E[delta(z_i) th_k th_j z_l+] at C(t), where k and l are the
    partners of i and j; F(0) factorizes. Given z_i = 0, Stein's lemma turns the rest into two-dimensional orthant
    probabilities. Where two of the four fields are one and the same the dimension drops, and a closed form takes over.
    """

    error_rounding: ClassVar[float] = 1e-14  # slopes have roots of what separates two fields, so roots of its rounding

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        root, angle = _root_and_angle(C, C)
        return (root + (jnp.pi - angle) * C) / (2 * jnp.pi)

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        _, angle = _root_and_angle(C[: self.K], C)
        return (jnp.pi - angle) / (2 * jnp.pi)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        root, _ = _root_and_angle(C[: self.K], C)
        return safe_ratio(root, 2 * jnp.pi * jnp.diagonal(C)[: self.K, None])

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        """E[th_i z_a+] = (s_a + C_ia / s_i) / (2 sqrt(2 pi))."""
        s = safe_sqrt(jnp.diagonal(C))
        return (s + safe_ratio(C[: self.K], s[: self.K, None])) / (2 * jnp.sqrt(2 * jnp.pi))

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        s = safe_sqrt(jnp.diagonal(C))
        r, weight = jnp.clip(safe_ratio(C, s[:, None] * s), -1.0, 1.0), w * s
        K, n = self.K, self.K + self.M
        own, pairs = np.arange(K)[:, None], np.stack(np.triu_indices(K, 1), axis=1)
        first = lambda held: np.array([[*each, *np.delete(np.arange(n), each)] for each in held])  # noqa: E731
        total = jnp.diag(in_turn(partial(_over_fields, r, weight, 0), first(own), size=n**2))
        if K == 1:
            return total
        apart = in_turn(partial(_over_fields, r, weight, 1), first(pairs), size=2 * NODES * n**2)
        upper = jnp.zeros((K, K)).at[tuple(pairs.T)].set(apart)
        return total + upper + upper.T


def _over_fields(r: Array, weight: Array, j: int, order: Int[Array, " n"]) -> Float[Array, ""]:
    """sum_ab E[th_0 th_j z_a+ z_b+] of all fields in an order in which the students come first; j is 0 or 1."""
    r, weight, (a, b) = r[order][:, order], weight[order], np.triu_indices(order.size)
    counts, once = weight[a] * weight[b] * np.where(a == b, 1.0, 2.0), (a <= 1) | (j == 0)
    # one step function remains: the other is the same, or is absorbed by a positive part of the same field
    step, c, d = np.where(a == 0, j, 0)[once], a[once], b[once]
    total = counts[once] @ step_relu_relu(r[step, c], r[step, d], jnp.where(c == d, 1.0, r[c, d]))
    if j == 0 or order.size == 2:
        return total
    others = np.arange(2, order.size)
    total = total + counts[~once & (a == b)] @ step_step_square(r[0, 1], r[0, others], r[1, others])
    c, d, apart = a[~once & (a < b)], b[~once & (a < b)], counts[~once & (a < b)]
    return total + apart @ step_step_relu_relu(r[0, 1], r[0, c], r[0, d], r[1, c], r[1, d], r[c, d])


def step_relu_relu(rab: Array, rac: Array, rbc: Array) -> Array:
    """E[th_a z_b+ z_c+] of unit-variance fields; holds when any of them coincide."""
    roots = safe_sqrt(1 - rbc**2) + rab * safe_sqrt(1 - rac**2) + rac * safe_sqrt(1 - rab**2)
    return rbc * orthant(rab, rac, rbc) + roots / (4 * jnp.pi)


def step_step_square(rab: Array, rac: Array, rbc: Array) -> Array:
    """E[th_a th_b (z_c+)^2] of unit-variance fields, a != b."""
    rest = safe_sqrt(1 - rab**2)
    cross = safe_ratio(2 * rac * rbc - rab * (rac**2 + rbc**2), rest)
    roots = rac * safe_sqrt(1 - rac**2) + rbc * safe_sqrt(1 - rbc**2) + cross
    return orthant(rab, rac, rbc) + roots / (4 * jnp.pi)


def orthant(rab: Array, rac: Array, rbc: Array) -> Array:
    """P(z_a, z_b, z_c > 0)."""
    return 1 / 8 + (safe_arcsin(rab) + safe_arcsin(rac) + safe_arcsin(rbc)) / (4 * jnp.pi)


def step_step_relu_relu(r12: Array, r13: Array, r14: Array, r23: Array, r24: Array, r34: Array) -> Array:
    """E[th_1 th_2 z3+ z4+] of unit-variance fields, distinct or (to within rounding) coinciding."""
    value = _price_integral(r12, r13, r14, r23, r24, r34)
    value = jnp.where(r34 > 1 - SAME, step_step_square(r12, r13, r23), value)
    value = jnp.where(jnp.maximum(r13, r14) > 1 - SAME, step_relu_relu(r23, r24, r34), value)  # th_1 is absorbed
    absorbed = jnp.maximum(r12, jnp.maximum(r23, r24)) > 1 - SAME  # th_2
    return jnp.where(absorbed, step_relu_relu(r13, r14, r34), value)


def _price_integral(r12: Array, r13: Array, r14: Array, r23: Array, r24: Array, r34: Array) -> Array:
    # Plain nodes in t see a square-root singularity at t = 1 when a student meets a teacher; t = 1 - (1-u)^6 removes it.
    x, weights = np.polynomial.legendre.leggauss(NODES)
    u = (x + 1) / 2
    t, dt = jnp.asarray(1 - (1 - u) ** 6), 3 * weights * (1 - u) ** 5
    r12, r13, r14, r23, r24, r34 = (jnp.asarray(r)[..., None] for r in (r12, r13, r14, r23, r24, r34))
    slope = (
        r13 * _kernel(t * r13, r12, t * r14, t * r23, r34, t * r24)
        + r14 * _kernel(t * r14, r12, t * r13, t * r24, r34, t * r23)
        + r23 * _kernel(t * r23, r12, t * r24, t * r13, r34, t * r14)
        + r24 * _kernel(t * r24, r12, t * r23, t * r14, r34, t * r13)
    )
    both, angle = jnp.sqrt(1 - jnp.clip(r34, -1, 1) ** 2), jnp.arccos(jnp.clip(r34, -1, 1))
    start = (1 / 4 + safe_arcsin(r12) / (2 * jnp.pi)) * (both + (jnp.pi - angle) * r34) / (2 * jnp.pi)
    return start[..., 0] + jnp.sum(slope * dt, axis=-1) / jnp.sqrt(2 * jnp.pi)


def _kernel(ij: Array, ik: Array, il: Array, kj: Array, jl: Array, kl: Array) -> Array:
    """E[th_k th_j z_l+ | z_i = 0] from the correlations of the four fields i, j, k, l."""
    kk, jj, ll = 1 - ik**2, 1 - ij**2, 1 - il**2
    kj, jl, kl = kj - ik * ij, jl - ij * il, kl - ik * il
    of_kj, of_kl, of_jl = safe_sqrt(kk * jj - kj**2), safe_sqrt(kk * ll - kl**2), safe_sqrt(jj * ll - jl**2)
    through_k = safe_ratio(kl, safe_sqrt(kk)) * _quadrant(jl * kk - kj * kl, of_kj * of_kl)
    through_j = safe_ratio(jl, safe_sqrt(jj)) * _quadrant(kl * jj - kj * jl, of_kj * of_jl)
    through_l = safe_sqrt(ll) * _quadrant(kj * ll - kl * jl, of_kl * of_jl)
    return (through_k + through_j + through_l) / jnp.sqrt(2 * jnp.pi)


def _quadrant(covariance: Array, deviations: Array) -> Array:
    """P(a > 0, b > 0) from the covariance and the product of the standard deviations."""
    return 1 / 4 + safe_arcsin(safe_ratio(covariance, deviations)) / (2 * jnp.pi)


def _root_and_angle(rows: Array, C: Array) -> tuple[Array, Array]:
    """sqrt(C_ii C_aa - C_ia^2) and the angle between the fields, accurate also when they almost coincide."""
    variance = jnp.diagonal(C)
    square = variance[: rows.shape[0], None] * variance
    gap = square - rows**2
    root = safe_sqrt(jnp.where(gap > ROUNDING * square, gap, 0.0))
    apart = root > 0
    angle = jnp.arctan2(jnp.where(apart, root, 0.0), jnp.where(apart | (rows != 0), rows, 1.0))
    return root, jnp.where(apart, angle, jnp.where(rows < 0, jnp.pi, 0.0))


class PolynomialAverages(Averages):
    """Polynomials (linear, quadratic, He2, He3, He4, in any mixture): exact by Wick's theorem, with or without biases.

    A polynomial of a Gaussian field splits into Wick powers, g(z) = sum_k f_k :z^k:, f_k = E[g^(k)(z)] / k!, and the average
    of a product of Wick powers is a sum over graphs: each edge (a, b) of multiplicity m brings C_ab^m / m!, each vertex of
    degree k brings k! f_k, and no edge starts and ends at the same vertex. Two vertices have one graph per degree:
        E[g_a h_b] = sum_k k! f_k h_k C_ab^k.
    With four vertices the sum over teachers and students inside Delta^2 is a matrix product, so memory stays at K^2 n.
    """

    def _wick(self, C: Covariance, mean: Means, order: int) -> dict[int, Array]:
        """k! f_k of the derivative of given order for every field, (n,), by those degrees k at which it does not vanish."""
        student, teacher = self.student.polynomial or (), self.teacher.polynomial or ()
        powers = max(len(student), len(teacher))
        padded = [np.pad(c, (0, powers - len(c))) for c in (student, teacher)]
        coefficients = np.repeat(padded, [self.K, self.M], axis=0)  # (n, powers)
        derivatives = {k: polyder(coefficients, order + k, axis=1) for k in range(powers - order)}
        each = {k: _mean_of_polynomial(c, jnp.diagonal(C), mean) for k, c in derivatives.items()}
        return {k: average for k, average in each.items() if average is not None}

    def _pairs(self, C: Array, left: dict[int, Array], right: dict[int, Array], rows: int) -> Array:
        """sum_k k! f_k h_k C^k on the first `rows` rows."""
        each = [left[k][:rows, None] * right[k] * C[:rows] ** k / factorial(k) for k in left if k in right]
        return sum(each, start=jnp.zeros((rows, C.shape[0])))

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        g = self._wick(C, mean, 0)
        return self._pairs(C, g, g, C.shape[0])

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        slope = self._wick(C, mean, 1)
        return self._pairs(C, slope, slope, self.K)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        return self._pairs(C, self._wick(C, mean, 2), self._wick(C, mean, 0), self.K)

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        return self._pairs(C, self._wick(C, mean, 1), self._wick(C, mean, 0), self.K)

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        K = self.K
        slope, g = self._wick(C, mean, 1), self._wick(C, mean, 0)
        total = jnp.zeros((K, K))
        for graph in _graphs(slope, g):
            m12, m13, m23, m14, m24, m34 = graph
            f1, f2, f3, f4 = slope[m12 + m13 + m14], slope[m12 + m23 + m24], g[m13 + m23 + m34], g[m14 + m24 + m34]
            towards3 = C[:K, None] ** m13 * C[None, :K] ** m23 * (w * f3)
            towards4 = C[:K, None] ** m14 * C[None, :K] ** m24 * (w * f4)
            joined = jnp.einsum("ija,ab,ijb->ij", towards3, C**m34, towards4)
            twins = 1 if (m13, m23) == (m14, m24) else 2  # the graph with 3 and 4 exchanged adds the same
            total = total + (twins / prod(map(factorial, graph))) * f1[:K, None] * f2[:K] * C[:K, :K] ** m12 * joined
        return total


def _graphs(slope_degrees: Container[int], degrees: Collection[int]) -> list[tuple[int, ...]]:
    """Edge multiplicities (12, 13, 23, 14, 24, 34) with these degrees of vertices 1 and 2, and of 3 and 4, which may swap."""
    return [
        m
        for m in product(range(max(degrees, default=0) + 1), repeat=6)
        if m[0] + m[1] + m[3] in slope_degrees
        and m[0] + m[2] + m[4] in slope_degrees
        and m[1] + m[2] + m[5] in degrees
        and m[3] + m[4] + m[5] in degrees
        and m[1:3] <= m[3:5]
    ]


def _mean_of_polynomial(coefficients: Float[np.ndarray, "n powers"], variance: Array, mean: Means) -> Array | None:
    """E[sum_p c_p (mean + s z)^p] over a standard normal z, (n,), or None where it is zero whatever the variance."""
    terms = [
        c * comb(p, 2 * j) * prod(range(1, 2 * j, 2)) * variance**j * (1.0 if mean is None else mean ** (p - 2 * j))
        for p, c in enumerate(coefficients.T)
        for j in range(p // 2 + 1)
        if c.any() and (mean is not None or p == 2 * j)
    ]
    return sum(terms, start=jnp.zeros_like(variance)) if terms else None


# The closed forms, and whether each holds for two activations (of student and teacher, with hidden biases).
FAMILIES = {
    ErfAverages: lambda student, teacher, biased: student in SOFTNESS and teacher in SOFTNESS and not biased,
    PolynomialAverages: lambda student, teacher, biased: None not in (student.polynomial, teacher.polynomial),
    ReluAverages: lambda student, teacher, biased: student == teacher == NAMED["relu"] and not biased,
}
