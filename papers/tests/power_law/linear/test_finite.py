"""The exact mean at finite N: against all second moments step by step, against runs, and at millions of steps."""

import mpmath
import numpy as np
import pytest
from papers.tests.power_law.linear.reference import exact_moments, linear_problem

import tutelage as tu
import tutelage_papers
from tutelage.times import steps_at
from tutelage_papers.power_law.linear.relaxation import Propagator

STEPS = [0, 1, 2, 3, 10, 40, 100]


def network_of(dims, lam, seed, **options):
    """Explicit weights on levels of these dimensions, their covariance, and the problem they belong to."""
    J, B = np.random.default_rng(seed).standard_normal((2, sum(dims)))
    inputs = tu.Spectrum(lam, np.array(dims) / sum(dims), normalize=False)
    problem = linear_problem(inputs=inputs, **options)
    start = tu.start_from_weights(problem, J[None], B[None])
    return problem, start, np.repeat(lam, dims), J, B


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.3},
        {"lr": 0.6, "noise": 0.7},
        {"lr": 0.2, "noise": 0.4, "batch": 3, "weight_decay": 1.0},
        {"lr": 0.5, "noise": 0.3, "weight_decay": 0.3, "readouts": (0.8, 1.5)},
        {
            "lr": 3.5,
            "noise": 0.3,
            "weight_decay": 0.2,
            "batch": 50,
        },  # one step overshoots: the mean alternates
        {"lr": 0.4, "noise": 0.2, "trainable": [0, 2], "weight_decay": 0.2},
        {"lr": 2.5},  # unstable
    ],
)
@pytest.mark.parametrize(
    "lam", [(2.4, 0.9, 0.3), (2.0, 1.0, 1.0)], ids=["different", "equal"]
)
def test_equals_all_second_moments_step_by_step(options, lam):
    dims = [2, 3, 1]
    problem, start, values, J, B = network_of(dims, lam, 0, **options)
    v, v_teacher = options.get("readouts", (1.0, 1.0))
    trained = np.repeat(np.isin(range(3), options.get("trainable", range(3))), dims)
    error, squares = exact_moments(
        np.diag(values), v * J, v_teacher * B, STEPS, rate=options["lr"] * v**2, trained=trained,
        decay=options.get("weight_decay", 0.0) / v**2, batch=options.get("batch", 1), noise=options.get("noise", 0.0),
    )  # fmt: skip
    network = tutelage_papers.power_law.linear_network(problem, start).finite(6)
    times = np.array(STEPS) / 6
    np.testing.assert_allclose(network.error(times), error / 2, rtol=1e-11, atol=1e-14)
    edges = np.cumsum([0, *dims[:-1]])
    per_level = np.add.reduceat(squares, edges, axis=1) / dims
    np.testing.assert_allclose(
        network.levels(times), per_level, rtol=1e-9, atol=1e-12 * per_level.max()
    )
    np.testing.assert_allclose(network.Q(times) - 2 * v_teacher / v * network.R(times), (error - error[0]) / v**2
                               + network.Q(0.0) - 2 * v_teacher / v * network.R(0.0), rtol=1e-9)  # fmt: skip


def test_slope_is_the_change_in_one_step():
    problem, start, *_ = network_of(
        [2, 3, 1], (2.4, 0.9, 0.3), 0, lr=0.5, noise=0.3, weight_decay=0.6
    )
    network, times = (
        tutelage_papers.power_law.linear_network(problem, start).finite(6),
        np.array(STEPS[1:-1]) / 6,
    )
    change = (network.error(times + 1 / 6) - network.error(times)) * 6
    np.testing.assert_allclose(
        network.local_slope(times),
        times * change / network.error(times),
        rtol=1e-9,
        atol=1e-12,
    )


def test_levels_that_do_not_divide_the_dimension():
    """Three equal shares of seven inputs are three, two and two of them, as in `simulate`."""
    problem = linear_problem(3, 1.0, 0.5, 0.2)
    J, B = np.random.default_rng(3).standard_normal((2, 7))
    values = np.repeat(problem.inputs.eigenvalues, problem.inputs.level_dims(7))
    error, _ = exact_moments(np.diag(values), J, B, STEPS, rate=0.5, noise=0.2)
    network = tutelage_papers.power_law.linear_network(
        problem, tu.start_from_weights(problem, J[None], B[None])
    ).finite(7)
    np.testing.assert_allclose(
        network.error(np.array(STEPS) / 7), error / 2, rtol=1e-11
    )


def test_the_limit_is_reached_as_one_over_the_dimension():
    problem = linear_problem(4, 1.0, 0.8, 0.3)
    network, times = (
        tutelage_papers.power_law.linear_network(problem),
        np.array([0.5, 2.0, 8.0]),
    )
    gaps = [
        np.max(np.abs(network.exact_mean(times, N) / network.error(times) - 1))
        for N in (400, 4000, 40000)
    ]
    assert gaps[0] > 1e-3
    np.testing.assert_allclose(np.divide(gaps[:-1], gaps[1:]), 10.0, rtol=0.05)


def test_a_published_figure_sits_on_the_edge():
    """N = L = 128, beta = 1, lr = 1: the equations promise 0.0184 at alpha = 10, the exact mean is 1.43."""
    network = tutelage_papers.power_law.linear_network(
        linear_problem(128, 1.0, 1.0), tu.Start([[0.0]], [[1.0]], [[1.0]])
    )
    assert f"{network.error(10.0):.4f}" == "0.0184"
    assert f"{network.exact_mean(10.0, 128):.2f}" == "1.43"
    lam = network.problem.inputs.eigenvalues
    edge = network.finite(128).critical_rate
    assert edge == pytest.approx(1.00133, abs=1e-5)
    assert np.mean(edge * lam / (2 * (1 - edge * lam / 128))) == pytest.approx(
        1.0, rel=1e-10
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": 4},
        {"weight_decay": 0.5},
        {"trainable": [1, 2]},
        {"readouts": (1.5, 1.0)},
    ],
)
def test_critical_rate_is_where_the_step_matrix_loses_contraction(options):
    """The largest eigenvalue of one step of the squares, built column by column, crosses one exactly there."""
    dims, lam = [1, 2, 3], (3.0, 1.0, 0.3)

    def largest(lr):
        values = network_of(dims, lam, 1, lr=lr, **options)[2]
        trained = np.repeat(np.isin(range(3), options.get("trainable", range(3))), dims)
        v = options.get("readouts", (1.0, 1.0))[0]
        at = {
            "rate": lr * v**2,
            "decay": options.get("weight_decay", 0.0) / v**2,
            "batch": options.get("batch", 1),
        }
        columns = [
            exact_moments(
                np.diag(values), unit, np.zeros(6), [1], trained=trained, **at
            )[1][0]
            for unit in np.eye(6)
        ]
        step = np.array(columns).T
        return np.max(np.abs(np.linalg.eigvals(step[np.ix_(trained, trained)])))

    problem, start, *_ = network_of(dims, lam, 1, lr=0.5, **options)
    edge = (
        tutelage_papers.power_law.linear_network(problem, start).finite(6).critical_rate
    )
    assert largest(edge) == pytest.approx(1.0, abs=1e-9)
    assert largest(edge * 1.01) > 1 > largest(edge * 0.99)
    assert edge < tutelage_papers.power_law.linear_network(problem, start).critical_rate


def test_ten_million_steps_keep_their_digits():
    problem = linear_problem(inputs=tu.Spectrum([1.9, 0.1]), lr=1e-4, noise=0.5)
    network = tutelage_papers.power_law.linear_network(
        problem, tu.Start([[0.0]], [[1.0]], [[1.0]])
    ).finite(1000)
    steps = 10_000_000
    with mpmath.workdps(40):
        h, N = mpmath.mpf(10) ** -4, 1000
        lam = [mpmath.mpf(float(x)) for x in problem.inputs.eigenvalues]
        G = mpmath.matrix(3)  # (E_1, E_2, 1)
        for i in range(2):
            G[i, i] = 1 - 2 * h * lam[i] / N + 2 * (h * lam[i] / N) ** 2
            for j in range(2):
                G[i, j] += h**2 / N * lam[i] * lam[j] / 2
            G[i, 2] = h**2 / N * lam[i] / 4
        G[2, 2] = 1
        E = (G**steps) * mpmath.matrix([2, 2, 1])
        exact = float((lam[0] * E[0] + lam[1] * E[1]) / 4)
    assert float(network.error(steps / 1000)) == pytest.approx(exact, rel=1e-11)


def test_clock():
    """Both clocks against their definitions, at equal rates, zero rates and rates that overshoot."""
    rate, force, times = (
        np.array([0.0, 0.5, 2.0, 4.0]),
        np.array([0.5, 1.0, 9.0]),
        np.array([0.0, 0.25, 2.0]),
    )
    N = 4
    for dim in (None, N):
        propagator = Propagator(dim)
        for t in times:
            n = int(steps_at(t, N))
            left = lambda s: np.exp(-s * t) if dim is None else (1 - s / N) ** n  # noqa: E731
            np.testing.assert_allclose(
                propagator.decay(force, t), left(force), rtol=1e-14
            )
            for s in rate:
                fill = t if dim is None or s else n / N
                if s:
                    fill = (1 - left(s)) / s
                assert propagator.constant_response(s, t) == pytest.approx(
                    fill, rel=1e-14, abs=1e-300
                )
                for g in force:
                    if s != g:
                        assert propagator.decaying_response(s, g, t) == pytest.approx(
                            (left(g) - left(s)) / (s - g), rel=1e-12, abs=1e-300
                        )
    assert Propagator().decaying_response(
        np.float64(1.5), np.float64(1.5), 2.0
    ) == pytest.approx(2 * np.exp(-3.0), rel=1e-12)
    assert Propagator(4).decaying_response(
        np.float64(1.5), np.float64(1.5), 2.0
    ) == pytest.approx(2 * (1 - 1.5 / 4) ** 7, rel=1e-12)


def z_scores(values, expected):
    return (values.mean(axis=0) - expected) / (
        values.std(axis=0, ddof=1) / np.sqrt(len(values))
    )


@pytest.mark.parametrize(
    "options", [{"lr": 0.7}, {"lr": 1.4, "batch": 2, "weight_decay": 0.4}]
)
def test_equals_the_mean_of_runs(options):
    """N = 12: 4000 runs of the exact law. Six z-scores, at most 4.2 (a false alarm in 2e-4); the limit itself must fail."""
    problem = linear_problem(3, 1.0, noise=0.3, **options)
    start = tu.random_start(problem, dim=12, scale=0.7, seed=2)
    times = np.array([1.0, 3.0])
    runs = tu.simulate(
        problem, start, dim=12, times=times, runs=4000, seed=5, workers=1
    )
    network = tutelage_papers.power_law.linear_network(problem, start)
    exact = network.finite(12)
    z = [
        z_scores(runs.error, exact.error(times)),
        z_scores(runs.R[..., 0, 0], exact.R(times)),
    ]
    z.append(z_scores(runs.Q[..., 0, 0], exact.Q(times)))
    assert np.max(np.abs(z)) < 4.2
    assert np.max(np.abs(z_scores(runs.error, network.error(times)))) > 8


def test_finite_network_in_words_and_figure():
    network = tutelage_papers.power_law.linear_network(
        linear_problem(lr=1.0, noise=0.1)
    ).finite(20)
    assert "N = 20" in str(network)
    labels = [
        line.get_label()
        for line in network.plot(np.linspace(0.0, 4.0, 9)).axes[0].lines
    ]
    assert labels[0] == "exact mean, $N=20$"
    assert len(labels) == 4


def test_frozen_levels_equal_the_mean_of_runs_of_real_weights():
    """N = L = 16, six levels learn, at a late time: z below 4 (a false alarm in 6e-5); the small-rate floor must fail."""
    problem = linear_problem(16, 1.0, 0.5, trainable=list(range(6)))
    start = tu.random_start(problem, dim=16, scale=0.1, seed=1)
    runs = tu.simulate(
        problem,
        start,
        dim=16,
        times=[150.0],
        runs=800,
        seed=2,
        method="weights",
        workers=1,
    )
    network = tutelage_papers.power_law.linear_network(problem, start).finite(16)
    mean, error = runs.error[:, 0].mean(), runs.error[:, 0].std(ddof=1) / np.sqrt(800)
    assert abs(mean - network.error(150.0)) < 4 * error
    assert network.error(150.0) == pytest.approx(network.steady_state, rel=1e-3)
    assert abs(mean - network.small_rate(150.0)) > 10 * error
