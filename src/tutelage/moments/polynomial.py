"""Polynomials (linear, quadratic, He2, He3, He4, in any mixture): exact by Wick's theorem, with or without biases.

A polynomial of a Gaussian field splits into Wick powers, g(z) = sum_k f_k :z^k:, f_k = E[g^(k)(z)] / k!, and the average
of a product of Wick powers is a sum over graphs: each edge (a, b) of multiplicity m brings C_ab^m / m!, each vertex of
degree k brings k! f_k, and no edge starts and ends at the same vertex. Two vertices have one graph per degree:
    E[g_a h_b] = sum_k k! f_k h_k C_ab^k.
With four vertices the sum over teachers and students inside Delta^2 is a matrix product, so memory stays at K^2 n.
"""

from collections.abc import Iterable
from itertools import product
from math import comb, factorial, prod

import jax.numpy as jnp
from jaxtyping import Float
from numpy.polynomial.polynomial import polyder

from tutelage._types import Array
from tutelage.moments.averages import Averages, Covariance, Means


class PolynomialAverages(Averages):
    """Students and teachers with polynomial activations."""

    def _wick(self, C: Covariance, mean: Means, order: int) -> list[Array | None]:
        """k! f_k of the derivative of given order for every field, (n,) per degree k; None where it vanishes."""
        student, teacher = self.student.polynomial or (), self.teacher.polynomial or ()
        variance = jnp.split(jnp.diagonal(C), [self.K])
        means = (None, None) if mean is None else jnp.split(mean, [self.K])
        out: list[Array | None] = []
        for derivative in range(order, max(len(student), len(teacher))):
            each = zip((student, teacher), variance, means, strict=True)
            pieces = [_mean_of_polynomial(polyder(c, derivative), v, m) for c, v, m in each]
            vanishes = all(piece is None for piece in pieces)
            filled = [jnp.zeros_like(v) if p is None else p for p, v in zip(pieces, variance, strict=True)]
            out.append(None if vanishes else jnp.concatenate(filled))
        return out

    def _pairs(self, C: Array, left: list[Array | None], right: list[Array | None], rows: int) -> Array:
        """sum_k k! f_k h_k C^k on the first `rows` rows."""
        total = jnp.zeros((rows, C.shape[0]))
        for k, (f, h) in enumerate(zip(left, right, strict=False)):
            if f is not None and h is not None:
                total = total + f[:rows, None] * h * C[:rows] ** k / factorial(k)
        return total

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
        for graph in _graphs(len(slope) - 1, len(g) - 1):
            m12, m13, m23, m14, m24, m34 = graph
            f1, f2, f3, f4 = slope[m12 + m13 + m14], slope[m12 + m23 + m24], g[m13 + m23 + m34], g[m14 + m24 + m34]
            if f1 is None or f2 is None or f3 is None or f4 is None:
                continue
            towards3 = C[:K, None] ** m13 * C[None, :K] ** m23 * (w * f3)
            towards4 = C[:K, None] ** m14 * C[None, :K] ** m24 * (w * f4)
            joined = jnp.einsum("ija,ab,ijb->ij", towards3, C**m34, towards4)
            twins = 1 if (m13, m23) == (m14, m24) else 2  # the graph with 3 and 4 exchanged adds the same
            total = total + (twins / prod(map(factorial, graph))) * f1[:K, None] * f2[:K] * C[:K, :K] ** m12 * joined
        return total


def _graphs(slope_degree: int, degree: int) -> list[tuple[int, ...]]:
    """Edge multiplicities (12, 13, 23, 14, 24, 34), up to exchange of vertices 3 and 4."""
    edges = range(max(slope_degree, degree) + 1)
    return [
        m
        for m in product(edges, repeat=6)
        if m[0] + m[1] + m[3] <= slope_degree
        and m[0] + m[2] + m[4] <= slope_degree
        and m[1] + m[2] + m[5] <= degree
        and m[3] + m[4] + m[5] <= degree
        and m[1:3] <= m[3:5]
    ]


def _mean_of_polynomial(coefficients: Iterable[float], variance: Array, mean: Array | None) -> Array | None:
    """E[sum_p c_p (mean + s z)^p] over a standard normal z, or None where it is zero whatever the variance."""
    terms = [
        c * comb(p, 2 * j) * prod(range(1, 2 * j, 2)) * variance**j * (1.0 if mean is None else mean ** (p - 2 * j))
        for p, c in enumerate(coefficients)
        for j in range(p // 2 + 1)
        if c != 0 and (mean is not None or p == 2 * j)
    ]
    return sum(terms, start=jnp.zeros_like(variance)) if terms else None
