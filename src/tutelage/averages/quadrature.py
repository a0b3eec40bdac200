"""Any activation, any biases: averages by quadrature, with an error estimate.

Pairs of fields: the trapezoid rule on two independent normals over [-7, 7]^2, which converges exponentially for smooth
functions (the tails are below 1e-11). The first normal carries the student field, the second what is left of the other,
so a field paired with itself is exact. Functions with a kink converge only like 1/nodes^2: the estimate says so. Where g'
may jump, g'' is moved onto the Gaussian by Stein's lemma, E[z g'_i g_a] = s_i E[g''_i g_a] + (C_ia/s_i) E[g'_i g'_a].
The average with four fields is taken over all n at once, on one fixed scrambled Sobol set (the same points at each call,
so the right-hand side stays smooth and repeatable), antithetic. Its error is much larger; it multiplies eta^2.
"""

from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage import _checks
from tutelage._types import Array
from tutelage.averages._base import Averages, safe_ratio, safe_sqrt
from tutelage.problem.activation import Activation

REACH = 7.0


class Quadrature(eqx.Module):
    """How finely to average functions without a closed form.

    nodes: per axis, for pairs of fields (tanh: 1e-8 needs 49 at variance 1, 129 at 10, 401 at 100).
    points: for the four-field average of the eta^2 term (a power of two).
    """

    nodes: int = eqx.field(static=True, default=64)
    points: int = eqx.field(static=True, default=2**14)

    def __check_init__(self) -> None:
        _checks.as_count("nodes", self.nodes, least=8)
        if _checks.as_count("points", self.points, least=16) & (self.points - 1):
            nearest = 2 ** round(np.log2(self.points))
            _checks.known("points (of the Sobol set)", self.points, (nearest,))

    def finer(self) -> "Quadrature":
        """The rule that estimates this one's error: 3/2 the nodes, four times the points."""
        return Quadrature(self.nodes * 3 // 2, self.points * 4)


class QuadratureAverages(Averages):
    """Students and teachers with any activations."""

    student: Activation = eqx.field(static=True)
    teacher: Activation = eqx.field(static=True)
    K: int = eqx.field(static=True)
    M: int = eqx.field(static=True)
    rule: Quadrature = eqx.field(static=True)

    def __init__(self, student: Activation, teacher: Activation, K: int, M: int, rule: Quadrature | None = None):
        self.student, self.teacher, self.K, self.M = student, teacher, K, M
        self.rule = Quadrature() if rule is None else rule

    @classmethod
    def covers(cls, student: Activation, teacher: Activation, biased: bool) -> bool:
        return True

    def outputs(self, C: Array, mean: Array | None) -> Array:
        rows, columns = self._grid(C, mean, self.K + self.M)
        return self._sum(jnp.concatenate([self.student(rows[: self.K]), self.teacher(rows[self.K :])]), self._each(columns))

    def slopes(self, C: Array, mean: Array | None) -> Array:
        rows, columns = self._grid(C, mean, self.K)
        student = self.student.slope(rows)
        others = self.student.slope(columns[:, : self.K])
        if self.teacher.trainable:
            return self._sum(student, jnp.concatenate([others, self.teacher.slope(columns[:, self.K :])], axis=1))
        # a teacher that jumps: E[g'_i g'_a] = E[g'_i g_a y] / across, with y the second normal
        z = jnp.asarray(_trapezoid(self.rule.nodes)[0])
        teachers = self._sum(student, self.teacher(columns[:, self.K :]) * z)
        return jnp.concatenate([self._sum(student, others), safe_ratio(teachers, self._across(C, self.K)[:, self.K :])], 1)

    def curvatures(self, C: Array, mean: Array | None) -> Array:
        rows, columns = self._grid(C, mean, self.K)
        if self.student.smooth:
            return self._sum(self.student.curvature(rows), self._each(columns))
        z, s = jnp.asarray(_trapezoid(self.rule.nodes)[0]), safe_sqrt(jnp.diagonal(C))[: self.K, None]
        moment = self._sum(z * self.student.slope(rows), self._each(columns))
        return safe_ratio(moment - safe_ratio(C[: self.K], s) * self.slopes(C, mean), s)

    def forces(self, C: Array, mean: Array | None) -> Array:
        rows, columns = self._grid(C, mean, self.K)
        return self._sum(self.student.slope(rows), self._each(columns))

    def contrast(self, C: Array, mean: Array | None, w: Array) -> Array:
        K, M = self.K, self.M
        factor = _square_root(jnp.roll(jnp.roll(C, M, 0), M, 1))  # teachers first: their block never degenerates
        fields = _normals(self.rule.points, K + M) @ jnp.roll(factor, -M, 0).T
        if mean is not None:
            fields = fields + mean
        delta = self.student(fields[:, :K]) @ w[:K] + self.teacher(fields[:, K:]) @ w[K:]
        pull = delta[:, None] * self.student.slope(fields[:, :K])
        return pull.T @ pull / fields.shape[0]

    def _sum(self, first: Array, second: Array) -> Array:
        """Average of first (rows, z) times second (rows, n, z, w) over both normals."""
        weights = jnp.asarray(_trapezoid(self.rule.nodes)[1])
        return jnp.einsum("iz,iaz->ia", first * weights, second @ weights)

    def _each(self, fields: Array) -> Array:
        """Each field's own activation; fields (rows, n, ...)."""
        return jnp.concatenate([self.student(fields[:, : self.K]), self.teacher(fields[:, self.K :])], axis=1)

    def _across(self, C: Array, rows: int) -> Array:
        """Standard deviation of field a given field i, (rows, n)."""
        variance = jnp.diagonal(C)
        rest = variance - safe_ratio(C[:rows] ** 2, variance[:rows, None])
        return safe_sqrt(jnp.where(rest > 1e-14 * variance, rest, 0.0))

    def _grid(self, C: Array, mean: Array | None, rows: int) -> tuple[Array, Array]:
        """Values of field i on the first axis (rows, z) and of field a given it (rows, n, z, w)."""
        z = jnp.asarray(_trapezoid(self.rule.nodes)[0])
        s = safe_sqrt(jnp.diagonal(C))[:rows, None]
        along, across = safe_ratio(C[:rows], s), self._across(C, rows)
        first = s * z
        second = along[..., None, None] * z[:, None] + across[..., None, None] * z
        if mean is not None:
            first, second = first + mean[:rows, None], second + mean[:, None, None]
        return first, second


@lru_cache
def _trapezoid(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    z = np.linspace(-REACH, REACH, nodes)
    density = np.exp(-(z**2) / 2)
    return z, density / density.sum()


@lru_cache
def _normals(points: int, n: int) -> np.ndarray:
    """A fixed antithetic point set with the law of n standard normals, whitened so that its covariance is exact."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    uniform = qmc.Sobol(n, scramble=True, rng=np.random.default_rng(0)).random(points // 2)
    half = ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / half.shape[0])).T
    return np.concatenate([half, -half])


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
