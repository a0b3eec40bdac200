"""What a rule returns: places, each with a message."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "tutelage"
PAPERS = ROOT / "papers" / "src" / "tutelage_papers"


class Finding(NamedTuple):
    """A place that breaks a rule."""

    file: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.message}"


def line_of(text: str, offset: int) -> int:
    """The number of the line, counted from 1, that holds this character of a text."""
    return text.count("\n", 0, offset) + 1


def dotted_package(file: Path) -> str:
    """The name of the package that a source file lives in."""
    home = PAPERS if file.is_relative_to(PAPERS) else PACKAGE
    return ".".join([home.name, *file.relative_to(home).parent.parts])
