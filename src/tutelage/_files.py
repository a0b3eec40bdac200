"""Writing files so that a reader never sees half of one.

On a full disk, libraries that write by themselves leave parts behind, and HDF5 ends the
process; so a file is made in memory and then written in one go (`write_bytes`).
"""

import os
import stat
import uuid
from pathlib import Path

from tutelage.errors import InputError


def require_place(path: Path) -> Path:
    """Return the path if a file can be put there; refuse it if not."""
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file in it.")
    return path


def write_bytes(path: Path, data: bytes | memoryview) -> Path:
    """Write all of these bytes or (with an OSError) none, also if the power fails."""
    # a killed process leaves this file
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
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
    """Return True if nobody but this user could have written this file or folder."""
    if os.name != "posix":
        return True
    status = path.stat()
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.getuid() and not writable_by_others
