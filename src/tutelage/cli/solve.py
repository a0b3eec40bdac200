"""`tutelage solve`: a problem in, a learning curve out."""

from pathlib import Path
from typing import Any

from tutelage.cli.flags import OutputFlags, ProblemFlags, SolveFlags, StartFlags, TheoryFlags, TimeFlags


def solve(
    problem: Path | None = None,
    /,
    *,
    what: ProblemFlags = ProblemFlags(),  # noqa: B008
    start: StartFlags = StartFlags(),  # noqa: B008
    times: TimeFlags = TimeFlags(),  # noqa: B008
    how: SolveFlags = SolveFlags(),  # noqa: B008
    output: OutputFlags = OutputFlags(),  # noqa: B008
) -> int:
    """The learning curve of a problem in the limit of large N.

    Without a file, three erf units learn from three others. The file is what Problem.to_toml writes, with optional tables
    [start] (dim, scale, seed; or R, Q, T, readout) and [times] (end, points, log). Flags override the file.

    Examples: tutelage solve --lr 1.5 --plot curve.png; tutelage solve problem.toml --out curve.nc

    Parameters
    ----------
    problem: Path
        A problem file (TOML).
    """
    from tutelage.cli.compile_cache import keep_compiled_programs
    from tutelage.cli.outputs import check_outputs, write_outputs

    keep_compiled_programs()
    check_outputs(output)
    from tutelage import DivergenceWarning
    from tutelage.cli import report
    from tutelage.cli.interrupt import leave_on_interrupt
    from tutelage.cli.messages import notes, working
    from tutelage.cli.request import read_request

    request = read_request(problem, what, start, times)
    table = not (output.json or output.quiet)
    silent = () if output.quiet and not output.json else (DivergenceWarning,)  # the table and the JSON say it themselves
    with notes(*silent):
        trajectory = solved(request, how, output.progress)
        if table:
            report.print_curve(trajectory)
        files = write_outputs(trajectory, output)
        if table and files:
            report.print_field("wrote", files)
        validity = None
        if how.validity and (table or output.json):
            with leave_on_interrupt(), working("checking validity"):
                validity = trajectory.validity
    if output.json:
        print(report.to_json(trajectory, request.start_table, validity, files))
    elif table and validity is not None:
        report.print_field("validity", validity.lines())
    return _exit_code(trajectory)


def solved(request: Any, how: TheoryFlags, progress: bool = False) -> Any:
    """The theory of a request, with a sign of life while it is computed."""
    from contextlib import nullcontext

    import tutelage as tu
    from tutelage.cli.interrupt import leave_on_interrupt
    from tutelage.cli.messages import working

    with leave_on_interrupt(), nullcontext() if progress else working("solving"):
        return tu.solve(
            request.problem,
            request.start,
            request.times,
            gradient_flow=how.gradient_flow,
            rtol=how.rtol,
            solver=how.solver,
            progress=progress,
        )


def _exit_code(trajectory: Any) -> int:
    """A divergence is an answer; a solver that gave up is not."""
    from tutelage import Status

    return 0 if int(trajectory.status_code) in (Status.FINISHED, Status.DIVERGED) else 1
