"""The folder of a sweep: what was asked (spec.json), and one file per finished chunk.

A file appears whole or not at all, its name carries the hash of its bytes, and nothing else in the folder needs to be
believed: stop a sweep in any way, and the folder is a shorter sweep. docs/how-to tells how to read it with plain xarray.
"""

import errno
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutelage._files import is_unfinished, write_bytes
from tutelage._version import __version__
from tutelage.sweeps import manifest
from tutelage.sweeps.chunk_file import DAMAGED, Kept, decode, encode, is_whole, name_of
from tutelage.sweeps.errors import StoreError
from tutelage.sweeps.lock import NAME as LOCK
from tutelage.sweeps.lock import only_writer, writer_of
from tutelage.sweeps.outcome import Outcome, Task
from tutelage.sweeps.status import StoreStatus, commonest

FAMILY, VERSION = "tutelage-sweep", 1
SPEC, CHUNKS = "spec.json", "chunks"
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SECONDS_BETWEEN_SAVES = 30.0


def spec_key(spec: Mapping[str, Any]) -> str:
    """What makes two sweeps the same: the hash of the spec as JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


class Store:
    """Read at any time; write inside `with store.writing()`, which one process at a time can enter."""

    def __init__(self, folder: Path, head: Mapping[str, Any]):
        """Use `create` or `open`."""
        self.folder = folder
        self.spec: dict[str, Any] = head["spec"]
        self.key: str = head["key"]
        self.version: str = head["tutelage_version"]
        self.chunks: int = head["chunks"]
        self.points: int = head["points"]
        self._writing = False
        self._names = manifest.listing(folder / CHUNKS)
        self._entries = manifest.load(folder, self.key)
        self._saved = time.monotonic()

    @classmethod
    def create(cls, folder: str | Path, spec: Mapping[str, Any], *, chunks: int, points: int) -> "Store":
        """The store of this sweep: begun, or opened if the folder holds the same sweep already; any other is refused."""
        folder = Path(folder)
        if (folder / SPEC).exists():
            return cls.open(folder)._require_same(spec)
        _require_empty(folder)
        head = {"schema": f"{FAMILY}/{VERSION}", "tutelage_version": __version__, "key": spec_key(spec)}
        head |= {"chunks": chunks, "points": points, "spec": dict(spec)}
        with _disk_errors(folder, "nothing has been computed yet"):
            (folder / CHUNKS).mkdir(parents=True, exist_ok=True)
            with only_writer(folder):
                if not (folder / SPEC).exists():
                    write_bytes(folder / SPEC, json.dumps(head, indent=1, allow_nan=False).encode(), durable=True)
        return cls.open(folder)._require_same(spec)

    @classmethod
    def open(cls, folder: str | Path) -> "Store":
        """The store in a folder where a sweep has been begun."""
        folder = Path(folder)
        try:
            head = json.loads((folder / SPEC).read_bytes())
            family, _, version = str(head["schema"]).partition("/")
            known = family == FAMILY and int(version) <= VERSION
            whole = known and spec_key(head["spec"]) == head["key"] and {"chunks", "points", "tutelage_version"} <= set(head)
        except OSError:
            raise StoreError(f"{folder} is not the folder of a sweep (it has no {SPEC}); give one that is.") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StoreError(f"{folder / SPEC} is damaged; restore it, or sweep into another folder.") from None
        if not known:
            raise StoreError(
                f"{folder} has the schema {head['schema']!r}; this tutelage reads {FAMILY}/{VERSION}. Update it."
            )
        if not whole:
            raise StoreError(f"{folder / SPEC} was changed after the sweep began; restore it, or sweep into another folder.")
        return cls(folder, head)

    def _require_same(self, spec: Mapping[str, Any]) -> "Store":
        if spec_key(spec) != self.key:
            theirs, ours = self.spec, json.loads(json.dumps(spec))
            differing = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
            raise StoreError(
                f"{self.folder} holds another sweep, which differs in {', '.join(differing)}; "
                "give another folder, or remove this one."
            )
        return self

    # Writing.

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Inside, this process alone writes: what others have finished is known, what they left unfinished is removed."""
        with only_writer(self.folder):
            for place in (self.folder, self.folder / CHUNKS):
                for leftover in filter(is_unfinished, place.iterdir()):
                    leftover.unlink(missing_ok=True)
            self.refresh()
            self._writing = True
            try:
                yield
            finally:
                self._writing = False
                self._save_manifest()

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep a chunk. When this returns it is on the disk, under its name, and stays there."""
        if not self._writing:
            raise RuntimeError("put is called outside `with store.writing()`")
        data = encode(task, outcome, self.key)
        name, before = name_of(task.index, data), self._names.get(task.index)
        with _disk_errors(self.folder, f"{len(self._names)} of {self.chunks} chunks are kept"):
            write_bytes(self.folder / CHUNKS / name, data, durable=True)
            if before not in (None, name):
                (self.folder / CHUNKS / str(before)).unlink(missing_ok=True)
        self._names[task.index] = name
        self._entries[name] = manifest.Entry.of((failure.error for failure in outcome.failures), len(task.points))
        if time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES:
            self._save_manifest()

    def set_aside_damaged(self) -> tuple[str, ...]:
        """Rename the files that do not match their hash, so that their chunks count as missing; the names they had."""
        if not self._writing:
            raise RuntimeError("set_aside_damaged is called outside `with store.writing()`")
        damaged = self.verify()
        for name in damaged:
            path = self.folder / CHUNKS / name
            path.rename(path.with_suffix(f".{DAMAGED}"))
            self._entries.pop(name, None)
        self.refresh()
        return damaged

    def _save_manifest(self) -> None:
        names = set(self._names.values())
        self._entries = {name: entry for name, entry in self._entries.items() if name in names}
        manifest.save(self.folder, self.key, self._entries)
        self._saved = time.monotonic()

    # Reading.

    @property
    def done(self) -> frozenset[int]:
        """The numbers of the chunks that are there."""
        return frozenset(self._names)

    @property
    def failed(self) -> frozenset[int]:
        """The numbers of the chunks with points that failed."""
        return frozenset(index for index, entry in self._all_entries().items() if entry.failed)

    def refresh(self) -> None:
        """Look into the folder again: another process may have written to it."""
        self._names = manifest.listing(self.folder / CHUNKS)

    def read(self, index: int) -> Kept:
        """One chunk, checked by its hash."""
        if index not in self._names:
            raise StoreError(f"chunk {index} is not in {self.folder} yet; run the sweep again to go on with it.")
        name = self._names[index]
        data = self._bytes(name)
        if not is_whole(name, data):
            raise StoreError(
                f"chunk {index} in {self.folder} is damaged (its bytes do not match its hash); "
                "run the sweep again and it will be computed anew."
            )
        return decode(data)

    def verify(self) -> tuple[str, ...]:
        """Read every file; the names of those whose bytes do not match their hash, or that are of another sweep."""
        return tuple(name for name in self._names.values() if not self._is_whole(name))

    def _is_whole(self, name: str) -> bool:
        data = self._bytes(name)
        return is_whole(name, data) and self._entry(name, data) is not None

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.folder / CHUNKS / name).read_bytes()
        except FileNotFoundError:  # replaced by another process since we looked
            return b""

    def _entry(self, name: str, data: bytes | None = None) -> manifest.Entry | None:
        if name not in self._entries:
            entry = manifest.entry_of(name, self._bytes(name) if data is None else data, self.key)
            if entry is None:
                return None
            self._entries[name] = entry
        return self._entries[name]

    def _all_entries(self) -> dict[int, manifest.Entry]:
        found = ((index, self._entry(name)) for index, name in self._names.items())
        return {index: entry for index, entry in found if entry is not None}

    def status(self) -> StoreStatus:
        """How far the sweep is, from the names of the files and the cache; `verify` reads them all."""
        entries = self._all_entries()
        return StoreStatus(
            folder=str(self.folder),
            chunks=self.chunks,
            chunks_done=len(entries),
            points=self.points,
            points_done=sum(entry.points for entry in entries.values()),
            points_failed=sum(entry.failed for entry in entries.values()),
            errors=commonest(entry.errors for entry in entries.values()),
            damaged=len(self._names) - len(entries),
            writer=writer_of(self.folder),
            version=self.version,
        )


def _require_empty(folder: Path) -> None:
    """A new sweep begins in a folder of its own."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; a sweep needs a folder of its own.")
    if folder.is_dir() and any(path.name not in (CHUNKS, LOCK) and not is_unfinished(path) for path in folder.iterdir()):
        raise StoreError(f"{folder} holds other files and no sweep; give a new or empty folder.")


@contextmanager
def _disk_errors(folder: Path, kept: str) -> Iterator[None]:
    """Inside, what the disk refuses is said in one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StoreError(
                f"no space is left on the disk of {folder}; {kept}. Make room and run it again to go on."
            ) from error
        raise StoreError(
            f"{folder} cannot be written to ({error.strerror}); {kept}. Mend that and run it again to go on."
        ) from error
