"""Theory of the optimizers: published digits, direct runs, and negative controls."""

import numpy as np
import pytest

import tutelage as tu

o = tu.optimizers
ERF = tu.Network(2)
ONE = tu.Network(1)
LINEAR = tu.Network(1, "linear")
START = tu.Start(R=[[0.3, 0.05], [0.0, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])
TILTED = tu.Start(R=[[0.3, 0.05], [0.02, 0.2]], Q=[[0.5, 0.1], [0.1, 0.4]])
UNEQUAL = tu.Network(2, readout=[1.0, 0.5])
TIMES = [0.0, 1.0, 2.0, 4.0]


def overlaps(theory: tu.Trajectory) -> np.ndarray:
    """R by rows, then the upper triangle of Q, at the last time."""
    upper = np.triu_indices(theory.Q.shape[-1])
    return np.concatenate([theory.R[-1].ravel(), theory.Q[-1][upper]])


def single(R: float, Q: float) -> tu.Start:
    return tu.Start(R=[[R]], Q=[[Q]])


def solved(problem: tu.Problem, start: tu.Start, times) -> tu.Trajectory:
    return tu.solve(problem, start, times, accuracy=None)


# Errors at alpha = 1, 2, 4 of plain loops on weights at N = 1000, with standard errors.
RUNS = [
    (o.SignSGD(0.3), [0.2587, 0.1818, 0.1028], [0.0028, 0.0024, 0.0014]),
    (o.RMSprop(0.3), [0.2287, 0.1287, 0.0399], [0.0015, 0.0017, 0.0006]),
]
SAMPLED_RUNS = [
    RUNS[0],
    (o.SignSGD(0.3, 4), [0.0989, 0.0302, 0.0249], [0.0018, 0.0005, 0.0002]),
    (o.Muon(0.3, 4), [0.1028, 0.0231, 0.0128], [0.0012, 0.0001, 0.0002]),
]


def check_runs(optimizer, mean, deviation):
    theory = solved(tu.Problem(ERF, ERF, optimizer=optimizer), START, TIMES)
    allowed = 4 * np.array(deviation) + 1e-3
    assert np.all(np.abs(theory.error[1:] - mean) < allowed)


@pytest.mark.parametrize(("optimizer", "mean", "deviation"), RUNS[1:])
def test_the_error_of_runs(optimizer, mean, deviation):
    check_runs(optimizer, mean, deviation)


@pytest.mark.full
@pytest.mark.parametrize(("optimizer", "mean", "deviation"), SAMPLED_RUNS)
def test_the_error_of_runs_with_sampled_averages(optimizer, mean, deviation):
    check_runs(optimizer, mean, deviation)


@pytest.mark.full
def test_another_optimizer_at_the_same_rate_is_far_from_these_runs():
    """A negative control: plain SGD, and RMSprop next to sign-SGD."""
    _, mean, deviation = RUNS[0]
    for other in (o.SGD(0.3), o.RMSprop(0.3)):
        theory = solved(tu.Problem(ERF, ERF, optimizer=other), START, TIMES)
        allowed = 4 * np.array(deviation) + 1e-3
        assert not np.all(np.abs(theory.error[1:] - mean) < allowed)


# Overlaps by an independent program; they agree with plain loops at N = 1000.
DIGITS = {
    "Adam, two units": (
        tu.Problem(ERF, UNEQUAL, optimizer=o.Adam(0.3)),
        TILTED,
        4.0,
        [0.57813, 0.11516, 0.27890, 0.29984, 0.54023, 0.04973, 0.34533],
    ),
    "Adam, one unit": (
        tu.Problem(ONE, ONE, optimizer=o.Adam(0.3)),
        single(0.2, 0.5),
        3.0,
        [0.671138, 0.563536],
    ),
    "clipped coordinates": (
        tu.Problem(ONE, ONE, optimizer=o.SGD(1.0, clip_coordinates=0.3), noise=0.3),
        single(0.2, 0.5),
        4.0,
        [0.56851, 0.50297],
    ),
    "sign, logistic": (
        tu.Problem(
            LINEAR, LINEAR, optimizer=o.SignSGD(0.5), loss="logistic", labels="sign"
        ),
        single(0.1, 0.5),
        5.0,
        [1.6916, 4.6015],
    ),
    "AdaGrad-norm, logistic": (
        tu.Problem(
            LINEAR,
            LINEAR,
            optimizer=o.AdaGrad(3.0, norm=True),
            loss="logistic",
            labels="sign",
        ),
        single(0.1, 0.5),
        4.0,
        [2.1077, 5.4685],
    ),
}

QUICK = ["Adam, one unit"]
LONG = [case for case in DIGITS if case not in QUICK]


@pytest.mark.parametrize(
    "case", QUICK + [pytest.param(x, marks=pytest.mark.full) for x in LONG]
)
def test_digits_of_an_independent_program(case):
    problem, start, end, expected = DIGITS[case]
    theory = solved(problem, start, [0.0, end])
    np.testing.assert_allclose(overlaps(theory), expected, rtol=5e-4, atol=4e-4)


@pytest.mark.full
def test_digits_of_sign_sgd_with_unequal_readouts():
    problem = tu.Problem(ERF, UNEQUAL, optimizer=o.SignSGD(0.3))
    theory = tu.solve(problem, TILTED, TIMES, moments=tu.Sampled(2**17))
    expected = [0.52288, 0.11961, 0.24288, 0.26961, 0.53458, 0.09267, 0.35076]
    np.testing.assert_allclose(overlaps(theory), expected, atol=1e-3)


@pytest.mark.full
def test_the_scale_is_recorded():
    problem = tu.Problem(ONE, ONE, optimizer=o.Adam(0.3))
    theory = solved(problem, single(0.2, 0.5), [0.0, 3.0])
    assert theory.variables["scale"][-1] == pytest.approx(0.0637149, rel=1e-3)
    problem = DIGITS["AdaGrad-norm, logistic"][0]
    theory = solved(problem, single(0.1, 0.5), [0.0, 4.0])
    assert theory.variables["scale"][-1] == pytest.approx(1.6119, rel=1e-3)


LEVELS = tu.Spectrum([2.0, 0.5], [0.5, 0.5], normalize=False)
BY_LEVEL = tu.Start(
    R=np.zeros((2, 1, 1)), Q=np.full((2, 1, 1), 0.5), T=np.ones((2, 1, 1))
)


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (o.RMSprop(0.4), [0.9375, 0.4131468, 0.1964839, 0.0913127, 0.0411237]),
        pytest.param(
            o.SignSGD(0.3),
            [0.9375, 0.6878232, 0.4895511, 0.3382034, 0.2280779],
            marks=pytest.mark.full,
        ),
    ],
)
def test_two_levels_of_a_linear_unit(optimizer, expected):
    """Sign-SGD drifts with the root of an eigenvalue, and its noise has none."""
    problem = tu.Problem(LINEAR, LINEAR, inputs=LEVELS, optimizer=optimizer)
    theory = solved(problem, BY_LEVEL, [0.0, 1.0, 2.0, 3.0, 4.0])
    sampled = isinstance(optimizer, o.SignSGD)
    np.testing.assert_allclose(theory.error, expected, rtol=2e-3 if sampled else 1e-6)


@pytest.mark.full
def test_sign_sgd_keeps_the_difference_of_two_units_with_single_samples():
    problem = tu.Problem(ERF, ERF, optimizer=o.SignSGD(0.3))
    theory = solved(problem, START, TIMES)
    R = theory.R
    Q = theory.Q
    np.testing.assert_allclose(
        R[:, 0] - R[:, 1], np.tile(R[0, 0] - R[0, 1], (4, 1)), atol=1e-6
    )
    distance = Q[:, 0, 0] + Q[:, 1, 1] - 2 * Q[:, 0, 1]
    np.testing.assert_allclose(distance, distance[0], atol=1e-6)


@pytest.mark.full
def test_gradient_flow_of_rmsprop_omits_the_noise():
    problem = tu.Problem(LINEAR, LINEAR, optimizer=o.RMSprop(0.4))
    flow = tu.solve(problem, single(0.0, 0.5), [0.0, 1.0], gradient_flow=True)
    full = tu.solve(problem, single(0.0, 0.5), [0.0, 1.0])
    assert 0 < flow.error[-1] < full.error[-1]


def test_a_slow_scale_is_plain_sgd():
    """The scale stays at one if its memory is long."""
    adaptive = tu.Problem(ERF, ERF, optimizer=o.RMSprop(0.3, memory=1e9))
    plain = tu.Problem(ERF, ERF, optimizer=o.SGD(0.3))
    curves = [tu.solve(problem, START, TIMES).error for problem in (adaptive, plain)]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-7)


@pytest.mark.full
def test_a_large_clip_is_plain_sgd():
    plain = tu.solve(tu.Problem(ERF, ERF, optimizer=o.SGD(0.3)), START, TIMES)
    clipped = tu.Problem(ERF, ERF, optimizer=o.SGD(0.3, clip=1e6))
    np.testing.assert_allclose(
        solved(clipped, START, TIMES).error, plain.error, rtol=2e-3
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "optimizer",
    [
        o.RMSprop(0.3, batch=2, readout_lr=0.5),
        o.Adam(0.3, beta1=0.0, bias_lr=0.2),
        o.AdaGrad(0.3),
        o.SignSGD(0.3, bias_lr=0.2),
        o.SignSGD(0.3, 3, weight_decay=0.1),
        o.Muon(0.3, 3),
        o.SGD(0.5, clip=0.3),
    ],
    ids=repr,
)
def test_readout_and_biases_follow_runs(optimizer):
    student = tu.Network(
        2, readout=[0.6, 0.9], bias=[0.0, 0.1], train_readout=True, train_bias=True
    )
    teacher = tu.Network(2, readout=[1.0, 0.5], bias=[0.3, -0.2])
    problem = tu.Problem(student, teacher, optimizer=optimizer, noise=0.3)
    theory = solved(problem, START, TIMES)
    runs = tu.simulate(problem, START, dim=1000, times=TIMES, runs=30, method="weights")
    for name in ("R", "Q", "readout", "bias"):
        values = np.asarray(runs.variables[name])
        error = values.std(axis=0, ddof=1) / np.sqrt(30)
        gap = np.abs(values.mean(axis=0) - theory.variables[name])
        assert np.all(gap < 4 * error + 4e-3)
