"""The law of runs with every optimizer: next to plain NumPy loops, and to the theory."""

import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import ks_2samp

import tutelage as tu

o = tu.optimizers
START = tu.Start(R=[[0.3, 0.05], [0.0, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])
DIM = 50
STEPS = 100
RUNS = 300
RATE = 0.3
EACH = {
    "sgd": o.SGD(RATE),
    "sign": o.SignSGD(RATE),
    "sign of batches": o.SignSGD(RATE, 3),
    "rmsprop": o.RMSprop(RATE, initial_scale=0.3),
    "adam": o.Adam(RATE),
    "adagrad": o.AdaGrad(RATE, initial_scale=0.3),
    "adagrad norm": o.AdaGrad(RATE, initial_scale=0.1, norm=True),
    "muon": o.Muon(RATE, 3),
}
# another optimizer at the same rate, whose law must differ
CONTROL = {
    "sgd": "rmsprop",
    "sign": "sign of batches",
    "sign of batches": "muon",
    "rmsprop": "sgd",
    "adam": "sgd",
    "adagrad": "adam",
    "adagrad norm": "sgd",
    "muon": "sign",
}


def random_weights(rng):
    """Weights (run, unit, dimension) in a random frame, with the overlaps of START."""
    R = np.array(START.R)
    gram = np.block([[np.eye(2), R.T], [R, np.array(START.Q)]])
    frame, _ = np.linalg.qr(rng.standard_normal((RUNS, DIM, 4)))
    vectors = np.sqrt(DIM) * np.linalg.cholesky(gram) @ np.swapaxes(frame, 1, 2)
    return vectors[:, 2:], vectors[:, :2]


def plain_errors(name, seed):
    """Errors at the end of plain loops over weights, side by side."""
    rng = np.random.default_rng(seed)
    optimizer = EACH[name]
    batch = int(optimizer.batch)
    w, teacher = random_weights(rng)
    start = float(getattr(optimizer, "initial_scale", 0.0))
    scale = np.full_like(w, start)
    mean = np.zeros_like(w)
    norm_scale = np.full((RUNS, 1, 1), start)
    for step in range(STEPS):
        x = rng.standard_normal((RUNS, DIM, batch))
        fields = w @ x / np.sqrt(DIM)
        labels = erf(teacher @ x / np.sqrt(2 * DIM)).sum(axis=1, keepdims=True)
        gap = labels - erf(fields / np.sqrt(2)).sum(axis=1, keepdims=True)
        delta = gap * np.sqrt(2 / np.pi) * np.exp(-(fields**2) / 2)
        g = delta @ np.swapaxes(x, 1, 2) / batch
        if name.startswith("sign"):
            g = np.sign(g)
        elif name == "muon":
            left, _, right = np.linalg.svd(g, full_matrices=False)
            g = np.sqrt(DIM) * left @ right
        elif name == "adagrad norm":
            norm_scale += np.sum(g**2, axis=(1, 2), keepdims=True) / DIM**2
            g = g / np.sqrt(norm_scale)
        elif name == "adagrad":
            scale += g**2 / DIM
            g = g / np.sqrt(scale)
        elif name == "rmsprop":
            scale += (g**2 - scale) / DIM
            g = g / np.sqrt(scale)
        elif name == "adam":
            scale += (g**2 - scale) / DIM
            mean = 0.9 * mean + 0.1 * g
            unbiased = scale / (1 - (1 - 1 / DIM) ** (step + 1))
            g = mean / (1 - 0.9 ** (step + 1)) / np.sqrt(unbiased)
        w = w + RATE / np.sqrt(DIM) * g
    problem = tu.Problem(tu.Network(2), tu.Network(2))
    R = w @ np.swapaxes(teacher, 1, 2) / DIM
    Q = w @ np.swapaxes(w, 1, 2) / DIM
    return np.asarray(tu.generalization_error(problem, R, Q))


def compiled_errors(name, seed):
    problem = tu.Problem(tu.Network(2), tu.Network(2), optimizer=EACH[name])
    runs = tu.simulate(
        problem,
        START,
        dim=DIM,
        times=[0.0, STEPS / DIM],
        runs=RUNS,
        seed=seed,
        method="weights",
    )
    return np.asarray(runs.error[:, -1])


@pytest.mark.parametrize("name", EACH)
def test_runs_have_the_law_of_plain_loops(name):
    compiled = compiled_errors(name, 1)
    assert ks_2samp(compiled, plain_errors(name, 2)).pvalue > 1e-3
    assert ks_2samp(compiled, plain_errors(CONTROL[name], 3)).pvalue < 1e-6


def student(hidden, activation, **options):
    return tu.Network(hidden, activation, readout=np.full(hidden, 0.8), **options)


def case(K, M, activation, optimizer, **options):
    return tu.Problem(
        student(K, activation),
        tu.Network(M, activation),
        optimizer=optimizer,
        **options,
    )


SIGNS = tu.labels.Sign(flip=0.1)
LEVELS = tu.Spectrum([1.6, 0.4], [0.5, 0.5])
AGAINST_THEORY = {
    "one relu unit": case(1, 1, "relu", o.RMSprop(0.1)),
    "four units, three teachers": case(4, 3, "erf", o.Adam(0.2), noise=0.3),
    "three tanh units": case(3, 2, "tanh", o.AdaGrad(0.2)),
    "relu, batches": case(2, 2, "relu", o.RMSprop(0.1, batch=3), noise=0.2),
    "flipped signs": case(1, 1, "linear", o.Adam(0.3), loss="logistic", labels=SIGNS),
    "sign-SGD, flipped signs": case(
        1, 1, "linear", o.SignSGD(0.3), loss="logistic", labels=SIGNS
    ),
    "two levels": case(2, 1, "erf", o.SignSGD(0.2, 2), inputs=LEVELS),
    "power law": case(1, 1, "erf", o.Adam(0.2), inputs=tu.PowerLaw(0.5, levels=8)),
    "three tanh units, Muon": case(3, 3, "tanh", o.Muon(0.2, 4), noise=0.2),
}


@pytest.mark.full
@pytest.mark.parametrize("name", AGAINST_THEORY)
def test_theory_is_inside_the_band(name):
    problem = AGAINST_THEORY[name]
    start = tu.asymmetric_start(problem, dim=1000)
    times = [0.0, 1.0, 3.0]
    theory = tu.solve(problem, start, times, accuracy=None)
    runs = tu.simulate(problem, start, dim=1000, times=times, runs=30, method="weights")
    for quantity in ("R", "Q"):
        values = np.asarray(runs.variables[quantity])
        scatter = values.std(axis=0, ddof=1) / np.sqrt(30)
        gap = np.abs(values.mean(axis=0) - theory.variables[quantity])
        # the limit drops terms of the order ln(N) / N
        assert np.all(gap < 4 * scatter + 4e-3)


@pytest.mark.full
@pytest.mark.parametrize(
    "optimizer", [o.Adam(0.3), o.AdaGrad(0.6, norm=True)], ids=repr
)
def test_the_gap_at_small_dimensions_shrinks_with_them(optimizer):
    """It falls at least like ln(N) / N, up to four standard errors.

    The first steps of Adam divide by few squares: after n steps the relative error of a
    factor is of the order 1 / n, which sums to ln(N alpha) / N.
    """
    unit = tu.Network(1)
    problem = tu.Problem(unit, unit, optimizer=optimizer)
    start = tu.Start(R=[[0.2]], Q=[[0.5]])
    times = [0.0, 0.5, 1.0]
    theory = tu.solve(problem, start, times).R[1:, 0, 0]
    gaps = []
    errors = []
    for dim in (125, 250, 500):
        runs = tu.simulate(
            problem, start, dim=dim, times=times, runs=1500, seed=dim, method="weights"
        )
        R = np.asarray(runs.R)[:, 1:, 0, 0]
        gaps.append(np.abs(R.mean(axis=0) - theory))
        errors.append(R.std(axis=0, ddof=1) / np.sqrt(1500))
    expected = gaps[0] * np.log(500) / 500 / (np.log(125) / 125)
    allowed = 4 * np.hypot(errors[2], errors[0] / 3)
    # a constant a in (a + c ln N) / N adds up to this factor between 125 and 500
    assert np.all(gaps[2] < 1.5 * expected + allowed)
    assert np.all(gaps[2] < gaps[0] + allowed)
