"""The diffusion matrix:

sampled steps, Isserlis' theorem, and one network cut into levels.
"""

import numpy as np
import pytest
from scipy.special import erf

import tutelage as tu
from tests.problems import pair
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import LocalDynamics, point_sets
from tutelage.stream.order_parameters import flatten

R = np.array([[0.4, 0.1], [0.05, 0.3]])
START = tu.Start(R, R @ R.T + 0.2 * np.eye(2))
LEVELS = tu.Spectrum([1.7, 0.6, 0.2], [0.4, 0.35, 0.25])
SAMPLES = 200_000


def system_of(problem, start=START, gradient_flow=False):
    state, t = initial_overlaps(problem, start)
    return OrderParameters(problem, t, gradient_flow), state


def found(problem, start=START, gradient_flow=False, count=2**15):
    system, state = system_of(problem, start, gradient_flow)
    points, weights = point_sets(
        1, count, problem.student.hidden + problem.teacher.hidden + 1
    )
    return LocalDynamics(system, state).diffusions(
        flatten(state)[None], 0.0, points, weights
    )[0]


def numpy_steps(problem, state, t, count, seed=0):
    """Shares of single samples in a step of erf units, with every level drawn by itself, in plain NumPy."""
    rng, (L, K, M) = np.random.default_rng(seed), state.r.shape
    lam = np.asarray(problem.inputs.eigenvalues)
    p = np.asarray(problem.inputs.fractions)
    eta = float(problem.optimizer.lr)
    fields = np.empty((count, L, K + M))
    for level in range(L):
        C = np.block([[state.q[level], state.r[level]], [state.r[level].T, t[level]]])
        fields[:, level] = rng.multivariate_normal(
            np.zeros(K + M), lam[level] * p[level] * C, count
        )
    summed = fields.sum(axis=1)
    v = np.asarray(state.readout)
    g = erf(summed / np.sqrt(2))
    off = (
        g[:, K:].sum(axis=1)
        - g[:, :K] @ v
        + float(problem.noise) * rng.standard_normal(count)
    )
    delta = off[:, None] * v * np.sqrt(2 / np.pi) * np.exp(-(summed[:, :K] ** 2) / 2)
    columns = [
        eta * delta[:, k] * fields[:, a, K + m] / p[a]
        for a in range(L)
        for k in range(K)
        for m in range(M)
    ]
    for a in range(L):
        for i in range(K):
            for j in range(i, K):
                linear = delta[:, i] * fields[:, a, j] + delta[:, j] * fields[:, a, i]
                square = lam[a] * delta[:, i] * delta[:, j] / problem.optimizer.batch
                columns.append(eta * linear / p[a] + eta**2 * square)
    return np.stack([*columns, *(eta * off * g[:, k] for k in range(K))], axis=1)


def test_against_sampled_steps_of_several_levels():
    """Levels drawn one by one must scatter as the closed form for what their sum leaves open says."""
    problem = pair(
        2,
        2,
        lr=1.2,
        noise=0.3,
        inputs=LEVELS,
        batch=3,
        student={"train_readout": True, "readout": [0.7, 1.3]},
    )
    system, state = system_of(problem)
    samples = numpy_steps(problem, state, np.asarray(system.t), SAMPLES)
    away = samples - samples.mean(axis=0)
    D = away.T @ away / SAMPLES / 3
    error = np.sqrt(((away**2).T @ away**2 / SAMPLES / 9 - D**2) / SAMPLES) + 1e-12
    ours = found(problem)
    scale = np.sqrt(np.outer(np.diagonal(D), np.diagonal(D)))
    z = (ours - D) / np.hypot(error, 0.004 * scale)  # 0.4%: what 2^15 points leave
    assert np.max(np.abs(z)) < 4.5  # 23 coordinates, 276 entries: a false alarm in 500
    wrong = found(problem, gradient_flow=True)  # without the eta^2 part of psi_Q
    assert np.max(np.abs((wrong - D) / np.hypot(error, 0.004 * scale))) > 15


def test_linear_unit_by_isserlis():
    """psi_R = eta Delta rho, psi_Q = 2 eta Delta lambda + eta^2 Delta^2 with Delta, rho, lambda Gaussian."""
    eta = 0.8
    sigma = 0.4
    r = 0.3
    q = 0.5
    problem = pair(1, 1, "linear", lr=eta, noise=sigma)
    dd = 1 - 2 * r + q + sigma**2
    dr = 1 - r
    dl = r - q
    rr = 1.0
    ll = q
    rl = r
    RR = eta**2 * (dd * rr + dr**2)
    RQ = 2 * eta**2 * (dd * rl + dr * dl) + eta**3 * 2 * dd * dr
    QQ = 4 * eta**2 * (dd * ll + dl**2) + 4 * eta**3 * 2 * dd * dl + eta**4 * 2 * dd**2
    D = found(problem, tu.Start([[r]], [[q]]))
    np.testing.assert_allclose(D[:2, :2], [[RR, RQ], [RQ, QQ]], rtol=3e-3)


def test_equal_levels_are_one():
    """Two levels of one eigenvalue, summed with their fractions, are the isotropic network; apart, they scatter more."""
    whole = found(pair(2, 2, noise=0.2))
    cut = found(pair(2, 2, noise=0.2, inputs=tu.Spectrum([1.0, 1.0], [0.25, 0.75])))
    sums = np.zeros((9, 16))
    sums[:4, :4], sums[:4, 4:8] = 0.25 * np.eye(4), 0.75 * np.eye(4)
    sums[4:7, 8:11], sums[4:7, 11:14] = 0.25 * np.eye(3), 0.75 * np.eye(3)
    np.testing.assert_allclose(sums @ cut @ sums.T, whole, atol=1e-12)
    assert cut[0, 0] > 1.5 * whole[0, 0]


def test_points_are_standard_normal_and_sets_differ():
    points, weights = point_sets(2, 2**13, 5)
    for p, w in zip(points, weights, strict=True):
        assert w.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(w @ p, 0.0, atol=0.01)
        np.testing.assert_allclose((p.T * w) @ p, np.eye(5), atol=0.02)
        np.testing.assert_allclose(w @ p**4, 3.0, atol=0.15)
    assert np.max(np.abs(points[0] - points[1])) > 1
    np.testing.assert_array_equal(points, point_sets(2, 2**13, 5)[0])
