"""Activations without closed form:

pair averages to 1e-8, the four-field average to 1e-4, and an honest estimate of both.
"""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr, owens_t

import tutelage as tu
from tests.stream.moments import reference as ref
from tutelage.problem.activation import as_activation
from tutelage.stream import OrderParameters
from tutelage.stream.accuracy import averages_error
from tutelage.stream.moments import Quadrature, quadrature
from tutelage.stream.moments.matrices import averages_for
from tutelage.stream.moments.quadrature import QuadratureAverages, nearest_breaks


def swish(x):
    return x / (1 + jnp.exp(-x))


def leaky(x):
    return jnp.where(x > 0, x, 0.1 * x)


def clipped(x):
    return jnp.clip(x, -1.0, 1.0)


MADE = {"swish": swish, "leaky": leaky, "clipped": clipped}
BIASES = np.array([0.3, -0.5, 0.2])
WEIGHTS = np.array([-0.8, 1.3, 0.4])


def family(student, teacher, K, M, rule=None, biased=True):
    """Quadrature for any pair (biased:

    also where a closed form exists without biases).
    """
    student, teacher = (
        as_activation(MADE.get(name, name)) for name in (student, teacher)
    )
    averages = averages_for(student, teacher, K, M, biased, rule)
    assert isinstance(averages, QuadratureAverages)
    return averages


@eqx.filter_jit
def pair_averages(averages, C, mean):
    return [
        getattr(averages, name)(C, mean)
        for name in ("outputs", "slopes", "curvatures", "slopes_outputs")
    ]


@eqx.filter_jit
def contrast(averages, C, mean, w):
    return averages.slopes_squared_error(C, mean, w)


def pair_errors(student, teacher, K, M, C, mean, **options):
    g = ref.units(student, teacher, K, M)
    ours = pair_averages(
        family(student, teacher, K, M), C, np.zeros(K + M) if mean is None else mean
    )
    theirs = [ref.outputs(g, C, mean, **options)]
    theirs.append(ref.rows(g, K, C, mean, **options) if g[-1].slope else None)
    theirs.append(
        ref.rows(g, K, C, mean, orders=(2, 0), **options) if g[0].curvature else None
    )
    theirs.append(ref.rows(g, K, C, mean, orders=(1, 0), **options))
    return [
        float(np.max(np.abs(np.asarray(a) - b)))
        for a, b in zip(ours, theirs, strict=True)
        if b is not None
    ]


@pytest.mark.parametrize("name", ["tanh", "gelu", "sigmoid", "softplus", "swish"])
def test_smooth_pairs(name):
    C = ref.random_covariance(3, 1, 1.6)  # variances up to 1.1
    for mean in (None, BIASES):
        assert max(pair_errors(name, name, 2, 1, C, mean, nodes=129, reach=8)) < 1e-9


def test_small_and_almost_equal_fields():
    for C in (
        1e-4 * ref.random_covariance(3, 1),
        ref.near_teacher(2, 1, 0, 1e-3),
        ref.near_teacher(2, 1, 0, 0.0),
    ):
        assert (
            max(pair_errors("tanh", "tanh", 2, 1, C, None, nodes=129, reach=8)) < 1e-9
        )


@pytest.mark.parametrize(
    ("student", "teacher"),
    [("relu", "relu"), ("leaky", "leaky"), ("clipped", "relu"), ("tanh", "relu")],
)
def test_pairs_with_kinks(student, teacher):
    """Panels end at the kinks; without them the error would be 1e-3."""
    C = ref.random_covariance(3, 3, 0.7)
    assert (
        max(
            pair_errors(student, teacher, 2, 1, C, BIASES, nodes=129, panel=80, reach=8)
        )
        < 1e-9
    )


def both_positive(x, y, c):
    """P(u < x, v < y) at correlation c, by Owen's T function."""
    q = np.sqrt(1 - c**2)
    value = (
        (ndtr(x) + ndtr(y)) / 2
        - owens_t(x, (y / x - c) / q)
        - owens_t(y, (x / y - c) / q)
    )
    return value - (0.5 if x * y < 0 else 0.0)


@pytest.mark.parametrize("distance", [0.3, 1e-2, 1e-3])
def test_biased_relu_near_its_teacher(distance):
    C = ref.near_teacher(2, 1, 0, distance)
    m = np.array([0.3, 0.31, 0.2])
    K = 2
    s = np.sqrt(np.diag(C))
    r = C / np.outer(s, s)
    _, slopes, curvatures, forces = pair_averages(family("relu", "relu", K, 1), C, m)
    for i in range(K):
        density = np.exp(-((m[i] / s[i]) ** 2) / 2) / (ref.ROOT * s[i])
        for a in range(3):
            together = (
                ndtr(m[i] / s[i])
                if i == a
                else both_positive(m[i] / s[i], m[a] / s[a], r[i, a])
            )
            assert slopes[i, a] == pytest.approx(together, abs=1e-10)
            # E[delta(z_i) z_a+]: the density at the kink times the mean of a rectified
            # Gaussian given z_i = 0
            shift = m[a] - C[i, a] / C[i, i] * m[i]
            width = np.sqrt(max(C[a, a] - C[i, a] ** 2 / C[i, i], 0.0))
            up = (
                shift * ndtr(shift / width) + width * ref._phi(shift / width)
                if i != a
                else 0.0
            )
            assert curvatures[i, a] == pytest.approx(density * up, abs=1e-9)
        own = m[i] * ndtr(m[i] / s[i]) + s[i] * ref._phi(m[i] / s[i])
        assert forces[i, i] == pytest.approx(own, abs=1e-10)


def test_tanh_learns_from_sign():
    C = ref.random_covariance(3, 3, 0.7)
    K = 2
    assert (
        max(pair_errors("tanh", "sign", K, 1, C, BIASES, nodes=129, panel=80, reach=8))
        < 1e-9
    )
    # the slope of sign is 2 delta: E[g'_i 2 delta(z_a + b_a)] is the derivative of
    # E[g_i sign_a] along C_ia
    g = ref.units("tanh", "sign", K, 1)
    step = 1e-4
    slopes = pair_averages(family("tanh", "sign", K, 1), C, BIASES)[1]
    for i in range(K):
        bump = np.zeros_like(C)
        bump[i, 2] = bump[2, i] = step
        up, down = (
            ref.average(
                [(i, g[i], 0), (2, g[2], 0)],
                C + sign * bump,
                BIASES,
                nodes=129,
                panel=80,
                reach=8,
            )
            for sign in (1, -1)
        )
        assert slopes[i, 2] == pytest.approx((up - down) / (2 * step), abs=1e-7)


def test_the_closed_forms_agree():
    C = ref.random_covariance(4, 5, 0.5)
    for name, tolerance in (("erf", 1e-10), ("relu", 1e-9)):
        closed = averages_for(as_activation(name), as_activation(name), 2, 2)
        for a, b in zip(
            pair_averages(closed, C, None),
            pair_averages(family(name, name, 2, 2), C, None),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, atol=tolerance)


def covariance(case):
    if case == "random":
        return ref.random_covariance(6, 3, 0.5)
    if case == "plateau":
        ones = np.ones((3, 3))
        return np.block(
            [
                [ones / 5 + 0.02 * np.eye(3), ones / np.sqrt(15)],
                [ones / np.sqrt(15), np.eye(3)],
            ]
        )
    if case == "small start":
        R = 0.1 * np.random.default_rng(1).normal(size=(3, 3)) * 0.1
        return np.block([[0.01 * np.eye(3), R], [R.T, np.eye(3)]])
    return ref.near_teacher(3, 3, 0, 0.3)


CASES = ["random", "plateau", "small start", "half learned"]


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *(("tanh", case) for case in CASES),
        pytest.param("gelu", "random", marks=pytest.mark.full),
    ],
)
def test_spread_of_three_students_at_default_settings(name, case):
    """K = M = 3, six fields: 1e-4 relative, and the estimate covers the error."""
    C = covariance(case)
    w = np.array([-1.0, -1, -1, 1, 1, 1])
    rule = Quadrature()
    grid = (
        {"nodes": 41, "reach": 7.0}
        if name == "tanh" and case in ("random", "half learned")
        else {"nodes": 31, "reach": 6.5}
    )
    expected = ref.contrast(ref.units(name, name, 3, 3), 3, C, w, **grid)
    ours, finer = (
        np.asarray(contrast(family(name, name, 3, 3, r), C, None, w))
        for r in (rule, rule.finer())
    )
    scale = np.max(np.abs(expected))
    error = np.max(np.abs(ours - expected)) / scale
    assert error < 1e-4
    assert np.max(np.abs(finer - expected)) / scale < 1e-5
    assert error < 1.2 * np.max(np.abs(ours - finer)) / scale + 2e-6


@pytest.mark.parametrize(
    ("student", "teacher", "tolerance"),
    [
        ("swish", "tanh", 1e-5),
        ("softplus", "sigmoid", 1e-5),
        ("relu", "relu", 2e-3),
        ("leaky", "leaky", 2e-3),
        ("tanh", "sign", 2e-3),
    ],
)
def test_spread_of_other_functions(student, teacher, tolerance):
    C = ref.random_covariance(3, 3, 0.5)
    g = ref.units(student, teacher, 2, 1)
    expected = ref.contrast(g, 2, C, WEIGHTS, BIASES, nodes=61, panel=28, reach=7)
    ours = contrast(family(student, teacher, 2, 1), C, BIASES, WEIGHTS)
    assert np.max(np.abs(ours - expected)) < tolerance * np.max(np.abs(expected))
    wrong = contrast(
        family(student, teacher, 2, 1), C, 0.8 * BIASES, WEIGHTS
    )  # negative control: other biases
    assert np.max(np.abs(wrong - expected)) > 2 * tolerance * np.max(np.abs(expected))


@pytest.mark.parametrize(
    "name", [pytest.param("tanh", marks=pytest.mark.full), "softplus"]
)
def test_two_students_are_treated_alike(name, monkeypatch):
    """Exchanging them exchanges G to rounding:

    else a symmetric state would leave its plateau by errors of the rule.
    """
    C = ref.random_covariance(4, 2, 0.6)
    w = np.array([-1.0, -0.7, 1.0, 0.8])
    order = [1, 0, 2, 3]

    def gap():
        averages = family(
            name, name, 2, 2, Quadrature(32, 2**11), biased=name == "tanh"
        )
        spread = jax.jit(lambda C, w: averages.slopes_squared_error(C, None, w))
        G = spread(C, w)
        turned = spread(C[order][:, order], w[order])
        return float(jnp.max(jnp.abs(G - turned[::-1, ::-1])))

    assert gap() < 1e-13
    monkeypatch.setattr(
        quadrature, "_turned", lambda loads, held: loads
    )  # negative control: the axes of one of them
    assert gap() > 1e-8


def test_reported_error_covers_the_true_one():
    """With a rule so coarse that there is an error to report."""
    K = M = 2
    C = ref.near_teacher(K, M, 1, 0.7)
    Q = C[:K, :K]
    R = C[:K, K:]
    problem = tu.Problem(tu.Network(K, "tanh"), tu.Network(M, "tanh"))
    seen = {"R": R[None], "Q": Q[None], "readout": np.ones((1, K))}
    trajectory = SimpleNamespace(variables=seen, times=np.zeros(1), T=np.eye(M))
    rule = Quadrature(12, 2**11)
    system = OrderParameters(problem, jnp.eye(M)[None], quadrature=rule)
    pairs, spread = averages_error(system, system.moments, trajectory)
    g = ref.units("tanh", "tanh", K, M)
    w = np.array([-1.0, -1, 1, 1])
    slopes, curvatures = (
        ref.rows(g, K, C, orders=o, nodes=129, reach=8) for o in ((1, 1), (2, 0))
    )
    A = -slopes[:, :K] + np.diag(curvatures @ w)
    averages = system.averages
    ours_A = -averages.slopes(C, None)[:, :K] + np.diag(
        averages.curvatures(C, None) @ w
    )
    G = ref.contrast(g, K, C, w, nodes=37, reach=7)
    true_pairs = np.max(np.abs(ours_A - A)) / np.max(np.abs(A))
    true_spread = np.max(np.abs(contrast(averages, C, None, w) - G)) / np.max(np.abs(G))
    assert true_pairs < 1.2 * pairs + 1e-10
    assert true_spread < 1.2 * spread + 2e-6
    assert pairs > 1e-4
    assert spread > 1e-3


def test_finds_the_kinks_of_any_function():
    for name in ("relu", leaky, "sign"):
        np.testing.assert_allclose(
            nearest_breaks(as_activation(name)), [0.0], atol=1e-12
        )
    np.testing.assert_allclose(
        nearest_breaks(as_activation(clipped)), [-1.0, 1.0], atol=1e-12
    )
    assert nearest_breaks(as_activation(swish)) == ()
    assert (
        nearest_breaks(as_activation(lambda x: jnp.tanh(30 * x))) == ()
    )  # steep is not broken


def test_same_answer_at_every_call():
    C = ref.random_covariance(3, 3)
    for name in ("tanh", "leaky"):
        one, two = (
            contrast(family(name, name, 2, 1), C, None, WEIGHTS) for _ in range(2)
        )
        assert np.array_equal(one, two)
