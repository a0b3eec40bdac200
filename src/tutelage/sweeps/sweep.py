"""`sweep` and `open_sweep`: measures at many problems, as one labeled Dataset.

The Dataset (docs/schema.md) comes with a summary in words and with figures.

The lines of theory on a heat map come from the linear dynamics around perfect learning
(the analyses critical_learning_rate and noise_floor), so that they check independently
what a sweep has computed.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tutelage import analysis, checks
from tutelage._html import card, in_one_line, properties
from tutelage._types import Numbers, Table
from tutelage._version import __version__
from tutelage.errors import InputError, Status
from tutelage.problem import Problem, Start
from tutelage.problem.serialize import Plain, path_of
from tutelage.result import storage
from tutelage.sweeps.compute import compute
from tutelage.sweeps.measures import LABELS, NOT_SOLVED, resolve
from tutelage.sweeps.run import (
    Execute,
    Progress,
    Report,
    execute_all,
    executor_of,
    run,
)
from tutelage.sweeps.spec import SweepSpec, build_spec, parts_of, tasks_of
from tutelage.sweeps.store import SCHEMA, Chunk, Store, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray, Dataset, Variable

WHOLE = "sweep.nc"  # the whole Dataset, next to the chunks
# At most so many chunks are computed here: processes take seconds to start.
IN_THIS_PROCESS = 2
NOT_YET = "not computed yet"
MOST_PLACES = 41  # along an axis, at which a boundary is computed
STATUS_WORDS = {NOT_SOLVED: "not solved"} | {
    int(code): code.name.lower() for code in Status
}
OUTCOME = {  # variables of every sweep
    "status": "how the solve ended",
    "end_time": "time reached by the solve",
    "failure": "why a point has no numbers",
    "note": (
        "what to read next to the numbers: why an analysis has no result, "
        "what solve would warn of"
    ),
}
INSIDE = {
    "time": "alpha = steps / N",
    "start": (
        "number of the random initial condition: its seed minus that of the sweep"
    ),
}

Boundary = str | Callable[[Problem], float]


class Line(NamedTuple):
    """A line of theory on a figure: values of its first and of its second axis."""

    label: str
    first: np.ndarray
    second: np.ndarray


class _BoundaryCurve(NamedTuple):
    """A boundary: the value of an axis, as a function of the problem elsewhere."""

    axis: str
    label: str
    value: Callable[[Problem], Any]


class _Piece(NamedTuple):
    """The values of a variable at the points of one chunk."""

    points: np.ndarray  # their numbers in the sweep
    dims: tuple[str, ...]  # after the first, `point`
    values: np.ndarray


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep, as one labeled Dataset.

    dataset: every measure with the axes of the sweep as dims, and start, run and time
    where they apply. spec: the arguments of the sweep. folder: the folder that keeps
    it, None in memory. report: the chunks that this run computed, and its notices.
    """

    spec: SweepSpec = field(repr=False)
    dataset: "Dataset"
    folder: Path | None = None
    report: Report | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> "DataArray":
        """Return a variable of the Dataset."""
        if name not in self.dataset:
            names = ", ".join(str(name) for name in self.dataset.data_vars)
            raise InputError(f"this sweep has no {name!r}; it has {names}.")
        return self.dataset[name]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the measured variables."""
        names = [str(name) for name in self.dataset.data_vars]
        return tuple(name for name in names if name not in OUTCOME)

    @property
    def failures(self) -> dict[int, str]:
        """The errors of points without numbers, by their number in the sweep."""
        return self._texts("failure")

    @property
    def notes(self) -> dict[int, str]:
        """The notes on the numbers of a point, by its number in the sweep.

        They say why an analysis has no result, and what `solve` warns of.
        """
        return self._texts("note")

    def _texts(self, name: str) -> dict[int, str]:
        if name not in self.dataset:
            return {}
        texts = self.dataset[name].values.ravel()
        return {number: str(text) for number, text in enumerate(texts) if text}

    @property
    def diverged(self) -> int:
        """The number of solves that diverged (`status` says at which points)."""
        if "status" not in self.dataset:
            return 0
        return int(np.sum(self.dataset["status"].values == Status.DIVERGED))

    def save(self, path: str | Path) -> Path:
        """Write the Dataset as one NetCDF file, all or nothing."""
        return storage.write(self.dataset, path)

    def plot(
        self,
        variable: str | None = None,
        *,
        at: Mapping[str, Plain] | None = None,
        boundary: Boundary | Sequence[Boundary] = (),
        level: float | None = None,
        ax: "Axes | None" = None,
        title: str | None = None,
    ) -> "Figure":
        """Draw curves over one axis (or over time), or a heat map over two axes.

        variable: which measure (default: the first). at: values at which other axes are
        held, {"noise": 0.1}; the nearest ones are taken. ax: draw into these axes.
        Random initial conditions are their median with the range of their middle half.

        boundary: lines of theory on a heat map: "critical_learning_rate", where zero
        error loses its stability; "noise_floor", where label noise finally leaves an
        error of `level`; functions from a problem to a value of the second axis. level:
        this contour of the variable is drawn, too.
        """
        from tutelage.plot.sweep import plot_sweep

        values, status, base = self._chosen(variable, at)
        if isinstance(boundary, Sequence) and not isinstance(boundary, str):
            boundaries = boundary
        else:
            boundaries = [boundary]
        lines = []
        for line in boundaries:
            lines.append(boundary_line(self.spec, values, line, level))
        return plot_sweep(
            values, status, base, lines=lines, level=level, ax=ax, title=title
        )

    def _chosen(
        self, variable: str | None, at: Mapping[str, Plain] | None
    ) -> "tuple[DataArray, DataArray | None, Problem]":
        """Return the variable, its status and the base problem, at the held values."""
        if not self.variables:
            raise InputError("no point of this sweep has numbers yet; see .failures.")
        name = str(self[variable or self.variables[0]].name)
        data = self.dataset[[n for n in (name, "status") if n in self.dataset]]
        dims = [str(dim) for dim in data[name].dims]
        for axis, value in (at or {}).items():
            checks.known("a name in at", axis, dims)
            is_number = np.issubdtype(self.dataset[name][axis].dtype, np.number)
            data = data.sel({axis: value}, method="nearest" if is_number else None)
        values = data[name]
        base = self.spec.problem_at(_held(self.spec, values))
        return values, data.get("status"), base

    def _repr_html_(self) -> str:
        rows = []
        for name in self.variables:
            meaning = str(self[name].attrs.get("long_name", ""))
            rows.append((name, in_one_line(self[name].values), meaning))
        if self.folder is not None:
            rows.append(("folder", str(self.folder), "where the sweep is kept"))
        return card("Sweep", properties(rows), words=str(self))

    def __str__(self) -> str:
        names, _ = _axes(self.spec)
        sizes = zip(names, self.spec.shape, strict=True)
        axes = ", ".join(f"{name} ({size})" for name, size in sizes)
        lines = [f"{self.spec.count} points: {axes}"]
        for name, numbers in self.ranges().items():
            span = f"{numbers['least']:.5g} to {numbers['most']:.5g}"
            if np.isnan(numbers["least"]):
                span = "no number"
            lines.append(f"{name}: {span}")
        counts = {
            "diverged": self.diverged,
            "with a note (see .notes)": len(self.notes),
            "failed (see .failures)": len(self.failures),
        }
        lines += [f"{count} {words}" for words, count in counts.items() if count]
        return "\n".join(lines)

    def ranges(self) -> dict[str, dict[str, float]]:
        """Return the least and the largest number of each measure, NaN without numbers.

        The third entry is the count of the missing numbers.
        """
        finite = self.dataset[list(self.variables)].where(np.isfinite)
        ranges = {}
        for name, values in finite.items():
            ranges[str(name)] = {
                "least": float(values.min()),
                "most": float(values.max()),
                "missing": int(values.isnull().sum()),
            }
        return ranges


def sweep(
    problem: Problem,
    over: Mapping[str, object] | None = None,
    measure: str | Callable | Sequence[str | Callable] = "final_error",
    *,
    points: Sequence[Mapping[str, object]] | None = None,
    times: Numbers = 100.0,
    start: Start | str | Mapping[str, object] | None = None,
    starts: int | None = None,
    runs: int = 20,
    seed: int = 0,
    gradient_flow: bool = False,
    rtol: float | None = None,
    solver: str = "auto",
    points_per_chunk: int | None = None,
    out: str | Path | None = None,
    retry: bool = False,
    executor: str | None = None,
    workers: int | None = None,
    cluster: Mapping[str, object] | None = None,
    progress: bool = False,
    imports: Sequence[str] = (),
) -> Sweep:
    """Compute measures at every point of a grid of problems, as one labeled Dataset.

    Parameters
    ----------
    problem : Problem
        The problem that the points change.
    over : dict of lists, optional
        Names of `Problem.replace`, and "dim" and "scale" of random initial weights,
        with values: all combinations, such as {"lr": rates, "student.hidden": [2, 3]}.
        "student.hidden, teacher.hidden" sets both to one value.
    measure : str, function, or list of them
        Names (docs/how-to/sweeps.md lists them), or functions of problem, start,
        trajectory or runs.
    points : list of dict, optional
        A list of points instead of a grid.
    times, gradient_flow, rtol, solver
        As in `solve`.
    start : Start, str or dict, optional
        A `Start`, "asymmetric", or a table (dim, scale). Default: random weights.
    starts : int, optional
        Number of random initial conditions, a further axis; number i is
        random_start(..., seed=seed + i) at every point.
    runs, seed : int
        Networks per simulation; the seed of everything random.
    points_per_chunk : int, optional
        Points that are computed and saved together.
    out : str or path, optional
        A folder that saves each finished chunk; the same call resumes. A different
        sweep in it raises InputError.
    retry : bool
        Compute chunks with failed points again.
    executor, workers, cluster
        "serial", "processes", "dask", "slurm" (with options `cluster`) or the address
        of a Dask scheduler; the number of workers. They do not change the results.
    progress, imports
        Show a progress bar; modules that may be imported for values such as
        "module:function".

    Returns
    -------
    Sweep
        `.dataset` is an xarray Dataset; `.plot()` draws it.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1), tu.Network(1))
    >>> grid = {"lr": [0.5, 1.0], "noise": [0.1, 0.2, 0.3]}
    >>> swept = tu.sweep(problem, grid, "critical_learning_rate")
    >>> swept["critical_learning_rate"].dims
    ('lr', 'noise')

    The critical rate is pi sqrt(5/3), whatever the rate and the noise are:

    >>> round(float(swept["critical_learning_rate"][0, 0]), 3)
    4.056
    """
    names, functions = _named(measure, stored=out is not None)
    if functions and points_per_chunk is None:
        points_per_chunk = IN_THIS_PROCESS
    spec = build_spec(
        problem,
        over=over,
        points=points,
        measure=names,
        times=times,
        start=start,
        starts=starts,
        runs=runs,
        seed=seed,
        gradient_flow=gradient_flow,
        rtol=rtol,
        solver=solver,
        points_per_chunk=points_per_chunk,
        imports=imports,
    )
    tasks = list(tasks_of(spec, functions))
    is_small = len(tasks) <= IN_THIS_PROCESS and out is None
    executor = _executor_name(executor, functions, is_small)
    if workers is not None:
        workers = checks.as_count("workers", workers)
    execute = executor_of(executor, workers, cluster)
    shown = Progress(shown=progress)
    if out is None:
        return Sweep(spec, _computed_in_memory(spec, tasks, execute, shown))
    folder = Path(out)
    store = Store.create(folder, spec.to_dict(), chunks=len(tasks), points=spec.count)
    report = run(store, compute, tasks, execute, shown, retry)
    result = _collected(spec, store, report)
    try:
        result.save(folder / WHOLE)
    except OSError as error:
        raise InputError(
            f"every chunk is kept, but {folder / WHOLE} cannot be written "
            f"({error.strerror})."
        ) from None
    return result


def _executor_name(
    executor: str | None, functions: Mapping[str, Callable], is_small: bool
) -> str:
    """Return the executor: as asked for, else the fastest one that can be used."""
    if functions and executor not in (None, "serial"):
        name = next(iter(functions))[1:]
        raise InputError(
            f"other processes cannot import the function {name}; "
            "put it into a module, or use executor='serial'."
        )
    if executor is not None:
        return executor
    return "serial" if functions or is_small else "processes"


def _computed_in_memory(
    spec: SweepSpec, tasks: list[Task], execute: Execute, progress: Progress
) -> "Dataset":
    """Return the Dataset of a sweep that no folder keeps."""
    chunks: dict[tuple[int, ...], Chunk] = {}

    def keep(task: Task, chunk: Chunk) -> None:
        chunks[task.points] = chunk

    execute_all(execute, compute, tasks, keep, progress, spec.count)
    return combine_chunks(spec, sorted(chunks.items()))


def open_sweep(folder: str | Path) -> Sweep:
    """Return the results in the folder of a sweep.

    The sweep may have ended, been interrupted, or still be running.

    Parameters
    ----------
    folder : str or path
        The folder `out` of the sweep.

    Returns
    -------
    Sweep

    Examples
    --------
    >>> import tempfile
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1), tu.Network(1))
    >>> grid = {"lr": [0.5]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"out": f"{folder}/a", "executor": "serial"}
    ...     swept = tu.sweep(problem, grid, "critical_learning_rate", **options)
    ...     tu.open_sweep(f"{folder}/a").dataset.sizes["lr"]
    1
    """
    store = Store(folder)
    return _collected(SweepSpec(**store.spec), store)


def _collected(spec: SweepSpec, store: Store, report: Report | None = None) -> Sweep:
    """Return the sweep of all chunks in a folder."""
    chunks = (store.read(index) for index in sorted(store.done))
    return Sweep(spec, combine_chunks(spec, chunks), store.folder, report)


def _named(
    measure: str | Callable | Sequence[str | Callable], stored: bool
) -> tuple[list[str], dict[str, Callable]]:
    """Return the names of the measures, and the functions that cannot be imported."""
    measures = measure
    if isinstance(measure, str) or callable(measure):
        measures = [measure]
    if not isinstance(measures, list | tuple) or not measures:
        raise InputError(
            f"measure is {checks.shown(measures)}; "
            "it must be a name, a function, or a list of them."
        )
    names: list[str] = []
    functions: dict[str, Callable] = {}
    for item in measures:
        if callable(item):
            name = path_of(item)
            if name is None:
                name = _local_name(item, stored)
                functions[name] = item
        else:
            name = item
        resolve(name, functions)
        if name in names:
            raise InputError(f"the measure {name!r} is there twice; leave one out.")
        names.append(name)
    return names, functions


def _local_name(function: object, stored: bool) -> str:
    """Return ":name" for a function that has no module to import it from."""
    qualified_name = getattr(function, "__qualname__", "")
    if stored:
        raise InputError(
            f"{qualified_name or repr(function)} cannot be imported for a folder; "
            "put it into a module, or leave out= away."
        )
    # a nested function is called a.<locals>.name, a lambda <lambda>
    return f":{qualified_name.rpartition('.')[2].strip('<>')}"


def combine_chunks(
    spec: SweepSpec, kept: Iterable[tuple[Sequence[int] | np.ndarray, Chunk]]
) -> "Dataset":
    """Return the Dataset of everything that has been computed.

    kept: the numbers of the points of each chunk, and the chunk.
    """
    import xarray as xr

    pieces = _pieces_by_variable(spec.count, kept)
    axes, coords = _axes(spec)
    usual_error = storage.LONG["error"]
    error_name = usual_error
    # a function that is not allowed here does not keep the numbers from being read
    with suppress(InputError):
        error_name = storage.error_name(spec.base)
    labels = OUTCOME | LABELS
    variables = {}
    for name, pieces_of_variable in pieces.items():
        whole = _joined(pieces_of_variable, spec.count)
        label = labels.get(name) or name.replace("_", " ").replace(".", ", ")
        variables[name] = xr.Variable(
            dims=(*axes, *pieces_of_variable[0].dims),
            data=whole.reshape(*spec.shape, *whole.shape[1:]),
            attrs={"long_name": label.replace(usual_error, error_name)},
        )
    if "status" in variables:
        attributes = variables["status"].attrs
        attributes["flag_values"] = np.array(list(STATUS_WORDS), dtype=np.int8)
        words = [word.replace(" ", "_") for word in STATUS_WORDS.values()]
        attributes["flag_meanings"] = " ".join(words)
    coords |= _inner_coordinates(spec, variables.values())
    return xr.Dataset(variables, coords=coords, attrs=_attributes(spec))


def _pieces_by_variable(
    count: int, kept: Iterable[tuple[Sequence[int] | np.ndarray, Chunk]]
) -> dict[str, list[_Piece]]:
    """Return the values of each variable, chunk by chunk.

    At first no point is computed: `failure` says so until a chunk overwrites it.
    """
    pieces: dict[str, list[_Piece]] = {}
    for points, chunk in kept:
        for name, (dims, values) in chunk.items():
            piece = _Piece(np.asarray(points), dims, values)
            pieces.setdefault(name, []).append(piece)
    nothing = np.full(count, NOT_YET, dtype=object)
    pieces.setdefault("failure", []).insert(0, _Piece(np.arange(count), (), nothing))
    return pieces


def _joined(pieces: list[_Piece], count: int) -> np.ndarray:
    """Return the values of a variable at all points; blank where it has none.

    A point with fewer units than the largest one is blank beyond its own.
    """
    dtype = pieces[0].values.dtype
    blank = {"O": "", "f": np.nan}.get(dtype.kind, NOT_SOLVED)
    shapes = [piece.values.shape[1:] for piece in pieces]
    largest = np.max(shapes, axis=0).astype(int)
    whole = np.full((count, *largest), blank, dtype=dtype)
    for piece in pieces:
        region = tuple(slice(size) for size in piece.values.shape[1:])
        whole[(piece.points, *region)] = piece.values
    return whole


def _attributes(spec: SweepSpec) -> Table:
    """Return the attributes of the Dataset: all that the sweep was asked, as JSON."""
    asked = spec.to_dict()
    problem = asked.pop("problem")
    del asked["points"]  # they are coordinates
    return {
        "schema": SCHEMA,
        "tutelage_version": __version__,
        "problem": json.dumps(problem, sort_keys=True),
        "spec": json.dumps(asked, sort_keys=True),
        "measures": " ".join(spec.measure),
    }


def _inner_coordinates(spec: SweepSpec, variables: Iterable["Variable"]) -> Table:
    """Return the coordinates of a point's own dims, those that a variable has."""
    present = {dim for variable in variables for dim in variable.dims}
    values_of = {
        "time": np.array(spec.times),
        "start": np.arange(spec.starts or 1),
        "run": np.arange(spec.runs),
    }
    coords = {}
    for name, values in values_of.items():
        if name in present:
            coords[name] = (name, values, {"long_name": INSIDE.get(name, name)})
    return coords


def _axes(spec: SweepSpec) -> tuple[tuple[str, ...], Table]:
    """Return dims and coordinates of the points themselves."""
    coords: Table = {}
    if spec.points is None:
        for name, values in spec.over.items():
            coords[name] = (name, _coordinate(values))
        return tuple(spec.over), coords
    coords["point"] = np.arange(spec.count)
    for name in spec.points[0]:
        coords[name] = ("point", _coordinate([point[name] for point in spec.points]))
    return ("point",), coords


def _coordinate(values: list[Plain]) -> np.ndarray:
    """Return numbers and texts as they are; lists and tables as JSON."""
    are_numbers = all(isinstance(value, int | float) for value in values)
    if are_numbers and len({isinstance(value, bool) for value in values}) == 1:
        return np.array(values)
    texts = []
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        else:
            texts.append(json.dumps(value))
    return np.array(texts, dtype=object)


def boundary_line(
    spec: SweepSpec, values: "DataArray", boundary: Boundary, level: float | None
) -> Line:
    """Return a line of theory on the figure of these values.

    It has a gap where the analysis has no result.
    """
    dims = [str(dim) for dim in values.dims if dim != "start"]
    if len(dims) != 2 or "point" in dims:
        raise InputError(
            f"a boundary needs two axes; {values.name} has {', '.join(dims)}. "
            "Hold others with at=."
        )
    curve = _boundary_curve(boundary, dims[1], level)
    names_of_axis = {curve.axis, curve.axis.removeprefix("optimizer.")}
    others = [dim for dim in dims if not names_of_axis & {dim, *parts_of(dim)}]
    if len(others) == 2:
        raise InputError(
            f"the boundary {boundary!r} is a value of {curve.axis}; "
            f"this figure has the axes {' and '.join(dims)}."
        )
    (along,) = others
    places = values[along].values
    if places.dtype.kind == "f":  # counts and texts stay as they are
        finer = np.linspace(0, places.size - 1, MOST_PLACES)
        places = np.interp(finer, np.arange(places.size), places)
    on_axis = np.full(places.size, np.nan)
    refusal = InputError("its values are not finite.")
    for i, place in enumerate(places.tolist()):
        point = _held(spec, values) | {along: place}
        try:
            on_axis[i] = float(curve.value(spec.problem_at(point)))
        except InputError as error:
            refusal = error
    if not np.any(np.isfinite(on_axis)):
        raise InputError(
            f"the boundary {curve.label!r} has no value along {along}: {refusal}"
        )
    if along == dims[0]:
        return Line(curve.label, first=places, second=on_axis)
    return Line(curve.label, first=on_axis, second=places)


def _boundary_curve(
    boundary: Boundary, second_axis: str, level: float | None
) -> _BoundaryCurve:
    """Return the curve of a boundary; a function gives values of the second axis."""
    if callable(boundary):
        return _BoundaryCurve(second_axis, boundary.__name__, boundary)
    if boundary == "critical_learning_rate":
        label = r"critical learning rate $\eta_c$"
        return _BoundaryCurve("optimizer.lr", label, analysis.critical_learning_rate)
    if boundary == "noise_floor":
        if level is None:
            raise InputError(
                "the boundary 'noise_floor' is that of an error; "
                "give level=, such as level=0.01."
            )
        label = f"noise floor, linear response: $\\epsilon_g={level:g}$"
        return _BoundaryCurve("noise", label, partial(_noise_of_floor, level))
    raise InputError(
        f"boundary is {checks.shown(boundary)}; "
        "it must be 'critical_learning_rate', 'noise_floor', or a function."
    )


def _noise_of_floor(error: float, problem: Problem) -> float:
    """Return the standard deviation of the label noise that finally leaves an error."""
    return float(np.sqrt(error / analysis.noise_floor(problem).per_variance))


def _held(spec: SweepSpec, values: "DataArray") -> Table:
    """Return the axes of the sweep at which these values are held."""
    held = {}
    for name, coordinate in values.coords.items():
        if coordinate.ndim == 0 and str(name) in spec.over:
            held[str(name)] = coordinate.item()
    return held
