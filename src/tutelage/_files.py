"""Writing files so that a reader never sees half of one: whatever is written, it is complete or not there."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tutelage._errors import InputError


def require_place(path: Path) -> Path:
    """The path, if a file can be put there; else a sentence saying why not."""
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; it must. Create it first.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file in it.")
    return path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name to write to, in the same folder; moved to `path` at the end, removed if anything goes wrong."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
