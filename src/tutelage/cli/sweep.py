"""`tutelage sweep`: the same question at thousands of problems, kept in a folder."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from tutelage._errors import InputError
from tutelage.cli.flags import METHOD, OUTPUT, Switch, TalkFlags, Whole

HELP = """The same question at many problems: measures over a grid, kept in a folder that can be resumed.

The file is a problem file (see solve) with measure = [...], a table [over] of names and values (or [[points]]), and, if
need be, starts, runs, seed, [start], [times], [cluster]. Stop it in any way and run it again: finished work is kept. Exit
code 1: some points failed; their errors are kept with them.

Examples: tutelage sweep examples/sweep.toml --out output/sweep; tutelage sweep status output/sweep
"""
sweep = App(name="sweep", help=HELP)


@Parameter(name="*", group=METHOD)
@dataclass(frozen=True, kw_only=True)
class WorkFlags:
    """Who computes, and what is computed again."""

    executor: str | None = None
    """processes, serial, dask (a local cluster), slurm, or the address of a Dask scheduler (default processes)."""
    workers: Whole = None
    """How many of them (default: the cores); numbers do not depend on it."""
    new: Switch = False
    """If the folder holds another sweep, begin one beside it rather than refuse."""
    retry: Switch = False
    """Compute the chunks with failed points again."""
    imports: Annotated[list[str] | None, Parameter(name="--import", negative="")] = None
    """A module whose functions the file may name as module:function; can be given several times."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class SweepOutputFlags(TalkFlags):
    """Where the answer goes."""

    out: Path | None = None
    """Folder of the results, made if it is not there (default output/NAME, after the file)."""
    plot: Path | None = None
    """Draw the first measure into this figure (.png, .pdf or .svg)."""
    boundary: Annotated[list[str] | None, Parameter(negative="")] = None
    """Theory's line on that figure: critical_learning_rate, noise_floor (with --level); can be given twice."""
    level: float | None = None
    """The value of the measure that is looked for: its contour is drawn, too."""


@sweep.default
def sweep_file(
    spec: Path,
    /,
    *,
    work: WorkFlags = WorkFlags(),  # noqa: B008
    output: SweepOutputFlags = SweepOutputFlags(),  # noqa: B008
) -> int:
    """Run the sweep that a file describes.

    Parameters
    ----------
    spec: Path
        The sweep (TOML).
    """
    from tutelage.cli.compile_cache import keep_compiled_programs
    from tutelage.cli.interrupt import EXIT_CODE
    from tutelage.cli.sweep_file import read_sweep_file

    keep_compiled_programs()
    problem, arguments, cluster = read_sweep_file(spec, work.imports or ())
    _check_figure(output)
    folder = output.out or Path("output") / spec.stem
    from tutelage import sweep as compute_sweep

    options = cluster if work.executor == "slurm" else None
    try:
        result = compute_sweep(problem, **asdict(work) | arguments, out=folder, cluster=options, progress=True)
    except KeyboardInterrupt as stopped:
        print(f"interrupted: {stopped}" if str(stopped) else "interrupted.", file=sys.stderr)
        return EXIT_CODE
    files = [str(Path(str(result.folder)) / "sweep.nc"), *_drawn(result, output)]
    _tell(result, files, output)
    return 1 if result.failures else 0


def _check_figure(output: SweepOutputFlags) -> None:
    """Before anything is computed."""
    if output.plot is not None:
        from tutelage.plot import check_figure_path

        check_figure_path(output.plot)
    elif output.boundary or output.level is not None:
        flag = "--boundary" if output.boundary else "--level"
        raise InputError(f"{flag} is given without --plot; say where to draw it.")


def _drawn(result: Any, output: SweepOutputFlags) -> list[str]:
    if output.plot is None:
        return []
    from tutelage.plot import save_figure

    lines, level = output.boundary or [], output.level
    figure = result.phase_diagram(boundary=lines, level=level) if lines or level is not None else result.plot()
    return [str(save_figure(figure, output.plot))]


def _tell(result: Any, files: list[str], output: SweepOutputFlags) -> None:
    from tutelage.cli import report

    if output.json:
        print(report.dumps(_summary(result) | {"files": files}))
    elif not output.quiet:
        report.print_field("sweep", str(result).splitlines())
        report.print_field("folder", str(result.report).splitlines())
        report.print_field("wrote", files)


def _summary(result: Any) -> dict[str, Any]:
    """What a program wants to know; the numbers themselves are in the file."""
    import numpy as np

    measured = {}
    for name in result.variables:
        values = result.dataset[name]
        found = values.values[np.isfinite(values.values)]
        ends = {"least": found.min(), "most": found.max()} if found.size else {"least": None, "most": None}
        measured[name] = {"dims": list(values.dims), **ends, "missing": int(values.size - found.size)}
    status = asdict(result.report.status)
    return {
        "folder": str(result.folder),
        "points": status["points"],
        "axes": {name: list(values) for name, values in (result.spec.over or {}).items()},
        "measures": measured,
        "computed": result.report.computed,
        "kept": result.report.kept,
        "diverged": result.diverged,
        "notes": {str(point): words for point, words in result.notes.items()},
        "failures": {str(point): words for point, words in result.failures.items()},
        "notices": list(result.report.notices),
    }


@sweep.command
def status(folder: Path, /, *, json: Switch = False) -> int:
    """How far a sweep is: points, chunks, failures, and who is working on it.

    Parameters
    ----------
    folder: Path
        The folder of the sweep.
    json: bool
        Print JSON on standard output, and nothing else.
    """
    from tutelage.cli import report
    from tutelage.sweeps.store import Store

    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give that of a sweep.")
    found = Store.open(folder).status()
    print(report.dumps(asdict(found) | {"complete": found.complete}) if json else found)
    return 0
