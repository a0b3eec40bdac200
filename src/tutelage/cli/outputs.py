"""Files that a command writes: refused before the computation where they could not be written after it.

What the disk refuses is an OSError that names the file; app.py turns it into one message.
"""

import tempfile
from pathlib import Path
from typing import Any

from tutelage._errors import InputError
from tutelage._files import require_place
from tutelage.cli.flags import OutputFlags

REPORT = {"figure": "compare.png", "page": "compare.html", "theory": "theory.nc", "runs": "runs.nc"}


def check_outputs(flags: OutputFlags) -> None:
    """Endings, folders and permissions; nothing is left behind."""
    if flags.out is not None and flags.out.suffix != ".nc":
        raise InputError(f"the trajectory is to go to {flags.out}; it is NetCDF, so the name must end in .nc.")
    if flags.plot is not None:
        from tutelage.plot import check_figure_path

        check_figure_path(flags.plot)
    for path in _paths(flags):
        _require_writable(require_place(path).parent, path)


def check_folder(folder: Path) -> None:
    """Make the folder of a report, if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"{folder} is a file; give the name of a folder.") from None
    _require_writable(folder, folder)


def _require_writable(folder: Path, what: Path) -> None:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        error.filename = str(what)
        raise


def write_report(comparison: Any, folder: Path) -> dict[str, str]:
    """Figure, page and both trajectories of a comparison; returns their names."""
    from tutelage.plot import save_figure

    paths = {name: folder / file for name, file in REPORT.items()}
    save_figure(comparison.plot(), paths["figure"])
    comparison.save_html(paths["page"])
    comparison.theory.save(paths["theory"])
    comparison.runs.save(paths["runs"])
    return {name: str(path) for name, path in paths.items()}


def write_outputs(trajectory: Any, flags: OutputFlags) -> list[str]:
    """Write what was asked for and return the names."""
    if flags.out is not None:
        trajectory.save(flags.out)
    if flags.plot is not None:
        from tutelage.plot import plot_trajectory, save_figure

        save_figure(plot_trajectory(trajectory), flags.plot)
    return [str(path) for path in _paths(flags)]


def _paths(flags: OutputFlags) -> list[Path]:
    return [path for path in (flags.out, flags.plot) if path is not None]
