"""Trajectories that the tests of the verbs reading a curve share; solved once, with 201 times each to compile little."""

import warnings
from functools import cache

import equinox as eqx
import numpy as np

import tutelage as tu
from tests.problems import pair, symmetric_overlaps

COUNT = 201
TILT = np.array([[1.0, -1.0], [-1.0, 1.0]])
# The symmetric plateau of K = M = 2 at learning rate 0.5 (tests/test_facts.py):
# overlaps, error and the rate of escape.
PLATEAU = (0.414394, 0.414394, 0.367720, 0.325386)
HEIGHT = 0.01464485
RATE = 0.031618


def grid(name, end):
    return (
        tu.log_times(1e-3 * end, end, COUNT)
        if name == "log"
        else tu.linear_times(end, COUNT)
    )


@cache
def from_plateau(asymmetry, spacing="linear", end=800.0):
    """A start on the plateau itself, R - S tilted by `asymmetry`."""
    R, Q = symmetric_overlaps(2, *PLATEAU)
    return tu.solve(
        pair(2, 2), tu.Start(R + asymmetry / 2 * TILT, Q), grid(spacing, end)
    )


@cache
def from_outside(asymmetry, spacing="linear", noise=0.0, end=800.0):
    """A start well above the plateau."""
    start = tu.Start(0.1 + asymmetry / 2 * TILT, 0.1 * np.eye(2))
    return tu.solve(pair(2, 2, noise=noise), start, grid(spacing, end))


@cache
def specialized_start(noise=0.0, end=800.0):
    """A start that meets no plateau."""
    return tu.solve(
        pair(2, 2, noise=noise),
        tu.Start(0.4 * np.eye(2) + 0.1, 0.5 * np.eye(2)),
        grid("linear", end),
    )


@cache
def runs(spacing, noise=0.0, dim=1000, count=6, end=400.0):
    """Networks of a finite size from one start near the plateau."""
    problem = pair(2, 2, noise=noise)
    R, Q = symmetric_overlaps(2, 0.35, 0.35, 0.30, 0.26)
    start = tu.Start(R + 0.005 * TILT, Q, dim=dim)
    return tu.simulate(problem, start, times=grid(spacing, end), runs=count, seed=5)


# A teacher that lives in the two per cent of directions with large variance; noise is
# learned in all of them.
EIGENVALUES = np.array([25.0, 0.5 / 0.98])
FRACTIONS = np.array([0.02, 0.98])
LR = 0.5
NOISE = 0.5


def linear_problem(lr=LR, noise=NOISE):
    inputs = tu.Spectrum(EIGENVALUES, FRACTIONS)
    return tu.Problem(
        tu.Network(1, "linear"),
        tu.Network(1, "linear"),
        inputs=inputs,
        optimizer=tu.SGD(lr),
        noise=noise,
    )


def linear_start(dim=None):
    nothing = np.zeros((2, 1, 1))
    return tu.Start(nothing, nothing, np.array([[[1.0]], [[0.0]]]), dim=dim)


@cache
def linear(lr=LR, noise=NOISE, end=6.0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tu.errors.DivergenceWarning)
        return tu.solve(linear_problem(lr, noise), linear_start(), grid("linear", end))


@cache
def scheduled(switches, values, end=6.0):
    """The same under a learning rate that jumps."""
    rate = tu.schedules.Piecewise(list(switches), list(values))
    return tu.solve(linear_problem(rate), linear_start(), grid("linear", end))


def thinned(trajectory, every):
    """Only every n-th recorded time."""
    keep = slice(None, None, every)
    lead = (slice(None),) * (np.ndim(trajectory.error) - 1)
    variables = {
        name: value[(*lead, keep)] for name, value in trajectory.variables.items()
    }
    parts = (trajectory.times[keep], variables, trajectory.error[(*lead, keep)])
    return eqx.tree_at(lambda t: (t.times, t.variables, t.error), trajectory, parts)


def of_curve(times, error, **variables):
    """A trajectory of one's own equations: an error, and numbers by name."""
    variables = {name: np.asarray(value) for name, value in variables.items()} or {
        "x": np.zeros_like(error)
    }
    return tu.Trajectory(
        times, variables, error, np.array(0), times[-1], np.array(1), kind="equations"
    )


def of_overlaps(R, Q, T, activation="erf"):
    """A trajectory with these overlaps, (time, ...), and an error that does not matter."""
    K, M = R.shape[1:]
    times = np.linspace(0.0, 1.0, len(R))
    problem = tu.Problem(tu.Network(K, activation), tu.Network(M, activation))
    error = np.linspace(1.0, 0.5, len(R))
    return tu.Trajectory(
        times,
        {"R": R, "Q": Q},
        error,
        np.array(0),
        times[-1],
        np.array(1),
        T=T,
        problem=problem,
    )
