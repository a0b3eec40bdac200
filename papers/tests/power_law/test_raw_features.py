"""Training only some inputs, in the eigenbasis and outside it: second moments, runs of real weights, equation 88."""

import numpy as np
import pytest
from papers.tests.power_law.linear.reference import (
    exact_moments,
    linear_problem,
    sgd_errors,
)

import tutelage as tu
import tutelage_papers

N, TRAINED = 12, 5


def raw_case(seed=0, **options):
    """A covariance without structure, weights, and the problem whose spectrum knows its eigenvectors."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((N, 40)) * np.arange(1, N + 1)[:, None] ** -0.7
    covariance = data @ data.T
    covariance *= N / np.trace(covariance)
    a, b = 0.6 * rng.standard_normal(N), rng.standard_normal(N)
    problem = linear_problem(inputs=tu.Spectrum.from_covariance(covariance), **options)
    return problem, covariance, a, b


def equation_88(covariance, trained, scale):
    S, C, H = (
        covariance[:trained, :trained],
        covariance[:trained, trained:],
        covariance[trained:, trained:],
    )
    size, own = len(covariance), np.trace(C.T @ np.linalg.solve(S, C))
    return (
        1
        - np.trace(S) / size
        + scale**2 * np.trace(H) / size
        - (1 + scale**2) / size * own
    ) / 2


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.4},
        {"lr": 0.3, "noise": 0.5, "batch": 2},
        {"lr": 0.3, "noise": 0.2, "weight_decay": 0.5},
    ],
)
def test_raw_features_equal_all_second_moments_step_by_step(options):
    problem, covariance, a, b = raw_case(**options)
    steps = [0, 1, 5, 30, 200]
    exact, _ = exact_moments(
        covariance, a, b, steps, rate=options["lr"], decay=options.get("weight_decay", 0.0), batch=options.get("batch", 1),
        noise=options.get("noise", 0.0), trained=np.arange(N) < TRAINED,
    )  # fmt: skip
    features = tutelage_papers.power_law.raw_features(problem, TRAINED, weights=(a, b))
    np.testing.assert_allclose(features.covariance, covariance, atol=1e-12)
    np.testing.assert_allclose(
        features.error(np.array(steps) / N), exact / 2, rtol=1e-10
    )


def test_the_mean_over_random_weights_is_the_mean_of_single_ones():
    """The error is a quadratic form of the weights: the mean over N(0, 1) entries is the mean over any design with that
    covariance, here the rows of an orthogonal matrix scaled by sqrt(2N), student and teacher side by side."""
    problem, *_ = raw_case(lr=0.4, noise=0.3, weight_decay=0.2)
    rows = np.linalg.qr(np.random.default_rng(1).standard_normal((2 * N, 2 * N)))[
        0
    ] * np.sqrt(2 * N)
    times = np.array([0.0, 0.5, 4.0, 50.0])
    singles = [
        tutelage_papers.power_law.raw_features(
            problem, TRAINED, weights=(0.3 * row[:N], row[N:])
        )
        for row in rows
    ]
    typical = tutelage_papers.power_law.raw_features(problem, TRAINED, scale=0.3)
    np.testing.assert_allclose(
        typical.error(times),
        np.mean([f.error(times) for f in singles], axis=0),
        rtol=1e-11,
    )
    np.testing.assert_allclose(
        typical.small_rate(times),
        np.mean([f.small_rate(times) for f in singles], axis=0),
        rtol=1e-11,
    )
    assert typical.floor == pytest.approx(
        np.mean([f.floor for f in singles]), rel=1e-11
    )
    assert typical.steady_state == pytest.approx(
        np.mean([f.steady_state for f in singles]), rel=1e-11
    )


def test_raw_features_equal_the_mean_of_runs():
    """2500 runs of real weights. Two z-scores, at most 4.1 (a false alarm in 1e-4); the small-rate form must fail."""
    problem, covariance, a, b = raw_case(lr=0.8, noise=0.3)
    features = tutelage_papers.power_law.raw_features(problem, TRAINED, weights=(a, b))
    for steps in (24, 240):
        runs = sgd_errors(
            covariance,
            a,
            b,
            steps,
            2500,
            3,
            rate=0.8,
            noise=0.3,
            trained=np.arange(N) < TRAINED,
        )
        error = runs.std(ddof=1) / np.sqrt(len(runs))
        assert abs(runs.mean() - features.error(steps / N)) < 4.1 * error
        assert abs(runs.mean() - features.small_rate(steps / N)) > 10 * error


def test_floor_is_equation_88():
    problem, covariance, *_ = raw_case(lr=0.1)
    features = tutelage_papers.power_law.raw_features(problem, TRAINED, scale=0.4)
    assert features.floor == pytest.approx(
        equation_88(covariance, TRAINED, 0.4), rel=1e-11
    )
    counts = np.arange(1, N)
    np.testing.assert_allclose(
        features.floors(counts),
        [equation_88(covariance, n, 0.4) for n in counts],
        rtol=1e-9,
    )
    assert features.floors(N) == 0
    assert features.floors(0) == pytest.approx(1.16 / 2, rel=1e-12)
    assert float(features.small_rate(1e5)) == pytest.approx(features.floor, rel=1e-6)
    aligned = features.eigenbasis_floors(counts)
    assert np.all(aligned < features.floors(counts))
    lam = np.sort(np.linalg.eigvalsh(covariance))[::-1]
    np.testing.assert_allclose(
        aligned, [1.16 / (2 * N) * lam[n:].sum() for n in counts], rtol=1e-9
    )


def test_steady_state_exceeds_the_floor_by_the_share_of_the_rate():
    problem, covariance, *_ = raw_case(lr=0.5)
    features = tutelage_papers.power_law.raw_features(problem, TRAINED, scale=0.4)
    assert features.steady_state == pytest.approx(float(features.error(1e5)), rel=1e-9)
    share = 0.5 * np.trace(covariance[:TRAINED, :TRAINED]) / (2 * N)
    assert features.limit_steady_state == pytest.approx(
        features.floor / (1 - share), rel=1e-12
    )
    assert features.floor < features.limit_steady_state < features.steady_state
    unstable = tutelage_papers.power_law.raw_features(
        problem.replace(lr=features.critical_rate * 1.01), TRAINED
    )
    assert not unstable.stable
    assert "above the critical one" in str(unstable)
    with pytest.raises(tu.InputError, match="only below the critical rate"):
        _ = unstable.steady_state


def test_a_diagonal_covariance_is_the_eigenbasis():
    problem = linear_problem(8, 1.0, 0.3, 0.2)
    measured = tu.Spectrum.from_covariance(np.diag(problem.inputs.eigenvalues))
    features = tutelage_papers.power_law.raw_features(
        problem.replace(inputs=measured), 3, scale=0.5
    )
    frozen = tutelage_papers.power_law.linear_network(
        problem.replace(trainable=[0, 1, 2]), tu.Start([[0.0]], [[0.25]], [[1.0]])
    )
    times = np.array([0.0, 1.0, 10.0])
    np.testing.assert_allclose(
        features.error(times), frozen.exact_mean(times, 8), rtol=1e-11
    )
    assert features.steady_state == pytest.approx(
        frozen.finite(8).steady_state, rel=1e-11
    )


def test_random_orientation():
    problem = linear_problem(6, 1.0, 0.1)
    one, again, other = (
        tutelage_papers.power_law.raw_features(problem, 3, dim=18, seed=seed)
        for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(one.covariance, again.covariance)
    assert not np.allclose(one.covariance, other.covariance)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(one.covariance),
        np.sort(np.repeat(problem.inputs.eigenvalues, 3)),
        atol=1e-12,
    )


def test_words_and_figure():
    features = tutelage_papers.power_law.raw_features(linear_problem(16, 1.0, 0.1), 4)
    text = str(features)
    assert "4 of 16 raw inputs learn" in text
    assert f"floor: {features.floor:.6g}" in text
    labels = [line.get_label() for line in features.plot().axes[0].lines]
    assert labels == ["raw inputs", "eigenvectors", "at this learning rate"]


def test_refusals():
    problem = linear_problem(6)
    flat = (
        np.ones((20, 3)) * np.arange(20)[:, None]
        + [0, 0, 1] * np.arange(20)[:, None] ** 2
    )
    for change, words in (
        (lambda: tutelage_papers.power_law.raw_features(problem, 7), "at most 6"),
        (
            lambda: tutelage_papers.power_law.raw_features(problem, 0),
            "whole number, 1 or more",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(
                problem.replace(trainable=[0]), 2
            ),
            "Leave it out",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(problem, 2, dim=3),
            "at least 6 dimensions",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(
                problem, 2, weights=np.ones(6)
            ),
            "a pair",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(
                problem, 2, weights=(np.ones(5), np.ones(6))
            ),
            "must have shape",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(problem, 2, scale=-1.0),
            "zero or more",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(problem, 2).floors([7]),
            "from 0 to 6",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(
                problem.replace(inputs=tu.from_data(flat).inputs), 2
            ),
            "have no variance",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(raw_case()[0], 2, dim=20),
            "12 inputs",
        ),
        (
            lambda: tutelage_papers.power_law.raw_features(
                tu.Problem(tu.Network(2), tu.Network(1)), 2
            ),
            "hidden units",
        ),
    ):
        with pytest.raises(tu.InputError, match=words):
            change()
