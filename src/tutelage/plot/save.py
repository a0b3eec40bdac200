"""Figures as files: png, pdf or svg, checked before the work and complete or absent after it."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tutelage._errors import InputError
from tutelage._files import require_place, write_bytes
from tutelage.plot.style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Suffix -> metadata that would otherwise hold the date: the same figure is the same file.
FORMATS: dict[str, dict[str, None]] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def check_figure_path(path: str | Path) -> Path:
    """The path, if a figure can be written there; else a sentence saying why not."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        given = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
        raise InputError(f"the figure {path} {given}; it must end in {', '.join(FORMATS)}.")
    return require_place(path)


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Write a figure; the ending chooses the format, and a reader never sees half a file."""
    path = check_figure_path(path)
    kind = path.suffix.lower()
    drawn = BytesIO()
    with style():
        figure.savefig(drawn, format=kind[1:], metadata=FORMATS[kind])
    return write_bytes(path, drawn.getvalue())
