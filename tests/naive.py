"""The theory again, written to be obvious: plain loops over indices, scalars, scipy. Shares no code with the library.

Averages come from the textbook integrals I2, I3, I4, J2 of each activation; the dynamics from the update itself,
    dR_im = eta E[delta_i rho_m],   dQ_ik = eta (E[delta_i lambda_k] + E[delta_k lambda_i]) + eta^2/B E[delta_i delta_k],
without A, B, G and without Stein's lemma for the spectrum.
"""

from itertools import product
from math import asin, pi, sqrt

import numpy as np
from scipy.integrate import quad, solve_ivp


class Erf:
    """Saad & Solla 1995."""

    @staticmethod
    def I2(C):
        return 2 / pi * asin(C[0][1] / sqrt((1 + C[0][0]) * (1 + C[1][1])))

    @staticmethod
    def J2(C):
        return 2 / pi / sqrt((1 + C[0][0]) * (1 + C[1][1]) - C[0][1] ** 2)

    @staticmethod
    def I3(C):
        L3 = (1 + C[0][0]) * (1 + C[2][2]) - C[0][2] ** 2
        return (
            2
            / pi
            / sqrt(L3)
            * (C[1][2] * (1 + C[0][0]) - C[0][1] * C[0][2])
            / (1 + C[0][0])
        )

    @staticmethod
    def I4(C):
        L4 = (1 + C[0][0]) * (1 + C[1][1]) - C[0][1] ** 2
        L0 = (
            L4 * C[2][3]
            - C[1][2] * C[1][3] * (1 + C[0][0])
            - C[0][2] * C[0][3] * (1 + C[1][1])
            + C[0][1] * (C[0][2] * C[1][3] + C[0][3] * C[1][2])
        )

        def L(a):
            return (
                L4 * (1 + C[a][a])
                - C[1][a] ** 2 * (1 + C[0][0])
                - C[0][a] ** 2 * (1 + C[1][1])
                + 2 * C[0][1] * C[0][a] * C[1][a]
            )

        return 4 / pi**2 / sqrt(L4) * asin(L0 / sqrt(L(2) * L(3)))


class Wick:
    """Monomials c x^p:

    the average of a product of Gaussian fields is a sum over pairings, one at a time.
    """

    def __init__(self, power):
        self.power = power

    def moment(self, C, fields):
        if not fields:
            return 1.0
        first = fields[0]
        rest = fields[1:]
        return sum(
            C[first][other] * self.moment(C, rest[:k] + rest[k + 1 :])
            for k, other in enumerate(rest)
        )

    def _mean(self, C, powers, factor):
        fields = tuple(a for a, p in enumerate(powers) for _ in range(p))
        return 0.0 if len(fields) % 2 else factor * self.moment(C, fields)

    def I2(self, C):
        return self._mean(C, (self.power, self.power), 1.0)

    def J2(self, C):
        return self._mean(C, (self.power - 1, self.power - 1), self.power**2)

    def I3(self, C):
        return self._mean(C, (self.power - 1, 1, self.power), self.power)

    def I4(self, C):
        return self._mean(
            C, (self.power - 1, self.power - 1, self.power, self.power), self.power**2
        )


class Relu:
    """Arc-cosine kernels; the four-point average by adaptive quadrature of Price's theorem."""

    @staticmethod
    def _r(C, a, b):
        return max(-1.0, min(1.0, C[a][b] / sqrt(C[a][a] * C[b][b])))

    def I2(self, C):
        r = self._r(C, 0, 1)
        return (
            sqrt(C[0][0] * C[1][1])
            * (sqrt(1 - r * r) + r * (pi / 2 + asin(r)))
            / (2 * pi)
        )

    def J2(self, C):
        return 0.25 + asin(self._r(C, 0, 1)) / (2 * pi)

    def I3(self, C):
        pair = [[C[0][0], C[0][2]], [C[0][2], C[2][2]]]
        corner = sqrt(max(C[0][0] * C[2][2] - C[0][2] ** 2, 0.0)) / (2 * pi * C[0][0])
        return C[0][1] * corner + C[1][2] * self.J2(pair)

    def I4(self, C):
        C = np.asarray(C, float)
        same = [
            (a, b)
            for a in range(4)
            for b in range(a + 1, 4)
            if self._r(C, a, b) > 1 - 1e-13
        ]
        if same:
            return self._coincident(C, same)

        def slope(u):
            t = 1 - (1 - u) ** 4
            D = C.copy()
            for i, j in product((0, 1), (2, 3)):
                D[i, j] = D[j, i] = t * C[i, j]
            total = 0.0
            for i, j in product((0, 1), (2, 3)):
                k = 1 - i
                l = 5 - j
                total += (
                    C[i, j] / sqrt(2 * pi * D[i, i]) * self._on_plane(D, i, (k, j), l)
                )
            return total * 4 * (1 - u) ** 3

        start = self.J2(C[:2, :2]) * self.I2(C[2:, 2:])
        return start + quad(slope, 0, 1, epsabs=1e-13, epsrel=1e-12, limit=200)[0]

    @staticmethod
    def _on_plane(D, i, steps, l):
        """E[theta theta z_l+] given z_i = 0."""
        rest = [*steps, l]
        S = D[np.ix_(rest, rest)] - np.outer(D[rest, i], D[rest, i]) / D[i, i]
        total = 0.0
        for m in range(3):
            a, b = [x for x in range(3) if x != m]
            if S[m, m] <= 0:
                continue
            P = (
                S[np.ix_([a, b], [a, b])]
                - np.outer(S[[a, b], m], S[[a, b], m]) / S[m, m]
            )
            size = sqrt(max(P[0, 0], 0) * max(P[1, 1], 0))
            r = max(-1.0, min(1.0, P[0, 1] / size)) if size > 0 else 0.0
            total += S[2, m] / sqrt(2 * pi * S[m, m]) * (0.25 + asin(r) / (2 * pi))
        return total

    def _coincident(self, C, same):
        """Integrate out one field over a fine grid:

        given z_a, what is left is at most two-dimensional.
        """
        r = lambda a, b: self._r(C, a, b)  # noqa: E731
        s = np.sqrt(np.diag(C))

        def P3(a, b, c):
            return 1 / 8 + (asin(r(a, b)) + asin(r(a, c)) + asin(r(b, c))) / (4 * pi)

        root = lambda x: sqrt(max(1 - x * x, 0.0))  # noqa: E731
        if (0, 1) in same or any(a in (0, 1) and b in (2, 3) for a, b in same):
            absorbed = next((a for a, b in same if a in (0, 1)), 0)
            a = 1 - absorbed
            b = 2
            c = 3
            if (0, 1) in same:
                a = 0
            tail = (
                root(r(b, c)) + r(a, b) * root(r(a, c)) + r(a, c) * root(r(a, b))
            ) / (4 * pi)
            return s[b] * s[c] * (r(b, c) * P3(a, b, c) + tail)
        a = 0
        b = 1
        c = 2
        cross = (
            2 * r(a, c) * r(b, c) - r(a, b) * (r(a, c) ** 2 + r(b, c) ** 2)
        ) / root(r(a, b))
        tail = (r(a, c) * root(r(a, c)) + r(b, c) * root(r(b, c)) + cross) / (4 * pi)
        return s[c] ** 2 * (P3(a, b, c) + tail)


class Grid:
    """Any smooth function:

    two-dimensional Gauss-Hermite for pairs, so for gradient flow only.
    """

    def __init__(self, g, slope, nodes=120):
        self.g, self.slope = g, slope
        x, w = np.polynomial.hermite_e.hermegauss(nodes)
        self.x, self.y = np.meshgrid(x, x, indexing="ij")
        self.w = np.outer(w, w) / (2 * pi)

    def _pair(self, C):
        along = sqrt(C[0][0])
        slope = C[0][1] / along
        return along * self.x, slope * self.x + sqrt(
            max(C[1][1] - slope**2, 0.0)
        ) * self.y

    def I2(self, C):
        a, b = self._pair(C)
        return float(np.sum(self.w * self.g(a) * self.g(b)))

    def J2(self, C):
        a, b = self._pair(C)
        return float(np.sum(self.w * self.slope(a) * self.slope(b)))

    def I3(self, C):
        """E[g'(a) b g(c)]:

        b is its regression on (a, c); what is left averages to zero.
        """
        pair = [[C[0][0], C[0][2]], [C[0][2], C[2][2]]]
        a, c = self._pair(pair)
        on_a, on_c = np.linalg.lstsq(
            np.array(pair), np.array([C[0][1], C[1][2]]), rcond=None
        )[0]
        return float(np.sum(self.w * self.slope(a) * (on_a * a + on_c * c) * self.g(c)))


def averages(family, C, w, K):
    """E[delta_i z_a] / v_i and E[delta_i delta_k] / (v_i v_k) without noise, by loops; and e_g."""
    n = len(w)
    sub = lambda *index: [[C[a][b] for b in index] for a in index]  # noqa: E731
    pull = np.zeros((K, n))
    for i, a in product(range(K), range(n)):
        pull[i, a] = sum(w[c] * family.I3(sub(i, a, c)) for c in range(n))
    error = (
        sum(w[a] * w[b] * family.I2(sub(a, b)) for a in range(n) for b in range(n)) / 2
    )
    return pull, error


def spread(family, C, w, K, sigma):
    n = len(w)
    sub = lambda *index: [[C[a][b] for b in index] for a in index]  # noqa: E731
    G = np.zeros((K, K))
    for i, k in product(range(K), range(K)):
        G[i, k] = sigma**2 * family.J2(sub(i, k))
        G[i, k] += sum(
            w[c] * w[d] * family.I4(sub(i, k, c, d)) for c in range(n) for d in range(n)
        )
    return G


def solve(
    family,
    R,
    Q,
    T,
    v,
    v_teacher,
    lr,
    times,
    sigma=0.0,
    batch=1,
    decay=0.0,
    flow=False,
    readout_lr=0.0,
    rtol=1e-11,
):
    """R, Q, v and e_g at the times, isotropic inputs, plain loops and DOP853."""
    K, M = R.shape

    def unpack(y):
        return (
            y[: K * M].reshape(K, M),
            y[K * M : K * M + K * K].reshape(K, K),
            y[K * M + K * K :],
        )

    def joint(R, Q):
        return np.block([[Q, R], [R.T, T]]).tolist()

    def rhs(t, y):
        R, Q, v = unpack(y)
        C = joint(R, Q)
        w = [*(-v), *v_teacher]
        pull, _ = averages(family, C, w, K)
        dR = np.zeros((K, M))
        dQ = np.zeros((K, K))
        G = np.zeros((K, K)) if flow else spread(family, C, w, K, sigma)
        for i in range(K):
            for m in range(M):
                dR[i, m] = lr * v[i] * pull[i, K + m] - lr * decay * R[i, m]
            for k in range(K):
                dQ[i, k] = (
                    lr * (v[i] * pull[i, k] + v[k] * pull[k, i])
                    - 2 * lr * decay * Q[i, k]
                )
                dQ[i, k] += lr**2 / batch * v[i] * v[k] * G[i, k]
        dv = np.zeros(K)
        if readout_lr:
            for i in range(K):
                dv[i] = readout_lr * sum(
                    w[c] * family.I2([[C[i][i], C[i][c]], [C[i][c], C[c][c]]])
                    for c in range(K + M)
                )
        return np.concatenate([dR.ravel(), dQ.ravel(), dv])

    y0 = np.concatenate([R.ravel(), Q.ravel(), v])
    out = solve_ivp(
        rhs, (0, times[-1]), y0, method="DOP853", t_eval=times, rtol=rtol, atol=1e-13
    )
    assert out.success
    states = [unpack(y) for y in out.y.T]
    errors = [
        averages(family, joint(R, Q), [*(-v), *v_teacher], K)[1] for R, Q, v in states
    ]
    return [np.array(x) for x in zip(*states, strict=True)], np.array(errors)


def solve_on_grid(g, slope, R, Q, T, lr, times, sigma=0.0, nodes=36):
    """Unit readouts; every average on a tensor Gauss-Hermite grid over all K + M fields at once."""
    K, M = R.shape
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[x] * (K + M), indexing="ij")).reshape(K + M, -1)
    weight = np.stack(np.meshgrid(*[w] * (K + M), indexing="ij")).prod(
        axis=0
    ).ravel() / (2 * pi) ** ((K + M) / 2)

    def fields(y):
        R = y[: K * M].reshape(K, M)
        Q = y[K * M :].reshape(K, K)
        z = np.linalg.cholesky(np.block([[Q, R], [R.T, T]])) @ grid
        return z, g(z[K:]).sum(axis=0) - g(z[:K]).sum(axis=0)

    def rhs(t, y):
        z, delta0 = fields(y)
        slopes = slope(z[:K])
        mean = lr * (slopes * delta0 * weight) @ z.T
        G = (slopes * (delta0**2 + sigma**2) * weight) @ slopes.T
        return np.concatenate(
            [mean[:, K:].ravel(), (mean[:, :K] + mean[:, :K].T + lr**2 * G).ravel()]
        )

    y0 = np.concatenate([R.ravel(), Q.ravel()])
    out = solve_ivp(
        rhs, (0, times[-1]), y0, method="DOP853", t_eval=times, rtol=1e-8, atol=1e-10
    )
    return out.y.T, np.array([np.sum(weight * fields(y)[1] ** 2) / 2 for y in out.y.T])
