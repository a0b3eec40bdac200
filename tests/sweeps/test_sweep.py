"""`sweep` as its user meets it: in memory, in a folder, on every executor."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import tutelage as tu
from tests.problem import own_learning as own
from tests.problems import pair
from tests.sweeps.questions import PROBLEM, moody, ratio
from tutelage.sweeps import spec as spec_module

ONE = pair(1, 1, noise=0.1)
OPTIONS = {
    "times": [0.0, 5.0, 10.0],
    "start": tu.Start(R=[[0.2]], Q=[[0.3]]),
    "rtol": 1e-6,
}
OVER = {"lr": [0.3, 0.9], "noise": [0.0, 0.1, 0.2, 0.3]}


@pytest.fixture(scope="module")
def in_memory():
    return tu.sweep(
        ONE,
        OVER,
        ["error", "noise_floor"],
        points_per_chunk=3,
        executor="serial",
        **OPTIONS,
    )


def into(folder, over=OVER, **changes):
    options = {"points_per_chunk": 3, "executor": "serial"} | OPTIONS | changes
    return tu.sweep(ONE, over, ["error", "noise_floor"], out=folder, **options)


def test_a_folder_holds_the_same_numbers_and_is_opened_again(tmp_path, in_memory):
    stored = into(tmp_path / "a")
    assert stored.report.computed == 3
    xr.testing.assert_identical(stored.dataset, in_memory.dataset)
    xr.testing.assert_identical(
        tu.open_sweep(tmp_path / "a").dataset, in_memory.dataset
    )
    with xr.open_dataset(tmp_path / "a" / "sweep.nc", engine="h5netcdf") as data:
        xr.testing.assert_identical(data.load(), in_memory.dataset)


def test_the_chunks_are_read_by_plain_xarray(tmp_path, in_memory):
    into(tmp_path / "a")
    parts = sorted((tmp_path / "a" / "chunks").glob("*.nc"))
    data = xr.concat(
        [xr.load_dataset(part, engine="h5netcdf") for part in parts], "point"
    ).sortby("point")
    assert np.array_equal(data["error"].values, in_memory["error"].values.reshape(8, 3))


def test_a_second_call_computes_nothing_and_a_stopped_one_goes_on(tmp_path, in_memory):
    into(tmp_path / "a")
    assert into(tmp_path / "a").report.computed == 0
    next((tmp_path / "a" / "chunks").glob("chunk-000001-*")).unlink()
    partly = tu.open_sweep(tmp_path / "a")
    assert len(partly.failures) == 3
    again = into(tmp_path / "a")
    assert (again.report.computed, again.report.kept) == (1, 2)
    xr.testing.assert_identical(again.dataset, in_memory.dataset)


def test_another_sweep_is_refused(tmp_path):
    into(tmp_path / "a")
    with pytest.raises(
        tu.InputError, match="holds another sweep, which differs in seed"
    ) as refusal:
        into(tmp_path / "a", seed=3)
    assert "\n" not in str(refusal.value)
    assert into(tmp_path / "a").report.computed == 0


def test_numbers_do_not_depend_on_the_chunks(in_memory):
    """Nor on neighbors: members of a batch do not see each other."""
    other = tu.sweep(
        ONE, OVER, "error", points_per_chunk=8, executor="serial", **OPTIONS
    )
    assert np.array_equal(other["error"].values, in_memory["error"].values)
    single = tu.sweep(
        ONE,
        points=[{"lr": 0.9, "noise": 0.2}],
        measure="error",
        executor="serial",
        **OPTIONS,
    )
    assert np.array_equal(
        single["error"].values[0], in_memory["error"].sel(lr=0.9, noise=0.2).values
    )


@pytest.mark.full  # test_executors.py compares the same executors in fewer points
@pytest.mark.parametrize(
    "measure", [["final_error", "error"], ["final_error", "run_error"]], ids=str
)
def test_a_hundred_points_on_every_executor(tmp_path, two_workers, measure):
    """Identical, bit by bit:

    here, in processes, and on a Dask cluster of two workers.
    """
    over = {"lr": np.linspace(0.1, 2.0, 10), "noise": np.linspace(0.0, 0.5, 10)}
    options = OPTIONS | {
        "runs": 2,
        "points_per_chunk": 25,
        "start": tu.Start(R=[[0.2]], Q=[[0.3]], dim=20),
    }
    found = {
        name: tu.sweep(
            ONE,
            over,
            measure,
            executor=name,
            workers=workers,
            out=tmp_path / str(i),
            **options,
        )
        for i, (name, workers) in enumerate(
            (("serial", None), ("processes", 2), (two_workers, None))
        )
    }
    first, *others = found.values()
    assert first["final_error"].size == 100
    assert np.isfinite(first[measure[1]].values).all()
    assert first.failures == {}
    for other in others:
        xr.testing.assert_identical(other.dataset, first.dataset)
    names = [
        sorted(path.name for path in (tmp_path / str(i) / "chunks").iterdir())
        for i in range(3)
    ]
    assert (
        names[0] == names[1] == names[2]
    )  # and names carry the hash of what is in the files
    assert len(names[0]) == 4


def test_own_functions(tmp_path):
    swept = tu.sweep(
        ONE, {"lr": [0.3]}, [lambda problem: 2 * float(problem.optimizer.lr)], **OPTIONS
    )
    assert swept["lambda"].values.tolist() == [0.6]
    with pytest.raises(tu.InputError, match="put it into a module"):
        tu.sweep(ONE, {"lr": [0.3]}, [lambda problem: 1.0], out=tmp_path / "a")
    with pytest.raises(tu.InputError, match="executor='serial'"):
        tu.sweep(ONE, {"lr": [0.3]}, [lambda problem: 1.0], executor="processes")
    kept = into_own(tmp_path / "b")
    assert kept.spec.measure == [
        "tests.sweeps.questions:ratio",
        "tests.sweeps.questions:moody",
    ]
    assert set(kept.spec.sources) == set(kept.spec.measure)
    xr.testing.assert_identical(tu.open_sweep(tmp_path / "b").dataset, kept.dataset)


def into_own(folder):
    return tu.sweep(
        ONE,
        {"noise": [0.1, 0.9]},
        [ratio, moody],
        out=folder,
        executor="serial",
        **OPTIONS,
    )


def test_an_edited_function_makes_another_sweep(tmp_path, monkeypatch):
    into_own(tmp_path / "a")
    assert into_own(tmp_path / "a").report.computed == 0
    monkeypatch.setattr(spec_module, "source_hash", lambda *_: "edited")
    with pytest.raises(tu.InputError, match="sources"):
        into_own(tmp_path / "a")


def test_failed_points_are_computed_again_on_request(tmp_path):
    first = into_own(tmp_path / "a")
    assert list(first.failures) == [1]
    again = tu.sweep(
        ONE,
        {"noise": [0.1, 0.9]},
        [ratio, moody],
        out=tmp_path / "a",
        retry=True,
        executor="serial",
        **OPTIONS,
    )
    assert again.report.computed == 1


def test_sizes_and_names_of_the_start(in_memory):
    swept = tu.sweep(
        PROBLEM,
        {"dim": [50, 5000], "scale": [0.1, 1.0]},
        "final_overlaps",
        times=[0.0],
        starts=30,
        executor="serial",
    )
    spread = swept["final_R"].std("start").isel(student=0, teacher=0)
    assert spread.sel(dim=50, scale=1.0).item() == pytest.approx(50**-0.5, rel=0.5)
    assert (spread.sel(dim=50) / spread.sel(dim=5000)).values == pytest.approx(
        [10.0, 10.0], rel=0.5
    )
    assert (spread.sel(scale=1.0) / spread.sel(scale=0.1)).values == pytest.approx(
        [10.0, 10.0], rel=1e-9
    )


def test_a_start_that_does_not_fit_some_points():
    swept = tu.sweep(
        ONE,
        {"student.hidden": [1, 2]},
        "final_error",
        times=[1.0],
        start=OPTIONS["start"],
        executor="serial",
    )
    assert "2 student" in swept.failures[1]
    assert np.isfinite(swept["final_error"].values[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"over": {"lrr": [1]}}, "'lrr'"),
        ({"over": {"lr": [1.0]}, "measure": []}, "measure is"),
        ({"over": {"lr": [1.0]}, "measure": 3}, "measure is 3"),
        ({"over": {"lr": [1.0]}, "measure": ["error", "error"]}, "twice"),
        ({"over": {"lr": [1.0]}, "measure": "errr"}, "not a measure"),
        ({"over": {"lr": [1.0]}, "executor": "threads"}, "'serial', 'processes'"),
        (
            {"over": {"lr": [1.0]}, "workers": 0},
            "workers is 0; it must be a whole number, 1 or more",
        ),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(tu.InputError, match=words):
        tu.sweep(ONE, **arguments)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(tu.InputError, match="not the folder of a sweep"):
        tu.open_sweep(tmp_path)


def test_the_example_of_the_docs_is_a_sweep():
    from tutelage.cli.sweep import read_sweep_file

    problem, arguments, _ = read_sweep_file(
        Path(__file__).parents[2] / "examples" / "sweep.toml"
    )
    assert problem.student.hidden == 2
    assert json.loads(json.dumps(list(arguments["measure"])))


@pytest.mark.parametrize(
    ("executor", "workers", "said"),
    [("tcp://127.0.0.1:9", 2, "has its own number"), ("slurm", 2, "no sbatch here")],
)
def test_a_cluster_that_cannot_be_asked_leaves_no_folder(
    tmp_path, executor, workers, said
):
    with pytest.raises(tu.InputError, match=said):
        tu.sweep(
            ONE,
            {"lr": [0.3]},
            "critical_learning_rate",
            out=tmp_path / "new",
            executor=executor,
            workers=workers,
        )
    assert not (tmp_path / "new").exists()


LINE = tu.Network(1, "linear")
FROM = {"start": tu.Start(R=[[0.2]], Q=[[0.3]]), "times": [0.0, 0.2], "rtol": 1e-4}


@pytest.mark.full  # cli/test_sweep.py sweeps flips
def test_a_sweep_over_losses_some_of_them_one_s_own(tmp_path):
    """Each point is that of `solve`; functions are kept by their names, and a folder never imports them."""
    problem = tu.Problem(LINE, LINE, optimizer=tu.SGD(0.5), labels="sign")
    over = {"loss": ["logistic", own.log_cosh]}
    swept = tu.sweep(
        problem,
        over,
        ["final_error", "final_loss"],
        out=tmp_path / "a",
        executor="serial",
        **FROM,
    )
    assert not swept.failures
    for i, loss in enumerate(over["loss"]):
        alone = tu.solve(
            problem.replace(loss=loss), FROM["start"], FROM["times"], rtol=1e-4
        )
        assert float(swept["final_error"][i]) == pytest.approx(
            float(alone.error[-1]), rel=1e-3
        )
        assert float(swept["final_loss"][i]) == pytest.approx(
            float(alone.loss[-1]), rel=1e-3
        )
    assert len(set(swept["final_loss"].values.round(8))) == 2
    assert f"{own.__name__}:log_cosh" in swept.spec.sources
    assert "imports" not in json.loads((tmp_path / "a" / "spec.json").read_text())
    kept = tu.open_sweep(tmp_path / "a")
    xr.testing.assert_identical(kept.dataset, swept.dataset)
    with pytest.raises(tu.InputError, match="not allowed"):
        kept.spec.problem_at(kept.spec.point(1))


@pytest.mark.full
def test_a_problem_with_one_s_own_loss_and_labels_is_swept_in_other_processes(tmp_path):
    problem = tu.Problem(LINE, LINE, loss=own.log_cosh, labels=own.sometimes_wrong)
    swept = tu.sweep(
        problem,
        {"lr": [0.1, 0.4]},
        "final_error",
        executor="processes",
        workers=1,
        **FROM,
    )
    alone = tu.solve(problem.replace(lr=0.4), FROM["start"], FROM["times"], rtol=1e-5)
    assert float(swept["final_error"][1]) == pytest.approx(
        float(alone.error[-1]), rel=1e-3
    )


def test_words_for_functions_need_their_module_allowed():
    problem = tu.Problem(LINE, LINE, labels="sign")
    over = {"loss": ["logistic", f"{own.__name__}:log_cosh"]}
    with pytest.raises(tu.InputError, match="not allowed"):
        tu.sweep(problem, over, executor="serial", **FROM)
    swept = tu.sweep(problem, over, executor="serial", imports=[own.__name__], **FROM)
    assert not swept.failures
