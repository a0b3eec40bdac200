"""Runs from recorded arrays: weights, or overlaps alone."""

import numpy as np
import pytest

import tutelage as tu

N = 40
ERF = tu.Network(2, "erf")
PROBLEM = tu.Problem(ERF, ERF, optimizer=tu.SGD(lr=0.5))
TIMES = np.array([0.0, 0.5, 1.0])
RNG = np.random.default_rng(0)
TEACHER = RNG.standard_normal((2, N))
WEIGHTS = RNG.standard_normal((3, 3, 2, N))  # run, time, unit, input
R = WEIGHTS @ TEACHER.T / N
Q = WEIGHTS @ WEIGHTS.swapaxes(-1, -2) / N
T = TEACHER @ TEACHER.T / N


def from_weights(weights=WEIGHTS, **options):
    return tu.runs_from_weights(TIMES, weights, TEACHER, PROBLEM, **options)


def from_overlaps(R=R, Q=Q, times=TIMES, problem=PROBLEM, T=T, **options):
    return tu.runs_from_overlaps(times, R, Q, problem, T=T, dim=N, **options)


def test_weights_and_their_overlaps_give_the_same_runs():
    by_weights = from_weights()
    by_overlaps = from_overlaps()
    for name in ("R", "Q", "r", "q"):
        np.testing.assert_allclose(by_weights[name], by_overlaps[name], rtol=1e-12)
    np.testing.assert_allclose(by_weights.error, by_overlaps.error, rtol=1e-10)
    np.testing.assert_allclose(by_weights.T, by_overlaps.T, rtol=1e-12)


def test_one_run_needs_no_axis_of_runs():
    np.testing.assert_allclose(from_weights(WEIGHTS[0]).R, R[:1])
    np.testing.assert_allclose(from_overlaps(R[0], Q[0]).Q, Q[:1])


def test_simulated_overlaps_come_back_as_the_same_runs():
    """Also per level, with trained readouts and biases."""
    student = tu.Network(2, "erf", train_readout=True, train_bias=True)
    spectrum = tu.Spectrum([1.5, 0.5], [0.5, 0.5])
    problem = tu.Problem(student, ERF, spectrum, tu.SGD(lr=0.5))
    start = tu.asymmetric_start(problem, dim=N)
    runs = tu.simulate(problem, start, times=TIMES, runs=3, seed=1)
    again = tu.runs_from_overlaps(
        TIMES, runs.r, runs.q, problem, dim=N, readout=runs.readout, bias=runs.bias
    )
    np.testing.assert_allclose(again.error, runs.error, rtol=1e-10)
    np.testing.assert_allclose(again.R, runs.R, rtol=1e-10)
    assert again.start is not None
    sums = tu.runs_from_overlaps(
        TIMES, runs.R, runs.Q, problem, dim=N, readout=runs.readout, bias=runs.bias
    )
    np.testing.assert_allclose(sums.error, runs.error, rtol=1e-10)
    assert "r" not in sums.variables


def test_overlaps_of_classes_are_per_level():
    mixture = tu.Mixture([[1.0], [-1.0]], gram=[[4.0]], labels=[1, -1])
    problem = tu.Problem(tu.Network(1, "linear"), inputs=mixture, loss="logistic")
    start = tu.Start(R=[[0.1]], Q=[[0.5]], dim=N)
    runs = tu.simulate(problem, start, times=TIMES, runs=2, seed=1)
    again = tu.runs_from_overlaps(TIMES, runs.r, runs.q, problem, dim=N)
    np.testing.assert_allclose(again.error, runs.error, rtol=1e-10)
    with pytest.raises(tu.InputError, match=r"mixture.*per level"):
        tu.runs_from_overlaps(TIMES, runs.R, runs.Q, problem, dim=N)


def with_nan(array, place):
    changed = array.copy()
    changed[place] = np.nan
    return changed


TRAINED = tu.Problem(tu.Network(2, "erf", train_readout=True), ERF)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_weights(WEIGHTS[:, :2]), r"3 times and 2 student units"),
        (lambda: from_weights(WEIGHTS[..., :-1]), r"N is 40"),
        (lambda: from_weights(with_nan(WEIGHTS, (1, 2, 0, 0))), "contain nan at step"),
        (lambda: from_weights(readout=np.ones((3, 2, 2))), "3 runs and 3 times"),
        (lambda: from_overlaps(R[:, :2]), "R has shape"),
        (lambda: from_overlaps(R, Q[:2]), "Q has shape"),
        (lambda: from_overlaps(R, -Q), "positive semidefinite"),
        (lambda: from_overlaps(with_nan(R, (1, 2, 0, 1))), r"nan at \(1, 2, 0, 1\)"),
        (lambda: from_overlaps(times=[0.0, 1.0, 0.5]), "must increase"),
        (lambda: from_overlaps(times=1.0), "times has shape"),
        (lambda: from_overlaps(problem="problem"), "Problem"),
        (lambda: from_overlaps(T=np.eye(3)), "T has shape"),
        (lambda: from_overlaps(10 * R), "positive semidefinite"),
        (lambda: from_overlaps(problem=TRAINED), "readout is None"),
    ],
)
def test_bad_arrays(call, message):
    with pytest.raises(tu.InputError, match=message):
        call()
