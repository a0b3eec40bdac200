"""Trajectories as tables of pandas and as CSV files, and the choice of a file format.

pandas is not imported before a table is asked for; xarray needs it anyway.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import checks
from tutelage._files import require_place, write_bytes
from tutelage.errors import InputError
from tutelage.result import storage

if TYPE_CHECKING:
    import pandas

FORMATS = (".nc", ".csv")
PER_LEVEL = ("r", "q")  # variables whose first index is a level


def to_pandas(trajectory: Any) -> "pandas.DataFrame":
    """Return one row for each recorded time of each member.

    trajectory: a `Trajectory`, whose module comes after this one.
    """
    import pandas as pd

    dataset = trajectory.to_dataset()  # it checks the trajectory
    names = dataset["error"].dims
    leading = [str(name) for name in names if name != "task"]
    lead = dataset["error"].shape[: len(leading)]
    levels: list[Any] = [np.arange(size) for size in lead[:-1]]
    levels.append(dataset["time"].values)
    index: Any = pd.Index(levels[0], name="time")
    if len(levels) > 1:
        index = pd.MultiIndex.from_product(levels, names=leading)
    columns = {}
    if "step" in dataset.coords:
        columns["step"] = np.broadcast_to(dataset["step"].values, lead).ravel()
    curves = {"error": dataset["error"].values}
    if "loss" in dataset and np.any(np.isfinite(dataset["loss"].values)):
        curves["loss"] = dataset["loss"].values
    for name, values in trajectory.curves.items():
        curves[name] = np.asarray(values)
    for name in _ordered(trajectory):
        curves[name] = np.asarray(trajectory.variables[name])
    for name, values in curves.items():
        rows = values.reshape(index.size, *values.shape[len(lead) :])
        for label, entry in _entries(name, rows):
            columns[label] = entry
    return pd.DataFrame(columns, index=index)


def _ordered(trajectory: Any) -> list[str]:
    """Return the names of the variables, R and Q first.

    r and q of a single level are R and Q again, and are left out.
    """
    variables = trajectory.variables
    first = [name for name in storage.DIMS if name in variables]
    names = first + [name for name in variables if name not in first]
    problem = trajectory.problem
    if problem is not None and problem.inputs.levels == 1:
        names = [name for name in names if name not in PER_LEVEL]
    return names


def _entries(name: str, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the columns of one variable, (row, ...), with their names.

    Indices count from one. They are joined, R_12, unless one has two digits, R_1_12.
    """
    shape = rows.shape[1:]
    for index in np.ndindex(shape):
        numbers = [str(place + 1) for place in index]
        first = []
        if name in PER_LEVEL and len(numbers) == 3:
            first = [numbers.pop(0)]
        between = "_" if max(shape[len(first) :], default=1) > 9 else ""
        parts = [name, *first]
        if numbers:
            parts.append(between.join(numbers))
        yield "_".join(parts), rows[(slice(None), *index)]


def save(trajectory: Any, path: str | Path) -> Path:
    """Write a trajectory as NetCDF or CSV, according to the ending of the name."""
    place = require_place(storage.as_path(path))
    suffix = place.suffix.lower()
    if suffix not in FORMATS:
        ending = f"ends in {place.suffix!r}" if place.suffix else "has no ending"
        raise InputError(
            f"{place} {ending}; the name of a trajectory must end in .nc (NetCDF, "
            f"which load reads) or .csv (a table).{checks.nearest(suffix, FORMATS)}"
        )
    if suffix == ".nc":
        return storage.write(trajectory.to_dataset(), place)
    text = to_pandas(trajectory).to_csv()
    return write_bytes(place, text.encode())
