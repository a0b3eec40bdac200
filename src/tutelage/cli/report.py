"""Results of a command: tables for people, JSON for programs, and files, whose places are checked before the computation.

Nothing here imports NumPy or JAX before there is a result.
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
    from tutelage.trajectory import Trajectory
    from tutelage.validity import Validity

SHOWN = 6  # the largest matrix printed in full


def print_curve(trajectory: "Trajectory") -> None:
    """Print the problem, the error at three times, the overlaps at the end, and the status."""
    import numpy as np
    from rich.table import Table

    from tutelage.plot.labels import problem_in_words, settings_in_words
    from tutelage.storage import error_name

    problem = trajectory.problem
    assert problem is not None
    who, how = problem_in_words(problem)
    console = plain_console()
    console.print(who, style="bold")
    console.print(", ".join([how, *settings_in_words(trajectory)]).replace("$", ""), end="\n\n")
    words, chosen = "", None
    if np.ndim(trajectory.status_code):
        finished = np.flatnonzero(np.asarray(trajectory.status_code) == Status.FINISHED)
        chosen = finished if finished.size else np.arange(len(trajectory.error))
        words = f", mean of {chosen.size} runs" + (" that finished" if chosen.size < len(trajectory.error) else "")

    def mean(name: str) -> np.ndarray:
        values = np.asarray(getattr(trajectory, name))
        return values if chosen is None else values[chosen].mean(axis=0)

    times = np.asarray(trajectory.times)
    picked = sorted({0, len(times) // 2, len(times) - 1})
    curve = Table.grid(padding=(0, 3))
    curve.add_row("alpha", *(f"{times[i]:g}" for i in picked))
    error, loss = mean("error"), mean("loss")
    curves = {"e_g" if problem.labels.metric == "squared" else error_name(problem): error}
    if np.any(np.isfinite(loss)) and not np.array_equal(loss, error, equal_nan=True):
        curves["training loss"] = loss
    for name, values in curves.items():
        for task, column in enumerate(values.T if values.ndim > 1 else [values]):
            of = f" of task {task + 1}" if values.ndim > 1 else ""
            curve.add_row(f"{name}{of}{words}", *(f"{column[i]:.4g}" for i in picked))
    console.print(curve, end="\n\n")
    matrices = {name: mean(name)[-1] for name in ("R", "Q")}
    if problem.student.train_readout:
        readout = mean("readout")[-1]
        matrices["readout"] = readout[:, None] if readout.ndim == 1 else readout.reshape(-1, readout.shape[-1])
    table = Table.grid(padding=(0, 5))
    table.add_row(*(f"{name} at alpha = {times[-1]:g}" for name in matrices))
    table.add_row(*map(_matrix, matrices.values()))
    console.print(table, end="\n\n")
    print_field("status", [trajectory.status])


def print_field(name: str, lines: list[str]) -> None:
    """Print a name, and next to it one or several lines."""
    for i, line in enumerate(lines):
        print(f"{'' if i else name:<8}  {line}")


def plain_console() -> "Console":
    """Standard output; brackets and colons are text, not commands."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _matrix(values: "np.ndarray") -> str:
    if max(values.shape) > SHOWN:
        size = " x ".join(map(str, values.shape))
        return f"{size} entries from {values.min():.4g} to {values.max():.4g}"
    texts = [[f"{x:.4f}" if abs(x) < 1e4 else f"{x:.2e}" for x in row] for row in values]
    width = max(len(text) for row in texts for text in row)
    return "\n".join("  ".join(text.rjust(width) for text in row) for row in texts)


def to_json(
    trajectory: "Trajectory", start: "Table", validity: "Validity | None", files: list[str], interrupted: str = ""
) -> str:
    """One JSON object. interrupted: what Ctrl-C did, in words."""
    from tutelage.storage import error_name

    axis = trajectory.status_code.ndim  # of time: the first, or that after the runs
    names = [name for name in ("R", "Q", "readout", "bias") if name in trajectory.variables]
    return dumps(
        {
            "problem": None if trajectory.problem is None else trajectory.problem.to_dict(),
            "start": start,
            "settings": dict(trajectory.settings),
            "status": interrupted or trajectory.status,
            "finished": trajectory.finished and not interrupted,
            "times": trajectory.times,
            "error": trajectory.error,
            "error_name": error_name(trajectory.problem),
            "loss": trajectory.loss,
            "final": {name: trajectory[name].take(-1, axis) for name in names},
            "validity": None if validity is None else asdict(validity),
            "files": files,
        }
    )


def dumps(answer: "Table") -> str:
    """JSON of nested tables and arrays; numbers that JSON cannot hold become null."""
    text = json.dumps(answer, default=lambda array: array.tolist())
    return json.dumps(json.loads(text, parse_constant=lambda _: None))


def check_outputs(flags: OutputFlags) -> None:
    """Check endings, folders and permissions; no file is left behind."""
    if flags.out is not None and flags.out.suffix != ".nc":
        raise InputError(f"the trajectory is to go to {flags.out}; it is NetCDF, so the name must end in .nc.")
    if flags.plot is not None:
        from tutelage.plot import check_figure_path

        check_figure_path(flags.plot)
    for path in filter(None, (flags.out, flags.plot)):
        check_folder(require_place(path).parent)


def check_folder(folder: Path) -> None:
    """Create the folder if it does not exist, and see whether it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except FileExistsError:
        raise InputError(f"{folder} is a file; give the name of a folder.") from None
    except OSError as error:
        error.filename = str(folder)
        raise


def write_report(comparison: "Comparison", folder: Path) -> dict[str, str]:
    """Write figure, page and both trajectories of a comparison; returns their names."""
    from tutelage.plot import save_figure

    return {
        "figure": str(save_figure(comparison.plot(), folder / "compare.png")),
        "page": str(comparison.save_html(folder / "compare.html")),
        "theory": str(comparison.theory.save(folder / "theory.nc")),
        "runs": str(comparison.runs.save(folder / "runs.nc")),
    }


def show(trajectory: "Trajectory", flags: OutputFlags) -> list[str]:
    """Print the curve, unless these flags ask for JSON or silence, and write their files; the names of the files."""
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
