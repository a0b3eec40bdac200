"""Training of finite networks on data sets that each run draws."""

import numpy as np
import pytest

import tutelage as tu
from tests.dataset import naive, problems
from tutelage.simulation import numba_kernels, prepare
from tutelage.simulation.data_sets import SampleOrder

TIMES = np.array([0.0, 1.0, 3.0])


def test_steps_are_those_of_a_plain_loop():
    """Batches of two, weight decay, a trained readout and trained biases."""
    rng = np.random.default_rng(0)
    N, n, steps = 12, 20, 30
    problem = tu.Problem(
        tu.Network(2, "erf", train_readout=True, bias=0.0, train_bias=True),
        tu.Network(2, "erf"),
        optimizer=tu.SGD(0.5, batch=2),
        data=tu.DataSet(n / N),
    )
    constants = prepare.step_constants(problem, N)
    X = rng.standard_normal((n, N))
    y = rng.standard_normal(n)
    W = rng.standard_normal((2, N))
    v = np.array([1.0, 0.5])
    b = np.array([0.1, -0.1])
    visits = rng.integers(n, size=(steps, 2))
    rates = np.tile([0.5, 0.01, 0.02, 0.03], (steps, 1))
    expected = (W.copy(), v.copy(), b.copy())
    w, readout, bias = expected
    for chosen in visits:
        g, slope = naive.erf_unit(X[chosen] @ w.T / np.sqrt(N) + bias)
        gap = y[chosen] - g @ readout
        delta = gap[:, None] * readout * slope
        w *= 1 - 0.01
        w += 0.5 / (2 * np.sqrt(N)) * delta.T @ X[chosen]
        readout += 0.02 / 2 * gap @ g
        bias += 0.03 / 2 * delta.sum(0)
    numba_kernels.train_on_samples(constants, X, y, visits, rates, W, v, b)
    for found, plain in zip((W, v, b), expected, strict=True):
        np.testing.assert_allclose(found, plain, rtol=1e-12)


def test_epochs_visit_every_sample_once():
    order = SampleOrder("epochs", 10, np.random.default_rng(0))
    visits = np.concatenate([order.next(7) for _ in range(10)])
    for epoch in visits.reshape(7, 10):
        assert sorted(epoch) == list(range(10))
    assert len({tuple(epoch) for epoch in visits.reshape(7, 10)}) == 7
    order = SampleOrder("replacement", 10, np.random.default_rng(0))
    counts = np.bincount(order.next(1000), minlength=10)
    assert np.all(np.abs(counts - 100) < 50)


READOUTS = tu.Problem(
    tu.Network(2, "tanh", train_readout=True, bias=[0.1, -0.2], train_bias=True),
    tu.Network(2, "erf", readout=[1.0, -0.5], bias=[0.2, 0.0]),
    noise=0.2,
    optimizer=tu.SGD(0.8, readout_lr=0.3, bias_lr=0.4),
    data=tu.DataSet(1.5),
)
HINGE = problems.LOGISTIC.replace(loss="hinge", lr=1.0, ratio=1.5)
SCHEDULE = tu.schedules.Piecewise([1.3], [1.5, 0.4])
CASES = {
    "epochs, batches, levels": (
        problems.TWO_LEVELS.replace(
            data=tu.DataSet(1.5, "epochs"), optimizer=tu.SGD(1.5, batch=3)
        ),
        problems.TWO_LEVELS_START,
        TIMES / 3,
    ),
    "readout and biases": (READOUTS, problems.COMMITTEE_START, TIMES),
    "readout and biases in epochs": (
        READOUTS.replace(order="epochs"),
        problems.COMMITTEE_START,
        TIMES,
    ),
    "schedule": (
        problems.COMMITTEE.replace(optimizer=tu.SGD(SCHEDULE), ratio=1.5),
        problems.COMMITTEE_START,
        TIMES,
    ),
    "share": (
        problems.COMMITTEE.replace(
            optimizer=problems.Descent(0.6, share=0.3, weight_decay=0.02), ratio=1.5
        ),
        problems.COMMITTEE_START,
        np.array([0.0, 3.0, 12.0]),
    ),
    "hinge": (HINGE, tu.Start(R=[[0.2]], Q=[[0.4]]), TIMES),
}
QUICK = ("epochs, batches, levels", "readout and biases in epochs", "share", "hinge")


def require_agreement(name: str, dim: int, runs: int, paths: int) -> None:
    """Compare theory and simulation: all |z| below 4.5."""
    problem, start, times = CASES[name]
    found = tu.simulate(problem, start, dim=dim, times=times, runs=runs, seed=1)
    theory = tu.solve(problem, start, times, moments=tu.Sampled(paths))
    names = ["R", "Q", "train_loss", "train_error"]
    if problem.student.train_readout:
        names += ["readout", "bias"]
    for quantity in names:
        values = found[quantity][:, 1:]
        error = values.std(axis=0, ddof=1) / np.sqrt(runs)
        error = np.hypot(error, theory.sampling_errors[quantity][1:] / 2)
        z = (values.mean(axis=0) - theory[quantity][1:]) / error
        assert np.max(np.abs(z)) < 4.5, (quantity, z)


@pytest.mark.parametrize("name", QUICK)
def test_simulations_agree_with_the_theory(name):
    require_agreement(name, dim=300, runs=24, paths=2**13)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_large_simulations_agree_with_the_theory(name):
    require_agreement(name, dim=800, runs=80, paths=2**15)


def test_rows_and_labels_of_a_user():
    """One step of gradient descent on all rows is that of a plain formula."""
    rng = np.random.default_rng(3)
    N, n = 10, 15
    X = rng.standard_normal((n, N))
    y = rng.standard_normal(n)
    W = rng.standard_normal((1, N))
    teacher = rng.standard_normal((1, N))
    problem = problems.REGRESSION.replace(optimizer=problems.Descent(0.2))
    runs = tu.simulate(
        problem, times=[0.0, 1.0], weights=(W, teacher), inputs=X, labels=y, runs=2
    )
    gap = y - X @ W[0] / np.sqrt(N)
    after = W[0] + 0.2 * np.sqrt(N) / n * gap @ X
    np.testing.assert_allclose(runs.Q[:, 1, 0, 0], after @ after / N, rtol=1e-10)
    loss = np.mean((y - X @ after / np.sqrt(N)) ** 2) / 2
    np.testing.assert_allclose(runs.train_loss[:, 1], loss, rtol=1e-10)
    others = tu.simulate(problem, times=1.0, weights=(W, teacher), inputs=X, runs=2)
    assert np.all(np.abs(others.train_loss[:, -1] - loss) > 1e-3)


def test_a_part_of_the_labels_that_inputs_do_not_carry():
    """For a linear teacher it is label noise of the same variance."""
    unit = tu.Network(1, "linear", unseen=[[0.09]])
    unseen = problems.REGRESSION.replace(teacher=unit, noise=0.0)
    start = problems.REGRESSION_START
    moments = tu.Sampled(2**13)
    noisy = tu.solve(problems.REGRESSION, start, TIMES, moments=moments)
    found = tu.solve(unseen, start, TIMES, moments=moments)
    for name in ("Q", "train_loss", "loss"):
        bound = np.hypot(found.sampling_errors[name], noisy.sampling_errors[name])
        assert np.all(np.abs(found[name] - noisy[name]) <= 2 * bound + 1e-12), name
    assert found.loss is not None
    np.testing.assert_allclose(found.error, found.loss)
    seen = problems.REGRESSION.replace(noise=0.0)
    assert abs(tu.solve(seen, start, TIMES, moments=moments).Q - found.Q)[-1] > 0.02


def test_compare_and_files(tmp_path):
    problem = problems.COMMITTEE.replace(ratio=1.5)
    start = problems.COMMITTEE_START
    times = np.linspace(0.0, 4.0, 5)
    theory = tu.solve(problem, start, times, moments=tu.Sampled(2**13))
    runs = tu.simulate(problem, start, dim=300, times=times, runs=12, seed=2)
    assert runs.train_loss.shape == (12, 5)
    assert tu.compare(theory, runs).verdict.outcome == "agree"
    loaded = tu.load(theory.save(tmp_path / "theory.nc"))
    np.testing.assert_array_equal(loaded.train_error, theory.train_error)
    for name, bound in theory.sampling_errors.items():
        np.testing.assert_array_equal(loaded.sampling_errors[name], bound)
    assert loaded.problem is not None
    assert loaded.problem.data == problem.data
    np.testing.assert_allclose(loaded.epochs, times / 1.5)


def test_runs_depend_on_their_number_alone():
    problem = problems.REGRESSION
    start = problems.REGRESSION_START
    few = tu.simulate(problem, start, dim=40, times=2.0, runs=2, seed=5, workers=1)
    many = tu.simulate(problem, start, dim=40, times=2.0, runs=3, seed=5, workers=2)
    np.testing.assert_array_equal(few.R, many.R[:2])
    assert np.any(many.R[0] != many.R[1])


def test_a_sweep_over_the_size_of_the_data_set():
    found = tu.sweep(
        problems.REGRESSION,
        over={"ratio": [1.0, 3.0]},
        measure="early_stopping.value",
        start=problems.REGRESSION_START,
        times=np.array([0.0, 0.5, 1.0]),
        workers=1,
    )
    values = found.dataset["early_stopping.value"].values
    assert np.all(np.isfinite(values))
    assert values[1] < values[0]
