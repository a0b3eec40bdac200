"""Files that a command writes: refused before the computation where they could not be written after it."""

import tempfile
from pathlib import Path
from typing import Any

from tutelage._errors import InputError
from tutelage.cli.flags import OutputFlags


def check_outputs(flags: OutputFlags) -> None:
    """Endings, folders and permissions; nothing is left behind."""
    from tutelage.plot import check_figure_path

    if flags.out is not None and flags.out.suffix != ".nc":
        raise InputError(f"the trajectory is to go to {flags.out}; it is NetCDF, so the name must end in .nc.")
    if flags.plot is not None:
        check_figure_path(flags.plot)
    for path in _paths(flags):
        if not path.parent.is_dir():
            raise InputError(f"the folder {path.parent} does not exist; create it first.")
        if path.is_dir():
            raise InputError(f"{path} is a folder; give the name of a file.")
        try:
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None


def write_outputs(trajectory: Any, flags: OutputFlags) -> list[str]:
    """Write what was asked for and return the names."""
    try:
        if flags.out is not None:
            trajectory.save(flags.out)
        if flags.plot is not None:
            from tutelage.plot import plot_trajectory, save_figure

            save_figure(plot_trajectory(trajectory), flags.plot)
    except OSError as error:
        raise InputError(f"{error.filename or 'the output'} cannot be written: {error.strerror or error}.") from None
    return [str(path) for path in _paths(flags)]


def _paths(flags: OutputFlags) -> list[Path]:
    return [path for path in (flags.out, flags.plot) if path is not None]
