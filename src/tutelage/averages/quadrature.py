"""Any activation, any biases: averages by quadrature, with an error estimate.

Pairs of fields: a rule on two independent normals over [-7, 7]^2. The first carries the student field, the second what is
left of the other, so a field paired with itself is exact. The trapezoid rule converges exponentially for smooth functions
(price.py, with derivatives that hold everywhere). Where g, g' or g'' jumps, Gauss-Legendre panels end at the jump instead
(problem/elementwise.py finds the jumps of any function); of more than `MANY` jumps, fixed random points are averaged. Where g''
is not a function, it is moved onto the Gaussian by Stein's lemma,
    E[z g'_i g_a] = s_i E[g''_i g_a] + (C_ia/s_i) E[g'_i g'_a].

Four fields, E[g'_i g'_j Delta^2]: hold the student fields i and j; given them the others are Gaussian with shifted means
m_a, deviations s_a and correlations c_ab, and by Mehler's formula
    E[g_a g_b | i, j] = sum_k f_ak f_bk c_ab^k,    f_ak = E[g_a(m_a + s_a z) h_k(z)],  h_k = He_k / sqrt(k!).
So the integral over n fields costs three axes however large n is, and stays a sum of squares where Delta is small. The sum
converges too slowly for functions with kinks: those are averaged over all n fields at once on one fixed scrambled Sobol set
(the same points at each call, so the right-hand side stays repeatable), antithetic, to about 1e-3. G multiplies eta^2.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.averages._base import ROOM, Averages, in_turn, safe_ratio, safe_sqrt
from tutelage.averages.price import LOST, Functions, apply, pair_averages, trapezoid
from tutelage.averages.resolution import chosen_rule
from tutelage.averages.rules import MANY, NEAR, Quadrature, breaks, disc, hermite_rule, normals, panels
from tutelage.problem.activation import Activation
from tutelage.problem.elementwise import jumps_of, kinks_of

FAR = 1e6  # stands for "no kink": clipped away, with a harmless gradient
NUDGE = 1e-6  # relative variance added to every field where the four-field average is differentiated


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

    def _average(self, rows: int, first: Functions, second: Functions, C: Array, mean: Array | None) -> Array:
        mean = jnp.zeros(C.shape[0]) if mean is None else mean
        return pair_averages(self.rule.nodes, self.K, rows, first, second, C, mean)

    def outputs(self, C: Array, mean: Array | None) -> Array:
        if self._smooth:
            return self._average(self.K + self.M, self._activations, self._activations, C, mean)
        pairs = _Pairs(self, C, mean, self.K + self.M)
        return pairs.average(apply(self._activations, pairs.first, self.K, axis=0), self._each(pairs.second))

    def slopes(self, C: Array, mean: Array | None) -> Array:
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

    def curvatures(self, C: Array, mean: Array | None) -> Array:
        if self._smooth:
            curvature = self.student.curvature, self.teacher.curvature
            return self._average(self.K, curvature, self._activations, C, mean)
        pairs = _Pairs(self, C, mean, self.K)
        if self.student.smooth:
            return pairs.average(self.student.curvature(pairs.first), self._each(pairs.second))
        moment = pairs.average(pairs.z * self.student.slope(pairs.first), self._each(pairs.second))
        return safe_ratio(moment - pairs.along * self._kinked_slopes(pairs), pairs.s)

    def forces(self, C: Array, mean: Array | None) -> Array:
        if self._smooth:
            return self._average(self.K, self._slopes, self._activations, C, mean)
        pairs = _Pairs(self, C, mean, self.K)
        return pairs.average(self.student.slope(pairs.first), self._each(pairs.second))

    def contrast(self, C: Array, mean: Array | None, w: Array) -> Array:
        mean = jnp.zeros(self.K + self.M) if mean is None else mean
        kinked = np.any(np.abs(self.kinks) < NEAR)
        return self._sampled(C, mean, w) if kinked else _contrast(self, C, mean, w)

    def held_contrast(self, C: Array, mean: Array, w: Array) -> Array:
        """`contrast` of functions without kinks: every pair of students held in turn."""
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
        delta = self.student(fields[:, :K]) @ w[:K] + self.teacher(fields[:, K:]) @ w[K:]
        pull = delta[:, None] * self.student.slope(fields[:, :K])
        return pull.T @ pull / fields.shape[0]

    def sample(self, C: Array, mean: Array, points: int) -> Array:
        """A fixed set of points with the law of all fields, (points, n)."""
        M = self.M
        factor = _square_root(jnp.roll(jnp.roll(C, M, 0), M, 1))  # teachers first: their block never degenerates
        return mean + normals(points, self.K + M) @ jnp.roll(factor, -M, 0).T

    @property
    def kinked(self) -> bool:
        """Does g or g' of any field jump?"""
        functions = [g.function for g in (self.student, self.teacher) if not g.smooth]
        return any(jumps_of(function) or kinks_of(function) for function in functions)

    @property
    def kinks(self) -> np.ndarray:
        """Where each field's activation, its slope or its curvature jumps, (n, count)."""
        each = [breaks(self.student)] * self.K + [breaks(self.teacher)] * self.M
        count = max(map(len, each))
        return np.array([kinks + (FAR,) * (count - len(kinks)) for kinks in each]).reshape(len(each), count)

    def _each(self, fields: Array) -> Array:
        """Each field's own activation; fields (rows, n, ...)."""
        return apply(self._activations, fields, self.K, axis=1)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _contrast(averages: QuadratureAverages, C: Array, mean: Array, w: Array) -> Array:
    return averages.held_contrast(C, mean, w)


@_contrast.defjvp
def _nearby(averages: QuadratureAverages, primals: Any, tangents: Any) -> Any:
    """Where fields coincide the rule has no derivative, but the average has: it is taken a little apart, at 1e-6."""
    C, mean, w = primals
    apart = C + NUDGE * jnp.max(jnp.diagonal(C)) * jnp.eye(C.shape[0])
    return averages.held_contrast(*primals), jax.jvp(averages.held_contrast, (apart, mean, w), tangents)[1]


class _Pairs:
    """A rule for every pair (i, a) of a student field (or any, with `rows` = n) and a field.

    first: values of field i, (rows, 1 or n, z). second: values of field a given it, (rows, n, z, y).
    """

    def __init__(self, averages: QuadratureAverages, C: Array, mean: Array | None, rows: int):
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

    def average(self, first: Any, second: Any) -> Array:
        """Average of first (rows, 1 or n, z) times second (rows, n, z, y) over both normals, (rows, n)."""
        given = second @ self.inner if np.ndim(self.inner) == 1 else jnp.sum(second * self.inner, axis=-1)
        return jnp.sum(first * self.weights * given, axis=-1)


def _square_root(C: Array) -> Array:
    """A factor F with F F^T = C for a covariance that may be singular: Cholesky with empty columns for lost directions."""
    n = C.shape[0]
    F = jnp.zeros_like(C)
    for column in range(n):
        rest = C[:, column] - F @ F[column]
        pivot = jnp.where(rest[column] > 1e-14 * C[column, column], rest[column], 0.0)
        values = safe_ratio(rest, safe_sqrt(pivot))
        F = F.at[:, column].set(jnp.where(jnp.arange(n) < column, 0.0, values))
    return F
