"""A baseline as written in an afternoon: a NumPy right-hand side and scipy's LSODA."""

import numpy as np
from scipy.integrate import solve_ivp


def matrices(C, w, K, sigma=0.0):
    """Return A, B and G of erf students with readouts -w[:K]."""
    d = 1 + np.diag(C)
    v = -w[:K]
    pairs = np.outer(v, v)
    root = np.sqrt(np.outer(d[:K], d) - C[:K] ** 2)
    slopes = 2 / np.pi / root
    bends = -2 / np.pi * C[:K] / (d[:K, None] * root)
    A = -pairs * slopes[:, :K] + np.diag(v * (bends @ w))
    B = np.outer(v, w[K:]) * slopes[:, K:]
    G = pairs * four_field_averages(C, w, K)
    return A, B, G + sigma**2 * pairs * slopes[:, :K]


def four_field_averages(C, w, K):
    """Return E[g'_i g'_j (sum_a w_a g_a)^2] for erf, (K, K); Saad and Solla (1995)."""
    d = 1 + np.diag(C)
    # Axes: students 1 and 2, then the units 3 and 4 of the squared error.
    d1 = d[:K, None, None, None]
    d2 = d[None, :K, None, None]
    C12 = C[:K, :K, None, None]
    C34 = C[None, None]
    C13 = C[:K, None, :, None]
    C14 = C[:K, None, None, :]
    C23 = C[None, :K, :, None]
    C24 = C[None, :K, None, :]
    L4 = d1 * d2 - C12**2
    L0 = L4 * C34 - C23 * C24 * d1 - C13 * C14 * d2 + C12 * (C13 * C24 + C14 * C23)
    L1 = L4 * d[:, None] - C23**2 * d1 - C13**2 * d2 + 2 * C12 * C13 * C23
    L2 = L4 * d - C24**2 * d1 - C14**2 * d2 + 2 * C12 * C14 * C24
    angles = np.arcsin(L0 / np.sqrt(L1 * L2))
    sums = np.einsum("ijab,a,b->ij", angles, w, w)
    return 4 / np.pi**2 * sums / np.sqrt(L4[..., 0, 0])


def error(R, Q, T, v, v_teacher):
    """Return e_g of erf networks."""
    C = np.block([[Q, R], [R.T, T]])
    w = np.concatenate([-v, v_teacher])
    d = 1 + np.diag(C)
    angles = np.arcsin(C / np.sqrt(np.outer(d, d)))
    return w @ (2 / np.pi * angles) @ w / 2


def solve(
    R, Q, T, eta, times, lam=(1.0,), p=(1.0,), method="LSODA", rtol=1e-6, atol=1e-9
):
    """Return e_g at the times, for unit readouts; R, Q, T per level or shared."""
    lam = np.asarray(lam)
    L = lam.size
    K, M = R.shape[-2:]
    r0 = np.broadcast_to(R, (L, K, M))
    q0 = np.broadcast_to(Q, (L, K, K))
    t = np.broadcast_to(T, (L, M, M))
    weights = np.asarray(p) * lam
    rates = eta * lam[:, None, None]
    w = np.concatenate([-np.ones(K), np.ones(M)])

    def fields(levels):
        return np.einsum("l,lab->ab", weights, levels)

    T_field = fields(t)

    def unpack(y):
        r = y[: L * K * M].reshape(L, K, M)
        q = y[L * K * M :].reshape(L, K, K)
        return r, q

    def rhs(time, y):
        r, q = unpack(y)
        R = fields(r)
        Q = fields(q)
        A, B, G = matrices(np.block([[Q, R], [R.T, T_field]]), w, K)
        dr = rates * (A @ r + B @ t)
        half = rates * (A @ q + B @ np.swapaxes(r, 1, 2))
        dq = half + np.swapaxes(half, 1, 2) + eta * rates * G
        return np.concatenate([dr.ravel(), dq.ravel()])

    y0 = np.concatenate([r0.ravel(), q0.ravel()])
    out = solve_ivp(
        rhs, (0, times[-1]), y0, method=method, t_eval=times, rtol=rtol, atol=atol
    )
    errors = []
    for y in out.y.T:
        r, q = unpack(y)
        errors.append(error(fields(r), fields(q), T_field, np.ones(K), np.ones(M)))
    return np.array(errors)
