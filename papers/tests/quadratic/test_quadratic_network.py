"""The source's setting: exact curves against `solve`, closed forms against curves, and the plateau at finite rates."""

import numpy as np
import pytest

import tutelage as tu
import tutelage_papers
from tests.problem.messages import require_refusal
from tests.problems import pair
from tutelage_papers.quadratic.quadratic_curves import quadratic_curves
from tutelage_papers.quadratic.quadratic_network import (
    diffusion,
    fastest_rate,
    largest_rate,
    plateau_at,
    standstill_rate,
)

P, K = 3, 2
TIMES = tu.linear_times(60.0, 201)


def quadratic(lr=0.4, noise=0.0, p=P, k=K, **optimizer):
    return pair(
        p,
        k,
        "quadratic",
        lr=lr,
        noise=noise,
        student={"readout": 1 / p},
        teacher={"readout": 1 / k},
        **optimizer,
    )


def start(p=P, k=K, scale=0.05, seed=0, norms=1.0):
    return tu.Start(
        scale * np.random.default_rng(seed).standard_normal((p, k)),
        norms * np.eye(p),
        np.eye(k),
    )


@pytest.mark.parametrize(("lr", "noise", "batch"), [(0.4, 0.0, 1), (0.6, 0.3, 2)])
def test_curves_are_those_of_solve(lr, noise, batch):
    problem = quadratic(lr, noise, batch=batch)
    exact, curves = (
        tu.solve(problem, start(), TIMES),
        tutelage_papers.quadratic.quadratic_curves(problem, start(), TIMES),
    )
    for name in ("R", "Q", "error"):
        np.testing.assert_allclose(
            getattr(curves, name), getattr(exact, name), atol=3e-7
        )
    without = tutelage_papers.quadratic.quadratic_curves(
        problem, start(), TIMES, gradient_flow=True
    )
    assert (
        np.max(np.abs(without.Q - exact.Q)) > 1e-2
    )  # the comparison sees the eta^2 term


def test_starts_in_order_need_not_be_isotropic():
    """Q(0) a function of R0 R0^T and T one of R0^T R0; two such starts at once."""
    starts = []
    for seed in (1, 2):
        R = np.asarray(start(seed=seed).R)
        starts.append(tu.Start(R, np.eye(P) + 40 * R @ R.T, np.eye(K) + 30 * R.T @ R))
    curves = tutelage_papers.quadratic.quadratic_curves(quadratic(), starts, TIMES)
    for i, at in enumerate(starts):
        exact = tu.solve(quadratic(), at, TIMES)
        np.testing.assert_allclose(curves.R[i], exact.R, atol=3e-7)
        np.testing.assert_allclose(curves.Q[i], exact.Q, atol=3e-7)
    assert "2 starts" in str(curves)


def naive_rates(R, Q, T, v, u, eta, noise):
    """dR and dQ of MATH written with whole matrices: (A|B) = 2 v (s 1 + 2 C D), G = 4 v^2 [...]."""
    p = len(R)
    C = np.block([[Q, R], [R.T, T]])
    D = np.diag([-v] * p + [u] * len(T))
    s = np.trace(D @ C)
    drift = 2 * v * (s * np.eye(len(C)) + 2 * C @ D)[:p]
    whole = (
        C * (s**2 + 2 * np.trace(D @ C @ D @ C) + noise**2)
        + 4 * s * C @ D @ C
        + 8 * C @ D @ C @ D @ C
    )
    half = eta * drift @ C[:, :p]
    return eta * drift @ C[:, p:], half + half.T + eta**2 * 4 * v**2 * whole[:p, :p]


@pytest.mark.parametrize(("p", "k"), [(1, 1), (2, 4), (5, 2)])
def test_slopes_at_any_widths(p, k):
    """Fewer and more students than teachers, without compiling: finite differences against naive matrices."""
    problem, at, step = quadratic(0.3, 0.2, p, k), start(p, k, 0.3, norms=1.5), 1e-6
    curves = tutelage_papers.quadratic.quadratic_curves(
        problem, at, [0.0, step, 2 * step]
    )
    dR, dQ = naive_rates(
        np.asarray(at.R), np.asarray(at.Q), np.eye(k), 1 / p, 1 / k, 0.3, 0.2
    )
    np.testing.assert_allclose(
        (curves.R[2] - curves.R[0]) / (2 * step), dR, atol=1e-4 * np.abs(dR).max()
    )
    np.testing.assert_allclose(
        (curves.Q[2] - curves.Q[0]) / (2 * step), dQ, atol=1e-4 * np.abs(dQ).max()
    )
    C = np.block(
        [[np.asarray(at.Q), np.asarray(at.R)], [np.asarray(at.R).T, np.eye(k)]]
    )
    D = np.diag([-1 / p] * p + [1 / k] * k)
    assert curves.error[0] == pytest.approx(
        (np.trace(D @ C) ** 2 + 2 * np.trace(D @ C @ D @ C)) / 2, rel=1e-12
    )


def test_error_keeps_its_digits():
    """p = p*: e_g falls as the squared length z beside the teachers, exp(-8 eta v v* alpha), far below 1e-9."""
    curves = tutelage_papers.quadratic.quadratic_curves(
        quadratic(0.4, p=2, k=2),
        start(2, 2),
        tu.linear_times(60.0, 301),
        gradient_flow=True,
    )
    late = (curves.error < 1e-5) & (curves.error > 1e-11)
    slopes = np.diff(np.log(curves.error[late])) / np.diff(curves.times[late])
    assert late.sum() > 50
    np.testing.assert_allclose(slopes[20:], -8 * 0.4 / 4, rtol=1e-3)


def test_divergence_is_of_one_start_only():
    network = tutelage_papers.quadratic.quadratic_network(P, K, 0.2)
    starts = [network.start(0.05), network.start(0.05, norm=8.0)]
    curves = network.curves(starts, [0.0, 1.0, 2.0])
    assert np.all(np.isfinite(curves.error[0]))
    assert np.isnan(curves.error[1, -1])
    assert "1 diverged" in str(curves)


def test_time_below():
    curves = tutelage_papers.quadratic.quadratic_curves(
        quadratic(), [start(), start(seed=4)], TIMES
    )
    level = 0.1
    for i, time in enumerate(curves.time_below(level)):
        assert np.interp(time, curves.times, curves.error[i]) == pytest.approx(
            level, rel=1e-6
        )
    assert np.all(np.isinf(curves.time_below(0.0)))
    assert curves.time_below(curves.error[:, 0] / 2).shape == (2,)


def test_conventions():
    network = tutelage_papers.quadratic.quadratic_network(6, 3, 0.01)
    assert float(network.problem.optimizer.lr) == 0.02
    assert network.alpha(network.t(40.0)) == pytest.approx(40.0)
    at = tutelage_papers.quadratic.quadratic_network(40, 30).start(0.01, seed=1)
    assert np.std(np.asarray(at.R)) == pytest.approx(0.01, rel=0.1)
    assert 2 * float(
        tu.generalization_error(network.problem, np.zeros((6, 3)), np.eye(6))
    ) == pytest.approx(network.start_risk)
    on_plateau = tu.generalization_error(
        network.problem, np.zeros((6, 3)), network.plateau_norm * np.eye(6)
    )
    assert 2 * float(on_plateau) == pytest.approx(network.plateau_risk)
    assert "lr = 0.02" in str(network)


def test_norm_learning_and_rates():
    """Closed forms against curves of tiny overlaps; the rates again as eigenvalues of the Hessian, halved."""
    network = tutelage_papers.quadratic.quadratic_network(P, K, 1e-3)
    t = np.linspace(0.0, 8.0, 401)
    curves = network.curves(network.start(1e-7), t, gradient_flow=True)
    np.testing.assert_allclose(
        curves.q, np.broadcast_to(network.norm_at(t)[:, None], (401, P)), atol=1e-5
    )
    growth = np.polyfit(t[300:], np.log(curves.d[300:, 0]), 1)[0]
    assert growth == pytest.approx(network.overlap_rate, rel=1e-4)
    plateau = tutelage_papers.quadratic.critical_points(network.problem, 20)[0, P]
    values = [2 * c.value for c in plateau.spectrum if c.value]
    np.testing.assert_allclose(
        sorted({round(v, 12) for v in values}),
        [-network.overlap_rate, -network.student_rate, -network.norm_rate],
    )


def test_student_overlaps_decay_and_differences_of_norms_too():
    """The sign of omega_Q, by a matrix that is not in order: the eigenvalues of the Jacobian at the plateau."""
    network = tutelage_papers.quadratic.quadratic_network(P, K, 1e-4)
    Q = network.plateau_norm * np.eye(P)
    Q[0, 1] = Q[1, 0] = 1e-5
    Q[2, 2] += 1e-5
    Q[0, 0] -= 1e-5
    _, dQ = naive_rates(np.zeros((P, K)), Q, np.eye(K), 1 / P, 1 / K, 2e-4, 0.0)
    noise = naive_rates(
        np.zeros((P, K)),
        network.plateau_norm * np.eye(P),
        np.eye(K),
        1 / P,
        1 / K,
        2e-4,
        0.0,
    )[1]
    slope = (dQ - noise) / 1e-4 / 1e-5  # per unit of t, per unit of the disturbance
    assert slope[0, 1] == pytest.approx(network.student_rate, rel=1e-2)
    assert slope[2, 2] == pytest.approx(network.student_rate, rel=1e-2)
    assert network.student_rate < 0


def test_loss_reduction():
    network = tutelage_papers.quadratic.quadratic_network(4, 2, 1e-3)
    at = network.start(1e-4, seed=3, norm=network.plateau_norm)
    t = np.linspace(0.0, 5.0, 51)
    risk = 2 * network.curves(at, t, gradient_flow=True).error
    law = network.loss_reduction(t, np.sum(np.asarray(at.R) ** 2))
    np.testing.assert_allclose((risk[0] - risk)[25:] / risk[0], law[25:], rtol=2e-3)
    assert (
        abs(
            law[-1] / network.loss_reduction(t * 4, np.sum(np.asarray(at.R) ** 2))[-1]
            - 1
        )
        > 0.5
    )  # t = eta alpha, not / p
    assert network.loss_reduction(t[-1], overlap=1e-4) == pytest.approx(
        network.loss_reduction(t[-1], 8 * 1e-8)
    )


@pytest.mark.parametrize(("p", "k", "eta"), [(3, 3, 0.2), (6, 3, 0.5), (2, 5, 0.1)])
def test_plateau_at_finite_rates(p, k, eta):
    """Norm, growth and relaxation from naive matrices; what grows above stands still at the standstill rate."""
    plateau = plateau_at(p, k, eta)
    Q = plateau.norm * np.eye(p)
    R = np.full((p, k), 1e-9)
    dR, dQ = naive_rates(R, Q, np.eye(k), 1 / p, 1 / k, 2 * eta, 0.0)
    np.testing.assert_allclose(dQ, 0.0, atol=1e-12)
    np.testing.assert_allclose(dR / R, plateau.growth, rtol=1e-7)
    up = naive_rates(
        0 * R, Q + 1e-6 * np.eye(p), np.eye(k), 1 / p, 1 / k, 2 * eta, 0.0
    )[1]
    assert -up[0, 0] / 1e-6 == pytest.approx(plateau.relaxation, rel=1e-4)
    wrong = naive_rates(
        R, np.eye(p) * p / (p + 2), np.eye(k), 1 / p, 1 / k, 2 * eta, 0.0
    )[1]
    assert np.abs(wrong[0, 0]) > 1e-4  # the norm of small rates is not at rest
    best, stop, last = fastest_rate(p, k), standstill_rate(p, k), largest_rate(p, k)
    assert best < stop < last
    growths = [
        plateau_at(p, k, x).growth
        for x in (0.98 * best, best, 1.02 * best, stop, 1.001 * stop)
    ]
    assert growths[1] > max(growths[0], growths[2])
    assert growths[3] == pytest.approx(0.0, abs=1e-12)
    assert growths[4] < 0


def test_few_teachers_never_stand_still():
    """p* = 1 and 2: overlaps grow up to the rate at which norms diverge."""
    for p, k in ((1, 1), (4, 1), (3, 2), (8, 2)):
        assert standstill_rate(p, k) == largest_rate(p, k)
        assert plateau_at(p, k, 0.9999 * largest_rate(p, k)).growth > 0


def test_general_verb_agrees_at_finite_rate():
    network = tutelage_papers.quadratic.quadratic_network(P, K, 0.2)
    near = tu.Start(np.zeros((P, K)), network.plateau_norm * np.eye(P), np.eye(K))
    found = tu.analysis.fixed_point(network.problem, near)
    assert found.error * 2 == pytest.approx(network.plateau().risk, rel=1e-9)
    assert found.modes[0].rate == pytest.approx(network.plateau().growth, rel=1e-9)


def test_fastest_rate_by_solving():
    """Against all rates of a grid; and it is affine in p, not proportional."""
    network = tutelage_papers.quadratic.quadratic_network(3, 3)
    best = network.fastest(starts=5)
    grid = [
        np.mean(
            tutelage_papers.quadratic.quadratic_network(3, 3, lr).half_times(
                [network.start(0.01, i) for i in range(5)]
            )
        )
        for lr in best.lrs
    ]
    assert best.time == pytest.approx(min(grid))
    assert best.paper_lr == pytest.approx(0.272, rel=0.03)
    assert best.on_plateau > best.paper_lr
    assert (
        tutelage_papers.quadratic.quadratic_network(6, 3).fastest(starts=5).paper_lr
        / best.paper_lr
        > 2.2
    )
    assert np.all(
        np.isinf(
            tutelage_papers.quadratic.quadratic_network(3, 3, 0.455).half_times(
                [network.start()]
            )
        )
    )
    assert "halves first" in str(best)


def test_diffusion_of_an_overlap():
    """Monte Carlo of E[F^2 u^2] at Q = q without overlaps; 4 standard errors, a false alarm in 16 000."""
    p, k, q, eta, n = 4, 2, 0.8, 0.1, 1_500_000
    rng = np.random.default_rng(0)
    lam, u = np.sqrt(q) * rng.standard_normal((n, p)), rng.standard_normal((n, k))
    F = 4 * eta / p * (np.mean(u**2, 1) - np.mean(lam**2, 1)) * lam[:, 0]
    draws = (F * u[:, 0]) ** 2
    assert diffusion(p, k, eta, q) == pytest.approx(
        draws.mean(), abs=4 * draws.std() / np.sqrt(n)
    )
    assert abs(
        diffusion(p, k, eta, q * 1.25) - draws.mean()
    ) > 4 * draws.std() / np.sqrt(n)


def test_noise_carried_back_to_time_zero():
    """On the plateau itself the growth is constant, and V = D / (2 g)."""
    network = tutelage_papers.quadratic.quadratic_network(4, 3, 0.1)
    plateau = network.plateau()
    noise = network.seed_noise(plateau.norm)
    assert noise.growth == pytest.approx(plateau.growth, rel=1e-6)
    assert noise.variance == pytest.approx(
        diffusion(4, 3, 0.1, plateau.norm) / (2 * plateau.growth), rel=1e-6
    )


def test_escape_times_of_runs():
    """Mean and spread of 24 runs; the law of a start without noise is a single time."""
    network, n, runs = tutelage_papers.quadratic.quadratic_network(P, K, 0.1), 300, 24
    at = network.start(0.08, seed=2)
    law = network.escape_times(at, n, samples=400)
    end = 1.5 * float(law.max())
    seen = tu.simulate(
        network.problem, at, dim=n, times=tu.linear_times(end, 801), runs=runs, seed=1
    )
    times = np.array(
        [
            np.asarray(seen.times)[np.argmax(e < e[0] / 2)]
            for e in np.asarray(seen.error)
        ]
    )
    assert np.mean(times) == pytest.approx(
        np.mean(law), abs=4 * np.std(law) / np.sqrt(runs) + 0.02 * np.mean(law)
    )
    assert np.std(times) == pytest.approx(np.std(law), rel=0.6)
    assert network.seed_noise().start_to_noise(np.asarray(at.R), n) > 1
    assert np.ptp(network.escape_times(at, 10**12, samples=3)) < 1e-3


def test_words_and_figures():
    network = tutelage_papers.quadratic.quadratic_network(3, 2, 0.05)
    curves = network.curves(network.start(), np.linspace(0, 20, 101))
    assert network.plot().axes[0].get_ylabel() == r"risk $2\epsilon_g$"
    assert len(curves.plot().axes[1].lines) == 2 + 2 + 1
    assert (
        network.fastest(starts=2)
        .plot()
        .axes[0]
        .get_xlabel()
        .startswith("learning rate")
    )


@pytest.mark.parametrize(
    ("call", "mentions"),
    [
        (
            lambda: tutelage_papers.quadratic.quadratic_network(0, 2),
            ("students", "1 or more"),
        ),
        (
            lambda: tutelage_papers.quadratic.quadratic_network(3, 2, -0.1),
            ("paper_lr",),
        ),
        (
            lambda: tutelage_papers.quadratic.quadratic_network(3, 2, 1.0).plateau(),
            ("paper_lr", "diverge"),
        ),
        (
            lambda: tutelage_papers.quadratic.quadratic_network(
                3, 3, 0.455
            ).seed_noise(),
            ("paper_lr", "Lower"),
        ),
        (
            lambda: tutelage_papers.quadratic.quadratic_network(3, 2).loss_reduction(
                1.0
            ),
            ("squares", "overlap"),
        ),
        (lambda: quadratic_curves(quadratic(), 3, TIMES), ("Start",)),
        (lambda: quadratic_curves(quadratic(), [], TIMES), ("Start",)),
        (
            lambda: quadratic_curves(quadratic(), start(), [0.0]),
            ("times", "increasing"),
        ),
        (
            lambda: quadratic_curves(quadratic(lr=lambda t: 0.1), start(), TIMES),
            ("learning rate", "constant"),
        ),
        (
            lambda: quadratic_curves(quadratic(weight_decay=0.1), start(), TIMES),
            ("weight_decay", "plain SGD"),
        ),
        (
            lambda: quadratic_curves(
                quadratic(),
                tu.Start(start().R, np.diag([1.0, 2.0, 3.0]), np.eye(K)),
                TIMES,
            ),
            ("commute", "solve"),
        ),
    ],
)
def test_what_is_refused(call, mentions):
    with pytest.raises(tu.InputError) as refusal:
        call()
    require_refusal(refusal.value, *mentions)
