"""Node perturbation:

the smoothed gradient, its limit, quadrature in plain NumPy, SGD on weights, both
simulations.
"""

import jax
import numpy as np
import pytest
from scipy import special, stats

import tutelage as tu
from tests.training.test_feedback_alignment import START, largest_z, matrices
from tutelage.cli.app import main
from tutelage.simulation import recorded_error
from tutelage.stream import OrderParameters, initial_overlaps
from tutelage.stream.moments import moments_for
from tutelage.stream.moments.node_moments import confidence
from tutelage.training.rules import as_rule

READOUT = [0.6, 0.4]
TEACHER = tu.Network(2, "erf")


def perturbed(scale=0.3, units=2, **changes):
    student = tu.Network(units, "erf", readout=READOUT[:units], train_readout=True)
    optimizer = changes.pop("optimizer", tu.SGD(0.5, readout_lr=0.5))
    teacher = tu.Network(units, "erf")
    return tu.Problem(
        student,
        teacher,
        optimizer=optimizer,
        rule=tu.rules.NodePerturbation(scale),
        **changes,
    )


def numpy_sgd(dim, runs, end, scale, lr=0.5, readout_lr=0.5, shared=False, seed=0):
    """R, Q, v of plain SGD on weights.

    shared: one noise for both units, another rule.
    """
    rng = np.random.default_rng(seed)
    gram = np.block([[np.eye(2), START.R.T], [START.R, START.Q]])
    vectors = (
        np.linalg.cholesky(gram)
        @ np.linalg.qr(rng.standard_normal((dim, 4)))[0].T
        * np.sqrt(dim)
    )
    W_teacher = vectors[:2]
    W = np.repeat(vectors[None, 2:], runs, axis=0)
    v = np.tile(READOUT, (runs, 1))
    erf = lambda x: special.erf(x / np.sqrt(2))  # noqa: E731
    for _ in range(round(end * dim)):
        x = rng.standard_normal((runs, dim))
        fields = np.einsum("rkn,rn->rk", W, x) / np.sqrt(dim)
        noise = scale * rng.standard_normal((runs, 1 if shared else 2))
        y = erf(x @ W_teacher.T / np.sqrt(dim)).sum(axis=1)
        gap, shifted = (
            y - np.sum(v * erf(z), axis=1) for z in (fields, fields + noise)
        )
        delta = -((shifted**2 - gap**2) / 2 / scale**2)[:, None] * noise
        v = v + readout_lr / dim * gap[:, None] * erf(fields)
        W += lr / np.sqrt(dim) * delta[:, :, None] * x[:, None, :]
    return W @ W_teacher.T / dim, W @ W.swapaxes(1, 2) / dim, v


@pytest.mark.parametrize("scale", [1e-3, 0.5, 1.0])
def test_one_unit_by_quadrature(scale):
    """Averages over both fields, xi and label noise by a product rule; and the mean is that of backpropagation, smoothed."""
    R = 0.4
    Q = 0.8
    sigma = 0.3
    problem = perturbed(scale, 1, noise=sigma)
    start = tu.Start([[R]], [[Q]])
    both, G, _, _ = matrices(problem, start)
    (x, w), (z, wz) = (np.polynomial.hermite_e.hermegauss(n) for n in (60, 4))
    w = w / w.sum()
    wz = wz / wz.sum()
    rho = x[:, None, None, None]
    field = R * rho + np.sqrt(Q - R**2) * x[:, None, None]
    xi = x[:, None]
    label = special.erf(rho / np.sqrt(2)) + sigma * z
    loss = lambda at: (label - READOUT[0] * special.erf(at / np.sqrt(2))) ** 2 / 2  # noqa: E731
    delta = -(loss(field + scale * xi) - loss(field)) * xi / scale
    mean = lambda f: np.einsum("abcd,a,b,c,d->", f, w, w, w, wz)  # noqa: E731
    expected = np.linalg.solve(
        [[Q, R], [R, 1.0]], [mean(delta * field), mean(delta * rho)]
    )
    np.testing.assert_allclose(both[0], expected, atol=1e-9)
    np.testing.assert_allclose(G[0, 0], mean(delta**2), rtol=1e-7)
    plain = problem.replace(rule="gradient")
    np.testing.assert_allclose(
        matrices(plain, tu.Start([[R]], [[Q + scale**2]]))[0], both, atol=1e-9
    )
    if scale > 0.1:
        assert np.abs(matrices(plain, start)[0] - both).max() > 1e-2


def test_small_noise_is_the_gradient_with_a_larger_variance():
    """The mean is that of backpropagation, G becomes 2 G + tr(G) 1; within the estimate that the scramblings give."""
    problem = perturbed(1e-4, noise=0.3)
    plain = matrices(problem.replace(rule="gradient"))
    expected = plain[0], 2 * plain[1] + np.trace(plain[1]) * np.eye(2), plain[2]
    sets = [
        matrices(problem, moments=m)[:3]
        for m in moments_for(problem, None, tu.Sampled(2**13)).scramblings()
    ]
    found = zip(*sets, strict=True)
    for right, each in zip(expected, found, strict=True):
        assert np.all(
            np.abs(np.mean(each, axis=0) - right)
            < 1.5 * confidence(np.array(each)) + 1e-4
        )
    G = np.array([each[1] for each in sets])
    assert np.any(
        np.abs(G.mean(axis=0) - 3 * plain[1]) > 5 * confidence(G)
    )  # that holds for one unit only


def test_one_unit_has_three_times_the_variance():
    problem = perturbed(1e-4, 1, noise=0.3)
    start = tu.Start([[0.4]], [[0.8]])
    np.testing.assert_allclose(
        matrices(problem, start)[1],
        3 * matrices(problem.replace(rule="gradient"), start)[1],
        rtol=1e-6,
    )


def test_sgd_on_weights():
    theory = tu.solve(
        perturbed(), START, [0.0, 2.0], moments=tu.Sampled(2**13), rtol=1e-5
    )
    assert largest_z(numpy_sgd(200, 100, 2.0, 0.3), theory, 1) < 4.5
    assert largest_z(numpy_sgd(200, 100, 2.0, 0.3, shared=True), theory, 1) > 6


@pytest.mark.full
def test_both_simulations_agree_in_law(monkeypatch):
    monkeypatch.setattr(
        recorded_error,
        "errors_at_records",
        lambda problem, R, *rest: 2 * (np.zeros(np.shape(R)[:-2]),),
    )

    def states(scale, method, seed):
        runs = tu.simulate(
            perturbed(scale),
            START,
            dim=16,
            times=[0.0, 4.0],
            runs=400,
            seed=seed,
            method=method,
        )
        return np.concatenate(
            [runs.R[:, -1].reshape(400, -1), runs.Q[:, -1].reshape(400, -1)], axis=1
        )

    def smallest_p(one, other):
        return min(
            stats.ks_2samp(a, b).pvalue for a, b in zip(one.T, other.T, strict=True)
        )

    weights = states(0.5, "weights", 2)
    assert smallest_p(states(0.5, "overlaps", 1), weights) > 1e-4
    assert smallest_p(states(2.0, "overlaps", 3), weights) < 1e-4


def law(product, one, other):
    """The mean of erf(x / sqrt 2) erf(y / sqrt 2), for fields of these variances."""
    return 2 / np.pi * np.arcsin(product / np.sqrt((1 + one) * (1 + other)))


def test_loss_is_that_without_noise():
    problem = perturbed(0.5, 1, noise=0.2)

    @jax.jit
    def error_and_loss(R, Q):
        state, t = initial_overlaps(problem, tu.Start(R, Q))
        system = OrderParameters(problem, t)
        return system.error_and_loss(system.observe(state))

    for R, Q in ((0.4, 0.8), (0.7, 0.6)):
        error, loss = error_and_loss(np.array([[R]]), np.array([[Q]]))
        exact = (
            1 / 3 + READOUT[0] ** 2 * law(Q, Q, Q) - 2 * READOUT[0] * law(R, Q, 1.0)
        ) / 2
        np.testing.assert_allclose([error, loss], [exact, exact + 0.02], rtol=1e-6)


@pytest.mark.parametrize("units", [1, 2, 3, 6])
def test_patterns_average_polynomials_of_degree_five(units):
    """Moments of standard normal numbers, at one rotation; sixth moments of several units differ."""
    law = tu.rules.NodePerturbation(0.1).law(units, 0.0)
    patterns, weights = law.patterns()
    rotation = law.numbers(1, seed=3)
    xi = np.concatenate([np.asarray(law.at_points(p, rotation)) for p in patterns])
    second, fourth = (np.einsum("d,da,db->ab", weights, xi**p, xi**p) for p in (1, 2))
    np.testing.assert_allclose(second, np.eye(units), atol=1e-12)
    np.testing.assert_allclose(fourth, 1 + 2 * np.eye(units), atol=1e-12)
    np.testing.assert_allclose(weights @ xi**3, 0.0, atol=1e-12)
    assert units < 3 or np.abs(weights @ xi**6 - 15).max() > 0.01


@pytest.mark.full
def test_estimate_covers_finer_sampling():
    curves = [
        tu.solve(perturbed(), START, [0.0, 2.0, 10.0], moments=tu.Sampled(n), rtol=1e-5)
        for n in (2**10, 2**14)
    ]
    assert np.all(
        np.abs(curves[0].error - curves[1].error) <= curves[0].sampling_error + 1e-9
    )
    assert curves[0].sampling_error[-1] < 0.1 * curves[0].error[-1]


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (0.0, "scale is 0; it must be positive"),
        (-0.1, "scale is -0.1; it must be positive"),
        (np.nan, "scale is nan"),
        ([0.1, 0.2], r"scale has shape \(2,\); it must be a single number"),
        ("small", "scale is 'small'; it must be a number"),
    ],
)
def test_bad_scale(scale, message):
    with pytest.raises(tu.InputError, match=message):
        tu.rules.NodePerturbation(scale)


def test_files():
    problem = perturbed(0.25)
    assert str(tu.Problem.from_toml(problem.to_toml())) == str(problem)
    assert float(as_rule("node_perturbation").scale) == 0.1


@pytest.mark.full
def test_a_file_compares(tmp_path, capsys):
    file = tmp_path / "problem.toml"
    file.write_text(perturbed(0.2, noise=0.1).to_toml())
    options = [
        "--dim",
        "600",
        "--runs",
        "20",
        "--times",
        "5",
        "--points",
        "11",
        "--out-dir",
        str(tmp_path / "out"),
    ]
    assert main(["compare", str(file), *options]) == 0
    assert "agree" in capsys.readouterr().out
