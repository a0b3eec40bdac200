"""Results of a command: tables for people, JSON for programs, and files.

The places of the files are checked before the computation. Nothing here imports NumPy
or JAX before there is a result.
"""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tutelage._files import require_place
from tutelage.cli.request import OutputFlags
from tutelage.errors import InputError, Status

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from tutelage._types import Table
    from tutelage.comparison import Comparison
    from tutelage.result.trajectory import Trajectory
    from tutelage.stream.validity import Validity

SHOWN = 6  # the largest matrix printed in full


def print_curve(trajectory: "Trajectory") -> None:
    """Print the problem, the error at three times, the last overlaps and the status."""
    import numpy as np
    from rich.table import Table

    from tutelage.plot.labels import problem_in_words, settings_in_words
    from tutelage.result.storage import error_name

    problem = trajectory.problem
    assert problem is not None
    networks, learning = problem_in_words(problem)
    settings = ", ".join([learning, *settings_in_words(trajectory)])
    console = plain_console()
    console.print(networks, style="bold")
    console.print(settings.replace("$", ""), end="\n\n")
    runs = _chosen_runs(trajectory)
    words = ""
    if runs is not None:
        words = f", mean of {runs.size} runs"
        if runs.size < len(trajectory.error):
            words += " that finished"

    def mean(name: str) -> np.ndarray:
        values = np.asarray(getattr(trajectory, name))
        if runs is None:
            return values
        return values[runs].mean(axis=0)

    times = np.asarray(trajectory.times)
    shown = sorted({0, len(times) // 2, len(times) - 1})
    rows = Table.grid(padding=(0, 3))
    time = "steps" if problem.optimizer.counts_steps else "alpha"
    rows.add_row(time, *(f"{times[i]:g}" for i in shown))
    error = mean("error")
    loss = mean("loss")
    name_of_error = "e_g"
    if problem.labels.metric != "squared":
        name_of_error = error_name(problem)
    curves = {name_of_error: error}
    if np.any(np.isfinite(loss)) and not np.array_equal(loss, error, equal_nan=True):
        name_of_loss = "training loss"
        if trajectory.observables:  # another theory records that of its data set, too
            name_of_loss = "loss on fresh samples"
        curves[name_of_loss] = loss
    beside = [o for o in trajectory.observables if o.panel]
    for observable in beside:
        curves[observable.words] = mean(observable.name)
    for name, curve in curves.items():
        if curve.ndim == 1:
            rows.add_row(f"{name}{words}", *(f"{curve[i]:.4g}" for i in shown))
            continue
        for task, column in enumerate(curve.T, 1):
            numbers = [f"{column[i]:.4g}" for i in shown]
            rows.add_row(f"{name} of task {task}{words}", *numbers)
    console.print(rows, end="\n\n")
    matrices = {name: mean(name)[-1] for name in ("R", "Q")}
    if problem.student.train_readout:
        readout = mean("readout")[-1]
        if readout.ndim == 1:
            matrices["readout"] = readout[:, None]
        else:
            matrices["readout"] = readout.reshape(-1, readout.shape[-1])
    table = Table.grid(padding=(0, 5))
    table.add_row(*(f"{name} at {time} = {times[-1]:g}" for name in matrices))
    table.add_row(*(_matrix(values) for values in matrices.values()))
    console.print(table, end="\n\n")
    print_field("status", [trajectory.status])


def _chosen_runs(trajectory: "Trajectory") -> "np.ndarray | None":
    """Return the runs to average, None for a theory: the finished ones, else all."""
    import numpy as np

    if np.ndim(trajectory.status_code) == 0:
        return None
    codes = np.asarray(trajectory.status_code)
    finished = np.flatnonzero(codes == Status.FINISHED)
    if finished.size == 0:
        return np.arange(len(trajectory.error))
    return finished


def print_field(name: str, lines: list[str]) -> None:
    """Print a name, and next to it one or several lines."""
    label = name
    for line in lines:
        print(f"{label:<8}  {line}")
        label = ""


def plain_console() -> "Console":
    """Return standard output, where brackets and colons are text, not commands."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _matrix(values: "np.ndarray") -> str:
    if max(values.shape) > SHOWN:
        size = " x ".join(map(str, values.shape))
        return f"{size} entries from {values.min():.4g} to {values.max():.4g}"
    texts = [[_number(x) for x in row] for row in values]
    width = max(len(text) for row in texts for text in row)
    lines = ["  ".join(text.rjust(width) for text in row) for row in texts]
    return "\n".join(lines)


def _number(number: float) -> str:
    return f"{number:.4f}" if abs(number) < 1e4 else f"{number:.2e}"


def to_json(
    trajectory: "Trajectory",
    start: "Table",
    validity: "Validity | None",
    files: list[str],
    interrupted: str = "",
) -> str:
    """Return a result as one JSON object.

    interrupted: the message about an interruption.
    """
    from tutelage.result.storage import error_name

    time_axis = trajectory.status_code.ndim  # the first, or that after the runs
    final = {}
    for name in ("R", "Q", "readout", "bias"):
        if name in trajectory.variables:
            final[name] = trajectory[name].take(-1, time_axis)
    problem = trajectory.problem
    return dumps(
        {
            "problem": None if problem is None else problem.to_dict(),
            "start": start,
            "settings": dict(trajectory.settings),
            "status": interrupted or trajectory.status,
            "finished": trajectory.finished and not interrupted,
            "times": trajectory.times,
            "error": trajectory.error,
            "error_name": error_name(trajectory.problem),
            "loss": trajectory.loss,
            "final": final,
            "validity": None if validity is None else asdict(validity),
            "files": files,
        }
    )


def dumps(result: "Table") -> str:
    """Return JSON of nested tables and arrays.

    Numbers that JSON cannot hold become null.
    """
    text = json.dumps(result, default=lambda array: array.tolist())
    return json.dumps(json.loads(text, parse_constant=lambda _: None))


def check_outputs(flags: OutputFlags) -> None:
    """Check endings, folders and permissions; no file is left behind."""
    if flags.out is not None and flags.out.suffix != ".nc":
        raise InputError(
            f"the trajectory is to go to {flags.out}; "
            "it is NetCDF, so the name must end in .nc."
        )
    if flags.plot is not None:
        from tutelage.plot import check_figure_path

        check_figure_path(flags.plot)
    for path in (flags.out, flags.plot):
        if path is not None:
            check_folder(require_place(path).parent)


def check_folder(folder: Path) -> None:
    """Create the folder if it does not exist, and check that it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except FileExistsError:
        raise InputError(f"{folder} is a file; give the name of a folder.") from None
    except OSError as error:
        error.filename = str(folder)
        raise


def write_report(comparison: "Comparison", folder: Path) -> dict[str, str]:
    """Write figure, page and both trajectories of a comparison; return their names."""
    from tutelage.plot import save_figure

    return {
        "figure": str(save_figure(comparison.plot(), folder / "compare.png")),
        "page": str(comparison.save_html(folder / "compare.html")),
        "theory": str(comparison.theory.save(folder / "theory.nc")),
        "runs": str(comparison.runs.save(folder / "runs.nc")),
    }


def show(trajectory: "Trajectory", flags: OutputFlags) -> list[str]:
    """Print the curve, write the files of these flags, and return their names.

    Nothing is printed if the flags ask for JSON or silence.
    """
    if flags.talks:
        print_curve(trajectory)
    if flags.out is not None:
        trajectory.save(flags.out)
    if flags.plot is not None:
        from tutelage.plot import save_figure

        save_figure(trajectory.plot(), flags.plot)
    files = [str(path) for path in (flags.out, flags.plot) if path is not None]
    if flags.talks:
        print_field("wrote", files)
    return files
