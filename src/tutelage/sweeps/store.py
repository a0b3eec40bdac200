"""The folder of a sweep: what was asked (spec.json), and one file per finished chunk.

A file appears whole or not at all, so that an interrupted sweep is a shorter one. Its name has the number of the chunk, its
points and its failed points, so that nothing is opened to see the state of a sweep, and a hash of its bytes and of the sweep,
so that a damaged or foreign file is noticed. One process at a time writes. The system frees its lock (filelock) however the
process ends. Nothing here imports JAX, because `tutelage sweep status` is quick.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import socket
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from tutelage._files import write_bytes
from tutelage._version import __version__
from tutelage.errors import InputError, TutelageWarning

SCHEMA, CHUNK_SCHEMA = "tutelage-sweep/1", "tutelage-sweep-chunk/1"
SPEC, CHUNKS, LOCK, WRITER = "spec.json", "chunks", "lock", "writer.txt"
NAME = re.compile(r"chunk-(?P<index>\d{6,})-(?P<points>\d+)-(?P<failed>\d+)-[0-9a-f]{16}\.nc")
MOST_ERRORS = 5  # different errors shown; all are in the files
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # some network file systems
PATIENCE = 0.5  # seconds: `writer_of` has the lock for an instant, a killed process until the system has cleared it away


@dataclass(frozen=True)
class Task:
    """One chunk to compute. index: its number, which names its file. points: their numbers. payload: all else it needs."""

    index: int
    points: tuple[int, ...]
    payload: dict[str, Any]


# Variables by name: dims after the first, which is `point`, and values. "failure" is always there: the error of each point,
# "" where it has numbers.
Chunk = dict[str, tuple[tuple[str, ...], np.ndarray]]


def name_end(data: bytes, key: str) -> str:
    """How the name of a file with these bytes of this sweep ends."""
    return f"-{hashlib.sha256(key.encode() + data).hexdigest()[:16]}.nc"


def spec_key(spec: dict[str, Any]) -> str:
    """What makes two sweeps the same: the hash of the spec as JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


@dataclass(frozen=True)
class StoreStatus:
    """The state of a folder. errors: how often each error, the commonest ones. writer: who works on it now, or None."""

    folder: str
    chunks: int
    chunks_done: int
    points: int
    points_done: int
    points_failed: int
    errors: dict[str, int]
    writer: str | None
    version: str

    @property
    def complete(self) -> bool:
        """Whether every chunk is there."""
        return self.chunks_done == self.chunks

    def __str__(self) -> str:
        share = 100 * self.points_done // max(self.points, 1)
        lines = [
            f"{self.folder}: {self.points_done} of {self.points} points ({share} %), "
            f"{self.chunks_done} of {self.chunks} chunks, tutelage {self.version}"
        ]
        if self.writer is not None:
            lines.append(f"  running: {self.writer}")
        elif not self.complete:
            lines.append("  not running; run the same sweep into the same folder to go on")
        if self.points_failed:
            lines.append(f"  {self.points_failed} point{'s' * (self.points_failed != 1)} failed:")
            lines += [f"    {count} x {error}" for error, count in self.errors.items()]
        return "\n".join(lines)


class Store:
    """The folder of a sweep that has been begun (`create`). Read at any time; write inside `with store.writing()`."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        file = self.folder / SPEC
        try:
            head = json.loads(file.read_bytes())
            schema, self.version = head["schema"], head["tutelage_version"]
            self.spec, self.chunks, self.points = head["spec"], head["chunks"], head["points"]
            self.key = spec_key(self.spec)
        except OSError:
            raise InputError(f"{folder} is not the folder of a sweep (it has no {SPEC}); give one that is.") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{file} is damaged; restore it, or sweep into another folder.") from None
        if schema != SCHEMA:
            raise InputError(f"{folder} has the schema {schema!r}; this tutelage reads {SCHEMA}. Update it.")
        self.refresh()

    @classmethod
    def create(cls, folder: str | Path, spec: dict[str, Any], *, chunks: int, points: int) -> Store:
        """The store of this sweep: begun, or opened if the folder holds the same sweep already; any other is refused."""
        folder, key = Path(folder), spec_key(spec)
        if not (folder / SPEC).exists():
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{folder} is a file; give the name of a folder for this sweep.")
            if any(path.name not in (CHUNKS, LOCK, WRITER) for path in folder.glob("[!.]*")):
                raise InputError(f"{folder} holds other files and no sweep; give a new or empty folder.")
            head = {"schema": SCHEMA, "tutelage_version": __version__, "chunks": chunks, "points": points}
            with _disk_errors(folder, "nothing has been computed yet"):
                (folder / CHUNKS).mkdir(parents=True, exist_ok=True)
                with only_writer(folder):
                    if not (folder / SPEC).exists():
                        text = json.dumps(head | {"spec": dict(spec)}, indent=1, allow_nan=False)
                        write_bytes(folder / SPEC, text.encode())
        store = cls(folder)
        if key != store.key:
            theirs, ours = store.spec, json.loads(json.dumps(spec))
            differing = ", ".join(name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name))
            raise InputError(f"{folder} holds another sweep, which differs in {differing}; give another folder.")
        return store

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Inside, this process alone writes, and what others have finished is known."""
        with only_writer(self.folder):
            self.refresh()
            yield

    def put(self, task: Task, chunk: Chunk) -> None:
        """Keep a chunk. A name on the disk has all of its bytes, whenever the process is killed or the power fails."""
        import xarray as xr

        variables = {name: (("point", *dims), values) for name, (dims, values) in chunk.items()}
        points = np.array(task.points, dtype=np.int64)
        about = {"schema": CHUNK_SCHEMA, "tutelage_version": __version__, "sweep": self.key, "chunk": task.index}
        data = bytes(xr.Dataset(variables, {"point": points}, about).to_netcdf(engine="h5netcdf"))
        failed, before = np.count_nonzero(chunk["failure"][1] != ""), self._files.get(task.index)
        name = f"chunk-{task.index:06d}-{points.size}-{failed}{name_end(data, self.key)}"
        with _disk_errors(self.folder, f"{len(self._files)} of {self.chunks} chunks are kept"):
            write_bytes(self.folder / CHUNKS / name, data)
            if before is not None and before[0] != name:
                (self.folder / CHUNKS / before[0]).unlink(missing_ok=True)
        self._add(name)

    def remove_damaged(self) -> tuple[str, ...]:
        """Remove the files that do not match their hash, so that their chunks count as missing; the names they had."""
        damaged = tuple(file[0] for file in self._files.values() if self._bytes(file[0]) is None)
        for name in damaged:
            (self.folder / CHUNKS / name).unlink(missing_ok=True)
        self.refresh()
        return damaged

    @property
    def done(self) -> frozenset[int]:
        """The numbers of the chunks that are there."""
        return frozenset(self._files)

    @property
    def failed(self) -> frozenset[int]:
        """The numbers of the chunks with points that failed."""
        return frozenset(index for index, file in self._files.items() if int(file["failed"]))

    def refresh(self) -> None:
        """Look into the folder again, in one pass over its names: another process may have written to it."""
        self._files: dict[int, re.Match[str]] = {}
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder / CHUNKS), reverse=True):
                self._add(name)

    def _add(self, name: str) -> None:
        if match := NAME.fullmatch(name):
            self._files[int(match["index"])] = match

    def read(self, index: int) -> tuple[np.ndarray, Chunk]:
        """The numbers of the points of a chunk, and the chunk; by h5py, in a sixth of the time that xarray takes."""
        import h5py

        data = self._bytes(self._files[index][0])
        if data is None:
            raise InputError(f"chunk {index} in {self.folder} is damaged (its hash differs); run the sweep again.")
        chunk: Chunk = {}
        file: Any  # the library has no types for what is inside
        with h5py.File(io.BytesIO(data), "r") as file:
            for name, variable in file.items():
                if not variable.is_scale:  # the numbers of the points, and dims
                    dims = tuple(dim[0].name.rpartition("/")[2] for dim in variable.dims)
                    chunk[name] = dims[1:], np.asarray((variable.asstr() if variable.dtype.kind == "O" else variable)[()])
            return file["point"][()], chunk

    def _bytes(self, name: str) -> bytes | None:
        """What a file holds; None if it is damaged, of another sweep, or replaced by another process since we looked."""
        with suppress(FileNotFoundError):
            data = (self.folder / CHUNKS / name).read_bytes()
            return data if name.endswith(name_end(data, self.key)) else None
        return None

    def status(self) -> StoreStatus:
        """How far the sweep is, from the names of the files. Those with failures are read for the errors."""
        errors: Counter[str] = Counter()
        for index in sorted(self.failed):
            with suppress(InputError):  # damaged
                errors.update(filter(None, self.read(index)[1]["failure"][1]))
        return StoreStatus(
            folder=str(self.folder),
            chunks=self.chunks,
            chunks_done=len(self._files),
            points=self.points,
            points_done=sum(int(file["points"]) for file in self._files.values()),
            points_failed=sum(int(file["failed"]) for file in self._files.values()),
            errors=dict(errors.most_common(MOST_ERRORS)),
            writer=writer_of(self.folder),
            version=self.version,
        )


@contextmanager
def _disk_errors(folder: Path, kept: str) -> Iterator[None]:
    """Inside, what the disk refuses is said in one sentence."""
    try:
        yield
    except OSError as error:
        what = f"{folder} cannot be written to ({error.strerror}); {kept}."
        raise InputError(f"{what} Fix that and run it again to go on.") from error


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Inside, no other process writes to the folder; if one does, a message says which."""
    lock = _lock(folder)
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout:
        busy = f"{folder} is being written to by {_writer(folder)}; wait for it, stop it, or give another folder."
        raise InputError(busy) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            refused = f"{folder / LOCK} cannot be opened ({error.strerror}); fix that, or give another folder."
            raise InputError(refused) from error
        message = f"the file system of {folder} keeps no locks; see to it yourself that only one process writes there."
        warnings.warn(message, TutelageWarning, stacklevel=4)
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    try:
        with suppress(OSError):  # a full disk is reported where it matters
            write_bytes(folder / WRITER, f"process {os.getpid()} on {socket.gethostname()} since {since}".encode())
        yield
    finally:
        with suppress(OSError):
            (folder / WRITER).unlink()
        lock.release()


def writer_of(folder: Path) -> str | None:
    """Who writes to the folder at this moment, in words."""
    if not (folder / LOCK).exists():
        return None
    try:
        with _lock(folder).acquire(blocking=False):
            return None
    except Timeout:
        return _writer(folder)
    except OSError:
        return None


def _lock(folder: Path) -> FileLock:
    """A lock that follows no link and leaves the content alone. A soft one would outlive its process and block the next run."""
    return FileLock(folder / LOCK, fallback_to_soft=False)


def _writer(folder: Path) -> str:
    try:
        return (folder / WRITER).read_text()
    except (OSError, UnicodeDecodeError):
        return "another process"
