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
Averages of two fields also take NumPy arrays, with any leading axes: `LocalDynamics` needs no program for them.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tutelage._types import Array, ArrayLike, NumpyOrJax
from tutelage.moments.averages import Averages, Covariance, Means, safe_arcsin
from tutelage.problem.activation import NAMED

Index = Int[np.ndarray, "turns pairs"]
SOFTNESS = {NAMED["erf"]: 1.0, NAMED["sign"]: 0.0}
# pairs of pairs at once: XLA shares more than SMALL_TURN among threads, which pays from LARGE_TURN / 8 in all
SMALL_TURN, LARGE_TURN, ON_GPU = 2**9, 2**17, 2**24  # a GPU waits for launches


class ErfAverages(Averages):
    """Students erf; teachers erf or sign."""

    @property
    def softness(self) -> tuple[float, ...]:
        """s of each field."""
        return (SOFTNESS[self.student],) * self.K + (SOFTNESS[self.teacher],) * self.M

    def outputs(self, C: Covariance, mean: Means) -> Float[Array, "n n"]:
        d = _d(C, self.softness)
        sines = C / _xp(C).sqrt(d[..., :, None] * d[..., None, :])
        return (2 / np.pi) * _angles(sines, self.softness, *np.indices(C.shape[-2:]))

    def slopes(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        return (2 / np.pi) / _root(C, _d(C, self.softness), self.K)

    def curvatures(self, C: Covariance, mean: Means) -> Float[Array, "K n"]:
        K, d = self.K, _d(C, self.softness)
        return -(2 / np.pi) * C[..., :K, :] / (d[..., :K, None] * _root(C, d, K))

    def slopes_outputs(self, C: Covariance, mean: Means) -> Float[Any, "K n"]:
        return np.zeros((self.K, C.shape[-1]))  # g' is even and g odd: without biases nothing pulls on them

    def slopes_squared_error(self, C: Covariance, mean: Means, w: Float[Array, " n"]) -> Float[Array, "K K"]:
        """Each pair of students, i and i + k (cyclic), and each pair a <= b of fields once; some pairs of fields at a time.

        A row holds all pairs of students, so that its arcsines are computed several at once. On a CPU there are always two
        turns: what a loop reads has been computed before it, while XLA would else compute the roots again for each pair of
        pairs. On a GPU each turn is a few launches more.
        """
        K, d = self.K, _d(C, self.softness)
        i = np.tile(np.arange(K), K // 2 + 1)
        j = (i + np.repeat(np.arange(K // 2 + 1), K)) % K
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

        angles = jnp.sum(jax.lax.map(some, (a, b, counts)), axis=0).reshape(-1, K)
        return (2 / jnp.pi) * self.slopes(C, mean)[:, :K] * angles[_cyclic(K)]


def _xp(x: NumpyOrJax) -> Any:
    return np if isinstance(x, np.ndarray) else jnp


def _d(C: Covariance, softness: tuple[float, ...]) -> Float[Any, " n"]:
    if isinstance(C, np.ndarray):
        return np.diagonal(C, axis1=-2, axis2=-1) + softness
    own = np.eye(len(softness), dtype=bool)  # a sum over a mask joins the loops around it; a gather would not
    return jnp.sum(jnp.where(own, C, 0.0), axis=-1) + np.array(softness)


def _root(C: Covariance, d: Float[Any, " n"], K: int) -> Float[Any, "K n"]:
    """sqrt(d_i d_a - C_ia^2)."""
    return _xp(C).sqrt(d[..., :K, None] * d[..., None, :] - C[..., :K, :] ** 2)


def _angles(sines: NumpyOrJax, softness: tuple[float, ...], a: ArrayLike, b: ArrayLike) -> Any:
    """arcsin for fields a and b; sign times itself is one, which the arcsine of a rounded one would miss by 1e-8."""
    hard, xp = np.array(softness) == 0, _xp(sines)
    angles = np.arcsin(np.clip(sines, -1.0, 1.0)) if xp is np else safe_arcsin(sines)
    return xp.where((a == b) & xp.asarray(hard)[a], np.pi / 2, angles) if hard.any() else angles


def _in_turns(n: int, width: int) -> tuple[Index, Index, Float[np.ndarray, "turns pairs"]]:
    """The pairs a <= b of n fields and how often each counts, (turns, pairs): as many at a time as there is room for."""
    a, b = np.triu_indices(n)
    few, on_cpu = a.size * width <= LARGE_TURN // 8, jax.default_backend() == "cpu"
    at_once = ON_GPU if not on_cpu else SMALL_TURN if few else LARGE_TURN
    turns = max(2 if on_cpu else 1, -(-a.size * width // at_once))
    missing = -a.size % turns
    counts = np.pad(np.where(a == b, 1.0, 2.0), (0, missing))  # what fills the last turn counts nothing
    a, b = (np.pad(z, (0, missing)) for z in (a, b))
    return a.reshape(turns, -1), b.reshape(turns, -1), counts.reshape(turns, -1)


def _cyclic(K: int) -> tuple[Int[np.ndarray, "K K"], Int[np.ndarray, "K K"]]:
    """Where the pair (i, j) is found among the pairs (i, i + k), k <= K/2: (k, i)."""
    i, j = np.indices((K, K))
    ahead = (j - i) % K
    return np.minimum(ahead, -ahead % K), np.where(ahead <= K // 2, i, j)
