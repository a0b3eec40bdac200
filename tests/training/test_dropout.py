"""Dropout:

digits of independent code, all masks one by one, the general averages, SGD on weights,
both simulations.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tutelage as tu
from tests.training.test_feedback_alignment import (
    START,
    TIMES,
    assert_within_sampling,
    largest_z,
    matrices,
    numpy_sgd,
)
from tutelage.cli.app import main
from tutelage.stream.moments.matrices import (
    error_weights,
    joint_covariance,
    mean_update,
    update_covariance,
)
from tutelage.stream.order_parameters import averages_of

TEACHER = tu.Network(2, "erf")
STEPS = tu.schedules.Piecewise([5.0], [0.5, 0.9])


def dropped(keep=0.8, readout=1.0, train_readout=False, **changes):
    student = tu.Network(2, "erf", readout=readout, train_readout=train_readout)
    return tu.Problem(
        student,
        TEACHER,
        optimizer=tu.SGD(1.0, readout_lr=0.5),
        rule=tu.rules.Dropout(keep),
        **changes,
    )


@pytest.fixture(scope="module")
def theory():
    return tu.solve(dropped(), START, TIMES)


def test_digits(theory):
    np.testing.assert_allclose(
        theory.error[1:], [0.07929251, 0.04875065, 0.04858041, 0.04883478], atol=6e-9
    )


@pytest.mark.parametrize(
    "activation", ["erf", "quadratic", pytest.param("relu", marks=pytest.mark.full)]
)
def test_keeping_all_units_is_backpropagation(activation):
    plain = tu.Problem(
        tu.Network(2, activation, readout=[1.0, 1.2], train_readout=True),
        tu.Network(2, activation),
        noise=0.2,
    )
    all_kept, few = (plain.replace(rule=tu.rules.Dropout(keep)) for keep in (1.0, 0.5))
    for a, b in zip(matrices(plain), matrices(all_kept), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert np.abs(matrices(plain)[1] - matrices(few)[1]).max() > 0.01


@pytest.mark.parametrize(
    "activation", ["erf", pytest.param("relu", marks=pytest.mark.full)]
)
def test_closed_form_is_the_average_over_all_masks(activation):
    """With f = m v and w = (-m v, v*), mask by mask; the readout's force is that of the kept units."""
    K = 3
    keep = 0.7
    noise = 0.4
    rng = np.random.default_rng(0)
    v = np.array([0.8, -0.5, 1.1])
    plain = tu.Problem(
        tu.Network(K, activation, readout=v, train_readout=True),
        tu.Network(2, activation),
        noise=noise,
    )
    vectors = rng.standard_normal((K + 2, 8)) / np.sqrt(8)
    gram = vectors @ vectors.T
    start = tu.Start(gram[:K, K:], gram[:K, :K], gram[K:, K:])
    C = joint_covariance(start.R, start.Q, start.T)
    averages = averages_of(plain)
    v_teacher = jnp.ones(2)

    @jax.jit
    def of_mask(m):
        p = mean_update(averages, C, None, m * v, v_teacher)
        G = update_covariance(
            averages,
            C,
            None,
            error_weights(m * v, v_teacher),
            m * v,
            jnp.asarray(noise),
        )
        return jnp.concatenate([p.A, p.B], axis=1), G, m * p.readout, p.bias

    total = [0.0] * 4
    for kept in itertools.product([0.0, 1.0], repeat=K):
        m = np.array(kept) / keep
        weight = np.prod(np.where(np.array(kept) > 0, keep, 1 - keep))
        total = [
            a + weight * np.asarray(b) for a, b in zip(total, of_mask(m), strict=True)
        ]
    for closed, sum_ in zip(
        matrices(plain.replace(rule=tu.rules.Dropout(keep)), start), total, strict=True
    ):
        np.testing.assert_allclose(closed, sum_, rtol=1e-11, atol=1e-13)


def test_closed_form_equals_the_general_averages():
    assert_within_sampling(dropped(readout=[0.6, 0.4], train_readout=True, noise=0.3))


def test_error_and_loss_are_those_without_mask(theory):
    plain = tu.generalization_error(
        dropped().replace(rule="gradient"), theory.R, theory.Q
    )
    np.testing.assert_allclose(theory.error, plain, rtol=1e-10)
    np.testing.assert_allclose(theory.loss, theory.error, rtol=1e-12)


def test_sgd_on_weights():
    theory = tu.solve(
        dropped(readout=[0.6, 0.4], train_readout=True), START, [0.0, 3.0]
    )
    runs = numpy_sgd(200, 100, 3.0, 1.0, 0.5, [0.6, 0.4], keep=0.8)
    assert largest_z(runs, theory, 1) < 4.5
    assert (
        largest_z(numpy_sgd(200, 100, 3.0, 1.0, 0.5, [0.6, 0.4]), theory, 1) > 6
    )  # without masks it is another rule


def test_one_draw_per_unit():
    law = tu.rules.Dropout(0.7).law(3, 0.0)
    values, weights = (np.asarray(x) for x in law.enumerated())
    assert values.shape == (8, 3)
    np.testing.assert_allclose([weights.sum(), *(weights @ values)], 1.0, rtol=1e-12)
    many = tu.rules.Dropout(0.7).law(12, 0.0)
    assert law.enumerable
    assert not many.enumerable
    patterns, share = many.patterns()
    drawn = np.asarray(many.at_points(patterns[0], many.numbers(4000, seed=0)))
    assert (drawn.shape, share.tolist()) == ((4000, 12), [1.0])
    np.testing.assert_allclose(drawn.mean(axis=0), 1.0, atol=0.05)
    drawn = np.asarray(
        law.from_normal(np.random.default_rng(0).standard_normal((4000, 3)))
    )
    np.testing.assert_allclose((drawn > 0).mean(axis=0), 0.7, atol=0.03)


def test_keep_follows_its_schedule():
    early, late = (
        matrices(dropped(keep), time=t) for keep, t in ((0.5, 0.0), (0.9, 0.0))
    )
    for a, b in zip(matrices(dropped(STEPS), time=1.0), early, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for a, b in zip(matrices(dropped(STEPS), time=9.0), late, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (0.0, "keep is 0; it must be positive"),
        (1.5, "keep is 1.5; it must be a probability"),
        (np.nan, "keep is nan; it must be a finite number"),
        ([0.5, 0.5], r"keep has shape \(2,\); it must be a single number"),
        ("half", "keep is 'half'; it must be a number"),
    ],
)
def test_bad_keep(keep, message):
    with pytest.raises(tu.InputError, match=message):
        tu.rules.Dropout(keep)


def test_a_schedule_of_keep_must_stay_a_probability():
    with pytest.raises(tu.InputError, match=r"keep is 1\.2 at time 5"):
        tu.solve(
            dropped(tu.schedules.Piecewise([5.0], [0.5, 1.2])), START, [0.0, 5.0, 6.0]
        )


@pytest.mark.parametrize("keep", [0.8, STEPS])
def test_files(keep):
    problem = dropped(keep)
    assert str(tu.Problem.from_toml(problem.to_toml())) == str(problem)
    assert str(problem.replace(keep=0.25).rule) == "Dropout(keep=0.25)"


@pytest.mark.full
def test_both_simulations_agree_in_law():
    def errors(keep, method, seed):
        problem = dropped(keep)
        return tu.simulate(
            problem, START, dim=40, times=[0.0, 5.0], runs=300, seed=seed, method=method
        ).error[:, -1]

    chain = errors(0.8, "overlaps", 1)
    weights = errors(0.8, "weights", 2)
    assert stats.ks_2samp(chain, weights).pvalue > 1e-3
    assert stats.ks_2samp(errors(0.5, "overlaps", 3), weights).pvalue < 1e-3


@pytest.mark.full
def test_more_than_ten_units_have_a_closed_form():
    student = tu.Network(12, "erf", readout=1 / 6)
    problem = tu.Problem(
        student, TEACHER, rule=tu.rules.Dropout(0.8), optimizer=tu.SGD(0.5)
    )
    theory = tu.solve(problem, tu.random_start(problem, dim=1000, seed=0), [0.0, 10.0])
    assert theory.validity.averages == "closed form"
    assert np.all(np.isfinite(theory.error))


@pytest.mark.full
@pytest.mark.parametrize(
    "rule", [tu.rules.Dropout(STEPS), tu.rules.FeedbackAlignment([1.0, 0.5])]
)
def test_a_file_compares(rule, tmp_path, capsys):
    file = tmp_path / "problem.toml"
    file.write_text(
        dropped(readout=[0.6, 0.4], train_readout=True, noise=0.1)
        .replace(rule=rule)
        .to_toml()
    )
    options = [
        "--dim",
        "400",
        "--runs",
        "20",
        "--times",
        "10",
        "--points",
        "11",
        "--out-dir",
        str(tmp_path / "out"),
    ]
    assert main(["compare", str(file), *options]) == 0
    assert "agree" in capsys.readouterr().out
