"""Chunks put together, without computing anything."""

import json

import numpy as np
import pytest
import xarray as xr

import tutelage as tu
from tests.sweeps.questions import PROBLEM, spec_of
from tutelage.sweeps.store import SCHEMA
from tutelage.sweeps.sweep import NOT_YET, Sweep, combine_chunks

SPEC = spec_of(measure=["final_error", "error", "noise_floor"], points_per_chunk=4)


def kept(spec=SPEC):
    """Numbers that say where they are from; the second chunk has no noise_floor."""
    first = {
        "final_error": ((), np.arange(4) + 0.5),
        "error": (("time",), np.arange(12.0).reshape(4, 3)),
        "noise_floor": ((), np.array([1.0, np.nan, 3.0, 4.0])),
        "status": ((), np.array([0, 1, 0, 0], dtype=np.int8)),
        "note": ((), np.array(["", "noise_floor: unstable", "", ""], dtype=object)),
        "failure": ((), np.full(4, "", dtype=object)),
    }
    failure = np.array(["", "it broke"], dtype=object)
    second = {"final_error": ((), np.array([4.5, np.nan])), "failure": ((), failure)}
    return [((0, 1, 2, 3), first), ((4, 5), second)]


def test_the_axes_are_dims_and_the_values_are_in_place():
    data = combine_chunks(SPEC, kept())
    assert data["final_error"].dims == ("lr", "noise")
    assert data["error"].dims == ("lr", "noise", "time")
    assert data["final_error"].sel(lr=1.2, noise=0.1).item() == 4.5
    assert data["error"].sel(lr=0.4, noise=0.3, time=20.0).item() == 8.0
    assert data["time"].values.tolist() == [0.0, 10.0, 20.0]
    assert data["status"].values.tolist() == [[0, 1, 0], [0, -1, -1]]
    assert np.isnan(data["noise_floor"].sel(lr=1.2, noise=0.1))


def test_words_stand_where_numbers_are_missing():
    result = Sweep(SPEC, combine_chunks(SPEC, kept()))
    assert result.failures == {5: "it broke"}
    assert result.notes == {1: "noise_floor: unstable"}
    assert result.diverged == 1
    for words in (
        "6 points: lr (2), noise (3)",
        "final_error: 0.5 to 4.5",
        "1 diverged",
        "1 failed",
    ):
        assert words in str(result)
    partly = combine_chunks(SPEC, kept()[:1])
    assert partly["failure"].values.ravel().tolist() == [""] * 4 + [NOT_YET] * 2
    nothing = Sweep(SPEC, combine_chunks(SPEC, []))
    assert len(nothing.failures) == 6
    with pytest.raises(tu.InputError, match="has numbers yet"):
        nothing.plot()


def test_attributes_say_what_was_asked():
    data = combine_chunks(SPEC, kept())
    assert data.attrs["schema"] == SCHEMA
    assert tu.Problem.from_json(data.attrs["problem"]).to_dict() == PROBLEM.to_dict()
    assert json.loads(data.attrs["spec"])["over"] == SPEC.over
    assert (
        data["final_error"].attrs["long_name"] == "generalization error e_g at the end"
    )
    assert "diverged" in data["status"].attrs["flag_meanings"]


def test_units_that_are_not_there_are_nan():
    spec = spec_of(over={"student.hidden": [2, 3]}, measure=["final_overlaps"])
    chunks = [
        ((i,), {"final_R": (("student", "teacher"), np.ones((1, 2 + i, 2)))})
        for i in range(2)
    ]
    data = combine_chunks(spec, chunks)["final_R"]
    assert data.shape == (2, 3, 2)
    assert np.isnan(data.sel({"student.hidden": 2}).values[2]).all()
    assert data.sel({"student.hidden": 3}).notnull().all()


def test_a_list_has_the_dim_point_with_its_names_as_coordinates():
    spec = spec_of(
        over=None,
        points=[
            {"lr": 0.1, "student.activation": "erf"},
            {"lr": 0.2, "student.activation": "relu"},
        ],
    )
    data = combine_chunks(spec, [((0, 1), {"final_error": ((), np.array([1.0, 2.0]))})])
    assert data["final_error"].dims == ("point",)
    assert data["lr"].values.tolist() == [0.1, 0.2]
    assert data["student.activation"].values.tolist() == ["erf", "relu"]


def test_tables_are_labelled_by_their_json():
    schedule = {"kind": "constant", "value": 0.1}
    spec = spec_of(
        over={"lr": [schedule, 0.3], "student.hidden, teacher.hidden": [2, 3]}
    )
    data = combine_chunks(spec, [((0, 1, 2, 3), {"final_error": ((), np.arange(4.0))})])
    assert json.loads(str(data["lr"].values[0])) == schedule


def test_a_file_is_read_by_plain_xarray(tmp_path):
    result = Sweep(SPEC, combine_chunks(SPEC, kept()))
    with xr.open_dataset(result.save(tmp_path / "a.nc"), engine="h5netcdf") as data:
        xr.testing.assert_identical(data.load(), result.dataset)


def test_asking_for_what_is_not_there():
    result = Sweep(SPEC, combine_chunks(SPEC, kept()))
    assert result["error"].dims[-1] == "time"
    with pytest.raises(tu.InputError, match="it has final_error, error, noise_floor"):
        result["errors"]
