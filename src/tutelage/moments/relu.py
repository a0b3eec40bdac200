"""ReLU: arc-cosine averages, and the four-point one as a smooth one-dimensional integral.

With c the correlation of fields a and b and theta their angle (cos theta = c):
    E[g_a g_b]   = sqrt(C_aa C_bb) (sin theta + (pi - theta) cos theta) / 2 pi       (Cho & Saul 2009)
    E[g'_a g'_b] = (pi - theta) / 2 pi
    E[g''_i g_a] = sqrt(C_ii C_aa - C_ia^2) / (2 pi C_ii)
Four points, F = E[th_1 th_2 z3+ z4+] (th: step, z+: positive part): scale the covariances between {1,2} and {3,4} by t.
By Price's theorem dF/dt = sum_{i in 12, j in 34} C_ij E[delta(z_i) th_k th_j z_l+] at C(t), where k and l are the partners
of i and j; F(0) factorizes. Given z_i = 0, Stein's lemma turns the rest into two-dimensional orthant probabilities. Where
two of the four fields are one and the same the dimension drops, and a closed form takes over.
"""

from functools import partial
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage._types import Array
from tutelage.moments.averages import Averages, Covariance, Means, in_turn, safe_arcsin, safe_ratio, safe_sqrt

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
