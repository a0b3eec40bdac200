"""`sweep` and `open_sweep`: one question at many problems, in memory or in a folder that outlives any interruption."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tutelage import checks
from tutelage._errors import InputError
from tutelage.sweeps.chunks import points_per_chunk as default_chunk
from tutelage.sweeps.chunks import tasks as tasks_of
from tutelage.sweeps.compute import compute
from tutelage.sweeps.dataset import assemble
from tutelage.sweeps.engine import run
from tutelage.sweeps.errors import StoreError
from tutelage.sweeps.executors import executor as named_executor
from tutelage.sweeps.executors import require
from tutelage.sweeps.measures import resolve
from tutelage.sweeps.measures.answers import imported
from tutelage.sweeps.outcome import Outcome, Task, WorkerError
from tutelage.sweeps.progress import Bar, Silent
from tutelage.sweeps.result import Sweep
from tutelage.sweeps.spec import SweepSpec, build_spec, source_hash
from tutelage.sweeps.store import Store, spec_key

WHOLE = "sweep.nc"  # the whole Dataset, beside the chunks that it was put together from
FEW = 2  # chunks that are computed here rather than in processes, which take seconds to start


def sweep(
    problem: Any,
    over: Mapping[str, Any] | None = None,
    measure: str | Callable | Sequence[str | Callable] = "final_error",
    *,
    points: Sequence[Mapping[str, Any]] | None = None,
    times: Any = 100.0,
    start: Any = None,
    starts: int | None = None,
    runs: int = 20,
    seed: int = 0,
    gradient_flow: bool = False,
    rtol: float | None = None,
    solver: str = "auto",
    points_per_chunk: int | None = None,
    out: str | Path | None = None,
    new: bool = False,
    retry: bool = False,
    executor: str | None = None,
    workers: int | None = None,
    cluster: Mapping[str, Any] | None = None,
    progress: bool = False,
    imports: Sequence[str] = (),
) -> Sweep:
    """The same question at many problems: every measure at every point of a grid, as one labeled Dataset.

    over: names with values, such as {"lr": rates, "student.hidden": [2, 3]}: all combinations. points: or a list of them.
    Names are those of `Problem.replace`, and "dim" and "scale" of the start; "student.hidden, teacher.hidden" takes one
    value for both. measure: names (docs/how-to/sweeps.md lists them), or functions of problem, start, trajectory or runs.
    times: as in `solve`. start: a `Start`, "asymmetric", or a table (dim, scale); default: random weights. starts: how many
    random starts, an axis of its own; number i is random_start(..., seed=seed + i) at every point. runs: networks per
    simulation. gradient_flow, rtol, solver: as in `solve`.

    out: a folder that keeps each finished chunk; the same call goes on where it stopped, another sweep is refused (new:
    begins a folder of its own beside it). retry: compute again the chunks with failed points. executor: "serial",
    "processes", "dask", "slurm" (cluster: its options) or the address of a Dask scheduler; default: processes, or here if
    there is little to do. Numbers depend on none of these. imports: modules that may be imported for values that are text,
    "module:function".

    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1), tu.Network(1))
    >>> found = tu.sweep(problem, {"lr": [0.5, 1.0], "noise": [0.1, 0.2, 0.3]}, "critical_learning_rate")
    >>> found["critical_learning_rate"].dims
    ('lr', 'noise')
    >>> round(float(found["critical_learning_rate"][0, 0]), 3)  # pi sqrt(5/3), whatever the rate and the noise are
    4.056
    """
    names, functions = _named(measure, stored=out is not None)
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
        sources={name: source_hash(imported(name)) for name in names if ":" in name and name not in functions},
        chunk_size=default_chunk if not functions else lambda _: FEW,
        imports=imports,
    )
    how = {"executor": executor, "workers": workers, "cluster": cluster, "progress": progress}
    return carry_out(spec, out=out, new=new, retry=retry, functions=functions, **how)


def carry_out(
    spec: SweepSpec,
    *,
    out: str | Path | None,
    new: bool = False,
    retry: bool = False,
    functions: dict[str, Callable] | None = None,
    executor: str | None,
    workers: int | None,
    cluster: Mapping[str, Any] | None,
    progress: bool,
) -> Sweep:
    """Compute what is missing of a sweep."""
    tasks = list(tasks_of(spec, functions))
    if functions and executor not in (None, "serial"):
        raise InputError(
            f"the function {next(iter(functions))[1:]} cannot be imported by other processes; put it into a module, or use "
            "executor='serial'."
        )
    chosen = executor or ("serial" if functions or (len(tasks) <= FEW and out is None) else "processes")
    watched = Bar() if progress else Silent()
    execute = named_executor(chosen, cluster)  # refuses an unknown one before anything is written
    workers = None if workers is None else checks.as_count("workers", workers)
    if out is None:
        return _in_memory(spec, tasks, functions, execute, workers, watched)
    require(execute, workers)
    store = _store(spec, Path(out), len(tasks), new)
    report = run(store, tasks, compute, chosen, workers=workers, cluster=cluster, retry=retry, progress=watched)
    result = Sweep(spec, _collected(spec, store), store.folder, report)
    try:
        result.save(store.folder / WHOLE)
    except OSError as error:
        raise StoreError(f"every chunk is kept, but {store.folder / WHOLE} cannot be written ({error.strerror}).") from None
    return result


def open_sweep(folder: str | Path) -> Sweep:
    """What the folder of a sweep holds so far, whether the sweep has ended, was stopped, or is still running.

    >>> import tempfile
    >>> import tutelage as tu
    >>> problem = tu.Problem(tu.Network(1), tu.Network(1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     swept = tu.sweep(problem, {"lr": [0.5]}, "critical_learning_rate", out=f"{folder}/a", executor="serial")
    ...     tu.open_sweep(f"{folder}/a").dataset.sizes["lr"]
    1
    """
    store = Store.open(Path(folder))
    spec = SweepSpec.from_dict(store.spec)
    return Sweep(spec, _collected(spec, store), store.folder)


def _collected(spec: SweepSpec, store: Store) -> Any:
    kept = (store.read(index) for index in sorted(store.done))
    return assemble(spec, ((chunk.points, chunk.outcome) for chunk in kept))


def _store(spec: SweepSpec, folder: Path, chunks: int, new: bool) -> Store:
    """The store in this folder; new: in one beside it that carries the key of the sweep, if another sweep is there."""
    table = spec.to_dict()
    if new and (folder / "spec.json").exists() and Store.open(folder).key != spec_key(table):
        folder = folder.with_name(f"{folder.name}-{spec_key(table)[:8]}")
    return Store.create(folder, table, chunks=chunks, points=len(spec.all_points))


def _in_memory(spec: SweepSpec, tasks: list[Task], functions: Any, execute: Any, workers: int | None, watched: Any) -> Sweep:
    kept: list[tuple[Any, Outcome]] = []
    watched.begin(len(spec.all_points), 0)
    try:
        with closing(execute(compute, tasks, workers, watched.notice)) as results:
            for task, result in results:
                outcome = result.outcome(len(task.points)) if isinstance(result, WorkerError) else result
                kept.append((task.points, outcome))
                watched.done(task, outcome)
    finally:
        watched.end()
    return Sweep(spec, assemble(spec, sorted(kept, key=lambda entry: entry[0]), functions))


def _named(measure: Any, stored: bool) -> tuple[list[str], dict[str, Callable]]:
    """The names of the measures, and those functions that have no name to be imported by."""
    given: Iterable[Any] = [measure] if isinstance(measure, str) or callable(measure) else measure
    if not isinstance(given, list | tuple) or not given:
        raise InputError(f"measure is {checks.shown(measure)}; it must be a name, a function, or a list of them.")
    names, functions = [], {}
    for one in given:
        name = _name(one, functions, stored) if callable(one) else one
        resolve(name, functions)
        if name in names:
            raise InputError(f"the measure {name!r} is there twice; leave one out.")
        names.append(name)
    return names, functions


def _name(function: Callable, functions: dict[str, Callable], stored: bool) -> str:
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    name = f"{module}:{path}"
    if module not in (None, "__main__") and "<" not in path:
        try:
            if imported(name) is function:
                return name
        except InputError:
            pass
    if stored:
        raise InputError(
            f"the function {path or function!r} cannot be imported, so a folder cannot know it; put it into a module, or "
            "leave out=... away."
        )
    functions[f":{path.rpartition('.')[2].strip('<>')}"] = function
    return f":{path.rpartition('.')[2].strip('<>')}"
