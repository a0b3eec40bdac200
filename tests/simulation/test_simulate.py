"""What `simulate` promises:

times and steps, reproducible runs, divergence and interruption, files, and clear
refusals.
"""

import signal
import threading
import warnings

import numpy as np
import pytest

import tutelage as tu
from tests.simulation.cases import CASES, FOUR, start
from tutelage import progress
from tutelage.simulation import runs as runs_module
from tutelage.simulation.overlaps import OverlapsMethod
from tutelage.times import steps_at

ERF = tu.Problem(
    tu.Network(2, "erf"), tu.Network(2, "erf"), optimizer=tu.SGD(0.5), noise=0.1
)
ORDER_ONE = tu.Start(R=[[0.4, 0.1], [0.0, 0.5]], Q=[[0.6, 0.1], [0.1, 0.7]])


def test_times_become_steps():
    assert steps_at(
        np.array([0.0, 0.07, 0.3, 1 / 3, 29 / 1000 * 100]), 100
    ).tolist() == [0, 7, 30, 34, 290]
    assert steps_at(np.array([300.0000001, 300.00001]), 1).tolist() == [300, 301]
    assert steps_at(np.array([0.1 * 3]), 10**6).tolist() == [300_000]


def test_records_are_labeled_with_the_asked_times():
    """Asking for fewer times changes nothing in those that remain; two times may share a step."""
    many = tu.simulate(
        ERF, ORDER_ONE, dim=40, times=[0.0, 0.01, 0.02, 0.5, 1.0], runs=2
    )
    few = tu.simulate(ERF, ORDER_ONE, dim=40, times=[0.02, 1.0], runs=2)
    assert many.step.tolist() == [0, 1, 1, 20, 40]
    assert many.kind == "simulation"
    assert many.R.shape == (2, 5, 2, 2)
    np.testing.assert_allclose(many.R[0, 0], ORDER_ONE.R, atol=1e-14)
    np.testing.assert_array_equal(many.Q[:, 1], many.Q[:, 2])
    np.testing.assert_array_equal(many.Q[:, [2, 4]], few.Q)
    only_start = tu.simulate(
        ERF, ORDER_ONE, dim=40, times=[0.0], runs=1, method="weights"
    )
    np.testing.assert_allclose(only_start.Q[0, 0], ORDER_ONE.Q, atol=1e-14)


@pytest.mark.parametrize("method", ["overlaps", "weights"])
def test_same_seed_same_numbers_for_any_workers(method):
    problem, begin, dim = CASES["momentum"]
    options = {"dim": dim, "times": [0.0, 1.0, 2.0], "method": method}
    one, two = (
        tu.simulate(problem, begin, runs=5, seed=3, workers=w, **options)
        for w in (1, 2)
    )
    again, more = (
        tu.simulate(problem, begin, runs=n, seed=3, **options) for n in (5, 7)
    )
    other = tu.simulate(problem, begin, runs=5, seed=4, **options)
    for runs in (two, again):
        np.testing.assert_array_equal(one.Q, runs.Q)
        np.testing.assert_array_equal(one.error, runs.error)
    np.testing.assert_array_equal(one.Q, more.Q[:5])
    assert not np.any(one.Q[:, -1] == other.Q[:, -1])
    assert np.unique(one.Q[:, -1, 0, 0]).size == 5


def test_error_is_the_population_error_of_the_recorded_state():
    problem, begin, dim = CASES["relu, readout trained"]
    runs = tu.simulate(problem, begin, dim=dim, times=[0.0, 2.0], runs=2)
    for run in range(2):
        for i in range(2):
            expected = tu.generalization_error(
                problem, runs.R[run, i], runs.Q[run, i], runs.T, runs.readout[run, i]
            )
            np.testing.assert_allclose(runs.error[run, i], expected, rtol=1e-12)
    np.testing.assert_allclose(runs.loss, runs.error + 0.1**2 / 2)


def test_every_run_may_have_its_own_start():
    starts = [tu.random_start(ERF, dim=50, scale=0.5, seed=i) for i in range(3)]
    runs = tu.simulate(ERF, starts, times=[0.0, 1.0])
    assert runs.T.shape == (3, 2, 2)
    for i, one in enumerate(starts):
        np.testing.assert_allclose(runs.R[i, 0], one.R, atol=1e-14)
        alone = tu.generalization_error(ERF, runs.R[i, 1], runs.Q[i, 1], one.T)
        np.testing.assert_allclose(runs.error[i, 1], alone, rtol=1e-12)
    assert runs.to_dataset()["T"].dims == ("run", "teacher", "teacher_2")


def test_levels_of_one_dimension_are_ordinary_simulation():
    """L = N:

    nothing is left to sum over, and the start must fit into one dimension per level.
    """
    problem = tu.Problem(
        tu.Network(2, "erf"),
        tu.Network(2, "erf"),
        inputs=tu.PowerLaw(1.0, 20),
        optimizer=tu.SGD(0.1),
    )
    runs = tu.simulate(
        problem,
        tu.random_start(problem, dim=20),
        times=[0.0, 1.0],
        runs=3,
        keep="blocks",
    )
    assert runs.finished
    assert runs.r.shape == (3, 2, 20, 2, 2)
    with pytest.raises(tu.InputError, match="need 4 dimensions, but it has only 1"):
        tu.simulate(problem, ORDER_ONE, dim=20, times=[1.0])


def test_rank_deficient_teachers():
    """Two teachers that are one, and a student that already is one of them."""
    one = tu.Start(
        R=[[1.0, 1.0], [0.0, 0.0]], Q=[[1.0, 0.0], [0.0, 0.5]], T=np.ones((2, 2))
    )
    for method in ("overlaps", "weights"):
        runs = tu.simulate(ERF, one, dim=30, times=[0.0, 1.0], runs=2, method=method)
        np.testing.assert_allclose(runs.R[:, 0], [one.R] * 2, atol=1e-12)
        np.testing.assert_allclose(runs.R[:, :, :, 0], runs.R[:, :, :, 1], atol=1e-12)


def test_spheres_stay_spheres():
    problem, begin, dim = CASES["sphere, frozen parts, biases"]
    share = problem.inputs.level_dims(dim) / dim
    for method in ("overlaps", "weights"):
        runs = tu.simulate(
            problem, begin, dim=dim, times=[0.0, 1.0], runs=2, method=method
        )
        lengths = np.einsum("l,rtlkk->rtk", share, runs.q)
        np.testing.assert_allclose(lengths[:, 1], lengths[:, 0], rtol=1e-12)


@pytest.mark.parametrize("method", ["overlaps", "weights"])
def test_divergence_is_said(method):
    problem = tu.Problem(
        tu.Network(1, "linear"), tu.Network(1, "linear"), optimizer=tu.SGD(6.0)
    )
    with pytest.warns(
        tu.errors.DivergenceWarning, match="3 of 3 runs diverged, the first at alpha ="
    ):
        runs = tu.simulate(
            problem,
            tu.Start([[0.1]], [[0.5]]),
            dim=100,
            times=[0.0, 0.1, 60.0],
            runs=3,
            method=method,
        )
    assert np.all(runs.status_code == tu.errors.Status.DIVERGED)
    assert np.isfinite(runs.error[:, :2]).all()
    assert np.isnan(runs.error[:, 2]).all()
    assert np.isnan(runs.Q[:, 2]).all()
    assert np.all((runs.end_time > 0.1) & (runs.end_time < 60))
    assert "3 of 3 did not finish" in runs.status


def test_ctrl_c_keeps_what_was_recorded():
    def press():
        signal.raise_signal(signal.SIGINT)

    tu.simulate(
        ERF, ORDER_ONE, dim=100, times=[0.1], runs=1
    )  # compiled before the clock runs
    timer = threading.Timer(0.5, press)
    timer.start()
    with pytest.warns(
        tu.errors.TutelageWarning,
        match="2 of 4 runs were interrupted and 2 never began",
    ):
        runs = tu.simulate(
            ERF, ORDER_ONE, dim=100, times=[0.0, 0.1, 10.0**6], runs=4, workers=2
        )
    timer.join()
    assert runs.error.shape[0] == 2
    assert np.all(runs.status_code == tu.errors.Status.INTERRUPTED)
    assert np.isfinite(runs.error[:, :2]).all()
    assert np.isnan(runs.error[:, 2]).all()


def test_ctrl_c_before_anything_is_an_interrupt(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        OverlapsMethod, "run", lambda *_: (tu.errors.Status.INTERRUPTED, 0)
    )
    monkeypatch.setattr(runs_module, "_wait_for_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tu.simulate(ERF, ORDER_ONE, dim=100, times=[1.0], runs=1)


def test_progress_shows_after_two_seconds(capsys, monkeypatch):
    tu.simulate(ERF, ORDER_ONE, dim=100, times=[1.0], runs=2, progress=True)
    assert "simulating" not in capsys.readouterr().err
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    tu.simulate(ERF, ORDER_ONE, dim=100, times=[6000.0], runs=1, progress=True)
    shown = capsys.readouterr().err
    assert "simulating" in shown
    assert "steps/s" in shown


def test_a_file_holds_it_all(tmp_path):
    problem, begin, dim = CASES["four levels"]
    runs = tu.simulate(problem, begin, dim=dim, times=[0.0, 0.51, 1.0], runs=3)
    dataset = runs.to_dataset()
    assert dataset["R"].dims == ("run", "time", "student", "teacher")
    assert dataset["step"].values.tolist() == [0, 17, 32]
    back = tu.load(runs.save(tmp_path / "runs.nc"))
    assert back.kind == "simulation"
    assert back.dim == dim
    for name in ("R", "Q", "r", "q", "readout"):
        np.testing.assert_array_equal(back[name], runs[name])
    np.testing.assert_array_equal(back.step, runs.step)
    np.testing.assert_array_equal(back.status_code, runs.status_code)


W = np.ones((2, 10))
W_TEACHER = np.eye(2, 10)
ROWS = np.ones((30, 10))
WIDE = tu.random_start(ERF, dim=100)
REFUSED = {
    "not a problem": ({"problem": 3}, "problem is of type int"),
    "no dim": ({"start": ORDER_ONE}, "dim is missing; give the number of input dimensions"),
    "dim too small": ({"start": ORDER_ONE, "dim": 3}, "dim is 3; 4 vectors .* need at least 4 dimensions"),
    "dim against start": ({"start": WIDE, "dim": 50}, "N is 50 according to dim, but 100 according to start"),
    "starts of two dims": ({"start": [WIDE, tu.random_start(ERF, dim=50)]}, "N is 100 according to start, but 50 according to start"),
    "dim against weights": ({"weights": (W, W_TEACHER), "dim": 50}, "N is 50 according to dim, but 10 according to the weights"),
    "weights against rows": ({"weights": (W, W_TEACHER), "inputs": ROWS[:, :7]}, "but 7 according to the inputs"),
    "unknown method": ({"dim": 50, "method": "weigths"}, "The nearest is 'weights'"),
    "unknown law": ({"dim": 50, "inputs": "gausian"}, "The nearest is 'gaussian'"),
    "unknown order": ({"dim": 50, "order": "random"}, "order is 'random'"),
    "data for overlaps": ({"dim": 10, "method": "overlaps", "inputs": ROWS}, "Gaussian inputs only"),
    "too few rows": ({"inputs": ROWS, "times": [4.0]}, "30 rows, but 40 steps of batch 1 need 40; stop at alpha = 3"),
    "rows of words": ({"inputs": [["a", "b"]]}, "it must be a number or an array of numbers"),
    "no such file": ({"inputs": "nowhere.npy"}, "there is no file 'nowhere.npy'"),
    "rows not finite": ({"inputs": ROWS * np.nan, "times": [1.0]}, "inputs contains nan"),
    "one weight": ({"weights": W}, "pair"),
    "wrong weights": ({"weights": (W[:1], W_TEACHER)}, r"weights has shape \(1, 10\)"),
    "start and weights": ({"start": WIDE, "weights": (W, W_TEACHER)}, "start and weights are both given"),
    "start of words": ({"start": "random", "dim": 50}, "start is of type str"),
    "no starts": ({"start": [], "dim": 50}, "an empty list"),
    "starts against runs": ({"start": [WIDE, WIDE], "runs": 3}, "runs is 3, but 2 initial conditions"),
    "no runs": ({"dim": 50, "runs": 0}, "runs is 0"),
    "negative seed": ({"dim": 50, "seed": -1}, "seed is -1"),
    "no workers": ({"dim": 50, "workers": 0, "times": [0.1]}, "workers is 0"),
    "times go back": ({"dim": 50, "times": [1.0, 0.5]}, "must increase"),
    "no Gram matrix": ({"start": tu.Start([[2.0, 0], [0, 0]], np.eye(2)), "dim": 50}, "positive semidefinite"),
    "biases": ({"start": tu.Start([[0.0, 0], [0, 0]], np.eye(2), bias=[1.0, 1.0]), "dim": 50}, "neither network"),
    "keep what": ({"dim": 50, "keep": "levels"}, "keep is 'levels'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_wishes_are_refused(name):
    arguments, message = REFUSED[name]
    with pytest.raises(tu.InputError, match=message):
        tu.simulate(**({"problem": ERF} | arguments))


def test_schedule_that_turns_negative_is_refused():
    problem = ERF.replace(
        lr=lambda t: 0.5 - 0.6 * (t == 0.3)
    )  # fine at every time that is checked before
    with pytest.raises(tu.InputError, match=r"negative or not finite at alpha = 0.3"):
        tu.simulate(problem, ORDER_ONE, dim=40, times=[0.0, 0.5, 1.0])


def test_dims_per_level_decide_what_fits():
    problem = tu.Problem(
        tu.Network(2, "erf"), tu.Network(2, "erf"), inputs=FOUR, optimizer=tu.SGD(0.5)
    )
    with pytest.raises(
        tu.InputError, match="level 1 need 4 dimensions, but it has only 2"
    ):
        tu.simulate(problem, start(2, 2, 4), dim=16, times=[1.0])


def test_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tu.simulate(ERF, dim=30, times=[0.5], runs=1).finished
