"""Copies merged and dead units dropped:

exact cases, mirrored copies, noise, bad input.
"""

import numpy as np
import pytest

import tutelage as tu

N = 40


def finished(W, B, v, v_teacher, activation="erf", inputs=None):
    """Return a trajectory that ends at weights (K, N), (M, N) and readouts v."""
    student = tu.Network(len(W), activation, train_readout=True)
    teacher = tu.Network(len(B), activation, readout=v_teacher)
    problem = tu.Problem(student, teacher, inputs=inputs)
    start = tu.start_from_weights(problem, W, B)
    v = np.asarray(v, dtype=float)
    r, q, t = (np.asarray(x) for x in start.blocks(problem))
    weights = problem.inputs.weights
    R, Q, T = (np.einsum("l,lij->ij", weights, x) for x in (r, q, t))
    error = float(tu.generalization_error(problem, R, Q, T, readout=v))
    variables = {"R": R, "Q": Q, "r": r, "q": q, "readout": v}
    return tu.Trajectory(
        times=np.array([0.0]),
        variables={name: values[None] for name, values in variables.items()},
        error=np.array([error]),
        status_code=np.array(0),
        end_time=np.array(0.0),
        steps=np.array(1),
        T=T,
        problem=problem,
        start=start,
    )


@pytest.fixture
def teachers():
    return np.random.default_rng(0).standard_normal((2, N))


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_copies_become_one_unit(teachers, activation):
    W = teachers[[0, 1, 0, 1, 0]]
    v = np.array([0.2, 0.7, 0.5, 0.3, 0.3])
    theory = finished(W, teachers, v, [1.0, 1.0], activation)
    found = tu.analysis.reduced(theory)
    assert found.units.tolist() == [0, 1, 0, 1, 0]
    np.testing.assert_allclose(found.start.readout, [1.0, 1.0])
    np.testing.assert_allclose(found.start.Q, theory.Q[-1][:2, :2][None], rtol=1e-6)
    assert found.error < 1e-10
    assert found.problem.student.hidden == 2
    again = tu.solve(found.problem, found.start, [0.0, 1e-9])
    assert again.error[0] == pytest.approx(found.error, abs=1e-14)


def test_relu_units_of_different_lengths_are_copies(teachers):
    """v relu(lambda) depends on v w only, so lengths and readouts can be traded."""
    W = np.array([0.5 * teachers[0], 2.0 * teachers[0], teachers[1]])
    theory = finished(W, teachers, [1.0, 0.25, 1.0], [1.0, 1.0], "relu")
    found = tu.analysis.reduced(theory)
    assert found.error == pytest.approx(0.0, abs=1e-12)
    # erf units of different lengths are different functions
    erf = tu.analysis.reduced(finished(W, teachers, [1.0, 0.25, 1.0], [1.0, 1.0]))
    assert abs(erf.error - erf.full_error) > 0.1 * erf.full_error


def test_mirrored_copies_and_cancelling_ones(teachers):
    W = np.array([teachers[0], -teachers[0], teachers[1], teachers[1]])
    theory = finished(W, teachers, [1.4, 0.4, 0.5, 0.5], [1.0, 1.0])
    found = tu.analysis.reduced(theory)
    np.testing.assert_allclose(found.start.readout, [1.0, 1.0])
    assert found.error < 1e-12
    # a negative control: ReLU has no mirrored copies
    relu = finished(W, teachers, [1.0, 0.4, 0.5, 0.5], [1.0, 1.0], "relu")
    assert tu.analysis.reduced(relu).problem.student.hidden == 3


def test_dead_units_are_dropped(teachers):
    W = np.array([teachers[0], 1e-4 * teachers[1], teachers[1], teachers[0]])
    theory = finished(W, teachers, [1.0, 1.0, 1.0, 1e-5], [1.0, 1.0])
    found = tu.analysis.reduced(theory)
    assert found.dead.tolist() == [1, 3]
    assert found.problem.student.hidden == 2
    assert "dropped: units 2, 4" in str(found)
    assert tu.analysis.reduced(theory, dead=0.0).dead.size == 0


def test_near_copies_are_right_to_first_order(teachers):
    """The gap of the error is of second order in the distance; a plain mean is not."""
    rng = np.random.default_rng(1)
    apart = rng.standard_normal((3, N))
    gaps = []
    for size in (0.02, 0.04):
        W = teachers[[0, 0, 1]] + size * apart
        found = tu.analysis.reduced(finished(W, teachers, [0.2, 0.8, 1.0], [1.0, 1.0]))
        gaps.append(abs(found.error - found.full_error))
    assert gaps[1] / gaps[0] == pytest.approx(8.0, rel=0.5)  # third order here
    plain = (W[0] + W[1]) / 2
    merged = finished(np.array([plain, W[2]]), teachers, [1.0, 1.0], [1.0, 1.0])
    assert abs(merged.error[-1] - found.full_error) > 5 * gaps[1]


def test_levels_need_their_overlaps(teachers):
    inputs = tu.Spectrum([1.5, 0.5])
    W = teachers[[0, 1, 0]]
    theory = finished(W, teachers, [0.5, 1.0, 0.5], [1.0, 1.0], inputs=inputs)
    found = tu.analysis.reduced(theory)
    np.testing.assert_allclose(found.start.Q, theory.q[-1][:, :2, :2], rtol=1e-6)
    assert found.error < 1e-12
    fields = {n: x for n, x in theory.variables.items() if n not in ("r", "q")}
    without = tu.Trajectory(**{**vars(theory), "variables": fields})
    with pytest.raises(tu.InputError, match="keep='blocks'"):
        tu.analysis.reduced(without)


def test_each_run_is_reduced(teachers):
    student = tu.Network(3, "erf", train_readout=True)
    problem = tu.Problem(student, tu.Network(2, "erf"), optimizer=tu.SGD(lr=0.1))
    start = tu.start_from_weights(problem, teachers[[0, 0, 1]], teachers)
    start = tu.Start(start.R, start.Q, start.T, readout=[0.4, 0.6, 1.0], dim=400)
    runs = tu.simulate(problem, start, times=[0.0, 0.1], runs=3)
    found = tu.analysis.reduced(runs)
    assert len(found) == 3
    assert all(one.problem.student.hidden == 2 for one in found)
    assert tu.analysis.reduced(runs, run=1).error == found[1].error


def test_bad_input_has_one_message(teachers):
    quadratic = finished(teachers, teachers, [1.0, 1.0], [1.0, 1.0], "quadratic")
    with pytest.raises(tu.InputError, match="can rotate among themselves"):
        tu.analysis.reduced(quadratic)
    theory = finished(teachers, teachers, [1.0, 1.0], [1.0, 1.0])
    with pytest.raises(tu.InputError, match="cosine is 2"):
        tu.analysis.reduced(theory, cosine=2.0)
    with pytest.raises(tu.InputError, match="what solve or simulate returned"):
        tu.analysis.reduced("theory")
    silent = finished(teachers, teachers, [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(tu.InputError, match="nothing is left"):
        tu.analysis.reduced(silent)
