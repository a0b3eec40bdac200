"""Losses, labels and rules: digits computed by independent code, and published laws."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tutelage as tu

UNIT = tu.Network(1, "linear")
START = tu.Start([[0.1]], [[0.5]])
TIMES = [0.0, 1.0, 5.0, 10.0, 20.0]


def one_unit(**task) -> tu.Problem:
    options = {"labels": "sign"} | task
    return tu.Problem(UNIT, UNIT, optimizer=tu.SGD(1.0), **options)


# Losses


@pytest.mark.parametrize(
    ("loss", "output", "label", "value"),
    [
        (tu.losses.Squared(), 1.0, 3.0, 2.0),
        (tu.losses.Absolute(), 1.0, 3.0, 2.0),
        (tu.losses.Huber(0.5), 0.0, 0.4, 0.08),
        (tu.losses.Huber(0.5), 0.0, 2.0, 0.875),
        (tu.losses.Logistic(), 0.0, 1.0, np.log(2.0)),
        (tu.losses.Hinge(), 0.25, -1.0, 1.25),
        (
            tu.losses.Function(lambda output, label: (label - output) ** 4),
            1.0,
            3.0,
            16.0,
        ),
    ],
)
def test_a_loss_has_its_value(loss, output, label, value):
    assert isinstance(loss, tu.losses.Loss)
    assert float(loss(output, label)) == pytest.approx(value)


def test_cross_entropy_of_equal_outputs():
    label = np.array([0.0, 1.0, 0.0])
    loss = tu.losses.CrossEntropy()(np.zeros(3), label)
    assert float(loss) == pytest.approx(np.log(3.0))


def test_logistic_regression():
    """Signs of a linear teacher, learning rate 1: digits by SciPy's DOP853."""
    theory = tu.solve(one_unit(loss="logistic"), START, TIMES)
    R = [0.438270, 1.316988, 1.964790, 2.779945]
    error = [0.323297, 0.141982, 0.088749, 0.058262]
    np.testing.assert_allclose(theory.R[1:, 0, 0], R, atol=6e-7)
    np.testing.assert_allclose(theory.error[1:], error, atol=6e-7)


# Labels


def test_labels_have_their_values():
    sign = tu.labels.Sign(flip=0.1)
    assert isinstance(sign, tu.labels.Labels)
    assert float(sign.truth(-0.3, None)) == -1.0
    assert tu.labels.Argmax().truth(np.array([0.1, 0.7]), None).tolist() == [0.0, 1.0]
    assert tu.labels.Real().kind == "real"
    assert tu.labels.Logistic(slope=2.0).kind == "sign"


def test_a_function_of_the_fields_is_a_label():
    parity = tu.labels.Function(
        lambda rho, xi: jnp.sign(rho[0] * rho[1]), metric="class"
    )
    assert float(parity.label(None, jnp.array([1.0, -2.0]), 0.5, 0.0)) == -1.0


def test_flipped_labels_on_two_levels():
    """Logistic regression with flips of probability 0.1: digits by independent code."""
    task = one_unit(
        loss="logistic",
        labels=tu.labels.Sign(flip=0.1),
        inputs=tu.Spectrum([3.0, 0.5], [0.2, 0.8], normalize=False),
    )
    R = [[[0.3]], [[0.05]]]
    Q = [[[0.6]], [[0.475]]]
    theory = tu.solve(task, tu.Start(R, Q, np.ones((2, 1, 1))), TIMES)
    error = [0.292390, 0.189431, 0.150069, 0.117401]
    np.testing.assert_allclose(theory.error[1:], error, atol=6e-7)


# Rules


@pytest.mark.parametrize(
    ("rule", "law"),
    [
        (tu.rules.Hebbian(), lambda a: 1 / np.sqrt(2 * np.pi * a)),
        (tu.rules.Perceptron(), lambda a: (2 / 3) ** (1 / 3) / np.pi * a ** (-1 / 3)),
        (tu.rules.AdaTron(), lambda a: 3 / (2 * a)),
    ],
)
def test_the_classical_rules_reach_their_laws(rule, law):
    """The leading terms for late times; corrections are below 2% at 1000."""
    theory = tu.solve(one_unit(rule=rule), START, [0.0, 1000.0])
    assert theory.error[-1] == pytest.approx(law(1000.0), rel=0.02)


def test_the_rule_of_rosenblatt():
    """The perceptron rule at rate 1, from closed averages."""
    theory = tu.solve(one_unit(rule="perceptron"), START, TIMES)
    R = [0.362256, 0.765507, 0.972774, 1.224313]
    np.testing.assert_allclose(theory.R[1:, 0, 0], R, atol=6e-7)


def test_reinforcement_of_three_decisions():
    """The RL perceptron (Patel et al. 2024): dR and dQ in closed form, DOP853."""
    task = one_unit(rule=tu.rules.Reinforce(decisions=3, reward=1.0, penalty=0.0))
    theory = tu.solve(task, tu.Start([[0.3]], [[1.0]]), TIMES)
    R = [0.505284, 1.684416, 3.716924, 8.739384]
    error = [0.366426, 0.269125, 0.207726, 0.151685]
    np.testing.assert_allclose(theory.R[1:, 0, 0], R, rtol=1e-5)
    np.testing.assert_allclose(theory.error[1:], error, atol=2e-6)


COMMITTEE_START = {
    "R": [[0.3, 0.05], [0.02, 0.2]],
    "Q": [[0.5, 0.1], [0.1, 0.4]],
}


def test_feedback_alignment():
    """Feedback (1, 0.5), readouts trained at half the rate: digits of plain NumPy."""
    task = tu.Problem(
        tu.Network(2, "erf", readout=[0.6, 0.4], train_readout=True),
        tu.Network(2, "erf"),
        optimizer=tu.SGD(1.0, readout_lr=0.5),
        rule=tu.rules.FeedbackAlignment([1.0, 0.5]),
    )
    theory = tu.solve(task, tu.Start(**COMMITTEE_START), [0.0, 3.0, 15.0, 30.0, 60.0])
    error = [0.07042411, 0.01594848, 0.01299754, 0.00503420]
    np.testing.assert_allclose(theory.error[1:], error, atol=6e-9)
    assert theory.alignment.shape == (5,)


def test_dropout():
    """Inverted masks, kept with probability 0.8: digits of plain NumPy."""
    network = tu.Network(2, "erf")
    task = tu.Problem(
        network, network, optimizer=tu.SGD(1.0), rule=tu.rules.Dropout(0.8)
    )
    theory = tu.solve(task, tu.Start(**COMMITTEE_START), [0.0, 3.0, 15.0, 30.0, 60.0])
    error = [0.07929251, 0.04875065, 0.04858041, 0.04883478]
    np.testing.assert_allclose(theory.error[1:], error, atol=6e-9)


def test_the_gradient_is_the_default_rule():
    assert isinstance(one_unit().rule, tu.rules.Gradient)
    assert tu.rules.Rule is tu.Rule


def test_a_reused_sample_moves_a_linear_unit_further():
    """Two steps on one sample act as one step of rate 2 eta - eta^2 (|x|^2 / N = 1)."""
    eta = 0.3
    reused = tu.Problem(UNIT, UNIT, optimizer=tu.SGD(eta), rule=tu.rules.Reuse(2))
    plain = tu.Problem(UNIT, UNIT, optimizer=tu.SGD(2 * eta - eta**2))
    curves = [tu.solve(task, START, [0.0, 1.0, 4.0]) for task in (reused, plain)]
    np.testing.assert_allclose(curves[0].error, curves[1].error, rtol=1e-7)


def test_node_perturbation_adds_the_variance_of_its_noise():
    """One linear unit: the mean is the gradient, G is three times that of SGD.

    delta = (e xi - scale xi^2 / 2) xi, e the error, so E[delta^2] = 3 e^2 + (15/4) scale^2.
    """
    eta = 0.1
    scale = 0.2
    rule = tu.rules.NodePerturbation(scale)
    task = tu.Problem(UNIT, UNIT, optimizer=tu.SGD(eta), rule=rule)
    theory = tu.solve(task, tu.Start([[0.0]], [[0.0]]), [0.0, 500.0], rtol=1e-6)
    # d(2 e_g) = -2 eta (2 e_g) + eta^2 (3 (2 e_g) + 15/4 scale^2) = 0 at the end
    floor = eta * 15 / 4 * scale**2 / (2 - 3 * eta) / 2
    assert theory.error[-1] == pytest.approx(floor, rel=1e-3)


class Clipped(tu.Rule):
    """The delta rule with an error of at most `largest`."""

    largest = 1.0

    jumps = False

    def update(
        self,
        sample: tu.rules.Sample,
        parameters: tu.rules.Parameters,
        context: tu.rules.Context,
    ) -> tu.rules.Update:
        error = sample.label - sample.student
        delta = jnp.clip(error, -self.largest, self.largest)
        return self.result(delta, parameters)


class Unclipped(Clipped):
    largest = 1e6


def test_a_custom_rule_that_never_clips_decays_as_the_delta_rule():
    """One linear unit: e_g falls as exp(-(2 eta - eta^2) alpha), here eta = 1."""
    theory = tu.solve(one_unit(labels="real", rule=Unclipped()), START, [0.0, 2.0])
    assert theory.error[-1] == pytest.approx(np.exp(-2.0) * theory.error[0], rel=1e-6)


def test_an_update_of_a_sample_by_hand():
    sample = tu.rules.Sample(
        student=jnp.array([0.2]), reference=jnp.array([1.0]), label=jnp.array(3.0)
    )
    parameters = tu.rules.Parameters(readout=jnp.ones(1))
    context = tu.rules.Context(student=UNIT, loss=tu.losses.Squared())
    update = Clipped().update(sample, parameters, context)
    assert isinstance(update, tu.rules.Update)
    np.testing.assert_allclose(update.delta, [1.0])


@pytest.mark.parametrize(
    ("law", "second"),
    [
        (tu.rules.Normal(), 1.0),
        (tu.rules.Discrete([-1.0, 2.0], [2 / 3, 1 / 3]), 2.0),
        (tu.rules.Quantile(lambda u: np.sqrt(12.0) * (u - 0.5)), 1.0),
    ],
)
def test_a_law_of_random_numbers_has_its_moments(law, second):
    assert isinstance(law, tu.rules.Law)
    # Draws are functions of standard normal numbers: here even quantiles of these.
    normal = stats.norm.ppf((np.arange(30_000) + 0.5) / 30_000)
    draws = np.asarray(law.from_normal(normal))
    assert np.mean(draws) == pytest.approx(0.0, abs=1e-3)
    assert np.mean(draws**2) == pytest.approx(second, rel=1e-2)


def test_independent_draws_for_each_unit():
    masks = tu.rules.PerUnit(tu.rules.Discrete([0.0, 2.0], [0.5, 0.5]), units=3)
    values, weights = masks.enumerated()
    assert values.shape == (8, 3)
    np.testing.assert_allclose(weights, 1 / 8)


def test_an_optimizer_is_named_in_files():
    momentum = tu.optimizers.SlowMomentum(gamma=2.0)
    optimizer = tu.optimizers.SGD(lr=0.3, momentum=momentum)
    problem = tu.Problem(tu.Network(2), tu.Network(2), optimizer=optimizer)
    table = problem.to_dict()["optimizer"]
    assert table["kind"] == "sgd"
    assert tu.Problem.from_dict(problem.to_dict()).optimizer.momentum.gamma == 2.0
    del table["kind"]  # plain SGD is the default
    assert tu.Problem.from_dict(problem.to_dict() | {"optimizer": table}) is not None


def test_a_file_with_the_older_table_of_sgd_gets_one_message():
    tables = {"student": {"hidden": 2}, "teacher": {"hidden": 2}, "sgd": {"lr": 0.3}}
    with pytest.raises(
        tu.InputError, match=r"it is called \[optimizer\] now. Rename it"
    ):
        tu.Problem.from_dict(tables)
