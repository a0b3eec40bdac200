"""Trajectories as labelled data and as files. The schema is written down in docs/schema.md; change both together.

Files are NetCDF 4 (h5netcdf), written to a temporary name and then moved, so that a reader never sees half of one. Nothing
is pickled: the problem is a JSON string.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.problem import Problem, Start

if TYPE_CHECKING:
    import xarray

SCHEMA = "tutelage-trajectory/1"
DIMS = {
    "R": ("student", "teacher"),
    "Q": ("student", "student_2"),
    "r": ("level", "student", "teacher"),
    "q": ("level", "student", "student_2"),
    "readout": ("student",),
    "bias": ("student",),
    "T": ("teacher", "teacher_2"),
}
LONG = {
    "R": "student-teacher field covariance",
    "Q": "student-student field covariance",
    "T": "teacher-teacher field covariance",
    "r": "student-teacher overlap per level",
    "q": "student-student overlap per level",
    "readout": "student readout weights",
    "bias": "student hidden biases",
    "error": "generalisation error e_g",
    "test_loss": "e_g + noise^2 / 2",
}


def to_dataset(trajectory: Any) -> "xarray.Dataset":
    import xarray as xr

    if np.ndim(trajectory.times) != 1:
        trajectory = _shared_times(trajectory)
    lead = tuple(np.shape(trajectory.error)[:-1])
    lead_dims = (
        ("run" if trajectory.kind == "simulation" else "batch",)
        if len(lead) == 1
        else tuple(f"batch_{i}" for i in range(len(lead)))
    )
    data: dict[str, tuple[str, ...]] = {"error": (*lead_dims, "time"), "test_loss": (*lead_dims, "time")}
    arrays = {"error": trajectory.error}
    if trajectory.problem is not None:
        arrays["test_loss"] = trajectory.test_loss
    for name, value in trajectory.variables.items():
        own = DIMS.get(name, tuple(f"{name}_{i}" for i in range(np.ndim(value) - len(lead) - 1)))
        data[name], arrays[name] = (*lead_dims, "time", *own), value
    if trajectory.T is not None:
        own = trajectory.kind == "simulation" and np.ndim(trajectory.T) == 3  # every run has its own teacher
        data["T"] = (*lead_dims, *DIMS["T"]) if own else DIMS["T"]
        arrays["T"] = trajectory.T if own else _unbatched(trajectory.T, 2)
    variables = {
        name: (data[name], np.asarray(value), {"long_name": LONG.get(name, name)}) for name, value in arrays.items()
    }
    variables |= _start_variables(trajectory.start)
    coords = {"time": ("time", np.asarray(trajectory.times), {"long_name": "alpha = steps / N"})}
    if trajectory.kind == "simulation":
        coords["step"] = ("time", np.asarray(trajectory.step), {"long_name": "steps taken, ceil(alpha N)"})
    if "r" in arrays and trajectory.problem is not None:
        inputs = trajectory.problem.inputs
        coords["eigenvalue"] = ("level", np.asarray(inputs.eigenvalues), {"long_name": "eigenvalue of the level"})
        coords["fraction"] = ("level", np.asarray(inputs.fractions), {"long_name": "fraction of dimensions"})
    return xr.Dataset(variables, coords=coords, attrs=_attributes(trajectory))


def _shared_times(trajectory: Any) -> Any:
    """vmap repeats the times once per problem; they are the same."""
    import equinox as eqx

    times = np.asarray(trajectory.times).reshape(-1, np.shape(trajectory.times)[-1])
    if np.any(times != times[0]):
        raise InputError("this batch has different times in each member; store them one by one.")
    return eqx.tree_at(lambda t: t.times, trajectory, times[0])


def _unbatched(value: Any, ndim: int) -> np.ndarray:
    return np.asarray(value).reshape(-1, *np.shape(value)[-ndim:])[0]


def _attributes(trajectory: Any) -> dict[str, Any]:
    codes = np.atleast_1d(np.asarray(trajectory.status_code)).ravel()
    return {
        "schema": SCHEMA,
        "tutelage_version": __version__,
        "kind": trajectory.kind,
        "status": trajectory.status,
        "status_code": codes if codes.size > 1 else int(codes[0]),
        "end_time": np.atleast_1d(np.asarray(trajectory.end_time)).ravel(),
        "steps": np.atleast_1d(np.asarray(trajectory.steps)).ravel(),
        "settings": json.dumps(dict(trajectory.settings)),
        "problem": _problem_text(trajectory.problem),
        "dim": -1 if trajectory.start is None or trajectory.start.dim is None else trajectory.start.dim,
    }


def _problem_text(problem: Problem | None) -> str:
    """JSON, or a note where the problem holds a user's own function or a batch of values."""
    if problem is None:
        return ""
    try:
        text = problem.to_json()
        Problem.from_json(text)
        return text
    except InputError as error:
        return json.dumps({"not_stored": str(error), "repr": repr(problem)})


def _start_variables(start: Start | None) -> dict[str, Any]:
    if start is None or np.ndim(start.R) > 3:
        return {}
    parts = {name: getattr(start, name) for name in ("R", "Q", "T", "readout", "bias")}
    out = {}
    for name, value in parts.items():
        if value is not None:
            dims = DIMS[name] if np.ndim(value) == len(DIMS[name]) else ("start_level", *DIMS[name])
            out[f"start_{name}"] = (dims, np.asarray(value), {"long_name": f"{name} at the start"})
    return out


def from_dataset(dataset: "xarray.Dataset") -> dict[str, Any]:
    """The fields of a Trajectory."""
    if dataset.attrs.get("schema") != SCHEMA:
        found = dataset.attrs.get("schema", "none")
        raise InputError(
            f"this dataset has the schema {found!r}, not {SCHEMA!r}; it was not written by Trajectory.to_dataset."
        )
    attrs = dataset.attrs
    names = [n for n in dataset.data_vars if n not in ("error", "test_loss", "T") and not str(n).startswith("start_")]
    start = {str(n)[6:]: dataset[n].values for n in dataset.data_vars if str(n).startswith("start_")}
    dim = int(attrs["dim"])
    return {
        "times": dataset["time"].values,
        "variables": {str(n): dataset[n].values for n in names},
        "error": dataset["error"].values,
        "status_code": _scalar(attrs["status_code"]),
        "end_time": _scalar(attrs["end_time"]),
        "steps": _scalar(attrs["steps"]),
        "T": dataset["T"].values if "T" in dataset else None,
        "problem": _read_problem(attrs["problem"]),
        "start": Start(**start, dim=None if dim < 0 else dim) if start else None,
        "kind": attrs["kind"],
        "settings": tuple(json.loads(attrs["settings"]).items()),
    }


def _scalar(value: Any) -> Any:
    array = np.asarray(value)
    return array.reshape(()) if array.size == 1 else array


def _read_problem(text: str) -> Problem | None:
    return None if not text or "not_stored" in json.loads(text) else Problem.from_json(text)


def write(dataset: "xarray.Dataset", path: str | Path) -> Path:
    """Write a dataset as NetCDF: the file appears complete or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it first.")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    try:
        dataset.to_netcdf(temporary, engine="h5netcdf")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def read(path: str | Path) -> "xarray.Dataset":
    """Read a NetCDF file of ours into memory."""
    import xarray as xr

    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; give the name of a NetCDF file written by tutelage.")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return dataset.load()
    except Exception:
        raise InputError(f"{path} is not a NetCDF file written by tutelage; save one with Trajectory.save.") from None
