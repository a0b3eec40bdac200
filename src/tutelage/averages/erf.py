"""erf(x / sqrt 2), and sign as its hard limit: all averages are arcsines (Saad & Solla 1995; primer, I2, I3, I4, J2).

Both are one family, because erf(x / sqrt(2 s)) is the mean of sign(x + sqrt(s) xi) over a standard normal xi: the field
simply gains the variance s. With d_a = s_a + C_aa (s = 1 for erf, 0 for sign):
    E[g_a g_b]           = (2/pi) asin(C_ab / sqrt(d_a d_b))
    E[g'_a g'_b]         = (2/pi) / sqrt(d_a d_b - C_ab^2)
    E[g''_i g_a]         = -(2/pi) C_ia / (d_i sqrt(d_i d_a - C_ia^2))
Four fields: g' is a Gaussian function, which only tilts the law of the other fields, as if the softened fields i and j were
known to be zero. What is left of the others then is C_ab|ij = C_ab - x_a x_b - y_a y_b, d_a|ij likewise, where x and y are
the parts along field i and along what is left of field j, and
    E[g'_i g'_j g_a g_b] = E[g'_i g'_j] (2/pi) asin(C_ab|ij / sqrt(d_a|ij d_b|ij)),
which is the textbook's (4/pi^2) asin(L0 / sqrt(L1 L2)) / sqrt(L4) with L4 = d_i d_j - C_ij^2, L0 = L4 C_ab|ij.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.averages._base import Averages
from tutelage.averages.arcsine import safe_arcsin
from tutelage.problem.activation import Activation

SOFTNESS = {"erf": 1.0, "sign": 0.0}
ON_GPU = 2**24  # pairs of pairs at once: a loop of small kernels would wait for their launches


class ErfAverages(Averages):
    """Students erf; teachers erf or sign."""

    softness: tuple[float, ...] = eqx.field(static=True)
    K: int = eqx.field(static=True)

    def __init__(self, student: Activation, teacher: Activation, K: int, M: int):
        self.softness = (SOFTNESS[student.name],) * K + (SOFTNESS[teacher.name],) * M
        self.K = K

    @classmethod
    def covers(cls, student: Activation, teacher: Activation, biased: bool) -> bool:
        return student.name in SOFTNESS and teacher.name in SOFTNESS and not biased

    def _d(self, C: Array) -> Array:
        return jnp.diagonal(C) + jnp.asarray(self.softness)

    def _angles(self, sines: Array, a: np.ndarray, b: np.ndarray) -> Array:
        """arcsin for fields a and b; sign times itself is one, which the arcsine of a rounded one would miss by 1e-8."""
        itself = (a == b) & (np.array(self.softness)[a] == 0)
        return jnp.where(itself, jnp.pi / 2, safe_arcsin(sines)) if itself.any() else safe_arcsin(sines)

    def outputs(self, C: Array, mean: Array | None) -> Array:
        d = self._d(C)
        return (2 / jnp.pi) * self._angles(C / jnp.sqrt(d[:, None] * d), *np.indices(C.shape))

    def _root(self, C: Array) -> Array:
        """sqrt(d_i d_a - C_ia^2), shape (K, n)."""
        d = self._d(C)
        return jnp.sqrt(d[: self.K, None] * d - C[: self.K] ** 2)

    def slopes(self, C: Array, mean: Array | None) -> Array:
        return (2 / jnp.pi) / self._root(C)

    def curvatures(self, C: Array, mean: Array | None) -> Array:
        return -(2 / jnp.pi) * C[: self.K] / (self._d(C)[: self.K, None] * self._root(C))

    def forces(self, C: Array, mean: Array | None) -> Array:
        return jnp.zeros((self.K, C.shape[0]))  # g' is even and g odd: without biases nothing pulls on them

    def contrast(self, C: Array, mean: Array | None, w: Array) -> Array:
        """Each pair of students and each pair a <= b of fields once; the pairs i, i + k (cyclic) of one k at a time.

        So memory stays at K n^2, and what the loop reads has been computed before it: XLA would else fuse the roots into
        the loop over all pairs of pairs.
        """
        K, d = self.K, self._d(C)
        a, b = np.triu_indices(C.shape[0])
        partner = (np.arange(K) + np.arange(K // 2 + 1)[:, None]) % K  # (k, K)
        root = jax.lax.rsqrt(d)
        c = C * (root[:, None] * root)
        along, c_ij = c[:, :K], c[np.arange(K), partner][:, None]  # (n, K), (k, 1, K)
        across = (jnp.swapaxes(c[partner], 1, 2) - c_ij * along) * jax.lax.rsqrt(1 - c_ij**2)  # (k, n, K)
        left = jax.lax.rsqrt(1 - along**2 - across**2)
        c_ab, twice = c[a, b][:, None], jnp.where(a == b, 1.0, 2.0) * w[a] * w[b]

        @jax.checkpoint
        def given(pairs: tuple[Array, Array, Array]) -> Array:
            """sum_ab w_a w_b arcsin for the K pairs of one k."""
            x, y, s = pairs
            sines = c_ab * s[a] * s[b] - x[a] * x[b] - y[a] * y[b]
            return twice @ self._angles(sines, a[:, None], b[:, None])

        at_once = None if jax.default_backend() == "cpu" else int(np.clip(ON_GPU // (a.size * K), 1, K // 2 + 1))
        angles = jax.lax.map(given, (along * left, across * left, left), batch_size=at_once)
        return (2 / jnp.pi) * self.slopes(C, mean)[:, :K] * angles[_cyclic(K)]


def _cyclic(K: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the pair (i, j) is found among the pairs (i, i + k), k <= K/2: (k, i), each (K, K)."""
    i, j = np.indices((K, K))
    ahead = (j - i) % K
    return np.minimum(ahead, -ahead % K), np.where(ahead <= K // 2, i, j)
