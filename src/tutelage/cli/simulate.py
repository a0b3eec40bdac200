"""`tutelage simulate`: the finite network alone."""

from pathlib import Path

from tutelage.cli.flags import CompareStartFlags, OutputFlags, ProblemFlags, RunFlags, TimeFlags


def simulate(
    problem: Path | None = None,
    /,
    *,
    what: ProblemFlags = ProblemFlags(),  # noqa: B008
    start: CompareStartFlags = CompareStartFlags(),  # noqa: B008
    times: TimeFlags = TimeFlags(),  # noqa: B008
    runs: RunFlags = RunFlags(),  # noqa: B008
    output: OutputFlags = OutputFlags(),  # noqa: B008
) -> int:
    """One-pass SGD of finite networks, exact in law at any N.

    Start and problem are those of tutelage compare. Ctrl-C keeps the runs that are finished.

    Examples: tutelage simulate --dim 1000000 --times 10 --out runs.nc; tutelage simulate problem.toml --plot runs.png

    Parameters
    ----------
    problem: Path
        A problem file (TOML), as for tutelage solve.
    """
    from tutelage.cli.compile_cache import keep_compiled_programs
    from tutelage.cli.outputs import check_outputs, write_outputs

    keep_compiled_programs()
    check_outputs(output)
    from tutelage.cli import report
    from tutelage.cli.compare import read_compare_request, simulated
    from tutelage.cli.messages import notes

    request = read_compare_request(problem, what, start, times)
    talks = not (output.json or output.quiet)
    with notes():
        trajectory = simulated(request, runs, talks=talks or output.progress)
        files = write_outputs(trajectory, output)
    if output.json:
        print(report.to_json(trajectory, request.start_table, None, files))
    elif talks:
        report.print_curve(trajectory)
        if files:
            report.print_field("wrote", files)
    return 0
