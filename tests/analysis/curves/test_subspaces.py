"""Specialization of students whose units can rotate: principal angles of two spans."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles

import tutelage as tu
from tests.analysis.curves.cases import of_overlaps


def overlaps_of(W, B):
    """Return R, Q and T of weights, (K, N) and (M, N)."""
    N = W.shape[1]
    return W @ B.T / N, W @ W.T / N, B @ B.T / N


def compared(W, B, activation="quadratic"):
    """Return the specialization of one set of weights (recorded twice)."""
    R, Q, T = overlaps_of(W, B)
    trajectory = of_overlaps(np.stack([R, R]), np.stack([Q, Q]), T, activation)
    return tu.analysis.specialization(trajectory)


def rotation(size, seed=0):
    matrix = np.random.default_rng(seed).standard_normal((size, size))
    return np.linalg.qr(matrix)[0]


@pytest.mark.parametrize(("K", "M"), [(3, 3), (4, 2), (2, 4), (3, 1), (1, 2)])
@pytest.mark.parametrize("activation", ["quadratic", "he2"])
def test_angles_are_those_of_scipy(K, M, activation):
    rng = np.random.default_rng(K)
    W = rng.standard_normal((K, 9))
    B = rng.standard_normal((M, 9))
    found = compared(W, B, activation)
    assert isinstance(found, tu.analysis.SubspaceSpecialization)
    expected = np.sort(subspace_angles(W.T, B.T))
    np.testing.assert_allclose(found.angles[-1], expected, atol=1e-7)
    assert found.final == pytest.approx(np.mean(np.cos(expected) ** 2))


def test_a_rotation_of_the_units_changes_nothing():
    rng = np.random.default_rng(1)
    W, B = rng.standard_normal((2, 3, 8))
    plain = compared(W, B)
    turned = compared(rotation(3) @ W, B)
    np.testing.assert_allclose(turned.own, plain.own, atol=1e-12)
    # a negative control: the index of units that cannot rotate does change
    as_units = compared(W, B, "erf").final, compared(rotation(3) @ W, B, "erf").final
    assert abs(as_units[0] - as_units[1]) > 0.05


def test_a_rotated_copy_of_the_teacher_has_index_one():
    B = np.random.default_rng(2).standard_normal((3, 8))
    found = compared(rotation(3, seed=3) @ B, B)
    assert found.final == pytest.approx(1.0)
    assert found.permutation.tolist() == [-1, -1, -1]
    assert "principal angles at the end: " in str(found)
    assert compared(rotation(3, seed=3) @ B, B, "erf").final < 0.9


def test_students_and_teachers_of_lower_rank():
    """Directions that are zero up to rounding count as missing."""
    rng = np.random.default_rng(4)
    B = rng.standard_normal((2, 8))
    idle = np.vstack([B[0], np.zeros(8)])
    np.testing.assert_allclose(compared(idle, B).own[-1], [1.0, 0.0], atol=1e-7)
    parallel = np.vstack([B[0], -2 * B[0]])
    assert compared(B, parallel).own.shape == (2, 1)
    assert compared(B, parallel).final == pytest.approx(1.0)


def test_linear_units_are_compared_by_their_sum():
    rng = np.random.default_rng(5)
    W, B = rng.standard_normal((2, 3, 8))
    W[0] = B.sum(axis=0) - W[1] - W[2]  # equal sums: equal outputs
    assert compared(W, B, "linear").final == pytest.approx(1.0)
    assert compared(W, B, "erf").final < 0.9
    # the angle of the two sums
    B[0] += W[1]
    student = W.sum(axis=0)
    teacher = B.sum(axis=0)
    norms = np.linalg.norm(student) * np.linalg.norm(teacher)
    found = compared(W, B, "linear")
    assert found.own[-1] == pytest.approx([student @ teacher / norms])
    assert found.final < 0.95


def test_biases_fix_the_units():
    W, B = np.random.default_rng(6).standard_normal((2, 2, 8))
    R, Q, T = overlaps_of(W, B)
    curve = of_overlaps(np.stack([R, R]), np.stack([Q, Q]), T, "quadratic")
    biased = curve.problem.replace(**{"student.bias": [0.3, -0.1]})
    again = tu.Trajectory(**{**vars(curve), "problem": biased})
    found = tu.analysis.specialization(again)
    assert not isinstance(found, tu.analysis.SubspaceSpecialization)
    assert sorted(found.permutation.tolist()) == [0, 1]


def test_a_quadratic_network_specializes_without_an_assignment():
    """From small overlaps to zero error; units mix teachers in the end."""
    student = tu.Network(3, "quadratic", readout=1 / 3)
    teacher = tu.Network(2, "quadratic", readout=1 / 2)
    problem = tu.Problem(student, teacher, optimizer=tu.SGD(lr=0.05))
    rng = np.random.default_rng(7)
    start = tu.Start(0.01 * rng.standard_normal((3, 2)), np.eye(3))
    theory = tu.solve(problem, start, tu.linear_times(800))
    found = tu.analysis.specialization(theory)
    assert found.index[0] < 1e-3
    assert found.final > 0.99
    assert found.transition_time is not None
    np.testing.assert_allclose(found.own[-1], 1.0, atol=0.01)
    largest = np.abs(found.cosines).max(axis=0)
    assert largest.max() < 0.99  # no unit is a copy of a teacher unit
    assert tu.analysis.phases(theory).specialization is not None
