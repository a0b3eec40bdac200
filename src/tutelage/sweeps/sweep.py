"""`sweep` and `open_sweep`: measures at many problems, as one labeled Dataset (docs/schema.md) with words and figures.

The lines of theory on a heat map come from the linear dynamics around perfect learning (the analyses
critical_learning_rate and noise_floor), so that they check independently what a sweep has computed.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tutelage import analysis, checks, storage
from tutelage._html import card, in_one_line, properties
from tutelage._types import Numbers, Table
from tutelage._version import __version__
from tutelage.errors import InputError, Status
from tutelage.problem import Problem, Start
from tutelage.problem.serialize import Plain, path_of
from tutelage.sweeps.compute import compute
from tutelage.sweeps.measures import LABELS, NOT_SOLVED, resolve
from tutelage.sweeps.run import Progress, Report, execute_all, executor_of, run
from tutelage.sweeps.spec import SweepSpec, build_spec, parts_of, tasks_of
from tutelage.sweeps.store import SCHEMA, Chunk, Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray, Dataset

WHOLE = "sweep.nc"  # the whole Dataset, next to the chunks
IN_THIS_PROCESS = 2  # at most so many chunks are computed here rather than in processes, which take seconds to start
NOT_YET = "not computed yet"
MOST_PLACES = 41  # along an axis, at which a boundary is computed
STATUS_WORDS = {NOT_SOLVED: "not solved"} | {int(code): code.name.lower() for code in Status}
OUTCOME = {  # variables of every sweep
    "status": "how the solve ended",
    "end_time": "time reached by the solve",
    "failure": "why a point has no numbers",
    "note": "what to read next to the numbers: why an analysis has no result, what solve would warn of",
}
INSIDE = {"time": "alpha = steps / N", "start": "number of the random initial condition: its seed minus that of the sweep"}

Boundary = str | Callable[[Problem], float]
Line = tuple[str, np.ndarray, np.ndarray]  # its label, and values of the first and second axis of a figure


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
        return tuple(str(name) for name in self.dataset.data_vars if name not in OUTCOME)

    @property
    def failures(self) -> dict[int, str]:
        """Why points have no numbers, by their number in the sweep; empty if all have."""
        return self._sentences("failure")

    @property
    def notes(self) -> dict[int, str]:
        """What to read next to the numbers, by point: why an analysis has no result, what `solve` warns of."""
        return self._sentences("note")

    def _sentences(self, name: str) -> dict[int, str]:
        words = self.dataset[name].values.ravel() if name in self.dataset else ()
        return {number: str(sentence) for number, sentence in enumerate(words) if sentence}

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
        boundary: Boundary | Sequence[Boundary] = (),
        level: float | None = None,
        ax: "Axes | None" = None,
        title: str | None = None,
    ) -> "Figure":
        """Curves for one axis (or for times), a heat map with contours for two, as a Matplotlib figure.

        variable: which measure (default: the first). at: values at which other axes are held, {"noise": 0.1}; the nearest ones
        are taken. ax: draw into these axes. Random initial conditions are their median with the range of their middle half.

        boundary: lines of theory on a heat map: "critical_learning_rate", where zero error loses its stability; "noise_floor",
        where label noise finally leaves an error of `level`; functions from a problem to a value of the second axis. level:
        this contour of the variable is drawn, too.
        """
        from tutelage.plot.sweep import plot_sweep

        values, status, base = self._chosen(variable, at)
        boundaries = boundary if isinstance(boundary, Sequence) and not isinstance(boundary, str) else [boundary]
        lines = [boundary_line(self.spec, values, each, level) for each in boundaries]
        return plot_sweep(values, status, base, lines=lines, level=level, ax=ax, title=title)

    def _chosen(self, variable: str | None, at: Mapping[str, Plain] | None) -> "tuple[DataArray, DataArray | None, Problem]":
        """The variable, how its solves ended, and the base problem, with axes held where asked for."""
        if not self.variables:
            raise InputError("no point of this sweep has numbers yet; see .failures.")
        values = self[variable or self.variables[0]]
        data = self.dataset[[name for name in (values.name, "status") if name in self.dataset]]
        for name, where in (at or {}).items():
            checks.known("a name in at", name, map(str, values.dims))
            method = "nearest" if np.issubdtype(values[name].dtype, np.number) else None
            data = data.sel({name: where}, method=method)
        values = data[values.name]
        return values, data.get("status"), self.spec.problem_at(_held(self.spec, values))

    def _repr_html_(self) -> str:
        rows = [(n, in_one_line(self[n].values), str(self[n].attrs.get("long_name", ""))) for n in self.variables]
        kept = [] if self.folder is None else [("folder", str(self.folder), "where the sweep is kept")]
        return card("Sweep", properties([*rows, *kept]), words=str(self))

    def __str__(self) -> str:
        axes = zip(_axes(self.spec)[0], self.spec.shape, strict=True)
        lines = [f"{self.spec.count} points: {', '.join(f'{name} ({size})' for name, size in axes)}"]
        for name, found in self.ranges().items():
            span = f"{found['least']:.5g} to {found['most']:.5g}"
            lines.append(f"{name}: {'no number' if np.isnan(found['least']) else span}")
        counts = {
            "diverged": self.diverged,
            "with a note (see .notes)": len(self.notes),
            "failed (see .failures)": len(self.failures),
        }
        return "\n".join([*lines, *(f"{count} {what}" for what, count in counts.items() if count)])

    def ranges(self) -> dict[str, dict[str, float]]:
        """Of each measure: its least and its largest number (NaN if there is none), and how many numbers are missing."""
        finite = self.dataset[list(self.variables)].where(np.isfinite)
        return {
            str(name): {"least": float(values.min()), "most": float(values.max()), "missing": int(values.isnull().sum())}
            for name, values in finite.items()
        }


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
        Names of `Problem.replace`, and "dim" and "scale" of random initial weights, with values: all combinations, such
        as {"lr": rates, "student.hidden": [2, 3]}. "student.hidden, teacher.hidden" sets both to one value.
    measure : str, function, or list of them
        Names (docs/how-to/sweeps.md lists them), or functions of problem, start, trajectory or runs.
    points : list of dict, optional
        A list of points instead of a grid.
    times, gradient_flow, rtol, solver
        As in `solve`.
    start : Start, str or dict, optional
        A `Start`, "asymmetric", or a table (dim, scale). Default: random weights.
    starts : int, optional
        Number of random initial conditions, a further axis; number i is random_start(..., seed=seed + i) at every point.
    runs, seed : int
        Networks per simulation; the seed of everything random.
    points_per_chunk : int, optional
        Points that are computed and saved together.
    out : str or path, optional
        A folder that saves each finished chunk; the same call resumes. A different sweep in it raises InputError.
    retry : bool
        Compute chunks with failed points again.
    executor, workers, cluster
        "serial", "processes", "dask", "slurm" (with options `cluster`) or the address of a Dask scheduler; the number of
        workers. They do not change the results.
    progress, imports
        Show a progress bar; modules that may be imported for values such as "module:function".

    Returns
    -------
    Sweep
        `.dataset` is an xarray Dataset; `.plot()` draws it.

    Examples
    --------
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1), tu.Network(1))
    >>> found = tu.sweep(problem, {"lr": [0.5, 1.0], "noise": [0.1, 0.2, 0.3]}, "critical_learning_rate")
    >>> found["critical_learning_rate"].dims
    ('lr', 'noise')
    >>> round(float(found["critical_learning_rate"][0, 0]), 3)  # pi sqrt(5/3), whatever the rate and the noise are
    4.056
    """
    names, functions = _named(measure, stored=out is not None)
    size = IN_THIS_PROCESS if functions and points_per_chunk is None else points_per_chunk
    how = {"gradient_flow": gradient_flow, "rtol": rtol, "solver": solver, "points_per_chunk": size, "imports": imports}
    random = {"start": start, "starts": starts, "runs": runs, "seed": seed}
    spec = build_spec(problem, over=over, points=points, measure=names, times=times, **random, **how)
    tasks = list(tasks_of(spec, functions))
    if functions and executor not in (None, "serial"):
        own = next(iter(functions))[1:]
        raise InputError(
            f"other processes cannot import the function {own}; put it into a module, or use executor='serial'."
        )
    here = functions or (len(tasks) <= IN_THIS_PROCESS and out is None)
    workers = None if workers is None else checks.as_count("workers", workers)
    execute = executor_of(executor or ("serial" if here else "processes"), workers, cluster)
    shown = Progress(shown=progress)
    if out is None:
        kept: dict[tuple[int, ...], Chunk] = {}
        execute_all(execute, compute, tasks, lambda task, chunk: kept.update({task.points: chunk}), shown, spec.count)
        return Sweep(spec, combine_chunks(spec, sorted(kept.items())))
    folder = Path(out)
    store = Store.create(folder, spec.to_dict(), chunks=len(tasks), points=spec.count)
    result = _collected(spec, store, run(store, compute, tasks, execute, shown, retry))
    try:
        result.save(folder / WHOLE)
    except OSError as error:
        raise InputError(f"every chunk is kept, but {folder / WHOLE} cannot be written ({error.strerror}).") from None
    return result


def open_sweep(folder: str | Path) -> Sweep:
    """The results in the folder of a sweep that has ended, was interrupted, or is still running.

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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     swept = tu.sweep(problem, {"lr": [0.5]}, "critical_learning_rate", out=f"{folder}/a", executor="serial")
    ...     tu.open_sweep(f"{folder}/a").dataset.sizes["lr"]
    1
    """
    store = Store(folder)
    return _collected(SweepSpec(**store.spec), store)


def _collected(spec: SweepSpec, store: Store, report: Report | None = None) -> Sweep:
    return Sweep(spec, combine_chunks(spec, map(store.read, sorted(store.done))), store.folder, report)


def _named(measure: str | Callable | Sequence[str | Callable], stored: bool) -> tuple[list[str], dict[str, Callable]]:
    """The names of the measures, and those functions that have no name to be imported by."""
    given = [measure] if isinstance(measure, str) or callable(measure) else measure
    if not isinstance(given, list | tuple) or not given:
        raise InputError(f"measure is {checks.shown(measure)}; it must be a name, a function, or a list of them.")
    names, functions = [], {}
    for one in given:
        name = path_of(one) if callable(one) else one
        if name is None:
            short = getattr(one, "__qualname__", "")
            if stored:
                raise InputError(
                    f"{short or repr(one)} cannot be imported for a folder; put it into a module, or leave out= away."
                )
            name = f":{short.rpartition('.')[2].strip('<>')}"
            functions[name] = one
        resolve(name, functions)
        if name in names:
            raise InputError(f"the measure {name!r} is there twice; leave one out.")
        names.append(name)
    return names, functions


def combine_chunks(spec: SweepSpec, kept: Iterable[tuple[Sequence[int] | np.ndarray, Chunk]]) -> "Dataset":
    """The Dataset of what has been computed. kept: the numbers of the points of each chunk, and the chunk."""
    import xarray as xr

    count = spec.count
    nothing: Chunk = {"failure": ((), np.full(count, NOT_YET, dtype=object))}
    chunks = [(np.arange(count), nothing), *((np.asarray(points), chunk) for points, chunk in kept)]
    axes, coords = _axes(spec)
    usual = error_name = storage.LONG["error"]
    with suppress(InputError):  # a function that is not allowed here does not keep the numbers from being read
        error_name = storage.error_name(spec.base)
    data = {}
    for name in dict.fromkeys(name for _, chunk in [*chunks[1:], chunks[0]] for name in chunk):
        found = [(points, *chunk[name]) for points, chunk in chunks if name in chunk]
        _, dims, first = found[0]
        blank = {"O": "", "f": np.nan}.get(first.dtype.kind, NOT_SOLVED)  # no value, or fewer units than the largest
        largest = np.max([values.shape[1:] for _, _, values in found], axis=0).astype(int)
        whole = np.full((count, *largest), blank, dtype=first.dtype)
        for points, _, values in found:
            whole[(points, *map(slice, values.shape[1:]))] = values
        label = (OUTCOME | LABELS).get(name) or name.replace("_", " ").replace(".", ", ")
        data[name] = ((*axes, *dims), whole.reshape(*spec.shape, *largest), {"long_name": label.replace(usual, error_name)})
    if "status" in data:
        data["status"][2]["flag_values"] = np.array(list(STATUS_WORDS), dtype=np.int8)
        data["status"][2]["flag_meanings"] = " ".join(word.replace(" ", "_") for word in STATUS_WORDS.values())
    asked = {name: value for name, value in spec.to_dict().items() if name not in ("points", "problem")}
    attributes = {"schema": SCHEMA, "tutelage_version": __version__, "problem": json.dumps(spec.problem, sort_keys=True)}
    attributes |= {"spec": json.dumps(asked, sort_keys=True), "measures": " ".join(spec.measure)}
    inside = {"time": np.array(spec.times), "start": np.arange(spec.starts or 1), "run": np.arange(spec.runs)}
    present = {dim for dims, _, _ in data.values() for dim in dims}
    coords |= {
        name: (name, values, {"long_name": INSIDE.get(name, name)}) for name, values in inside.items() if name in present
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


def boundary_line(spec: SweepSpec, values: "DataArray", boundary: Boundary, level: float | None) -> Line:
    """A line of theory on the figure of these values; it has a gap where the analysis has no result."""
    dims = [str(dim) for dim in values.dims if dim != "start"]
    if len(dims) != 2 or "point" in dims:
        raise InputError(f"a boundary needs two axes; {values.name} has {', '.join(dims)}. Hold others with at=.")
    if callable(boundary):
        axis, label, value = dims[1], boundary.__name__, boundary
    elif boundary == "critical_learning_rate":
        axis, label, value = "sgd.lr", r"critical learning rate $\eta_c$", analysis.critical_learning_rate
    elif boundary == "noise_floor":
        if level is None:
            raise InputError("the boundary 'noise_floor' is that of an error; give level=, such as level=0.01.")
        axis, label = "noise", f"noise floor, linear response: $\\epsilon_g={level:g}$"
        value = partial(_noise_that_leaves, level)
    else:
        allowed = "'critical_learning_rate', 'noise_floor', or a function"
        raise InputError(f"boundary is {checks.shown(boundary)}; it must be {allowed}.")
    others = [dim for dim in dims if not {axis, axis.removeprefix("sgd.")} & {dim, *parts_of(dim)}]
    if len(others) == 2:
        raise InputError(f"the boundary {boundary!r} is a value of {axis}; this figure has the axes {' and '.join(dims)}.")
    (along,) = others
    places = values[along].values
    if places.dtype.kind == "f":  # counts and words only as they are
        places = np.interp(np.linspace(0, places.size - 1, MOST_PLACES), np.arange(places.size), places)
    found, refusal = np.full(places.size, np.nan), InputError("its values are not finite.")
    for i, place in enumerate(places.tolist()):
        try:
            found[i] = float(value(spec.problem_at(_held(spec, values) | {along: place})))
        except InputError as error:
            refusal = error
    if not np.any(np.isfinite(found)):
        raise InputError(f"the boundary {label!r} has no value along {along}: {refusal}")
    return (label, places, found) if along == dims[0] else (label, found, places)


def _noise_that_leaves(error: float, problem: Problem) -> float:
    """The standard deviation of the label noise that finally leaves this error."""
    return float(np.sqrt(error / analysis.noise_floor(problem).per_variance))


def _held(spec: SweepSpec, values: "DataArray") -> Table:
    """The axes of the sweep at which these values are held."""
    return {str(name): c.item() for name, c in values.coords.items() if c.ndim == 0 and str(name) in spec.over}
