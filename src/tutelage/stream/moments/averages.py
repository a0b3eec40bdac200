"""The interfaces of the averages, the closed forms, and numerically safe functions.

`Averages` are the five Gaussian averages that the theory of squared loss needs,
`Moments` the averages of any rule. Closed forms exist for erf and sign, ReLU, and
polynomials.

The fields z_a, a = 1..n, are the K student fields and then the M teacher fields,
jointly Gaussian with covariance C and means m (the hidden biases; None where there are
none). g_a is the activation of field a. Indices i, j run over students.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Container
from dataclasses import replace
from functools import partial
from itertools import product
from math import comb, factorial, prod
from typing import Any, ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyder

from tutelage._types import Array, ArrayLike
from tutelage.problem import Problem
from tutelage.problem.activation import NAMED_ACTIVATIONS, Activation
from tutelage.training.rules import Context, Parameters

Covariance: TypeAlias = Float[Array, "n n"]  # of the fields
Means: TypeAlias = Float[Array, " n"] | None  # of the fields
PairIndex: TypeAlias = Int[np.ndarray, "turns pairs"]

# Numbers that one array of an average may hold: 32 MiB.
ROOM = 2**22
# Terms of the polynomial in `safe_arcsin`.
TERMS = 13
# The variance s of the noise with which a sign is erf(x / sqrt(2 s)) on average.
SOFTNESS = {NAMED_ACTIVATIONS["erf"]: 1.0, NAMED_ACTIVATIONS["sign"]: 0.0}
# Pairs of pairs of fields that are averaged at once. XLA shares more than SMALL_TURN
# among threads, which pays from LARGE_TURN / 8 in all. A GPU waits for launches.
SMALL_TURN = 2**9
LARGE_TURN = 2**17
ON_GPU = 2**24
# Gauss-Legendre nodes of the integral over four ReLU fields.
NODES = 48
# A difference no larger than this share of its terms is rounding; its root would be
# 1e-8.
ROUNDING = 4 * float(np.finfo(float).eps)
# Fields whose correlation differs from one by no more than rounding are one field (this
# costs 1e-9 at most).
SAME = 4e-15


class Averages(eqx.Module):
    """Gaussian averages for K student units and M teacher units.

    The units of each network have one activation.

    error_rounding: a generalization error this small is moved by rounding alone, for
    networks of order one.
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
        """E[g'_i g_a], which moves the biases and nothing else."""

    @abstractmethod
    def slopes_squared_error(
        self, C: Covariance, mean: Means, w: Float[Array, " n"]
    ) -> Float[Array, "K K"]:
        """E[g'_i g'_j Delta^2] with Delta = sum_a w_a g_a: the noise of a step."""


class FieldState(eqx.Module):
    """The state that the moments of a rule depend on.

    C, mean: covariance and means of the fields. parameters: readout and biases.
    context: all else that a rule may read.
    """

    problem: Problem
    C: Covariance
    mean: Means
    parameters: Parameters
    context: Context

    def of_task(self, task: int) -> "FieldState":
        """Return the part that belongs to one task: its own teacher and head."""
        problem = self.problem
        tasks = problem.several_tasks
        assert tasks is not None
        units = tasks.units(task)
        K = problem.student.hidden
        fields = np.r_[0:K, K + units.start : K + units.stop]
        context = self.context
        if context.overlaps is not None:
            R, Q, T = context.overlaps
            context = replace(context, overlaps=(R[:, units], Q, T[units, units]))
        head = tasks.head(self.parameters.readout, task)
        return FieldState(
            problem=problem.task(task),
            C=self.C[fields][:, fields],
            mean=None if self.mean is None else self.mean[fields],
            parameters=Parameters(head, self.parameters.bias),
            context=context,
        )


class MeanUpdate(eqx.Module):
    """The mean update of one sample.

    A and B move the vectors; the other fields are the updates of readout and biases.
    For a gradient rule they are minus the derivatives of the loss by Q (twice), R,
    readout and bias.
    """

    A: Float[Array, "K K"]
    B: Float[Array, "K M"]
    readout: Float[Array, "*outputs K"]
    bias: Float[Array, " K"]
    # E[h^2] of the readout, for optimizers that divide by its root
    readout_squares: Float[Array, "*outputs K"] | None = None


class Moments(eqx.Module):
    """Mean and covariance of the update of one sample.

    A mixture has them for each level (`MixtureMoments.of_levels`).
    """

    def matrices(
        self, state: FieldState, flow: bool
    ) -> tuple[MeanUpdate, Float[Array, "K K"]]:
        """Return the mean update and G; G = 0 for gradient flow."""
        raise NotImplementedError

    def error_and_loss(
        self, state: FieldState
    ) -> tuple[Float[Array, "*tasks"], Float[Array, "*tasks"]]:
        """Return generalization error and population training loss of each task.

        The metric of the labels takes the place of the error if they are not real.
        """
        raise NotImplementedError


# (P(s) - 1) / s of `safe_arcsin` in powers of s: its Taylor series, whose terms are all
# positive, interpolated at Chebyshev points.
_TAYLOR = Polynomial([comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(1, 60)])
_FIT = np.polynomial.Chebyshev.interpolate(_TAYLOR, TERMS - 1, domain=(0, 0.25))
COEFFICIENTS: list[float] = _FIT.convert(kind=Polynomial).coef.tolist()


@jax.custom_jvp
def safe_arcsin(x: ArrayLike) -> Array:
    """Return arcsin, finite also where rounding has pushed |x| to one or beyond.

    Its gradient is finite, too.

    One polynomial, so that a loop over many of them is vectorized: they are most of the
    right-hand side. XLA's own goes through atan2, one number at a time: 8 ns each on a
    CPU against 1.3. With P(s) = arcsin(sqrt s) / sqrt s,

        arcsin x = x P(x^2)                               for 0 <= x <= 1/2,
        arcsin x = pi/2 - 2 z P(z^2),  z^2 = (1 - x) / 2  for 1/2 <= x <= 1,

    so that P is needed on [0, 1/4] only, far from its singularity at 1: thirteen terms
    give 1e-16. The result is within three units in the last place of the true one
    everywhere (tests/stream/moments/test_numerics.py).
    """
    size = jnp.minimum(jnp.abs(x), 1.0)
    is_far = size > 0.5
    s = jnp.where(is_far, (1 - size) / 2, size**2)
    z = jnp.where(is_far, jnp.sqrt(s), size)
    remainder = COEFFICIENTS[-1]  # (P(s) - 1) / s, by Horner's rule
    for coefficient in COEFFICIENTS[-2::-1]:
        remainder = remainder * s + coefficient
    angle = z + z * s * remainder
    angle = jnp.where(is_far, jnp.pi / 2 - 2 * angle, angle)
    return jnp.where(x < 0, -angle, angle)


def safe_sqrt(x: ArrayLike) -> Array:
    """Return sqrt, and zero with zero gradient where x is not positive.

    Rounding makes numbers negative that are zero.
    """
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def safe_ratio(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x / y, and zero where y is zero.

    A unit of zero norm is correlated with nothing.
    """
    nonzero = y != 0
    return jnp.where(nonzero, x / jnp.where(nonzero, y, 1.0), 0.0)


def _arcsin_derivative(dx: Array, _: Array, x: Array) -> Array:
    """Return dx / sqrt(1 - x^2), and nothing where |x| has reached one."""
    return safe_ratio(dx, safe_sqrt((1 - x) * (1 + x)))


safe_arcsin.defjvps(_arcsin_derivative)


def array_module(*arrays: object) -> Any:
    """Return numpy if all of these are NumPy arrays, else jax.numpy.

    In NumPy nothing is traced or compiled.
    """
    return np if all(isinstance(x, np.ndarray) for x in arrays) else jnp


def triangle(K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows and columns of the upper triangle of a matrix, and places in it.

    places (K, K): the number of each entry of the matrix in the lists of rows and
    columns.
    """
    rows, columns = np.triu_indices(K)
    numbers = np.arange(rows.size)
    places = np.zeros((K, K), int)
    places[rows, columns] = numbers
    places[columns, rows] = numbers
    return rows, columns, places


def in_turn(function: Callable[..., Array], *arguments: ArrayLike, size: int) -> Array:
    """Return `jax.vmap(function)`, computed in turns that fit in memory.

    At most `ROOM` numbers are held at once; one call of the function holds `size` of
    them.
    """
    # Nor do derivatives hold more: what was computed in an earlier turn is computed
    # again.
    at_once = max(1, ROOM // size)
    if np.shape(arguments[0])[0] <= at_once:
        return jax.vmap(function)(*arguments)
    of_row = jax.checkpoint(lambda row: function(*row))
    return jax.lax.map(of_row, arguments, batch_size=at_once)


class ErfAverages(Averages):
    """Averages of students erf(x / sqrt 2) and teachers erf or sign, all arcsines.

    They are I2, I3, I4 and J2 of Saad and Solla (1995).

    Both activations are one family, because erf(x / sqrt(2 s)) is the mean of
    sign(x + sqrt(s) xi) over a standard normal xi: the field simply gains the variance
    s. With d_a = s_a + C_aa (s = 1 for erf, 0 for sign):

        E[g_a g_b]   = (2/pi) asin(C_ab / sqrt(d_a d_b))
        E[g'_a g'_b] = (2/pi) / sqrt(d_a d_b - C_ab^2)
        E[g''_i g_a] = -(2/pi) C_ia / (d_i sqrt(d_i d_a - C_ia^2))

    Four fields: g' is a Gaussian function, which only tilts the law of the other
    fields, as if the softened fields i and j were known to be zero. The covariance of
    the others then is C_ab|ij = C_ab - x_a x_b - y_a y_b, d_a|ij likewise, where x and
    y are the parts along field i and along what is left of field j, and

        E[g'_i g'_j g_a g_b] = E[g'_i g'_j] (2/pi) asin(C_ab|ij / sqrt(d_a|ij d_b|ij)),

    which is the textbook's (4/pi^2) asin(L0 / sqrt(L1 L2)) / sqrt(L4) with
    L4 = d_i d_j - C_ij^2, L0 = L4 C_ab|ij, L1 = L4 d_a|ij and L2 = L4 d_b|ij.

    Averages of two fields also take NumPy arrays, with any leading axes:
    `LocalDynamics` needs no program for them.
    """

    @property
    def softness(self) -> tuple[float, ...]:
        """The variance s of each field."""
        of_students = (SOFTNESS[self.student],) * self.K
        of_teachers = (SOFTNESS[self.teacher],) * self.M
        return of_students + of_teachers

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        # I2 = (2/pi) asin(C_ab / sqrt(d_a d_b))
        d = _softened_variances(C, self.softness)
        sines = C / array_module(C).sqrt(d[..., :, None] * d[..., None, :])
        a, b = np.indices(C.shape[-2:])
        return (2 / np.pi) * _angles(sines, self.softness, a, b)

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        # J2 = (2/pi) / sqrt(d_i d_a - C_ia^2)
        d = _softened_variances(C, self.softness)
        return (2 / np.pi) / _determinant_roots(C, d, self.K)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        # -(2/pi) C_ia / (d_i sqrt(d_i d_a - C_ia^2)), the part of I3 with g''
        K = self.K
        d = _softened_variances(C, self.softness)
        roots = _determinant_roots(C, d, K)
        return -(2 / np.pi) * C[..., :K, :] / (d[..., :K, None] * roots)

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Any, "K n"]:
        # g' is even and g odd: without biases nothing pulls on them
        return np.zeros((self.K, C.shape[-1]))

    def slopes_squared_error(
        self, C: Covariance, mean: Means, w: Float[Array, " n"]
    ) -> Float[Array, "K K"]:
        """Return sum_ab w_a w_b I4(i, j, a, b).

        Each pair of students i <= j and each pair of fields a <= b is computed once,
        some pairs of fields at a time.
        """
        d = _softened_variances(C, self.softness)
        i, j, place = triangle(self.K)
        # correlations c of the softened fields; along and across: the parts of each
        # field along field i, and along what is left of field j; s: one over what is
        # left of it
        root = jax.lax.rsqrt(d)
        c = C * (root[:, None] * root)
        along = c[:, i]  # (n, pairs of students)
        c_ij = c[i, j]
        across = (c[:, j] - c_ij * along) * jax.lax.rsqrt(1 - c_ij**2)
        s = jax.lax.rsqrt(1 - along**2 - across**2)
        x = along * s
        y = across * s
        w = jnp.asarray(w)

        @jax.checkpoint
        def sum_of_turn(turn: tuple[Array, Array, Array]) -> Array:
            """Return sum_ab w_a w_b arcsin over some pairs of fields, for each i, j."""
            a, b, count = turn
            # C_ab|ij / sqrt(d_a|ij d_b|ij) = L0 / sqrt(L1 L2)
            sines = c[a, b][:, None] * s[a] * s[b] - x[a] * x[b] - y[a] * y[b]
            angles = _angles(sines, self.softness, a[:, None], b[:, None])
            return (count * w[a] * w[b]) @ angles

        turns = _turns_of_pairs(C.shape[0], i.size)
        angles = jnp.sum(jax.lax.map(sum_of_turn, turns), axis=0)
        # I4 = J2 (2/pi) asin(L0 / sqrt(L1 L2)), J2 = (2/pi) / sqrt(L4)
        return (2 / jnp.pi) * self.slopes(C, mean)[:, : self.K] * angles[place]


def _softened_variances(C: Covariance, softness: tuple[float, ...]) -> Float[Any, " n"]:
    """Return d_a = s_a + C_aa."""
    # a mask joins the loops around it, unlike a gather
    xp = array_module(C)
    is_diagonal = np.eye(len(softness), dtype=bool)
    return xp.sum(xp.where(is_diagonal, C, 0.0), axis=-1) + np.array(softness)


def _determinant_roots(C: Covariance, d: Float[Any, " n"], K: int) -> Float[Any, "K n"]:
    """Return sqrt(d_i d_a - C_ia^2)."""
    products = d[..., :K, None] * d[..., None, :]
    return array_module(C).sqrt(products - C[..., :K, :] ** 2)


def _angles(
    sines: Array | np.ndarray, softness: tuple[float, ...], a: ArrayLike, b: ArrayLike
) -> Any:
    """Return the arcsine for fields a and b.

    A sign times itself is one, which the arcsine of a rounded one would miss by 1e-8.
    """
    xp = array_module(sines)
    if xp is np:
        angles = np.arcsin(np.clip(sines, -1.0, 1.0))
    else:
        angles = safe_arcsin(sines)
    is_sign = np.array(softness) == 0
    if not is_sign.any():
        return angles
    return xp.where((a == b) & xp.asarray(is_sign)[a], np.pi / 2, angles)


def _turns_of_pairs(
    n: int, width: int
) -> tuple[PairIndex, PairIndex, Float[np.ndarray, "turns pairs"]]:
    """Return the pairs a <= b of n fields and their multiplicities, by turns.

    There are as many pairs in a turn as there is room for; each takes `width` numbers.
    """
    a, b = np.triu_indices(n)
    size = a.size * width
    # Always two turns on a CPU: XLA computes what a loop reads before it, and would
    # else compute roots for each pair of pairs.
    if jax.default_backend() != "cpu":
        least = 1
        at_once = ON_GPU
    else:
        least = 2
        at_once = SMALL_TURN if size <= LARGE_TURN // 8 else LARGE_TURN
    turns = max(least, -(-size // at_once))
    missing = -a.size % turns
    # what fills the last turn counts nothing
    counts = np.pad(np.where(a == b, 1.0, 2.0), (0, missing))
    a = np.pad(a, (0, missing))
    b = np.pad(b, (0, missing))
    return a.reshape(turns, -1), b.reshape(turns, -1), counts.reshape(turns, -1)


class ReluAverages(Averages):
    """Averages of ReLU students and teachers: arc-cosine averages, and an integral.

    With c the correlation of fields a and b and theta their angle (cos theta = c), by
    Cho and Saul (2009):

        E[g_a g_b]   = sqrt(C_aa C_bb) (sin theta + (pi - theta) cos theta) / 2 pi
        E[g'_a g'_b] = (pi - theta) / 2 pi
        E[g''_i g_a] = sqrt(C_ii C_aa - C_ia^2) / (2 pi C_ii)

    Four fields, F = E[th_1 th_2 z3+ z4+] (th: step, z+: positive part): scale the
    covariances between {1,2} and {3,4} by t. By Price's theorem

        dF/dt = sum_{i in 12, j in 34} C_ij E[delta(z_i) th_k th_j z_l+]  at C(t),

    where k and l are the partners of i and j; F(0) factorizes. Given z_i = 0, Stein's
    lemma turns the rest into two-dimensional orthant probabilities, so F is a smooth
    one-dimensional integral. Where two of the four fields are one and the same the
    dimension drops, and a closed form takes over.
    """

    # slopes have roots of what separates two fields, so roots of its rounding
    error_rounding: ClassVar[float] = 1e-14

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        # sqrt(C_aa C_bb) sin theta is the root, sqrt(C_aa C_bb) cos theta is C_ab
        root, angle = _root_and_angle(C, C)
        return (root + (jnp.pi - angle) * C) / (2 * jnp.pi)

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        _, angle = _root_and_angle(C[: self.K], C)
        return (jnp.pi - angle) / (2 * jnp.pi)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        root, _ = _root_and_angle(C[: self.K], C)
        variances = jnp.diagonal(C)[: self.K, None]
        return safe_ratio(root, 2 * jnp.pi * variances)

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        """Return E[th_i z_a+] = (s_a + C_ia / s_i) / (2 sqrt(2 pi))."""
        s = safe_sqrt(jnp.diagonal(C))
        sums = s + safe_ratio(C[: self.K], s[: self.K, None])
        return sums / (2 * jnp.sqrt(2 * jnp.pi))

    def slopes_squared_error(
        self, C: Covariance, mean: Means, w: Float[Array, " n"]
    ) -> Float[Array, "K K"]:
        K = self.K
        n = self.K + self.M
        # correlations, and weights of fields of unit variance
        s = safe_sqrt(jnp.diagonal(C))
        r = jnp.clip(safe_ratio(C, s[:, None] * s), -1.0, 1.0)
        weight = w * s
        single = _students_first(np.arange(K)[:, None], n)
        of_single = partial(_sum_over_fields, r, weight, 0)
        diagonal = jnp.diag(in_turn(of_single, single, size=n**2))
        if K == 1:
            return diagonal
        rows, columns = np.triu_indices(K, 1)
        pairs = _students_first(np.stack([rows, columns], axis=1), n)
        of_pair = partial(_sum_over_fields, r, weight, 1)
        off_diagonal = in_turn(of_pair, pairs, size=2 * NODES * n**2)
        upper = jnp.zeros((K, K)).at[rows, columns].set(off_diagonal)
        return diagonal + upper + upper.T


def _students_first(
    held: Int[np.ndarray, "sets held"], n: int
) -> Int[np.ndarray, "sets n"]:
    """Return the order of fields for each set of students: these, then all others."""
    orders = [[*students, *np.delete(np.arange(n), students)] for students in held]
    return np.array(orders)


def _sum_over_fields(
    r: Array, weight: Array, j: int, order: Int[Array, " n"]
) -> Float[Array, ""]:
    """Return sum_ab w_a w_b E[th_0 th_j z_a+ z_b+] over all fields.

    order: the fields, the students in front. j: 0 for a single student, 1 for a pair.
    """
    r = r[order][:, order]
    weight = weight[order]
    a, b = np.triu_indices(order.size)
    counts = weight[a] * weight[b] * np.where(a == b, 1.0, 2.0)
    # One step function remains if the other is the same, or is absorbed by a positive
    # part of the same field: th_a z_a+ = z_a+.
    one_step = (a <= 1) | (j == 0)
    step = np.where(a == 0, j, 0)[one_step]
    c = a[one_step]
    d = b[one_step]
    r_cd = jnp.where(c == d, 1.0, r[c, d])
    total = counts[one_step] @ step_relu_relu(r[step, c], r[step, d], r_cd)
    if j == 0 or order.size == 2:
        return total
    is_square = ~one_step & (a == b)
    others = np.arange(2, order.size)
    squares = step_step_square(r[0, 1], r[0, others], r[1, others])
    total = total + counts[is_square] @ squares
    is_distinct = ~one_step & (a < b)
    c = a[is_distinct]
    d = b[is_distinct]
    products = step_step_relu_relu(r[0, 1], r[0, c], r[0, d], r[1, c], r[1, d], r[c, d])
    return total + counts[is_distinct] @ products


def step_relu_relu(rab: Array, rac: Array, rbc: Array) -> Array:
    """Return E[th_a z_b+ z_c+] of unit-variance fields, of which any may coincide.

    It is rbc P3 + [sqrt(1-rbc^2) + rab sqrt(1-rac^2) + rac sqrt(1-rab^2)] / 4 pi with
    the orthant probability P3.
    """
    sine_ab = safe_sqrt(1 - rab**2)
    sine_ac = safe_sqrt(1 - rac**2)
    sine_bc = safe_sqrt(1 - rbc**2)
    roots = sine_bc + rab * sine_ac + rac * sine_ab
    return rbc * orthant(rab, rac, rbc) + roots / (4 * jnp.pi)


def step_step_square(rab: Array, rac: Array, rbc: Array) -> Array:
    """Return E[th_a th_b (z_c+)^2] of unit-variance fields, a != b.

    It is P3 + [rac sqrt(1-rac^2) + rbc sqrt(1-rbc^2) + (2 rac rbc - rab (rac^2 +
    rbc^2)) / sqrt(1-rab^2)] / 4 pi with the orthant probability P3; the last term
    vanishes as |rab| -> 1.
    """
    numerator = 2 * rac * rbc - rab * (rac**2 + rbc**2)
    cross = safe_ratio(numerator, safe_sqrt(1 - rab**2))
    roots = rac * safe_sqrt(1 - rac**2) + rbc * safe_sqrt(1 - rbc**2) + cross
    return orthant(rab, rac, rbc) + roots / (4 * jnp.pi)


def orthant(rab: Array, rac: Array, rbc: Array) -> Array:
    """Return P3 = P(z_a, z_b, z_c > 0)."""
    angles = safe_arcsin(rab) + safe_arcsin(rac) + safe_arcsin(rbc)
    return 1 / 8 + angles / (4 * jnp.pi)


def step_step_relu_relu(
    r12: Array, r13: Array, r14: Array, r23: Array, r24: Array, r34: Array
) -> Array:
    """Return E[th_1 th_2 z3+ z4+] of unit-variance fields.

    They are distinct or (to within rounding) coincide.
    """
    value = _price_integral(r12, r13, r14, r23, r24, r34)
    value = jnp.where(r34 > 1 - SAME, step_step_square(r12, r13, r23), value)
    # a step of a field that is one of the others is absorbed: first th_1, then th_2
    absorbs_1 = jnp.maximum(r13, r14) > 1 - SAME
    value = jnp.where(absorbs_1, step_relu_relu(r23, r24, r34), value)
    absorbs_2 = jnp.maximum(r12, jnp.maximum(r23, r24)) > 1 - SAME
    return jnp.where(absorbs_2, step_relu_relu(r13, r14, r34), value)


def _price_integral(
    r12: Array, r13: Array, r14: Array, r23: Array, r24: Array, r34: Array
) -> Array:
    """Return E[th_1 th_2 z3+ z4+] of distinct fields by Price's theorem.

    It is F(1) = F(0) + int_0^1 dt sum_ij r_ij E[delta(z_i) th_k th_j z_l+] at C(t).
    """
    # Plain nodes in t see a square-root singularity at t = 1 when a student meets a
    # teacher; t = 1 - (1-u)^6 removes it.
    x, weights = np.polynomial.legendre.leggauss(NODES)
    u = (x + 1) / 2
    t = jnp.asarray(1 - (1 - u) ** 6)
    dt = 3 * weights * (1 - u) ** 5
    r12, r13, r14, r23, r24, r34 = (
        jnp.asarray(r)[..., None] for r in (r12, r13, r14, r23, r24, r34)
    )
    # E[delta(z_i) ...] = E[... | z_i = 0] / sqrt(2 pi)
    slope = (
        r13 * _average_given_zero(t * r13, r12, t * r14, t * r23, r34, t * r24)
        + r14 * _average_given_zero(t * r14, r12, t * r13, t * r24, r34, t * r23)
        + r23 * _average_given_zero(t * r23, r12, t * r24, t * r13, r34, t * r14)
        + r24 * _average_given_zero(t * r24, r12, t * r23, t * r14, r34, t * r13)
    )
    # F(0) = P(z1, z2 > 0) E[z3+ z4+]
    sine = jnp.sqrt(1 - jnp.clip(r34, -1, 1) ** 2)
    angle = jnp.arccos(jnp.clip(r34, -1, 1))
    both_positive = 1 / 4 + safe_arcsin(r12) / (2 * jnp.pi)
    start = both_positive * (sine + (jnp.pi - angle) * r34) / (2 * jnp.pi)
    return start[..., 0] + jnp.sum(slope * dt, axis=-1) / jnp.sqrt(2 * jnp.pi)


def _average_given_zero(
    ij: Array, ik: Array, il: Array, kj: Array, jl: Array, kl: Array
) -> Array:
    """Return E[th_k th_j z_l+ | z_i = 0] from the correlations of fields i, j, k, l.

    By Stein's lemma it is sum_x C_lx / sqrt(2 pi C_xx) P(other two > 0 | z_x = 0) over
    the fields x = k, j, l, with covariances C given z_i = 0.
    """
    c_kk = 1 - ik**2
    c_jj = 1 - ij**2
    c_ll = 1 - il**2
    c_kj = kj - ik * ij
    c_jl = jl - ij * il
    c_kl = kl - ik * il
    root_kj = safe_sqrt(c_kk * c_jj - c_kj**2)
    root_kl = safe_sqrt(c_kk * c_ll - c_kl**2)
    root_jl = safe_sqrt(c_jj * c_ll - c_jl**2)
    # covariances of two fields given that the third is zero, too, times its variance
    jl_given_k = c_jl * c_kk - c_kj * c_kl
    kl_given_j = c_kl * c_jj - c_kj * c_jl
    kj_given_l = c_kj * c_ll - c_kl * c_jl
    through_k = safe_ratio(c_kl, safe_sqrt(c_kk)) * _quadrant(
        jl_given_k, root_kj * root_kl
    )
    through_j = safe_ratio(c_jl, safe_sqrt(c_jj)) * _quadrant(
        kl_given_j, root_kj * root_jl
    )
    through_l = safe_sqrt(c_ll) * _quadrant(kj_given_l, root_kl * root_jl)
    return (through_k + through_j + through_l) / jnp.sqrt(2 * jnp.pi)


def _quadrant(covariance: Array, deviations: Array) -> Array:
    """Return P(a > 0, b > 0).

    deviations: the product of the standard deviations.
    """
    correlation = safe_ratio(covariance, deviations)
    return 1 / 4 + safe_arcsin(correlation) / (2 * jnp.pi)


def _root_and_angle(rows: Array, C: Array) -> tuple[Array, Array]:
    """Return sqrt(C_ii C_aa - C_ia^2) and the angle between the fields.

    Both are accurate also where the fields almost coincide.
    """
    variance = jnp.diagonal(C)
    square = variance[: rows.shape[0], None] * variance
    gap = square - rows**2
    root = safe_sqrt(jnp.where(gap > ROUNDING * square, gap, 0.0))
    apart = root > 0
    sines = jnp.where(apart, root, 0.0)
    cosines = jnp.where(apart | (rows != 0), rows, 1.0)
    angle = jnp.arctan2(sines, cosines)
    return root, jnp.where(apart, angle, jnp.where(rows < 0, jnp.pi, 0.0))


class PolynomialAverages(Averages):
    """Averages of polynomials, exact by Wick's theorem, with or without biases.

    They serve linear, quadratic, He2, He3 and He4 units, in any mixture.

    A polynomial of a Gaussian field splits into Wick powers, g(z) = sum_k f_k :z^k:,
    f_k = E[g^(k)(z)] / k!, and the average of a product of Wick powers is a sum over
    graphs: each edge (a, b) of multiplicity m brings C_ab^m / m!, each vertex of degree
    k brings k! f_k, and no edge starts and ends at the same vertex. Two vertices have
    one graph per degree:

        E[g_a h_b] = sum_k k! f_k h_k C_ab^k.

    With four vertices the sum over teachers and students inside Delta^2 is a matrix
    product, so memory stays at K^2 n.
    """

    def _wick(self, C: Covariance, mean: Means, order: int) -> dict[int, Array]:
        """Return k! f_k of a derivative for every field, (n,), by the degree k.

        Degrees at which all of these vanish are left out. order: of the derivative.
        """
        student = self.student.polynomial or ()
        teacher = self.teacher.polynomial or ()
        powers = max(len(student), len(teacher))
        padded = [np.pad(c, (0, powers - len(c))) for c in (student, teacher)]
        coefficients = np.repeat(padded, [self.K, self.M], axis=0)  # (n, powers)
        variances = jnp.diagonal(C)
        averages = {}
        for k in range(powers - order):
            # k! f_k is the mean of the k-th derivative
            derivative = polyder(coefficients, order + k, axis=1)
            average = _mean_of_polynomial(derivative, variances, mean)
            if average is not None:
                averages[k] = average
        return averages

    def _pairs(
        self, C: Array, left: dict[int, Array], right: dict[int, Array], rows: int
    ) -> Array:
        """Return sum_k k! f_k h_k C^k on the first `rows` rows.

        left, right: k! f_k and k! h_k.
        """
        total = jnp.zeros((rows, C.shape[0]))
        for k in left:
            if k in right:
                coefficients = left[k][:rows, None] * right[k]
                total = total + coefficients * C[:rows] ** k / factorial(k)
        return total

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        g = self._wick(C, mean, 0)
        return self._pairs(C, g, g, C.shape[0])

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        slope = self._wick(C, mean, 1)
        return self._pairs(C, slope, slope, self.K)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        curvature = self._wick(C, mean, 2)
        g = self._wick(C, mean, 0)
        return self._pairs(C, curvature, g, self.K)

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        slope = self._wick(C, mean, 1)
        g = self._wick(C, mean, 0)
        return self._pairs(C, slope, g, self.K)

    def slopes_squared_error(
        self, C: Covariance, mean: Means, w: Float[Array, " n"]
    ) -> Float[Array, "K K"]:
        K = self.K
        slope = self._wick(C, mean, 1)
        g = self._wick(C, mean, 0)
        total = jnp.zeros((K, K))
        for graph in _graphs(slope, g):
            m12, m13, m23, m14, m24, m34 = graph
            k1, k2, k3, k4 = graph.degrees
            # students i, j at the vertices 1 and 2, fields a, b of Delta at 3 and 4
            to_3 = C[:K, None] ** m13 * C[None, :K] ** m23 * (w * g[k3])
            to_4 = C[:K, None] ** m14 * C[None, :K] ** m24 * (w * g[k4])
            joined = jnp.einsum("ija,ab,ijb->ij", to_3, C**m34, to_4)
            # the graph with 3 and 4 exchanged adds the same
            twins = 1 if (m13, m23) == (m14, m24) else 2
            symmetry = twins / prod(factorial(m) for m in graph)
            vertices = symmetry * slope[k1][:K, None] * slope[k2][:K]
            total = total + vertices * C[:K, :K] ** m12 * joined
        return total


class Graph(NamedTuple):
    """The multiplicities of the edges between four vertices.

    Vertices 1 and 2 are slopes g', vertices 3 and 4 outputs g.
    """

    m12: int
    m13: int
    m23: int
    m14: int
    m24: int
    m34: int

    @property
    def degrees(self) -> tuple[int, int, int, int]:
        """The number of edges at each vertex."""
        return (
            self.m12 + self.m13 + self.m14,
            self.m12 + self.m23 + self.m24,
            self.m13 + self.m23 + self.m34,
            self.m14 + self.m24 + self.m34,
        )


def _graphs(slope_degrees: Container[int], degrees: Collection[int]) -> list[Graph]:
    """Return the graphs whose vertices have these degrees.

    slope_degrees: of vertices 1 and 2. degrees: of 3 and 4. Of two graphs with 3 and 4
    exchanged there is one.
    """
    graphs = []
    multiplicities = range(max(degrees, default=0) + 1)
    for edges in product(multiplicities, repeat=6):
        graph = Graph(*edges)
        k1, k2, k3, k4 = graph.degrees
        fits_slopes = k1 in slope_degrees and k2 in slope_degrees
        fits_outputs = k3 in degrees and k4 in degrees
        is_ordered = (graph.m13, graph.m23) <= (graph.m14, graph.m24)
        if fits_slopes and fits_outputs and is_ordered:
            graphs.append(graph)
    return graphs


def _mean_of_polynomial(
    coefficients: Float[np.ndarray, "n powers"], variance: Array, mean: Means
) -> Array | None:
    """Return E[sum_p c_p (mean + s z)^p] over a standard normal z, (n,).

    It is sum_pj c_p (p over 2j) (2j - 1)!! s^2j mean^(p - 2j). None where it is zero
    whatever the variance.
    """
    terms = []
    for p, c in enumerate(coefficients.T):
        if not c.any():
            continue
        for j in range(p // 2 + 1):
            if mean is None and p != 2 * j:
                continue
            double_factorial = prod(range(1, 2 * j, 2))  # E[z^2j]
            term = c * comb(p, 2 * j) * double_factorial * variance**j
            if mean is not None:
                term = term * mean ** (p - 2 * j)
            terms.append(term)
    if not terms:
        return None
    return sum(terms, start=jnp.zeros_like(variance))


def _has_erf_averages(student: Activation, teacher: Activation, biased: bool) -> bool:
    return student in SOFTNESS and teacher in SOFTNESS and not biased


def _has_polynomial_averages(
    student: Activation, teacher: Activation, biased: bool
) -> bool:
    return student.polynomial is not None and teacher.polynomial is not None


def _has_relu_averages(student: Activation, teacher: Activation, biased: bool) -> bool:
    return student == teacher == NAMED_ACTIVATIONS["relu"] and not biased


# The closed forms, and functions of the activations of student and teacher and of
# hidden biases: True if the form holds.
FAMILIES = {
    ErfAverages: _has_erf_averages,
    PolynomialAverages: _has_polynomial_averages,
    ReluAverages: _has_relu_averages,
}
