"""A finite data set by public names: solve, simulate, descent, files."""

import numpy as np
import pytest

import tutelage as tu


@pytest.fixture
def problem() -> tu.Problem:
    erf = tu.Network(1, "erf")
    return tu.Problem(
        erf, erf, noise=0.5, optimizer=tu.SGD(1.0), data=tu.DataSet(ratio=2.0)
    )


START = tu.Start(R=[[0.2]], Q=[[0.5]])


def test_training_error_falls_below_the_test_error(problem):
    theory = tu.solve(problem, START, 8.0, moments=tu.Sampled(2**13))
    assert theory.epochs[-1] == 4.0
    assert theory.train_loss[-1] < theory.train_loss[0]
    assert theory.loss[-1] > 1.5 * theory.train_loss[-1]
    np.testing.assert_array_equal(theory.train_error, theory.train_loss)
    best = tu.analysis.early_stopping(theory)
    assert 0 < best.time < 8.0


def test_gradient_descent_counts_steps(problem):
    descent = tu.optimizers.GradientDescent(lr=1.0, share=0.5)
    problem = problem.replace(optimizer=descent)
    theory = tu.solve(problem, START, [0.0, 1.0, 4.0], moments=tu.Sampled(2**12))
    runs = tu.simulate(problem, START, dim=100, times=[0.0, 1.0, 4.0], runs=4)
    assert runs.step.tolist() == [0, 1, 4]
    assert theory.epochs.tolist() == [0.0, 0.5, 2.0]
    assert np.abs(runs.R.mean(0) - theory.R).max() < 0.1


def test_the_accuracy_is_reached(problem):
    theory = tu.solve(problem, START, [0.0, 1.0, 4.0], accuracy=0.02)
    assert theory.accuracy is not None
    assert theory.accuracy < 0.02
    for name in ("R", "Q", "error", "loss", "train_error", "train_loss"):
        assert np.all(theory.sampling_errors[name] >= 0)
        assert np.any(theory.sampling_errors[name] > 0)


@pytest.mark.parametrize("form", ["dict", "toml", "json"])
def test_a_data_set_survives_its_file(problem, form):
    problem = problem.replace(
        order="epochs",
        optimizer=tu.optimizers.GradientDescent(0.3, weight_decay=0.1),
    )
    written = getattr(problem, f"to_{form}")()
    read = getattr(tu.Problem, f"from_{form}")(written)
    assert read.to_dict() == problem.to_dict()
    assert repr(read) == repr(problem)
    assert read.data == tu.DataSet(2.0, "epochs")
