"""One writer per folder. The system holds the lock (filelock) and frees it when the process ends, however it ends.

So a lock left by a dead process does not exist: its file stays behind, but is free. The file is never removed, for two
processes could then hold two files of that name. A second file names the writer, for messages only.
"""

import errno
import json
import os
import socket
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from tutelage._errors import TutelageWarning
from tutelage._files import write_bytes
from tutelage.sweeps.tasks import StoreError

LOCK, WRITER = LOCK_FILES = ("lock", "writer.json")
PATIENCE = 0.5  # seconds: `writer_of` has the lock for an instant, a killed process until the system has cleared it away
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # some network file systems


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Inside, no other process writes to the folder; if one does, a message says which."""
    if not _is_plain(folder / LOCK):
        raise StoreError(f"{folder / LOCK} is a link or not a plain file; it must be a file of the sweep alone. Remove it.")
    lock = _lock(folder)
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout:
        writer = _writer(folder)
        raise StoreError(
            f"{folder} is being written to by {writer}; wait for it, stop it, or give another folder."
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise StoreError(
                f"{folder} cannot be written to ({error.strerror}); fix that, or give another folder."
            ) from error
        message = f"the file system of {folder} keeps no locks; see to it yourself that only one process writes there."
        warnings.warn(message, TutelageWarning, stacklevel=4)
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    try:
        with suppress(OSError):  # a full disk is reported where it matters
            writer = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
            write_bytes(folder / WRITER, json.dumps(writer).encode())
        yield
    finally:
        with suppress(OSError):
            (folder / WRITER).unlink()
        lock.release()


def writer_of(folder: Path) -> str | None:
    """Who writes to the folder at this moment, in words."""
    if not (folder / LOCK).exists() or not _is_plain(folder / LOCK):
        return None
    try:
        with _lock(folder).acquire(blocking=False):
            return None
    except Timeout:
        return _writer(folder)
    except OSError:
        return None


def _lock(folder: Path) -> FileLock:
    return FileLock(folder / LOCK, fallback_to_soft=False)  # a lock that outlives its process would block the next run


def _is_plain(path: Path) -> bool:
    """Whether this is, or can become, a file with no other name: a lock must not touch anybody's file."""
    try:
        about = path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISREG(about.st_mode) and about.st_nlink == 1


def _writer(folder: Path) -> str:
    try:
        writer = json.loads((folder / WRITER).read_bytes())
        return f"process {writer['pid']} on {writer['host']} since {writer['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
