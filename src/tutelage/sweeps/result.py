"""The result of a sweep: all chunks as one labeled Dataset (docs/schema.md lists its variables), with words and figures."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage import checks, storage
from tutelage._errors import InputError, Status
from tutelage._version import __version__
from tutelage.sweeps.boundaries import boundary_lines
from tutelage.sweeps.measures import label_of, resolve
from tutelage.sweeps.spec import SweepSpec
from tutelage.sweeps.tasks import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset

SCHEMA = "tutelage-sweep/1"
NOT_YET = "not computed yet"
STATUS_WORDS = {-1: "not solved"} | {int(code): code.name.lower() for code in Status}
LONG = {
    "status": "how the solve ended",
    "end_time": "time reached by the solve",
    "failure": "why a point has no numbers",
    "note": "what to read next to the numbers: why an analysis has no result, what solve would warn of",
    "time": "alpha = steps / N",
    "start": "number of the random start: its seed less that of the sweep",
}


@dataclass(frozen=True)
class Sweep:
    """dataset: every measure with the axes of the sweep as dims, and start, run and time where they apply.

    spec: what was asked. folder: where it is kept, None in memory. report: what this run computed and what it found.

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1), tu.Network(1))
    >>> print(tu.sweep(problem, {"batch": [1, 2]}, "critical_learning_rate"))
    2 points: batch (2)
    critical_learning_rate: 4.0558 to 8.1116
    """

    spec: SweepSpec = field(repr=False)
    dataset: "Dataset"
    folder: Path | None = None
    report: Any = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Any:
        """A variable of the Dataset."""
        if name not in self.dataset:
            raise InputError(f"this sweep has no {name!r}; it has {', '.join(map(str, self.dataset.data_vars))}.")
        return self.dataset[name]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of what was measured."""
        return tuple(str(name) for name in self.dataset.data_vars if name not in ("status", "end_time", "failure", "note"))

    @property
    def failures(self) -> dict[int, str]:
        """Why points have no numbers, by their number in the sweep; empty if all have."""
        return self._sentences("failure")

    @property
    def notes(self) -> dict[int, str]:
        """What to read next to the numbers, by point: why an analysis has no result, what `solve` warns of."""
        return self._sentences("note") if "note" in self.dataset else {}

    def _sentences(self, name: str) -> dict[int, str]:
        words = self.dataset[name].values.ravel()
        return {int(i): str(words[i]) for i in np.flatnonzero(words != "")}

    @property
    def diverged(self) -> int:
        """How many solves diverged (`status` says where)."""
        return int(np.sum(self.dataset["status"].values == Status.DIVERGED)) if "status" in self.dataset else 0

    def save(self, path: str | Path) -> Path:
        """Write the Dataset as one NetCDF file, all or nothing."""
        return storage.write(self.dataset, path)

    def plot(
        self, variable: str | None = None, *, at: Mapping[str, Any] | None = None, title: str | None = None
    ) -> "Figure":
        """Curves for one axis (or for times), a heat map with contours for two, as a Matplotlib figure.

        variable: which measure (default: the first). at: values at which other axes are held, {"noise": 0.1}; the nearest
        ones there are. The median over random starts is drawn, with the range of their middle half.
        """
        from tutelage.plot.sweep import plot_sweep

        chosen = self._chosen(variable, at)
        return plot_sweep(*chosen, self._held_problem(chosen[0]), title=title)

    def phase_diagram(
        self,
        variable: str | None = None,
        *,
        boundary: Any,
        level: float | None = None,
        at: Mapping[str, Any] | None = None,
        title: str | None = None,
    ) -> "Figure":
        """A heat map over two axes with lines that theory draws on it.

        boundary: "critical_learning_rate", where zero error loses its stability; "noise_floor", where label noise leaves an
        error of `level` in the end; or a function from a problem to a value of the second axis. Several as a list, or with
        labels of their own as {"label": boundary}. level: this contour of the measured variable is drawn, too.
        """
        from tutelage.plot.sweep import plot_sweep

        chosen = self._chosen(variable, at)
        dims = [dim for dim in chosen[0].dims if dim not in ("start",)]
        if len(dims) != 2 or "point" in dims:
            raise InputError(
                f"a phase diagram needs two axes; {chosen[0].name} has {', '.join(dims)}. Hold others with at=."
            )
        lines = boundary_lines(self.spec, chosen[0], boundary, level)
        return plot_sweep(*chosen, self._held_problem(chosen[0]), lines=lines, level=level, title=title)

    def _chosen(self, variable: str | None, at: Mapping[str, Any] | None) -> tuple[Any, Any]:
        """The variable, and how its solves ended, with axes held where asked for."""
        if not self.variables:
            raise InputError("no point of this sweep has numbers yet; see .failures.")
        values = self[variable or self.variables[0]]
        status = self.dataset.get("status", None)
        for name, where in (at or {}).items():
            checks.known("a name in at", name, dict.fromkeys(str(dim) for dim in values.dims))
            method = "nearest" if np.issubdtype(values[name].dtype, np.number) else None
            values = values.sel({name: where}, method=method)
            if status is not None and name in status.dims:
                status = status.sel({name: where}, method=method)
        return values, status

    def _held_problem(self, values: Any) -> Any:
        """The base problem, with the axes that are held at their values."""
        names = set(self.spec.all_points.names) if self.spec.all_points.listed is None else set()
        held = {str(name): c.item() for name, c in values.coords.items() if c.ndim == 0 and name in names}
        return self.spec.problem_at(held)

    def __str__(self) -> str:
        sizes = ", ".join(
            f"{name} ({size})" for name, size in zip(self._axis_names(), self.spec.all_points.shape, strict=True)
        )
        lines = [f"{len(self.spec.all_points)} points: {sizes}"]
        for name in self.variables:
            values = self.dataset[name].values
            found = values[np.isfinite(values)]
            span = f"{found.min():.5g} to {found.max():.5g}" if found.size else "no number"
            lines.append(f"{name}: {span}")
        counts = (("diverged", self.diverged), ("with a note (see .notes)", len(self.notes)))
        counts += (("failed (see .failures)", len(self.failures)),)
        return "\n".join([*lines, *(f"{count} {what}" for what, count in counts if count)])

    def _axis_names(self) -> tuple[str, ...]:
        points = self.spec.all_points
        return points.names if points.listed is None else ("point",)


def combine_chunks(
    spec: SweepSpec, kept: Iterable[tuple[Any, Outcome]], functions: dict[str, Any] | None = None
) -> "Dataset":
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
        own, values = _combined(name, kept, len(failure))
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


def _combined(name: str, kept: list[tuple[np.ndarray, Outcome]], count: int) -> tuple[tuple[str, ...], np.ndarray]:
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
        words |= {short: label_of(short)} if ":" in name else resolve(name, functions).words
    with suppress(InputError):  # a function that is not allowed here does not keep the numbers from being read
        error = storage.error_name(spec.base)
        words = {name: text.replace(storage.LONG["error"], error) for name, text in words.items()}
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
