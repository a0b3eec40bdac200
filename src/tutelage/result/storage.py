"""Trajectories as labeled data and as NetCDF files.

docs/schema.md describes the schema; change both together. Nothing is pickled: the
problem is a JSON string, and what differs between the members of a batch is a
coordinate of that name.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tutelage import checks
from tutelage._files import require_place, write_bytes
from tutelage._types import ArrayLike, Table
from tutelage._version import __version__
from tutelage.errors import InputError, Status
from tutelage.problem import Problem, Start
from tutelage.problem.labels import METRICS
from tutelage.problem.serialize import is_named, paths_in
from tutelage.result.observables import Observable

if TYPE_CHECKING:
    import xarray

FAMILY = "tutelage-trajectory"
VERSION = 3
SCHEMA = f"{FAMILY}/{VERSION}"

# The dimensions of each variable beside those of time and of a batch, and its name.
OVERLAPS = {
    "R": (("student", "teacher"), "student-teacher field covariance"),
    "Q": (("student", "student_2"), "student-student field covariance"),
    "T": (("teacher", "teacher_2"), "teacher-teacher field covariance"),
    "r": (("level", "student", "teacher"), "student-teacher overlap per level"),
    "q": (("level", "student", "student_2"), "student-student overlap per level"),
    "readout": (("student",), "student readout weights"),
    "bias": (("student",), "student hidden biases"),
    "scale": (("level", "student"), "scale of squared updates per level"),
}
DIMS = {name: dims for name, (dims, _) in OVERLAPS.items()}
LONG = {name: words for name, (_, words) in OVERLAPS.items()} | {
    "error": METRICS["squared"],
    "loss": "loss on fresh samples, averaged over inputs and labels",
    "status_code": (
        "0 finished, 1 diverged, 2 out of steps, 3 no acceptable step, 4 interrupted"
    ),
    "end_time": "time reached",
    "steps": "steps taken",
    "time": "alpha = steps / N; steps for gradient descent",
    "step": "steps taken by then, ceil(alpha N)",
    "eigenvalue": "eigenvalue of the level",
    "fraction": "fraction of dimensions",
    "teacher_task": "task of the teacher unit, counted from 0",
}
OUTCOME = ("status_code", "end_time", "steps")
ESTIMATE = "_estimate"  # ends the name of a bound on the error of a quantity
KINDS = ("theory", "simulation", "equations")
START = ("R", "Q", "T", "readout", "bias")

# Dimensions, values and attributes of a variable, as xarray takes them.
Entry = tuple[tuple[str, ...], np.ndarray, dict[str, str]]
KeyPath = tuple[jax.tree_util.KeyEntry, ...]


# Writing: a trajectory as a dataset.


def to_dataset(trajectory: Any) -> "xarray.Dataset":
    """Labeled data of a trajectory, as docs/schema.md describes it.

    trajectory: a `Trajectory`, whose module comes after this one.
    """
    import xarray as xr

    checks.require_untraced("the trajectory", "a dataset", trajectory)
    leading = _LeadingAxes(trajectory)
    problem, varied = leading.member_and_varied(trajectory.problem)
    inputs_vary = any(name.startswith("inputs.") for name in varied)

    data = _curves(trajectory, leading)
    data |= _variables(trajectory, leading)
    data |= _observed_curves(trajectory, leading)
    data |= _estimates(trajectory, data)
    data |= _outcome(trajectory, leading)
    if trajectory.T is not None:
        dims = (*leading.dims, *DIMS["T"])
        # T has no axes of a batch if all its members share it.
        data["T"] = _entry("T", dims[-np.ndim(trajectory.T) :], trajectory.T)
    data |= _start_entries(trajectory.start, leading)

    times = _shared_times(np.asarray(trajectory.times))
    coords = {"time": _entry("time", ("time",), times)}
    if trajectory.kind == "simulation":
        coords["step"] = _entry("step", ("time",), trajectory.step)
    coords |= varied
    coords |= _coords_of_problem(problem, inputs_vary)
    _require_free_names(trajectory, leading, data, coords)

    dim = -1  # NetCDF has no None
    if trajectory.start is not None and trajectory.start.dim is not None:
        dim = trajectory.start.dim
    attributes = {
        "schema": SCHEMA,
        "tutelage_version": __version__,
        "kind": trajectory.kind,
        "status": trajectory.status,
        "settings": json.dumps(dict(trajectory.settings)),
        "problem": _problem_text(problem, inputs_vary),
        "dim": dim,
        "variables": " ".join(trajectory.variables),
        "curves": " ".join(trajectory.curves),
        "estimates": " ".join(trajectory.estimates),
    }
    return xr.Dataset(data, coords=coords, attrs=attributes)


def _curves(trajectory: Any, leading: "_LeadingAxes") -> dict[str, Entry]:
    """Error and loss against time; custom equations have no loss."""
    dims = leading.dims_of_curves
    words = error_name(trajectory.problem)
    curves = {"error": _entry("error", dims, trajectory.error, words)}
    if trajectory.kind != "equations":
        loss = trajectory.loss
        if loss is None:
            loss = np.full(np.shape(trajectory.error), np.nan)
        curves["loss"] = _entry("loss", dims, loss)
    return curves


def _variables(trajectory: Any, leading: "_LeadingAxes") -> dict[str, Entry]:
    """The variables against time.

    Those of custom equations, and any of another shape, have numbered dimensions.
    """
    entries = {}
    for name, value in trajectory.variables.items():
        count = np.ndim(value) - len(leading.dims) - 1
        own_dims: tuple[str, ...] = ()
        if trajectory.kind != "equations":
            own_dims = leading.own_dims(name)
        if len(own_dims) != count:
            own_dims = _numbered_dims(name, count)
        entries[name] = _entry(name, (*leading.dims, "time", *own_dims), value)
    return entries


def _observed_curves(trajectory: Any, leading: "_LeadingAxes") -> dict[str, Entry]:
    """The curves of a theory's own, each described; one may be shared by all members."""
    observables = {o.name: o for o in trajectory.observables}
    entries = {}
    for name, value in trajectory.curves.items():
        dims = ("time",)
        if np.ndim(value) > 1:
            dims = (*leading.dims, "time")
            dims += _numbered_dims(name, np.ndim(value) - len(dims))
        observable = observables.get(name, Observable(name=name, words=name))
        dims, values, attributes = _entry(name, dims, value, observable.words)
        entries[name] = (dims, values, attributes | {"panel": observable.panel})
    return entries


def _estimates(trajectory: Any, data: dict[str, Entry]) -> dict[str, Entry]:
    """The bounds on the numerical error of recorded quantities, along the same axes."""
    entries = {}
    for name, value in trajectory.estimates.items():
        dims, _, _ = data[name]
        words = f"bound on the numerical error of {name}, with 95% confidence"
        entries[f"{name}{ESTIMATE}"] = _entry(name, dims, value, words)
    return entries


def _numbered_dims(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}_{axis}" for axis in range(count))


def _outcome(trajectory: Any, leading: "_LeadingAxes") -> dict[str, Entry]:
    """Status code, end time and steps: of each member, or one number for all."""
    entries = {}
    for name in OUTCOME:
        value = getattr(trajectory, name)
        entries[name] = _entry(name, leading.dims[: np.ndim(value)], value)
    return entries


def _start_entries(start: Start | None, leading: "_LeadingAxes") -> dict[str, Entry]:
    """The overlaps of the start, as far as they are known."""
    entries = {}
    for name in START:
        value = getattr(start, name, None)
        if value is None:
            continue
        batch_dims: tuple[str, ...] = ()
        if leading.carried_by(value):
            batch_dims = leading.dims
        # Of a readout of several tasks or outputs, the start may have fewer axes.
        own_dims = leading.own_dims(name)[len(batch_dims) - np.ndim(value) :]
        level_dims: tuple[str, ...] = ()
        if np.ndim(value) > len(batch_dims) + len(own_dims):
            level_dims = ("level",)
        dims = (*batch_dims, *level_dims, *own_dims)
        entries[f"start_{name}"] = _entry(name, dims, value, f"initial {name}")
    return entries


def _coords_of_problem(problem: Problem | None, inputs_vary: bool) -> dict[str, Entry]:
    """The levels of the inputs, and the tasks of the teacher units."""
    coords: dict[str, Entry] = {}
    if problem is None:
        return coords
    if not inputs_vary:
        level = ("level",)
        eigenvalues = problem.inputs.eigenvalues
        fractions = problem.inputs.fractions
        coords["eigenvalue"] = _entry("eigenvalue", level, eigenvalues)
        coords["fraction"] = _entry("fraction", level, fractions)
    if problem.several_tasks is not None:
        task_of_units = problem.several_tasks.task_of_units
        coords["teacher_task"] = _entry("teacher_task", ("teacher",), task_of_units)
    return coords


def _require_free_names(
    trajectory: Any,
    leading: "_LeadingAxes",
    data: dict[str, Entry],
    coords: dict[str, Entry],
) -> None:
    """Raise InputError if a variable has a name that the file needs for itself."""
    custom = trajectory.kind == "equations"
    taken = {"error", *OUTCOME, *leading.dims_of_curves, *trajectory.curves}
    taken |= {f"{name}{ESTIMATE}" for name in trajectory.estimates}
    for name in trajectory.variables:
        dims, _, _ = data[name]
        taken |= set(dims)
    if not custom:
        taken |= {"loss", "T", *coords, *(f"start_{name}" for name in START)}
    for name in trajectory.variables:
        if name in taken and (custom or name not in DIMS):
            raise InputError(
                f"a variable is called {name!r}; the file keeps that name for itself. "
                "Rename it."
            )


def error_name(problem: Problem | None) -> str:
    """The name of the error of a trajectory, which depends on the labels."""
    if problem is None:
        return METRICS["squared"]
    return METRICS[problem.labels.metric]


def _entry(
    name: str, dims: tuple[str, ...], value: ArrayLike, words: str | None = None
) -> Entry:
    return dims, np.asarray(value), {"long_name": words or LONG.get(name, name)}


class _LeadingAxes:
    """The axes before time, and which numbers carry them.

    There are none for a solve, `run` for a simulation, `batch` under vmap.
    """

    def __init__(self, trajectory: Any):
        problem = trajectory.problem
        self.tasks = trajectory.tasks
        axes_of_curve = 1  # time
        if self.tasks:
            axes_of_curve = 2  # time, task
        self.shape = tuple(np.shape(trajectory.error)[:-axes_of_curve])
        readout = trajectory.variables.get("readout")
        self.readout_shape = np.shape(readout)[len(self.shape) + 1 :]
        self.heads = self._has_heads(problem)
        run_dims: tuple[str, ...] = ()
        if trajectory.kind == "simulation" and self.shape:
            run_dims = ("run",)
        self.dims = (*self._batch_dims(len(self.shape) - len(run_dims)), *run_dims)
        # jax.vmap repeats every number, filter_vmap some
        self.all_batched = problem is not None and np.ndim(problem.noise) > 0

    def _has_heads(self, problem: Problem | None) -> bool:
        """Return True if each task has a readout of its own."""
        tasks = None if problem is None else problem.several_tasks
        if tasks is not None:
            return tasks.heads == "separate"
        if self.tasks is None or len(self.readout_shape) < 2:
            return False
        # No file holds the problem: the shape decides.
        return self.readout_shape[0] == self.tasks

    @staticmethod
    def _batch_dims(count: int) -> tuple[str, ...]:
        if count == 1:
            return ("batch",)
        return _numbered_dims("batch", count)

    @property
    def dims_of_curves(self) -> tuple[str, ...]:
        """The dimensions of error and loss."""
        if self.tasks:
            return (*self.dims, "time", "task")
        return (*self.dims, "time")

    def own_dims(self, name: str) -> tuple[str, ...]:
        """The dimensions of a variable beside leading axes and time.

        A readout of several outputs, or heads, has one more for each.
        """
        if name != "readout":
            return DIMS.get(name, ())
        dims = ["student"]
        if len(self.readout_shape) - self.heads == 2:
            dims.insert(0, "output")
        if self.heads:
            dims.insert(0, "task")
        return tuple(dims)

    def carried_by(self, leaf: ArrayLike | np.generic) -> bool:
        """Return True if a number of the problem or the start is one per member."""
        count = len(self.shape)
        if count == 0 or np.shape(leaf)[:count] != self.shape:
            return False
        return self.all_batched or isinstance(leaf, jax.Array)

    def member_and_varied(
        self, problem: Problem | None
    ) -> tuple[Problem | None, dict[str, Entry]]:
        """The first problem of a batch, and the numbers in which others differ from it.

        The numbers are coordinates.
        """
        if problem is None:
            return None, {}
        problem = eqx.tree_at(
            lambda tree: tree.inputs, problem, problem.inputs.without_basis()
        )
        varied: dict[str, Entry] = {}

        def first(path: KeyPath, leaf: Any) -> Any:
            if not eqx.is_array_like(leaf) or not self.carried_by(leaf):
                return leaf
            own_shape = np.shape(leaf)[len(self.shape) :]
            members = np.asarray(leaf).reshape(-1, *own_shape)
            if np.any(members != members[0]):
                name = _path_name(path)
                dims = (*self.dims, *_numbered_dims(name, len(own_shape)))
                varied[name] = _entry(name, dims, np.asarray(leaf))
            return members[0]

        return jax.tree_util.tree_map_with_path(first, problem), varied


def _path_name(path: KeyPath) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _shared_times(times: np.ndarray) -> np.ndarray:
    """The times that all members share; vmap repeats them once per problem."""
    if times.ndim == 1:
        return times
    rows = times.reshape(-1, times.shape[-1])
    if np.any(rows != rows[0]):
        raise InputError(
            "the times differ between the members of this batch; a dataset must share "
            "them. Store each alone."
        )
    return rows[0]


def _problem_text(problem: Problem | None, inputs_vary: bool) -> str:
    """The problem as JSON, or a note if that is impossible.

    It is impossible for a user's own function, or for a batch whose own law of the
    inputs differs. Reading a file imports nothing: functions of modules are there by
    name, for the reader alone.
    """
    if problem is None:
        return ""
    try:
        if inputs_vary and not is_named(problem.inputs):
            kind = type(problem.inputs).__name__
            raise InputError(
                f"the members of the batch differ in their inputs, a custom {kind}."
            )
        table = problem.to_dict()
    except InputError as error:
        return json.dumps({"not_stored": str(error), "repr": repr(problem)})
    functions = paths_in(table)
    if not functions:
        return problem.to_json()
    reason = (
        f"the problem has custom functions ({', '.join(functions)}); a file that is "
        "read imports none."
    )
    note = {"not_stored": reason, "repr": repr(problem), "problem": table}
    return json.dumps(note)


# Reading: the fields of a trajectory from a dataset.


def from_dataset(dataset: "xarray.Dataset", what: str = "the dataset") -> Table:
    """The fields of a Trajectory.

    A dataset comes from outside: whatever was changed in it ends in one message.
    """
    _require_schema(dataset, what)
    try:
        return _fields(dataset)
    except InputError:
        raise
    except Exception as error:  # a part is missing, or of another kind, shape or type
        reason = " ".join(str(error).split())[:150].rstrip(".")
        raise _changed(f"cannot be read: {reason}") from None


def _require_schema(dataset: "xarray.Dataset", what: str) -> None:
    """Raise InputError if the dataset is not one of ours, or of another version."""
    schema = str(dataset.attrs.get("schema", ""))
    if schema == SCHEMA:
        return
    family, _, version = schema.partition("/")
    if family != FAMILY:
        fix = "Write one with Trajectory.save."
    elif version.isdigit() and int(version) > VERSION:
        fix = "Update tutelage."
    else:
        fix = "Compute it again from the problem in its attributes and save it."
    content = "no schema"
    if schema:
        content = f"the schema {schema!r}"
    raise InputError(
        f"{what} has {content}; this tutelage ({__version__}) reads {SCHEMA!r}. {fix}"
    )


def _changed(what: str) -> InputError:
    """The error for a dataset in which something was changed."""
    return InputError(
        f"the dataset {what}; it must be as Trajectory.to_dataset made it."
    )


def _fields(dataset: "xarray.Dataset") -> Table:
    attributes = dataset.attrs
    variables = dataset.variables
    names = attributes["variables"].split()
    curves = attributes["curves"].split()
    estimates = attributes["estimates"].split()
    kind = attributes["kind"]
    if kind not in KINDS:
        allowed = ", ".join(KINDS)
        raise _changed(f"has the kind {checks.shown(kind)}, not one of {allowed}")
    lead = tuple(
        str(dim) for dim in variables["error"].dims if dim not in ("time", "task")
    )
    # The dimensions with which each variable must begin.
    first_dims: dict[str, tuple[str, ...]] = {
        "time": ("time",),
        "error": (*lead, "time"),
    }
    if kind != "equations":
        first_dims["loss"] = (*lead, "time")
    for name in names:
        first_dims[name] = (*lead, "time")
    for name in curves:
        is_shared = next(iter(variables[name].dims), "") == "time"
        first_dims[name] = ("time",) if is_shared else (*lead, "time")
    for name in estimates:
        first_dims[f"{name}{ESTIMATE}"] = first_dims[name]
    for name in OUTCOME:
        first_dims[name] = ()
    for name, dims in first_dims.items():
        _check_variable(dataset, name, dims, lead)
    arrays = {name: variables[name].values for name in first_dims}
    _check_values(arrays)
    problem = _read_problem(dataset)
    if problem is not None:
        _check_shapes(arrays, names, problem)

    T = None
    if "T" in dataset and "T" not in names:
        T = variables["T"].values
    loss = arrays.get("loss")
    if loss is None:
        loss = np.full(arrays["error"].shape, np.nan)
    return {
        "times": arrays["time"],
        "variables": {name: arrays[name] for name in names},
        "error": arrays["error"],
        "loss": loss,
        **{name: arrays[name] for name in OUTCOME},
        "T": T,
        "problem": problem,
        "start": _read_start(dataset, lead),
        "kind": kind,
        "settings": _read_settings(attributes["settings"]),
        "curves": {name: arrays[name] for name in curves},
        "observables": tuple(
            _read_observable(name, variables[name]) for name in curves
        ),
        "estimates": {name: arrays[f"{name}{ESTIMATE}"] for name in estimates},
    }


def _read_observable(name: str, variable: "xarray.Variable") -> Observable:
    """The description of a stored curve."""
    attributes = variable.attrs
    return Observable(
        name=name,
        words=attributes["long_name"],
        panel=attributes["panel"],
    )


def _check_variable(
    dataset: "xarray.Dataset", name: str, first_dims: tuple[str, ...], lead: Any
) -> None:
    """Raise InputError for a variable of other dimensions, or not of numbers."""
    variable = dataset.variables[name]
    dims = variable.dims
    begins_well = dims[: len(first_dims)] == first_dims
    if name in OUTCOME:
        begins_well = dims in ((), lead)
    if not begins_well:
        axes = ", ".join(map(str, dims)) or "no axis"
        raise _changed(f"has {name} along {axes}")
    if variable.dtype.kind not in "iufb":
        raise _changed(f"has {name} of type {variable.dtype}, not numbers")


def _check_values(arrays: dict[str, np.ndarray]) -> None:
    """Raise InputError for an unknown status code, or times that do not increase."""
    codes = list(Status)
    if not np.all(np.isin(arrays["status_code"], codes)):
        allowed = ", ".join(str(int(code)) for code in codes)
        raise _changed(f"has a status code that is not one of {allowed}")
    times = arrays["time"]
    if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
        raise _changed("has times that do not increase")


def _check_shapes(
    arrays: dict[str, np.ndarray], names: list[str], problem: Problem
) -> None:
    """Raise InputError if the overlaps are not those of the networks of the problem."""
    K = problem.student.hidden
    M = problem.references.hidden
    for name, shape in (("R", (K, M)), ("Q", (K, K)), ("readout", (K,))):
        if name in names and arrays[name].shape[-len(shape) :] != shape:
            raise _changed(
                f"has {name} of shape {arrays[name].shape} for {K} student and {M} "
                "teacher units"
            )


def _read_settings(text: str) -> tuple[tuple[str, Any], ...]:
    """The settings of a solve; JSON has turned their tuples into lists."""
    settings = []
    for name, value in json.loads(text).items():
        if isinstance(value, list):
            value = tuple(value)
        settings.append((name, value))
    return tuple(settings)


def _read_problem(dataset: "xarray.Dataset") -> Problem | None:
    """The stored problem.

    The numbers that differ in a batch are arrays of JAX again, as vmap leaves them.
    """
    text = dataset.attrs["problem"]
    if not text or "not_stored" in json.loads(text):
        return None

    def with_batch(path: KeyPath, leaf: object) -> object:
        name = _path_name(path)
        if name in dataset.coords:
            return jnp.asarray(dataset[name].values)
        return leaf

    return jax.tree_util.tree_map_with_path(with_batch, Problem.from_json(text))


def _read_start(dataset: "xarray.Dataset", lead: tuple[str, ...]) -> Start | None:
    """The start; a batch of them is checked by its first member."""
    stored = {}
    for name in START:
        if f"start_{name}" in dataset:
            stored[name] = dataset[f"start_{name}"]
    if not stored or dataset.attrs["kind"] == "equations":
        return None
    first_member = dict.fromkeys(lead, 0)
    arrays = {}
    for name, values in stored.items():
        arrays[name] = values.isel(first_member, missing_dims="ignore").values
    dim: int | None = int(dataset.attrs["dim"])
    if dim < 0:
        dim = None
    start = Start(**arrays, dim=dim)
    leaves = []
    for name, values in stored.items():
        leaf = getattr(start, name)
        if set(lead) & set(values.dims):
            leaf = jnp.asarray(values.values)
        leaves.append(leaf)
    return jax.tree.unflatten(jax.tree.structure(start), leaves)


# Files.


def write(dataset: "xarray.Dataset", path: str | Path) -> Path:
    """Write a dataset as NetCDF: the file appears complete or not at all."""
    return write_bytes(
        require_place(as_path(path)), dataset.to_netcdf(engine="h5netcdf")
    )


def read(path: str | Path) -> "xarray.Dataset":
    """Read a NetCDF file of ours into memory."""
    path = as_path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file in it.")
    if not path.is_file():
        raise InputError(
            f"there is no file {path}; give the name of a NetCDF file written by "
            "tutelage."
        )
    try:
        return in_memory(path)
    except ImportError:
        raise
    except Exception:
        raise InputError(
            f"{path} is not a NetCDF file written by tutelage; save one with "
            "Trajectory.save."
        ) from None


def in_memory(path: Path) -> "xarray.Dataset":
    """The content of any NetCDF file.

    If it cannot be read, the errors are those of the libraries that read it.
    """
    import xarray as xr

    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        return dataset.load()


def as_path(path: object) -> Path:
    """Return the name of a file as a path; refuse other things."""
    return Path(checks.as_kind("path", path, str | os.PathLike, "the name of a file"))
