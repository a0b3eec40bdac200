"""Trajectories as labeled data and as NetCDF files. docs/schema.md describes the schema; change both together.

Nothing is pickled: the problem is a JSON string, and what differs between the members of a batch is a coordinate of that name.
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
from tutelage.labels import METRICS
from tutelage.problem import Problem, Start, Tasks
from tutelage.problem.serialize import is_named, paths_in

if TYPE_CHECKING:
    import xarray

FAMILY, VERSION = "tutelage-trajectory", 2
SCHEMA = f"{FAMILY}/{VERSION}"
OVERLAPS = {
    "R": (("student", "teacher"), "student-teacher field covariance"),
    "Q": (("student", "student_2"), "student-student field covariance"),
    "T": (("teacher", "teacher_2"), "teacher-teacher field covariance"),
    "r": (("level", "student", "teacher"), "student-teacher overlap per level"),
    "q": (("level", "student", "student_2"), "student-student overlap per level"),
    "readout": (("student",), "student readout weights"),
    "bias": (("student",), "student hidden biases"),
}
DIMS = {name: dims for name, (dims, _) in OVERLAPS.items()}
LONG = {name: words for name, (_, words) in OVERLAPS.items()} | {
    "error": METRICS["squared"],
    "loss": "training loss, averaged over inputs and labels",
    "status_code": "0 finished, 1 diverged, 2 out of steps, 3 no acceptable step, 4 interrupted",
    "end_time": "time reached",
    "steps": "steps taken",
    "time": "alpha = steps / N",
    "step": "steps taken by then, ceil(alpha N)",
    "eigenvalue": "eigenvalue of the level",
    "fraction": "fraction of dimensions",
    "teacher_task": "task of the teacher unit, counted from 0",
}
OUTCOME = ("status_code", "end_time", "steps")
KINDS = ("theory", "simulation", "equations")
START = ("R", "Q", "T", "readout", "bias")
Entry = tuple[tuple[str, ...], np.ndarray, dict[str, str]]  # dims, values, attributes
KeyPath = tuple[jax.tree_util.KeyEntry, ...]


# Writing: a trajectory as a dataset.


def to_dataset(trajectory: Any) -> "xarray.Dataset":  # a Trajectory, which is defined to the right
    """Labeled data of a trajectory, as docs/schema.md describes it."""
    import xarray as xr

    checks.require_untraced("the trajectory", "a dataset", trajectory)
    start, custom = trajectory.start, trajectory.kind == "equations"
    lead = _Lead(trajectory)
    names, curve = list(trajectory.variables), (*lead.dims, "time", *(("task",) if trajectory.tasks else ()))
    data = {"error": _entry("error", curve, trajectory.error, error_name(trajectory.problem))}
    if not custom:
        loss = np.full(np.shape(trajectory.error), np.nan) if trajectory.loss is None else trajectory.loss
        data["loss"] = _entry("loss", curve, loss)
    for name, value in trajectory.variables.items():
        usual = () if custom else lead.own_dims(name)
        count = np.ndim(value) - len(lead.dims) - 1
        own = usual if len(usual) == count else tuple(f"{name}_{i}" for i in range(count))
        data[name] = _entry(name, (*lead.dims, "time", *own), value)
    for name in OUTCOME:
        data[name] = _entry(name, lead.dims[: np.ndim(getattr(trajectory, name))], getattr(trajectory, name))
    if trajectory.T is not None:
        data["T"] = _entry("T", (*lead.dims, *DIMS["T"])[-np.ndim(trajectory.T) :], trajectory.T)
    for name in START:
        value = getattr(start, name, None)
        if value is not None:
            batch = lead.dims if lead.carried_by(value) else ()
            own = lead.own_dims(name)[len(batch) - np.ndim(value) :]
            per_level = ("level",) if np.ndim(value) > len(batch) + len(own) else ()
            data[f"start_{name}"] = _entry(name, (*batch, *per_level, *own), value, f"initial {name}")
    coords = {"time": _entry("time", ("time",), _shared_times(np.asarray(trajectory.times)))}
    if trajectory.kind == "simulation":
        coords["step"] = _entry("step", ("time",), trajectory.step)
    problem, varied = lead.member_and_varied(trajectory.problem)
    coords |= varied
    inputs_vary = any(name.startswith("inputs.") for name in varied)
    if problem is not None and not inputs_vary:
        coords["eigenvalue"] = _entry("eigenvalue", ("level",), problem.inputs.eigenvalues)
        coords["fraction"] = _entry("fraction", ("level",), problem.inputs.fractions)
    if problem is not None and isinstance(problem.teacher, Tasks):
        coords["teacher_task"] = _entry("teacher_task", ("teacher",), problem.teacher.task_of_units)
    taken = {*curve, "error", *OUTCOME, *(dim for name in names for dim in data[name][0])}
    taken |= set() if custom else {"loss", "T", *coords, *(f"start_{name}" for name in START)}
    for name in names:
        if name in taken and (custom or name not in DIMS):
            raise InputError(f"a variable is called {name!r}; the file keeps that name for itself. Rename it.")
    attributes = {
        "schema": SCHEMA,
        "tutelage_version": __version__,
        "kind": trajectory.kind,
        "status": trajectory.status,
        "settings": json.dumps(dict(trajectory.settings)),
        "problem": _problem_text(problem, inputs_vary),
        "dim": -1 if start is None or start.dim is None else start.dim,
        "variables": " ".join(names),
    }
    return xr.Dataset(data, coords=coords, attrs=attributes)


def error_name(problem: Problem | None) -> str:
    """What the error of a trajectory is: the labels decide."""
    return METRICS["squared" if problem is None else problem.labels.metric]


def _entry(name: str, dims: tuple[str, ...], value: ArrayLike, words: str | None = None) -> Entry:
    return dims, np.asarray(value), {"long_name": words or LONG.get(name, name)}


class _Lead:
    """The axes before time: none for a solve, `run` for a simulation, `batch` under vmap; and which leaves carry them."""

    def __init__(self, trajectory: Any):
        self.tasks, readout = trajectory.tasks, trajectory.variables.get("readout")
        self.shape = tuple(np.shape(trajectory.error)[: -2 if self.tasks else -1])
        self.readout_shape = np.shape(readout)[len(self.shape) + 1 :]
        teacher, problem = getattr(trajectory.problem, "teacher", None), trajectory.problem
        of_tasks = self.tasks is not None and len(self.readout_shape) > 1 and self.readout_shape[0] == self.tasks
        self.heads = teacher.heads == "separate" if isinstance(teacher, Tasks) else of_tasks
        runs = ("run",) if trajectory.kind == "simulation" and self.shape else ()
        count = len(self.shape) - len(runs)
        self.dims = (("batch",) if count == 1 else tuple(f"batch_{i}" for i in range(count))) + runs
        # jax.vmap repeats every number, filter_vmap some
        self.all_batched = problem is not None and np.ndim(problem.noise) > 0

    def own_dims(self, name: str) -> tuple[str, ...]:
        """The dimensions of a variable beside lead and time; a readout of several outputs, or heads, has one more each."""
        if name != "readout":
            return DIMS.get(name, ())
        outputs = len(self.readout_shape) - self.heads == 2
        return (*(("task",) if self.heads else ()), *(("output",) if outputs else ()), "student")

    def carried_by(self, leaf: ArrayLike | np.generic) -> bool:
        n = len(self.shape)
        return n > 0 and np.shape(leaf)[:n] == self.shape and (self.all_batched or isinstance(leaf, jax.Array))

    def member_and_varied(self, problem: Problem | None) -> tuple[Problem | None, dict[str, Entry]]:
        """The first problem of a batch, and as coordinates the numbers in which the others differ from it."""
        if problem is None:
            return None, {}
        problem = eqx.tree_at(lambda p: p.inputs, problem, problem.inputs.without_basis())
        varied: dict[str, Entry] = {}

        def first(path: KeyPath, leaf: Any) -> Any:
            if not eqx.is_array_like(leaf) or not self.carried_by(leaf):
                return leaf
            own = np.shape(leaf)[len(self.shape) :]
            flat = np.asarray(leaf).reshape(-1, *own)
            if np.any(flat != flat[0]):
                name = _path_name(path)
                varied[name] = _entry(name, (*self.dims, *(f"{name}_{i}" for i in range(len(own)))), np.asarray(leaf))
            return flat[0]

        return jax.tree_util.tree_map_with_path(first, problem), varied


def _path_name(path: KeyPath) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _shared_times(times: np.ndarray) -> np.ndarray:
    """vmap repeats the times once per problem; they are the same."""
    if times.ndim == 1:
        return times
    rows = times.reshape(-1, times.shape[-1])
    if np.any(rows != rows[0]):
        raise InputError("the times differ between the members of this batch; a dataset must share them. Store each alone.")
    return rows[0]


def _problem_text(problem: Problem | None, inputs_vary: bool) -> str:
    """JSON, or a note where that is impossible: a user's own function, or a batch whose own law of the inputs differs.

    Reading a file imports nothing: functions of modules are there by name, for the reader alone.
    """
    if problem is None:
        return ""
    try:
        if inputs_vary and not is_named(problem.inputs):
            raise InputError(f"the members of the batch differ in their inputs, a custom {type(problem.inputs).__name__}.")
        table = problem.to_dict()
    except InputError as error:
        return json.dumps({"not_stored": str(error), "repr": repr(problem)})
    own = paths_in(table)
    if own:
        why = f"the problem has custom functions ({', '.join(own)}); a file that is read imports none."
        return json.dumps({"not_stored": why, "repr": repr(problem), "problem": table})
    return problem.to_json()


# Reading: the fields of a trajectory from a dataset.


def from_dataset(dataset: "xarray.Dataset", what: str = "the dataset") -> Table:
    """The fields of a Trajectory. A dataset comes from outside: whatever was changed in it ends in one message."""
    schema = str(dataset.attrs.get("schema", ""))
    family, _, version = schema.partition("/")
    if schema != SCHEMA:
        newer = version.isdigit() and int(version) > VERSION
        again = "Update tutelage." if newer else "Compute it again from the problem in its attributes and save it."
        fix = again if family == FAMILY else "Write one with Trajectory.save."
        given = f"the schema {schema!r}" if schema else "no schema"
        raise InputError(f"{what} has {given}; this tutelage ({__version__}) reads {SCHEMA!r}. {fix}")
    try:
        return _fields(dataset)
    except InputError:
        raise
    except Exception as error:  # a part that is missing, or of another kind, shape or type
        raise _changed(f"cannot be read: {' '.join(str(error).split())[:150].rstrip('.')}") from None


def _changed(what: str) -> InputError:
    return InputError(f"the dataset {what}; it must be as Trajectory.to_dataset made it.")


def _fields(dataset: "xarray.Dataset") -> Table:
    attrs, variables = dataset.attrs, dataset.variables
    names, kind = attrs["variables"].split(), attrs["kind"]
    if kind not in KINDS:
        raise _changed(f"has the kind {checks.shown(kind)}, not one of {', '.join(KINDS)}")
    curves = ("error",) if kind == "equations" else ("error", "loss")
    lead = tuple(str(dim) for dim in variables["error"].dims if dim not in ("time", "task"))
    axes = {"time": ("time",)} | dict.fromkeys((*curves, *names), (*lead, "time")) | dict.fromkeys(OUTCOME, ())
    for name, first in axes.items():
        dims, dtype = variables[name].dims, variables[name].dtype
        if dims[: len(first)] != first or (name in OUTCOME and dims not in ((), lead)):
            raise _changed(f"has {name} along {', '.join(map(str, dims)) or 'no axis'}")
        if dtype.kind not in "iufb":
            raise _changed(f"has {name} of type {dtype}, not numbers")
    found = {name: variables[name].values for name in axes}
    if not np.all(np.isin(found["status_code"], [*Status])):
        raise _changed(f"has a status code that is not one of {', '.join(str(int(code)) for code in Status)}")
    if not np.all(np.isfinite(found["time"])) or np.any(np.diff(found["time"]) <= 0):
        raise _changed("has times that do not increase")
    problem = _read_problem(dataset)
    if problem is not None:  # R and Q must be those of its networks
        K, M = problem.student.hidden, problem.references.hidden
        for name, shape in (("R", (K, M)), ("Q", (K, K)), ("readout", (K,))):
            if name in names and found[name].shape[-len(shape) :] != shape:
                raise _changed(f"has {name} of shape {found[name].shape} for {K} student and {M} teacher units")
    return {
        "times": found["time"],
        "variables": {name: found[name] for name in names},
        "error": found["error"],
        "loss": found.get("loss", np.full(found["error"].shape, np.nan)),
        **{name: found[name] for name in OUTCOME},
        "T": variables["T"].values if "T" in dataset and "T" not in names else None,
        "problem": problem,
        "start": _read_start(dataset, lead),
        "kind": kind,
        # lists are the tuples that they were before they were JSON
        "settings": tuple((n, tuple(x) if isinstance(x, list) else x) for n, x in json.loads(attrs["settings"]).items()),
    }


def _read_problem(dataset: "xarray.Dataset") -> Problem | None:
    """The stored problem, with the numbers that differ in a batch put back as arrays of JAX, as vmap leaves them."""
    text = dataset.attrs["problem"]
    if not text or "not_stored" in json.loads(text):
        return None

    def put_back(path: KeyPath, leaf: object) -> object:
        name = _path_name(path)
        return jnp.asarray(dataset[name].values) if name in dataset.coords else leaf

    return jax.tree_util.tree_map_with_path(put_back, Problem.from_json(text))


def _read_start(dataset: "xarray.Dataset", lead: tuple[str, ...]) -> Start | None:
    """The start; a batch of them is checked by its first member."""
    found = {name: dataset[f"start_{name}"] for name in START if f"start_{name}" in dataset}
    if not found or dataset.attrs["kind"] == "equations":
        return None
    dim = int(dataset.attrs["dim"])
    first = {name: v.isel(dict.fromkeys(lead, 0), missing_dims="ignore").values for name, v in found.items()}
    start = Start(**first, dim=None if dim < 0 else dim)
    leaves = [jnp.asarray(v.values) if set(lead) & set(v.dims) else getattr(start, name) for name, v in found.items()]
    return jax.tree.unflatten(jax.tree.structure(start), leaves)


# Files.


def write(dataset: "xarray.Dataset", path: str | Path) -> Path:
    """Write a dataset as NetCDF: the file appears complete or not at all."""
    return write_bytes(require_place(_as_path(path)), dataset.to_netcdf(engine="h5netcdf"))


def read(path: str | Path) -> "xarray.Dataset":
    """Read a NetCDF file of ours into memory."""
    path = _as_path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file in it.")
    if not path.is_file():
        raise InputError(f"there is no file {path}; give the name of a NetCDF file written by tutelage.")
    try:
        return in_memory(path)
    except ImportError:
        raise
    except Exception:
        raise InputError(f"{path} is not a NetCDF file written by tutelage; save one with Trajectory.save.") from None


def in_memory(path: Path) -> "xarray.Dataset":
    """What any NetCDF file holds; the errors of the libraries below if it cannot be read."""
    import xarray as xr

    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        return dataset.load()


def _as_path(path: object) -> Path:
    return Path(checks.as_kind("path", path, str | os.PathLike, "the name of a file"))
