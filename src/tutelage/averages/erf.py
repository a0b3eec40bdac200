"""erf(x / sqrt 2), and sign as its hard limit: all averages are arcsines (Saad & Solla 1995; primer, I2, I3, I4, J2).

Both are one family, because erf(x / sqrt(2 s)) is the mean of sign(x + sqrt(s) xi) over a standard normal xi: the field
simply gains the variance s. With d_a = s_a + C_aa (s = 1 for erf, 0 for sign):
    E[g_a g_b]           = (2/pi) asin(C_ab / sqrt(d_a d_b))
    E[g'_a g'_b]         = (2/pi) / sqrt(d_a d_b - C_ab^2)
    E[g''_i g_a]         = -(2/pi) C_ia / (d_i sqrt(d_i d_a - C_ia^2))
    E[g'_1 g'_2 g_3 g_4] = (4/pi^2) asin(L0 / sqrt(L1 L2)) / sqrt(L4)
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tutelage._types import Array
from tutelage.averages._base import Averages, safe_arcsin
from tutelage.problem.activation import Activation

SOFTNESS = {"erf": 1.0, "sign": 0.0}


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

    def _angles(self, sines: Array) -> Array:
        """arcsin; sign times itself is one, which the arcsine of a rounded one would miss by 1e-8."""
        itself = np.diag(np.array(self.softness) == 0)
        return jnp.where(itself, jnp.pi / 2, safe_arcsin(jnp.where(itself, 0.0, sines)))

    def outputs(self, C: Array, mean: Array | None) -> Array:
        d = self._d(C)
        return (2 / jnp.pi) * self._angles(C / jnp.sqrt(d[:, None] * d))

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
        K, d = self.K, self._d(C)
        d1, d2 = d[:K, None, None, None], d[None, :K, None, None]
        C12, C34 = C[:K, :K, None, None], C[None, None]
        C13, C14 = C[:K, None, :, None], C[:K, None, None, :]
        C23, C24 = C[None, :K, :, None], C[None, :K, None, :]
        L4 = d1 * d2 - C12**2
        L0 = L4 * C34 - C23 * C24 * d1 - C13 * C14 * d2 + C12 * (C13 * C24 + C14 * C23)
        L1 = L4[..., 0] * d - C[None, :K] ** 2 * d1[..., 0] - C[:K, None] ** 2 * d2[..., 0]
        L1 = L1 + 2 * C12[..., 0] * C[:K, None] * C[None, :K]  # (K, K, n): the same for fields 3 and 4
        angles = self._angles(L0 / jnp.sqrt(L1[..., :, None] * L1[..., None, :]))
        return (4 / jnp.pi**2) * jnp.einsum("ijab,a,b->ij", angles, w, w) / jnp.sqrt(L4[..., 0, 0])
