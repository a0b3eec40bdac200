"""Any activation, any biases: averages by quadrature, with an error estimate.

Pairs of fields: a rule on two independent normals over [-7, 7]^2. The first carries the student field, the second what is
left of the other, so a field paired with itself is exact. The trapezoid rule converges exponentially for smooth functions
(`pair_averages`). Where g, g' or g'' jumps, Gauss-Legendre panels end at the jump instead
(problem/breaks.py finds them); of more than `MANY` jumps, fixed random points are averaged. Where g''
is not a function, it is moved onto the Gaussian by Stein's lemma,
    E[z g'_i g_a] = s_i E[g''_i g_a] + (C_ia/s_i) E[g'_i g'_a].

Four fields, E[g'_i g'_j Delta^2]: hold the student fields i and j; given them the others are Gaussian with shifted means
m_a, deviations s_a and correlations c_ab, and by Mehler's formula
    E[g_a g_b | i, j] = sum_k f_ak f_bk c_ab^k,    f_ak = E[g_a(m_a + s_a z) h_k(z)],  h_k = He_k / sqrt(k!).
So the integral over n fields costs three axes however large n is, and stays a sum of squares where Delta is small. The sum
converges too slowly for functions with kinks: those are averaged over all n fields at once on one fixed scrambled Sobol set
(the same points at each call, so the right-hand side stays repeatable), antithetic, to about 1e-3. G multiplies eta^2.

Derivatives of pairs of smooth functions are again such averages (Price's theorem),
    d E[f(a) h(b)] = E[f' h'] dC_ab + E[f'' h] dC_aa / 2 + E[f h''] dC_bb / 2 + E[f' h] dm_a + E[f h'] dm_b,
so nothing is differentiated through a square root: derivatives of any order hold also where the fields coincide (a student
that is a teacher) or one of them vanishes, where the rule itself, a and what is left of b given a, has none.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array
from tutelage.moments.averages import Averages, Covariance, Means
from tutelage.moments.nodes import MANY, NEAR, Quadrature, antithetic, disc, hermite_rule, nearest_breaks, panels, trapezoid
from tutelage.moments.numerics import ROOM, factor, in_turn, safe_ratio, safe_sqrt
from tutelage.moments.resolution import chosen_rule
from tutelage.problem.activation import Activation, Function, elementwise_derivative
from tutelage.problem.elementwise import jumps_of, kinks_of

FAR = 1e6  # stands for "no kink": clipped away, with a harmless gradient
LOST = 1e-13  # relative variance below which a conditional field has none
NUDGE = 1e-6  # relative variance added to every field where the four-field average is differentiated

# Each field's own function: (of the students, of the teachers).
Functions = tuple[Function, Function]


def apply(functions: Functions, fields: Array, K: int, axis: int) -> Array:
    """The students' function on the first K fields along an axis, the teachers' on the others."""
    students, teachers = jnp.split(fields, [K], axis=axis)
    return jnp.concatenate([functions[0](students), functions[1](teachers)], axis=axis)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3, 4))
def pair_averages(nodes: int, K: int, rows: int, first: Functions, second: Functions, C: Array, mean: Array) -> Array:
    """E[f_i h_a] for the first `rows` fields i and all fields a, (rows, n): the trapezoid rule on two normals."""
    z, weights = trapezoid(nodes)
    variance = jnp.diagonal(C)
    s = safe_sqrt(variance)[:rows, None]
    along = safe_ratio(C[:rows], s)
    rest = variance - along**2
    across = safe_sqrt(jnp.where(rest > LOST * variance, rest, 0.0))
    values = apply(first, mean[:rows, None] + s * z, K, axis=0)

    def row(along: Array, across: Array, values: Array) -> Array:
        at = mean[:, None, None] + along[:, None, None] * z[:, None]
        given = apply(second, at + across[:, None, None] * z, K, axis=0) @ weights  # (n, z)
        return given @ (values * weights)

    return in_turn(row, along, across, values, size=C.shape[0] * nodes**2)


@partial(pair_averages.defjvp, symbolic_zeros=True)
def _price_derivative(
    nodes: int, K: int, rows: int, first: Functions, second: Functions, primals: Any, tangents: Any
) -> Any:
    C, mean = primals
    dC, d_mean = tangents

    def average(f: Functions, h: Functions) -> Array:
        return pair_averages(nodes, K, rows, f, h, C, mean)

    slopes, curvatures = (_derivatives(first), _derivatives(second)), (_twice(first), _twice(second))
    total = jnp.zeros((rows, C.shape[0]))
    if not _is_zero(dC):
        d_own = jnp.diagonal(dC)
        total = total + average(*slopes) * dC[:rows]
        total = total + (average(curvatures[0], second) * d_own[:rows, None] + average(first, curvatures[1]) * d_own) / 2
    if not _is_zero(d_mean):
        total = total + average(slopes[0], second) * d_mean[:rows, None] + average(first, slopes[1]) * d_mean
    return average(first, second), total


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


def _derivatives(functions: Functions) -> Functions:
    return elementwise_derivative(functions[0]), elementwise_derivative(functions[1])


def _twice(functions: Functions) -> Functions:
    return _derivatives(_derivatives(functions))


class QuadratureAverages(Averages):
    """Students and teachers with any activations."""

    student: Activation = eqx.field(static=True)
    teacher: Activation = eqx.field(static=True)
    K: int = eqx.field(static=True)
    M: int = eqx.field(static=True)
    rule: Quadrature = eqx.field(static=True)

    def __init__(self, student: Activation, teacher: Activation, K: int, M: int, rule: Quadrature | None = None):
        self.student, self.teacher, self.K, self.M = student, teacher, K, M
        self.rule = chosen_rule(student, teacher) if rule is None else rule

    @classmethod
    def covers(cls, student: Activation, teacher: Activation, biased: bool) -> bool:
        return True

    @property
    def _smooth(self) -> bool:
        return self.student.smooth and self.teacher.smooth

    @property
    def _activations(self) -> Functions:
        return self.student, self.teacher

    @property
    def _slopes(self) -> Functions:
        return self.student.slope, self.teacher.slope

    def _average(self, rows: int, first: Functions, second: Functions, C: Covariance, mean: Means) -> Array:
        mean = jnp.zeros(C.shape[0]) if mean is None else mean
        return pair_averages(self.rule.nodes, self.K, rows, first, second, C, mean)

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        if self._smooth:
            return self._average(self.K + self.M, self._activations, self._activations, C, mean)
        pairs = _Pairs(self, C, mean, self.K + self.M)
        return pairs.average(apply(self._activations, pairs.first, self.K, axis=0), self._each(pairs.second))

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self._smooth:
            return self._average(self.K, self._slopes, self._slopes, C, mean)
        return self._kinked_slopes(_Pairs(self, C, mean, self.K))

    def _kinked_slopes(self, pairs: "_Pairs") -> Array:
        first = self.student.slope(pairs.first)
        if self.teacher.trainable:
            return pairs.average(first, apply(self._slopes, pairs.second, self.K, axis=1))
        students, teachers = pairs.second[:, : self.K], pairs.second[:, self.K :]
        # a teacher that jumps: E[g'_i g'_a] = E[g'_i g_a y] / across, with y the second normal
        jumps = self.teacher(teachers) * jnp.broadcast_to(pairs.y, pairs.second.shape)[:, self.K :]
        average = pairs.average(first, jnp.concatenate([self.student.slope(students), jumps], axis=1))
        return average.at[:, self.K :].set(safe_ratio(average, pairs.across)[:, self.K :])

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self._smooth:
            curvature = self.student.curvature, self.teacher.curvature
            return self._average(self.K, curvature, self._activations, C, mean)
        pairs = _Pairs(self, C, mean, self.K)
        if self.student.smooth:
            return pairs.average(self.student.curvature(pairs.first), self._each(pairs.second))
        moment = pairs.average(pairs.z * self.student.slope(pairs.first), self._each(pairs.second))
        return safe_ratio(moment - pairs.along * self._kinked_slopes(pairs), pairs.s)

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        if self._smooth:
            return self._average(self.K, self._slopes, self._activations, C, mean)
        pairs = _Pairs(self, C, mean, self.K)
        return pairs.average(self.student.slope(pairs.first), self._each(pairs.second))

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        mean = jnp.zeros(self.K + self.M) if mean is None else mean
        kinked = np.any(np.abs(self.kinks) < NEAR)
        return self._sampled(C, mean, w) if kinked else _held_error(self, C, mean, w)

    def by_held_fields(self, C: Array, mean: Array, w: Array) -> Array:
        """`slopes_squared_error` of functions without kinks: every pair of students held in turn."""
        i, j = np.triu_indices(self.K, 1)
        size = self.rule.held**2 * self.rule.given * (self.K + self.M)
        total = jnp.diag(in_turn(lambda i: self._held(C, mean, w, (i,)), np.arange(self.K), size=size))
        if i.size:
            pairs = in_turn(lambda i, j: self._held(C, mean, w, (i, j)), i, j, size=size)
            total = total.at[i, j].set(pairs).at[j, i].set(pairs)
        return total

    def _held(self, C: Array, mean: Array, w: Array, students: tuple[Array, ...]) -> Array:
        """E[g'_i g'_j Delta^2] (i = j for one student): all other fields averaged given the held ones, these at last."""
        loads, rest = [], C
        for i in students:
            loads.append(safe_ratio(rest[i], safe_sqrt(jnp.where(rest[i, i] > LOST * C[i, i], rest[i, i], 0.0))))
            rest = rest - jnp.outer(loads[-1], loads[-1])
        y, weights = disc(self.rule.held, self.rule.reach, len(students))
        means = mean + y @ jnp.stack(loads)
        left = jnp.diagonal(rest)
        s = safe_sqrt(jnp.where(left > LOST * jnp.diagonal(C), left, 0.0))
        c = jnp.where(np.eye(s.size, dtype=bool), 1.0, jnp.clip(safe_ratio(rest, s[:, None] * s), -1.0, 1.0))
        z, inner = hermite_rule(self.rule.given)
        waves = w * jnp.moveaxis(self._each(means[..., None] + s[:, None] * z) @ inner, -1, 0)  # (k, points, n)
        powers = c ** np.arange(z.size)[:, None, None]
        total = jnp.sum(waves * (waves @ powers), axis=(0, 2))
        slopes = [self.student.slope(means[:, i]) for i in students]
        return jnp.sum(weights * slopes[0] * slopes[-1] * total)

    def _sampled(self, C: Array, mean: Array, w: Array) -> Array:
        K = self.K
        fields = self.sample(C, mean, 4 * self.rule.points)
        error = self.student(fields[:, :K]) @ w[:K] + self.teacher(fields[:, K:]) @ w[K:]
        delta = error[:, None] * self.student.slope(fields[:, :K])
        return delta.T @ delta / fields.shape[0]

    def sample(self, C: Array, mean: Array, points: int) -> Array:
        """A fixed set of points with the law of all fields, (points, n)."""
        M = self.M
        L = factor(jnp.roll(jnp.roll(C, M, 0), M, 1))  # teachers first: their block never degenerates
        return mean + antithetic(points, self.K + M) @ jnp.roll(L, -M, 0).T

    @property
    def kinked(self) -> bool:
        """Does g or g' of any field jump?"""
        functions = [g.function for g in (self.student, self.teacher) if not g.smooth]
        return any(jumps_of(function) or kinks_of(function) for function in functions)

    @property
    def kinks(self) -> np.ndarray:
        """Where each field's activation, its slope or its curvature jumps, (n, count)."""
        each = [nearest_breaks(self.student)] * self.K + [nearest_breaks(self.teacher)] * self.M
        count = max(map(len, each))
        return np.array([kinks + (FAR,) * (count - len(kinks)) for kinks in each]).reshape(len(each), count)

    def _each(self, fields: Array) -> Array:
        """Each field's own activation; fields (rows, n, ...)."""
        return apply(self._activations, fields, self.K, axis=1)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _held_error(averages: QuadratureAverages, C: Array, mean: Array, w: Array) -> Array:
    return averages.by_held_fields(C, mean, w)


@_held_error.defjvp
def _nearby(averages: QuadratureAverages, primals: Any, tangents: Any) -> Any:
    """Where fields coincide the rule has no derivative, but the average has: it is taken a little apart, at 1e-6."""
    C, mean, w = primals
    apart = C + NUDGE * jnp.max(jnp.diagonal(C)) * jnp.eye(C.shape[0])
    return averages.by_held_fields(*primals), jax.jvp(averages.by_held_fields, (apart, mean, w), tangents)[1]


class _Pairs:
    """A rule for every pair (i, a) of a student field (or any, with `rows` = n) and a field.

    first: values of field i, (rows, 1 or n, z). second: values of field a given it, (rows, n, z, y).
    """

    def __init__(self, averages: QuadratureAverages, C: Covariance, mean: Means, rows: int):
        kinks, nodes = averages.kinks, averages.rule.nodes
        mean = jnp.zeros(C.shape[0]) if mean is None else mean
        variance = jnp.diagonal(C)
        self.s = safe_sqrt(variance)[:rows, None]
        self.along = safe_ratio(C[:rows], self.s)
        rest = variance - self.along**2
        self.across = safe_sqrt(jnp.where(rest > LOST * variance, rest, 0.0))
        if kinks.shape[1] > MANY:
            self._sample(averages, C, mean)
            return
        if kinks.size:
            own = safe_ratio(kinks[:rows] - mean[:rows, None], self.s)[:, None]
            # given field i the kink of field a is smooth over a width that shrinks as the two become alike
            met, width = (safe_ratio(x, self.along[..., None]) for x in (kinks - mean[:, None], 6 * self.across[..., None]))
            ends = jnp.concatenate([jnp.broadcast_to(own, met.shape), met - width, met + width], axis=-1)
            self.z, self.weights = panels(ends, nodes // 2)
            at = (mean[:, None] + self.along[..., None] * self.z)[..., None]
            self.y, self.inner = panels(safe_ratio(kinks[:, None] - at, self.across[..., None, None]), nodes // 2)
        else:
            self.z, self.weights = self.y, self.inner = trapezoid(nodes)
            at = mean[:, None, None] + self.along[..., None, None] * self.z[:, None]
        self.first = mean[:rows, None, None] + self.s[..., None] * self.z
        self.second = at + self.across[..., None, None] * self.y

    def _sample(self, averages: QuadratureAverages, C: Array, mean: Array) -> None:
        """One set of points for all pairs: the cost of panels grows with the square of the number of kinks."""
        rows, n = self.along.shape
        points = max(2**12, min(4 * averages.rule.points, 4 * ROOM // (rows * n)))
        fields = averages.sample(C, mean, points).T - mean[:, None]  # (n, points)
        self.z = safe_ratio(fields[:rows], self.s)[:, None]
        rest = safe_ratio(fields - self.along[..., None] * self.z, self.across[..., None])
        self.y, self.weights, self.inner = rest[..., None], np.full(rest.shape[-1], 1 / rest.shape[-1]), np.ones(1)
        self.first = (fields[:rows] + mean[:rows, None])[:, None]
        self.second = jnp.broadcast_to((fields + mean[:, None])[..., None], self.y.shape)

    def average(self, first: Array | np.ndarray, second: Array) -> Array:
        """Average of first (rows, 1 or n, z) times second (rows, n, z, y) over both normals, (rows, n)."""
        given = second @ self.inner if np.ndim(self.inner) == 1 else jnp.sum(second * self.inner, axis=-1)
        return jnp.sum(first * self.weights * given, axis=-1)
