"""A NetCDF file that somebody changed:

it is read, or it is refused in one message; never a raw error, never nonsense.
"""

import json

import numpy as np
import pytest
import xarray as xr

import tutelage as tu
from tests.problem.messages import require_refusal

PROBLEM = tu.Problem(tu.Network(2), tu.Network(3), optimizer=tu.SGD(0.5))


@pytest.fixture(scope="module")
def dataset():
    theory = tu.solve(
        PROBLEM, tu.random_start(PROBLEM, dim=100), tu.linear_times(2.0, 5)
    )
    return theory.to_dataset()


def attribute(name, value):
    return lambda data: data.assign_attrs({name: value})


def changed_problem(**parts):
    return lambda data: data.assign_attrs(
        problem=json.dumps(json.loads(data.attrs["problem"]) | parts)
    )


CHANGES = {
    "settings are not JSON": attribute("settings", "rtol = 3"),
    "settings are a list": attribute("settings", "[1, 2]"),
    "settings are a number": attribute("settings", 3.5),
    "the problem is not JSON": attribute("problem", "{"),
    "the problem is a list": attribute("problem", "[1]"),
    "the problem is a number": attribute("problem", 7),
    "the problem is nested deeply": attribute("problem", "[" * 100_000 + "]" * 100_000),
    "the problem lacks its student": attribute("problem", '{"noise": 0}'),
    "the problem has other units": changed_problem(student={"hidden": 4}),
    "the problem has a huge student": changed_problem(student={"hidden": 10**9}),
    "dim is a word": attribute("dim", "many"),
    "dim is a list": attribute("dim", [1, 2]),
    "dim is zero": attribute("dim", 0),
    "kind is unknown": attribute("kind", "dream"),
    "kind is a number": attribute("kind", 3),
    "variables name nothing": attribute("variables", "R Q x"),
    "a status code is unknown": lambda data: data.assign(status_code=17),
    "R is gone": lambda data: data.drop_vars("R"),
    "R has no time": lambda data: data.assign(R=data["R"].isel(time=0)),
    "R is transposed": lambda data: data.assign(
        R=data["R"].transpose("student", "teacher", "time")
    ),
    "R is words": lambda data: data.assign(R=data["R"].astype(str)),
    "the error has no axis": lambda data: data.assign(error=1.0),
    "the error is words": lambda data: data.assign(error=data["error"].astype(str)),
    "the times decrease": lambda data: data.assign_coords(
        time=data["time"].values[::-1]
    ),
    "the start is not positive": lambda data: data.assign(start_Q=-data["start_Q"]),
    "the start has another shape": lambda data: data.assign(
        start_R=data["start_R"].isel(teacher=0)
    ),
    "the start is words": lambda data: data.assign(start_R=data["start_R"].astype(str)),
    "the steps have the axis of time": lambda data: data.assign(steps=data["time"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused_in_one_message(change, dataset, tmp_path):
    CHANGES[change](dataset).to_netcdf(tmp_path / "changed.nc", engine="h5netcdf")
    with pytest.raises(tu.InputError) as caught:
        tu.load(tmp_path / "changed.nc")
    require_refusal(caught.value)


@pytest.mark.parametrize(
    "extra", [{"history": "ncks"}, {"Conventions": 1.7}, {"note": np.arange(3)}]
)
def test_attributes_of_others_do_no_harm(extra, dataset, tmp_path):
    dataset.assign_attrs(extra).assign(mine=("time", np.ones(5))).to_netcdf(
        tmp_path / "more.nc", engine="h5netcdf"
    )
    loaded = tu.load(tmp_path / "more.nc")
    np.testing.assert_array_equal(loaded.error, dataset["error"])
    assert loaded.problem.teacher.hidden == 3


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # h5netcdf, about a file it could not open
def test_bytes_changed_at_random_are_read_or_refused(dataset, tmp_path):
    """Any damage: the same numbers' shapes, or one message.

    (HDF5 has no checksum of the data.)
    """
    data = np.frombuffer(dataset.to_netcdf(engine="h5netcdf"), dtype=np.uint8)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(30):
        damaged = data.copy()
        damaged[rng.integers(data.size, size=20)] = rng.integers(256, size=20)
        (tmp_path / "damaged.nc").write_bytes(damaged.tobytes())
        try:
            assert tu.load(tmp_path / "damaged.nc").error.shape == (5,)
        except tu.InputError:
            refused += 1
    assert refused > 0


def test_a_dataset_of_other_software_is_refused():
    with pytest.raises(tu.InputError, match="no schema"):
        tu.Trajectory.from_dataset(xr.Dataset({"error": ("time", [1.0])}))
