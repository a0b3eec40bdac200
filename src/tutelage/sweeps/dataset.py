"""Chunks put together: one labeled Dataset with the axes of the sweep as dims (docs/schema.md says what is in it)."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage._errors import InputError, Status
from tutelage._version import __version__
from tutelage.storage import LONG as OF_TRAJECTORY
from tutelage.storage import error_name
from tutelage.sweeps.measures import resolve
from tutelage.sweeps.measures.answers import in_words
from tutelage.sweeps.outcome import Outcome
from tutelage.sweeps.spec import SweepSpec

if TYPE_CHECKING:
    from xarray import Dataset

SCHEMA = "tutelage-sweep/1"
NOT_YET = "not computed yet"
STATUS_WORDS = {-1: "not solved"} | {int(code): code.name.lower() for code in Status}
LONG = {
    "status": "how the solve ended",
    "end_time": "time reached by the solve",
    "failure": "why a point has no numbers",
    "note": "what to read beside the numbers: why a verb has none, what solve would warn of",
    "time": "alpha = steps / N",
    "start": "number of the random start: its seed less that of the sweep",
}


def assemble(spec: SweepSpec, kept: Iterable[tuple[Any, Outcome]], functions: dict[str, Any] | None = None) -> "Dataset":
    """The Dataset of what has been computed. kept: the numbers of the points of each chunk, and its outcome."""
    import xarray as xr

    kept = [(np.asarray(points), outcome) for points, outcome in kept]
    dims, coords = _axes(spec)
    shape = spec.all_points.shape
    failure = np.full(len(spec.all_points), NOT_YET, dtype=object)
    for points, outcome in kept:
        failure[points] = ""
        for lost in outcome.failures:
            failure[points[lost.point]] = lost.error
    words = LONG | _words(spec, functions)
    data = {}
    for name in dict.fromkeys(name for _, outcome in kept for name in outcome.arrays):
        own, values = _joined(name, kept, len(failure))
        data[name] = ((*dims, *own), values.reshape(*shape, *values.shape[1:]), {"long_name": words.get(name, name)})
    if "status" in data:
        data["status"][2]["flag_values"] = np.array(list(STATUS_WORDS), dtype=np.int8)
        data["status"][2]["flag_meanings"] = " ".join(word.replace(" ", "_") for word in STATUS_WORDS.values())
    data["failure"] = (dims, failure.reshape(shape), {"long_name": LONG["failure"]})
    dataset = xr.Dataset(data, coords=coords, attrs=_attributes(spec))
    return dataset.assign_coords(_inner(spec, dataset))


def _axes(spec: SweepSpec) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Dims and coordinates of the points themselves."""
    points = spec.all_points
    if points.listed is not None:
        coords = {name: ("point", _coordinate([point[name] for point in points.listed])) for name in points.names}
        return ("point",), {"point": np.arange(len(points))} | coords
    return points.names, {name: (name, _coordinate(values)) for name, values in points.axes.items()}


def _coordinate(values: list[Any]) -> np.ndarray:
    """Numbers and words as they are; lists and tables as JSON."""
    if all(isinstance(value, bool) for value in values):
        return np.array(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values)
    return np.array([value if isinstance(value, str) else json.dumps(value) for value in values], dtype=object)


def _inner(spec: SweepSpec, dataset: "Dataset") -> dict[str, Any]:
    """Coordinates of the dims inside a point."""
    inside = {"time": np.array(spec.times), "start": np.arange(spec.starts or 1), "run": np.arange(spec.runs)}
    return {
        name: (name, values, {"long_name": LONG.get(name, name)})
        for name, values in inside.items()
        if name in dataset.dims and name not in dataset.coords
    }


def _joined(name: str, kept: list[tuple[np.ndarray, Outcome]], count: int) -> tuple[tuple[str, ...], np.ndarray]:
    """One variable over all points: NaN where a point has no number, or fewer units than the largest."""
    found = [(points, outcome.arrays[name], outcome) for points, outcome in kept if name in outcome.arrays]
    _, first, outcome = max(found, key=lambda entry: entry[1].ndim)
    dims = (outcome.dims or {}).get(name) or tuple(f"{name}_{i}" for i in range(1, first.ndim))
    shape = tuple(max(array.shape[i] for _, array, _ in found) for i in range(1, first.ndim))
    blank: Any = {"O": "", "U": ""}.get(first.dtype.kind, np.nan if first.dtype.kind == "f" else -1)
    values = np.full((count, *shape), blank, dtype=object if first.dtype.kind in "OU" else first.dtype)
    for points, array, _ in found:
        block = np.full((array.shape[0], *shape), blank, dtype=values.dtype)
        block[tuple(slice(size) for size in array.shape)] = array
        values[points] = block
    return dims, values


def _words(spec: SweepSpec, functions: dict[str, Any] | None) -> dict[str, str]:
    """What each variable is. Reading a sweep imports nothing: a function of one's own is called by its name."""
    words: dict[str, str] = {}
    for name in spec.measure:
        short = name.rpartition(":")[2]
        words |= {short: in_words(short)} if ":" in name else resolve(name, functions).words
    with suppress(InputError):  # a function that is not allowed here does not keep the numbers from being read
        error = error_name(spec.base)
        words = {name: text.replace(OF_TRAJECTORY["error"], error) for name, text in words.items()}
    return words


def _attributes(spec: SweepSpec) -> dict[str, str]:
    table = spec.to_dict()
    return {
        "schema": SCHEMA,
        "tutelage_version": __version__,
        "problem": json.dumps(table.pop("problem"), sort_keys=True),
        "spec": json.dumps({name: value for name, value in table.items() if name != "points"}, sort_keys=True),
        "measures": " ".join(spec.measure),
    }
