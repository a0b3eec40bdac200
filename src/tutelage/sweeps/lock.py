"""One writer per folder. The system holds the lock for us (flock) and frees it when the process ends, however it ends.

So a lock left by a dead process does not exist: the file stays behind with the name of whoever had it, but is free. The
file is never removed, for two processes could then hold two files of that name.
"""

import errno
import json
import os
import socket
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tutelage._errors import TutelageWarning
from tutelage.sweeps.errors import StoreError

NAME = "lock"
TRIES, PAUSE = 10, 0.05
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a symbolic link is an error; a pipe does not block
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # some network file systems


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Inside, no other process writes to the folder; if one does, one sentence says which."""
    descriptor = _opened(folder)
    try:
        if not _take(descriptor, folder):
            raise StoreError(
                f"{folder} is being written to by {_owner(descriptor)}; wait for it, stop it, or give another folder."
            )
        _sign(descriptor, {"pid": os.getpid(), "host": socket.gethostname()})
        yield
        _sign(descriptor, None)
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    """The lock file, made if it is not there. It will be emptied, so it must not be a name for another file."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | NO_LINK, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _foreign(folder) from None
        raise StoreError(f"{folder} cannot be written to ({error.strerror}); fix that, or give another folder.") from error
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        os.close(descriptor)
        raise _foreign(folder)
    return descriptor


def _foreign(folder: Path) -> StoreError:
    return StoreError(f"{folder / NAME} is a link or no plain file; it must be a file of the sweep alone. Remove it.")


def writer_of(folder: Path) -> str | None:
    """Who writes to the folder at this moment, in words."""
    import fcntl

    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | NO_LINK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def _take(descriptor: int, folder: Path) -> bool:
    import fcntl  # not on Windows

    try:
        for _ in range(TRIES):  # `writer_of` has it for an instant, a killed process until the system has cleared it away
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(PAUSE)
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        sentence = f"the file system of {folder} keeps no locks; see to it yourself that only one process writes there."
        warnings.warn(sentence, TutelageWarning, stacklevel=4)
        return True


def _sign(descriptor: int, owner: dict[str, object] | None) -> None:
    """For the message to others only; that we hold the lock does not depend on it."""
    with suppress(OSError):  # a full disk is reported where it matters
        os.ftruncate(descriptor, 0)
        if owner is not None:
            os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _owner(descriptor: int) -> str:
    try:
        owner = json.loads(os.pread(descriptor, 1000, 0))
        return f"process {owner['pid']} on {owner['host']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
