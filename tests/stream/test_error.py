"""The generalization error:

by definition, never negative, and accurate down to perfect learning.
"""

import equinox as eqx
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import tutelage as tu
from tests.stream.moments import reference as ref


@eqx.filter_jit
def compiled(problem, C):
    K = problem.student.hidden
    return tu.generalization_error(problem, C[:K, K:], C[:K, :K], C[K:, K:])


def error_of(problem, C):
    return float(compiled(problem, np.asarray(C)))


def networks(student, K, M, v, v_teacher, teacher=None):
    return tu.Problem(
        tu.Network(K, student, readout=v),
        tu.Network(M, teacher or student, readout=v_teacher),
    )


@pytest.mark.parametrize(
    ("student", "teacher"),
    [
        ("erf", "erf"),
        ("linear", "linear"),
        ("quadratic", "quadratic"),
        ("erf", "sign"),
        ("he3", "he2"),
        ("tanh", "gelu"),
        ("relu", "relu"),
    ],
)
def test_error_by_definition(student, teacher):
    """(1/2) E[(y - yhat)^2] with K != M, a general T and readouts of both signs."""
    K = 2
    M = 3
    v = np.array([0.7, -1.2])
    u = np.array([1.1, -0.6, 0.4])
    C = ref.random_covariance(K + M, 8, 0.8)
    g = ref.units(student, teacher, K, M)
    w = np.concatenate([-v, u])
    expected = w @ ref.outputs(g, C, nodes=129, panel=60, reach=8.5) @ w / 2
    assert error_of(networks(student, K, M, v, u, teacher), C) == pytest.approx(
        expected, rel=1e-10
    )


def exact(activation, C, w):
    """The sum over all pairs in fifty digits, on the very same float64 overlaps."""
    with mp.workdps(50):
        c = [[mp.mpf(float(x)) for x in row] for row in C]
        n = len(c)
        total = mp.mpf(0)
        for a in range(n):
            for b in range(n):
                if activation == "erf":
                    pair = (
                        2
                        / mp.pi
                        * mp.asin(c[a][b] / mp.sqrt((1 + c[a][a]) * (1 + c[b][b])))
                    )
                elif activation == "linear":
                    pair = c[a][b]
                elif activation == "quadratic":
                    pair = c[a][a] * c[b][b] + 2 * c[a][b] ** 2
                else:
                    root = mp.sqrt(max(c[a][a] * c[b][b] - c[a][b] ** 2, mp.mpf(0)))
                    pair = (root + (mp.pi - mp.atan2(root, c[a][b])) * c[a][b]) / (
                        2 * mp.pi
                    )
                total += mp.mpf(float(w[a])) * mp.mpf(float(w[b])) * pair
        return float(total / 2)


SPLIT = {
    "K=M=2": (2, 2, [1.0, 1.0], [1.0, 1.0]),
    "K=M=3, signs": (3, 3, [1.0, -0.5, 2.0], [1.0, -0.5, 2.0]),
    "K>M, shared teacher": (3, 2, [0.25, 1.0, 0.75], [1.0, 1.0]),
}


@pytest.mark.parametrize("distance", [0.3, 1e-2, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("sizes", SPLIT.values(), ids=SPLIT)
@pytest.mark.parametrize("activation", ["erf", "linear", "quadratic"])
def test_accurate_down_to_perfect_learning(activation, sizes, distance):
    """1e-6 relative at errors of 1e-12 and below.

    The plain sum of order-one terms has lost every digit there.
    """
    K, M, v, u = sizes
    # overlaps of students that move exactly away from their teachers, in numbers
    # without rounding
    rng = np.random.default_rng(3)
    away = (
        np.round(rng.normal(size=(K, K + M)) * 2**10)
        / 2**10
        * 2.0 ** np.round(np.log2(distance))
    )
    teachers = np.eye(M, K + M)
    students = teachers[np.arange(K) % M] + away
    vectors = np.concatenate([students, teachers])
    C = np.array(
        [
            [
                float(sum(mp.mpf(x) * mp.mpf(y) for x, y in zip(a, b, strict=True)))
                for b in vectors
            ]
            for a in vectors
        ]
    )
    w = np.concatenate([-np.array(v), u])
    value = error_of(networks(activation, K, M, v, u), C)
    truth = exact(activation, C, w)
    assert value >= 0
    if truth > 1e-13:
        assert value == pytest.approx(truth, rel=1e-6, abs=0)
    if distance == 1e-6:
        assert truth < 1e-10


@pytest.mark.parametrize(
    ("activation", "flipped"), [("quadratic", 1.0), ("erf", -1.0), ("linear", -1.0)]
)
def test_accurate_near_mirrored_teachers(activation, flipped):
    """w = -w* is a perfect student too:

    with the same readout for even functions, the opposite one for odd ones.
    """
    away = 2.0**-22 * np.array([[1.0, -1.0, 2.0, 0.0], [0.0, 1.0, 1.0, 3.0]])
    students = np.array([[-1.0, 0, 0, 0], [0, 1.0, 0, 0]]) + away
    vectors = np.concatenate([students, np.eye(2, 4)])
    C = vectors @ vectors.T  # exact: every product has few bits
    v = [0.5 * flipped, -2.0]
    u = [0.5, -2.0]
    truth = exact(activation, C, np.concatenate([-np.array(v), u]))
    assert 1e-14 < truth < 1e-11
    assert error_of(networks(activation, 2, 2, v, u), C) == pytest.approx(
        truth, rel=1e-6, abs=0
    )


def test_the_plain_sum_would_fail():
    """Negative control: at 1e-12 the direct formula is rounding."""
    C = ref.near_teacher(2, 2, 0, 2.0**-20)
    w = np.array([-1.0, -1, 1, 1])
    d = 1 + np.diag(C)
    direct = w @ (2 / np.pi * np.arcsin(C / np.sqrt(np.outer(d, d)))) @ w / 2
    truth = exact("erf", C, w)
    assert truth < 1e-11
    assert abs(direct / truth - 1) > 1e-6
    assert error_of(networks("erf", 2, 2, 1.0, 1.0), C) == pytest.approx(
        truth, rel=1e-6, abs=0
    )


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6])
def test_relu_stays_positive(distance):
    C = ref.near_teacher(2, 2, 1, distance)
    value = error_of(networks("relu", 2, 2, 1.0, 1.0), C)
    truth = exact("relu", C, np.array([-1.0, -1, 1, 1]))
    assert value >= 0
    assert value == pytest.approx(truth, rel=1e-4 if distance > 1e-5 else 0.05, abs=0)


@pytest.mark.parametrize(
    "activation", ["erf", "linear", "quadratic", "relu", "tanh", "he3"]
)
def test_zero_at_a_copy_of_the_teacher(activation):
    T = ref.random_covariance(2, 5)
    C = np.block([[T, T], [T, T]])
    value = error_of(networks(activation, 2, 2, [0.5, -2.0], [0.5, -2.0]), C)
    assert 0 <= value < 1e-14


def test_continuous_where_the_formula_changes():
    """The direct sum and the path integral meet:

    no step in the error when the path takes over.
    """
    direction = ref.near_teacher(2, 2, 2, 1.0)
    perfect = ref.near_teacher(2, 2, 2, 0.0)
    problem = networks("erf", 2, 2, 1.0, 1.0)
    for s in np.linspace(0.002, 0.06, 25):
        C = (1 - s) * perfect + s * direction
        assert error_of(problem, C) == pytest.approx(
            exact("erf", C, np.array([-1.0, -1, 1, 1])), rel=1e-9, abs=0
        )


def test_error_broadcasts_and_defaults_to_an_identity_teacher():
    problem = networks("erf", 2, 3, 1.0, 1.0)
    R = 0.1 * jnp.ones((5, 2, 3))
    Q = jnp.broadcast_to(0.5 * jnp.eye(2), (5, 2, 2))
    error = eqx.filter_jit(tu.generalization_error)
    values = error(problem, R, Q)
    assert values.shape == (5,)
    assert values[3] == pytest.approx(
        float(error(problem, R[0], Q[0], jnp.eye(3))), rel=1e-15
    )
    with pytest.raises(tu.InputError, match="R has shape"):
        tu.generalization_error(problem, R[..., :2], Q)
