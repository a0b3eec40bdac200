"""The class error where the outputs of the student tie:

ties are broken at random, here by noise far below the outputs.
"""

import jax
import numpy as np
import pytest

import tutelage as tu

SOFTMAX = tu.Network(3, "linear", outputs=3)
RNG = np.random.default_rng(1)
READOUT = RNG.standard_normal((3, 4))
SAMPLES = 200_000


def relu(field):
    return np.maximum(field, 0.0)


def classes(student, teacher="linear", loss="cross_entropy"):
    return tu.Problem(
        student,
        tu.Network(3, teacher, outputs=3),
        loss=loss,
        labels="argmax",
        optimizer=tu.SGD(lr=1.0),
    )


def signs(student, teacher_units=1):
    return tu.Problem(
        student,
        tu.Network(teacher_units, "erf"),
        loss="logistic",
        labels="sign",
        optimizer=tu.SGD(lr=1.0),
    )


def drawn_error(R, Q, T, readout, teacher_output):
    """The share of wrong classes among samples whose outputs have a little noise, and its standard error."""
    rng = np.random.default_rng(2)
    K = len(Q)
    covariance = np.block([[Q, R], [R.T, T]])
    fields = rng.multivariate_normal(
        np.zeros(len(covariance)), covariance, SAMPLES, method="eigh"
    )
    outputs = relu(fields[:, :K]) @ readout.T
    guesses = np.argmax(outputs + 1e-9 * rng.standard_normal(outputs.shape), axis=1)
    wrong = guesses != np.argmax(teacher_output(fields[:, K:]), axis=1)
    return np.mean(wrong), np.std(wrong) / np.sqrt(SAMPLES)


@pytest.mark.parametrize(
    "teacher", [pytest.param("linear", marks=pytest.mark.full), "relu"]
)
def test_units_that_are_all_off_guess_among_the_classes(teacher):
    """A sixteenth of the samples has four ReLU units off.

    A ReLU teacher whose units are off says class 0.
    """
    student_vectors = RNG.standard_normal((4, 7))
    teacher_vectors = RNG.standard_normal((3, 7))
    R = student_vectors @ teacher_vectors.T / 7
    Q = student_vectors @ student_vectors.T / 7
    T = teacher_vectors @ teacher_vectors.T / 7
    problem = classes(tu.Network(4, "relu", outputs=3, readout=READOUT), teacher)
    found = float(tu.generalization_error(problem, R, Q, T))
    teacher_output = relu if teacher == "relu" else np.asarray
    expected, error = drawn_error(R, Q, T, READOUT, teacher_output)
    assert abs(found - expected) < 4 * error + 0.003  # the theory samples 2^14 points
    assert abs(found - expected) < 0.3 * (1 / 16) * (
        2 / 3
    )  # counted as correct, ties would cost nothing


def test_a_student_of_zero_weights_guesses():
    zero = tu.Start(R=np.zeros((3, 3)), Q=np.zeros((3, 3)))
    theory = tu.solve(classes(SOFTMAX), zero, tu.linear_times(3, 4))
    assert theory.error[0] == pytest.approx(2 / 3, abs=1e-12)
    assert np.all(np.diff(theory.error) < 0)
    stopping = tu.analysis.early_stopping(theory)
    assert stopping.time == 3.0
    assert "train on" in str(stopping)
    runs = tu.simulate(classes(SOFTMAX), zero, dim=50, times=[0.0, 0.1], runs=2, seed=1)
    np.testing.assert_allclose(runs.error[:, 0], 2 / 3, atol=1e-12)


@pytest.mark.parametrize(
    ("activation", "students", "teachers"),
    [
        ("erf", 1, 1),
        ("erf", 1, 2),
        pytest.param("linear", 1, 1, marks=pytest.mark.full),
        pytest.param("relu", 1, 1, marks=pytest.mark.full),
        pytest.param("relu", 2, 2, marks=pytest.mark.full),
    ],
)
def test_an_output_of_zero_is_right_half_of_the_time(activation, students, teachers):
    """Weights of zero; or readouts of zero, also where the students are the teachers."""
    problem = signs(tu.Network(students, activation), teachers)
    zero = np.zeros((students, teachers)), np.zeros((students, students))
    assert float(tu.generalization_error(problem, *zero)) == pytest.approx(
        0.5, abs=1e-9
    )
    same = np.eye(students, teachers), np.eye(students)
    silent = tu.generalization_error(problem, *same, readout=np.zeros(students))
    assert float(silent) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("activation", "teachers"),
    [
        ("erf", 2),
        pytest.param("tanh", 1, marks=pytest.mark.full),
        pytest.param("relu", 2, marks=pytest.mark.full),
    ],
)
def test_identical_units_with_opposite_readouts_cancel(activation, teachers):
    """The usual way to a network whose output is zero at first:

    what rounding leaves of it decides nothing.
    """
    problem = signs(tu.Network(2, activation, readout=[0.7, -0.7]), teachers)
    R = np.array([[0.5, 0.3], [0.5, 0.3]])[:, :teachers]
    error = float(tu.generalization_error(problem, R, np.full((2, 2), 1.1)))
    assert error == pytest.approx(0.5, abs=1e-7)
    slightly = float(
        tu.generalization_error(problem, R, np.full((2, 2), 1.1), readout=[0.8, -0.7])
    )
    assert slightly < 0.48


def test_the_error_at_zero_weights_has_a_finite_derivative():
    problem = signs(tu.Network(1, "erf"))
    slope = jax.grad(lambda r: tu.generalization_error(problem, r, np.zeros((1, 1))))(
        np.zeros((1, 1))
    )
    assert np.all(np.isfinite(slope))
    away = jax.grad(lambda r: tu.generalization_error(problem, r, np.eye(1)))(
        np.full((1, 1), 0.6)
    )
    assert float(away[0, 0]) == pytest.approx(
        -1 / (0.8 * np.pi), rel=1e-12
    )  # of arccos(0.6) / pi
