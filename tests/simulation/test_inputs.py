"""Other laws and real rows: what the weights method learns from."""

import numpy as np
import pytest

import tutelage as tu
from tutelage.simulation.runs import stream
from tutelage.simulation.weights import LAWS, drawn_rows, given_rows

PROBLEM = tu.Problem(
    tu.Network(2, "erf"),
    tu.Network(2, "erf"),
    inputs=tu.Spectrum([2.0, 0.5], [0.5, 0.5]),
    optimizer=tu.SGD(0.5),
)
START = tu.Start(R=[[0.4, 0.1], [0.0, 0.5]], Q=[[0.6, 0.1], [0.1, 0.7]])


@pytest.mark.parametrize("law", [law for law in LAWS if law != "student_t3"])
def test_laws_have_the_variance_of_their_level(law):
    dims = np.array([20, 20])
    source = drawn_rows(PROBLEM, dims, law, stream(0, 0))
    block = np.concatenate([source(0, 1000) for _ in range(40)])
    lam = np.repeat(PROBLEM.inputs.eigenvalues, dims)
    covariance = block.T @ block / block.shape[0]
    tail = 9.0 if law == "student_t" else 3.0  # kurtosis
    assert np.abs(block.mean(axis=0)).max() < 5 * np.sqrt(lam.max() / block.shape[0])
    assert np.abs(covariance - np.diag(lam)).max() < 6 * lam.max() * np.sqrt(
        tail / block.shape[0]
    )
    kurtosis = np.mean(block**4, axis=0) / lam**2
    expected = {"gaussian": 3.0, "rademacher": 1.0, "uniform": 1.8, "student_t": 9.0}[
        law
    ]
    assert abs(kurtosis.mean() - expected) < (1.5 if law == "student_t" else 0.1)


def test_three_degrees_of_freedom():
    """Its moments tell nothing (the fourth is infinite); its quantiles do, and tell it from five degrees."""
    from scipy import stats

    problem = tu.Problem(tu.Network(1), tu.Network(1))
    rows = drawn_rows(problem, np.array([20]), "student_t3", stream(0, 0))(
        0, 1000
    ).ravel()
    assert stats.kstest(rows, stats.t(3, scale=np.sqrt(1 / 3)).cdf).pvalue > 1e-3
    assert stats.kstest(rows, stats.t(5, scale=np.sqrt(3 / 5)).cdf).pvalue < 1e-6


def test_gaussian_rows_are_those_of_numpy():
    source = drawn_rows(
        tu.Problem(tu.Network(1), tu.Network(1)),
        np.array([7]),
        "gaussian",
        stream(1, 0),
    )
    np.testing.assert_array_equal(source(0, 5), stream(1, 0).standard_normal((5, 7)))


@pytest.mark.parametrize("law", LAWS)
def test_many_coordinates_make_any_law_gaussian(law):
    theory = tu.solve(PROBLEM, START, times=[0.0, 1.0, 3.0])
    runs = tu.simulate(
        PROBLEM,
        START,
        dim=400,
        times=[0.0, 1.0, 3.0],
        runs=30,
        method="weights",
        inputs=law,
    )
    gap = np.abs(runs.error.mean(axis=0) - theory.error)
    assert np.all(gap[1:] < 4 * runs.error.std(axis=0)[1:] / np.sqrt(30) + 2.0 / 400)


def test_orders_of_rows():
    data = np.arange(12.0)[:, None] * np.ones(2)
    problem = tu.Problem(tu.Network(1), tu.Network(1))
    rows = {
        order: given_rows(problem, data, order, stream(0, 0))
        for order in ("given", "shuffled", "sampled")
    }
    given = np.concatenate([rows["given"](i, 4) for i in (0, 4, 8)])[:, 0]
    shuffled = np.concatenate([rows["shuffled"](i, 4) for i in (0, 4, 8)])[:, 0]
    sampled = np.concatenate([rows["sampled"](i, 40) for i in range(10)])[:, 0]
    np.testing.assert_array_equal(given, data[:, 0])
    assert not np.array_equal(shuffled, given)
    np.testing.assert_array_equal(np.sort(shuffled), given)
    assert set(sampled) == set(given)


def test_rows_of_whole_numbers_and_sampling_beyond_them():
    data = np.random.default_rng(0).integers(-2, 3, size=(50, 8))
    problem = tu.Problem(tu.Network(2), tu.Network(2), optimizer=tu.SGD(0.1))
    runs = tu.simulate(
        problem, START, inputs=data, order="sampled", times=[0.0, 20.0], runs=2
    )
    assert runs.finished
    assert runs.dim == 8
    assert not np.allclose(runs.Q[0], runs.Q[1])


def test_images_and_a_file_of_images_are_rows(tmp_path):
    images = np.random.default_rng(0).standard_normal((50, 2, 4))
    np.save(tmp_path / "images.npy", images)
    problem = tu.Problem(tu.Network(2), tu.Network(2), optimizer=tu.SGD(0.1))
    rows, *others = (
        tu.simulate(problem, START, inputs=inputs, times=[0.0, 6.0], runs=1).Q
        for inputs in (
            images.reshape(50, 8),
            images,
            str(tmp_path / "images.npy"),
            tmp_path / "images.npy",
        )
    )
    for other in others:
        np.testing.assert_array_equal(other, rows)


def test_measured_rows_are_centered_scaled_and_rotated():
    """The loop on raw rows, with (row - center) / sqrt(scale) for x, gives the same overlaps."""
    rng = np.random.default_rng(2)
    data = rng.standard_normal((300, 6)) @ rng.standard_normal((6, 6)) + 3.0
    problem = tu.Problem(
        tu.Network(2),
        tu.Network(1),
        inputs=tu.from_data(data).inputs,
        optimizer=tu.SGD(0.3),
    )
    W = rng.standard_normal((2, 6))
    W_teacher = rng.standard_normal((1, 6))
    runs = tu.simulate(problem, weights=(W, W_teacher), inputs=data, times=[0.0, 50.0])
    x = (data - problem.inputs.center) / np.sqrt(problem.inputs.scale)
    g = problem.student.activation
    slope = problem.student.activation.slope
    for row in x:
        fields = W @ row / np.sqrt(6)
        delta = float(np.sum(g(W_teacher @ row / np.sqrt(6))) - np.sum(g(fields)))
        W = W + 0.3 / np.sqrt(6) * (delta * np.asarray(slope(fields)))[:, None] * row
    covariance = x.T @ x / x.shape[0]
    np.testing.assert_allclose(
        runs.R[0, -1], W @ covariance @ W_teacher.T / 6, atol=1e-11
    )
    np.testing.assert_allclose(runs.Q[0, -1], W @ covariance @ W.T / 6, atol=1e-11)


def test_memory_stays_bounded():
    """N = 10^5: blocks of rows, never samples x N."""
    import tracemalloc

    problem = tu.Problem(
        tu.Network(1, "linear"), tu.Network(1, "linear"), optimizer=tu.SGD(0.5)
    )
    tu.simulate(
        problem,
        tu.Start([[0.1]], [[1.0]]),
        dim=100,
        times=[0.01],
        runs=1,
        method="weights",
    )
    tracemalloc.start()
    tu.simulate(
        problem,
        tu.Start([[0.1]], [[1.0]]),
        dim=100_000,
        times=[0.0, 0.001],
        runs=1,
        method="weights",
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # 100 samples alone would be 80 MB
