"""The public integrals I2, I3, I4, J2, and the error as the textbook writes it."""

import equinox as eqx
import numpy as np
import pytest

import tutelage as tu
from tests.stream.moments import reference as ref

UNITS = {name: ref.UNITS[name] for name in ("erf", "quadratic", "tanh")}


@pytest.mark.parametrize("name", UNITS)
def test_integrals_are_what_they_say(name):
    g, C = UNITS[name], ref.random_covariance(4, 1, 0.3)
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
    """E[th(a) b c+] by conditioning on (a, c): b enters through its regression on them."""
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
    """The two functions of a well-known tutorial, as its readers type them."""
    return (
        np.arcsin(c12 / np.sqrt((1 + np.diag(c11))[:, None] * (1 + np.diag(c22))))
        * 2
        / np.pi
    )


def order_parameter_loss(Q, R, T, sigma):
    return (
        get_I2(Q, Q, Q).sum() / 2
        - get_I2(R, Q, T).sum()
        + get_I2(T, T, T).sum() / 2
        + sigma**2 / 2
    )


@pytest.mark.parametrize(("K", "M"), [(2, 3), (4, 2), (3, 3)])
def test_loss_of_the_tutorial(K, M):
    C, sigma = ref.random_covariance(K + M, 7), 0.3
    Q, R, T = C[:K, :K], C[:K, K:], C[K:, K:]
    problem = tu.Problem(tu.Network(K, "erf"), tu.Network(M, "erf"), noise=sigma)
    loss = (
        float(eqx.filter_jit(tu.generalization_error)(problem, R, Q, T)) + sigma**2 / 2
    )
    assert loss == pytest.approx(
        order_parameter_loss(Q, R, T, sigma), abs=1e-14, rel=1e-14
    )
