"""Published and derived numbers that the theory must give, to the printed digits."""

import warnings
from math import asin, pi, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.problems import jacobian, pair, symmetric_overlaps
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.perfect_learning import critical_rate

LONG = [0.0, 1e4]


def settle(problem, start, times=LONG, **options):
    """The last state of a long solve from a start that is meant to be symmetric."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tu.errors.SymmetryWarning)
        return tu.solve(problem, start, times, **options)


def plateau(K, activation="erf", lr=0.5, gradient_flow=False, times=LONG):
    """All units alike; without the eta^2 term nothing tells them apart, so they start as copies (Q = C)."""
    R, Q = symmetric_overlaps(K, 0.3, 0.3, 0.4, 0.4 if gradient_flow else 0.35)
    return settle(
        pair(K, K, activation, lr=lr),
        tu.Start(R, Q),
        times,
        gradient_flow=gradient_flow,
    )


def unstable_rate(K, state, lr, gradient_flow):
    """Growth rate of R - S at a plateau: eigenvalues of the drift's Jacobian."""
    problem = pair(K, K, lr=lr)
    overlaps, t = initial_overlaps(problem, tu.Start(state.R[-1], state.Q[-1]))
    J = np.asarray(jacobian(OrderParameters(problem, t, gradient_flow), 0.0, overlaps))
    return np.linalg.eigvals(J).real.max()


@pytest.mark.parametrize("K", [2, 3])
def test_symmetric_plateau_of_gradient_flow(K):
    state = plateau(K, gradient_flow=True)
    np.testing.assert_allclose(state.Q[-1], 1 / (2 * K - 1), atol=1e-9)
    np.testing.assert_allclose(state.R[-1], 1 / sqrt(K * (2 * K - 1)), atol=1e-9)
    np.testing.assert_allclose(
        state.error[-1], K / pi * (pi / 6 - K * asin(1 / (2 * K))), atol=1e-10
    )
    if K == 2:
        assert f"{state.error[-1]:.10f}" == "0.0116108403"


@pytest.mark.parametrize("K", [2, 3])
def test_escape_rate_of_gradient_flow(K):
    rate = unstable_rate(K, plateau(K, gradient_flow=True), 0.5, gradient_flow=True)
    assert rate == pytest.approx(
        2 * K * 0.5 / (pi * sqrt(2 * K - 1) * (2 * K + 1) ** 1.5), rel=1e-7
    )


def test_plateau_at_finite_learning_rate():
    state = plateau(2)
    R = state.R[-1]
    Q = state.Q[-1]
    found = [
        f"{x:.6f}"
        for x in (R[0, 0], Q[0, 0], Q[0, 1], unstable_rate(2, state, 0.5, False))
    ]
    assert found == ["0.414394", "0.367720", "0.325386", "0.031618"]
    assert f"{state.error[-1]:.8f}" == "0.01464485"


def test_escape_grows_at_the_unstable_rate_and_the_loss_at_twice_that():
    state = plateau(2)
    tilt = 1e-4 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    times = np.linspace(0, 200, 101)
    out = tu.solve(pair(2, 2), tu.Start(state.R[-1] + tilt, state.Q[-1]), times)
    spread = out.R[:, 0, 0] - out.R[:, 0, 1]
    rate = np.gradient(np.log(spread), times)[(spread > 3e-4) & (spread < 3e-3)]
    np.testing.assert_allclose(rate, 0.031618, rtol=1e-3)
    assert rate.size > 10
    drop = out.error[0] - out.error
    window = (drop > 1e-7) & (drop < 1e-5) & (times > 20)
    assert np.polyfit(times[window], np.log(drop[window]), 1)[0] == pytest.approx(
        2 * 0.031618, rel=5e-3
    )


def eta_c(K):
    return critical_rate(pair(K, K), jnp.eye(K)[None])


def test_critical_learning_rates():
    assert eta_c(1) == pytest.approx(pi * sqrt(5 / 3), rel=1e-9)
    assert f"{eta_c(2):.7f}" == "2.3068277"


def test_critical_learning_rate_of_wide_networks():
    widths = np.array([3, 6])
    scaled = np.array([K * eta_c(K) for K in widths])
    extrapolated = 2 * scaled[1] - scaled[0]  # the correction is of order 1/K
    assert abs(scaled[1] - sqrt(3) * pi) < abs(scaled[0] - sqrt(3) * pi)
    assert extrapolated == pytest.approx(sqrt(3) * pi, rel=0.03)


@pytest.mark.parametrize("K", [2, 3])
def test_decay_rates_at_the_perfect_solution(K):
    """Modes inside the teachers' span:

    eigenvalues of a 2 x 2 matrix, and for K >= 3 one more, K (K-2) times.
    """
    system = OrderParameters(pair(K, K, lr=1.0), jnp.eye(K)[None], gradient_flow=True)
    overlaps, _ = initial_overlaps(pair(K, K), tu.Start(np.eye(K), np.eye(K)))
    rates = -np.linalg.eigvals(np.asarray(jacobian(system, 0.0, overlaps))).real
    expected = np.linalg.eigvals(
        2
        / pi
        * np.array(
            [[1 / (3 * sqrt(3)), (K - 1) / 4], [1 / 4, 1 / sqrt(3) + (K - 2) / 2]]
        )
    )
    for mu in expected:
        assert np.min(np.abs(rates - mu)) < 1e-9
    extra = 2 / pi * (1 / sqrt(3) - 1 / 2)
    assert np.sum(np.abs(rates - extra) < 1e-7) >= K * (K - 2)


def test_noise_floor_of_the_soft_committee_machine():
    """0.0192042913 sigma^2 as sigma -> 0; the next term is of order sigma^4 and is removed."""
    ratios = []
    for sigma in (0.01, 0.02):
        out = settle(pair(2, 2, lr=0.1, noise=sigma), tu.Start(np.eye(2), np.eye(2)))
        ratios.append(out.error[-1] / sigma**2)
    assert f"{(4 * ratios[0] - ratios[1]) / 3:.8f}" == "0.01920429"


@pytest.mark.parametrize("extra", [0, 1])
def test_noise_floor_with_extra_units_for_small_rates(extra):
    sigma = 1e-4
    eta = 0.01
    M = 2
    R = np.eye(M + extra, M)
    Q = np.diag([1.0] * M + [0.0] * extra)
    out = settle(pair(M + extra, M, lr=eta, noise=sigma), tu.Start(R, Q))
    assert out.error[-1] == pytest.approx(
        sigma**2 * eta / (2 * pi) * (extra + M / sqrt(3)), rel=0.02
    )


def test_noise_floor_with_both_layers_trained():
    sigma = 1e-4
    eta = 0.01
    v = np.array([1.0, 0.7])
    problem = tu.Problem(
        tu.Network(2, readout=v, train_readout=True),
        tu.Network(2, readout=v),
        optimizer=tu.SGD(eta),
        noise=sigma,
    )
    out = settle(problem, tu.Start(np.eye(2), np.eye(2)))
    assert out.error[-1] == pytest.approx(
        sigma**2 * eta / (2 * pi * sqrt(3)) * np.sum(v**2), rel=0.02
    )


def test_noise_floor_of_linear_networks():
    sigma = 0.3
    eta = 0.2
    for K in (1, 2):
        out = settle(
            pair(K, K, "linear", lr=eta, noise=sigma), tu.Start(np.eye(K), np.eye(K))
        )
        assert out.error[-1] == pytest.approx(
            sigma**2 * eta * K / (4 - 2 * eta * K), rel=1e-7
        )


def test_relu_plateau_of_gradient_flow():
    state = plateau(
        2, "relu", gradient_flow=True, times=[0, 50]
    )  # copies drift apart later, by rounding alone
    assert f"{state.Q[-1, 0, 0]:.8f}" == f"{state.Q[-1, 0, 1]:.8f}" == "0.57064301"
    assert f"{state.R[-1, 0, 0]:.8f}" == "0.53415494"
    assert f"{state.error[-1]:.8f}" == "0.08851194"


def quadratic(p, p_teacher, lr):
    """Readouts 1/p and 1/p*; a loss without the factor 1/2 at rate eta is ours at 2 eta."""
    return pair(
        p,
        p_teacher,
        "quadratic",
        lr=2 * lr,
        student={"readout": 1 / p},
        teacher={"readout": 1 / p_teacher},
    )


def test_quadratic_norms_settle_at_p_over_p_plus_two():
    p = 3
    out = settle(
        quadratic(p, 2, 0.01),
        tu.Start(np.zeros((p, 2)), np.eye(p)),
        gradient_flow=True,
        times=[0, 3e3],
    )
    np.testing.assert_allclose(out.Q[-1], p / (p + 2) * np.eye(p), atol=1e-9)


def test_quadratic_overlaps_grow_with_the_teacher_and_decay_among_students():
    p = 3
    p_teacher = 2
    lr = 0.01
    problem = quadratic(p, p_teacher, lr)
    overlaps, t = initial_overlaps(
        problem, tu.Start(np.zeros((p, p_teacher)), p / (p + 2) * np.eye(p))
    )
    rates = (
        np.linalg.eigvals(
            np.asarray(jacobian(OrderParameters(problem, t, True), 0.0, overlaps))
        ).real
        / lr
    )
    assert np.sum(np.abs(rates - 8 / (p * p_teacher)) < 1e-6) == p * p_teacher
    assert np.sum(np.abs(rates + 16 / (p * (p + 2))) < 1e-6) >= p * (p - 1) // 2


def test_quadratic_solution_is_predicted_by_the_start():
    """S = rho0 (rho0^T rho0)^(-1/2) is conserved when Q(0) is the identity:

    rho ends at sqrt(p/p*) S.
    """
    p = p_teacher = 2
    rho = 0.05 * np.random.default_rng(0).standard_normal((p, p_teacher))
    values, vectors = np.linalg.eigh(rho.T @ rho)
    S = rho @ vectors @ np.diag(values**-0.5) @ vectors.T
    out = tu.solve(quadratic(p, p_teacher, 0.01), tu.Start(rho, np.eye(p)), [0, 3e3])
    assert out.error[-1] < 1e-9
    np.testing.assert_allclose(out.R[-1], sqrt(p / p_teacher) * S, atol=1e-6)
    tilted = tu.solve(
        quadratic(p, p_teacher, 0.01), tu.Start(rho, [[1.0, 0.4], [0.4, 0.7]]), [0, 3e3]
    )
    assert (
        np.abs(tilted.R[-1] - sqrt(p / p_teacher) * S).max() > 1e-2
    )  # Q(0) must commute with rho0 rho0^T


def test_linear_network_with_ridge_settles_at_its_closed_form():
    rho = 1.3
    kappa = 0.2
    eta = 0.7
    sigma = 0.4
    problem = pair(1, 1, "linear", lr=eta, noise=sigma, weight_decay=kappa)
    out = tu.solve(problem, tu.Start([[0.1]], [[0.5]], [[rho]]), [0, 200])
    V = (
        2
        * (1 + kappa)
        / (2 * (1 + kappa) - eta)
        * (rho * kappa**2 / (1 + kappa) ** 2 + sigma**2)
    )
    assert out.error[-1] == pytest.approx((V - sigma**2) / 2, rel=1e-8)


@pytest.mark.parametrize("batch", [1, 3])
def test_linear_network_diverges_at_two_batches(batch):
    start = tu.Start([[0.5]], [[0.5]])
    stable = tu.solve(
        pair(1, 1, "linear", lr=1.95 * batch, batch=batch), start, [0, 20, 400]
    )
    assert stable.finished
    assert stable.error[-1] < stable.error[0]
    with pytest.warns(tu.errors.DivergenceWarning, match="diverged at alpha"):
        tu.solve(pair(1, 1, "linear", lr=2.2 * batch, batch=batch), start, [0, 20, 400])


def test_linear_network_on_a_power_law():
    problem = pair(1, 1, "linear", lr=0.5, inputs=tu.PowerLaw(1.0, 5))
    start = tu.Start(np.zeros((1, 1)), [[0.3]])
    out = tu.solve(problem, start, [0.5, 3, 20], rtol=1e-10)
    assert [f"{e:.9g}" for e in out.error] == [
        "0.298910969",
        "0.0728311464",
        "0.00239263643",
    ]
