"""`tutelage simulate`: the finite network alone."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tutelage.cli.flags import CompareStartFlags, OutputFlags, ProblemFlags, RunFlags, TimeFlags
from tutelage.cli.interrupt import EXIT_CODE


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

    Start and problem are those of tutelage compare. Ctrl-C keeps the runs that are complete (exit code 130).

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
        every = simulated(request, runs, talks=talks or output.progress)
        trajectory, interrupted = whole_runs(every)
        files = write_outputs(trajectory, output)
    if output.json:
        print(report.to_json(trajectory, request.start_table, None, files, interrupted))
    elif talks:
        report.print_curve(trajectory)
        if files:
            report.print_field("wrote", files)
    if interrupted:
        print(interrupted, file=sys.stderr)
        return EXIT_CODE
    return 0


def whole_runs(runs: Any) -> tuple[Any, str]:
    """The runs that Ctrl-C did not cut short, and what it did in words ("" if nothing). No run: a KeyboardInterrupt."""
    import numpy as np

    from tutelage import Status

    asked, whole = dict(runs.settings)["runs"], np.flatnonzero(runs.status_code != Status.INTERRUPTED)
    if whole.size == asked:
        return runs, ""
    if whole.size == 0:
        raise KeyboardInterrupt
    kept = replace(
        runs,
        variables={name: values[whole] for name, values in runs.variables.items()},
        **{name: getattr(runs, name)[whole] for name in ("error", "loss", "status_code", "end_time", "steps")},
        T=runs.T if np.ndim(runs.T) == 2 else runs.T[whole],
        settings=tuple((dict(runs.settings) | {"runs": int(whole.size)}).items()),
    )
    return kept, f"interrupted: {whole.size} of {asked} runs are complete; the others are left out."
