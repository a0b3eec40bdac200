"""Averages of any rule over nodes:

against closed forms, against each other, and through derivatives.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm

import tutelage as tu
from tests.problems import jacobian
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.linearized import LocalDynamics, flatten
from tutelage.stream.moments import Sampled, moments_for
from tutelage.stream.moments.node_moments import NodeMoments, confidence
from tutelage.stream.moments.node_sums import (
    RuleAtState,
    divided,
    node_sums,
    scored_sums,
)
from tutelage.stream.moments.quadrature import factor
from tutelage.stream.order_parameters import as_arrays

UNIT = tu.Network(1, "linear")
ONE = tu.Start([[0.3]], [[0.5]])
TWO = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])
FEW = Sampled(points=2**13)


def drift(problem, start, moments):
    state, t = initial_overlaps(problem, start)
    return LocalDynamics(OrderParameters(problem, t, moments=moments), state).drift(
        flatten(state)
    )


def jacobian_of(problem, start, sampled=None):
    state, t = initial_overlaps(problem, start)
    return np.asarray(
        jacobian(
            OrderParameters(problem, t, moments=moments_for(problem, None, sampled)),
            0.0,
            state,
        )
    )


def sampled_drift(problem, start, sampled=FEW):
    """The drift by sampling, and the error that its scramblings estimate."""
    moments = moments_for(problem, None, sampled)
    assert isinstance(moments, NodeMoments)
    each = [drift(problem, start, one) for one in moments.scramblings()]
    return drift(problem, start, moments), confidence(each)


@pytest.mark.parametrize(
    "activation",
    [
        "relu",
        "quadratic",
        "tanh",
        *(pytest.param(n, marks=pytest.mark.full) for n in ("erf", "he3", "linear")),
    ],
)
def test_sampling_equals_the_closed_form_within_its_estimate(activation):
    network = tu.Network(2, activation, readout=[1.0, -0.7], train_readout=True)
    problem = tu.Problem(
        network, tu.Network(2, activation), noise=0.3, optimizer=tu.SGD(0.4)
    )
    found, doubt = sampled_drift(problem, TWO)
    exact = drift(problem, TWO, moments_for(problem))
    assert np.all(
        np.abs(found - exact) < 2 * doubt + 1e-12
    )  # 3.5 standard errors each, several numbers
    if activation not in (
        "quadratic",
        "he3",
    ):  # powers of Gaussian fields are sampled too coarsely for a control
        wrong = drift(problem.replace(noise=1.2), TWO, moments_for(problem))
        assert np.any(np.abs(found - wrong) > 4 * doubt)


def test_a_grid_and_a_sample_agree():
    for changes in (
        {"loss": "logistic"},
        {"loss": "hinge"},
        {"rule": "perceptron"},
        {"rule": "adatron"},
    ):
        problem = tu.Problem(UNIT, UNIT, labels=tu.labels.Sign(flip=0.2), **changes)
        found, doubt = sampled_drift(problem, ONE)
        np.testing.assert_array_less(
            np.abs(found - drift(problem, ONE, moments_for(problem))), 2 * doubt + 1e-12
        )


class Unsaid(tu.Rule):
    """The perceptron by a rule that says neither that it jumps nor where."""

    def update(self, sample, parameters, context):
        return self.result(
            jnp.where(sample.label * sample.student < 0, sample.label, 0.0), parameters
        )


def test_a_grid_needs_to_know_where_the_update_jumps():
    erf = tu.Network(1, "erf")
    for problem in (
        tu.Problem(UNIT, UNIT, labels="sign", rule=Unsaid()),
        tu.Problem(erf, erf, loss="absolute"),
        tu.Problem(UNIT, UNIT, loss="absolute", noise=0.3),
    ):
        assert moments_for(problem).points
    for problem in (
        tu.Problem(UNIT, UNIT, labels="sign", loss="hinge"),
        tu.Problem(UNIT, UNIT, loss="absolute"),
    ):
        assert moments_for(problem).grid > 0
    found, doubt = sampled_drift(
        tu.Problem(UNIT, UNIT, labels="sign", rule=Unsaid()), ONE
    )
    perceptron = tu.Problem(UNIT, UNIT, labels="sign", rule="perceptron")
    np.testing.assert_array_less(
        np.abs(found - drift(perceptron, ONE, moments_for(perceptron))),
        2 * doubt + 1e-12,
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"loss": "logistic"}, marks=pytest.mark.full),
        {"loss": "hinge"},
        {"rule": "perceptron"},
    ],
)
def test_the_grid_has_exact_derivatives(changes):
    problem = tu.Problem(UNIT, UNIT, labels="sign", **changes)
    h = 1e-5
    exact = jacobian_of(problem, ONE)
    for column, (R, Q) in enumerate(((h, 0.0), (0.0, h))):
        up, down = (
            drift(
                problem,
                tu.Start([[0.3 + s * R]], [[0.5 + s * Q]]),
                moments_for(problem),
            )
            for s in (1, -1)
        )
        np.testing.assert_allclose(
            exact[:2, column], ((up - down) / (2 * h))[:2], atol=1e-8
        )


def test_derivatives_of_sampled_jumps():
    """A ReLU committee by sampling has the Jacobian of its closed form; plain differentiation of the sums has not."""
    problem = tu.Problem(tu.Network(2, "relu"), tu.Network(2, "relu"))
    exact = jacobian_of(problem, TWO)
    found = jacobian_of(problem, TWO, Sampled(2**15))
    np.testing.assert_allclose(found, exact, atol=0.01 * np.max(np.abs(exact)) + 1e-3)
    assert np.max(np.abs(_without_scores(problem, TWO) - exact)) > 0.2 * np.max(
        np.abs(exact)
    )


def test_derivatives_of_a_sampled_perceptron():
    problem = tu.Problem(UNIT, UNIT, labels="sign", rule="perceptron")
    exact = jacobian_of(problem, ONE)[:2, :2]
    found = jacobian_of(problem, ONE, Sampled(2**15))[:2, :2]
    np.testing.assert_allclose(found, exact, atol=0.02 * np.max(np.abs(exact)))


class Wrong(Unsaid):
    """It declares what does not hold: a negative control."""

    jumps = False


def hinge(output, label):
    return jnp.maximum(1.0 - label * output, 0.0)


class HingeClass(tu.losses.Loss):
    """The hinge loss by a class that does not say that its derivative jumps."""

    def __call__(self, output, label):
        return hinge(output, label)


@pytest.mark.parametrize(
    ("unsaid", "wrong", "named"),
    [
        ({"rule": Unsaid()}, {"rule": Wrong()}, {"rule": "perceptron"}),
        (
            {"loss": hinge},
            {"loss": tu.losses.Function(hinge, jumps=False)},
            {"loss": "hinge"},
        ),
        ({"loss": HingeClass()}, None, {"loss": "hinge"}),
    ],
)
def test_a_jump_that_is_not_declared_has_a_derivative(unsaid, wrong, named):
    said, problem = (
        tu.Problem(UNIT, UNIT, labels="sign", **parts) for parts in (named, unsaid)
    )
    exact = jacobian_of(said, ONE)[:2, :2]
    assert moments_for(problem).points
    within = 0.03 * np.max(np.abs(exact))
    np.testing.assert_allclose(
        jacobian_of(problem, ONE, Sampled(2**15))[:2, :2], exact, atol=within
    )
    if wrong is not None:
        found = jacobian_of(
            tu.Problem(UNIT, UNIT, labels="sign", **wrong), ONE, Sampled(2**15)
        )[:2, :2]
        assert np.max(np.abs(found - exact)) > 5 * within


@pytest.mark.parametrize(
    ("function", "outputs", "jumps"),
    [
        (hinge, 1, True),
        (lambda output, label: jnp.abs(label - output), 1, True),
        (lambda output, label: hinge(output, label) ** 2, 1, False),  # only bends
        (lambda output, label: jnp.log(jnp.cosh(label - output)), 1, False),
        (
            lambda output, label: (
                jnp.where(label > 0, -jnp.log(label), 1.0) * jnp.abs(output - 2)
            ),
            1,
            True,
        ),
        (lambda output, label: jnp.max(output) - output @ label, 3, True),
        (lambda output, label: jax.nn.logsumexp(output) - output @ label, 3, False),
    ],
)
def test_jumps_of_a_custom_loss_are_found(function, outputs, jumps):
    assert tu.losses.Function(function).for_outputs(outputs).jumps is jumps
    assert (
        tu.losses.Function(function, jumps=not jumps).for_outputs(outputs).jumps
        is not jumps
    )  # what is declared counts


def test_a_loss_that_contains_traced_numbers_may_jump():
    def jumps(width):
        return float(
            tu.Problem(
                UNIT, UNIT, loss=lambda output, label: width * (label - output) ** 2
            ).loss.jumps
        )

    assert jax.jit(jumps)(1.0) == 1.0


def test_another_seed_does_not_recompile():
    traced = []

    def loss(output, label):
        traced.append(1)
        return (label - output) ** 4

    pair = tu.Network(2, "erf")
    problem = tu.Problem(pair, pair, loss=loss)
    curves = []
    for seed in (0, 1, 2):
        before = len(traced)
        curves.append(tu.solve(problem, TWO, [0.0, 0.5], moments=Sampled(2**9, seed)))
        assert seed == 0 or len(traced) == before
    assert curves[0].error[-1] != curves[1].error[-1]
    assert jax.tree.structure(
        moments_for(problem, None, Sampled(2**9, 0))
    ) == jax.tree.structure(moments_for(problem, None, Sampled(2**9, 1)))


def _without_scores(problem, start):
    moments = moments_for(problem, None, FEW)
    state, t = initial_overlaps(problem, start)
    naive = NodeMoments(moments.e, 0, False, moments.noisy)
    assert eqx.tree_equal(moments.e, naive.e)
    return np.asarray(jacobian(OrderParameters(problem, t, moments=naive), 0.0, state))


@pytest.mark.parametrize(
    "start",
    [
        tu.Start(np.eye(2), np.eye(2)),  # each student on its teacher
        tu.Start([[0.3, 0.1], [0.3, 0.1]], [[0.5, 0.5], [0.5, 0.5]]),  # two equal units
        tu.Start(np.zeros((2, 2)), np.zeros((2, 2))),  # no student at all
    ],
)
def test_singular_states_are_finite_and_right(start):
    problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), noise=0.3)
    found, doubt = sampled_drift(problem, start)
    exact = drift(problem, start, moments_for(problem))
    assert np.all(np.isfinite(found))
    assert np.all(np.abs(found - exact) < 3 * doubt + 1e-10)
    assert np.all(np.isfinite(jacobian_of(problem, start, FEW)))


def test_close_to_the_teacher_the_drift_keeps_its_digits():
    """At a distance of 1e-6 the update vanishes node by node; nothing is lifted by a floor."""
    far = 1e-6
    U = np.eye(2) + far * np.array([[0.3, -0.2], [0.1, 0.4]])
    start = tu.Start(U, U @ U.T + far**2 * np.eye(2))
    problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"))
    found = drift(problem, start, moments_for(problem, None, FEW))
    exact = drift(problem, start, moments_for(problem))
    np.testing.assert_allclose(found, exact, atol=2e-2 * np.max(np.abs(exact)))


def test_factor_and_divide_invert_each_other():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 6))
    C = X @ X.T
    L = np.asarray(factor(jnp.asarray(C)))
    np.testing.assert_allclose(L @ L.T, C, atol=1e-12)
    D = rng.standard_normal((3, 4))
    np.testing.assert_allclose(
        np.asarray(divided(jnp.asarray(L), jnp.asarray(D.T), trans=1)).T @ L,
        D,
        atol=1e-12,
    )


def test_a_field_that_others_determine_gets_nothing():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2, 5))
    X = np.stack([*X, X[0] - 2 * X[1]])
    L = factor(jnp.asarray(X @ X.T))
    assert L[2, 2] == 0
    right = rng.standard_normal((3, 4))
    left = np.asarray(divided(L, jnp.asarray(right)))
    across = np.asarray(divided(L, jnp.asarray(right), trans=1))
    np.testing.assert_array_equal([left[2], across[2]], 0.0)
    np.testing.assert_allclose((L @ left)[:2], right[:2], atol=1e-12)
    np.testing.assert_allclose((L.T @ across)[:2], right[:2], atol=1e-12)


THREE = tu.Start([[0.9], [-0.8]], [[1.4, -0.5], [-0.5, 1.2]])


def three_fields(**changes):
    student = tu.Network(2, "erf", readout=[1.0, -0.6])
    return tu.Problem(
        student,
        tu.Network(1, "erf"),
        loss="logistic",
        labels=tu.labels.Sign(flip=0.1),
        **changes,
    )


def errors(problem, start, moments):
    state, t = initial_overlaps(problem, start)
    return float(
        error_of(OrderParameters(as_arrays(problem), t, moments=moments), state)
    )


@eqx.filter_jit
def error_of(system, state):
    return system.error(system.observe(state))


def test_a_grid_of_three_fields():
    """Against a sample within its estimate, against a finer grid, and by finite differences."""
    problem = three_fields()
    grid = moments_for(problem)
    assert grid.grid > 0
    found, fine = (drift(problem, THREE, one) for one in (grid, grid.finer()))
    np.testing.assert_allclose(found, fine, atol=1e-5 * np.max(np.abs(fine)))
    sampled, doubt = sampled_drift(problem, THREE)
    np.testing.assert_array_less(np.abs(sampled - fine), 2 * doubt + 1e-12)
    wrong = drift(problem, tu.Start(1.01 * THREE.R, THREE.Q), grid)
    assert np.any(np.abs(sampled - wrong) > 2 * doubt + 1e-12)
    h = 1e-5
    up, down = (
        drift(
            problem, tu.Start(THREE.R + s * h * np.array([[1.0], [0.0]]), THREE.Q), grid
        )
        for s in (1, -1)
    )
    np.testing.assert_allclose(
        jacobian_of(problem, THREE)[:, 0], (up - down) / (2 * h), atol=1e-7
    )


def test_rules_that_bend_or_jump_are_sampled_with_three_fields():
    assert moments_for(three_fields().replace(loss="hinge")).points
    assert moments_for(
        tu.Problem(tu.Network(2, "erf"), tu.Network(1, "erf"), loss="huber")
    ).points
    assert moments_for(
        tu.Problem(
            tu.Network(1, "erf"), tu.Network(2, "erf"), loss="logistic", labels="sign"
        )
    ).points


@pytest.mark.parametrize("activation", ["erf", "tanh", "linear"])
def test_class_error_by_a_conditional_integral(activation):
    """The last field is integrated exactly:

    against counting wrong classes at many points.
    """
    problem = three_fields().replace(**{"student.activation": activation})
    z = (
        np.random.default_rng(0).standard_normal((400_000, 3))
        @ np.linalg.cholesky(np.block([[THREE.Q, THREE.R], [THREE.R.T, np.eye(1)]])).T
    )
    g = {"erf": lambda x: 2 * norm.cdf(x) - 1, "tanh": np.tanh, "linear": lambda x: x}[
        activation
    ]
    wrong = (g(z[:, :2]) @ [1.0, -0.6] > 0) != (z[:, 2] > 0)
    within = 4 * wrong.std() / np.sqrt(wrong.size)
    for moments in (moments_for(problem), moments_for(problem, None, FEW)):
        found = errors(problem, THREE, moments)
        assert found == pytest.approx(wrong.mean(), abs=within)
        assert errors(
            problem, tu.Start(0.97 * THREE.R, THREE.Q), moments
        ) != pytest.approx(wrong.mean(), abs=within)


def test_derivative_of_the_class_error():
    problem = three_fields()
    h = 1e-5

    def error(x, moments):
        return OrderParameters(problem, jnp.ones((1, 1, 1)), moments=moments).error(
            {
                "R": jnp.asarray(THREE.R).at[0, 0].add(x),
                "Q": jnp.asarray(THREE.Q),
                "readout": jnp.array([1.0, -0.6]),
            }
        )

    for moments in (moments_for(problem), moments_for(problem, None, FEW)):
        f = jax.jit(lambda x, moments=moments: error(x, moments))
        assert float(jax.grad(f)(0.0)) == pytest.approx(
            float(f(h) - f(-h)) / (2 * h), rel=1e-5
        )
        assert float(f(0.1)) < float(f(0.0)) - 1e-3


def final_error(problem, start, **options):
    return lambda lr: tu.solve(
        problem.replace(lr=lr), start, [0.0, 2.0], **options
    ).error[-1]


@pytest.mark.parametrize(
    ("changes", "gradient", "options", "within"),
    [
        pytest.param(
            {"loss": "logistic", "labels": "sign"},
            "reverse",
            {},
            1e-6,
            marks=pytest.mark.full,
        ),
        pytest.param(
            {"loss": "hinge", "labels": "sign"},
            "reverse",
            {},
            1e-6,
            marks=pytest.mark.full,
        ),
        pytest.param(
            {"rule": "perceptron", "labels": "sign"},
            "reverse",
            {},
            1e-6,
            marks=pytest.mark.full,
        ),
        pytest.param(
            {}, "reverse", {"moments": Sampled(2**11)}, 0.05, marks=pytest.mark.full
        ),
        (
            {},
            "forward",
            {"moments": Sampled(2**11)},
            0.05,
        ),  # ReLU by sampling, against its closed form
    ],
)
def test_gradient_of_the_final_error(changes, gradient, options, within):
    network = UNIT if changes else tu.Network(1, "relu")
    problem = tu.Problem(network, network, **changes)
    start = ONE
    mode = {"forward": jax.jacfwd, "reverse": jax.grad}[gradient]
    slope = mode(final_error(problem, start, gradient=gradient, **options))(0.5)
    curve = final_error(problem, start, rtol=1e-10)
    h = 1e-4
    assert float(slope) == pytest.approx(
        (curve(0.5 + h) - curve(0.5 - h)) / (2 * h), rel=within
    )
    assert abs(float(slope)) > 1e-4


def test_two_solves_have_equal_structure():
    problem = tu.Problem(UNIT, UNIT, loss="logistic", labels="sign")
    first, second = (
        tu.solve(problem.replace(lr=lr), ONE, [0.0, 1.0]) for lr in (0.5, 0.7)
    )
    assert jax.tree.structure(first) == jax.tree.structure(second)
    together = jax.tree.map(lambda a, b: np.stack([a, b]), first, second)
    assert together.error.shape == (2, 2)


def random_problem(rng):
    """A problem with a closed form, so that the true curve is known, averaged over a sampled set."""
    K, M = rng.integers(1, 4, size=2)
    activation = rng.choice(["erf", "relu", "quadratic"])
    lr = {"erf": 0.8, "relu": 0.3, "quadratic": 0.05}[activation]
    problem = tu.Problem(
        tu.Network(int(K), activation),
        tu.Network(int(M), activation),
        optimizer=tu.SGD(lr),
        noise=0.2,
    )
    X = rng.standard_normal((K + M, 20)) / np.sqrt(20)
    gram = X @ X.T
    return problem, tu.Start(gram[:K, K:], gram[:K, :K], gram[K:, K:])


def covered(seed):
    problem, start = random_problem(np.random.default_rng(seed))
    times = [0.0, 1.0, 5.0]
    sampled = tu.solve(problem, start, times, moments=Sampled(2**10, seed=seed))
    exact = tu.solve(problem, start, times)
    return bool(
        np.all(np.abs(sampled.error - exact.error) <= sampled.sampling_error + 1e-12)
    )


@pytest.mark.full
def test_the_sampling_error_covers_the_true_error():
    assert sum(covered(seed) for seed in range(100)) >= 95


@pytest.mark.full
def test_the_sampling_error_covers_the_true_error_in_a_few_problems():
    assert (
        sum(covered(seed) for seed in (2, 3, 8, 20)) >= 3
    )  # of one shape: erf, K = 3, M = 1


def test_scores_and_plain_derivatives_agree_for_a_smooth_rule():
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), loss="logistic", labels="sign"
    )
    moments = moments_for(problem, None, Sampled(2**14))
    from tutelage.training.rules import Context, Parameters

    C = jnp.asarray(np.block([[np.eye(2), TWO.R.T], [TWO.R, TWO.Q]]))
    parameters = Parameters(jnp.ones(2))
    context = Context(problem.student, problem.loss)

    def sums(C, jumps):
        at = RuleAtState(
            problem, problem.rule, factor(C), jnp.zeros(4), parameters, context
        )
        weights = jnp.full(moments.points, 1 / moments.points)
        return (scored_sums if jumps else node_sums)(
            at, jnp.asarray(moments.e), weights
        ).pairs

    dC = np.zeros((4, 4))
    dC[2, 3] = dC[3, 2] = 1.0
    along = jax.jit(
        lambda C, jumps: jax.jvp(lambda C: sums(C, jumps), (C,), (jnp.asarray(dC),))[1],
        static_argnums=1,
    )
    plain, scores = (along(C, jumps) for jumps in (False, True))
    np.testing.assert_allclose(scores, plain, atol=0.03 * float(np.max(np.abs(plain))))


ALONG = 2.0
FLIP = 0.1


@eqx.filter_jit
def matrices_of(system, state):
    return system.matrices(state)


@pytest.mark.parametrize("across", [1e-2, 1e-5, 1e-8, 1e-11])
def test_hinge_near_the_end(across):
    """A = -(density of label lambda at 1), and for a narrow field (1 - p) 2 phi(1/R)/R; corrections: of order `across`."""
    unit = tu.Network(1, "linear")
    problem = tu.Problem(
        unit,
        unit,
        loss="hinge",
        labels=tu.labels.Sign(flip=FLIP),
        optimizer=tu.SGD(1.0),
    )
    state, t = initial_overlaps(problem, tu.Start([[ALONG]], [[ALONG**2 + across]]))
    update, G = matrices_of(OrderParameters(as_arrays(problem), t), state)
    curvature = (1 - FLIP) * 2 * norm.pdf(1 / ALONG) / ALONG
    share = (1 - FLIP) * (2 * norm.cdf(1 / ALONG) - 1) + FLIP
    np.testing.assert_allclose(-float(update.A[0, 0]), curvature, rtol=5e-6 + across)
    np.testing.assert_allclose(float(G[0, 0]), share, rtol=5e-6 + across)


def test_labels_that_jump_move_with_the_overlaps_of_the_teacher():
    """By T the derivative comes from the density:

    at fixed points of the set the labels' jump would be lost (off by 13%).
    """
    teacher = tu.Network(2, "erf", readout=[1.0, 0.5])
    problem = tu.Problem(
        tu.Network(2, "erf"),
        teacher,
        loss="logistic",
        labels="sign",
        optimizer=tu.SGD(lr=1.0),
    )

    @jax.jit
    def overlap(c):
        start = tu.Start(
            [[0.3, 0.05], [0.02, 0.2]],
            [[0.5, 0.1], [0.1, 0.4]],
            T=jnp.eye(2) + c * (1 - jnp.eye(2)),
        )
        return tu.solve(
            problem, start, [0.0, 4.0], gradient="forward", moments=tu.Sampled(2**12)
        ).R[-1, 0, 1]

    differences = (overlap(0.3) - overlap(0.1)) / 0.2
    np.testing.assert_allclose(jax.jacfwd(overlap)(0.2), differences, rtol=0.04)


@pytest.mark.parametrize(
    "degrees", [3, *(pytest.param(x, marks=pytest.mark.full) for x in (2.1, 2.5, 5))]
)
def test_quantile_noise_of_squared_loss_is_its_variance(degrees):
    """The averages of a law of noise are those of Gaussian noise with its variance, tails included."""
    law = stats.t(degrees, scale=0.3)
    student = tu.Network(1, "erf", train_readout=True)
    teacher = tu.Network(1, "erf")
    times = [0.0, 1.0, 3.0]
    problem = tu.Problem(
        student, teacher, noise=float(law.std()), optimizer=tu.SGD(1.0)
    )
    found = tu.solve(problem.replace(noise=law.ppf), ONE, times)
    exact = tu.solve(problem, ONE, times)
    np.testing.assert_allclose(found.error, exact.error, rtol=1e-5)
    np.testing.assert_allclose(found.loss, exact.loss, rtol=1e-5)
    cut_off = float(
        np.std(law.ppf((np.arange(400) + 0.5) / 400))
    )  # control: mid-quantiles
    assert (
        np.max(
            np.abs(
                tu.solve(problem.replace(noise=cut_off), ONE, times).error - exact.error
            )
        )
        > 1e-4
    )
