"""The RL perceptron:

digits of independent code, its closed form, other rules, episodes on weights, both
simulations.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tutelage as tu
from tests.training.test_feedback_alignment import matrices
from tutelage.cli.app import main
from tutelage.simulation import recorded_error
from tutelage.training.rules import as_rule

UNIT = tu.Network(1, "linear")
START = tu.Start([[0.3]], [[1.0]])
LEVELS = tu.Spectrum([2.0, 0.5], [1 / 3, 2 / 3])
FLIPPED = tu.labels.Sign(flip=0.1)


def episodes(
    decisions=3, reward=1.0, penalty=0.0, labels="sign", teacher=UNIT, **changes
):
    rule = tu.rules.Reinforce(decisions, reward, penalty)
    return tu.Problem(
        UNIT, teacher, optimizer=tu.SGD(1.0), labels=labels, rule=rule, **changes
    )


def numpy_episodes(problem, dim, runs, end, seed=0, together=True):
    """R and Q of plain SGD on weights, (runs,): the definition, episode by episode.

    together: one reward for all decisions.
    """
    rng = np.random.default_rng(seed)
    rule = problem.rule
    T = problem.rule.decisions
    dims = problem.inputs.level_dims(dim)
    frames = [np.linalg.qr(rng.standard_normal((n, 2)))[0].T * np.sqrt(n) for n in dims]
    frame = np.concatenate(frames, axis=1)
    teacher = frame[0]
    w = np.tile(0.3 * frame[0] + np.sqrt(1 - 0.09) * frame[1], (runs, 1))
    root = np.sqrt(np.repeat(np.asarray(problem.inputs.eigenvalues), dims))
    for _ in range(round(end * dim)):
        x = root * rng.standard_normal((runs, T, dim))
        decision = np.sign(np.einsum("rtn,rn->rt", x, w))
        flips = np.where(
            rng.random((runs, T)) < float(getattr(problem.labels, "flip", 0.0)), -1, 1
        )
        right = decision == flips * np.sign(x @ teacher)
        rewarded = right.all(axis=1, keepdims=True) if together else right
        delta = decision * np.where(rewarded, float(rule.reward), -float(rule.penalty))
        w = w + np.einsum("rt,rtn->rn", delta, x) / (T * np.sqrt(dim))
    return (root**2 * w) @ teacher / dim, np.sum((root * w) ** 2, axis=1) / dim


def largest_z(runs, theory):
    pairs = zip(runs, (theory.R[-1, 0, 0], theory.Q[-1, 0, 0]), strict=True)
    return max(abs(x.mean() - y) / (x.std(ddof=1) / np.sqrt(x.size)) for x, y in pairs)


def test_digits():
    theory = tu.solve(episodes(), START, [0.0, 1.0, 5.0, 10.0, 20.0])
    np.testing.assert_allclose(
        theory.R[1:, 0, 0], [0.505284, 1.684416, 3.716924, 8.739384], atol=6e-7
    )
    np.testing.assert_allclose(
        theory.error[1:], [0.366426, 0.269125, 0.207726, 0.151685], atol=6e-7
    )


@pytest.mark.parametrize(
    ("decisions", "penalty"), [(1, 0.3), (2, 0.0), (5, 0.7), (13, 0.02)]
)
def test_closed_form(decisions, penalty):
    """dR and dQ with c = R / sqrt(Q), P = 1 - arccos(c) / pi; without the power of P they differ."""
    for R, Q in ((0.3, 1.0), (9.7, 100.0), (-0.2, 0.5)):
        (both, G, _, _), c = (
            matrices(episodes(decisions, 0.8, penalty), tu.Start([[R]], [[Q]])),
            R / np.sqrt(Q),
        )
        (A, B), P, root = both[0], 1 - np.arccos(c) / np.pi, np.sqrt(2 * np.pi)
        f = (0.8 + penalty) * P ** (decisions - 1) * (1 + c)
        all_right = P**decisions
        np.testing.assert_allclose(A * R + B, (f - 2 * penalty * c) / root, atol=1e-9)
        np.testing.assert_allclose(
            A * Q + B * R, np.sqrt(Q) * (f - 2 * penalty) / root, rtol=1e-8, atol=1e-9
        )
        np.testing.assert_allclose(
            G[0, 0], 0.64 * all_right + penalty**2 * (1 - all_right), rtol=1e-8
        )
        if decisions > 1:
            assert (
                abs(A * R + B - ((0.8 + penalty) * (1 + c) - 2 * penalty * c) / root)
                > 0.01
            )


@pytest.mark.parametrize(
    ("reward", "penalty", "other"),
    [
        (0.0, 1.0, "perceptron"),
        pytest.param(1.0, 1.0, "hebbian", marks=pytest.mark.full),
    ],
)
def test_one_decision_is_a_classical_rule(reward, penalty, other):
    one = episodes(1, reward, penalty, FLIPPED)
    for a, b in zip(
        matrices(one, START), matrices(one.replace(rule=other), START), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-10)
    problems = one, one.replace(rule=other)
    runs = [
        tu.simulate(p, START, dim=30, times=[0.0, 2.0], runs=2, seed=1, together=True)
        for p in problems
    ]
    np.testing.assert_allclose(runs[0].R, runs[1].R, rtol=1e-10)
    two = episodes(2, reward, penalty, FLIPPED)
    assert np.abs(matrices(two, START)[0] - matrices(one, START)[0]).max() > 0.01


@pytest.mark.parametrize(
    ("inputs", "dim"),
    [(tu.Isotropic(), 200), pytest.param(LEVELS, 300, marks=pytest.mark.full)],
)
def test_episodes_on_weights(inputs, dim):
    """Flipped labels; a reward of each decision alone is another rule."""
    problem = episodes(3, 1.0, 0.4, FLIPPED, inputs=inputs)
    theory = tu.solve(problem, START, [0.0, 3.0])
    assert largest_z(numpy_episodes(problem, dim, 100, 3.0), theory) < 4.5
    assert largest_z(numpy_episodes(problem, dim, 100, 3.0, together=False), theory) > 6


@pytest.mark.full
def test_both_simulations_agree_in_law(monkeypatch):
    monkeypatch.setattr(
        recorded_error,
        "errors_at_records",
        lambda problem, R, *rest: 2 * (np.zeros(np.shape(R)[:-2]),),
    )

    def states(penalty, method, seed, batch=2):
        problem = episodes(3, 1.0, penalty, FLIPPED, inputs=LEVELS).replace(batch=batch)
        runs = tu.simulate(
            problem, START, dim=12, times=[0.0, 4.0], runs=400, seed=seed, method=method
        )
        return runs.R[:, -1, 0, 0], runs.Q[:, -1, 0, 0]

    weights = states(0.3, "weights", 2)
    assert (
        min(
            stats.ks_2samp(*pair).pvalue
            for pair in zip(states(0.3, "overlaps", 1), weights, strict=True)
        )
        > 1e-3
    )
    assert (
        min(
            stats.ks_2samp(*pair).pvalue
            for pair in zip(states(0.6, "overlaps", 3), weights, strict=True)
        )
        < 1e-3
    )


@pytest.mark.full
def test_noise_of_single_steps():
    """The decisions of an episode are not independent:

    the covariance of a step is not that of a batch.
    """
    problem = episodes(4, 1.0, 0.5, FLIPPED, inputs=LEVELS)
    found = tu.analysis.step_moments(problem, START, 1200, samples=20_000)
    z = np.abs(found.diffusion - found.diffusion_theory) / found.diffusion_error
    assert z.max() < 5
    assert (
        np.abs(found.drift - found.drift_theory).max()
        < 5 * found.drift_error.max() + 2e-3
    )


@pytest.mark.full
def test_error_bars():
    """Of signs without flips, too."""
    problem = episodes(4, 1.0, 1.0)
    found = tu.analysis.fluctuations(problem, START, [0.0, 1.0, 2.0], dim=400).sd("R")[
        -1, 0, 0
    ]
    runs = tu.simulate(
        problem, START, dim=400, times=[0.0, 1.0, 2.0], runs=400, seed=1
    ).R[:, -1, 0, 0]
    assert abs(runs.std(ddof=1) / found - 1) < 0.15


@pytest.mark.full
def test_a_committee_teaches():
    """By sampling:

    one unit learns the sign of two erf units; the estimate covers the gap to finer
    sampling.
    """
    problem = episodes(3, 1.0, 0.1, teacher=tu.Network(2, "erf"))
    start = tu.Start([[0.3, 0.1]], [[1.0]])
    theory, finer = (
        tu.solve(problem, start, [0.0, 2.0, 5.0], moments=tu.Sampled(n))
        for n in (2**12, 2**17)
    )
    assert np.all(np.abs(theory.error - finer.error) <= theory.sampling_error + 1e-9)
    runs = tu.simulate(problem, start, dim=600, times=[0.0, 2.0, 5.0], runs=100, seed=1)
    assert np.all(
        np.abs(runs.R[:, -1].mean(axis=0) - finer.R[-1])
        < 4.5 * runs.R[:, -1].std(axis=0) / 10
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"decisions": 0}, "decisions is 0; it must be a whole number, 1 or more"),
        ({"decisions": 2.5}, "decisions is 2.5; it must be a whole number"),
        ({"reward": -1.0}, "reward is -1; it must be zero or more"),
        ({"penalty": -0.1}, "penalty is -0.1; it must be zero or more"),
        ({"penalty": np.nan}, "penalty is nan"),
        ({"reward": 0.0, "penalty": 0.0}, "reward and penalty are both 0"),
        (
            {"penalty": [0.1, 0.2]},
            r"penalty has shape \(2,\); it must be a single number",
        ),
    ],
)
def test_bad_numbers(given, message):
    with pytest.raises(tu.InputError, match=message):
        tu.rules.Reinforce(**given)


def test_what_it_cannot_learn():
    with pytest.raises(
        tu.InputError, match="Reinforce is for one unit and the student has 2"
    ):
        episodes().replace(student=tu.Network(2, "erf"))
    with pytest.raises(tu.InputError, match="Reinforce needs labels -1 and 1"):
        episodes(labels="real")


def test_files():
    problem = episodes(5, 1.0, 0.1)
    assert str(tu.Problem.from_toml(problem.to_toml())) == str(problem)
    assert as_rule("reinforce").decisions == 3


class Majority(tu.Rule):
    """A custom rule of episodes:

    learn from all three samples if most decisions were wrong.
    """

    samples = 3

    def update(self, sample, parameters, context):
        wrong = jnp.mean(sample.label[:, None] * sample.student < 0) > 0.5
        delta = jnp.where(
            wrong, sample.label[:, None] * jnp.ones_like(sample.student), 0.0
        )
        return self.result(delta, parameters)


def test_custom_episodes():
    problem = episodes().replace(rule=Majority())
    runs = tu.simulate(problem, START, dim=50, times=[0.0, 20.0], runs=5, seed=0)
    assert runs.error[:, -1].mean() < 0.25


@pytest.mark.full
def test_a_file_compares(tmp_path, capsys):
    file = tmp_path / "problem.toml"
    file.write_text(episodes(3, 1.0, 0.3).to_toml())
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
