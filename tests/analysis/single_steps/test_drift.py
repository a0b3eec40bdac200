"""dR/dalpha and dQ/dalpha at a state:

against the textbook's nested loops and single steps of real weights.
"""

import numpy as np
import pytest

import tutelage as tu
from tests import naive
from tests.problems import generic_overlaps, pair

K = 3
M = 2
R, Q, T = generic_overlaps(K, M, 3, 1.0)
V = np.array([1.0, -0.6, 0.8])
V_TEACHER = np.array([1.2, -0.7])
ETA = 0.7
SIGMA = 0.3
BATCH = 4
START = tu.Start(R, Q, T)


def committee(activation, **options):
    student = {"readout": V}
    teacher = {"readout": V_TEACHER}
    settings = {"lr": ETA, "noise": SIGMA, "batch": BATCH} | options
    return pair(K, M, activation, student=student, teacher=teacher, **settings)


def textbook(family, index_of_noise=None):
    """The equations as printed, by loops over I3, I4 and J2; rates (R, Q order eta, Q order eta^2, Q noise).

    index_of_noise: the second index of J2, as a function of (i, k); the right one by default.
    """
    C = np.block([[Q, R], [R.T, T]])
    w = np.concatenate([-V, V_TEACHER])

    def fields(*index):
        return C[np.ix_(index, index)]

    def pull(i, a):
        return V[i] * sum(
            w[c] * family.I3(fields(i, a, c).tolist()) for c in range(K + M)
        )

    dR = np.array([[ETA * pull(i, K + n) for n in range(M)] for i in range(K)])
    dQ = np.array(
        [[ETA * (pull(i, k) + pull(k, i)) for k in range(K)] for i in range(K)]
    )
    steps = np.zeros((K, K))
    noise = np.zeros((K, K))
    for i in range(K):
        for k in range(K):
            rate = ETA**2 / BATCH * V[i] * V[k]
            steps[i, k] = rate * sum(
                w[c] * w[d] * family.I4(fields(i, k, c, d).tolist())
                for c in range(K + M)
                for d in range(K + M)
            )
            second = k if index_of_noise is None else index_of_noise(i, k)
            noise[i, k] = rate * SIGMA**2 * family.J2(fields(i, second).tolist())
    return dR, dQ, steps, noise


@pytest.mark.parametrize(
    ("activation", "family"),
    [("erf", naive.Erf), ("quadratic", naive.Wick(2)), ("relu", naive.Relu())],
)
def test_each_term_is_that_of_the_textbook(activation, family):
    found = tu.analysis.drift(committee(activation), START)
    dR, dQ, steps, noise = textbook(family)
    tight = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(found.R, dR, **tight)
    np.testing.assert_allclose(found.gradient.R, dR, **tight)
    np.testing.assert_allclose(found.gradient.Q, dQ, **tight)
    np.testing.assert_allclose(found.steps.Q, steps, **tight)
    np.testing.assert_allclose(found.label_noise.Q, noise, **tight)
    np.testing.assert_allclose(found.Q, dQ + steps + noise, **tight)
    assert not found.steps.R.any()
    assert not found.label_noise.R.any()


def test_the_index_of_the_noise_that_the_primer_prints_is_seen():
    """Negative control: sigma^2 J2(i, j) in place of J2(i, k), read with j = i."""
    found = tu.analysis.drift(committee("erf"), START)
    printed = textbook(naive.Erf, index_of_noise=lambda i, k: i)[3]
    assert np.max(np.abs(found.label_noise.Q - printed)) > 5e-4


def test_one_step_of_real_weights_moves_as_much():
    """Two levels, batch, decay and a learning readout; |z| < 4.5 for 16 numbers of 4000 steps."""
    problem = pair(
        2, 2, lr=1.0, noise=0.5, batch=2, weight_decay=0.3,
        inputs=tu.Spectrum([1.8, 0.2], [0.5, 0.5]),
        student={"train_readout": True, "readout": [0.7, 1.3]},
    )  # fmt: skip
    R = np.array([[0.4, 0.1], [0.05, 0.3]])
    start = tu.Start(R, R @ R.T + 0.2 * np.eye(2))
    step = tu.analysis.step_moments(problem, start, 400, samples=4000)
    found = tu.analysis.drift(problem, start)

    def flat(r, q, readout):
        return np.concatenate([r.ravel(), q[:, *np.triu_indices(2)].ravel(), readout])

    terms = (found.gradient, found.steps, found.label_noise)
    expected = sum(flat(term.r, term.q, term.readout) for term in terms)
    z = (step.drift - expected) / step.drift_error
    assert np.max(np.abs(z)) < 4.5
    # a negative control: a term less
    for missing in terms:
        less = expected - flat(missing.r, missing.q, missing.readout)
        assert np.max(np.abs((step.drift - less) / step.drift_error)) > 8


def test_solve_moves_along_it():
    """Quadratic units with biases:

    the difference of two recorded states over a short time.
    """
    student = tu.Network(2, "quadratic", bias=[0.2, -0.1], train_bias=True)
    teacher = tu.Network(2, "quadratic")
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(0.5), noise=0.4)
    start = tu.Start([[0.4, 0.1], [0.05, 0.3]], [[0.4, 0.1], [0.1, 0.3]])
    found = tu.analysis.drift(problem, start)
    step = 1e-3
    theory = tu.solve(problem, start, [0.0, step, 2 * step])
    for name in ("R", "Q", "bias"):
        values = theory.variables[name]
        slope = (4 * values[1] - 3 * values[0] - values[2]) / (2 * step)
        np.testing.assert_allclose(getattr(found, name), slope, atol=2e-5)
    assert np.abs(found.bias).max() > 1e-3


def test_spherical_weights_keep_their_length_in_each_term():
    problem = committee("erf", spherical=True)
    found = tu.analysis.drift(problem, START)
    for term in (found.gradient, found.steps, found.label_noise):
        np.testing.assert_allclose(np.diagonal(term.Q), 0.0, atol=1e-14)
    assert np.abs(found.steps.R).max() > 1e-3


def test_it_prints_its_terms():
    found = tu.analysis.drift(committee("erf"), START)
    text = str(found)
    assert text.startswith("drift of 3 student and 2 teacher units per unit of alpha\n")
    assert "of order eta^2 sigma^2" in text
    assert f"{found.R[0, 0]:.6f}"[:7] in text
    assert repr(found).startswith("<OverlapDrift: drift of 3")
    assert "DriftTerm" in repr(found.steps)
    assert "dQ/dalpha" in found._repr_html_()


@pytest.mark.parametrize(
    ("problem", "start", "words"),
    [
        ("problem", START, "problem is of type str; drift takes a tutelage Problem"),
        (committee("erf"), R, "start"),
        (committee("erf").replace(loss="huber"), START, "drift does not support"),
        (
            committee("erf").replace(momentum=tu.SlowMomentum(1.0)),
            START,
            "momentum is a SlowMomentum",
        ),
    ],
)
def test_bad_input_is_explained(problem, start, words):
    with pytest.raises(tu.InputError, match=words):
        tu.analysis.drift(problem, start)
