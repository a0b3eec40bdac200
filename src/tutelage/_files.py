"""Writing files so that a reader never sees half of one. On a full disk, libraries that write by themselves leave parts behind,
and HDF5 ends the process; so a file is made in memory and then written in one go (`write_bytes`)."""

import os
import uuid
from pathlib import Path

from tutelage.errors import InputError


def require_place(path: Path) -> Path:
    """The path, if a file can be put there; else a sentence saying why not."""
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file in it.")
    return path


def write_bytes(path: Path, data: bytes | memoryview) -> Path:
    """Put these bytes under this name, all of them or (with an OSError) none, also if the power fails."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # a killed process leaves it
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # the bytes are on the disk before the name is
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)  # not the temporary name
        raise
    return path


def is_private(path: Path) -> bool:
    """Whether nobody but this user could have written this file or folder."""
    if os.name != "posix":
        return True
    about = path.stat()
    return about.st_uid == os.getuid() and not about.st_mode & 0o022
