"""Feedback alignment:

digits of independent code, the general averages, SGD on weights in plain NumPy, both
simulations.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import tutelage as tu
from tutelage.stream import OrderParameters
from tutelage.stream.moments import moments_for
from tutelage.stream.moments.node_moments import confidence
from tutelage.stream.order_parameters import as_arrays, initial_overlaps
from tutelage.training.rules import as_rule

TEACHER = tu.Network(2, "erf")
START = tu.Start([[0.3, 0.05], [0.02, 0.2]], [[0.5, 0.1], [0.1, 0.4]])
TIMES = [0.0, 3.0, 15.0, 30.0, 60.0]
FEEDBACK = [1.0, 0.5]
READOUT = [0.6, 0.4]


def aligned(feedback=FEEDBACK, readout=READOUT, train_readout=True, **changes):
    student = tu.Network(2, "erf", readout=readout, train_readout=train_readout)
    rule = changes.pop("rule", tu.rules.FeedbackAlignment(feedback))
    return tu.Problem(
        student, TEACHER, optimizer=tu.SGD(1.0, readout_lr=0.5), rule=rule, **changes
    )


def matrices(problem, start=START, moments=None, time=0.0):
    """A beside B, G, and what moves readout and biases."""
    state, t = initial_overlaps(problem, start)
    system = OrderParameters(as_arrays(problem), t, moments=moments)
    return [np.asarray(x) for x in compiled(system, state, jnp.asarray(time))]


@eqx.filter_jit
def compiled(system, state, time):
    p, G = system.matrices(state, time)
    return jnp.concatenate([p.A, p.B], axis=1), G, p.readout, p.bias


def assert_within_sampling(problem, points=2**12):
    """The closed form equals the average over each scrambled set, within the estimate that these sets give."""
    sets = moments_for(problem, None, tu.Sampled(points)).scramblings()
    for closed, each in zip(
        matrices(problem),
        zip(*(matrices(problem, moments=m) for m in sets), strict=True),
        strict=True,
    ):
        bound = 2.0 * confidence(np.array(each)) + 1e-9  # all entries at once
        assert np.all(np.abs(np.mean(each, axis=0) - closed) < bound)


def erf_slope(x):
    return np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)


def numpy_sgd(dim, runs, end, lr, readout_lr, readout, feedback=None, keep=1.0, seed=0):
    """R, Q, v of plain SGD on weights, (runs, ...):

    the definition of the rule, sample by sample.
    """
    rng = np.random.default_rng(seed)
    gram = np.block([[np.eye(2), START.R.T], [START.R, START.Q]])
    frames = np.linalg.qr(rng.standard_normal((dim, 4)))[0].T * np.sqrt(dim)
    vectors = np.linalg.cholesky(gram) @ frames
    W_teacher = vectors[:2]
    W = np.repeat(vectors[None, 2:], runs, axis=0)
    v = np.tile(readout, (runs, 1)).astype(float)
    for _ in range(round(end * dim)):
        x = rng.standard_normal((runs, dim))
        fields = np.einsum("rkn,rn->rk", W, x) / np.sqrt(dim)
        m = (rng.random(fields.shape) < keep) / keep
        g = m * special.erf(fields / np.sqrt(2))
        gap = special.erf(x @ W_teacher.T / np.sqrt(2 * dim)).sum(axis=1) - np.sum(
            v * g, axis=1
        )
        delta = (
            gap[:, None] * (v if feedback is None else feedback) * m * erf_slope(fields)
        )
        v = v + readout_lr / dim * gap[:, None] * g
        W += lr / np.sqrt(dim) * delta[:, :, None] * x[:, None, :]
    return W @ W_teacher.T / dim, W @ W.swapaxes(1, 2) / dim, v


def largest_z(runs, theory, at):
    """The largest |z| of the mean of R, Q and v over runs against a curve."""
    pairs = zip(runs, (theory.R[at], theory.Q[at], theory.readout[at]), strict=True)
    z = [
        np.abs(x.mean(axis=0) - y) / (x.std(axis=0, ddof=1) / np.sqrt(len(x)) + 1e-12)
        for x, y in pairs
    ]
    return max(float(part.max()) for part in z)


@pytest.fixture(scope="module")
def theory():
    return tu.solve(aligned(), START, TIMES)


def test_digits(theory):
    np.testing.assert_allclose(
        theory.error[1:], [0.07042411, 0.01594848, 0.01299754, 0.00503420], atol=6e-9
    )


def test_alignment_is_the_cosine_with_the_feedback(theory):
    v = theory.readout
    f = np.array(FEEDBACK)
    np.testing.assert_allclose(
        theory.alignment,
        v @ f / np.linalg.norm(v, axis=1) / np.linalg.norm(f),
        rtol=1e-12,
    )


def test_other_rules_have_no_alignment():
    plain = tu.Trajectory(
        np.zeros(1),
        {},
        np.zeros(1),
        np.zeros(()),
        np.zeros(()),
        np.zeros(()),
        problem=aligned(rule="gradient"),
    )
    with pytest.raises(
        tu.InputError, match="only the rule FeedbackAlignment has an alignment"
    ):
        _ = plain.alignment


@pytest.mark.parametrize(
    "activation", ["erf", pytest.param("relu", marks=pytest.mark.full)]
)
def test_feedback_equal_to_the_readout_is_backpropagation(activation):
    networks = tu.Network(2, activation, readout=[1.0, 1.2]), tu.Network(2, activation)
    plain = tu.Problem(*networks, noise=0.2)
    same = plain.replace(rule=tu.rules.FeedbackAlignment([1.0, 1.2]))
    other = plain.replace(rule=tu.rules.FeedbackAlignment([1.0, 0.2]))
    for a, b in zip(matrices(plain), matrices(same), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert np.abs(matrices(plain)[0] - matrices(other)[0]).max() > 0.01


def test_closed_form_equals_the_general_averages():
    assert_within_sampling(aligned(noise=0.3))


def test_sgd_on_weights(theory):
    runs = numpy_sgd(200, 100, 3.0, 1.0, 0.5, READOUT, FEEDBACK)
    assert largest_z(runs, theory, 1) < 4.5
    assert (
        largest_z(numpy_sgd(200, 100, 3.0, 1.0, 0.5, READOUT), theory, 1) > 6
    )  # backpropagation is another rule


def test_several_outputs():
    """delta_k = sum_o psi_o f_ok g'(lambda_k)."""
    f = np.array([[1.0, -0.5], [0.3, 2.0]])
    student = tu.Network(2, "erf", outputs=2)
    problem = tu.Problem(
        student, tu.Network(2, "erf", outputs=2), rule=tu.rules.FeedbackAlignment(f)
    )
    fields = np.array([0.4, -0.7])
    label = np.array([0.2, 0.9])
    v = np.asarray(student.readout)
    sample = tu.rules.Sample(jnp.asarray(fields), jnp.zeros(2), jnp.asarray(label))
    update = problem.rule.update(
        sample,
        tu.rules.Parameters(jnp.asarray(v)),
        tu.rules.Context(student, problem.loss),
    )
    psi = label - v @ special.erf(fields / np.sqrt(2))
    np.testing.assert_allclose(update.delta, (psi @ f) * erf_slope(fields), rtol=1e-12)
    np.testing.assert_allclose(
        update.parameters.readout,
        np.outer(psi, special.erf(fields / np.sqrt(2))),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        (
            [1.0, 2.0, 3.0],
            r"feedback has shape \(3,\); it must be a single number or have shape \(2,\)",
        ),
        ([[1.0, 2.0]], r"feedback has shape \(1, 2\)"),
        ([1.0, np.nan], "feedback contains nan"),
        ("random", "feedback is 'random'; it must be a number"),
    ],
)
def test_bad_feedback(feedback, message):
    with pytest.raises(tu.InputError, match=message):
        aligned(feedback)


def test_files():
    problem = aligned()
    assert str(tu.Problem.from_toml(problem.to_toml())) == str(problem)
    assert as_rule("feedback_alignment").feedback == 1.0
    table = problem.to_dict()
    table["rule"]["feedback"] = [1.0]
    with pytest.raises(tu.InputError, match="feedback"):
        tu.Problem.from_dict(table)


def test_loss_and_labels_must_fit():
    with pytest.raises(tu.InputError, match="labels -1 and 1"):
        aligned(loss="logistic")


@pytest.mark.full
def test_both_simulations_agree_in_law():
    def errors(rule, method, seed):
        problem = aligned(rule=rule)
        return tu.simulate(
            problem, START, dim=40, times=[0.0, 5.0], runs=300, seed=seed, method=method
        ).error[:, -1]

    rule = tu.rules.FeedbackAlignment(FEEDBACK)
    chain = errors(rule, "overlaps", 1)
    weights = errors(rule, "weights", 2)
    assert stats.ks_2samp(chain, weights).pvalue > 1e-3
    assert stats.ks_2samp(errors("gradient", "overlaps", 3), weights).pvalue < 1e-3


@pytest.mark.full
def test_compare_agrees():
    problem = aligned(noise=0.1)
    times = tu.linear_times(10, 11)
    runs = tu.simulate(problem, START, dim=500, times=times, runs=40, seed=1)
    assert tu.compare(tu.solve(problem, START, times), runs).verdict.outcome == "agree"
