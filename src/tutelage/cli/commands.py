"""The commands `tutelage solve`, `simulate`, `compare` and `explore`.

The library is imported when a command runs, after JAX is set up.
"""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tutelage.cli import report
from tutelage.cli import request as flags
from tutelage.cli.process import (
    INTERRUPT_CODE,
    keep_compiled_programs,
    leave_on_interrupt,
    notes,
    working,
)
from tutelage.cli.request import Request, read_request
from tutelage.errors import InputError, Status

if TYPE_CHECKING:
    from tutelage.result.trajectory import Trajectory

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

    Without a file, a student of three erf units learns from a teacher of three erf
    units. A file is what Problem.to_toml writes, with optional tables [start] (dim,
    scale, seed; or R, Q, T, readout; or kind) and [times] (end, points, log). Flags
    override the file.

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
        files = report.show(trajectory, output)
        is_shown = output.talks or output.json
        validity_report = None
        if validity and is_shown and trajectory.has_validity:
            with leave_on_interrupt(), working("checking validity"):
                validity_report = trajectory.validity
    if output.json:
        text = report.to_json(trajectory, request.start_table, validity_report, files)
        print(text)
    elif validity_report is not None:
        report.print_field("validity", validity_report.lines())
    # a divergence is a result; a solver that gave up is not
    has_result = int(trajectory.status_code) in (Status.FINISHED, Status.DIVERGED)
    return 0 if has_result else 1


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
    """Simulate the training of finite networks at any N.

    Plain SGD on fresh samples is simulated by the exact law of the overlaps, other
    optimizers and data sets on actual weights.

    Problem and initial condition are those of tutelage compare. Ctrl-C keeps the
    complete runs (exit code 130).

    Parameters
    ----------
    problem: Path
        A problem file (TOML), as for tutelage solve.
    """
    keep_compiled_programs()
    report.check_outputs(output)
    request = read_request(problem, what, start, times, finite=True)
    with notes():
        all_runs = _simulated(request, runs, output.talks)
        trajectory, interruption = complete_runs(all_runs)
        files = report.show(trajectory, output)
    if output.json:
        text = report.to_json(
            trajectory, request.start_table, None, files, interruption
        )
        print(text)
    if interruption:
        print(interruption, file=sys.stderr)
        return INTERRUPT_CODE
    return 0


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

    Solves a problem in the limit of large N, simulates finite networks from the same
    initial condition, and compares them at every time. Problem and flags are those of
    tutelage solve. --seed is also the seed of the runs.

    Parameters
    ----------
    problem: Path
        A problem file (TOML), as for tutelage solve.
    out_dir: Path
        Folder for the figure, the HTML report and both trajectories; created if it does
        not exist.
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
        table = {"problem": request.problem.to_dict()}
        table |= comparison.to_dict()
        table["files"] = files
        print(report.dumps(table))
    elif output.talks:
        report.plain_console().print(comparison.table())
        lines = [f"{path}  ({name})" for name, path in files.items()]
        report.print_field("wrote", lines)
    return 0


def explore(
    *,
    port: flags.Whole = None,
    browser: Annotated[
        bool, Parameter(negative="--no-browser", show_default=False)
    ] = True,
    static: Path | None = None,
    json: flags.Switch = False,
) -> int:
    """Open a web page on this machine that solves the theory as controls change.

    The page shows the learning curve with its phases, the overlaps at the time of the
    slider, simulated networks next to the theory, and the critical and best learning
    rates. Only this machine can reach it. Ctrl-C ends it.

    With --static the page is written to a file and needs no server: the browser solves
    the theory of erf, linear and quadratic networks with up to 6 units. Put the file on
    a website or open it from a disk.

    Parameters
    ----------
    port: int
        Port of the page (default: a free port).
    browser: bool
        Open the page in a browser (the default).
    static: Path
        Write a page without a server to this file, such as explorer.html, and end.
    json: bool
        Print the address, or the name of the file, as JSON on standard output, and
        nothing else.
    """
    if static is not None:
        from tutelage.page import standalone

        if port is not None:
            raise InputError(
                f"--port {port} and --static {static} are both given; "
                "a page without a server has no port."
            )
        path = str(standalone().save(static))
        if json:
            print(report.dumps({"file": path}))
        else:
            report.print_field("wrote", [path])
        return 0
    from tutelage.explorer import serve

    # through the environment, which the processes that solve inherit
    keep_compiled_programs()
    serve(port, browser, json)
    return 0


def _solved(request: Request, how: flags.TheoryFlags) -> "Trajectory":
    """Return the theory of a request; a line on a terminal says that it is computed."""
    import tutelage as tu

    with leave_on_interrupt(), working("solving"):
        options = {k: v for k, v in asdict(how).items() if v is not None}
        return tu.solve(request.problem, request.start, request.times, **options)


def _simulated(request: Request, runs: flags.RunFlags, talks: bool) -> "Trajectory":
    """Return the runs of a request, with a bar on a terminal when they take long.

    Simulations of more than a day need --long.
    """
    import tutelage as tu
    from tutelage.simulation.simulate import (
        duration_warning,
        estimated_seconds,
        steps_per_time,
        usual_method,
    )

    problem = request.problem
    dim = request.start.dim
    if dim is not None and not runs.long:
        steps = steps_per_time(problem, dim) * float(request.times[-1])
        method = usual_method(problem) if runs.method is None else runs.method
        estimate = estimated_seconds(problem, dim, steps, runs.runs, method)
        if estimate > DAY:
            warning = duration_warning(estimate, steps, runs.runs)
            raise InputError(f"{warning}, or add --long to do it anyway.")
    return tu.simulate(
        problem,
        request.start,
        times=request.times,
        runs=runs.runs,
        seed=request.start_table.get("seed", 0),
        method=runs.method,
        progress=talks and sys.stderr.isatty(),
    )


def complete_runs(runs: "Trajectory") -> "tuple[Trajectory, str]":
    """Return the runs that Ctrl-C did not cut short, and a message about the others.

    The message is "" if all runs are complete. Raise `KeyboardInterrupt` if none is.
    """
    import numpy as np

    from tutelage.result.trajectory import Trajectory

    settings = dict(runs.settings)
    count = settings["runs"]
    complete = np.flatnonzero(runs.status_code != Status.INTERRUPTED)
    if complete.size == count:
        return runs, ""
    if complete.size == 0:
        raise KeyboardInterrupt
    settings["runs"] = int(complete.size)
    trajectory = replace(
        Trajectory.from_dataset(runs.to_dataset().isel(run=complete)),
        problem=runs.problem,
        start=runs.start,
        settings=tuple(settings.items()),
    )
    message = (
        f"interrupted: {complete.size} of {count} runs are complete; "
        "the others are left out."
    )
    return trajectory, message
