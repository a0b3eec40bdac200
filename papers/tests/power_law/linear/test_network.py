"""The closed solution in the limit: against `solve`, against the moment form in long arithmetic, against known limits."""

import mpmath
import numpy as np
import pytest
from papers.tests.power_law.linear.reference import linear_problem

import tutelage as tu
import tutelage_papers
from tutelage.plot import plot_trajectory

TIMES = np.array([0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0])
# learning rate, beta, noise, batch, weight decay: none of them changes a compiled shape
SETTINGS = [
    (0.5, 1.0, 0.0, 1, 0.0),
    (1.9, 0.5, 0.3, 1, 0.0),
    (3.0, 1.5, 0.2, 2, 0.0),
    (0.4, 1.0, 0.3, 1, 0.2),
]


def alike(Q=0.3):
    """All levels start alike: the mean over random weights."""
    return tu.Start(R=[[0.0]], Q=[[Q]], T=[[1.0]])


def agree(levels, lr, beta, noise, batch, decay):
    problem = linear_problem(levels, beta, lr, noise, batch=batch, weight_decay=decay)
    start = tu.random_start(problem, dim=1000 * levels, scale=0.5, seed=levels)
    numerical = tu.solve(problem, start, TIMES, rtol=1e-11, atol=1e-13, keep="fields")
    closed = tutelage_papers.power_law.linear_network(problem, start).trajectory(TIMES)
    np.testing.assert_allclose(closed.error, numerical.error, rtol=1e-8)
    np.testing.assert_allclose(closed.R, numerical.R, atol=1e-8)
    np.testing.assert_allclose(closed.Q, numerical.Q, atol=1e-8)
    np.testing.assert_allclose(closed.T, numerical.T, atol=1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
def test_equals_the_integrated_equations(setting):
    agree(5, *setting)


@pytest.mark.full
@pytest.mark.parametrize("levels", [1, 2, 64, 1024])
@pytest.mark.parametrize("setting", [*SETTINGS, (1.2, 0.3, 0.1, 3, 1.0)])
def test_equals_the_integrated_equations_for_any_number_of_levels(levels, setting):
    agree(levels, *setting)


def test_frozen_levels_and_readouts_equal_the_integrated_equations():
    problem = linear_problem(
        5, 1.0, 0.3, 0.1, trainable=[0, 1, 3], readouts=(0.7, 1.3), weight_decay=0.1
    )
    start = tu.random_start(problem, dim=5000, scale=0.5, seed=3)
    numerical = tu.solve(problem, start, TIMES, rtol=1e-11, atol=1e-13)
    closed = tutelage_papers.power_law.linear_network(problem, start)
    as_trajectory = closed.trajectory(TIMES)
    for name in ("R", "Q", "r", "q"):
        np.testing.assert_allclose(as_trajectory[name], numerical[name], atol=1e-8)
    np.testing.assert_allclose(as_trajectory.error, numerical.error, rtol=1e-8)
    plain = tutelage_papers.power_law.linear_network(
        problem.replace(trainable=None), start
    )
    assert plain.error(10.0) < 0.8 * closed.error(10.0), (
        "without the mask the test would not notice it"
    )


def test_published_moment_form():
    """L = 5, beta = 1, lr = 0.5, s^2 = 0.3: the moment matrices of equations 24-45, evaluated with long numbers."""
    network = tutelage_papers.power_law.linear_network(linear_problem(), alike())
    found = [f"{e:.9g}" for e in network.error([0.5, 3.0, 20.0])]
    assert found == ["0.298910969", "0.0728311464", "0.00239263643"]


def moment_modes(levels, beta, rate, digits):
    """|lambda_B,k| and b_k |lambda_B,k| of equations 27 and 57, fastest first: the companion matrix in long arithmetic."""
    with mpmath.workdps(digits):
        lam = [mpmath.mpf(k) ** -(1 + mpmath.mpf(beta)) for k in range(1, levels + 1)]
        mean = mpmath.fsum(lam) / levels
        lam = [x / mean for x in lam]
        c = [mpmath.mpf(1)]  # coefficients of prod (X - lam), ascending
        for x in lam:
            c = [low - x * high for low, high in zip([0, *c], [*c, 0], strict=True)]
        T = [mpmath.fsum(x**j for x in lam) / levels for j in range(levels + 1)]
        B = mpmath.zeros(levels)
        for i in range(levels - 1):
            B[i, i + 1] = -2
        for j in range(levels):
            B[levels - 1, j] = 2 * c[j]
        for i in range(levels):
            B[i, 1] += mpmath.mpf(rate) * T[i + 1]
        values, vectors = mpmath.eig(B)
        b = mpmath.lu_solve(vectors, mpmath.matrix(T[:levels]))
        pairs = [
            (-mpmath.re(s), mpmath.re(b[k] * vectors[0, k] * -s))
            for k, s in enumerate(values)
        ]
        return np.array(sorted(pairs, reverse=True), dtype=float).T


@pytest.mark.parametrize(
    ("levels", "beta", "rate", "digits"), [(10, 1.0, 0.5, 60), (6, 0.1, 1.0, 50)]
)
def test_modes_equal_the_moment_form_in_long_arithmetic(levels, beta, rate, digits):
    eigenvalues, coefficients = moment_modes(levels, beta, rate, digits)
    modes = tutelage_papers.power_law.linear_network(
        linear_problem(levels, beta, rate)
    ).modes
    np.testing.assert_allclose(modes.eigenvalues, eigenvalues, rtol=1e-13)
    np.testing.assert_allclose(modes.coefficients, coefficients, rtol=1e-13)


@pytest.mark.full
@pytest.mark.parametrize(
    ("levels", "beta", "rate", "digits"),
    [(20, 0.1, 1.0, 120), (30, 1.0, 0.5, 220), (40, 1.0, 1.0, 320)],
)
def test_modes_of_many_levels_equal_the_moment_form(levels, beta, rate, digits):
    """The moment form itself needs these digits: with 60 it is wrong in the third one at 20 levels."""
    test_modes_equal_the_moment_form_in_long_arithmetic(levels, beta, rate, digits)


def test_modes_share_the_error_and_become_the_levels():
    network = tutelage_papers.power_law.linear_network(
        linear_problem(40, 1.0, 1.0), alike()
    )
    modes = network.modes
    assert np.all(np.diff(modes.rates) < 0)
    assert np.sum(modes.weights) == pytest.approx(1.0, abs=1e-13)
    np.testing.assert_allclose(
        network.error(TIMES) / network.error(0.0),
        np.exp(-np.outer(TIMES, modes.rates)) @ modes.weights,
    )
    slow = tutelage_papers.power_law.linear_network(linear_problem(40, 1.0, 1e-7)).modes
    np.testing.assert_allclose(slow.eigenvalues, 2 * slow.levels, rtol=1e-5)
    np.testing.assert_allclose(slow.weights, slow.levels / 40, rtol=1e-4)
    assert np.max(np.abs(modes.weights * 40 / modes.levels - 1)) > 0.5, (
        "a rate of one mixes the levels"
    )


def test_steady_states():
    """e_g(inf) = lr sigma^2 / (2 (2 - lr)); isotropic with decay, V = 2(1+k)/(2(1+k) - lr) (k^2/(1+k)^2 + sigma^2)."""
    for levels in (1, 7):
        network = tutelage_papers.power_law.linear_network(
            linear_problem(levels, 1.0, 0.8, 0.5)
        )
        assert network.steady_state == pytest.approx(
            0.8 * 0.25 / (2 * (2 - 0.8)), rel=1e-12
        )
        assert network.steady_state == pytest.approx(
            float(network.error(1e6)), rel=1e-9
        )
    k = 0.3
    network = tutelage_papers.power_law.linear_network(
        linear_problem(1, lr=0.8, noise=0.5, weight_decay=k)
    )
    V = 2 * (1 + k) / (2 * (1 + k) - 0.8) * (k**2 / (1 + k) ** 2 + 0.25)
    assert network.steady_state == pytest.approx((V - 0.25) / 2, rel=1e-12)
    assert network.critical_rate == pytest.approx(2 * (1 + k), rel=1e-12)


@pytest.mark.parametrize(
    ("options", "critical"),
    [({}, 2.0), ({"batch": 4}, 8.0), ({"readouts": (2.0, 1.0)}, 0.5)],
)
def test_critical_rate(options, critical):
    network = tutelage_papers.power_law.linear_network(
        linear_problem(6, 0.7, critical * 0.999, **options)
    )
    assert network.critical_rate == pytest.approx(critical, rel=1e-12)
    assert network.stable
    assert network.modes.rates[-1] > 0
    above = tutelage_papers.power_law.linear_network(
        linear_problem(6, 0.7, critical * 1.001, **options)
    )
    assert not above.stable
    assert above.modes.rates[-1] < 0
    assert above.error(1e3) > above.error(0.0)
    with pytest.raises(
        tu.InputError, match="steady state only below the critical rate"
    ):
        _ = above.steady_state


def test_small_rate():
    """The mean path of explicit weights, and equation 8 for random ones."""
    rng = np.random.default_rng(0)
    lam = np.repeat([2.0, 0.6, 0.4], 4)
    J, B = rng.standard_normal((2, 12))
    inputs = tu.Spectrum([2.0, 0.6, 0.4])
    for decay in (0.0, 0.4):
        problem = linear_problem(inputs=inputs, lr=0.3, noise=0.2, weight_decay=decay)
        network = tutelage_papers.power_law.linear_network(
            problem, tu.start_from_weights(problem, J[None], B[None])
        )
        end = B * lam / (lam + decay)
        path = end + (J - end) * np.exp(-0.3 * (lam + decay) * TIMES[:, None])
        np.testing.assert_allclose(
            network.small_rate(TIMES), ((path - B) ** 2) @ lam / 24, rtol=1e-12
        )
    problem = linear_problem(8, 1.0, 0.1)
    lam = problem.inputs.eigenvalues
    expected = 1.09 / 16 * (np.exp(-0.2 * np.outer(TIMES, lam)) @ lam)
    network = tutelage_papers.power_law.linear_network(problem, alike(0.09))
    np.testing.assert_allclose(network.small_rate(TIMES), expected, rtol=1e-12)
    assert np.all(network.error(TIMES[1:]) > network.small_rate(TIMES[1:]))
    slow = tutelage_papers.power_law.linear_network(
        problem.replace(lr=1e-6), alike(0.09)
    )
    np.testing.assert_allclose(
        slow.error(1e5 * TIMES), slow.small_rate(1e5 * TIMES), rtol=1e-4
    )


def test_closed_order_parameters_of_the_source():
    """Equations 7 and 38: R = 1 - (1/L) sum lam exp(-lr lam alpha), exact at any rate; Q of equation 46 is not."""
    problem = linear_problem(8, 1.0, 0.9)
    lam = problem.inputs.eigenvalues
    network = tutelage_papers.power_law.linear_network(problem, alike(0.09))
    np.testing.assert_allclose(
        network.R(TIMES), 1 - np.exp(-0.9 * np.outer(TIMES, lam)) @ lam / 8, atol=1e-13
    )
    np.testing.assert_allclose(
        network.error(TIMES),
        (network.Q(TIMES) - 2 * network.R(TIMES) + 1) / 2,
        rtol=1e-11,
    )
    fast, slow = (
        np.exp(-1.8 * np.outer(TIMES, lam)) @ lam / 8,
        np.exp(-0.9 * np.outer(TIMES, lam)) @ lam / 8,
    )
    assert np.max(np.abs(network.Q(TIMES) - (1 + 1.09 * fast - 2 * slow))) > 0.1


def test_order_parameters_of_frozen_levels():
    """Equation 77: the first three of eight levels learn; R holds at any rate, Q at a small one."""
    problem = linear_problem(8, 1.0, 0.9)
    lam, rate = problem.inputs.eigenvalues, 1e-6
    on = np.arange(8) < 3
    slow = tutelage_papers.power_law.linear_network(
        problem.replace(lr=rate, trainable=[0, 1, 2]), alike(0.09)
    )
    fast = tutelage_papers.power_law.linear_network(
        problem.replace(trainable=[0, 1, 2]), alike(0.09)
    )
    once, twice = (np.exp(-k * np.outer(TIMES, lam)) * lam * on / 8 for k in (1, 2))
    learned = np.sum(lam * on) / 8
    Q = (
        1.09 * twice.sum(axis=1)
        - 2 * once.sum(axis=1)
        + learned
        + 0.09 * np.sum(lam * ~on) / 8
    )
    np.testing.assert_allclose(
        slow.R(TIMES / rate), learned - once.sum(axis=1), atol=1e-12
    )
    np.testing.assert_allclose(
        fast.R(TIMES / 0.9), learned - once.sum(axis=1), atol=1e-12
    )
    np.testing.assert_allclose(slow.Q(TIMES / rate), Q, atol=1e-5)
    assert np.max(np.abs(fast.Q(TIMES / 0.9) - Q)) > 0.05, (
        "a large rate is another matter"
    )


def test_levels_and_local_slope():
    network = tutelage_papers.power_law.linear_network(
        linear_problem(6, 1.0, 0.7, 0.2, weight_decay=0.1), alike()
    )
    levels = network.levels(TIMES)
    assert levels.shape == (TIMES.size, 6)
    np.testing.assert_allclose(
        levels @ network.problem.inputs.weights / 2, network.error(TIMES), rtol=1e-12
    )
    t = np.array([0.1, 1.0, 7.0])
    numerical = (
        np.log(network.error(t * 1.0001)) - np.log(network.error(t / 1.0001))
    ) / (2 * np.log(1.0001))
    np.testing.assert_allclose(network.local_slope(t), numerical, rtol=1e-6)


def test_many_levels_at_late_times_keep_their_digits():
    """The last mode alone, 1e-4 of the first, after all others have gone."""
    network = tutelage_papers.power_law.linear_network(
        linear_problem(256, 1.0, 0.5), alike()
    )
    rate, weight = network.modes.rates[-1], network.modes.weights[-1]
    late = 60 / rate
    others = (
        np.exp((rate - network.modes.rates) * late) @ network.modes.weights / weight
    )
    assert float(network.error(late)) == pytest.approx(
        0.65 * weight * np.exp(-60.0) * others, rel=1e-11
    )


def test_shapes_and_the_default_start():
    network = tutelage_papers.power_law.linear_network(linear_problem())
    assert network.error(1.0).shape == ()
    assert network.error(np.ones((2, 3))).shape == (2, 3)
    assert network.levels(np.ones((2, 3))).shape == (2, 3, 5)
    assert float(network.error(0.0)) == pytest.approx(1.01 / 2, rel=1e-12)


def test_a_trajectory_is_stored_drawn_and_read(tmp_path):
    closed = tutelage_papers.power_law.linear_network(
        linear_problem(noise=0.1), alike()
    ).trajectory(5.0)
    again = tu.load(closed.save(tmp_path / "closed.nc"))
    np.testing.assert_array_equal(again.error, closed.error)
    np.testing.assert_allclose(again.loss, closed.error + 0.005)
    assert closed.finished
    assert plot_trajectory(closed).axes


def test_words_and_figure():
    network = tutelage_papers.power_law.linear_network(
        linear_problem(lr=1.0, noise=0.1)
    )
    text = str(network)
    assert "critical rate: 2; this rate is 0.5 of it" in text
    assert f"{network.steady_state:.6g} finally" in text
    assert "5 modes" in str(network.modes)
    labels = [line.get_label() for line in network.plot().axes[0].lines]
    assert labels == ["exact", "small learning rate", "final value"]
    above = tutelage_papers.power_law.linear_network(
        linear_problem(lr=2.5), tu.random_start(linear_problem(lr=2.5), dim=50)
    )
    assert "grows for ever" in str(above)
    assert "at N = 50" in str(above)
    assert above.plot(np.linspace(0.0, 1.0, 5)).axes


ONE = tu.Network(1, "linear")


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (tu.Problem(tu.Network(2, "linear"), ONE), "2 and the teacher 1 hidden"),
        (tu.Problem(ONE, tu.Network(3, "linear")), "1 and the teacher 3 hidden"),
        (tu.Problem(tu.Network(1, "erf"), ONE), "student's activation is 'erf'"),
        (tu.Problem(ONE, tu.Network(1, "relu")), "teacher's activation is 'relu'"),
        (linear_problem(momentum=0.9), "momentum"),
        (linear_problem(momentum=tu.SlowMomentum(1.0)), "momentum"),
        (linear_problem(lr=tu.schedules.PowerDecay(0.5)), "a schedule"),
        (linear_problem(spherical=True), "fixed length"),
        (
            tu.Problem(tu.Network(1, "linear", train_readout=True), ONE),
            "readout learns",
        ),
        (tu.Problem(tu.Network(1, "linear", bias=0.1), ONE), "biases"),
        (linear_problem(readouts=(0.0, 1.0)), "readout is 0"),
        (linear_problem(trainable=np.zeros(5, bool)), "no level learns"),
        ("a problem", "takes a tutelage Problem"),
    ],
)
def test_refusals(problem, words):
    with pytest.raises(tu.InputError, match=words) as caught:
        tutelage_papers.power_law.linear_network(problem)
    assert "\n" not in str(caught.value)


def test_other_refusals():
    network = tutelage_papers.power_law.linear_network(linear_problem())
    with pytest.raises(tu.InputError, match="times contains -1"):
        network.error([0.0, -1.0])
    with pytest.raises(tu.InputError, match="start is of type str"):
        tutelage_papers.power_law.linear_network(linear_problem(), "start")  # pyright: ignore[reportArgumentType]
    with pytest.raises(tu.InputError, match=r"shape \(2, 1, 1\).* on 5 levels"):
        tutelage_papers.power_law.linear_network(
            linear_problem(), tu.Start(np.zeros((2, 1, 1)), np.ones((2, 1, 1)))
        )
    with pytest.raises(tu.InputError, match="beyond every bound"):
        tutelage_papers.power_law.linear_network(linear_problem(lr=4.0)).error(
            [1.0, 1e6]
        )
    with pytest.raises(tu.InputError, match="has no slope"):
        tutelage_papers.power_law.linear_network(
            linear_problem(), tu.Start([[1.0]], [[1.0]], [[1.0]])
        ).local_slope([1.0])
    with pytest.raises(tu.InputError, match="a trajectory holds the limit"):
        network.finite(50).trajectory(1.0)
    with pytest.raises(tu.InputError, match="need at least 5 dimensions"):
        network.finite(4)
