"""A chunk as the bytes of a NetCDF file, and back. The name of the file carries the hash of its bytes.

A file is read by plain xarray: dimension and coordinate `point` (numbers of the points in the sweep), one variable per
measure, and `failure`, the error of each point ("" where it has numbers). The same outcome gives the same bytes.
"""

import hashlib
import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.sweeps.outcome import Failure, Outcome, Task

SCHEMA = "tutelage-sweep-chunk/1"
POINT, FAILURE = "point", "failure"
NAME = re.compile(r"chunk-(\d{6,})-([0-9a-f]{16})\.nc")
DAMAGED = "damaged"  # files that do not match their names are kept beside the others under this ending


@dataclass(frozen=True)
class Kept:
    """A chunk read back: `points`, the numbers of its points in the sweep, and what was computed there."""

    points: np.ndarray
    outcome: Outcome
    version: str


def name_of(index: int, data: bytes) -> str:
    return f"chunk-{index:06d}-{digest(data)}.nc"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def index_and_digest(name: str) -> tuple[int, str] | None:
    """What the name of a file says, or None if it is not the name of a chunk."""
    match = NAME.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])


def is_whole(name: str, data: bytes) -> bool:
    """Whether these are the bytes that were written under this name."""
    parsed = index_and_digest(name)
    return parsed is not None and digest(data) == parsed[1]


def encode(task: Task, outcome: Outcome, key: str) -> bytes:
    """The bytes of the file; key: that of the sweep, so that a file is known to belong to it."""
    import h5netcdf
    import h5py

    points = len(task.points)
    outcome.require_points(points)
    errors = np.full(points, "", dtype=object)
    for failure in outcome.failures:
        errors[failure.point] = failure.error
    memory = io.BytesIO()
    with h5netcdf.File(memory, "w") as file:
        file.attrs.update({"schema": SCHEMA, "tutelage_version": __version__, "sweep": key, "chunk": task.index})
        file.dimensions[POINT] = points
        file.create_variable(POINT, (POINT,), data=np.asarray(task.points, dtype=np.int64))
        file.create_variable(FAILURE, (POINT,), dtype=h5py.string_dtype(), data=errors)
        for name, values in outcome.arrays.items():
            _add(file, name, np.asarray(values), (outcome.dims or {}).get(name))
    return memory.getvalue()


def _add(file: Any, name: str, values: np.ndarray, own: tuple[str, ...] | None) -> None:
    import h5py

    own = tuple(f"{name}_{axis}" for axis in range(1, values.ndim)) if own is None else tuple(own)
    if name in file.variables or name in file.dimensions:
        raise InputError(f"an array is called {name!r}; the file keeps that name for itself. Rename the measure.")
    if len(own) != values.ndim - 1:
        raise InputError(f"the array {name!r} has {values.ndim - 1} axes after the points; its dims name {len(own)}: {own}.")
    for dim, size in zip(own, values.shape[1:], strict=True):
        if file.dimensions.get(dim) is None:
            file.dimensions[dim] = size
        elif len(file.dimensions[dim]) != size:
            raise InputError(f"the dim {dim!r} has {size} entries in {name!r} and {len(file.dimensions[dim])} elsewhere.")
    if values.dtype == bool:  # as xarray writes and reads it: NetCDF has no such type
        file.create_variable(name, (POINT, *own), data=values.astype(np.int8)).attrs["dtype"] = "bool"
    elif values.dtype.kind in "UO":
        file.create_variable(name, (POINT, *own), dtype=h5py.string_dtype(), data=values.astype(object))
    else:
        file.create_variable(name, (POINT, *own), data=values)


def decode(data: bytes) -> Kept:
    """The chunk in these bytes."""
    import h5py

    file: Any  # the library has no types for what is inside
    with h5py.File(io.BytesIO(data), "r") as file:
        names = [name for name in file if name not in (POINT, FAILURE) and not _is_bare_dimension(file[name])]
        arrays = {name: _values(file[name]) for name in names}
        dims = {name: tuple(_dim_name(dim) for dim in file[name].dims)[1:] for name in names}
        errors = file[FAILURE].asstr()[()]
        failures = tuple(Failure(int(place), errors[place]) for place in np.flatnonzero(errors != ""))
        return Kept(file[POINT][()], Outcome(arrays, failures, dims), str(file.attrs["tutelage_version"]))


def _values(variable: Any) -> np.ndarray:
    import h5py

    if h5py.check_string_dtype(variable.dtype):
        return variable.asstr()[()]
    return variable[()].astype(bool) if variable.attrs.get("dtype") == "bool" else variable[()]


def errors_of(data: bytes, key: str) -> np.ndarray | None:
    """The error of each point ("": none), without reading the numbers; None if this is not a chunk of that sweep."""
    import h5py

    file: Any
    with h5py.File(io.BytesIO(data), "r") as file:
        ours = file.attrs.get("schema") == SCHEMA and file.attrs.get("sweep") == key
        return file[FAILURE].asstr()[()] if ours else None


def _is_bare_dimension(variable: Any) -> bool:
    """HDF5 keeps a dimension without coordinate as a dataset that says so."""
    return b"This is a netCDF dimension but not a netCDF variable" in bytes(variable.attrs.get("NAME", b""))


def _dim_name(dim: Any) -> str:
    return dim[0].name.rsplit("/", 1)[-1]
