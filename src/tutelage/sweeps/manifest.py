"""What the chunks of a folder hold, without opening them: a cache, rebuilt from the files whenever it is missing or behind.

An entry is kept under the name of its file. The name carries the hash of the content, so an entry can be superfluous but
never wrong, and it does not matter when the cache was last written.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tutelage._files import write_bytes
from tutelage.sweeps.chunk_file import errors_of, index_and_digest, is_whole

NAME, VERSION = "manifest.json", 1
MOST_ERRORS = 5  # different errors kept per chunk; all are in the file itself


@dataclass(frozen=True)
class Entry:
    """One chunk. points: how many; failed: how many of them; errors: how often each error, the commonest ones."""

    points: int
    failed: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, errors: Iterable[str], points: int) -> "Entry":
        counts = Counter(errors)
        return cls(points, counts.total(), dict(counts.most_common(MOST_ERRORS)))


def listing(folder: Path) -> dict[int, str]:
    """Chunk number -> name of its file: one pass over the names in the folder."""
    found: dict[int, str] = {}
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            parsed = index_and_digest(name)
            if parsed is not None:
                found.setdefault(parsed[0], name)
    return found


def entry_of(name: str, data: bytes, key: str) -> Entry | None:
    """The entry of the file with this name and these bytes, or None: damaged, or of another sweep."""
    errors = errors_of(data, key) if is_whole(name, data) else None
    return None if errors is None else Entry.of(errors[errors != ""], len(errors))


def load(folder: Path, key: str) -> dict[str, Entry]:
    """The cache of this sweep; empty where there is none that can be read."""
    try:
        found = json.loads((folder / NAME).read_bytes())
        if found["version"] == VERSION and found["sweep"] == key:
            return {name: Entry(**entry) for name, entry in found["chunks"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return {}


def save(folder: Path, key: str, entries: dict[str, Entry]) -> None:
    """Write the cache; where that is impossible, nothing is lost."""
    chunks = {name: asdict(entry) for name, entry in sorted(entries.items())}
    with suppress(OSError):
        write_bytes(folder / NAME, json.dumps({"version": VERSION, "sweep": key, "chunks": chunks}).encode())
