"""Loops of NumPy next to the theory:

the right one agrees, and each missed factor is named.
"""

import numpy as np
import pytest

import tutelage as tu
from tests.recording import loops

N = 150
END = 6.0
RUNS = 8
ETA = 0.5
TIMES = tu.linear_times(END, 13)
ERF = tu.Network(2, "erf")
PROBLEM = tu.Problem(ERF, ERF, optimizer=tu.SGD(lr=ETA))
ROOT = np.sqrt(N)
RIGHT = tu.conventions.Convention(dim=N)


@pytest.fixture(scope="module")
def frame():
    """Teacher and initial weights, as the library has them, and the theory."""
    rng = np.random.default_rng(1)
    teacher = rng.standard_normal((2, N))
    w = 0.3 * teacher + 0.3 * rng.standard_normal((2, N))
    theory = tu.solve(PROBLEM, tu.start_from_weights(PROBLEM, w, teacher), TIMES)
    return teacher, w, theory


def compared(
    frame,
    lr=ETA / N,
    length=1.0,
    student_unit=ROOT,
    teacher_unit=1.0,
    activation=None,
    runs=RUNS,
    clock=1,
    seed=0,
):
    """Train with nn.Linear's fields W . x, and compare what was recorded."""
    teacher, w, theory = frame
    recorders = []
    for run in range(runs):
        recorder = tu.Recorder(PROBLEM, teacher_unit * teacher, times=TIMES)
        loops.train(
            RIGHT.layer_weights(length * w),
            RIGHT.layer_weights(teacher),
            lr,
            int(END * N),
            seed=seed + run,
            record=lambda step, W, recorder=recorder: recorder(step, student_unit * W),
            activation=activation,
        )
        recorders.append(recorder)
    recorded = recorders[0].runs(*recorders[1:])
    return tu.compare(theory, recorded, fluctuations=False)


def test_the_right_loop_agrees(frame):
    found = compared(frame)
    assert found.agrees, found.verdict.sentence
    assert found.missed_factor is None
    assert compared(frame, runs=1).missed_factor is None


WIDE = (loops.wide_erf, loops.wide_erf_slope)


@pytest.mark.parametrize("runs", [RUNS, 1])
@pytest.mark.parametrize(
    ("mistake", "name"),
    [
        ({"lr": ETA}, "a learning rate N times larger"),
        ({"lr": ETA / ROOT}, "a learning rate sqrt(N) times larger"),
        ({"lr": 2 * ETA / N}, "a learning rate 2 times larger"),
        ({"lr": ETA / N**2}, "a learning rate N times smaller"),
        ({"length": ROOT}, "student weights that begin sqrt(N) times as long"),
        ({"length": 0.5}, "student weights that begin 0.5 times as long"),
        ({"student_unit": 1.0}, "student weights recorded without sqrt(N)"),
        (
            {"student_unit": 1.0, "teacher_unit": 1 / ROOT},
            "student and teacher weights recorded without sqrt(N)",
        ),
        ({"activation": WIDE}, "the activation erf(x)"),
    ],
)
def test_a_missed_factor_is_named(frame, mistake, name, runs):
    found = compared(frame, **mistake, runs=runs)
    assert found.agrees is (None if runs == 1 else False)
    assert found.missed_factor is not None, found.verdict.sentence
    assert found.missed_factor.name.startswith(name)
    said = f"{found.missed_factor}"
    assert found.verdict.sentence.endswith(said[0].upper() + said[1:])
    assert found.to_dict()["missed_factor"]["name"] == found.missed_factor.name


@pytest.mark.parametrize("factor", [1.35, 0.7])
def test_another_cause_is_not_called_a_missed_factor(frame, factor):
    """The negative control: no factor of the list explains these runs."""
    found = compared(frame, lr=factor * RIGHT.lr(ETA))
    assert found.agrees is False
    assert found.missed_factor is None


def test_two_mistakes_are_not_called_one(frame):
    found = compared(frame, lr=2 * ETA / N, length=0.5)
    assert found.missed_factor is None


def test_simulated_runs_miss_no_factor(frame):
    _, _, theory = frame
    runs = tu.simulate(PROBLEM, theory.start, times=TIMES, runs=4, seed=1)
    flow = tu.solve(PROBLEM, theory.start, TIMES, gradient_flow=True)
    assert tu.compare(flow, runs, fluctuations=False).missed_factor is None


def faulty(problem, change, clock=1.0, runs=8):
    """Recorded runs of a changed problem, given out as those of `problem`."""
    start = tu.asymmetric_start(problem, dim=N)
    theory = tu.solve(problem, start, TIMES)
    actual = tu.simulate(change(problem), start, times=clock * TIMES, runs=runs, seed=3)
    recorded = tu.runs_from_overlaps(
        TIMES, actual.R, actual.Q, problem, dim=N, readout=actual.readout
    )
    return tu.compare(theory, recorded, fluctuations=False).missed_factor.name


def test_factors_of_batches_and_readouts():
    batch = tu.Problem(ERF, ERF, optimizer=tu.SGD(lr=ETA, batch=4))
    assert "learning rate 4 times larger" in faulty(
        batch, lambda problem: problem.replace(lr=4 * ETA)
    )
    assert "clock that counts samples" in faulty(batch, lambda p: p, clock=0.25)
    trained = tu.Problem(tu.Network(2, "erf", train_readout=True), ERF)
    assert "of readouts and biases N times larger" in faulty(
        trained, lambda problem: problem.replace(readout_lr=0.5 * N)
    )


@pytest.mark.full
def test_a_schedule_is_scaled_as_a_whole():
    decay = tu.schedules.PowerDecay(1.0, timescale=3.0)
    twice = tu.schedules.PowerDecay(2.0, timescale=3.0)
    problem = tu.Problem(ERF, ERF, optimizer=tu.SGD(lr=decay))
    assert "learning rate 2 times larger" in faulty(
        problem, lambda p: p.replace(lr=twice)
    )


@pytest.mark.full
def test_runs_without_a_mistake_miss_no_factor():
    """A single run has no verdict; a factor must not be named by chance."""
    named = 0
    for activation, lr, dim in (
        ("erf", 0.5, 200),
        ("relu", 0.2, 300),
        ("erf", 1.0, 1000),
    ):
        units = tu.Network(2, activation)
        problem = tu.Problem(units, units, optimizer=tu.SGD(lr=lr), noise=0.1)
        start = tu.asymmetric_start(problem, dim=dim)
        theory = tu.solve(problem, start, TIMES)
        runs = tu.simulate(problem, start, times=TIMES, runs=40, seed=7)
        for R, Q in zip(runs.R, runs.Q, strict=True):
            single = tu.runs_from_overlaps(TIMES, R, Q, problem, dim=dim)
            found = tu.compare(theory, single, fluctuations=False)
            named += found.missed_factor is not None
    assert named == 0
