"""Rules whose update depends on several samples at once: averages over episodes."""

import jax
import numpy as np
import pytest

import tutelage as tu

TOKENS = 3
# One unit learns y = sum_a softmax(h)_a h_a over three tokens, eta = 0.5 for their sum:
# R and Q at alpha = 1, 2, 4, 6, from a program of its own with 8 x 2^14 points. Runs of
# SGD at N = 500 are within 1% of them.
TIMES = [0.0, 1.0, 2.0, 4.0, 6.0]
R_DIGITS = [0.3796, 0.5504, 0.8034, 0.9266]
Q_DIGITS = [0.5448, 0.6236, 0.8003, 0.9159]


def pooled(fields):
    """The tokens' fields, weighted by their softmax."""
    return jax.nn.softmax(fields) @ fields


class Attention(tu.Rule):
    """Gradient descent of the squared loss of a pooled output."""

    jumps = False
    samples = TOKENS

    def update(self, sample, parameters, context):
        fields = sample.student[:, 0]
        error = pooled(sample.reference[:, 0]) - pooled(fields)
        delta = error * jax.grad(pooled)(fields)
        return self.result(delta[:, None], parameters, loss=error**2 / 2)


class AloneInEpisode(Attention):
    """The same without the other tokens: each is pooled alone."""

    def update(self, sample, parameters, context):
        delta = sample.reference - sample.student
        return self.result(delta, parameters)


def attention(rule=None, **changes):
    unit = tu.Network(1, "linear")
    # the step is a mean over the tokens: three times the rate of their sum
    optimizer = tu.SGD(lr=0.5 * TOKENS)
    return tu.Problem(
        unit, unit, rule=Attention() if rule is None else rule, optimizer=optimizer
    ).replace(**changes)


def curve(problem, **options):
    start = tu.Start(R=[[0.2]], Q=[[0.5]])
    theory = tu.solve(problem, start, TIMES, moments=tu.Sampled(2**13), **options)
    R = np.asarray(theory.R)[1:, 0, 0]
    Q = np.asarray(theory.Q)[1:, 0, 0]
    return theory, R, Q


@pytest.mark.filterwarnings("ignore::tutelage.errors.ValidityWarning")
def test_attention_has_the_digits_of_an_independent_program():
    theory, R, Q = curve(attention())
    # 2^13 points: two thousandths
    np.testing.assert_allclose(R, R_DIGITS, atol=2e-3)
    np.testing.assert_allclose(Q, Q_DIGITS, atol=2e-3)
    assert np.all(np.diff(theory.loss) < 0)
    # controls: tokens as samples of their own, and no noise of the steps
    _, alone, _ = curve(attention(AloneInEpisode()))
    assert np.max(np.abs(alone - R_DIGITS)) > 0.05
    _, _, noiseless = curve(attention(), gradient_flow=True)
    assert np.max(np.abs(noiseless - Q_DIGITS)) > 0.03


class WholeReinforce(tu.Rule):
    """`Reinforce`, without its reduction to one decision."""

    samples = 3

    def update(self, sample, parameters, context):
        return tu.rules.Reinforce(3, 1.0, 0.2).update(sample, parameters, context)


@pytest.mark.filterwarnings("ignore::tutelage.errors.ValidityWarning")
def test_averages_over_episodes_agree_with_the_average_sample():
    unit = tu.Network(1, "linear")
    problem = tu.Problem(
        unit,
        unit,
        labels="sign",
        rule=tu.rules.Reinforce(3, 1.0, 0.2),
        optimizer=tu.SGD(lr=1.0),
    )
    start = tu.Start(R=[[0.4]], Q=[[1.0]])
    times = [0.0, 1.0, 3.0]
    reduced = tu.solve(problem, start, times)
    whole = tu.solve(
        problem.replace(rule=WholeReinforce()),
        start,
        times,
        moments=tu.Sampled(2**14),
    )
    # jumps at 2^14 points: a few thousandths
    np.testing.assert_allclose(whole.R, reduced.R, atol=6e-3)
    np.testing.assert_allclose(whole.Q, reduced.Q, atol=6e-3)


def test_classes_of_a_mixture_are_refused():
    mixture = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
    problem = tu.Problem(tu.Network(1, "linear"), inputs=mixture, rule=WholeReinforce())
    with pytest.raises(tu.InputError, match="couples the samples of an episode"):
        tu.solve(problem, times=[0.0, 1.0])
