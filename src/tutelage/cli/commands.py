"""`tutelage solve`, `simulate`, `compare` and `explore`. The library is imported when a command runs, after JAX is set up."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tutelage.cli import report
from tutelage.cli import request as flags
from tutelage.cli.process import INTERRUPT_CODE, keep_compiled_programs, leave_on_interrupt, notes, working
from tutelage.cli.request import Request, read_request
from tutelage.errors import InputError, Status

if TYPE_CHECKING:
    from tutelage.trajectory import Trajectory

DAY = 86400.0  # seconds


def solve(
    problem: Path | None = None,
    /,
    *,
    what: flags.ProblemFlags = flags.ProblemFlags(),  # noqa: B008
    start: flags.StartFlags = flags.StartFlags(),  # noqa: B008
    times: flags.TimeFlags = flags.TimeFlags(),  # noqa: B008
    how: flags.TheoryFlags = flags.TheoryFlags(),  # noqa: B008
    validity: Annotated[bool, Parameter(group=flags.METHOD, show_default=False)] = True,
    output: flags.OutputFlags = flags.OutputFlags(),  # noqa: B008
) -> int:
    """Compute the learning curve of a problem in the limit of large N.

    Without a file, a student of three erf units learns from a teacher of three erf units. A file is what Problem.to_toml
    writes, with optional tables [start] (dim, scale, seed; or R, Q, T, readout; or kind) and [times] (end, points, log).
    Flags override the file.

    Parameters
    ----------
    problem: Path
        A problem file (TOML).
    validity: bool
        Report where the limit of large N is accurate.
    """
    keep_compiled_programs()
    report.check_outputs(output)
    request = read_request(problem, what, start, times)
    with notes():
        trajectory = _solved(request, how)
        files, checked = report.show(trajectory, output), None
        if validity and trajectory.tasks is None and (output.talks or output.json):
            with leave_on_interrupt(), working("checking validity"):
                checked = trajectory.validity
    if output.json:
        print(report.to_json(trajectory, request.start_table, checked, files))
    elif checked is not None:
        report.print_field("validity", checked.lines())
    # a divergence is a result; a solver that gave up is not
    return 0 if int(trajectory.status_code) in (Status.FINISHED, Status.DIVERGED) else 1


def simulate(
    problem: Path | None = None,
    /,
    *,
    what: flags.ProblemFlags = flags.ProblemFlags(),  # noqa: B008
    start: flags.StartFlags = flags.StartFlags(),  # noqa: B008
    times: flags.TimeFlags = flags.TimeFlags(),  # noqa: B008
    runs: flags.RunFlags = flags.RunFlags(),  # noqa: B008
    output: flags.OutputFlags = flags.OutputFlags(),  # noqa: B008
) -> int:
    """Simulate online SGD of finite networks, exact in law at any N.

    Problem and initial condition are those of tutelage compare. Ctrl-C keeps the complete runs (exit code 130).

    Parameters
    ----------
    problem: Path
        A problem file (TOML), as for tutelage solve.
    """
    keep_compiled_programs()
    report.check_outputs(output)
    request = read_request(problem, what, start, times, finite=True)
    with notes():
        trajectory, interrupted = complete_runs(_simulated(request, runs, output.talks))
        files = report.show(trajectory, output)
    if output.json:
        print(report.to_json(trajectory, request.start_table, None, files, interrupted))
    if interrupted:
        print(interrupted, file=sys.stderr)
    return INTERRUPT_CODE if interrupted else 0


def compare(
    problem: Path | None = None,
    /,
    *,
    what: flags.ProblemFlags = flags.ProblemFlags(),  # noqa: B008
    start: flags.StartFlags = flags.StartFlags(),  # noqa: B008
    times: flags.TimeFlags = flags.TimeFlags(),  # noqa: B008
    how: flags.TheoryFlags = flags.TheoryFlags(),  # noqa: B008
    runs: flags.RunFlags = flags.RunFlags(),  # noqa: B008
    out_dir: Annotated[Path, Parameter(group=flags.OUTPUT)] = Path("output/compare"),
    output: flags.TalkFlags = flags.TalkFlags(),  # noqa: B008
) -> int:
    """Compare the theory with simulated networks and save a figure and an HTML report.

    Solves a problem in the limit of large N, simulates finite networks from the same initial condition, and compares them at
    every time. Problem and flags are those of tutelage solve. --seed is also the seed of the runs.

    Parameters
    ----------
    problem: Path
        A problem file (TOML), as for tutelage solve.
    out_dir: Path
        Folder for the figure, the HTML report and both trajectories; created if it does not exist.
    """
    keep_compiled_programs()
    import tutelage as tu

    request = read_request(problem, what, start, times, finite=True)
    report.check_folder(out_dir)
    with notes(), leave_on_interrupt():
        network = _simulated(request, runs, output.talks)
        theory = _solved(request, how)
        with working("comparing"):
            comparison = tu.compare(theory, network)
    files = report.write_report(comparison, out_dir)
    if output.json:
        print(report.dumps({"problem": request.problem.to_dict()} | comparison.to_dict() | {"files": files}))
    elif output.talks:
        report.plain_console().print(comparison.table())
        report.print_field("wrote", [f"{path}  ({name})" for name, path in files.items()])
    return 0


def explore(
    *,
    port: flags.Whole = None,
    browser: Annotated[bool, Parameter(negative="--no-browser", show_default=False)] = True,
    static: Path | None = None,
    json: flags.Switch = False,
) -> int:
    """Open a web page on this machine that solves the theory again at every change of a control.

    The page shows the learning curve with its phases, the overlaps at the time of the slider, simulated networks next to the
    theory, and the critical and best learning rates. Only this machine can reach it. Ctrl-C ends it.

    With --static the page is written to a file and needs no server: the browser solves the theory of erf, linear and
    quadratic networks with up to 6 units. Put the file on a website or open it from a disk.

    Parameters
    ----------
    port: int
        Port of the page (default: a free port).
    browser: bool
        Open the page in a browser (the default).
    static: Path
        Write a page without a server to this file, such as explorer.html, and end.
    json: bool
        Print the address, or the name of the file, as JSON on standard output, and nothing else.
    """
    if static is not None:
        from tutelage.page import standalone

        if port is not None:
            raise InputError(f"--port {port} and --static {static} are both given; a page without a server has no port.")
        path = str(standalone().save(static))
        print(report.dumps({"file": path})) if json else report.print_field("wrote", [path])
        return 0
    from tutelage.explorer import serve

    keep_compiled_programs()  # through the environment, which the processes that solve inherit
    serve(port, browser, json)
    return 0


def _solved(request: Request, how: flags.TheoryFlags) -> "Trajectory":
    """The theory of a request, with a sign of life while it is computed."""
    import tutelage as tu

    with leave_on_interrupt(), working("solving"):
        return tu.solve(request.problem, request.start, request.times, **asdict(how))


def _simulated(request: Request, runs: flags.RunFlags, talks: bool) -> "Trajectory":
    """The runs of a request; a bar on a terminal when they take long. More than a day needs --long."""
    import tutelage as tu
    from tutelage.simulation.simulate import duration_warning, estimated_seconds

    problem, start, seed = request.problem, request.start, request.start_table.get("seed", 0)
    if start.dim is not None and not runs.long:
        steps = start.dim * float(request.times[-1])
        estimate = estimated_seconds(problem, start.dim, steps, runs.runs, runs.method)
        if estimate > DAY:
            raise InputError(f"{duration_warning(estimate, steps, runs.runs)}, or add --long to do it anyway.")
    options = {"runs": runs.runs, "method": runs.method, "progress": talks and sys.stderr.isatty()}
    return tu.simulate(problem, start, times=request.times, seed=seed, **options)


def complete_runs(runs: "Trajectory") -> "tuple[Trajectory, str]":
    """The runs that Ctrl-C did not cut short, and what it did in words ("" if nothing). No run: a KeyboardInterrupt."""
    import numpy as np

    from tutelage.trajectory import Trajectory

    asked, whole = dict(runs.settings)["runs"], np.flatnonzero(runs.status_code != Status.INTERRUPTED)
    if whole.size == asked:
        return runs, ""
    if whole.size == 0:
        raise KeyboardInterrupt
    kept = Trajectory.from_dataset(runs.to_dataset().isel(run=whole))
    settings = tuple((dict(runs.settings) | {"runs": int(whole.size)}).items())
    kept = replace(kept, problem=runs.problem, start=runs.start, settings=settings)
    return kept, f"interrupted: {whole.size} of {asked} runs are complete; the others are left out."
