"""`tutelage sweep`: measures over a grid of problems, in a folder that can be resumed.

A sweep is a TOML file: a problem file, and in addition the measures and the axes.

    measure = ["final_error", "noise_floor"]

    [over]
    lr = [0.1, 0.2]
    noise = { from = 0.0, to = 1.0, count = 11 }

A range has even values, or with log = true values that are even in the logarithm. Other
names are those of OPTIONS, [[points]] (a list of points in place of [over]), [start],
[times], and for --executor slurm [cluster] (queue, account, walltime, memory, ...).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from tutelage.cli import report
from tutelage.cli.process import keep_compiled_programs
from tutelage.cli.request import METHOD, OUTPUT, Switch, TalkFlags, Whole, read_file
from tutelage.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from tutelage._types import Table
    from tutelage.problem import Problem
    from tutelage.sweeps.sweep import Sweep

OPTIONS = (
    "measure",
    "starts",
    "runs",
    "seed",
    "gradient_flow",
    "rtol",
    "solver",
    "points_per_chunk",
)
MOST_VALUES = 10**6
sweep = App(name="sweep")


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class WorkFlags:
    """Flags of the computation."""

    executor: str | None = None
    """processes, serial, dask (a local cluster), slurm, or the address of a Dask
    scheduler (default processes)."""
    workers: Whole = None
    """Number of processes (default: the cores); the numbers do not depend on it."""
    retry: Switch = False
    """Compute the chunks with failed points again."""
    imports: Annotated[list[str] | None, Parameter(name="--import", negative="")] = None
    """Allow the file to name functions of this module as module:function; can be
    repeated."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class SweepOutputFlags(TalkFlags):
    """Flags of the printed output, the folder and the figure."""

    out: Path | None = None
    """Folder of the results, created if it does not exist (default output/NAME, after
    the file)."""
    plot: Path | None = None
    """Draw the first measure into this file (.png, .pdf or .svg)."""
    boundary: Annotated[list[str] | None, Parameter(negative="")] = None
    """Line of theory on that figure: critical_learning_rate, noise_floor (with
    --level); can be repeated."""
    level: float | None = None
    """Draw the contour of this value of the measure, too."""


@sweep.default
def sweep_file(
    spec: Path,
    /,
    *,
    work: WorkFlags = WorkFlags(),  # noqa: B008
    output: SweepOutputFlags = SweepOutputFlags(),  # noqa: B008
) -> int:
    """Compute measures over a grid of problems, in a folder that can be resumed.

    The file is a problem file (see solve) with measure = [...], a table [over] of names
    and values (or [[points]]), and optionally starts, runs, seed, [start], [times],
    [cluster]. Interrupt it at any time and run it again: finished work is kept. Exit
    code 1: some points failed; their errors are kept with them.

    Parameters
    ----------
    spec: Path
        The sweep (TOML).
    """
    keep_compiled_programs()
    problem, arguments, cluster = read_sweep_file(spec, work.imports or ())
    if output.plot is not None:
        from tutelage.plot import check_figure_path

        check_figure_path(output.plot)
    elif output.boundary or output.level is not None:
        raise InputError(
            "--boundary or --level is given without --plot; say where to draw it."
        )
    folder = output.out or Path("output") / spec.stem
    from tutelage import sweep as compute_sweep

    if work.executor != "slurm":
        cluster = None
    result = compute_sweep(
        problem,
        **asdict(work) | arguments,
        out=folder,
        cluster=cluster,
        progress=True,
    )
    files = [str(folder / "sweep.nc")]
    if output.plot is not None:
        from tutelage.plot import save_figure

        figure = result.plot(boundary=output.boundary or (), level=output.level)
        files.append(str(save_figure(figure, output.plot)))
    if output.json:
        print(report.dumps(_summary(result) | {"files": files}))
    elif not output.quiet:
        report.print_field("sweep", str(result).splitlines())
        report.print_field("chunks", [str(result.report)])
        report.print_field("wrote", files)
    return 1 if result.failures else 0


def _summary(result: "Sweep") -> "Table":
    """Return axes, ranges and failures; the numbers themselves are in the file."""
    measures = {}
    for name, numbers in result.ranges().items():
        measures[name] = {"dims": list(result[name].dims)} | numbers
    assert result.report is not None
    return {
        "folder": str(result.folder),
        "points": result.spec.count,
        "axes": result.spec.over,
        "measures": measures,
        "diverged": result.diverged,
        "notes": result.notes,
        "failures": result.failures,
        "computed": result.report.computed,
        "kept": result.report.kept,
        "notices": result.report.notices,
    }


@sweep.command
def status(folder: Path, /, *, json: Switch = False) -> int:
    """Print the progress of a sweep: points, chunks, failures and processes.

    Parameters
    ----------
    folder: Path
        The folder of the sweep.
    json: bool
        Print JSON on standard output, and nothing else.
    """
    from tutelage.sweeps.store import Store

    progress = Store(folder).status()
    if json:
        print(report.dumps(asdict(progress) | {"complete": progress.complete}))
    else:
        print(progress)
    return 0


def read_sweep_file(
    path: Path, imports: Sequence[str] = ()
) -> "tuple[Problem, Table, Table]":
    """Return the problem, the arguments of `sweep`, and the options of a cluster.

    imports: modules whose functions the file may name.
    """
    from tutelage import Problem
    from tutelage.problem.serialize import NAMES, imported, paths_in
    from tutelage.times import times_from_table

    names = (*OPTIONS, "over", "points", "start", "times", "cluster", *NAMES)
    data = read_file(path, names, "a sweep file")
    tables = {name: data[name] for name in NAMES if name in data}
    problem = Problem.from_dict(tables, imports)
    for function in paths_in(data.get("measure", [])):
        imported("a measure", function, imports)
    options = (*OPTIONS, "points", "start")
    arguments = {name: data[name] for name in options if name in data}
    if "over" in data:
        arguments["over"] = {}
        for name, values in flat(data["over"]).items():
            arguments["over"][name] = _values(name, values)
    arguments["imports"] = tuple(imports)
    arguments["times"] = times_from_table(data.get("times", {}))
    return problem, arguments, data.get("cluster", {})


def flat(table: "Table") -> "Table":
    """Return a table with dotted names.

    TOML reads student.hidden = [2, 3] as a table in a table.
    """
    flat_table = {}
    for name, value in table.items():
        if isinstance(value, dict) and not set(value) & {"from", "to", "count"}:
            for inner_name, inner_value in flat(value).items():
                flat_table[f"{name}.{inner_name}"] = inner_value
        else:
            flat_table[name] = value
    return flat_table


def _values(name: str, values: object) -> "object | np.ndarray":
    """Return a list as it is, and a range as its values."""
    import numpy as np

    from tutelage import checks

    if not isinstance(values, dict):
        return values
    for key in values:
        allowed = ("from", "to", "count", "log")
        checks.known(f"a name in the range of {name}", key, allowed)
    log = checks.as_flag(f"log in the range of {name}", values.get("log", False))
    conditions = (checks.require_positive,) if log else ()

    def end(key: str) -> float:
        number = checks.as_number(
            f"{key} in the range of {name}", values.get(key), *conditions
        )
        return float(number)

    first = end("from")
    last = end("to")
    count = checks.as_count(
        f"count in the range of {name}",
        values.get("count"),
        least=2,
        most=MOST_VALUES,
    )
    if log:
        return np.geomspace(first, last, count)
    return np.linspace(first, last, count)
