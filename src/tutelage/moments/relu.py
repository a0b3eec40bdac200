"""ReLU: arc-cosine averages, and the four-point one as a smooth one-dimensional integral.

With c the correlation of fields a and b and theta their angle (cos theta = c):
    E[g_a g_b]   = sqrt(C_aa C_bb) (sin theta + (pi - theta) cos theta) / 2 pi       (Cho & Saul 2009)
    E[g'_a g'_b] = (pi - theta) / 2 pi
    E[g''_i g_a] = sqrt(C_ii C_aa - C_ia^2) / (2 pi C_ii)
Four points, F = E[th_1 th_2 z3+ z4+] (th: step, z+: positive part): scale the covariances between {1,2} and {3,4} by t.
By Price's theorem dF/dt = sum_{i in 12, j in 34} C_ij E[delta(z_i) th_k th_j z_l+] at C(t), where k and l are the partners
of i and j; F(0) factorizes. Given z_i = 0, Stein's lemma turns the rest into two-dimensional orthant probabilities. Where
two of the four fields are one and the same the dimension drops, and a closed form takes over. Of few fields each quadruple
gets its formula beforehand; of many, all of them are computed for one pair of students after the other and one is chosen.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tutelage._types import Array, ArrayLike
from tutelage.moments.averages import Averages, Covariance, Means
from tutelage.moments.numerics import ROOM, safe_arcsin, safe_ratio, safe_sqrt

NODES = 48
ROUNDING = 4 * float(np.finfo(float).eps)  # a difference no larger than this share is none; its root would be 1e-8
SAME = 4e-15  # fields whose correlation differs from one by no more than rounding are one field (costs 1e-9 at most)


class ReluAverages(Averages):
    """Students and teachers both ReLU."""

    error_rounding: ClassVar[float] = 1e-14  # slopes have roots of what separates two fields, so roots of its rounding

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        same = jnp.eye(C.shape[0], dtype=bool)
        root, angle = _root_and_angle(C, C)
        return jnp.where(same, C / 2, (root + (jnp.pi - angle) * C) / (2 * jnp.pi))

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        _, angle = _root_and_angle(C[: self.K], C)
        same = jnp.eye(self.K, C.shape[0], dtype=bool)
        return jnp.where(same, 0.5, (jnp.pi - angle) / (2 * jnp.pi))

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        root, _ = _root_and_angle(C[: self.K], C)
        variance = jnp.diagonal(C)[: self.K, None]
        same = jnp.eye(self.K, C.shape[0], dtype=bool)
        return jnp.where(same, 0.0, safe_ratio(root, 2 * jnp.pi * variance))

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        """E[th_i z_a+] = (s_a + C_ia / s_i) / (2 sqrt(2 pi))."""
        s = safe_sqrt(jnp.diagonal(C))
        return (s + safe_ratio(C[: self.K], s[: self.K, None])) / (2 * jnp.sqrt(2 * jnp.pi))

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        s = safe_sqrt(jnp.diagonal(C))
        r = jnp.clip(safe_ratio(C, s[:, None] * s), -1.0, 1.0)
        K, n = self.K, self.K + self.M
        few = (K * n) ** 2 * NODES <= 4 * ROOM  # a quarter of the quadruples are different
        total = (_at_once if few else _pair_by_pair)(r, w * s, K)
        return total + jnp.triu(total, 1).T


def _at_once(r: Array, weight: Array, K: int) -> Array:
    """The sum over a and b for i <= j, (K, K): each quadruple by its own formula."""
    total = jnp.zeros((K, K))
    for form, (i, j, a, b) in _index_sets(K, weight.size):
        if i.size:
            values = form(r, i, j, a, b) * weight[a] * weight[b] * np.where(a == b, 1.0, 2.0)
            total = total.at[i, j].add(values)
    return total


def _pair_by_pair(r: Array, weight: Array, K: int) -> Array:
    """The same in memory of order n^2: each quadruple by all formulas."""
    a, b = np.triu_indices(weight.size)
    weights = weight[a] * weight[b] * np.where(a == b, 1.0, 2.0)

    @jax.checkpoint
    def one(students: tuple[Array, Array]) -> Array:
        i, j = students
        three = (i == j) | (a == i) | (a == j) | (b == i) | (b == j)
        special = three | (a == b)
        apart = jnp.where(special, 0.0, 1.0)  # no derivative passes through a formula that is not used
        generic = step_step_relu_relu(*(apart * x for x in (r[i, j], r[i, a], r[i, b], r[j, a], r[j, b], r[a, b])))
        square = _square(r * jnp.where(i == j, 0.0, 1.0), i, j, a, b)
        values = jnp.where(three, _step_once(r, i, j, a, b), jnp.where(a == b, square, generic))
        return values @ weights

    i, j = np.triu_indices(K)
    return jnp.zeros((K, K)).at[i, j].set(jax.lax.map(one, (i, j)))


def _index_sets(K: int, n: int):
    """The quadruples i <= j < K, a <= b < n, sorted by which fields coincide, with the formula for each sort."""
    i, j, a, b = (x.ravel() for x in np.meshgrid(range(K), range(K), range(n), range(n), indexing="ij"))
    once = (i <= j) & (a <= b)
    i, j, a, b = i[once], j[once], a[once], b[once]
    three = (i == j) | (a == i) | (a == j) | (b == i) | (b == j)
    square = ~three & (a == b)
    generic = ~three & ~square
    return [(form, (i[m], j[m], a[m], b[m])) for form, m in ((_step_once, three), (_square, square), (_generic, generic))]


def _step_once(r: Array, i: ArrayLike, j: ArrayLike, a: np.ndarray, b: np.ndarray) -> Array:
    """One step function remains: the other is the same, or is absorbed by a positive part of the same field."""
    step = jnp.where((a == i) | (b == i), j, i)
    return step_relu_relu(r[step, a], r[step, b], jnp.where(a == b, 1.0, r[a, b]))


def _square(r: Array, i: ArrayLike, j: ArrayLike, a: np.ndarray, b: np.ndarray) -> Array:
    return step_step_square(r[i, j], r[i, a], r[j, a])


def _generic(r: Array, i: np.ndarray, j: np.ndarray, a: np.ndarray, b: np.ndarray) -> Array:
    return step_step_relu_relu(r[i, j], r[i, a], r[i, b], r[j, a], r[j, b], r[a, b])


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
    coincidences = (
        (r34, step_step_square(r12, r13, r23)),
        (r12, step_relu_relu(r13, r14, r34)),
        (r13, step_relu_relu(r23, r24, r34)),
        (r14, step_relu_relu(r24, r23, r34)),
        (r23, step_relu_relu(r13, r14, r34)),
        (r24, step_relu_relu(r14, r13, r34)),
    )
    for r, closed in coincidences:
        value = jnp.where(r > 1 - SAME, closed, value)
    return value


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
    through_k = safe_ratio(kl, safe_sqrt(kk)) * _quadrant(jj * kk - kj**2, ll * kk - kl**2, jl * kk - kj * kl)
    through_j = safe_ratio(jl, safe_sqrt(jj)) * _quadrant(kk * jj - kj**2, ll * jj - jl**2, kl * jj - kj * jl)
    through_l = safe_sqrt(ll) * _quadrant(kk * ll - kl**2, jj * ll - jl**2, kj * ll - kl * jl)
    return (through_k + through_j + through_l) / jnp.sqrt(2 * jnp.pi)


def _quadrant(aa: Array, bb: Array, ab: Array) -> Array:
    """P(a > 0, b > 0) from variances and covariance."""
    return 1 / 4 + safe_arcsin(safe_ratio(ab, safe_sqrt(aa) * safe_sqrt(bb))) / (2 * jnp.pi)


def _root_and_angle(rows: Array, C: Array) -> tuple[Array, Array]:
    """sqrt(C_ii C_aa - C_ia^2) and the angle between the fields, accurate also when they almost coincide."""
    variance = jnp.diagonal(C)
    square = variance[: rows.shape[0], None] * variance
    gap = square - rows**2
    root = safe_sqrt(jnp.where(gap > ROUNDING * square, gap, 0.0))
    apart = root > 0
    angle = jnp.arctan2(jnp.where(apart, root, 0.0), jnp.where(apart | (rows != 0), rows, 1.0))
    return root, jnp.where(apart, angle, jnp.where(rows < 0, jnp.pi, 0.0))
