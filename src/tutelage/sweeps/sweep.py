"""`sweep` and `open_sweep`: one question at many problems, in memory or in a folder that outlives any interruption."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tutelage import checks
from tutelage._types import Numbers
from tutelage.errors import InputError
from tutelage.problem import Problem, Start
from tutelage.problem.serialize import path_of
from tutelage.sweeps.compute import compute
from tutelage.sweeps.engine import Progress, Report, execute_all, run
from tutelage.sweeps.executors import Chunk
from tutelage.sweeps.executors import executor as named_executor
from tutelage.sweeps.measures import resolve
from tutelage.sweeps.result import Sweep, combine_chunks
from tutelage.sweeps.spec import SweepSpec, build_spec
from tutelage.sweeps.spec import tasks as tasks_of
from tutelage.sweeps.store import Store, spec_key

WHOLE = "sweep.nc"  # the whole Dataset, next to the chunks
IN_THIS_PROCESS = 2  # at most so many chunks are computed here rather than in processes, which take seconds to start


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
    new: bool = False,
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
    times : array or float
        As in `solve`.
    start : Start, str or dict, optional
        A `Start`, "asymmetric", or a table (dim, scale). Default: random weights.
    starts : int, optional
        Number of random initial conditions, a further axis; number i is random_start(..., seed=seed + i) at every point.
    runs, seed : int
        Networks per simulation; the seed of everything random.
    gradient_flow, rtol, solver
        As in `solve`.
    points_per_chunk : int, optional
        Points that are computed and saved together.
    out : str or path, optional
        A folder that saves each finished chunk; the same call resumes. A different sweep in it raises InputError.
    new, retry : bool
        Begin a new folder next to one that has another sweep; compute chunks with failed points again.
    executor, workers, cluster
        "serial", "processes", "dask", "slurm" (with options `cluster`) or the address of a Dask scheduler; the number of
        workers. They do not change the results.
    progress : bool
        Show a progress bar.
    imports : list of str
        Modules that may be imported for values such as "module:function".

    Returns
    -------
    Sweep
        `.dataset` is an xarray Dataset; `.plot()`, `.phase_diagram()` draw it.

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
        points_per_chunk=IN_THIS_PROCESS if functions and points_per_chunk is None else points_per_chunk,
        imports=imports,
    )
    tasks = list(tasks_of(spec, functions))
    if functions and executor not in (None, "serial"):
        raise InputError(
            f"the function {next(iter(functions))[1:]} cannot be imported by other processes; put it into a module, or use "
            "executor='serial'."
        )
    chosen = executor or ("serial" if functions or (len(tasks) <= IN_THIS_PROCESS and out is None) else "processes")
    shown = Progress(shown=progress)
    execute = named_executor(chosen, workers, cluster)
    if out is None:
        kept: list[tuple[tuple[int, ...], Chunk]] = []
        with shown.over(spec.count, 0):
            execute_all(execute, tasks, compute, lambda task, chunk: kept.append((task.points, chunk)), shown)
        return Sweep(spec, combine_chunks(spec, sorted(kept, key=lambda entry: entry[0])))
    table, folder = spec.to_dict(), Path(out)
    if new and (folder / "spec.json").exists() and Store.open(folder).key != spec_key(table):
        folder = folder.with_name(f"{folder.name}-{spec_key(table)[:8]}")
    store = Store.create(folder, table, chunks=len(tasks), points=spec.count)
    report = run(store, tasks, compute, execute, retry=retry, progress=shown)
    result = _collected(spec, store, report)
    try:
        result.save(store.folder / WHOLE)
    except OSError as error:
        raise InputError(f"every chunk is kept, but {store.folder / WHOLE} cannot be written ({error.strerror}).") from None
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
    store = Store.open(folder)
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
                    f"the function {short or repr(one)} cannot be imported, so a folder cannot know it; put it into a "
                    "module, or leave out=... away."
                )
            name = f":{short.rpartition('.')[2].strip('<>')}"
            functions[name] = one
        resolve(name, functions)
        if name in names:
            raise InputError(f"the measure {name!r} is there twice; leave one out.")
        names.append(name)
    return names, functions
