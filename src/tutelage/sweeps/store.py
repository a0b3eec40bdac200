"""The folder of a sweep: what was asked (spec.json), and one file per finished chunk.

A file appears whole or not at all, so that an interrupted sweep is a shorter one. Its
name has the number of the chunk, its points and its failed points, so that nothing is
opened to see the state of a sweep, and a hash of its bytes and of the sweep, so that a
damaged or foreign file is noticed. One process at a time writes. The system frees its
lock (filelock) however the process ends. Nothing here imports JAX, because `tutelage
sweep status` is quick.
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

SCHEMA = "tutelage-sweep/2"
CHUNK_SCHEMA = "tutelage-sweep-chunk/2"

# Names in the folder
SPEC = "spec.json"
CHUNKS = "chunks"
LOCK = "lock"
WRITER = "writer.txt"
NAME = re.compile(
    r"chunk-(?P<index>\d{6,})-(?P<points>\d+)-(?P<failed>\d+)-[0-9a-f]{16}\.nc"
)

MOST_ERRORS = 5  # different errors shown; all are in the files
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # some network file systems
# Seconds: `writer_of` has the lock for an instant, and a killed process has it until
# the system has cleared it away.
PATIENCE = 0.5


@dataclass(frozen=True)
class Task:
    """One chunk to compute.

    index: its number, which names its file. points: their numbers. payload: all else
    that the computation needs.
    """

    index: int
    points: tuple[int, ...]
    payload: dict[str, Any]


# Variables by name: dims after the first, which is `point`, and values. "failure" is
# always there: the error of each point, "" where it has numbers.
Chunk = dict[str, tuple[tuple[str, ...], np.ndarray]]


def name_end(data: bytes, key: str) -> str:
    """Return the end of the name of a file with these bytes of this sweep."""
    return f"-{hashlib.sha256(key.encode() + data).hexdigest()[:16]}.nc"


def spec_key(spec: dict[str, Any]) -> str:
    """Return the hash of a spec, equal for equal sweeps.

    It is that of the spec as JSON, whatever the order of its keys.
    """
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StoreStatus:
    """The state of a folder.

    errors: the commonest errors, with their counts. writer: the process that writes to
    the folder at this moment, or None.
    """

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
        """True if every chunk is there."""
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
            lines.append(
                "  not running; run the same sweep into the same folder to go on"
            )
        if self.points_failed:
            points = "point" if self.points_failed == 1 else "points"
            lines.append(f"  {self.points_failed} {points} failed:")
            lines += [f"    {count} x {error}" for error, count in self.errors.items()]
        return "\n".join(lines)


class Store:
    """The folder of a sweep that has been begun (`create`).

    Read at any time; write inside `with store.writing()`.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        file = self.folder / SPEC
        try:
            head = json.loads(file.read_bytes())
            schema = head["schema"]
            self.version = head["tutelage_version"]
            self.spec = head["spec"]
            self.chunks = head["chunks"]
            self.points = head["points"]
            self.key = spec_key(self.spec)
        except OSError:
            raise InputError(
                f"{folder} is not the folder of a sweep (it has no {SPEC}); "
                "give one that is."
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"{file} is damaged; restore it, or sweep into another folder."
            ) from None
        if schema != SCHEMA:
            raise InputError(
                f"{folder} has the schema {schema!r}; this tutelage reads {SCHEMA}. "
                "Sweep into another folder, or use the tutelage that wrote it."
            )
        self.refresh()

    @classmethod
    def create(
        cls, folder: str | Path, spec: dict[str, Any], *, chunks: int, points: int
    ) -> Store:
        """Begin a sweep in a folder, or open the folder if it holds this sweep already.

        Raise `InputError` if it holds another one.
        """
        folder = Path(folder)
        key = spec_key(spec)
        if not (folder / SPEC).exists():
            _require_empty(folder)
            head = {
                "schema": SCHEMA,
                "tutelage_version": __version__,
                "chunks": chunks,
                "points": points,
                "spec": dict(spec),
            }
            with _disk_errors(folder, "nothing has been computed yet"):
                (folder / CHUNKS).mkdir(parents=True, exist_ok=True)
                with only_writer(folder):
                    if not (folder / SPEC).exists():
                        text = json.dumps(head, indent=1, allow_nan=False)
                        write_bytes(folder / SPEC, text.encode())
        store = cls(folder)
        if key != store.key:
            asked = json.loads(json.dumps(spec))
            differing = []
            for name in sorted({*store.spec, *asked}):
                if store.spec.get(name) != asked.get(name):
                    differing.append(name)
            raise InputError(
                f"{folder} holds another sweep, which differs in "
                f"{', '.join(differing)}; give another folder."
            )
        return store

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Return a context in which this process alone writes to the folder.

        The chunks that other processes have finished are known inside.
        """
        with only_writer(self.folder):
            self.refresh()
            yield

    def put(self, task: Task, chunk: Chunk) -> None:
        """Keep a chunk.

        A name on the disk has all of its bytes, whenever the process is killed or the
        power fails.
        """
        import xarray as xr

        variables = {}
        for name, (dims, values) in chunk.items():
            variables[name] = (("point", *dims), values)
        points = np.array(task.points, dtype=np.int64)
        attributes = {
            "schema": CHUNK_SCHEMA,
            "tutelage_version": __version__,
            "sweep": self.key,
            "chunk": task.index,
        }
        dataset = xr.Dataset(variables, {"point": points}, attributes)
        data = bytes(dataset.to_netcdf(engine="h5netcdf"))
        _, errors = chunk["failure"]
        failed = np.count_nonzero(errors != "")
        ending = name_end(data, self.key)
        name = f"chunk-{task.index:06d}-{points.size}-{failed}{ending}"
        before = self._files.get(task.index)
        kept = f"{len(self._files)} of {self.chunks} chunks are kept"
        with _disk_errors(self.folder, kept):
            write_bytes(self.folder / CHUNKS / name, data)
            if before is not None and before[0] != name:
                (self.folder / CHUNKS / before[0]).unlink(missing_ok=True)
        self._add(name)

    def remove_damaged(self) -> tuple[str, ...]:
        """Remove the files that do not match their hash, and return their names.

        Their chunks count as missing from now on.
        """
        names = [file[0] for file in self._files.values()]
        damaged = tuple(name for name in names if self._bytes(name) is None)
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
        files = self._files.items()
        return frozenset(index for index, file in files if int(file["failed"]))

    def refresh(self) -> None:
        """Look into the folder again, in one pass over its names.

        Another process may have written to it.
        """
        self._files: dict[int, re.Match[str]] = {}
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder / CHUNKS), reverse=True):
                self._add(name)

    def _add(self, name: str) -> None:
        match = NAME.fullmatch(name)
        if match is not None:
            self._files[int(match["index"])] = match

    def read(self, index: int) -> tuple[np.ndarray, Chunk]:
        """Return the numbers of the points of a chunk, and the chunk.

        h5py reads them in a sixth of the time that xarray takes.
        """
        import h5py

        data = self._bytes(self._files[index][0])
        if data is None:
            raise InputError(
                f"chunk {index} in {self.folder} is damaged (its hash differs); "
                "run the sweep again."
            )
        chunk: Chunk = {}
        file: Any  # the library has no types for what is inside
        with h5py.File(io.BytesIO(data), "r") as file:
            for name, variable in file.items():
                if variable.is_scale:  # the numbers of the points, and dims
                    continue
                paths = [dim[0].name for dim in variable.dims]
                dims = tuple(path.rpartition("/")[2] for path in paths)
                if variable.dtype.kind == "O":
                    variable = variable.asstr()
                chunk[name] = (dims[1:], np.asarray(variable[()]))
            return file["point"][()], chunk

    def _bytes(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if its name has another hash.

        The file is damaged then, or of another sweep. None also if another process has
        replaced it since we looked.
        """
        try:
            data = (self.folder / CHUNKS / name).read_bytes()
        except FileNotFoundError:
            return None
        if not name.endswith(name_end(data, self.key)):
            return None
        return data

    def status(self) -> StoreStatus:
        """Return the progress of the sweep, from the names of the files.

        Those with failures are read for the errors.
        """
        errors: Counter[str] = Counter()
        for index in sorted(self.failed):
            with suppress(InputError):  # damaged
                _, chunk = self.read(index)
                _, errors_of_chunk = chunk["failure"]
                errors.update(error for error in errors_of_chunk if error)
        files = self._files.values()
        return StoreStatus(
            folder=str(self.folder),
            chunks=self.chunks,
            chunks_done=len(self._files),
            points=self.points,
            points_done=sum(int(file["points"]) for file in files),
            points_failed=sum(int(file["failed"]) for file in files),
            errors=dict(errors.most_common(MOST_ERRORS)),
            writer=writer_of(self.folder),
            version=self.version,
        )


def _require_empty(folder: Path) -> None:
    """Refuse a folder for a new sweep that is a file or holds other files."""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"{folder} is a file; give the name of a folder for this sweep."
        )
    visible = [path.name for path in folder.glob("[!.]*")]
    if any(name not in (CHUNKS, LOCK, WRITER) for name in visible):
        raise InputError(
            f"{folder} holds other files and no sweep; give a new or empty folder."
        )


@contextmanager
def _disk_errors(folder: Path, kept: str) -> Iterator[None]:
    """Return a context that turns an error of the disk into one message."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror}); {kept}. "
            "Fix that and run it again to go on."
        ) from error


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Return a context in which no other process writes to the folder.

    If one does already, a message names it.
    """
    lock = _lock(folder)
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout:
        raise InputError(
            f"{folder} is being written to by {_writer(folder)}; "
            "wait for it, stop it, or give another folder."
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise InputError(
                f"{folder / LOCK} cannot be opened ({error.strerror}); "
                "fix that, or give another folder."
            ) from error
        message = (
            f"the file system of {folder} keeps no locks; "
            "see to it yourself that only one process writes there."
        )
        warnings.warn(message, TutelageWarning, stacklevel=4)
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    writer = f"process {os.getpid()} on {socket.gethostname()} since {since}"
    try:
        with suppress(OSError):  # a full disk is reported where it matters
            write_bytes(folder / WRITER, writer.encode())
        yield
    finally:
        with suppress(OSError):
            (folder / WRITER).unlink()
        lock.release()


def writer_of(folder: Path) -> str | None:
    """Return the process that writes to the folder at this moment, in words."""
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
    """Return a lock that follows no link and leaves the content alone.

    A soft lock would outlive its process and block the next run.
    """
    return FileLock(folder / LOCK, fallback_to_soft=False)


def _writer(folder: Path) -> str:
    try:
        return (folder / WRITER).read_text()
    except (OSError, UnicodeDecodeError):
        return "another process"
