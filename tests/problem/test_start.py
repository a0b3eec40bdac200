"""Starts:

the law of random overlaps, the exact overlaps of given weights, and what a problem
makes of them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tutelage as tu

K = 2
M = 3
SCALE = 0.3
SEEDS = 600


def problem(inputs=None, gram=None, **options):
    return tu.Problem(tu.Network(K), tu.Network(M, gram=gram), inputs=inputs, **options)


def blocks_over_seeds(asked, dim):
    starts = [
        tu.random_start(asked, dim=dim, scale=SCALE, seed=seed).blocks(asked)
        for seed in range(SEEDS)
    ]
    return [np.stack(part) for part in zip(*starts, strict=True)]


def require_moments(samples, mean, variance):
    """Sample means and variances within five standard errors (the kurtosis of each entry is measured)."""
    mean = np.broadcast_to(mean, samples.shape[1:])
    variance = np.broadcast_to(variance, samples.shape[1:])
    centered = samples - mean
    assert np.all(np.abs(centered.mean(0)) < 5 * np.sqrt(variance / len(samples)))
    spread = np.sqrt(np.var(centered**2, axis=0) / len(samples))
    assert np.all(np.abs((centered**2).mean(0) - variance) < 5 * spread)


SPLIT = {
    "isotropic": (None, 40),
    "three levels": (tu.Spectrum([3.0, 1.0, 0.2], [0.2, 0.3, 0.5]), 40),
}
TINY = {
    "levels smaller than the networks": (
        tu.Spectrum([3.0, 1.0, 0.2], [0.1, 0.3, 0.6]),
        10,
    )
}


@pytest.mark.parametrize("name", [*SPLIT, *TINY])
def test_random_overlaps_have_the_law_of_random_weights(name):
    inputs, dim = (SPLIT | TINY)[name]
    asked = problem(inputs)
    n = asked.inputs.level_dims(dim)[:, None, None]
    if name in TINY:
        assert n.min() < K + M
    r, q, t = blocks_over_seeds(asked, dim)
    require_moments(r, 0.0, SCALE**2 / n)
    require_moments(q, SCALE**2 * np.eye(K), SCALE**4 * (1 + np.eye(K)) / n)
    require_moments(t, np.eye(M), (1 + np.eye(M)) / n)
    rank = np.linalg.matrix_rank(
        np.block([[q, r], [np.swapaxes(r, -1, -2), t]]), tol=1e-9
    )
    assert np.array_equal(
        rank, np.broadcast_to(np.minimum(n[:, 0, 0], K + M), rank.shape)
    )


def test_random_overlaps_agree_with_random_vectors_beyond_two_moments():
    """E[r_km q_kk t_mm r_km] of the Gram matrix drawn against that of vectors drawn."""
    asked = problem()
    dim = 6
    r, q, t = (x[:, 0] for x in blocks_over_seeds(asked, dim))
    vectors = (
        np.random.default_rng(5).standard_normal((40 * SEEDS, 2, dim))
        * np.array([SCALE, 1.0])[:, None]
    )
    w = vectors[:, 0]
    u = vectors[:, 1]
    direct = ((w * u).sum(1) / dim) ** 2 * (w**2).sum(1) / dim * (u**2).sum(1) / dim
    ours = (
        r**2 * np.einsum("skk->sk", q)[:, :, None] * np.einsum("smm->sm", t)[:, None, :]
    ).mean((1, 2))
    error = np.hypot(
        ours.std() / np.sqrt(len(ours)), direct.std() / np.sqrt(len(direct))
    )
    assert abs(ours.mean() - direct.mean()) < 5 * error


@pytest.mark.parametrize(
    "inputs",
    [
        None,
        tu.Spectrum([3.0, 0.5], [0.2, 0.8]),
        tu.Spectrum([3.0, 2.0], normalize=False),
    ],
)
def test_a_given_gram_is_kept_exactly_and_students_are_random_beside_it(inputs):
    gram = np.array([[1.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 0.5]])
    asked = problem(inputs, gram)
    dim = 20
    mean = asked.inputs.weights.sum()
    n = asked.inputs.level_dims(dim)
    r, q, t = blocks_over_seeds(asked, dim)
    assert np.array_equal(t, np.broadcast_to(gram / mean, t.shape))
    require_moments(
        q, SCALE**2 * np.eye(K), SCALE**4 * (1 + np.eye(K)) / n[:, None, None]
    )
    require_moments(r, 0.0, SCALE**2 * np.diag(gram / mean) / n[:, None, None])
    pairs = np.einsum("slka,slkb->slkab", r, r)
    expected = SCALE**2 * (gram / mean) / n[:, None, None, None]
    assert np.all(np.abs(pairs.mean(0) - expected) < 5 * pairs.std(0) / np.sqrt(SEEDS))


def test_a_gram_per_level_and_one_of_low_rank():
    per_level = np.stack([np.eye(M), np.ones((M, M))])
    asked = problem(tu.Spectrum([1.5, 0.5]), per_level)
    start = tu.random_start(asked, dim=6, seed=0)
    assert np.array_equal(start.blocks(asked)[2], per_level)
    assert start.T is None


def test_starts_are_reproducible_by_seed_and_differ_between_seeds():
    asked = problem(tu.PowerLaw(1.0, 3))
    draw = lambda seed: tu.random_start(asked, dim=100, seed=seed)  # noqa: E731
    assert eqx.tree_equal(draw(7), draw(7))
    assert not eqx.tree_equal(draw(7), draw(8))
    assert draw(7).dim == 100


def test_large_networks_approach_the_typical_start():
    asked = problem(tu.Spectrum([3.0, 2.0], normalize=False))
    typical = tu.random_start(asked, dim=None, scale=SCALE).blocks(asked)
    large = tu.random_start(asked, dim=10**9, scale=SCALE).blocks(asked)
    for ours, theirs in zip(typical, large, strict=True):
        assert np.allclose(ours, theirs, atol=1e-3)


def test_scale_can_be_differentiated():
    def norm(scale):
        return jnp.trace(
            jnp.asarray(tu.random_start(problem(), dim=50, scale=scale, seed=1).Q)
        )

    assert np.isclose(jax.grad(norm)(0.5), 2 * norm(0.5) / 0.5)


def test_one_level_is_shown_as_field_covariances():
    asked = problem(tu.Spectrum([4.0], normalize=False))
    start = tu.random_start(asked, dim=30, seed=2)
    r, q, t = start.blocks(asked)
    assert start.R.shape == (K, M)
    assert np.allclose(start.R, 4 * r[0])
    assert np.allclose(start.Q, 4 * q[0])
    assert np.allclose(start.T, 4 * t[0])


def test_weights_give_their_overlaps_in_each_eigenspace():
    rng = np.random.default_rng(1)
    asked = problem(tu.Spectrum([3.0, 1.0, 0.2], [0.2, 0.3, 0.5]))
    W = rng.standard_normal((K, 10))
    teacher = rng.standard_normal((M, 10))
    start = tu.start_from_weights(asked, W, teacher, readout=[1.0, 2.0])
    for level, columns in enumerate((slice(0, 2), slice(2, 5), slice(5, 10))):
        n = columns.stop - columns.start
        assert np.allclose(start.R[level], W[:, columns] @ teacher[:, columns].T / n)
        assert np.allclose(start.Q[level], W[:, columns] @ W[:, columns].T / n)
        assert np.allclose(
            start.T[level], teacher[:, columns] @ teacher[:, columns].T / n
        )
    assert (start.dim, start.readout.tolist()) == (10, [1.0, 2.0])
    lam = np.repeat(asked.inputs.eigenvalues, [2, 3, 5])
    fields = np.einsum("l,lkm->km", asked.inputs.weights, start.R)
    assert np.allclose(fields, W @ np.diag(lam) @ teacher.T / 10)


@pytest.mark.parametrize("levels", [None, 1, 3])
def test_weights_on_measured_data_give_the_covariance_of_its_fields(levels):
    rng = np.random.default_rng(2)
    data = rng.standard_normal((80, 6)) @ rng.standard_normal((6, 6))
    data = np.column_stack([data, np.full(80, 3.0)])  # a direction without variance
    inputs = tu.from_data(data, levels=levels).inputs
    asked = problem(inputs)
    W = rng.standard_normal((K, 7))
    teacher = rng.standard_normal((M, 7))
    start = tu.start_from_weights(asked, W, teacher)
    assert start.dim == 6
    r, q, t = start.blocks(asked)
    edges = np.cumsum(inputs.level_dims(6))[:-1]
    for level, vectors in enumerate(np.split(inputs.basis, edges)):
        project = vectors.T @ vectors / len(vectors)
        for ours, a, b in ((r, W, teacher), (q, W, W), (t, teacher, teacher)):
            assert np.allclose(ours[level], a @ project @ b.T)
    if (
        levels is None
    ):  # then nothing was averaged: the fields have exactly the covariance seen on the data
        seen = np.cov(
            data @ np.vstack([W, teacher]).T / np.sqrt(6 * inputs.scale),
            rowvar=False,
            bias=True,
        )
        assert np.allclose(np.einsum("l,lkm->km", inputs.weights, r), seen[:K, K:])
        assert np.allclose(np.einsum("l,lkm->km", inputs.weights, q), seen[:K, :K])
        assert np.allclose(np.einsum("l,lkm->km", inputs.weights, t), seen[K:, K:])


def test_blocks_spread_field_covariances_over_the_levels():
    asked = problem(tu.Spectrum([3.0, 2.0], normalize=False))
    start = tu.Start(R=np.full((K, M), 0.1), Q=np.eye(K), T=2 * np.eye(M))
    r, q, t = start.blocks(asked)
    weights = asked.inputs.weights
    for block, field in ((r, start.R), (q, start.Q), (t, start.T)):
        assert np.allclose(np.einsum("l,lab->ab", weights, block), field)


def test_an_equal_T_and_gram_are_accepted_in_either_form():
    gram = np.array([[1.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 0.5]])
    asked = problem(tu.Spectrum([3.0, 2.0], normalize=False), gram)
    mean = asked.inputs.weights.sum()
    r = np.zeros((2, K, M))
    q = np.stack([np.eye(K)] * 2)
    for T in (gram, np.stack([gram / mean] * 2)):
        assert np.allclose(tu.Start(R=r, Q=q, T=T).blocks(asked)[2], gram / mean)
    with pytest.raises(tu.InputError, match="differ by"):
        tu.Start(R=r, Q=q, T=np.stack([gram] * 2)).blocks(asked)
