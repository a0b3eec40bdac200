"""`tutelage compare`: the theory and the network itself, side by side."""

from functools import partial
from pathlib import Path
from typing import Any

from tutelage._errors import InputError
from tutelage.cli.flags import CompareStartFlags, FolderFlags, ProblemFlags, RunFlags, TheoryFlags, TimeFlags

DAY = 86400.0


def compare(
    problem: Path | None = None,
    /,
    *,
    what: ProblemFlags = ProblemFlags(),  # noqa: B008
    start: CompareStartFlags = CompareStartFlags(),  # noqa: B008
    times: TimeFlags = TimeFlags(),  # noqa: B008
    how: TheoryFlags = TheoryFlags(),  # noqa: B008
    runs: RunFlags = RunFlags(),  # noqa: B008
    output: FolderFlags = FolderFlags(),  # noqa: B008
) -> int:
    """Does the network follow the theory? A table, a verdict in words, a figure and a page.

    Solves a problem in the limit of large N, simulates finite networks from the same start, and compares them at every time.
    Without a file, three erf units learn from three others. Flags override the file; --seed is that of the runs, too.

    Examples: tutelage compare; tutelage compare --start random; tutelage compare problem.toml --dim 200 --runs 100

    Parameters
    ----------
    problem: Path
        A problem file (TOML), as for tutelage solve.
    """
    from tutelage.cli.compile_cache import keep_compiled_programs
    from tutelage.cli.outputs import check_folder, write_report

    keep_compiled_programs()
    from tutelage.cli import report
    from tutelage.cli.messages import notes

    request = read_compare_request(problem, what, start, times)
    check_folder(output.out_dir)
    with notes():
        comparison = _compared(request, how, runs, output)
    files = write_report(comparison, output.out_dir)
    if output.json:
        print(report.dumps({"problem": request.problem.to_dict()} | comparison.to_dict() | {"files": files}))
    elif not output.quiet:
        report.plain_console().print(comparison.table())
        report.print_field("wrote", [f"{path}  ({name})" for name, path in files.items()])
    return 0


def read_compare_request(path: Path | None, what: ProblemFlags, start: CompareStartFlags, times: TimeFlags) -> Any:
    """Problem, start (of a known N) and times, for `compare` and `simulate`."""
    from tutelage.cli.request import read_request
    from tutelage.cli.starts import build_compare_start

    return read_request(path, what, start, times, partial(build_compare_start, kind=start.start))


def simulated(request: Any, runs: RunFlags, talks: bool) -> Any:
    """The runs of a request; a bar on a terminal when they take long."""
    import sys

    import tutelage as tu

    count = 20 if runs.runs is None else runs.runs
    method = "overlaps" if runs.method is None else runs.method
    if not runs.long:
        _require_patience(request, count, method)
    return tu.simulate(
        request.problem,
        request.start,
        times=request.times,
        runs=count,
        seed=request.start_table.get("seed", 0),
        method=method,
        progress=talks and sys.stderr.isatty(),
    )


def _require_patience(request: Any, runs: int, method: str) -> None:
    """Refuse what is estimated to take more than a day, unless --long is given."""
    from tutelage.simulation import cost

    dim, end = request.start.dim, float(request.times[-1])
    estimate = cost.seconds(request.problem, dim, dim * end, runs, method)
    if estimate > DAY:
        raise InputError(f"{cost.sentence(estimate, dim * end, runs)}, or add --long to do it anyway.")


def _compared(request: Any, how: TheoryFlags, runs: RunFlags, output: FolderFlags) -> Any:
    import tutelage as tu
    from tutelage.cli.interrupt import leave_on_interrupt
    from tutelage.cli.messages import working
    from tutelage.cli.solve import solved

    with leave_on_interrupt():
        network = simulated(request, runs, talks=not (output.json or output.quiet))
        theory = solved(request, how)
        with working("comparing"):
            return tu.compare(theory, network)
