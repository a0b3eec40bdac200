"""Trajectories as tables of pandas and CSV files; endings of file names."""

import numpy as np
import pandas as pd
import pytest

import tutelage as tu

ERF = tu.Network(2, "erf")
PROBLEM = tu.Problem(ERF, tu.Network(3, "erf"), optimizer=tu.SGD(lr=0.5))
START = tu.asymmetric_start(PROBLEM, dim=100)
TIMES = tu.linear_times(2.0, 3)


@pytest.fixture(scope="module")
def theory():
    return tu.solve(PROBLEM, START, TIMES)


@pytest.fixture(scope="module")
def runs():
    return tu.simulate(PROBLEM, START, times=TIMES, runs=2, seed=0)


def test_a_solve_has_one_row_for_each_time(theory):
    table = theory.to_pandas()
    assert table.index.name == "time"
    assert list(table.columns[:4]) == ["error", "loss", "R_11", "R_12"]
    assert "r_1_11" not in table  # the only level is R again
    np.testing.assert_array_equal(table["error"], theory.error)
    np.testing.assert_array_equal(table["R_23"], theory.R[:, 1, 2])
    np.testing.assert_array_equal(table["Q_21"], theory.Q[:, 1, 0])
    np.testing.assert_array_equal(table["readout_2"], theory.readout[:, 1])


def test_runs_have_a_row_for_each_run_and_time(runs):
    table = runs.to_pandas()
    assert table.index.names == ["run", "time"]
    np.testing.assert_array_equal(table.loc[1, "Q_22"], runs.Q[1, :, 1, 1])
    np.testing.assert_array_equal(table.loc[0, "step"], runs.step)


def handmade(problem, lead, kind="theory", tasks=(), levels=None):
    """A trajectory of random numbers, without a solve. lead: shape before time."""
    rng = np.random.default_rng(0)
    K = problem.student.hidden
    M = problem.references.hidden
    shapes = {"R": (K, M), "Q": (K, K), "readout": (K,)}
    if levels:
        shapes |= {"r": (levels, K, M), "q": (levels, K, K)}
    number = np.zeros(lead)
    return tu.Trajectory(
        times=TIMES,
        variables={n: rng.standard_normal((*lead, 3, *x)) for n, x in shapes.items()},
        error=rng.random((*lead, 3, *tasks)),
        status_code=number.astype(int),
        end_time=number + TIMES[-1],
        steps=number.astype(int),
        problem=problem,
        kind=kind,
    )


def test_levels_have_columns():
    levels = PROBLEM.replace(inputs=tu.Spectrum([1.5, 0.5], [0.5, 0.5]))
    solved = handmade(levels, (), levels=2)
    np.testing.assert_array_equal(solved.to_pandas()["r_2_13"], solved.r[:, 1, 0, 2])


def test_members_of_a_batch_have_rows():
    batch = handmade(PROBLEM, (2,))
    table = batch.to_pandas()
    assert table.index.names == ["batch", "time"]
    np.testing.assert_array_equal(table.loc[1, "R_12"], batch.R[1, :, 0, 1])


def test_tasks_have_columns_of_errors():
    problem = tu.Problem(ERF, tu.Tasks([ERF, ERF]))
    both = handmade(problem, (), tasks=(2,))
    np.testing.assert_array_equal(both.to_pandas()["error_2"], both.error[:, 1])


def test_custom_equations_have_their_own_names():
    x = np.array([1.0, 0.5, 0.2])
    number = np.array(0)
    solved = tu.Trajectory(
        times=TIMES,
        variables={"x": x},
        error=x**2,
        status_code=number,
        end_time=np.array(2.0),
        steps=number,
        kind="equations",
    )
    assert list(solved.to_pandas().columns) == ["error", "x"]


def test_two_digits_are_separated():
    wide = tu.Problem(tu.Network(11, "linear"), tu.Network(1, "linear"))
    table = handmade(wide, ()).to_pandas()
    assert "Q_1_11" in table
    assert "Q_11_1" in table


def test_a_csv_file_is_the_table(runs, tmp_path):
    path = runs.save(tmp_path / "runs.csv")
    read = pd.read_csv(path, index_col=["run", "time"])
    pd.testing.assert_frame_equal(read, runs.to_pandas(), check_exact=False)
    assert tu.load(runs.save(tmp_path / "RUNS.NC")).finished


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.txt", r"ends in '.txt'.*must end in .nc"),
        ("a", "has no ending"),
        ("a.csvv", "The nearest is '.csv'"),
    ],
)
def test_unknown_endings_are_refused(theory, tmp_path, name, message):
    with pytest.raises(tu.InputError, match=message):
        theory.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_error_and_loss_by_name(theory):
    np.testing.assert_array_equal(theory["error"], theory.error)
    np.testing.assert_array_equal(theory["loss"], theory.loss)
    with pytest.raises(tu.InputError, match=r"no 'S'; it has .*R.*error"):
        theory["S"]


def test_the_time_axis_counts_steps_or_samples(runs, theory):
    batch = PROBLEM.replace(batch=4)
    solved = tu.solve(batch, START, TIMES)
    for time, end in (("alpha", 2.0), ("steps", 200.0), ("samples", 800.0)):
        (line,) = solved.plot(time=time).axes[0].lines[:1]
        assert line.get_xdata()[-1] == end
    assert runs.plot(time="samples").axes[-1].get_xlabel() == "samples"
    with pytest.raises(tu.InputError, match="time is 'epochs'"):
        theory.plot(time="epochs")
    limit = tu.solve(PROBLEM, tu.asymmetric_start(PROBLEM), TIMES)
    with pytest.raises(tu.InputError, match="has no N"):
        limit.plot(time="steps")
