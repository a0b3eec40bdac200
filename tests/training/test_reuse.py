"""Reuse:

single uses are backpropagation, digits, plain loops on weights, the exact length of a
sample in both simulations.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import tutelage as tu
from tests.training import test_feedback_alignment as plain_tests
from tests.training.test_feedback_alignment import erf_slope, matrices
from tutelage.cli.app import main
from tutelage.simulation import draws, recorded_error
from tutelage.simulation.jax_steps import Step
from tutelage.simulation.prepare import level_layout, step_constants
from tutelage.training.rules import as_rule

LEVELS = tu.Spectrum([3.0, 1.0], [1 / 3, 2 / 3], normalize=False)
LENGTH = 5 / 3  # of |x|^2 / N, on average
START = tu.Start(plain_tests.START.R, plain_tests.START.Q, np.eye(2))
TEACHER = tu.Network(2, "erf")
READOUT = [0.6, 0.4]


def reused(times=3, lr=0.8, readout_lr=0.5, inputs=LEVELS, **optimizer):
    student = tu.Network(2, "erf", readout=READOUT, train_readout=True)
    optimizer = tu.SGD(lr, readout_lr=readout_lr, **optimizer)
    return tu.Problem(
        student, TEACHER, inputs=inputs, optimizer=optimizer, rule=tu.rules.Reuse(times)
    )


def numpy_sgd(problem, times, dim, runs, end, seed=0):
    """R, Q and v of plain SGD on weights:

    every use of a sample is a step of its own, which moves the readout too.
    """
    rng = np.random.default_rng(seed)
    dims = problem.inputs.level_dims(dim)
    gram = np.block([[np.eye(2), START.R.T], [START.R, START.Q]]) / float(
        np.sum(problem.inputs.weights)
    )
    parts = [
        np.linalg.cholesky(gram)
        @ np.linalg.qr(rng.standard_normal((n, 4)))[0].T
        * np.sqrt(n)
        for n in dims
    ]
    vectors = np.concatenate(parts, axis=1)
    W_teacher = vectors[:2]
    W = np.repeat(vectors[None, 2:], runs, axis=0)
    v = np.tile(READOUT, (runs, 1))
    lam = np.repeat(np.asarray(problem.inputs.eigenvalues), dims)
    lr = float(problem.optimizer.lr)
    readout_lr = float(problem.optimizer.readout_lr)
    for _ in range(round(end * dim)):
        x = np.sqrt(lam) * rng.standard_normal((runs, dim))
        y = special.erf(x @ W_teacher.T / np.sqrt(2 * dim)).sum(axis=1)
        for _ in range(times):
            fields = np.einsum("rkn,rn->rk", W, x) / np.sqrt(dim)
            g = special.erf(fields / np.sqrt(2))
            gap = y - np.sum(v * g, axis=1)
            delta = gap[:, None] * v * erf_slope(fields)
            v = v + readout_lr / dim * gap[:, None] * g
            W += lr / np.sqrt(dim) * delta[:, :, None] * x[:, None, :]
    return (lam * W) @ W_teacher.T / dim, (lam * W) @ W.swapaxes(1, 2) / dim, v


def largest_z(runs, theory):
    pairs = zip(runs, (theory.R[-1], theory.Q[-1], theory.readout[-1]), strict=True)
    return max(
        float(
            (abs(x.mean(axis=0) - y) / (x.std(axis=0, ddof=1) / np.sqrt(len(x)))).max()
        )
        for x, y in pairs
    )


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_one_use_is_backpropagation(loss):
    labels, size = ("real", 2) if loss == "squared" else ("sign", 1)
    unit = tu.Network(size, "erf" if size == 2 else "linear")
    start = START if size == 2 else tu.Start([[0.3]], [[0.8]])
    plain = tu.Problem(
        unit,
        unit,
        loss=loss,
        labels=labels,
        optimizer=tu.SGD(0.7),
        noise=0.2 if size == 2 else 0.0,
    )
    once = plain.replace(rule=tu.rules.Reuse(1))
    for a, b in zip(matrices(plain, start), matrices(once, start), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_digits():
    """A tanh unit, target -He3 / sqrt(6), correlation loss (rules-8 of the gallery)."""
    teacher = tu.Network(1, "he3", readout=-1 / np.sqrt(6))
    problem = tu.Problem(
        tu.Network(1, "tanh"),
        teacher,
        loss=lambda output, label: -jnp.sum(output * label),
        optimizer=tu.SGD(0.4, spherical=True),
        rule=tu.rules.Reuse(2),
    )
    theory = tu.solve(
        problem, tu.Start([[1000**-0.5]], [[1.0]]), [0.0, 10.0, 20.0, 30.0, 50.0]
    )
    np.testing.assert_allclose(
        theory.R[1:, 0, 0], [0.273, 0.459, 0.770, 0.948], atol=6e-4
    )


def test_two_uses_by_quadrature():
    """E[delta z] and E[delta^2] of one unit by a product rule of plain NumPy; |x|^2 / N enters."""
    R = 0.4
    Q = 0.8
    T = 1.0
    lr = 0.7
    c = LENGTH
    problem = tu.Problem(
        tu.Network(1, "erf"),
        tu.Network(1, "erf"),
        inputs=LEVELS,
        optimizer=tu.SGD(lr),
        rule=tu.rules.Reuse(2),
    )
    both, G, _, _ = matrices(problem, tu.Start([[R]], [[Q]], [[1.0]]))
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    rho = np.sqrt(T) * x[:, None]
    field = R / T * rho + np.sqrt(Q - R**2 / T) * x
    sums = {}
    for name, length in (("right", c), ("wrong", 1.0)):
        first = (
            special.erf(rho / np.sqrt(2)) - special.erf(field / np.sqrt(2))
        ) * erf_slope(field)
        moved = field + lr * length * first
        delta = first + (
            special.erf(rho / np.sqrt(2)) - special.erf(moved / np.sqrt(2))
        ) * erf_slope(moved)
        mean = lambda f: float(w @ f @ w)  # noqa: E731
        AB = np.linalg.solve([[Q, R], [R, T]], [mean(delta * field), mean(delta * rho)])
        sums[name] = *AB, mean(delta**2)
    np.testing.assert_allclose([*both[0], G[0, 0]], sums["right"], rtol=1e-7)
    assert np.abs(np.array([*both[0], G[0, 0]]) - sums["wrong"]).max() > 1e-2


def test_sgd_on_weights():
    """Two levels, three uses, a readout that moves at every use; two uses are another rule."""
    theory = tu.solve(reused(), START, [0.0, 1.5], moments=tu.Sampled(2**16), rtol=1e-5)
    runs = numpy_sgd(reused(), 3, 300, 60, 1.5)
    assert largest_z(runs, theory) < 4.5
    assert largest_z(numpy_sgd(reused(), 2, 300, 60, 1.5), theory) > 6


def states(problem, method, seed, dim=12, runs=400):
    found = tu.simulate(
        problem, START, dim=dim, times=[0.0, 3.0], runs=runs, seed=seed, method=method
    )
    return np.concatenate(
        [
            found.R[:, -1].reshape(runs, -1),
            found.Q[:, -1].reshape(runs, -1),
            found.readout[:, -1],
        ],
        axis=1,
    )


def smallest_p(one, other):
    return min(stats.ks_2samp(a, b).pvalue for a, b in zip(one.T, other.T, strict=True))


@pytest.mark.full
@pytest.mark.parametrize("frozen", [False, pytest.param(True, marks=pytest.mark.full)])
def test_both_simulations_agree_in_law(frozen, monkeypatch):
    """At small N the length of a sample varies; a chain with its mean is noticed."""
    monkeypatch.setattr(
        recorded_error,
        "errors_at_records",
        lambda problem, R, *rest: 2 * (np.zeros(np.shape(R)[:-2]),),
    )
    problem = reused(
        lr=1.5, trainable=[[True, False], [True, True]] if frozen else None
    )
    weights = states(problem, "weights", 2)
    assert smallest_p(states(problem, "overlaps", 1), weights) > 1e-4
    monkeypatch.setattr(
        Step, "norm2", lambda self, normals, *_: jnp.ones((1, 1, normals.shape[-1]))
    )
    jax.clear_caches()  # a compiled step would go on
    assert smallest_p(states(problem, "overlaps", 1), weights) < 1e-4


def test_length_of_a_sample(monkeypatch):
    """|x|^2 / N in the chain has mean tr(Omega) / N and variance 2 tr(Omega^2) / N^2."""
    seen = []
    original = Step.norm2

    def noted(self, *drawn):
        seen.append(self)
        return original(self, *drawn)

    monkeypatch.setattr(Step, "norm2", noted)
    problem = reused().replace(
        loss=lambda output, label: (label - output) ** 2 / 2
    )  # its step is not compiled yet
    tu.simulate(problem, START, dim=12, times=[0.0, 0.25], runs=1, seed=0)
    step = Step(
        problem, step_constants(problem, 12), level_layout(problem, np.array([4, 8]))
    )
    assert seen[0].outer == step.outer
    drawn = draws.from_counters(step, problem, draws.run_keys(0, 1), np.asarray(0), 500)
    lengths = np.asarray(
        jax.vmap(lambda z, c: original(step, z, c, None)[0, 0, 0])(
            drawn.normals, drawn.outside
        )
    )
    mean = (4 * 3 + 8) / 12
    variance = 2 * (4 * 9 + 8) / 144
    assert abs(lengths.mean() - mean) < 4 * np.sqrt(variance / 500)
    assert abs(lengths.var() / variance - 1) < 0.35


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (0, "times is 0; it must be a whole number, 1 or more"),
        (1.5, "times is 1.5; it must be a whole number"),
        (float("nan"), "times is nan; it must be a whole number"),
    ],
)
def test_bad_times(times, message):
    with pytest.raises(tu.InputError, match=message):
        tu.rules.Reuse(times)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ({"batch": 4}, "one sample at a time and batch is 4"),
        ({"momentum": 0.9}, "plain SGD"),
    ],
)
def test_what_it_cannot_be_combined_with(optimizer, message):
    with pytest.raises(tu.InputError, match=message):
        reused(**optimizer)


def test_files():
    problem = reused()
    assert str(tu.Problem.from_toml(problem.to_toml())) == str(problem)
    assert as_rule("reuse").times == 2


@pytest.mark.full
def test_a_file_compares(tmp_path, capsys):
    file = tmp_path / "problem.toml"
    file.write_text(reused(2, 0.5).to_toml())
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
