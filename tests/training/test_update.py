"""`Update`: what a rule may return, and what a problem refuses."""

import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu
from tutelage.problem.sample import context_of, updates_of
from tutelage.rules import Parameters, Update

TIMES = [0.0, 1.0, 3.0, 6.0]
START = tu.Start(R=[[0.3]], Q=[[0.6]])


class SlowBias(tu.rules.Gradient):
    """Backpropagation whose bias moves by a third of delta."""

    share = 1 / 3

    def update(self, sample, parameters, context):
        usual = super().update(sample, parameters, context)
        bias = self.share * usual.parameters.bias
        changes = Parameters(readout=usual.parameters.readout, bias=bias)
        return Update(delta=usual.delta, parameters=changes, loss=usual.loss)


class Along(tu.Rule):
    """Oja's rule: a term along the weights."""

    def update(self, sample, parameters, context):
        field = sample.student
        return Update(
            delta=field,
            parameters=self.result(field, parameters).parameters,
            along=-jnp.outer(field, field),
        )


class AlongTeacher(tu.Rule):
    def update(self, sample, parameters, context):
        usual = self.result(sample.student, parameters)
        pull = jnp.ones((sample.student.size, sample.reference.size))
        return Update(usual.delta, usual.parameters, along_teacher=pull)


class NoBias(tu.Rule):
    def update(self, sample, parameters, context):
        return Update(sample.student, Parameters(jnp.zeros_like(parameters.readout)))


class Pair(tu.Rule):
    """An episode of two samples, whose readout moves once."""

    samples = 2

    def update(self, sample, parameters, context):
        product = jnp.prod(sample.student, axis=0)
        return self.result(sample.student, parameters, readout=product)


class PairOfReadouts(Pair):
    def update(self, sample, parameters, context):
        return self.result(sample.student, parameters, readout=sample.student)


class OneDeltaOfPair(Pair):
    def update(self, sample, parameters, context):
        return self.result(sample.student[0], parameters)


def biased(rule):
    teacher = tu.Network(1, "erf", bias=0.5)
    student = tu.Network(1, "erf", bias=0.0, train_bias=True)
    return tu.Problem(student, teacher, optimizer=tu.SGD(lr=1.0), rule=rule)


def test_the_bias_moves_by_its_own_change():
    """Theory, and steps on weights, against bias_lr = lr / 3 under backpropagation."""
    same = biased("gradient").replace(bias_lr=1 / 3)
    usual = tu.solve(biased("gradient"), START, TIMES)
    slow = tu.solve(biased(SlowBias()), START, TIMES)
    expected = tu.solve(same, START, TIMES)
    np.testing.assert_allclose(slow.bias, expected.bias, rtol=2e-3)
    np.testing.assert_allclose(slow.error, expected.error, rtol=2e-3)
    assert abs(slow.bias - usual.bias)[-1, 0] > 0.05
    options = {"dim": 60, "times": TIMES, "runs": 2, "seed": 3, "method": "weights"}
    runs = tu.simulate(biased(SlowBias()), START, **options)
    same_runs = tu.simulate(same, START, **options)
    assert abs(same_runs.bias[:, -1]).min() > 0.01
    np.testing.assert_allclose(runs.bias, same_runs.bias, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Along(), "an Update with along; terms along the weights"),
        (AlongTeacher(), "an Update with along_teacher; terms along the weights"),
        (NoBias(), "returns other parameters than it has read"),
        (
            PairOfReadouts(),
            r"change of the readout of shape \(2, 1\); it must be \(1,\)",
        ),
        (OneDeltaOfPair(), r"delta of shape \(1, 1\); it must be \(2, 1\)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, tu.Rule) else "",
)
def test_refused_updates(rule, words):
    with pytest.raises(tu.InputError, match=words):
        biased(rule)


def test_an_episode_changes_the_parameters_once():
    problem = biased(Pair())
    students = jnp.array([[0.2], [0.5], [-1.0], [3.0]])
    update = updates_of(
        problem,
        students,
        reference=jnp.zeros((4, 1)),
        label=jnp.zeros(4),
        normals=jnp.zeros((4, 0)),
        parameters=Parameters(jnp.ones(1), jnp.zeros(1)),
        context=context_of(problem),
    )
    np.testing.assert_allclose(update.delta, students)
    # the mean over samples is that over episodes
    mean_readout = np.mean(update.parameters.readout, axis=0)
    np.testing.assert_allclose(mean_readout, [(0.2 * 0.5 - 1.0 * 3.0) / 2])
    mean_bias = np.mean(update.parameters.bias, axis=0)
    np.testing.assert_allclose(mean_bias, np.mean(students, axis=0))
