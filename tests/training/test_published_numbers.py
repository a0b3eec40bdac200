"""Learning curves of the classical cases, against digits computed by independent code (plain nodes, SciPy's DOP853)."""

import equinox as eqx
import numpy as np
import pytest
from scipy import stats

import tutelage as tu

UNIT = tu.Network(1, "linear")
ONE = tu.Start([[0.1]], [[0.5]])
TIMES = [0.0, 1.0, 5.0, 10.0, 20.0]


def one_unit(**changes):
    return tu.Problem(
        UNIT, UNIT, optimizer=tu.SGD(1.0), **({"labels": "sign"} | changes)
    )


def after_start(values):
    return np.ravel(values)[1:]


def test_logistic_regression():
    theory = tu.solve(one_unit(loss="logistic"), ONE, TIMES)
    np.testing.assert_allclose(
        after_start(theory.R), [0.438270, 1.316988, 1.964790, 2.779945], atol=6e-7
    )
    np.testing.assert_allclose(
        after_start(theory.Q), [0.691476, 2.131069, 4.176763, 7.992894], atol=6e-7
    )
    np.testing.assert_allclose(
        after_start(theory.error), [0.323297, 0.141982, 0.088749, 0.058262], atol=6e-7
    )


def test_logistic_regression_with_flips_and_two_levels():
    inputs = tu.Spectrum([3.0, 0.5], [0.2, 0.8], normalize=False)
    problem = one_unit(loss="logistic", labels=tu.labels.Sign(flip=0.1), inputs=inputs)
    start = tu.Start([[[0.3]], [[0.05]]], [[[0.6]], [[0.475]]], np.ones((2, 1, 1)))
    theory = tu.solve(problem, start, TIMES)
    np.testing.assert_allclose(
        after_start(theory.R), [0.597840, 1.258083, 1.579885, 1.911161], atol=6e-7
    )
    np.testing.assert_allclose(
        after_start(theory.error), [0.292390, 0.189431, 0.150069, 0.117401], atol=6e-7
    )


def test_perceptron():
    theory = tu.solve(one_unit(rule="perceptron"), ONE, TIMES)
    np.testing.assert_allclose(
        after_start(theory.R), [0.362256, 0.765507, 0.972774, 1.224313], atol=6e-7
    )
    np.testing.assert_allclose(
        after_start(theory.error), [0.331863, 0.171051, 0.129165, 0.102174], atol=6e-7
    )
    assert np.all(np.isnan(theory.loss))  # it follows no loss


def test_perceptron_has_the_closed_drift():
    """E[delta rho] = (1 - R/sqrt(Q))/sqrt(2 pi), E[delta lambda] = -(sqrt(Q) - R)/sqrt(2 pi), G = arccos(R/sqrt(Q))/pi."""
    R = 0.4
    Q = 0.9
    A, B, G = matrices(one_unit(rule="perceptron"), tu.Start([[R]], [[Q]]))
    root = np.sqrt(2 * np.pi)
    np.testing.assert_allclose(A * R + B, (1 - R / np.sqrt(Q)) / root, rtol=1e-9)
    np.testing.assert_allclose(A * Q + B * R, -(np.sqrt(Q) - R) / root, rtol=1e-9)
    np.testing.assert_allclose(G, np.arccos(R / np.sqrt(Q)) / np.pi, rtol=1e-9)


def test_hinge_is_a_perceptron_with_margin_one():
    start = tu.Start([[0.4]], [[0.9]])
    hinge = one_unit(loss="hinge")
    perceptron = one_unit(rule=tu.rules.Perceptron(margin=1.0))
    for a, b in zip(matrices(hinge, start), matrices(perceptron, start), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert not np.allclose(
        matrices(hinge, start)[2],
        matrices(one_unit(rule="perceptron"), start)[2],
        rtol=0.1,
    )


def matrices(problem, start):
    from tutelage.stream import OrderParameters, initial_overlaps

    state, t = initial_overlaps(problem, start)
    p, G = eqx.filter_jit(lambda system, state: system.matrices(state))(
        OrderParameters(problem, t), state
    )
    return float(p.A[0, 0]), float(p.B[0, 0]), float(G[0, 0])


def test_huber_loss_under_heavy_tailed_noise():
    """Student t noise with 1.5 degrees of freedom:

    the squared loss has no finite G there.
    """
    noise = stats.t(1.5)
    problem = tu.Problem(
        tu.Network(1, "erf", readout=0.5, train_readout=True),
        tu.Network(1, "erf"),
        loss=tu.losses.Huber(0.5),
        noise=lambda u: 0.3 * noise.ppf(u),
        optimizer=tu.SGD(1.0),
    )
    theory = tu.solve(problem, tu.Start([[0.2]], [[0.5]]), [0.0, 2.0, 10.0], rtol=1e-5)
    np.testing.assert_allclose(
        after_start(theory.error), [0.128358, 0.033714], atol=5e-6
    )


def test_committee_with_logistic_loss_within_its_sampling_error():
    problem = tu.Problem(
        tu.Network(2, "erf"),
        tu.Network(2, "erf", readout=[1.0, 0.5]),
        loss="logistic",
        labels="sign",
        optimizer=tu.SGD(1.0),
    )
    start = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])
    theory = tu.solve(
        problem, start, [0.0, 10.0, 40.0], rtol=1e-5, moments=tu.Sampled(2**15)
    )
    np.testing.assert_allclose(
        after_start(theory.loss), [0.336697, 0.250309], rtol=5e-4
    )
    np.testing.assert_allclose(
        theory.R[-1], [[2.23793, 0.82963], [2.16204, 0.84527]], atol=4e-3
    )
    np.testing.assert_allclose(
        theory.Q[-1], [[5.81200, 5.64589], [5.64589, 5.50433]], atol=6e-3
    )


def test_softmax_of_three_classes():
    """delta_k = 1(k = argmax rho) - softmax_k(lambda); the sum of the student vectors is conserved."""
    network = tu.Network(3, "linear", outputs=3)
    problem = tu.Problem(
        network, network, loss="cross_entropy", labels="argmax", optimizer=tu.SGD(1.0)
    )
    start = tu.Start(
        [[0.2, 0.0, 0.05], [0.02, 0.1, 0.0], [0.0, 0.03, 0.15]],
        [[0.4, 0.05, 0.0], [0.05, 0.3, 0.02], [0.0, 0.02, 0.35]],
    )
    theory = tu.solve(problem, start, TIMES, moments=tu.Sampled(2**14))
    np.testing.assert_allclose(
        after_start(theory.loss), [0.8901, 0.5540, 0.4157, 0.3126], atol=6e-4
    )
    np.testing.assert_allclose(
        theory.R.sum(axis=1), np.broadcast_to(start.R.sum(axis=0), (5, 3)), atol=1e-9
    )


@pytest.mark.parametrize(
    ("rule", "law", "at", "within"),
    [
        ("hebbian", lambda a: 1 / np.sqrt(2 * np.pi * a), 100.0, 0.005),
        (
            "perceptron",
            lambda a: (2 / 3) ** (1 / 3) / np.pi * a ** (-1 / 3),
            1000.0,
            0.003,
        ),
        ("adatron", lambda a: 3 / (2 * a), 1000.0, 0.002),
    ],
)
def test_classical_rules_reach_their_laws(rule, law, at, within):
    theory = tu.solve(one_unit(rule=rule), ONE, [0.0, at])
    assert float(theory.error[-1]) == pytest.approx(law(at), rel=within)


def test_squared_loss_has_no_theory_under_noise_of_infinite_variance():
    problem = tu.Problem(UNIT, UNIT, noise=stats.t(1.5).ppf, optimizer=tu.SGD(0.2))
    with pytest.raises(tu.InputError, match="infinite variance"):
        tu.solve(problem, ONE, [0.0, 0.1])
    assert tu.solve(problem.replace(noise=stats.t(3).ppf), ONE, [0.0, 0.1]).finished
