"""The result of a sweep: all chunks as one labeled Dataset (docs/schema.md lists its variables), with words and figures.

A phase diagram has lines that theory draws on it:

    critical_learning_rate    the learning rate above which zero error is unstable, label noise aside
    noise_floor               the label noise that finally leaves an error of `level`, to first order in its variance

Neither solves anything: both come from the linear dynamics around perfect learning (the analyses of these names), so that
they check independently what a sweep has computed. A custom function works as well.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tutelage import analysis, checks, storage
from tutelage._html import card, in_one_line, properties
from tutelage._types import Table
from tutelage._version import __version__
from tutelage.errors import InputError, Status
from tutelage.problem import Problem
from tutelage.problem.serialize import Plain
from tutelage.sweeps.engine import Report
from tutelage.sweeps.executors import Chunk
from tutelage.sweeps.measures import NOT_SOLVED, label_of
from tutelage.sweeps.spec import SweepSpec, parts_of
from tutelage.sweeps.store import SCHEMA

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray, Dataset

NOT_YET = "not computed yet"
MOST_PLACES = 41  # along an axis, at which a boundary is computed
STATUS_WORDS = {NOT_SOLVED: "not solved"} | {int(code): code.name.lower() for code in Status}
LONG = {
    "status": "how the solve ended",
    "end_time": "time reached by the solve",
    "failure": "why a point has no numbers",
    "note": "what to read next to the numbers: why an analysis has no result, what solve would warn of",
    "time": "alpha = steps / N",
    "start": "number of the random initial condition: its seed minus that of the sweep",
}

Boundary = str | Callable[[Problem], float]
Boundaries = Boundary | Sequence[Boundary] | Mapping[str, Boundary]


@dataclass(frozen=True)
class Sweep:
    """dataset: every measure with the axes of the sweep as dims, and start, run and time where they apply.

    spec: what was asked. folder: where it is kept, None in memory. report: what this run computed and what it found.
    """

    spec: SweepSpec = field(repr=False)
    dataset: "Dataset"
    folder: Path | None = None
    report: Report | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> "DataArray":
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
        self,
        variable: str | None = None,
        *,
        at: Mapping[str, Plain] | None = None,
        ax: "Axes | None" = None,
        title: str | None = None,
    ) -> "Figure":
        """Curves for one axis (or for times), a heat map with contours for two, as a Matplotlib figure.

        variable: which measure (default: the first). at: values at which other axes are held, {"noise": 0.1}; the nearest
        ones there are. ax: draw into these axes, and return them. The median over random initial conditions is drawn, with the range of
        their middle half.
        """
        from tutelage.plot.sweep import plot_sweep

        chosen = self._chosen(variable, at)
        return plot_sweep(*chosen, self._held_problem(chosen[0]), ax=ax, title=title)

    def phase_diagram(
        self,
        variable: str | None = None,
        *,
        boundary: Boundaries,
        level: float | None = None,
        at: Mapping[str, Plain] | None = None,
        title: str | None = None,
    ) -> "Figure":
        """A heat map over two axes with lines that theory draws on it.

        boundary: "critical_learning_rate", where zero error loses its stability; "noise_floor", where label noise finally leaves an
        error of `level`; or a function from a problem to a value of the second axis. Several as a list, or with
        labels as {"label": boundary}. level: this contour of the measured variable is drawn, too.
        """
        from tutelage.plot.sweep import plot_sweep

        chosen = self._chosen(variable, at)
        dims = _figure_dims(chosen[0])
        if len(dims) != 2 or "point" in dims:
            raise InputError(
                f"a phase diagram needs two axes; {chosen[0].name} has {', '.join(dims)}. Hold others with at=."
            )
        lines = boundary_lines(self.spec, chosen[0], boundary, level)
        return plot_sweep(*chosen, self._held_problem(chosen[0]), lines=lines, level=level, title=title)

    def _chosen(self, variable: str | None, at: Mapping[str, Plain] | None) -> "tuple[DataArray, DataArray | None]":
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

    def _held_problem(self, values: "DataArray") -> Problem:
        """The base problem, with the axes that are held at their values."""
        return self.spec.problem_at(_held(self.spec, values))

    def _repr_html_(self) -> str:
        meanings = [str(self.dataset[name].attrs.get("long_name", "")) for name in self.variables]
        rows = [(name, in_one_line(self[name].values), words) for name, words in zip(self.variables, meanings, strict=True)]
        kept = [] if self.folder is None else [("folder", str(self.folder), "where the sweep is kept")]
        return card("Sweep", properties([*rows, *kept]), words=str(self))

    def __str__(self) -> str:
        axes = zip(_axes(self.spec)[0], self.spec.shape, strict=True)
        lines = [f"{self.spec.count} points: {', '.join(f'{name} ({size})' for name, size in axes)}"]
        for name in self.variables:
            values = self.dataset[name].values
            found = values[np.isfinite(values)]
            span = f"{found.min():.5g} to {found.max():.5g}" if found.size else "no number"
            lines.append(f"{name}: {span}")
        counts = (("diverged", self.diverged), ("with a note (see .notes)", len(self.notes)))
        counts += (("failed (see .failures)", len(self.failures)),)
        return "\n".join([*lines, *(f"{count} {what}" for what, count in counts if count)])


def combine_chunks(spec: SweepSpec, kept: Iterable[tuple[Sequence[int] | np.ndarray, Chunk]]) -> "Dataset":
    """The Dataset of what has been computed. kept: the numbers of the points of each chunk, and the chunk."""
    import xarray as xr

    count, shape = spec.count, spec.shape
    nothing: Chunk = {"failure": ((), np.full(count, NOT_YET, dtype=object))}
    chunks = [(np.arange(count), nothing), *((np.asarray(points), chunk) for points, chunk in kept)]
    axes, coords = _axes(spec)
    data = {}
    for name in dict.fromkeys(name for _, chunk in [*chunks[1:], chunks[0]] for name in chunk):
        dims, values = _combined(name, chunks, count)
        data[name] = ((*axes, *dims), values.reshape(*shape, *values.shape[1:]), {"long_name": _label(spec, name)})
    if "status" in data:
        data["status"][2]["flag_values"] = np.array(list(STATUS_WORDS), dtype=np.int8)
        data["status"][2]["flag_meanings"] = " ".join(word.replace(" ", "_") for word in STATUS_WORDS.values())
    table = spec.to_dict()
    del table["points"]
    attributes = {
        "schema": SCHEMA,
        "tutelage_version": __version__,
        "problem": json.dumps(table.pop("problem"), sort_keys=True),
        "spec": json.dumps(table, sort_keys=True),
        "measures": " ".join(spec.measure),
    }
    inside = {"time": np.array(spec.times), "start": np.arange(spec.starts or 1), "run": np.arange(spec.runs)}
    present = {dim for dims, _, _ in data.values() for dim in dims}
    coords |= {
        name: (name, values, {"long_name": LONG.get(name, name)}) for name, values in inside.items() if name in present
    }
    return xr.Dataset(data, coords=coords, attrs=attributes)


def _axes(spec: SweepSpec) -> tuple[tuple[str, ...], Table]:
    """Dims and coordinates of the points themselves."""
    if spec.points is None:
        return tuple(spec.over), {name: (name, _coordinate(values)) for name, values in spec.over.items()}
    coords = {name: ("point", _coordinate([point[name] for point in spec.points])) for name in spec.points[0]}
    return ("point",), {"point": np.arange(spec.count)} | coords


def _coordinate(values: list[Plain]) -> np.ndarray:
    """Numbers and words as they are; lists and tables as JSON."""
    if all(isinstance(value, int | float) for value in values) and len({isinstance(value, bool) for value in values}) == 1:
        return np.array(values)
    return np.array([value if isinstance(value, str) else json.dumps(value) for value in values], dtype=object)


def _combined(name: str, chunks: list[tuple[np.ndarray, Chunk]], count: int) -> tuple[tuple[str, ...], np.ndarray]:
    """One variable over all points: blank where a point has no value, or fewer units than the largest."""
    found = [(points, *chunk[name]) for points, chunk in chunks if name in chunk]
    _, dims, first = found[0]
    shape = np.max([values.shape[1:] for _, _, values in found], axis=0).astype(int)
    blank = {"O": "", "f": np.nan}.get(first.dtype.kind, NOT_SOLVED)
    whole = np.full((count, *shape), blank, dtype=first.dtype)
    for points, _, values in found:
        block = np.full((points.size, *shape), blank, dtype=first.dtype)
        block[tuple(map(slice, values.shape))] = values
        whole[points] = block
    return dims, whole


def _label(spec: SweepSpec, variable: str) -> str:
    """What a variable is. Reading a sweep imports nothing: a custom function is called by its name."""
    label = LONG.get(variable) or label_of(variable)
    with suppress(InputError):  # a function that is not allowed here does not keep the numbers from being read
        return label.replace(storage.LONG["error"], storage.error_name(spec.base))
    return label


# Lines that theory draws.


@dataclass(frozen=True)
class Line:
    """A boundary as it is drawn: x and y are values of the first and second axis of the figure."""

    label: str
    x: np.ndarray
    y: np.ndarray


def _critical_rate(problem: Problem, level: float | None) -> float:
    return analysis.critical_learning_rate(problem).rate


def _noise_for_floor(problem: Problem, level: float | None) -> float:
    """sigma with per_variance sigma^2 = level."""
    if level is None:
        raise InputError("the boundary 'noise_floor' is that of an error; give level=, such as level=0.01.")
    return float(np.sqrt(level / analysis.noise_floor(problem).per_variance))


BOUNDARIES = {  # the axis that it is a value of, the value at a problem for a level of the measure, and what it is
    "critical_learning_rate": ("sgd.lr", _critical_rate, r"critical learning rate $\eta_c$"),
    "noise_floor": ("noise", _noise_for_floor, "noise floor, linear response"),
}


def boundary_lines(spec: SweepSpec, values: "DataArray", boundary: Boundaries, level: float | None) -> list[Line]:
    """The boundaries on the figure of these values. A name, a function, several, or several with labels."""
    dims, lines = _figure_dims(values), []
    several = boundary if isinstance(boundary, Mapping | list | tuple) else [boundary]
    for key, one in several.items() if isinstance(several, Mapping) else enumerate(several):
        label = key if isinstance(key, str) else None
        if isinstance(one, str):
            axis, value, words = BOUNDARIES[checks.known("boundary", one, BOUNDARIES)]
            if one == "noise_floor" and level is not None:
                words = f"{words}: $\\epsilon_g={level:g}$"
            across = next((dim for dim in dims if {axis, axis.rpartition(".")[2]} & set(parts_of(dim))), None)
            if across is None:
                where = f"this figure has the axes {' and '.join(dims)}"
                raise InputError(f"the boundary {one!r} is a value of {axis}; {where}.")
            lines.append(_line(spec, values, across, lambda problem, f=value: f(problem, level), label or words))
        elif callable(one):
            lines.append(_line(spec, values, dims[1], one, label or one.__name__))
        else:
            raise InputError(f"boundary is {checks.shown(one)}; it must be one of {', '.join(BOUNDARIES)}, or a function.")
    return lines


def _figure_dims(values: "DataArray") -> list[str]:
    return [str(dim) for dim in values.dims if dim != "start"]


def _held(spec: SweepSpec, values: "DataArray") -> Table:
    """The axes of the sweep at which these values are held."""
    return {str(name): c.item() for name, c in values.coords.items() if c.ndim == 0 and str(name) in spec.over}


def _line(spec: SweepSpec, values: "DataArray", across: str, value: Callable, label: str) -> Line:
    """Compute it along the other axis; where the analysis has no result there is a gap."""
    dims, held = _figure_dims(values), _held(spec, values)
    along = next(dim for dim in dims if dim != across)
    places = values[along].values
    if places.dtype.kind == "f":  # counts and words only as they are
        places = np.interp(np.linspace(0, places.size - 1, MOST_PLACES), np.arange(places.size), places)
    found, refusal = np.full(places.size, np.nan), InputError("its values are not finite.")
    for i, place in enumerate(places.tolist()):
        try:
            found[i] = value(spec.problem_at(held | {along: place}))
        except InputError as error:
            refusal = error
    if not np.any(np.isfinite(found)):
        raise InputError(f"the boundary {label!r} has no value along {along}: {refusal}")
    return Line(label, places, found) if along == dims[0] else Line(label, found, places)
