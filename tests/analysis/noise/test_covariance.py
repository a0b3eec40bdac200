"""Covariance along a curve:

against scipy's integrator, and where the watched direction almost cancels.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from tutelage.analysis.noise import covariance_at, panel_edges, panel_nodes

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 3)) / 2 - np.eye(3)
B = RNG.standard_normal((3, 3)) / 3
S = RNG.standard_normal((3, 3))
TIMES = np.array([0.0, 0.4, 1.0, 2.2, 4.0, 6.0])


def J(t):
    return A + np.sin(t) * B


def D(t):
    return (1 + 0.5 * np.cos(2 * t)) * S @ S.T


def integrated(times, J=J, D=D, n=3):
    """dSig = J Sig + Sig J^T + D by scipy, with tight tolerances."""

    def rate(t, y):
        sigma = y.reshape(n, n)
        return (J(t) @ sigma + sigma @ J(t).T + D(t)).ravel()

    path = solve_ivp(
        rate, (0, times[-1]), np.zeros(n * n), t_eval=times, rtol=1e-11, atol=1e-13
    )
    return path.y.T.reshape(-1, n, n)


def on_panels(edges, J, diffusions):
    return (
        (
            np.stack([J(s) for s in nodes]),
            np.stack([[D(s) for s in nodes] for D in diffusions]),
        )
        for nodes in edges
    )


def found(times, edges, watched, J=J, diffusions=(D,)):
    return covariance_at(
        times, edges, on_panels(panel_nodes(edges), J, diffusions), watched
    )


def test_against_scipy_at_any_time():
    moments = np.linspace(0, 6, 13)
    rates = np.array([np.max(np.abs(np.linalg.eigvals(J(t)))) for t in moments])
    edges = panel_edges(moments, rates, np.zeros(0), 0.5)
    watched = np.tile([1.0, -2.0, 0.5], (TIMES.size, 1))
    sigma, variances = found(TIMES, edges, watched)
    exact = integrated(TIMES)
    np.testing.assert_allclose(sigma, exact, atol=1e-4 * np.max(np.abs(exact)))
    np.testing.assert_allclose(
        variances[0],
        np.einsum("ta,tab,tb->t", watched, exact, watched),
        rtol=1e-3,
        atol=1e-12,
    )
    halved = found(TIMES, edges, watched, diffusions=(lambda t: D(t) / 2,))[0]
    assert np.max(np.abs(halved - exact)) > 0.1 * np.max(
        np.abs(exact)
    )  # negative control


def test_sets_of_points_are_averaged_and_kept_apart():
    edges = np.linspace(0, 6, 25)
    watched = np.ones((TIMES.size, 3))

    def one(t):
        return 0.8 * D(t)

    def two(t):
        return 1.2 * D(t)

    sigma, variances = found(TIMES, edges, watched, diffusions=(one, two))
    np.testing.assert_allclose(
        sigma, found(TIMES, edges, watched)[0], rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(variances[1][1:] / variances[0][1:], 1.5, rtol=1e-10)


def test_a_direction_that_almost_cancels_keeps_its_digits():
    """u = (a, a^2 + b), watched a gradient of u_2 - u_1^2:

    its noise, e^-4t, hides in that of the rest, e^-2t.
    """

    def chain(
        t,
    ):  # da = -a/2, so d(a^2) = -a^2; b decays at rate 2; linearized at a = e^(-t/2)
        a = np.exp(-t / 2)
        return np.array([[-0.5, 0.0], [2 * a, -2.0]])

    def fed(
        t,
    ):  # noise of a of size e^-t/2, which moves a^2 by 2a times that; of b e^-2t
        a = np.exp(-t / 2)
        push = np.array([1.0, 2 * a]) * a
        own = np.array([0.0, np.exp(-2 * t)])
        return np.outer(push, push) + np.outer(own, own)

    times = np.array([2.0, 4.0, 8.0, 10.0])
    watched = np.stack([-2 * np.exp(-times / 2), np.ones(4)], axis=1)
    variances = found(times, np.linspace(0, 10, 41), watched, chain, (fed,))[1][0]
    fine = found(times, np.linspace(0, 10, 401), watched, chain, (fed,))[1][0]
    largest = found(times, np.linspace(0, 10, 401), np.eye(2)[[0] * 4], chain, (fed,))[
        1
    ][0]
    assert variances[-1] < 1e-4 * largest[-1]
    np.testing.assert_allclose(variances, fine, rtol=2e-3)


def test_panels_end_at_stops_and_are_short_where_things_are_fast():
    moments = np.array([0.0, 1.0, 5.0, 10.0])
    rates = np.array([4.0, 4.0, 1.0, 1.0])
    edges = panel_edges(moments, rates, np.array([0.0, 2.53, 7.1, 12.0]), 0.5)
    assert edges[0] == 0.0
    assert edges[-1] == pytest.approx(10.0)
    assert np.all(np.diff(edges) > 0)
    assert {2.53, 7.1} <= set(np.round(edges, 12))
    assert np.max(np.diff(edges[edges <= 1.0])) <= 0.125 + 1e-12
    assert np.max(np.diff(edges)) <= 0.5 + 1e-12
