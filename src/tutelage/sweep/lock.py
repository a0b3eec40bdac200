"""One writer per folder. The system holds the lock for us (flock) and frees it when the process ends, however it ends.

So a lock left by a dead process does not exist: the file stays behind with the name of whoever had it, but is free. The
file is never removed, for two processes could then hold two files of that name.
"""

import errno
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tutelage._errors import TutelageWarning
from tutelage.sweep.errors import StoreError

NAME = "lock"
TRIES, PAUSE = 10, 0.05
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # some network file systems


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Inside, no other process writes to the folder; if one does, one sentence says which."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written to ({error.strerror}); mend that, or give another folder.") from error
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


def writer_of(folder: Path) -> str | None:
    """Who writes to the folder at this moment, in words."""
    import fcntl

    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY)
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
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
