"""The public integrals I2, I3, I4, J2, and the error as the textbook writes it."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tests.stream.moments import reference as ref

UNITS = {name: ref.UNITS[name] for name in ("erf", "quadratic", "tanh")}


@pytest.mark.parametrize("name", UNITS)
def test_integrals_are_what_they_say(name):
    g = UNITS[name]
    C = ref.random_covariance(4, 1, 0.3)
    options = {"nodes": 45, "reach": 8.0}
    rel = 1e-9 if name == "tanh" else 1e-10
    assert tu.moments.I2(name, C[:2, :2]) == pytest.approx(
        ref.average([(0, g, 0), (1, g, 0)], C, **options), rel=rel
    )
    assert tu.moments.J2(name, C[:2, :2]) == pytest.approx(
        ref.average([(0, g, 1), (1, g, 1)], C, **options), rel=rel
    )
    three = ref.average([(0, g, 1), (2, g, 0)], C, moment=1, **options)
    assert tu.moments.I3(name, C[:3, :3]) == pytest.approx(three, rel=rel)
    four = ref.average([(0, g, 1), (1, g, 1), (2, g, 0), (3, g, 0)], C, **options)
    assert tu.moments.I4(name, C) == pytest.approx(
        four, rel=3e-5 if name == "tanh" else rel, abs=1e-11
    )
    swapped = ref.average(
        [(2, g, 1), (1, g, 1), (0, g, 0), (3, g, 0)], C, **options
    )  # negative control: order of fields
    assert abs(tu.moments.I4(name, C) / swapped - 1) > 1e-2


def test_relu_integrals():
    C = ref.random_covariance(4, 2)
    assert tu.moments.I4("relu", C) == pytest.approx(
        ref.positive([0, 0, 1, 1], C), abs=1e-12
    )
    assert tu.moments.I3("relu", C[:3, :3]) == pytest.approx(_relu_i3(C), abs=1e-12)


def _relu_i3(C):
    """E[th(a) b c+] by conditioning on (a, c):

    b enters through its regression on them.
    """
    weights = np.linalg.solve(C[np.ix_([0, 2], [0, 2])], C[1, [0, 2]])
    pair = C[np.ix_([0, 2], [0, 2])]
    return weights[0] * ref.positive([1, 1], pair) + weights[1] * ref.positive(
        [0, 2], pair
    )


def test_integrals_broadcast():
    C = np.stack([ref.random_covariance(2, seed) for seed in range(6)]).reshape(
        2, 3, 2, 2
    )
    value = tu.moments.I2("erf", C)
    assert value.shape == (2, 3)
    assert value[1, 2] == pytest.approx(float(tu.moments.I2("erf", C[1, 2])), rel=1e-15)


def test_integrals_refuse_nonsense():
    with pytest.raises(tu.InputError, match=r"C has shape \(3, 3\); I4 needs"):
        tu.moments.I4("erf", np.eye(3))
    with pytest.raises(tu.InputError, match="derivative of 'sign'"):
        tu.moments.J2("sign", np.eye(2))
    with pytest.raises(tu.InputError, match="eigenvalue"):
        tu.moments.I2("erf", [[1.0, 2.0], [2.0, 1.0]])
    assert tu.moments.I2("sign", np.eye(2)) == pytest.approx(0.0)


def get_I2(c12, c11, c22):
    """The two functions of a well-known tutorial, letter by letter."""
    e_c11 = jnp.expand_dims(jnp.diag(c11), axis=1)
    e_c22 = jnp.expand_dims(jnp.diag(c22), axis=0)
    denom = jnp.sqrt((1 + e_c11) * (1 + e_c22))
    return jnp.arcsin(c12 / denom) * (2 / jnp.pi)


def order_parameter_loss(Q, R, T, sigma):
    return (
        get_I2(Q, Q, Q).sum() / 2
        - get_I2(R, Q, T).sum()
        + get_I2(T, T, T).sum() / 2
        + sigma**2 / 2
    )


@pytest.mark.parametrize(("K", "M"), [(2, 3), (4, 2), (3, 3)])
def test_loss_of_the_tutorial(K, M):
    C = ref.random_covariance(K + M, 7)
    sigma = 0.3
    Q = C[:K, :K]
    R = C[:K, K:]
    T = C[K:, K:]
    problem = tu.Problem(tu.Network(K, "erf"), tu.Network(M, "erf"), noise=sigma)
    loss = (
        float(eqx.filter_jit(tu.generalization_error)(problem, R, Q, T)) + sigma**2 / 2
    )
    assert loss == pytest.approx(
        float(order_parameter_loss(Q, R, T, sigma)), abs=1e-13, rel=1e-13
    )


def test_the_R_of_the_tutorial_has_student_units_first():
    """Its text defines R = W* W^T / N; its index R_in and its code need the transpose."""
    C = ref.random_covariance(5, 7)
    sigma = 0.3
    Q = C[:3, :3]
    R = C[:3, 3:]
    T = C[3:, 3:]
    assert np.isfinite(order_parameter_loss(Q, R, T, sigma))
    with pytest.raises((TypeError, ValueError), match="incompatible shapes"):
        order_parameter_loss(Q, R.T, T, sigma)
    # K = M = 2 hides it behind another number; these are the numbers of the page
    Q = np.array([[0.4, 0.1], [0.1, 0.3]])
    T = np.eye(2)
    R = np.array([[0.4, 0.05], [0.1, 0.3]])
    problem = tu.Problem(tu.Network(2, "erf"), tu.Network(2, "erf"), noise=0.1)
    as_coded = float(order_parameter_loss(Q, R, T, 0.1))
    assert as_coded == pytest.approx(0.22058, abs=5e-6)
    ours = tu.generalization_error(problem, R, Q, T) + 0.1**2 / 2
    assert as_coded == pytest.approx(float(ours), rel=1e-13)
    as_defined = float(order_parameter_loss(Q, R.T, T, 0.1))
    assert as_defined == pytest.approx(0.22130, abs=5e-6)


def test_the_two_definitions_of_R_differ_in_real_networks():
    """From weights: the code gives the sampled loss with R = W W*^T / N only."""
    rng = np.random.default_rng(5)
    N = 100
    W_teacher = rng.normal(size=(2, N)) * [[1.0], [1.8]]
    mixing = np.array([[0.0, 0.4], [0.1, 0.0]])
    W = mixing @ W_teacher + 0.1 * rng.normal(size=(2, N))
    Q = W @ W.T / N
    R = W @ W_teacher.T / N
    T = W_teacher @ W_teacher.T / N
    x = rng.normal(size=(40_000, N))
    g = ref.UNITS["erf"].order(0)
    gaps = g(x @ W_teacher.T / np.sqrt(N)).sum(1) - g(x @ W.T / np.sqrt(N)).sum(1)
    losses = gaps**2 / 2
    error = losses.std() / np.sqrt(losses.size)
    assert abs(losses.mean() - order_parameter_loss(Q, R, T, 0.0)) < 4.5 * error
    assert abs(losses.mean() - order_parameter_loss(Q, R.T, T, 0.0)) > 8 * error


PAIRS = [("erf", "relu"), ("tanh", "he3"), ("erf", "sign")]
FOUR = np.array(
    [
        [0.5, 0.3, 0.2, 0.1],
        [0.3, 1.2, 0.4, 0.3],
        [0.2, 0.4, 0.9, 0.5],
        [0.1, 0.3, 0.5, 1.4],
    ]
)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_student_and_a_teacher_with_different_activations(pair):
    """By quadrature over the fields; a swapped pair is the negative control."""
    g, h = (ref.UNITS[name] for name in pair)
    two = FOUR[:2, :2]
    three = FOUR[:3, :3]
    outputs = ref.average([(0, g, 0), (1, h, 0)], two)
    assert float(tu.moments.I2(pair, two)) == pytest.approx(outputs, rel=1e-6)
    stein = ref.average([(0, g, 1), (2, h, 0)], three, moment=1)
    assert float(tu.moments.I3(pair, three)) == pytest.approx(stein, rel=1e-6)
    swapped = ref.average([(0, h, 0), (1, g, 0)], two)
    assert abs(outputs / swapped - 1) > 1e-2
    if "sign" not in pair:
        slopes = ref.average([(0, g, 1), (1, h, 1)], two)
        assert float(tu.moments.J2(pair, two)) == pytest.approx(slopes, rel=1e-6)


@pytest.mark.parametrize("pair", [("erf", "relu"), ("tanh", "quadratic")])
def test_four_fields_with_different_activations(pair):
    """By Monte Carlo over common samples, with a swapped pair as negative control."""
    g, h = (ref.UNITS[name] for name in pair)
    z = np.random.default_rng(3).multivariate_normal(np.zeros(4), FOUR, 400_000).T

    def sampled(g, h):
        return g.order(1)(z[0]) * g.order(1)(z[1]) * h.order(0)(z[2]) * h.order(0)(z[3])

    values = sampled(g, h)
    error = values.std() / np.sqrt(values.size)
    assert abs(float(tu.moments.I4(pair, FOUR)) - values.mean()) < 4 * error
    assert abs(sampled(h, g).mean() - values.mean()) > 10 * error


@pytest.mark.parametrize("activation", ["erf", ("erf", "sign"), ("he3", "linear")])
def test_all_fields_of_two_networks(activation):
    """Each entry for Q, R, T is the integral of its own few fields."""
    K = 2
    M = 3
    C = ref.random_covariance(K + M, 4, 0.5)
    covariances = C[:K, :K], C[:K, K:], C[K:, K:]
    student, teacher = (
        activation if isinstance(activation, tuple) else (activation, activation)
    )

    def of(*fields):
        return C[np.ix_(fields, fields)]

    def kind(a, b):
        return tuple(student if field < K else teacher for field in (a, b))

    I2 = tu.moments.I2(activation, *covariances)
    J2 = tu.moments.J2(activation, *covariances)
    I3 = tu.moments.I3(activation, *covariances)
    I4 = tu.moments.I4(activation, *covariances)
    assert (I2.shape, J2.shape) == ((5, 5), (K, K))
    assert (I3.shape, I4.shape) == ((K, 5, 5), (K, K, 5, 5))
    np.testing.assert_allclose(I2, np.asarray(I2).T, atol=1e-14)
    close = {"rtol": 1e-10, "atol": 1e-12}
    for a, b in [(0, 1), (1, 3), (2, 4)]:
        np.testing.assert_allclose(
            I2[a, b], tu.moments.I2(kind(a, b), of(a, b)), **close
        )
    np.testing.assert_allclose(J2[0, 1], tu.moments.J2(student, of(0, 1)), **close)
    for c in (0, 3):
        one = tu.moments.I3(kind(1, c), of(1, 2, c))
        np.testing.assert_allclose(I3[1, 2, c], one, **close)
    four = tu.moments.I4((student, teacher), of(0, 1, 2, 4))
    np.testing.assert_allclose(I4[0, 1, 2, 4], four, **close)
    np.testing.assert_allclose(I4[1, 0, 4, 2], four, **close)
    same = tu.moments.I4(student, of(0, 1, 1, 0))
    np.testing.assert_allclose(I4[0, 1, 1, 0], same, **close)


def test_the_equations_by_the_integrals_of_all_fields():
    """dR and dQ as the tutorial writes them, and `tu.analysis.drift`."""
    K = 3
    M = 2
    eta = 0.5
    sigma = 0.2
    C = ref.random_covariance(K + M, 9, 0.7)
    Q = C[:K, :K]
    R = C[:K, K:]
    T = C[K:, K:]
    problem = tu.Problem(
        tu.Network(K, "erf"), tu.Network(M, "erf"), optimizer=tu.SGD(eta), noise=sigma
    )
    found = tu.analysis.drift(problem, tu.Start(R, Q, T))
    I3, I4, J2 = (
        np.asarray(integral("erf", Q, R, T))
        for integral in (tu.moments.I3, tu.moments.I4, tu.moments.J2)
    )
    pull = I3[:, :, K:].sum(-1) - I3[:, :, :K].sum(-1)
    np.testing.assert_allclose(found.R, eta * pull[:, K:], rtol=1e-9, atol=1e-12)
    w = np.concatenate([-np.ones(K), np.ones(M)])
    expected = eta * (pull[:, :K] + pull[:, :K].T)
    expected = expected + eta**2 * (I4 @ w @ w + sigma**2 * J2)
    np.testing.assert_allclose(found.Q, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("activation", "covariances", "words"),
    [
        ("erf", (np.eye(3), np.zeros((2, 3)), np.eye(2)), r"student units first"),
        ("erf", (np.eye(2), np.zeros((2, 2))), "is given 2 covariances; it takes C"),
        (("erf",), (np.eye(2),), "activation has 1 entries"),
        (
            "erf",
            (np.eye(2), 2 * np.eye(2), np.eye(2)),
            r"R.T, T\]\] has the eigenvalue",
        ),
        ("erf", (np.eye(2), tu.Quadrature()), "quadrature is a keyword"),
    ],
)
def test_matrices_that_do_not_fit_are_explained(activation, covariances, words):
    with pytest.raises(tu.InputError, match=words):
        tu.moments.I2(activation, *covariances)
