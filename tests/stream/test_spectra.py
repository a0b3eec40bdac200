"""Inputs with a spectrum:

the block form against its own invariances and against the moment hierarchy.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tutelage as tu
from tests.naive import Erf
from tests.problems import generic_overlaps, pair

TIMES = np.linspace(0, 20, 6)


def test_a_thousand_levels():
    problem = pair(2, 2, lr=0.02, inputs=tu.PowerLaw(1.0, 1024))
    start = tu.random_start(problem, dim=100_000, scale=0.5, seed=1)
    out = tu.solve(problem, start, [0, 3, 30])
    assert out.finished
    assert "r" not in out.variables  # levels above 16 are not kept unless asked for
    assert 0 < out.error[-1] < out.error[1] < out.error[0]


def test_splitting_a_level_changes_nothing():
    lam = np.array([2.5, 1.0, 0.3])
    p = np.array([0.2, 0.3, 0.5])
    whole = tu.Spectrum(lam, p)
    split = tu.Spectrum([2.5, 1.0, 1.0, 0.3], [0.2, 0.15, 0.15, 0.5])
    R, Q, T = (
        np.stack([generic_overlaps(2, 2, seed)[i] for seed in range(3)])
        for i in range(3)
    )
    doubled = [x[[0, 1, 1, 2]] for x in (R, Q, T)]
    one = tu.solve(
        pair(2, 2, inputs=whole, noise=0.1), tu.Start(R, Q, T), TIMES, rtol=1e-12
    )
    two = tu.solve(
        pair(2, 2, inputs=split, noise=0.1), tu.Start(*doubled), TIMES, rtol=1e-12
    )
    np.testing.assert_allclose(one.R, two.R, atol=1e-10)
    np.testing.assert_allclose(one.Q, two.Q, atol=1e-10)
    np.testing.assert_allclose(one.error, two.error, atol=1e-10)


def test_equal_levels_are_isotropic():
    R, Q, T = generic_overlaps(2, 2)
    one = tu.solve(pair(2, 2), tu.Start(R, Q, T), TIMES, rtol=1e-12)
    many = tu.solve(
        pair(2, 2, inputs=tu.Spectrum([1.0, 1.0, 1.0])),
        tu.Start(R, Q, T),
        TIMES,
        rtol=1e-12,
    )
    np.testing.assert_allclose(one.error, many.error, atol=1e-10)


def matrices(R, Q, T, sigma):
    """A, B, G of erf students with unit readouts, entry by entry."""
    K, M = R.shape
    C = np.block([[Q, R], [R.T, T]])
    w = np.array([-1.0] * K + [1.0] * M)
    n = K + M
    A = np.zeros((K, K))
    B = np.zeros((K, M))
    G = np.zeros((K, K))
    for k in range(K):
        for a in range(n):
            slope = Erf.J2(C[np.ix_([k, a], [k, a])])
            if a < K:
                A[k, a] -= slope
            else:
                B[k, a - K] = slope
            bend = (
                -2
                / np.pi
                * C[k, a]
                / (
                    (1 + C[k, k])
                    * np.sqrt((1 + C[k, k]) * (1 + C[a, a]) - C[k, a] ** 2)
                )
            )
            A[k, k] += w[a] * bend
        for j in range(K):
            G[k, j] = sigma**2 * Erf.J2(C[np.ix_([k, j], [k, j])])
            G[k, j] += sum(
                w[a] * w[b] * Erf.I4(C[np.ix_([k, j, a, b], [k, j, a, b])])
                for a in range(n)
                for b in range(n)
            )
    return A, B, G


def test_blocks_equal_the_moment_hierarchy():
    """Moments X^(j) = sum_l p_l lam_l^j x_l couple upwards; Cayley-Hamilton closes them at j = L."""
    L = 3
    K = 2
    M = 2
    eta = 0.4
    sigma = 0.2
    inputs = tu.PowerLaw(0.7, L)
    lam = np.asarray(inputs.eigenvalues)
    p = np.asarray(inputs.fractions)
    blocks = [
        np.stack([generic_overlaps(K, M, seed)[i] for seed in range(L)])
        for i in range(3)
    ]
    powers = p * lam ** np.arange(L)[:, None]  # (moment, level)
    r, q, t = (np.einsum("jl,lab->jab", powers, x) for x in blocks)
    closing = -np.poly(lam)[:0:-1]  # lam^L = sum_j closing_j lam^j
    traces = (p * lam ** np.arange(1, L + 1)[:, None]).sum(axis=1)

    def up(x):
        return np.concatenate([x[1:], np.einsum("j,jab->ab", closing, x)[None]])

    def rhs(time, y):
        r = y[: L * K * M].reshape(L, K, M)
        q = y[L * K * M :].reshape(L, K, K)
        A, B, G = matrices(up(r)[0], up(q)[0], up(t)[0], sigma)
        dr = eta * (A @ up(r) + B @ up(t))
        fq = eta * (A @ up(q) + B @ np.swapaxes(up(r), 1, 2))
        return np.concatenate(
            [
                dr.ravel(),
                (
                    fq + np.swapaxes(fq, 1, 2) + eta**2 * traces[:, None, None] * G
                ).ravel(),
            ]
        )

    y0 = np.concatenate([r.ravel(), q.ravel()])
    reference = solve_ivp(rhs, (0, 8), y0, method="DOP853", rtol=1e-11, atol=1e-13).y[
        :, -1
    ]
    R = up(reference[: L * K * M].reshape(L, K, M))[0]
    Q = up(reference[L * K * M :].reshape(L, K, K))[0]
    out = tu.solve(
        pair(K, M, lr=eta, noise=sigma, inputs=inputs),
        tu.Start(*blocks),
        [0, 8],
        rtol=1e-10,
    )
    np.testing.assert_allclose(out.R[-1], R, atol=1e-8)
    np.testing.assert_allclose(out.Q[-1], Q, atol=1e-8)
    flow = tu.solve(
        pair(K, M, lr=eta, noise=sigma, inputs=inputs),
        tu.Start(*blocks),
        [0, 8],
        gradient_flow=True,
    )
    assert (
        np.abs(flow.Q[-1] - Q).max() > 1e-3
    )  # control: the hierarchy sees the eta^2 term


def test_linear_network_on_random_blocks_equals_its_error_modes():
    """E_l = mean of (w - w*)^2 in level l obeys a linear system of its own."""
    lam = np.array([3.0, 1.0, 0.2])
    p = np.array([0.1, 0.5, 0.4])
    eta = 0.6
    sigma = 0.3
    batch = 2
    inputs = tu.Spectrum(lam, p)
    lam = np.asarray(inputs.eigenvalues)
    rng = np.random.default_rng(0)
    r = rng.normal(size=(3, 1, 1)) * 0.3
    q = np.full((3, 1, 1), 1.5)
    t = np.full((3, 1, 1), 1.2)
    matrix = np.diag(-2 * eta * lam) + eta**2 / batch * np.outer(lam, p * lam)
    force = eta**2 / batch * lam * sigma**2
    E = (q - 2 * r + t).ravel()
    values, vectors = np.linalg.eig(matrix)
    fixed = -np.linalg.solve(matrix, force)
    modes = np.linalg.solve(vectors, E - fixed)
    expected = [
        (p * lam) @ (fixed + vectors @ (np.exp(values * time) * modes)) / 2
        for time in TIMES
    ]
    out = tu.solve(
        pair(1, 1, "linear", lr=eta, noise=sigma, inputs=inputs, batch=batch),
        tu.Start(r, q, t),
        TIMES,
    )
    np.testing.assert_allclose(out.error, expected, rtol=1e-7)


def test_the_spectrum_of_real_images():
    from sklearn.datasets import load_digits

    images = load_digits().data
    inputs = tu.from_data(images).inputs
    problem = pair(2, 2, lr=0.5, inputs=inputs)
    assert inputs.dropped == 3
    assert inputs.levels == 61
    assert np.sum(inputs.weights) == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((2, 64))
    W_teacher = rng.standard_normal((2, 64))
    start = tu.start_from_weights(problem, W, W_teacher)
    centered = (images - images.mean(axis=0)) / np.sqrt(inputs.scale)
    fields = centered @ np.concatenate([W, W_teacher]).T / np.sqrt(61)
    with pytest.warns(tu.errors.ValidityWarning, match="eta lam_max / N"):
        out = tu.solve(problem, start, [0, 100])
    np.testing.assert_allclose(
        out.Q[0], (fields.T @ fields / len(fields))[:2, :2], rtol=1e-10
    )
    assert out.error[-1] < out.error[0]
